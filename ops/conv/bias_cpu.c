/* Passes over the results of library kernels: a bias that they have not, a tensor that is added, the padding of blocks
 * (conv_cpu.h). */
#include "ops/conv/conv_cpu.h"
#include "ops/kernel/tile.h"

#include "base/clones.h"

#include <string.h>

/* A group of `vector` channels of each pixel. */
static void add_bias(enum zt_dtype dtype, const struct zt_planes *planes, const void *bias, int64_t group, void *x) {
    int64_t first = group * planes->vector, rest = planes->channels - first;
    int vector = rest < planes->vector ? (int)rest : planes->vector;
    float b[16];
    for (int i = 0; i < vector; i++)
        b[i] = dtype == ZT_FLOAT ? ((const float *)bias)[first + i]
                                 : zt_bfloat_to_float(((const uint16_t *)bias)[first + i]);
    for (int64_t p = 0; p < planes->pixels; p++)
        for (int i = 0; i < vector; i++) {
            int64_t at = p * planes->pixel + i;
            if (dtype == ZT_FLOAT)
                ((float *)x)[at] += b[i];
            else
                ((uint16_t *)x)[at] = zt_float_to_bfloat(zt_bfloat_to_float(((uint16_t *)x)[at]) + b[i]);
        }
}

void zt_conv_add_bias(enum zt_dtype dtype, const struct zt_planes *planes, int64_t samples, const void *bias, void *x) {
    for (int64_t n = 0; n < samples; n++)
        for (int64_t g = 0; g < planes->groups; g++)
            add_bias(dtype, planes, bias, g,
                     (char *)x + (size_t)(n * planes->sample + g * planes->group) * zt_dtype_bytes(dtype));
}

void zt_conv_clear_padding(const struct zt_planes *planes, enum zt_dtype dtype, int64_t samples, char *y) {
    if (planes->pixel != planes->vector || planes->channels % planes->vector == 0)
        return;
    const size_t bytes = zt_dtype_bytes(dtype);
    const int64_t used = planes->channels - (planes->groups - 1) * planes->vector, rest = planes->vector - used;
    for (int64_t n = 0; n < samples; n++)
        for (int64_t p = 0; p < planes->pixels; p++)
            memset(y + (size_t)(n * planes->sample + (planes->groups - 1) * planes->group + p * planes->pixel + used) *
                           bytes,
                   0, (size_t)rest * bytes);
}

ZT_CLONES static void add_to_convolution(const float *restrict from, int64_t count, float *restrict to) {
    for (int64_t i = 0; i < count; i++)
        to[i] += from[i];
}

void zt_conv_add(const float *from, int64_t count, float *to) {
    add_to_convolution(from, count, to);
}
