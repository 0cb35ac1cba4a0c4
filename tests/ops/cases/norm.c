#include "tests/ops/cases.h"

#include <stddef.h>

#define STATS " float[3] float[3] float[3] float[3]:0.5..2"

/* dy, x, scale, mean, inv_std of 6 rows */
#define NORM_GRAD(x, scale, attributes)                                                                                \
    {                                                                                                                  \
        "NormGrad", "float[" x "] float[" x "] float[" scale "] float[6] float[6]:0.5..2",                             \
            .attrs = attributes, .domain = "ztrain", .outs = 3                                                         \
    }

const struct zt_case zt_cases_norm[] = {
    { "BatchNormalization", "float[2,3,4,5]" STATS, .grad = 0x1f },
    { "BatchNormalization", "float[6,3]" STATS, .attrs = "epsilon=0.01", .grad = 0x1f },
    { "BatchNormalization", "float[2,3,4,5]" STATS, .attrs = "training_mode=1", .outs = 3, .grad = 0x1f },
    { "BatchNormalization", "float[6,3]" STATS, .attrs = "training_mode=1 momentum=0.3", .outs = 3, .grad = 0x1f },
    { "BatchNormalization", "float[2,3,4]" STATS, .opset = 9, .outs = 5, .results = 3, .grad = 7 },
    { "BatchNormalization", "float[2,3,4]" STATS, .opset = 9, .grad = 0x1f },
    { "BatchNormalization", "float16[2,3,4] float16[3] float16[3] float16[3] float16[3]:0.5..2", .tolerance = 2e-2 },
    { "BatchNormTrain", "float[2,3,4,5]" STATS, .domain = "ztrain", .outs = 5, .results = 3, .grad = 7 },
    { "BatchNormTrain", "float[600,3]" STATS, .domain = "ztrain", .outs = 5, .results = 3, .grad = 7 },
    { "BatchNormTrain", "float[2,3,20,20]" STATS, .domain = "ztrain", .outs = 5, .results = 3, .grad = 7 },
    { "BatchNormTrain", "float[40,19] float[19] float[19] float[19] float[19]:0.5..2", .domain = "ztrain", .outs = 5,
      .results = 1, .grad = 7 },
    { "BatchNormTrain", "float[300,16]:10..11 float[16] float[16] float[16] float[16]:0.5..2", .domain = "ztrain",
      .outs = 5, .results = 1 },
    { "BatchNormTrain", "bfloat16[4,3,11] bfloat16[3] bfloat16[3] bfloat16[3] bfloat16[3]:0.5..2", .domain = "ztrain",
      .outs = 5, .results = 1, .tolerance = 5e-2 },
    { "BatchNormalization", "float[40,19] float[19] float[19] float[19] float[19]:0.5..2", .grad = 7 },
    { "BatchNormalization", "float[3,19,5,4] float[19] float[19] float[19] float[19]:0.5..2", .grad = 7 },
    { "LayerNormalization", "float[2,3,5] float[5] float[5]", .grad = 7 },
    { "LayerNormalization", "float[2,3,5] float[3,5] float[3,5]", .attrs = "axis=1", .outs = 3, .grad = 7 },
    { "LayerNormalization", "float[2,3,5] float[2,3,5]", .attrs = "axis=0 epsilon=0.1", .outs = 3, .grad = 3 },
    { "LayerNormalization", "float[7,600] float[600] float[600]", .grad = 7 },
    { "LayerNormalization", "float[0,5] float[5] float[5]" },
    { "LayerNormalization", "bfloat16[2,3,8] bfloat16[8] bfloat16[8]", .tolerance = 5e-2 },
    { "LayerNormalization", "float[70,100] float[100] float[100]", .outs = 3, .grad = 7 },
    { "LayerNormalization", "float[3,5000]:1000..1001 float[5000] float[5000]", .tolerance = 1e-4 },
    { "LayerNormalization", "float[3,1] float[1] float[1]", .outs = 3 },
    { "LayerNormalization", "float16[5,37] float16[37] float16[37]", .outs = 3, .tolerance = 1e-2 },
    { "LayerNormalization", "bfloat16[5,37] float[37]", .outs = 3, .tolerance = 5e-2 },
    { "LayerNormalization", "float{0,nan,1,2,3,4,5,6,7,8} float[10] float[10]", .outs = 3 },
    { "LayerNormalization", "float{0,inf,1,2,3,4,5,6,7,8} float[10]" },
    NORM_GRAD("6,37", "37", "rows=6 period=1 per_row=37 centred=1"),
    NORM_GRAD("6,3000", "3000", "rows=6 period=1 per_row=3000 centred=0"),
    NORM_GRAD("2,6,37", "6", "rows=6 period=3 per_row=2 centred=1"),
    NORM_GRAD("2,6,1", "6", "rows=6 period=3 per_row=2 centred=1"),
    { "NormGrad", "float[700,50] float[700,50] float[50] - float[700]:0.5..2", .outs = 3, .domain = "ztrain",
      .attrs = "rows=700 period=1 per_row=50 centred=0" },
    { "NormGrad", "bfloat16[6,37] bfloat16[6,37] bfloat16[37] float[6] float[6]:0.5..2 float[6] float[6]", .outs = 3,
      .attrs = "rows=6 period=1 per_row=37 centred=1", .domain = "ztrain", .tolerance = 5e-2 },
    { "NormStats", "float[6,37]", .outs = 2, .attrs = "rows=6 period=1 per_row=37 centred=1", .domain = "ztrain" },
    { "NormStats", "float16[6,3000]", .outs = 2, .attrs = "rows=6 period=3 per_row=2 centred=0", .domain = "ztrain" },
    { "RMSNormalization", "float[2,3,5] float[5]", .grad = 3 },
    { "RMSNormalization", "float[2,3,5] float[3,5]", .attrs = "axis=-2 epsilon=0.1", .grad = 3 },
    { "RMSNormalization", "float[4,300] float[300]", .grad = 3 },
    { "InstanceNormalization", "float[2,3,4,5] float[3] float[3]", .grad = 7 },
    { "InstanceNormalization", "float[2,3,300] float[3] float[3]", .attrs = "epsilon=0.01", .grad = 7 },
    { "GroupNormalization", "float[2,6,4,5] float[6] float[6]", .attrs = "num_groups=3", .grad = 7 },
    { "GroupNormalization", "float[2,6,4] float[6] float[6]", .attrs = "num_groups=1", .grad = 7 },
    { "GroupNormalization", "float[2,6,4,5] float[3] float[3]", .attrs = "num_groups=3", .opset = 18, .grad = 7 },
    { "GroupNormalization", "float[5,6] float[6] float[6]", .attrs = "num_groups=2", .grad = 7 },
    { "GroupNormalization", "float[2,12,7,7] float[12] float[12]", .attrs = "num_groups=3", .grad = 7 },
    { "GroupNormalization", "float16[2,6,4,5] float16[3] float16[3]", .attrs = "num_groups=3", .opset = 18,
      .tolerance = 1e-2 },
    { "LRN", "float[2,7,3,2]", .attrs = "size=3", .grad = 1 },
    { "LRN", "float[2,7,3]", .attrs = "size=4 alpha=0.5 beta=0.6 bias=2.0", .grad = 1 },
    { "LpNormalization", "float[3,4,5]", .grad = 1 },
    { "LpNormalization", "float[3,4,5]", .attrs = "axis=1 p=1", .grad = 1 },
    { "LpNormalization", "float{0,0,0}" },
    { "MeanVarianceNormalization", "float[2,3,4,5]", .grad = 1 },
    { "MeanVarianceNormalization", "float[2,3,4]", .attrs = "axes=[1]", .grad = 1 },
    { NULL },
};
