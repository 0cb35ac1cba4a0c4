#include "tests/ops/cases.h"

#include <stddef.h>

/* Shapes of training, for bench; check runs them too. */
const struct zt_case zt_cases_speed[] = {
    { "Add", "float[64,64,28,28] float[64,64,28,28]" },
    { "Add", "float[64,128,256] float[256]" },
    { "Add", "float[64,64,28,28] float[64,1,1]" },
    { "Mul", "float[64,128,256] float[]" },
    { "Div", "float[64,128,256] float[64,128,1]:1..2" },
    { "Relu", "float[64,64,28,28]" },
    { "ReluGrad", "float[64,64,28,28] float[64,64,28,28]", .domain = "ztrain", .opset = 1 },
    { "Sigmoid", "float[64,128,256]" },
    { "Tanh", "float[64,128,256]" },
    { "Erf", "float[64,128,256]" },
    { "Exp", "float[64,128,256]" },
    { "Gelu", "float[64,128,256]" },
    { "GeluGrad", "float[64,128,256] float[64,128,256]", .domain = "ztrain", .opset = 1 },
    { "Sqrt", "float[64,128,256]:0.1..2" },
    { "Pow", "float[64,128,256] float(2)" },
    { "Transpose", "float[64,128,4,64]", .attrs = "perm=[0,2,1,3]" },
    { "Transpose", "float[64,4,128,64]", .attrs = "perm=[0,1,3,2]" },
    { "Transpose", "float[1024,1024]" },
    { "ReduceSum", "float[8192,256] int64{0}" },
    { "ReduceMean", "float[8192,256] int64{1}" },
    { "ReduceSum", "float[64,64,28,28] int64{0,2,3}" },
    { "ReduceMean", "float[64,64,28,28] int64{2,3}" },
    { "Gather", "float[1000,256] int64[64,128]:0..999" },
    { "GatherGrad", "float[64,128,256] int64[64,128]:0..999", .domain = "ztrain", .opset = 1,
      .attrs = "shape=[1000,256]" },
    { "Concat", "float[64,128,256] float[64,128,256]", .attrs = "axis=2" },
    { "Split", "float[64,128,768]", .attrs = "axis=2 num_outputs=3", .outs = 3 },
    { "Slice", "float[64,128,768] int64{0} int64{256} int64{2}" },
    { "Expand", "float[64,128,1] int64{64,128,256}" },
    { "Where", "bool[128,128] float[64,4,128,128] float[]" },
    { NULL },
};
