#include "tests/ops/cases.h"

#include <stddef.h>

#define ELEMENT_GRAD(op)                                                                                               \
    { op, "float(0.7) float[40,100] float[40,100]:0..1", .domain = "ztrain" },                                         \
        { op, "float(0.7) float[4,3] float[4,3]:0..1 float{1,0,2,0.5}", .attrs = "beta=0.3 delta=0.4",                 \
          .domain = "ztrain" },                                                                                        \
        { op, "float(0.7) float[40,500] int64[40,500]:0..1", .domain = "ztrain" }, {                                   \
        op, "float(0.7) bfloat16[5,21] float[5,21]:0..1", .domain = "ztrain"                                           \
    }
#define ELEMENT_LOSS(op)                                                                                               \
    { op, "float[4,3] float[4,3]:0..1", .domain = "ztrain", .grad = 1 },                                               \
        { op, "float[4] float[4]:0..1 float{1,0,2,0.5}", .domain = "ztrain", .grad = 1 },                              \
        { op, "float[2,3,4] float[2,3,4]:0..1 float[2,3]:0..2", .domain = "ztrain", .grad = 1 },                       \
        { op, "float[3,300] float[3,300]:0..1 float{0,0,0}", .domain = "ztrain" },                                     \
        { op, "float[40,1000]:-9..9 float[40,1000]:0..1", .domain = "ztrain" },                                        \
        { op, "float[4,3] float[4,3]:0..1", .domain = "ztrain" },                                                      \
        { op, "bfloat16[5,21] float16[5,21]:0..1", .domain = "ztrain" },                                               \
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
    { "CrossEntropy", "float[2,3,7] int64[2,3]:0..6 float[2,3]:0..2 float[7]:0.5..2",
      .attrs = "axis=2 ignore_index=2 label_smoothing=0.1", .domain = "ztrain", .outs = 2, .results = 1, .grad = 1 },
    { "CrossEntropy", "float[2,7,3,4] int64[2,3,4]:0..6 float[2,3]:0..2", .domain = "ztrain", .outs = 2, .results = 1,
      .grad = 1 },
    { "CrossEntropy", "float[3,600] int64[3]:0..599", .domain = "ztrain", .outs = 2, .results = 1, .grad = 1 },
    { "CrossEntropy", "float[2,7] int64{-100,-100}", .domain = "ztrain", .outs = 2 },
    { "CrossEntropy", "float[2,7] int64{1,2} float{0,0}", .domain = "ztrain", .outs = 2 },
    { "CrossEntropy", "float[0,7] int64[0]", .domain = "ztrain", .outs = 2 },
    { "CrossEntropy", "float[2,7]:-1000..1000 int64{1,2}", .domain = "ztrain", .outs = 2 },
    { "CrossEntropy", "float[5,7] int64[5]:0..6", .domain = "ztrain", .grad = 1 },
    { "CrossEntropyGrad", "float(0.7) float[5,7] int64{0,-100,6,3,1} - - float[5]:1..2", .domain = "ztrain" },
    { "CrossEntropyGrad", "float(0.7) float[4,7,2] int64[4,2]:0..6 float{1,0,2,1} float[7]:0.5..2 float[4,2]:1..2",
      .attrs = "label_smoothing=0.1", .domain = "ztrain" },
    { "CrossEntropy", "float[40,33] int64[40]:0..32 - float[33]:0.5..2", .attrs = "label_smoothing=0.1",
      .domain = "ztrain", .outs = 2 },
    { "CrossEntropy", "float[3,9,50] int64[3,50]:0..8", .attrs = "label_smoothing=0.1", .domain = "ztrain", .outs = 2 },
    { "CrossEntropy", "float{0,nan,1,2,3,4} int64(3)", .attrs = "axis=0", .domain = "ztrain", .outs = 2 },
    { "CrossEntropy", "float{0,-inf,1,2,3,4} int64(3)", .attrs = "axis=0", .domain = "ztrain", .outs = 2 },
    { "CrossEntropy", "float16[5,37] int64[5]:0..36", .domain = "ztrain", .outs = 2 },
    { "CrossEntropy", "bfloat16[2,9,11] int64[2,11]:0..8", .domain = "ztrain", .outs = 2 },
    { "CrossEntropyGrad", "float(0.7) float[60,300] int64[60]:0..299 - - float[60]:5..6", .domain = "ztrain" },
    { "CrossEntropyGrad", "float(0.7) float[3,9,50] int64[3,50]:0..8 float{0,1,2} float[9]:0.5..2 float[3,50]:1..2",
      .attrs = "label_smoothing=0.1 ignore_index=3", .domain = "ztrain" },
    { "CrossEntropyGrad", "float[3,5] float[3,9,5] int64[3,5]:0..8 - - float[3,5]:1..2", .attrs = "reduction=none",
      .domain = "ztrain" },
    { "CrossEntropyGrad", "float(0.7) bfloat16[4,19] int64[4]:0..18 - - float[4]:2..3", .domain = "ztrain" },
    /* rows that begin at no multiple of 16 bytes */
    { "CrossEntropy", "bfloat16[7,517] int64[7]:0..516", .domain = "ztrain", .outs = 2 },
    { "CrossEntropy", "bfloat16[5,261] int64{260,-100,0,7,8} float{1,1,0,2,0.5} float[261]:0.5..2",
      .attrs = "label_smoothing=0.1", .domain = "ztrain", .outs = 2 },
    { "CrossEntropy", "float[6,2051] int64[6]:0..2050", .domain = "ztrain", .outs = 2 },
    { "CrossEntropyGrad", "float(0.7) bfloat16[7,517] int64[7]:0..516 - - float[7]:6..7", .domain = "ztrain" },
    { "CrossEntropyGrad",
      "float(0.7) bfloat16[5,261] int64{260,-100,0,7,8} float{1,1,0,2,0.5} float[261]:0.5..2 float[5]:5..6",
      .attrs = "label_smoothing=0.1", .domain = "ztrain" },
    { "CrossEntropyGrad", "float[3] float[3,83] int64[3]:0..82 - - float[3]:4..5", .attrs = "reduction=none",
      .domain = "ztrain" },
    { "SoftmaxCrossEntropyLoss", "bfloat16[5,261] int64[5]:0..260", .outs = 2 },
