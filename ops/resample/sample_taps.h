/* The pixels that GridSample reads along an axis, with their weights (formulas in grid_sample.c). Kernels of the host
 * and of the CUDA module include this file. */
#ifndef ZT_OPS_RESAMPLE_SAMPLE_TAPS_H
#define ZT_OPS_RESAMPLE_SAMPLE_TAPS_H

#include "graph/ir/dtype.h"

#include <math.h>

enum { ZT_SAMPLE_TAPS = 4 };
enum zt_sample_mode { ZT_SAMPLE_NEAREST, ZT_SAMPLE_LINEAR, ZT_SAMPLE_CUBIC };
enum zt_sample_padding { ZT_SAMPLE_ZEROS, ZT_SAMPLE_BORDER, ZT_SAMPLE_REFLECTION };

struct zt_sampler {
    enum zt_sample_mode mode;
    enum zt_sample_padding padding;
    bool align;
    int axes; /* spatial */
    int64_t n, channels, pixels, places;
    int64_t size[ZT_MAX_RANK], stride[ZT_MAX_RANK];
};

/* The pixels of an axis that a grid position reads: offset -1 reads zero. */
struct zt_sample_taps {
    int count;
    int64_t offset[ZT_SAMPLE_TAPS];
    double weight[ZT_SAMPLE_TAPS], slope[ZT_SAMPLE_TAPS]; /* slope: derivative of the weight by the grid coordinate */
};

#ifdef __CUDACC__
#define ZT_TAPS static __device__ inline
#else
#define ZT_TAPS static inline
#endif

/* x reflected into [low, high], repeatedly. *sign: -1 where the reflections invert the direction, else 1. */
ZT_TAPS double zt_sample_reflect(double x, double low, double high, double *sign) {
    double range = high - low, over = x < low ? low - x : x - high;
    *sign = 1;
    if (x >= low && x <= high)
        return x;
    if (!(range > 0))
        return low;
    double times = floor(over / range), rest = over - times * range;
    bool from_low = (x < low) == (fmod(times, 2.0) == 0);
    *sign = (x < low) == from_low ? -1 : 1;
    return from_low ? low + rest : high - rest;
}

ZT_TAPS int64_t zt_sample_pixel(const struct zt_sampler *s, int axis, double low, double high, double index) {
    double last = (double)s->size[axis] - 1, sign;
    if (s->padding == ZT_SAMPLE_ZEROS && (index < 0 || index > last))
        return -1;
    if (s->padding == ZT_SAMPLE_REFLECTION)
        index = zt_sample_reflect(index, low, high, &sign);
    return s->stride[axis] * (int64_t)fmin(fmax(index, 0.0), last);
}

/* Keys' cubic convolution with a = -0.75, and its derivative: distance d up to 1 (near), from 1 to 2 (far). */
ZT_TAPS void zt_sample_near(double d, double sign, double *weight, double *slope) {
    const double a = -0.75;
    *weight = ((a + 2) * d - (a + 3)) * d * d + 1;
    *slope = sign * ((3 * (a + 2) * d - 2 * (a + 3)) * d);
}
ZT_TAPS void zt_sample_far(double d, double sign, double *weight, double *slope) {
    const double a = -0.75;
    *weight = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
    *slope = sign * ((3 * a * d - 10 * a) * d + 8 * a);
}

/* Weights of the taps at fraction t and their slopes; returns the distance of the first tap from floor(x). */
ZT_TAPS double zt_sample_weights(enum zt_sample_mode mode, double t, struct zt_sample_taps *to) {
    if (mode == ZT_SAMPLE_NEAREST) {
        to->count = 1;
        to->weight[0] = 1;
        to->slope[0] = 0;
        return 0;
    }
    if (mode == ZT_SAMPLE_LINEAR) {
        to->count = 2;
        to->weight[0] = 1 - t;
        to->weight[1] = t;
        to->slope[0] = -1;
        to->slope[1] = 1;
        return 0;
    }
    to->count = ZT_SAMPLE_TAPS;
    zt_sample_far(1 + t, 1, &to->weight[0], &to->slope[0]);
    zt_sample_near(t, 1, &to->weight[1], &to->slope[1]);
    zt_sample_near(1 - t, -1, &to->weight[2], &to->slope[2]);
    zt_sample_far(2 - t, -1, &to->weight[3], &to->slope[3]);
    return -1;
}

/* The taps of grid coordinate g on an axis. */
ZT_TAPS void zt_sample_axis_taps(const struct zt_sampler *s, int axis, double g, struct zt_sample_taps *to) {
    double size = (double)s->size[axis], low = s->align ? 0 : -0.5, high = s->align ? size - 1 : size - 0.5;
    double x = s->align ? (g + 1) / 2 * (size - 1) : ((g + 1) * size - 1) / 2, sign = 1;
    double slope = s->align ? (size - 1) / 2 : size / 2;
    if (s->mode == ZT_SAMPLE_NEAREST)
        x = rint(x);
    if (s->padding == ZT_SAMPLE_BORDER && s->mode != ZT_SAMPLE_CUBIC && (x < low || x > high)) {
        x = fmin(fmax(x, 0.0), size - 1);
        slope = 0;
    } else if (s->padding == ZT_SAMPLE_REFLECTION) {
        x = zt_sample_reflect(x, low, high, &sign);
    }
    if (!(fabs(x) < 4503599627370496.0)) /* 2^52: not a number, or so far out that only the padding is there */
        x = -100;
    double base = floor(x), first = base + zt_sample_weights(s->mode, x - base, to);
    for (int k = 0; k < to->count; k++) {
        to->offset[k] = zt_sample_pixel(s, axis, low, high, first + k);
        to->slope[k] *= slope * sign;
    }
}

#endif
