#include "tests/ops/cases.h"

#include <stddef.h>

/* Slices of one element and of more than a block of elements, along every axis; large inputs, which only a shifted exp
 * survives. */
#define EVERY_AXIS(op, wanted)                                                                                         \
    { op, "float[3,7]", .grad = wanted }, { op, "float[2,3,4]", .attrs = "axis=0", .grad = wanted },                   \
        { op, "float[2,3,4]", .attrs = "axis=1", .grad = wanted },                                                     \
        { op, "float[2,3,4]", .attrs = "axis=-2", .grad = wanted }, { op, "float[4,1]", .grad = wanted },              \
        { op, "float[2,600]", .grad = wanted }, { op, "float[2,3,4]", .opset = 11, .grad = wanted },                   \
        { op, "float[2,3,4]", .attrs = "axis=2", .opset = 11, .grad = wanted }, { op, "float[0,4]" },                  \
        { op, "float[2,5]:-1000..1000" }, { op, "float16[2,5]" }, {                                                    \
        op, "bfloat16[2,5]"                                                                                            \
    }

/* Slices side by side in a vector, and vectors along a slice; with and without partial vectors. */
#define SHAPES(op)                                                                                                     \
    { op, "float[3,100]" }, { op, "float[40,16]" }, { op, "float[2,3000]" },                                           \
        { op, "float[2,5,37]", .attrs = "axis=1" }, { op, "float[2,70,32]", .attrs = "axis=1" },                       \
        { op, "float[300,3]", .attrs = "axis=0" }, { op, "float{0,nan,1,2,3,4,5,6,7,8}" },                             \
        { op, "float{0,-inf,1,2,-inf,4,5,6,7,8}" }, { op, "float{0,inf,1,2,3,4,5,6,7,8}" },                            \
        { op, "float{-inf,-inf,-inf}" }, { op, "float16[3,21]" }, { op, "float16[2,3,9]", .attrs = "axis=1" },         \
        { op, "bfloat16[3,21]" }, { op, "bfloat16[3,16]" }, {                                                          \
        op, "bfloat16[2,3,9]", .attrs = "axis=1"                                                                       \
    }
#define GRAD_SHAPES(op)                                                                                                \
    { op, "float[3,7] float[3,7]:0..1", .domain = "ztrain" },                                                          \
        { op, "float[3,100] float[3,100]:0..1", .domain = "ztrain" },                                                  \
        { op, "float[2,3000] float[2,3000]:0..1", .domain = "ztrain" },                                                \
        { op, "float[4,1] float[4,1]:0..1", .domain = "ztrain" },                                                      \
        { op, "float[2,5,37] float[2,5,37]:0..1", .attrs = "axis=1", .domain = "ztrain" },                             \
        { op, "float[2,5,37] float[2,5,37]:0..1", .attrs = "axis=1 flat=1", .domain = "ztrain" },                      \
        { op, "float[300,3] float[300,3]:0..1", .attrs = "axis=0", .domain = "ztrain" },                               \
        { op, "float16[3,21] float16[3,21]:0..1", .domain = "ztrain" }, {                                              \
        op, "bfloat16[2,3,9] bfloat16[2,3,9]:0..1", .attrs = "axis=1", .domain = "ztrain"                              \
    }

const struct zt_case zt_cases_softmax[] = {
    EVERY_AXIS("Softmax", 1),
    EVERY_AXIS("LogSoftmax", 1),
    EVERY_AXIS("Hardmax", 0),
    SHAPES("Softmax"),
    SHAPES("LogSoftmax"),
    GRAD_SHAPES("SoftmaxGrad"),
    GRAD_SHAPES("LogSoftmaxGrad"),
    { "Dropout", "float[3,700]", .grad = 1 },
    { "Dropout", "float[3,4]", .opset = 10, .outs = 2, .grad = 1 },
    { "Dropout", "float[3,700] float(0.25) bool(1)", .attrs = "seed=3", .outs = 2, .grad = 1 },
    { "Dropout", "float[3,700] float(0.25) bool(1)", .outs = 2, .grad = 1 },
    { "Dropout", "float[3,700] float(0.25) bool(1)", .grad = 1 },
    { "DropoutTrain", "float[3,700] float(0.25)", .domain = "ztrain", .outs = 2, .grad = 1 },
    { "DropoutTrain", "float[3,4]", .attrs = "ratio=0.3", .domain = "ztrain", .outs = 2, .grad = 1 },
    { "DropoutTrain", "float[2,8501] float(0.1)", .domain = "ztrain", .outs = 2, .grad = 1 }, /* rows of two blocks */
    { "DropoutTrain", "float[3,41] float(0)", .domain = "ztrain", .outs = 2, .grad = 1 },
    { "DropoutTrain", "float[3,41] float(1)", .domain = "ztrain", .outs = 2, .grad = 1 },
    { "DropoutTrain", "float16[3,41] float(0.5)", .domain = "ztrain", .outs = 2, .grad = 1 },
    { NULL },
};