#define SOFT(IN, ...)                                                                                                  \
    { "SoftCrossEntropy", IN, .domain = "ztrain", .outs = 2, .results = 1, .grad = 1, __VA_ARGS__ }
    SOFT("float[5,7] float[5,7]:0..1", .attrs = "axis=1"),
    SOFT("float[5,7] float[5,7]:0..1 float{1,0,1,2,0} float[7]:0.5..2", .attrs = "label_smoothing=0.1"),
    SOFT("float[2,3,7] float[2,3,7]:0..1 float[2,3]:0..2", .attrs = "axis=2"),
    SOFT("float[2,7,3,4] float[2,7,3,4]:0..1 float[2] float[7]:0.5..2", .attrs = "label_smoothing=0.2"),
    SOFT("float[3,300] float[3,300]:0..1 - float[300]:0.5..2", .attrs = "label_smoothing=0.1"),
    { "SoftCrossEntropy", "float[2,7] float[2,7]:0..1 float{0,0}", .domain = "ztrain", .outs = 2 },
    { "SoftCrossEntropy", "float[0,7] float[0,7]", .domain = "ztrain", .outs = 2 },
    { "SoftCrossEntropy", "bfloat16[5,261] float[5,261]:0..1", .domain = "ztrain", .outs = 2 },
    { "SoftCrossEntropyGrad", "float(0.7) float[5,7] float[5,7]:0..1 - - float[5]:2..3", .domain = "ztrain" },
    { "SoftCrossEntropyGrad",
      "float(0.7) float[4,7,2] float[4,7,2]:0..1 float{1,0,2,1} float[7]:0.5..2 float[4,2]:2..3",
      .attrs = "label_smoothing=0.1", .domain = "ztrain" },
    { "SoftCrossEntropyGrad", "float(0.7) bfloat16[4,190] float16[4,190]:0..1 - - float[4]:5..6", .domain = "ztrain" },
