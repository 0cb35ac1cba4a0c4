#include "tests/ops/cases.h"

#include <stddef.h>

/* Optimizers as nodes have no gradient: rate, count, tensors, their gradients, their states. */
#define STEP(op, outs_, ins, ...)                                                                                      \
    { op, ins, .domain = "ai.onnx.preview.training", .opset = 1, .outs = outs_, __VA_ARGS__ }
#define MOMENTUM(rule) .attrs = "alpha=0.9 beta=0.8 norm_coefficient=0.1 mode=" rule

const struct zt_case zt_cases_training[] = {
    STEP("Adam", 3, "float(0.1) int64(3) float[2,3] float[2,3] float[2,3] float[2,3]:0..1"),
    STEP("Adam", 3, "float[1] int64{0} float[300] float[300] float[300] float[300]:0..1",
         .attrs = "alpha=0.8 beta=0.9 epsilon=0.01 norm_coefficient=0.1 norm_coefficient_post=0.2"),
    STEP("Adam", 6,
         "double(0.1) int64(3) float[2,3] float[0] float[2,3] float[0] float[2,3] float[0] float[2,3]:0..1 float[0]"),
    STEP("Adagrad", 2, "float(0.1) int64(5) double[7] double[7] double[7]:0..1",
         .attrs = "decay_factor=0.1 epsilon=0.01 norm_coefficient=0.1"),
    STEP("Adagrad", 4, "float(0.1) int64(0) float[] float[2] float[] float[2] float[]:0..1 float[2]:0..1"),
    STEP("Momentum", 2, "float(0.1) int64(2) float[2,3] float[2,3] float[2,3]", MOMENTUM("standard")),
    STEP("Momentum", 2, "float(0.1) int64(0) float[2,3] float[2,3] float[2,3]", MOMENTUM("nesterov")),
    STEP("Momentum", 4, "float(0.1) int64(1) float[2] float[3] float[2] float[3] float[2] float[3]",
         MOMENTUM("nesterov")),
    { NULL },
};
