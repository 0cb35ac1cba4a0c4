#include "tests/ops/cases.h"

#include <stddef.h>

/* Ordinary, a scalar, an empty batch, more than a run of elements, half types; ranges keep inside the domain and off
 * kinks. */
#define EVERY_TYPE(op, range)                                                                                          \
    { op, "float[3,5]" range, .grad = 1 }, { op, "float[]" range, .grad = 1 }, { op, "float[0,4]" range },             \
        { op, "double[7,129]" range, .grad = 1 }, { op, "float16[4,5]" range, .tolerance = 1e-2 }, {                   \
        op, "bfloat16[4,5]" range, .tolerance = 5e-2                                                                   \
    }

const struct zt_case zt_cases_unary[] = {
    EVERY_TYPE("Abs", ""),
    EVERY_TYPE("Acos", ":-0.9..0.9"),
    EVERY_TYPE("Acosh", ":1.1..4"),
    EVERY_TYPE("Asin", ":-0.9..0.9"),
    EVERY_TYPE("Asinh", ""),
    EVERY_TYPE("Atan", ""),
    EVERY_TYPE("Atanh", ":-0.9..0.9"),
    EVERY_TYPE("Cos", ""),
    EVERY_TYPE("Cosh", ""),
    EVERY_TYPE("Elu", ""),
    EVERY_TYPE("Erf", ""),
    EVERY_TYPE("Exp", ""),
    EVERY_TYPE("Gelu", ""),
    EVERY_TYPE("HardSigmoid", ":-5..5"),
    EVERY_TYPE("HardSwish", ":-5..5"),
    EVERY_TYPE("LeakyRelu", ""),
    EVERY_TYPE("Log", ":0.1..4"),
    EVERY_TYPE("Mish", ""),
    EVERY_TYPE("Neg", ""),
    EVERY_TYPE("Reciprocal", ":0.3..4"),
    EVERY_TYPE("Relu", ""),
    EVERY_TYPE("Selu", ""),
    EVERY_TYPE("Shrink", ""),
    EVERY_TYPE("Sigmoid", ""),
    EVERY_TYPE("Sin", ""),
    EVERY_TYPE("Sinh", ""),
    EVERY_TYPE("Softplus", ""),
    EVERY_TYPE("Softsign", ""),
    EVERY_TYPE("Sqrt", ":0.2..4"),
    EVERY_TYPE("Swish", ""),
    EVERY_TYPE("Tan", ":-1..1"),
    EVERY_TYPE("Tanh", ""),
    EVERY_TYPE("ThresholdedRelu", ":-3..3"),
    { "Celu", "float[3,5]", .grad = 1 },
    { "Celu", "float[3,5]", .attrs = "alpha=2.0", .grad = 1 },
    { "Elu", "float[3,5]", .attrs = "alpha=0.3", .grad = 1 },
    { "Gelu", "float[3,300]", .attrs = "approximate=tanh", .grad = 1 },
    { "HardSigmoid", "float[3,5]", .attrs = "alpha=0.5 beta=0.6", .grad = 1 },
    { "LeakyRelu", "float[3,5]", .attrs = "alpha=-0.2", .grad = 1 },
    { "Selu", "float[3,5]", .attrs = "alpha=2.0 gamma=3.0", .grad = 1 },
    { "Shrink", "float[3,5]", .attrs = "bias=1.5 lambd=1.5", .grad = 1 },
    { "Swish", "float[3,5]", .attrs = "alpha=1.7", .grad = 1 },
    /* extremes: large arguments saturate, they do not overflow */
    { "Sigmoid", "float{-1000,-90,0,90,1000}" },
    { "Softplus", "float{-1000,-90,0,90,1000}" },
    { "Tanh", "float{-1000,0,1000}" },
    { "Gelu", "float{-1000,-30,0,30,1000}" },
    { "Erf", "float{-1000,0,1000}" },
    { "Mish", "float{-1000,-30,0,30,1000}" },
    /* integers, exact */
    { "Abs", "int64{-9223372036854775807,-1,0,1}" },
    { "Abs", "int8[4,5]:-100..100" },
    { "Neg", "int32[4,5]:-100..100" },
    { "Relu", "int64[4,5]:-100..100" },
    { "Sign", "uint8[4,5]" },
    { "Shrink", "int32[4,5]:-9..9" },
    { "BitwiseNot", "uint16[4,5]" },
    /* no derivative */
    { "Ceil", "float[3,5]" },
    { "Floor", "float16[3,5]" },
    { "Round", "float{-2.5,-1.5,-0.5,0.5,1.5,2.5}" },
    { "Sign", "float[3,5]" },
    { "Not", "bool[3,5]" },
    { "IsNaN", "float[3,5]" },
    { "IsInf", "float[3,5]", .attrs = "detect_negative=0" },
    { "ReluGrad", "float[16,64,28,28] float[16,64,28,28]", .domain = "ztrain" },
    { "GeluGrad", "float[16,128,256] float[16,128,256]", .domain = "ztrain" },
    { NULL },
};
