/* The functions that ONNX allows at the gates of RNN, GRU and LSTM. v: argument, y: value, a and b: alpha and beta. */
#include "ops/recurrent/recurrent.h"

#include <math.h>
#include <strings.h>

#define FUNCTION(id, F, SLOPE)                                                                                         \
    static void id##_gate(const struct zt_gate_function *f, int64_t count, double *x, double *slope) {                 \
        const double a = f->alpha, b = f->beta;                                                                        \
        (void)a, (void)b;                                                                                              \
        for (int64_t i = 0; i < count; i++) {                                                                          \
            const double v = x[i], y = F;                                                                              \
            if (slope)                                                                                                 \
                slope[i] = SLOPE;                                                                                      \
            x[i] = y;                                                                                                  \
        }                                                                                                              \
    }

static double clamp01(double x) {
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

FUNCTION(affine, a *v + b, a)
FUNCTION(elu, v < 0 ? a * expm1(v) : v, v < 0 ? a * exp(v) : 1)
FUNCTION(hard_sigmoid, clamp01(a *v + b), y > 0 && y < 1 ? a : 0)
FUNCTION(leaky_relu, v < 0 ? a * v : v, v < 0 ? a : 1)
FUNCTION(relu, v <= 0 ? 0 : v, v <= 0 ? 0 : 1)
FUNCTION(scaled_tanh, a *tanh(b *v), a *b *(1 - tanh(b * v) * tanh(b * v)))
FUNCTION(sigmoid, 1 / (1 + exp(-v)), y *(1 - y))
FUNCTION(softplus, log1p(exp(-fabs(v))) + (v < 0 ? 0 : v), 1 / (1 + exp(-v)))
FUNCTION(softsign, v / (1 + fabs(v)), 1 / ((1 + fabs(v)) * (1 + fabs(v))))
FUNCTION(tanh, tanh(v), 1 - y * y)
FUNCTION(thresholded_relu, v < a ? 0 : v, v < a ? 0 : 1)

/* Defaults are those of the ONNX operators; Affine and ScaledTanh, which are none any more, leave x as it is. */
static const struct row {
    const char *name;
    struct zt_gate_function function;
    bool alpha, beta;
} rows[] = {
    { "Affine", { affine_gate, 1, 0 }, true, true },
    { "Elu", { elu_gate, 1, 0 }, true, false },
    { "HardSigmoid", { hard_sigmoid_gate, (double)0.2F, 0.5 }, true, true },
    { "LeakyRelu", { leaky_relu_gate, (double)0.01F, 0 }, true, false },
    { "Relu", { relu_gate, 0, 0 }, false, false },
    { "ScaledTanh", { scaled_tanh_gate, 1, 1 }, true, true },
    { "Sigmoid", { sigmoid_gate, 0, 0 }, false, false },
    { "Softplus", { softplus_gate, 0, 0 }, false, false },
    { "Softsign", { softsign_gate, 0, 0 }, false, false },
    { "Tanh", { tanh_gate, 0, 0 }, false, false },
    { "ThresholdedRelu", { thresholded_relu_gate, 1, 0 }, true, false },
};

bool zt_gate_find(const char *name, struct zt_gate_function *to, bool *alpha, bool *beta) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcasecmp(rows[i].name, name) == 0) {
            *to = rows[i].function;
            *alpha = rows[i].alpha;
            *beta = rows[i].beta;
            return true;
        }
    return false;
}

int zt_gate_plain(const struct zt_gate_function *f) {
    return f->run == sigmoid_gate ? ZT_GATE_SIGMOID
           : f->run == tanh_gate  ? ZT_GATE_TANH
           : f->run == relu_gate  ? ZT_GATE_RELU
                                  : -1;
}
