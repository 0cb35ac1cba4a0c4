/* The bias of convolutions whose library kernels have none (conv_cpu.h). */
#include "ops/conv/conv_cpu.h"
#include "ops/kernel/tile.h"

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
