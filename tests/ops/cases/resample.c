#include "tests/ops/cases.h"

#include <stddef.h>

/* Up, down and up by a fraction, through every rule of coordinates. */
#define COORDINATES(MODE, RULE)                                                                                        \
    { "Resize", "float[1,2,5,4] - float{1,1,2,1.5}", .attrs = "mode=" MODE " coordinate_transformation_mode=" RULE,    \
      .grad = 1 },                                                                                                     \
    {                                                                                                                  \
        "Resize", "float[1,1,7,5] - - int64{1,1,3,2}", .attrs = "mode=" MODE " coordinate_transformation_mode=" RULE,  \
                                                       .grad = 1                                                       \
    }
#define EVERY_COORDINATE(MODE)                                                                                         \
    COORDINATES(MODE, "half_pixel"), COORDINATES(MODE, "half_pixel_symmetric"),                                        \
        COORDINATES(MODE, "pytorch_half_pixel"), COORDINATES(MODE, "align_corners"), COORDINATES(MODE, "asymmetric")
#define NEAREST(RULE)                                                                                                  \
    {                                                                                                                  \
        "Resize", "float[2,5,4] - float{1,1.6,0.6}",                                                                   \
            .attrs = "coordinate_transformation_mode=asymmetric nearest_mode=" RULE, .grad = 1                         \
    }
#define CROP "coordinate_transformation_mode=tf_crop_and_resize extrapolation_value=3.5 "

const struct zt_case zt_cases_resample[] = {
    EVERY_COORDINATE("nearest"),
    EVERY_COORDINATE("linear"),
    EVERY_COORDINATE("cubic"),
    NEAREST("round_prefer_floor"),
    NEAREST("round_prefer_ceil"),
    NEAREST("floor"),
    NEAREST("ceil"),
    { "Resize", "float[1,1,6,7] float{0.2,-0.1,0.7,1.2} - int64{4,5}", .attrs = CROP "axes=[2,-1]", .grad = 1 },
    { "Resize", "float[1,1,6,7] float{0.2,-0.1,0.7,1.2} - int64{4,5}", .attrs = CROP "axes=[2,-1] mode=linear",
      .grad = 1 },
    { "Resize", "float[1,1,6,7] float{0.9,1.3,0.2,0.1} - int64{9,1}", .attrs = CROP "axes=[3,2] mode=cubic",
      .grad = 1 },
    { "Resize", "float[3,17] - float{1,0.3}", .attrs = "mode=linear antialias=1", .grad = 1 },
    { "Resize", "float[3,17] - float{1,0.3}", .attrs = "mode=cubic antialias=1 cubic_coeff_a=-0.5", .grad = 1 },
    { "Resize", "float[3,17] - float{1,0.3}", .attrs = "mode=cubic antialias=1 exclude_outside=1", .grad = 1 },
    { "Resize", "float[3,5] - float{1,2.5}", .attrs = "mode=cubic exclude_outside=1", .grad = 1 },
    { "Resize", "float[2,3,5] - float{2,0.6,1}", .attrs = "mode=linear", .grad = 1 }, /* the last axis as it is */
    { "Resize", "float[2,3,4] - - int64{9,5}", .attrs = "axes=[1,2] keep_aspect_ratio_policy=not_larger", .grad = 1 },
    { "Resize", "float[2,3,4] - - int64{9,5}", .attrs = "axes=[2,1] mode=linear keep_aspect_ratio_policy=not_smaller",
      .grad = 1 },
    { "Resize", "float[2,300] - float{1,2}", .attrs = "mode=linear", .grad = 1 },
    { "Resize", "float[1,3,4,5,2] - float{1,1,0.5,2,2}", .attrs = "mode=linear", .opset = 13, .grad = 1 },
    { "Resize", "float[1,1,4,5] - - int64{1,1,7,9}", .attrs = "coordinate_transformation_mode=tf_half_pixel_for_nn",
      .opset = 11, .grad = 1 },
    { "Resize", "float[2,4,5] float{1,2,0.6}", .opset = 10, .grad = 1 },
    { "Resize", "float[2,4,5] float{1,2,0.6}", .attrs = "mode=linear", .opset = 10, .grad = 1 },
    { "Upsample", "float[2,4,5] float{1,2,3}", .opset = 9, .grad = 1 },
    { "Upsample", "float[2,4,5] float{1,2,1.5}", .attrs = "mode=linear", .opset = 9, .grad = 1 },
    { "Upsample", "float[2,4,5]", .attrs = "mode=linear scales=[1.0,2.0,1.5]", .opset = 7, .grad = 1 },
    { "Resize", "float[0,4] - - int64{0,8}", .attrs = "mode=linear", .grad = 1 },
    { "Resize", "float[2,4] - - int64{2,0}", .attrs = "mode=linear" },
    { "Resize", "float16[2,4,5] - float{1,2,0.6}", .attrs = "mode=linear" },
    { "Resize", "bfloat16[2,4,5] - float{1,2,0.6}", .attrs = "mode=cubic" },
    { "Resize", "uint8[2,4,5] - float{1,2,0.6}", .attrs = "mode=cubic" },
    { "Resize", "int8[2,4,5]:-99..99 - float{1,2,0.6}", .attrs = "mode=linear" },
    { "Resize", "int64[2,4,5] - float{1,2,0.6}" },
    { "Resize", "bool[2,4,5] - float{1,2,0.6}" },
    { "Resize", "float[4,16,32,32] - float{1,1,2,2}",
      .attrs = "coordinate_transformation_mode=asymmetric nearest_mode=floor" },
    { "Resize", "float[4,16,32,32] - float{1,1,2,2}", .attrs = "mode=linear" },
    { "AffineGrid", "float[2,2,3] int64{2,1,4,5}", .grad = 1 },
    { "AffineGrid", "float[2,2,3] int64{2,1,4,5}", .attrs = "align_corners=1", .grad = 1 },
    { "AffineGrid", "float[2,3,4] int64{2,1,3,4,2}", .grad = 1 },
    { "AffineGrid", "float[1,3,4] int64{1,1,3,1,2}", .attrs = "align_corners=1", .grad = 1 },
    { "AffineGrid", "float16[1,2,3] int64{1,1,2,2}" },
    { "AffineGrid", "bfloat16[2,2,3] int64{2,1,4,5}" },
    { NULL },
};
