/* Vector loops of Resize on a row of pixels of a blocked plane (ops/cpu/blocked_layout.h), `vector` channels each. The
 * loops are compiled for several instruction sets, chosen by CPUID; all give the same bits. No pointer may be NULL. */
#ifndef ZT_OPS_RESAMPLE_SIMD_RESIZE_H
#define ZT_OPS_RESAMPLE_SIMD_RESIZE_H

#include <stdint.h>

/* to[p] = sum over t < taps (1 or more) of weight[t] from[t][p]; pixels of `from` are `pixel` elements apart, those of
 * `to` side by side. */
typedef void zt_simd_mix(int64_t pixels, int64_t pixel, int taps, const float *const *from, const float *weight,
                         float *to);
/* Result o of `size` is the sum over begin[o] <= t < begin[o + 1] of weight[t] from[index[t]]; without any t it is
 * `outside`, a pixel. */
struct zt_simd_axis {
    int64_t size;
    const int32_t *begin, *index;
    const float *weight;
};
typedef void zt_simd_sample(const struct zt_simd_axis *axis, int64_t from_pixel, const float *from, int64_t to_pixel,
                            const float *outside, float *to);

struct zt_resize_kernels {
    zt_simd_mix *mix;
    zt_simd_sample *sample;
};
/* vector: 8 or 16, the channels of a block. */
const struct zt_resize_kernels *zt_resize_kernels(int vector);

#endif
