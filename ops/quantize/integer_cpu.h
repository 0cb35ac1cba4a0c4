/* Products of quantized tensors on the CPU, exact although their factors are floats: numbers of 8 bits less a zero
 * point of 8 bits are at most 255, so ZT_INTEGER_DEPTH products of them stay below 2^24. The product of floats
 * (ops/cpu/simd_gemm.h) runs over slices of that depth, and integers add up the slices. */
#ifndef ZT_OPS_QUANTIZE_INTEGER_CPU_H
#define ZT_OPS_QUANTIZE_INTEGER_CPU_H

#include "ops/cpu/simd_gemm.h"
#include "ops/quantize/requantize.h"

enum {
    ZT_INTEGER_DEPTH = 256,
    ZT_INTEGER_MOST = INT32_MAX / (255 * 255), /* the depth of sums that fit into 32 bits */
};

/* Whether this machine has the kernels, and the operand is of 8 bits with scales, where it has any, of float. */
bool zt_integer_cpu_takes(const struct zt_graph *g, int node, struct zt_quantized_in in);

/* Floats that zt_integer_center() needs beside the result. */
int64_t zt_integer_zeros(const struct zt_graph *g, int node, struct zt_quantized_in in);
/* zt_quantized_center() in float. */
void zt_integer_center(const struct zt_call *call, struct zt_quantized_in in, int axis, float *zeros, float *to);

/* sum[i] = from[i], or more than that where the slice is not the first; sums wrap. */
void zt_integer_add(const float *from, int64_t count, bool first, int32_t *sum);

/* Parts of a workspace, each aligned to 64. Starting at 0, the calls return where the parts begin, and `bytes` becomes
 * the size of all. */
static inline size_t zt_integer_part(size_t *bytes, int64_t elements) {
    const size_t at = *bytes;
    *bytes += ((size_t)elements * sizeof(float) + 63) / 64 * 64;
    return at;
}

#endif
