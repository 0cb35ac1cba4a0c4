#include "tests/ops/cases.h"

#include <stddef.h>

#define POOL(kernel, strides, pads, out)                                                                               \
    "pool_kernel=" kernel " pool_strides=" strides " pool_pads=" pads " pool_out=" out
#define POOL_2X2(out) POOL("[2,2]", "[2,2]", "[0,0]", out)

/* Fewer channels than a vector, whole vectors, a short last vector; kernels of 1 to 7, uneven padding, strides,
 * dilation; pools of 2 and 3, overlapping, padded, of a plane that leaves a rest; planes of several bands, and several
 * samples a band; kernels too wide and pools too dense for sums over single places. */
const struct zt_case zt_cases_conv_pool[] = {
    { "ConvReluPool", "float[3,3,12,10] float[20,3,3,3] float[20]", .attrs = POOL_2X2("[5,4]"), .domain = "ztrain",
      .outs = 2 },
    { "ConvReluPool", "float[5,32,15,15] float[48,32,3,3] float[48]", .attrs = POOL_2X2("[6,6]"), .domain = "ztrain",
      .outs = 2 },
    { "ConvReluPool", "float[2,48,9,8] float[17,48,3,3]", .attrs = "pads=[1,1,1,1] " POOL_2X2("[4,4]"),
      .domain = "ztrain", .outs = 2 },
    { "ConvReluPool", "float[2,16,8,8] float[16,16,3,3]",
      .attrs = "pads=[1,1,1,1] " POOL("[3,3]", "[2,2]", "[1,1]", "[4,4]"), .domain = "ztrain", .outs = 2 },
    { "ConvReluPool", "float[2,16,11,13] float[32,16,3,3] float[32]", .attrs = "pads=[0,1,2,1] " POOL_2X2("[5,6]"),
      .domain = "ztrain", .outs = 2 },
    { "ConvReluPool", "float[2,3,33,31] float[40,3,7,5] float[40]",
      .attrs = "strides=[2,2] pads=[3,2,3,2] " POOL_2X2("[8,8]"), .domain = "ztrain", .outs = 2 },
    { "ConvReluPool", "float[2,1,23,40] float[17,1,3,3]",
      .attrs = "strides=[1,2] dilations=[2,3] pads=[1,2,0,4] " POOL_2X2("[10,10]"), .domain = "ztrain", .outs = 2 },
    { "ConvReluPool", "float[2,13,70,70]:-1..1 float[33,13,3,3] float[33]", .attrs = POOL_2X2("[34,34]"),
      .domain = "ztrain", .outs = 2 }, /* several bands */
    { "ConvReluPool", "float[1,2,6,6]:nan..nan float[5,2,1,1] float[5]", .attrs = POOL_2X2("[3,3]"), .domain = "ztrain",
      .outs = 2 },
    { "ConvReluPool", "float[1,17,41,40] float[36,17,5,5] float[36]", .attrs = "pads=[2,2,2,2] " POOL_2X2("[20,20]"),
      .domain = "ztrain", .outs = 2 }, /* one channel more than a vector, of several bands */
    { "ConvReluPool", "float[2,20,21,18]:-1..1 float[16,20,3,3]", .attrs = "strides=[2,1] " POOL_2X2("[5,8]"),
      .domain = "ztrain", .outs = 2 },
    { "ConvReluPool", "float[3,64,15,16] float[72,64,3,3] float[72]",
      .attrs = "pads=[1,1,1,1] " POOL("[3,3]", "[2,2]", "[0,0]", "[7,7]"), .domain = "ztrain", .outs = 2 },
    /* in bfloat16, whose rounding decides between results that are nearly equal: 1 x 1 windows of the pool. By
       Winograd's filtering, by oneDNN */
    { "ConvReluPool", "bfloat16[2,64,17,18] bfloat16[72,64,3,3] bfloat16[72]",
      .attrs = "pads=[1,1,1,1] " POOL("[1,1]", "[1,1]", "[0,0]", "[17,18]"), .domain = "ztrain", .outs = 2,
      .tolerance = 3e-2 },
    { "ConvReluPool", "bfloat16[3,20,15,16] bfloat16[33,20,5,5] bfloat16[33]",
      .attrs = "pads=[2,2,2,2] " POOL("[1,1]", "[2,2]", "[0,0]", "[8,8]"), .domain = "ztrain", .outs = 2,
      .tolerance = 3e-2 },
    { "ConvReluPoolGrad",
      "bfloat16[3,32,15,14] bfloat16[48,32,3,3] bfloat16[3,48,6,6] uint8[3,48,6,6]:0..3 bfloat16[3,48,6,6]",
      .attrs = "to=1 " POOL_2X2("[6,6]"), .domain = "ztrain", .outs = 3, .tolerance = 2e-2 },
    { "ConvReluPoolGrad",
      "bfloat16[2,17,66,70] bfloat16[24,17,5,5] bfloat16[2,24,33,35] uint8[2,24,33,35]:0..3 bfloat16[2,24,33,35]",
      .attrs = "to=1 pads=[2,2,2,2] " POOL_2X2("[33,35]"), .domain = "ztrain", .outs = 3, .tolerance = 2e-2 },
    { "ConvReluPoolGrad", "float[3,3,12,10] float[20,3,3,3] float[3,20,5,4] uint8[3,20,5,4]:0..3 float[3,20,5,4]",
      .attrs = POOL_2X2("[5,4]"), .domain = "ztrain", .outs = 3 },
    { "ConvReluPoolGrad", "float[5,32,15,15] float[48,32,3,3] float[5,48,6,6] uint8[5,48,6,6]:0..3 float[5,48,6,6]",
      .attrs = POOL_2X2("[6,6]"), .domain = "ztrain", .outs = 3 },
    { "ConvReluPoolGrad", "float[2,48,9,8] float[17,48,3,3] float[2,17,4,4] uint8[2,17,4,4]:0..3 float[2,17,4,4]",
      .attrs = "pads=[1,1,1,1] " POOL_2X2("[4,4]"), .domain = "ztrain", .outs = 3 },
    { "ConvReluPoolGrad", "float[2,17,10,9] float[33,17,5,5] float[2,33,4,3] uint8[2,33,4,3]:0..5 float[2,33,4,3]",
      .attrs = "pads=[2,1,1,2] " POOL("[2,3]", "[2,2]", "[0,0]", "[4,3]"), .domain = "ztrain", .outs = 3 },
    { "ConvReluPoolGrad", "float[2,16,16,16] float[16,16,7,7] float[2,16,3,3] uint8[2,16,3,3]:0..8 float[2,16,3,3]",
      .attrs = "pads=[3,3,3,3] strides=[2,2] " POOL("[3,3]", "[2,2]", "[0,0]", "[3,3]"), .domain = "ztrain",
      .outs = 3 },
    { "ConvReluPoolGrad", "float[2,16,8,8] float[16,16,3,3] float[2,16,4,4] uint8[2,16,4,4]:4..5 float[2,16,4,4]",
      .attrs = "pads=[1,1,1,1] " POOL("[3,3]", "[2,2]", "[1,1]", "[4,4]"), .domain = "ztrain", .outs = 3 },
    { "ConvReluPoolGrad", "float[2,16,12,8] float[16,16,3,1] float[2,16,4,4] uint8[2,16,4,4]:0..3 float[2,16,4,4]",
      .attrs = "dilations=[2,1] " POOL_2X2("[4,4]"), .domain = "ztrain", .outs = 3 },
    { "ConvReluPoolGrad", "float[1,8,66,70] float[8,8,3,3] float[1,8,32,34] uint8[1,8,32,34]:0..3 float[1,8,32,34]",
      .attrs = POOL_2X2("[32,34]"), .domain = "ztrain", .outs = 3 },
    { "ConvReluPoolGrad",
      "float[1,40,66,70] float[16,40,1,1] float[1,16,33,35] uint8[1,16,33,35]:0..3 float[1,16,33,35]",
      .attrs = POOL_2X2("[33,35]"), .domain = "ztrain", .outs = 3 },
    { "ConvReluPoolGrad", "float[1,48,64,70] float[8,48,3,3] float[1,8,32,35] uint8[1,8,32,35]:0..3 float[1,8,32,35]",
      .attrs = "pads=[1,1,1,1] " POOL_2X2("[32,35]"), .domain = "ztrain", .outs = 3 }, /* bands share rows */
    { "ConvReluPoolGrad",
      "float[2,68,70,66] float[20,68,1,1] float[2,20,14,13] uint8[2,20,14,13]:0..3 float[2,20,14,13]",
      .attrs = POOL("[2,2]", "[5,5]", "[0,0]", "[14,13]"), .domain = "ztrain", .outs = 3 }, /* rows of no band */
    { "ConvReluPoolGrad", "float[40,16,4,4] float[16,16,3,3] float[40,16,1,1] uint8[40,16,1,1]:0..3 float[40,16,1,1]",
      .attrs = POOL_2X2("[1,1]"), .domain = "ztrain", .outs = 3 },
    { "ConvReluPoolGrad", "float[1,3,6,20] float[4,3,2,9] float[1,4,2,6] uint8[1,4,2,6]:0..3 float[1,4,2,6]",
      .attrs = POOL_2X2("[2,6]"), .domain = "ztrain", .outs = 3 },
    { "ConvReluPoolGrad", "float[2,16,7,7] float[16,16,3,3] float[2,16,4,4] uint8[2,16,4,4]:0..3 float[2,16,4,4]",
      .attrs = POOL("[2,2]", "[1,1]", "[0,0]", "[4,4]"), .domain = "ztrain", .outs = 3 },
    { "ConvReluPoolGrad", "float[2,4,6,6] float[8,2,3,3] float[2,8,2,2] uint8[2,8,2,2]:0..3 float[2,8,2,2]",
      .attrs = "group=2 " POOL_2X2("[2,2]"), .domain = "ztrain", .outs = 3 },
    /* without dx: few input channels, each number of them that a function takes together, and more */
    { "ConvReluPoolGrad", "float[3,3,12,10] float[20,3,3,3] float[3,20,5,4] uint8[3,20,5,4]:0..3 float[3,20,5,4]",
      .attrs = POOL_2X2("[5,4]"), .domain = "ztrain", .outs = 2 },
    { "ConvReluPoolGrad", "float[2,1,9,11] float[16,1,3,3] float[2,16,4,5] uint8[2,16,4,5]:0..3 float[2,16,4,5]",
      .attrs = "pads=[1,1,1,1] " POOL_2X2("[4,5]"), .domain = "ztrain", .outs = 2 },
    { "ConvReluPoolGrad", "float[2,5,41,38] float[37,5,3,3] float[2,37,20,19] uint8[2,37,20,19]:0..3 float[2,37,20,19]",
      .attrs = "pads=[2,1,0,1] " POOL_2X2("[20,19]"), .domain = "ztrain", .outs = 2 }, /* several bands */
    { "ConvReluPoolGrad", "float[4,15,6,7] float[8,15,3,3] float[4,8,2,2] uint8[4,8,2,2]:0..3 float[4,8,2,2]:nan..nan",
      .attrs = POOL_2X2("[2,2]"), .domain = "ztrain", .outs = 1 },
    { "ConvReluPoolGrad", "float[2,2,9,9] float[24,2,5,3] float[2,24,2,3] uint8[2,24,2,3]:0..3 float[2,24,2,3]",
      .attrs = POOL_2X2("[2,3]"), .domain = "ztrain", .outs = 2 },
    { NULL },
};
