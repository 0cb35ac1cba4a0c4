#include "tests/ops/cases.h"

#include <stddef.h>

/* Lines of one element, of more than a run, along every axis; large inputs, which only a shifted exp survives. */
#define EVERY_AXIS(op, wanted)                                                                                         \
    { op, "float[3,7]", .grad = wanted }, { op, "float[2,3,4]", .attrs = "axis=0", .grad = wanted },                   \
        { op, "float[2,3,4]", .attrs = "axis=1", .grad = wanted },                                                     \
        { op, "float[2,3,4]", .attrs = "axis=-2", .grad = wanted }, { op, "float[4,1]", .grad = wanted },              \
        { op, "float[2,600]", .grad = wanted }, { op, "float[2,3,4]", .opset = 11, .grad = wanted },                   \
        { op, "float[2,3,4]", .attrs = "axis=2", .opset = 11, .grad = wanted }, { op, "float[0,4]" },                  \
        { op, "float[2,5]:-1000..1000" }, { op, "float16[2,5]" }, {                                                    \
        op, "bfloat16[2,5]"                                                                                            \
    }

const struct zt_case zt_cases_softmax[] = {
    EVERY_AXIS("Softmax", 1),
    EVERY_AXIS("LogSoftmax", 1),
    EVERY_AXIS("Hardmax", 0),
    { "Dropout", "float[3,700]", .grad = 1 },
    { "Dropout", "float[3,4]", .opset = 10, .outs = 2, .grad = 1 },
    { "Dropout", "float[3,700] float(0.25) bool(1)", .attrs = "seed=3", .outs = 2, .grad = 1 },
    { "Dropout", "float[3,700] float(0.25) bool(1)", .outs = 2, .grad = 1 },
    { "Dropout", "float[3,700] float(0.25) bool(1)", .grad = 1 },
    { "DropoutTrain", "float[3,700] float(0.25)", .domain = "ztrain", .outs = 2, .grad = 1 },
    { "DropoutTrain", "float[3,4]", .attrs = "ratio=0.3", .domain = "ztrain", .outs = 2, .grad = 1 },
    { NULL },
};
