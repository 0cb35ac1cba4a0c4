/* Scale and zero point of a range [low, high], which is widened to contain 0, for integers of [least, most]:
 *
 *     symmetric        bound = max(-low, high)      scale = bound / half      zero = least + half + 1
 *     not symmetric    scale = high / (most - least) - low / (most - least)   zero = clip(round(least - low / scale))
 *
 * half = (most - least) / 2, rounded down: 127 of 8 bits, so that -bound and bound have codes of equal distance from
 * zero. The scale is then multiplied by 1 + 2^-20: the end of the range over the scale would else round to both sides
 * of the last code, and no gradient passes beyond it (fake_quantize.c). It is at least the smallest normal float. NaN
 * gives a scale of NaN. In float, by the same instructions on the host, on CUDA and for the written model. */
#ifndef ZT_OPS_QUANTIZE_RANGE_SCALE_H
#define ZT_OPS_QUANTIZE_RANGE_SCALE_H

#include "graph/ir/dtype.h"

#include <float.h>
#include <math.h>

#ifdef __CUDACC__
#define ZT_RANGE static __device__ inline
#else
#define ZT_RANGE static inline
#endif

struct zt_range_scale {
    float least, most;
    bool symmetric;
};

/* Sets *zero to an integer of the type. */
ZT_RANGE float zt_range_scale_of(const struct zt_range_scale *r, float low, float high, float *zero) {
    const float span = r->most - r->least, half = (span - 1) / 2;
    const float least = low > 0 ? 0 : low, most = high < 0 ? 0 : high; /* NaN stays */
    const float bound = -least > most || most != most ? -least : most;
    float scale = r->symmetric ? bound / half : most / span - least / span;
    if (least != least || most != most)
        scale = least + most;
    scale *= 1 + 1.0f / (1 << 20);
    scale = scale < FLT_MIN ? FLT_MIN : scale;
    const float at = r->symmetric ? r->least + half + 1 : rintf(r->least - least / scale);
    *zero = !(at > r->least) ? r->least : at < r->most ? at : r->most;
    return scale;
}

#ifndef __CUDACC__
/* The range of an integer type of 4 to 16 bits. */
static inline struct zt_range_scale zt_range_scale_for(enum zt_dtype type, bool symmetric) {
    const bool has_sign = zt_dtype_in(type, ZT_BIT(ZT_INT8) | ZT_BIT(ZT_INT16) | ZT_BIT(ZT_INT4));
    const float codes = (float)(1 << zt_dtype_bits(type));
    const float least = has_sign ? -codes / 2 : 0;
    return (struct zt_range_scale){ .least = least, .most = least + codes - 1, .symmetric = symmetric };
}
#endif

#endif
