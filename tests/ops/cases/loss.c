#include "tests/ops/cases.h"

#include <stddef.h>

#define ELEMENT_LOSS(op)                                                                                               \
    { op, "float[4,3] float[4,3]:0..1", .domain = "ztrain", .grad = 1 },                                               \
        { op, "float[4] float[4]:0..1 float{1,0,2,0.5}", .domain = "ztrain", .grad = 1 },                              \
        { op, "float[3,300] float[3,300]:0..1 float{0,0,0}", .domain = "ztrain" },                                     \
        { op, "float[] float[]:0..1", .domain = "ztrain", .grad = 1 }, {                                               \
        op, "float[0,3] float[0,3]", .domain = "ztrain"                                                                \
    }

const struct zt_case zt_cases_loss[] = {
    { "CrossEntropy", "float[5,7] int64[5]:0..6", .domain = "ztrain", .outs = 2, .results = 1, .grad = 1 },
    { "CrossEntropy", "float[5,7] int32{0,-100,6,3,-100}", .domain = "ztrain", .outs = 2, .results = 1, .grad = 1 },
    { "CrossEntropy", "float[5,7] int64[5]:0..6 float{1,0,1,2,0}", .attrs = "label_smoothing=0.1", .domain = "ztrain",
      .outs = 2, .results = 1, .grad = 1 },
    { "CrossEntropy", "float[2,3,7] int64[2,3]:0..6 float{1,0.5}", .attrs = "axis=2 ignore_index=2", .domain = "ztrain",
      .outs = 2, .results = 1, .grad = 1 },
    { "CrossEntropy", "float[2,7,3,4] int64[2,3,4]:0..6 - float[7]:0.5..2", .attrs = "label_smoothing=0.2",
      .domain = "ztrain", .outs = 2, .results = 1, .grad = 1 },
    { "CrossEntropy", "float[3,600] int64[3]:0..599", .domain = "ztrain", .outs = 2, .results = 1, .grad = 1 },
    { "CrossEntropy", "float[2,7] int64{-100,-100}", .domain = "ztrain", .outs = 2 },
    { "CrossEntropy", "float[2,7] int64{1,2} float{0,0}", .domain = "ztrain", .outs = 2 },
    { "CrossEntropy", "float[0,7] int64[0]", .domain = "ztrain", .outs = 2 },
    { "CrossEntropy", "float[2,7]:-1000..1000 int64{1,2}", .domain = "ztrain", .outs = 2 },
    { "CrossEntropy", "float[5,7] int64[5]:0..6", .domain = "ztrain", .grad = 1 },
    { "CrossEntropyGrad", "float(0.7) float[5,7] int64{0,-100,6,3,1} - - float[5]:1..2", .domain = "ztrain" },
    { "CrossEntropyGrad", "float(0.7) float[4,7,2] int64[4,2]:0..6 float{1,0,2,1} float[7]:0.5..2 float[4,2]:1..2",
      .attrs = "label_smoothing=0.1", .domain = "ztrain" },
    { "NegativeLogLikelihood", "float[5,7] int64[5]:0..6", .domain = "ztrain", .grad = 1 },
    { "NegativeLogLikelihood", "float[5,7] int64{0,-100,6,3,2} float{1,1,0,2,0.5}", .domain = "ztrain", .grad = 1 },
    ELEMENT_LOSS("SquaredError"),
    ELEMENT_LOSS("AbsoluteError"),
    ELEMENT_LOSS("SmoothAbsoluteError"),
    ELEMENT_LOSS("Huber"),
    ELEMENT_LOSS("BinaryCrossEntropy"),
    { "SmoothAbsoluteError", "float[4,30] float[4,30]", .attrs = "beta=0.3", .domain = "ztrain", .grad = 1 },
    { "Huber", "float[4,30] float[4,30]", .attrs = "delta=0.3", .domain = "ztrain", .grad = 1 },
    { "BinaryCrossEntropy", "float[4,3] int64[4,3]:0..1", .domain = "ztrain", .grad = 1 },
    { "CountCorrect", "float[50,3] int64[50]:0..2", .domain = "ztrain", .outs = 2 },
    { "CountCorrect", "float[2,3,5] int64[2,3]:0..4 float{1,0}", .attrs = "axis=2 ignore_index=1", .domain = "ztrain",
      .outs = 2 },
    { "SoftmaxCrossEntropyLoss", "float[5,7] int64[5]:0..6", .outs = 2, .results = 1, .grad = 1 },
    { "SoftmaxCrossEntropyLoss", "float[5,7,2] int64[5,2]:0..6 float[7]:0.5..2",
      .attrs = "ignore_index=1 reduction=sum", .grad = 1 },
    { "SoftmaxCrossEntropyLoss", "float[5,7,2] int64[5,2]:0..6", .attrs = "reduction=none", .outs = 2, .grad = 1 },
    { "NegativeLogLikelihoodLoss", "float[5,7] int64[5]:0..6 float[7]:0.5..2", .grad = 1 },
    { "NegativeLogLikelihoodLoss", "float[5,7,2] int64[5,2]:0..6", .attrs = "reduction=none ignore_index=2",
      .grad = 1 },
    { NULL },
};
