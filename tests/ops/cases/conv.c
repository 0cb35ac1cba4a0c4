#include "tests/ops/cases.h"

#include <stddef.h>

/* One to three spatial axes, groups, depthwise, strides that leave a rest, dilations, uneven and automatic padding,
 * windows that touch nothing but padding, planes beyond one tile. */
const struct zt_case zt_cases_conv[] = {
    { "Conv", "float[2,3,7] float[4,3,3]", .grad = 3 },
    { "Conv", "float[2,3,7] float[4,3,3] float[4]", .attrs = "pads=[1,2] strides=[2]", .grad = 7 },
    { "Conv", "float[2,3,6,5] float[4,3,3,3] float[4]", .attrs = "pads=[1,1,1,1]", .grad = 7 },
    { "Conv", "float[2,3,6,5] float[4,3,3,2]", .attrs = "pads=[0,1,2,0] strides=[2,3]", .grad = 3 },
    { "Conv", "float[2,4,6,5] float[6,2,3,3] float[6]", .attrs = "group=2 pads=[1,1,1,1]", .grad = 7 },
    { "Conv", "float[2,4,6,5] float[8,1,3,3]", .attrs = "group=4 strides=[2,2]", .grad = 3 },
    { "Conv", "float[1,2,9,9] float[3,2,3,3]", .attrs = "dilations=[2,3]", .grad = 3 },
    { "Conv", "float[1,2,9,9] float[3,2,3,3]", .attrs = "dilations=[2,3] strides=[2,1] pads=[3,0,1,4]", .grad = 3 },
    { "Conv", "float[1,2,5,6] float[3,2,2,4]", .attrs = "auto_pad=SAME_UPPER strides=[2,2]", .grad = 3 },
    { "Conv", "float[1,2,5,6] float[3,2,2,4]", .attrs = "auto_pad=SAME_LOWER", .grad = 3 },
    { "Conv", "float[1,2,5,6] float[3,2,2,4]", .attrs = "auto_pad=VALID strides=[3,1]", .grad = 3 },
    { "Conv", "float[1,2,4,5,3] float[3,2,2,3,2] float[3]", .attrs = "pads=[1,0,1,0,1,1]", .grad = 7 },
    { "Conv", "float[2,5,4,4] float[3,5,1,1] float[3]", .grad = 7 },
    { "Conv", "float[1,1,1,1] float[1,1,1,1] float[1]", .grad = 7 },
    { "Conv", "float[1,1,2,2] float[1,1,3,3]", .attrs = "pads=[4,4,4,4]", .grad = 3 },
    { "Conv", "float[1,9,13,17] float[40,9,3,3]", .attrs = "pads=[1,1,1,1]", .grad = 3 },
    { "Conv", "float[0,2,5,5] float[3,2,3,3] float[3]" },
    { "Conv", "float16[1,2,5,5] float16[3,2,3,3]", .tolerance = 2e-2 },
    { "Conv", "bfloat16[1,2,5,5] bfloat16[3,2,3,3]", .tolerance = 5e-2 },
    { "ConvTranspose", "float[2,3,5] float[3,4,3]", .grad = 3 },
    { "ConvTranspose", "float[2,3,4,5] float[3,4,3,3] float[4]", .attrs = "strides=[2,3]", .grad = 7 },
    { "ConvTranspose", "float[2,4,4,3] float[4,3,3,2] float[6]", .attrs = "group=2 pads=[1,0,1,1]", .grad = 7 },
    { "ConvTranspose", "float[1,2,4,5] float[2,3,3,3]", .attrs = "strides=[2,2] output_padding=[1,1]", .grad = 3 },
    { "ConvTranspose", "float[1,2,4,5] float[2,3,2,2]", .attrs = "dilations=[3,2] output_padding=[2,1]", .grad = 3 },
    { "ConvTranspose", "float[1,2,4,5] float[2,3,3,3]", .attrs = "strides=[3,2] output_shape=[10,8]", .grad = 3 },
    { "ConvTranspose", "float[1,2,4,5] float[2,3,3,3]", .attrs = "strides=[2,2] auto_pad=SAME_UPPER", .grad = 3 },
    { "ConvTranspose", "float[1,2,4,5] float[2,3,4,4]", .attrs = "strides=[2,2] auto_pad=SAME_LOWER", .grad = 3 },
    { "ConvTranspose", "float[1,2,2,3,2] float[2,2,2,2,2]", .attrs = "strides=[2,1,2]", .grad = 3 },
    { "ConvTranspose", "float16[1,2,3,3] float16[2,2,2,2]", .tolerance = 2e-2 },
    { NULL },
};
