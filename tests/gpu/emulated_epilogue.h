/* Formulas of cuBLASLt's epilogues, for emulated.c. */
#ifndef ZT_TESTS_GPU_EMULATED_EPILOGUE_H
#define ZT_TESTS_GPU_EMULATED_EPILOGUE_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static double gelu(double x) {
    return x * (1 + tanh(M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x))) / 2;
}
static double gelu_slope(double x) {
    double c = M_2_SQRTPI * M_SQRT1_2, t = tanh(c * (x + 0.044715 * x * x * x));
    return (1 + t) / 2 + x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x) / 2;
}

/* ReLU, of which cuBLASLt says neither what becomes of NaN nor which bit it keeps of 0. ZT_EMULATED_RELU: "max" where
 * NaN becomes 0, "kept" where the bit of 0 is set. `bits` NULL: none are kept. */
static double relu_at(double x, uint8_t *bits, int64_t at) {
    const char *how = getenv("ZT_EMULATED_RELU");
    const int set = how && strcmp(how, "kept") == 0 ? !(x < 0) : !(x <= 0), bit = 1 << at % 8;
    if (bits)
        bits[at / 8] = (uint8_t)(set ? bits[at / 8] | bit : bits[at / 8] & ~bit);
    if (how && strcmp(how, "max") == 0)
        return fmax(x, 0);
    return x <= 0 ? 0 : x;
}
static double relu_slope_at(const uint8_t *bits, int64_t at) {
    return bits[at / 8] >> at % 8 & 1;
}

#endif
