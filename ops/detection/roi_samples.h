/* The positions that RoiAlign reads (formulas in roi_align.c). Kernels of the host and of the CUDA module include this
 * file.
 *
 * Positions are computed in the type of the rois with a rounding after every operation, in the order in which
 * onnxruntime and PyTorch compute them: how many samples a bin has and whether one lies outside changes by jumps, so
 * that other roundings would give other results. */
#ifndef ZT_OPS_DETECTION_ROI_SAMPLES_H
#define ZT_OPS_DETECTION_ROI_SAMPLES_H

#include "graph/ir/dtype.h"

#include <math.h>

/* A node: x [n, c, in], rois [rois, 4], y [rois, c, out]; axis 0 is the height. */
struct zt_roi_align {
    int64_t n, c, rois, in[2], out[2];
    int64_t ratio; /* sampling_ratio; 0: adaptive */
    double scale;
    bool half_pixel, max;
    bool wide; /* positions in double, else in float */
};

/* A roi along an axis: out bins of `bin` pixels from `start` on, `grid` samples in each. */
struct zt_roi_axis {
    double start, bin, grid;
    bool known; /* false: a coordinate is not a number */
    bool fixed; /* its size is a pixel, whatever its end */
};

/* The pixels of a sample along an axis: (1 - part) of `low` and part of `high`. */
struct zt_roi_tap {
    int64_t low, high;
    double part;
    /* The derivative by the position of what the lower corner gives: slope[0] x[low], and of what the upper one gives:
     * slope[1] x[high] + below x[low - 1]. */
    double slope[2], below;
};

#ifdef __CUDACC__
#define ZT_ROI static __device__ inline
#else
#define ZT_ROI static inline
#endif

ZT_ROI double zt_roi_round(bool wide, double value) {
    return wide ? value : (double)(float)value;
}

/* Coordinates beyond 2^24 pixels count as 2^24: float tells no neighbouring pixels apart there. */
ZT_ROI double zt_roi_limit(double value) {
    const double most = 16777216.0;
    return value < -most ? -most : value > most ? most : value;
}

/* The axis of a roi whose corners have the coordinates `low` and `high` in the image. */
ZT_ROI struct zt_roi_axis zt_roi_axis(const struct zt_roi_align *r, int axis, double low, double high) {
    const double shift = r->half_pixel ? 0.5 : 0;
    const double start = zt_roi_limit(zt_roi_round(r->wide, zt_roi_round(r->wide, low * r->scale) - shift));
    const double end = zt_roi_limit(zt_roi_round(r->wide, zt_roi_round(r->wide, high * r->scale) - shift));
    double size = zt_roi_round(r->wide, end - start);
    const bool fixed = !r->half_pixel && size < 1;
    if (fixed)
        size = 1;
    const double bin = zt_roi_round(r->wide, size / (double)r->out[axis]);
    const struct zt_roi_axis to = { start, bin, r->ratio > 0 ? (double)r->ratio : ceil(bin), bin == bin, fixed };
    return to;
}

/* The divisor of an average. */
ZT_ROI double zt_roi_count(const struct zt_roi_axis *h, const struct zt_roi_axis *w) {
    const double count = h->grid * w->grid;
    return count > 1 ? count : 1;
}

/* Position of sample i of a bin. */
ZT_ROI double zt_roi_position(const struct zt_roi_align *r, const struct zt_roi_axis *a, int64_t bin, int64_t i) {
    const double first = zt_roi_round(r->wide, a->start + zt_roi_round(r->wide, (double)bin * a->bin));
    const double within = zt_roi_round(r->wide, zt_roi_round(r->wide, ((double)i + 0.5) * a->bin) / a->grid);
    return zt_roi_round(r->wide, first + within);
}

/* Returns the position of sample i of a bin along the roi, 0..1: its position moves with the start by 1 minus that and
 * with the end by that. */
ZT_ROI double zt_roi_fraction(const struct zt_roi_align *r, const struct zt_roi_axis *a, int axis, int64_t bin,
                              int64_t i) {
    return a->fixed ? 0 : ((double)bin + ((double)i + 0.5) / a->grid) / (double)r->out[axis];
}

/* Sets the slopes of a tap. The coordinate that is read is held within [0, last], so that it follows the position from
 * the left in (0, last] and to the right in [0, last): elsewhere a one-sided slope is 0. Within a cell both are
 * x[high] - x[low]. On a pixel the right one is x[low + 1] - x[low], the left one x[low] - x[low - 1], whose corner of
 * weight 0 is x[low - 1], and the derivative is their mean. */
ZT_ROI void zt_roi_slopes(double position, int64_t last, struct zt_roi_tap *to) {
    const bool between = to->part > 0;
    const double right = position >= 0 && position < (double)last ? 0.5 : 0;
    const double left = position > 0 && position <= (double)last ? 0.5 : 0;
    to->slope[0] = between ? -1 : left - right;
    to->slope[1] = between ? 1 : right;
    to->below = between ? 0 : -left;
}

/* The pixels at a position of an axis of `size` pixels; false: it is outside. */
ZT_ROI bool zt_roi_tap(int64_t size, double position, struct zt_roi_tap *to) {
    if (!(position >= -1 && position <= (double)size) || size < 1)
        return false;
    const double inside = position > 0 ? position : 0;
    const int64_t last = size - 1, whole = (int64_t)inside;
    to->low = whole < last ? whole : last;
    to->high = whole < last ? whole + 1 : last;
    to->part = whole < last ? inside - (double)whole : 0;
    zt_roi_slopes(position, last, to);
    return true;
}

/* The samples from *first to before *end of a bin: all that may read a pixel of [from, to], since a sample reads pixels
 * less than one from its position. A bin has at most some samples a pixel where their number is adaptive, so that even
 * the largest roi needs no more time than the image has pixels. */
ZT_ROI void zt_roi_range(const struct zt_roi_axis *a, int64_t bin, double from, double to, int64_t *first,
                         int64_t *end) {
    const double step = a->bin / a->grid, begin = a->start + (double)bin * a->bin;
    double low = 0, high = a->grid;
    if (step > 0) {
        /* 16: roundings of positions of at most 2^24 */
        low = floor((from - 1 - begin) / step) - 16;
        high = ceil((to + 1 - begin) / step) + 16;
    }
    low = low > 0 ? low : 0;
    high = high < a->grid ? high : a->grid;
    *first = low < 1e15 ? (int64_t)low : 0;
    *end = low < high ? (int64_t)high : *first;
}

#endif