#define TRAIN(IN, ...)                                                                                                 \
    { "CrossEntropyTrain", IN, .domain = "ztrain", .outs = 2, __VA_ARGS__ }
    TRAIN("float(0.7) float[5,7] int64{0,-100,6,3,1}", .attrs = "axis=1"),
    TRAIN("float(0.7) float[4,7,2] int64[4,2]:0..6 float{1,0,2,1} float[7]:0.5..2", .attrs = "label_smoothing=0.1"),
    TRAIN("float(0.7) bfloat16[4,19] int64[4]:0..18 - float[19]:0.5..2", .attrs = "ignore_index=3"),
    TRAIN("float(0.7) float[40,33] int64[40]:0..32", .attrs = "reduction=sum"),
    TRAIN("float(0.7) float[3,9,400] int64[3,400]:0..8 float{0,1,2} float[9]:0.5..2",
          .attrs = "label_smoothing=0.1 ignore_index=3"),
    TRAIN("float(0.7) bfloat16[3,9,400] int64[3,400]:0..8", .attrs = "axis=1"),
    TRAIN("float[3,5] float[3,9,5] int64[3,5]:0..8", .attrs = "reduction=none"),
    TRAIN("float(0.7) float[2,7] int64{-100,-100}", .attrs = "axis=1"),
    TRAIN("float(0.7) float[2,70] int64{1,2} float{0,0}", .attrs = "axis=1"),
    TRAIN("float(0.7) float[0,7] int64[0]", .attrs = "axis=1"),
    TRAIN("float(0.7) bfloat16[7,9001] int64[7]:0..9000", .attrs = "axis=1"),
    TRAIN("float(0.7) float[6,2051] int64{0,2050,-100,3,4,1027}", .attrs = "axis=1"),
    TRAIN("float[3] float[3,83] int64[3]:0..82", .attrs = "reduction=none"),
    TRAIN("float(0.7) bfloat16[2,5,261] int64[2,5]:0..260 float[2]:0.5..2 float[261]:0.5..2",
          .attrs = "axis=2 label_smoothing=0.1 ignore_index=2"),
    TRAIN("float(0.7) float[2,700]:-50..50 int64{1,2}", .attrs = "axis=1"),
    TRAIN("float(0.7) bfloat16[5,320] int64{260,-100,0,7,8} float{1,1,0,2,0.5} float[261]:0.5..2",
          .attrs = "classes=261 label_smoothing=0.1"),
    TRAIN("float(0.7) float[2,3,12] int64[2,3]:0..6", .attrs = "axis=2 classes=7"),
    TRAIN("float(0.7) bfloat16[1100,9] int64[1100]:0..6", .attrs = "classes=7"),
#undef TRAIN
    { "NegativeLogLikelihoodGrad", "float(0.7) float[4,19] int64{0,-100,18,7}", .domain = "ztrain" },
    { "NegativeLogLikelihoodGrad", "float(0.7) float[4,9,3] int64[4,3]:0..8", .domain = "ztrain" },
    { "NegativeLogLikelihoodGrad", "float(0.7) float[4,19] int64[4]:0..18 - float[19]:0.5..2",
      .attrs = "label_smoothing=0.1", .domain = "ztrain" },
    { "NegativeLogLikelihood", "float[40,33] int64[40]:0..32", .attrs = "label_smoothing=0.1", .domain = "ztrain" },
    { "SoftmaxCrossEntropyLoss", "float[3,9,50] int64[3,50]:0..8", .outs = 2 },
    { "NegativeLogLikelihood", "float[5,7] int64[5]:0..6", .domain = "ztrain", .grad = 1 },
    { "NegativeLogLikelihood", "float[5,7] int64{0,-100,6,3,2} float{1,1,0,2,0.5}", .domain = "ztrain", .grad = 1 },
    ELEMENT_GRAD("SquaredErrorGrad"),
    ELEMENT_GRAD("AbsoluteErrorGrad"),
    ELEMENT_GRAD("SmoothAbsoluteErrorGrad"),
    ELEMENT_GRAD("HuberGrad"),
    ELEMENT_GRAD("BinaryCrossEntropyGrad"),
    { "NegativeLogLikelihood", "float[2,7,3] int64[2,3]:0..6 float[2,3]:0..2 float[7]:0.5..2", .domain = "ztrain",
      .grad = 1 },
    ELEMENT_LOSS("SquaredError"),
    ELEMENT_LOSS("AbsoluteError"),
    ELEMENT_LOSS("SmoothAbsoluteError"),
    ELEMENT_LOSS("Huber"),
    ELEMENT_LOSS("BinaryCrossEntropy"),
    { "SmoothAbsoluteError", "float[4,30] float[4,30]", .attrs = "beta=0.3", .domain = "ztrain", .grad = 1 },
    { "Huber", "float[4,30] float[4,30]", .attrs = "delta=0.3", .domain = "ztrain", .grad = 1 },
    { "BinaryCrossEntropy", "float[4,3] int64[4,3]:0..1", .domain = "ztrain", .grad = 1 },
    { "CountCorrect", "float[50,3] int64[50]:0..2", .domain = "ztrain", .outs = 2 },
    { "CountCorrect", "float[2,3,5] int64[2,3]:0..4 float{1,0}", .attrs = "axis=2", .domain = "ztrain", .outs = 2 },
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
