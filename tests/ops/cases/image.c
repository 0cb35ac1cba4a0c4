#include "tests/ops/cases.h"

#include <stddef.h>

const struct zt_case zt_cases_image[] = {
    { "CenterCropPad", "float[5,6] int64{3,9}", .grad = 1 },
    { "CenterCropPad", "float[5,6] int64{8,3}", .grad = 1 },
    { "CenterCropPad", "float[2,5,6,3] int64{4,4}", .attrs = "axes=[-3,2]", .grad = 1 },
    { "CenterCropPad", "float[2,3] int64{0,5}" },
    { "CenterCropPad", "uint8[4,3] int32{3,4}" },
    { "AffineGrid", "float[2,2,3] int64{2,1,4,5}", .grad = 1 },
    { "AffineGrid", "float[2,2,3] int64{2,1,4,5}", .attrs = "align_corners=1", .grad = 1 },
    { "AffineGrid", "float[2,3,4] int64{2,1,3,4,2}", .grad = 1 },
    { "AffineGrid", "float[1,3,4] int64{1,1,3,1,2}", .attrs = "align_corners=1", .grad = 1 },
    { "AffineGrid", "float16[1,2,3] int64{1,1,2,2}" },
    { "Col2Im", "float[1,5,5] int64{5,5} int64{1,5}", .grad = 1 },
    { "Col2Im", "float[2,12,15] int64{5,6} int64{2,2}", .attrs = "strides=[2,1] pads=[1,0,0,0]", .grad = 1 },
    { "Col2Im", "float[1,8,4] int64{6,4} int64{2,2}", .attrs = "dilations=[2,2] strides=[3,1]", .grad = 1 },
    { "Col2Im", "float[1,2,5] int64{6} int64{2}", .grad = 1 },
    { "Col2Im", "int8[1,4,9]:-99..99 int64{4,4} int64{2,2}" },
    { "AffineGrid", "bfloat16[2,2,3] int64{2,1,4,5}" },
    { "Col2Im", "float[1,16,8] int64{3,3,3} int64{2,2,2}", .grad = 1 },
    { "Col2Im", "bfloat16[2,8,9] int64{4,4} int64{2,2}" },
    { "MaxUnpool", "bfloat16[1,2,2,2] int64[1,2,2,2]:0..31 int64{1,2,5,6}",
      .attrs = "kernel_shape=[2,2] strides=[2,2]" },
    { "MaxUnpoolGrad", "float[1,2,5,4] int64[1,2,2,2]:0..31", .attrs = "kernel_shape=[2,2] strides=[2,2]",
      .domain = "ztrain" },
    { "MaxUnpool", "float[4,1,1] int64[4,1,1]:0..7", .attrs = "kernel_shape=[2] strides=[2]" },
    { NULL },
};
