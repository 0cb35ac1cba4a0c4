/* RoiAlign and its gradient (formulas: ops/detection/roi_align.c). A thread takes an element of y. dx gathers: a pixel
 * goes through the rois of its sample in order, and through the bins whose samples may read it. */
#include "ops/detection/launch_roi_align.h"

#include "ops/cuda/tensor.cuh"

/* Channels that a thread of the gradient adds up. */
enum { TOGETHER = 4 };

/* ---- rois ---- */

struct roi {
    struct zt_roi_axis axis[2];
    int64_t sample;
    bool known; /* numbers, and a sample of the batch */
};

static __device__ struct roi roi_of(const struct zt_roi_align &r, const struct zt_launch_tensor &rois,
                                    const int64_t *batch, int64_t i) {
    struct roi to;
    to.sample = batch[i];
    to.known = to.sample >= 0 && to.sample < r.n;
    for (int a = 0; a < 2; a++) {
        to.axis[a] = zt_roi_axis(&r, a, get(rois, 4 * i + 1 - a), get(rois, 4 * i + 3 - a));
        to.known &= to.axis[a].known;
    }
    return to;
}

/* A sample inside: its pixels and its numbers along both axes, and its number among those inside of its bin. */
struct sample {
    struct zt_roi_tap axis[2];
    int64_t at[2], number;
    __device__ int64_t pixel(const struct zt_roi_align &r, int corner) const {
        return (corner & 2 ? axis[0].high : axis[0].low) * r.in[1] + (corner & 1 ? axis[1].high : axis[1].low);
    }
    /* Of a corner along an axis; the corner is the upper one there where its bit is set. */
    __device__ float weight_along(int corner, int a) const {
        return (float)(corner >> (1 - a) & 1 ? axis[a].part : 1 - axis[a].part);
    }
    __device__ float weight(int corner) const {
        return weight_along(corner, 0) * weight_along(corner, 1);
    }
    /* The derivative of a corner's weighted value by the position along an axis. */
    __device__ float slope(const struct zt_roi_align &r, const struct zt_launch_tensor &x, int64_t plane, int corner,
                           int a) const {
        const bool high = corner >> (1 - a) & 1;
        float sum = (float)axis[a].slope[high] * get(x, plane + pixel(r, corner));
        if (high && axis[a].below != 0)
            sum += (float)axis[a].below * get(x, plane + pixel(r, corner & ~(2 >> a)) - (a ? 1 : r.in[1]));
        return sum * weight_along(corner, 1 - a);
    }
};

/* Calls visit(sample) for the samples inside of bin (i, k); returns their number. */
template <class Visit>
static __device__ int64_t each_sample(const struct zt_roi_align &r, const struct roi &roi, int64_t i, int64_t k,
                                      Visit visit) {
    int64_t first[2], end[2];
    struct sample s;
    s.number = 0;
    zt_roi_range(&roi.axis[0], i, 0, (double)r.in[0] - 1, &first[0], &end[0]);
    zt_roi_range(&roi.axis[1], k, 0, (double)r.in[1] - 1, &first[1], &end[1]);
    for (s.at[0] = first[0]; s.at[0] < end[0]; s.at[0]++) {
        if (!zt_roi_tap(r.in[0], zt_roi_position(&r, &roi.axis[0], i, s.at[0]), &s.axis[0]))
            continue;
        for (s.at[1] = first[1]; s.at[1] < end[1]; s.at[1]++)
            if (zt_roi_tap(r.in[1], zt_roi_position(&r, &roi.axis[1], k, s.at[1]), &s.axis[1])) {
                visit(s);
                s.number++;
            }
    }
    return s.number;
}

struct largest {
    float value;
    struct zt_launch_roi_largest of;
};

static __device__ struct largest largest_of(const struct zt_roi_align &r, const struct roi &roi, int64_t i, int64_t k,
                                            const struct zt_launch_tensor &x, int64_t plane) {
    struct largest best = { 0, { -1, -1, 0 } };
    const int64_t inside = each_sample(r, roi, i, k, [&](const struct sample &s) {
        for (int c = 0; c < 4; c++) {
            const float weight = s.weight(c), value = weight * get(x, plane + s.pixel(r, c));
            if (best.of.corner < 0 || value > best.value || (value != value && best.value == best.value))
                best = { value, { s.pixel(r, c), 4 * s.number + c, weight } };
        }
    });
    if (inside > 0 && (double)inside < roi.axis[0].grid * roi.axis[1].grid && best.value < 0)
        best = { 0, { -1, -1, 0 } };
    return best;
}

/* ---- forward ---- */

static __global__ void pool_kernel(struct zt_roi_align r, struct zt_launch_tensor x, struct zt_launch_tensor rois,
                                   const int64_t *batch, struct zt_launch_tensor y) {
    EACH(at, r.rois * r.c * r.out[0] * r.out[1]) {
        const int64_t k = at % r.out[1], i = at / r.out[1] % r.out[0], c = at / r.out[1] / r.out[0] % r.c;
        const struct roi roi = roi_of(r, rois, batch, at / r.out[1] / r.out[0] / r.c);
        const int64_t plane = (roi.sample * r.c + c) * r.in[0] * r.in[1];
        float value = 0;
        if (!roi.known) {
            put(y, at, CUDART_NAN_F);
            continue;
        }
        if (r.max) {
            put(y, at, largest_of(r, roi, i, k, x, plane).value);
            continue;
        }
        each_sample(r, roi, i, k, [&](const struct sample &of) {
            for (int corner = 0; corner < 4; corner++)
                value += of.weight(corner) * get(x, plane + of.pixel(r, corner));
        });
        put(y, at, value / (float)zt_roi_count(&roi.axis[0], &roi.axis[1]));
    }
}

int zt_launch_roi_align(cudaStream_t stream, const struct zt_roi_align *r, struct zt_launch_tensor x,
                        struct zt_launch_tensor rois, const void *batch, struct zt_launch_tensor y) {
    const int64_t count = r->rois * r->c * r->out[0] * r->out[1];
    if (count > 0)
        pool_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*r, x, rois, (const int64_t *)batch, y);
    return cudaGetLastError();
}

/* ---- gradient of x ---- */

static __global__ void largest_kernel(struct zt_roi_align r, struct zt_launch_roi_grad g,
                                      struct zt_launch_roi_largest *to) {
    EACH(at, r.rois * r.c * r.out[0] * r.out[1]) {
        const int64_t k = at % r.out[1], i = at / r.out[1] % r.out[0], c = at / r.out[1] / r.out[0] % r.c;
        const struct roi roi = roi_of(r, g.rois, (const int64_t *)g.batch, at / r.out[1] / r.out[0] / r.c);
        const int64_t plane = (roi.sample * r.c + c) * r.in[0] * r.in[1];
        struct largest best = { 0, { -1, -1, 0 } };
        if (roi.known)
            best = largest_of(r, roi, i, k, g.x, plane);
        to[at] = best.of;
    }
}

/* The bins from *first to before *end that may read a pixel. */
static __device__ void bins_of(const struct zt_roi_axis &a, int64_t bins, int64_t pixel, int64_t *first, int64_t *end) {
    *first = 0;
    *end = bins;
    if (!(a.bin > 0))
        return;
    /* 8: roundings of positions of at most 2^24 */
    const double low = floor(((double)pixel - 9 - a.start) / a.bin), high = ceil(((double)pixel + 9 - a.start) / a.bin);
    *first = low > 0 ? (low < (double)bins ? (int64_t)low : bins) : 0;
    *end = high < (double)bins ? (high > 0 ? (int64_t)high : 0) : bins;
}

/* Returns the share of a pixel in a bin of an axis: the sum of its samples' weights. */
static __device__ float share_of(const struct zt_roi_align &r, const struct zt_roi_axis &a, int axis, int64_t bin,
                                 int64_t pixel) {
    int64_t first, end;
    double sum = 0;
    zt_roi_range(&a, bin, (double)pixel, (double)pixel, &first, &end);
    for (int64_t i = first; i < end; i++) {
        struct zt_roi_tap tap;
        if (!zt_roi_tap(r.in[axis], zt_roi_position(&r, &a, bin, i), &tap))
            continue;
        sum += tap.low == pixel ? 1 - tap.part : 0;
        sum += tap.high == pixel ? tap.part : 0;
    }
    return (float)sum;
}

/* A thread takes a pixel of TOGETHER channels of a sample. */
static __global__ void image_kernel(struct zt_roi_align r, struct zt_launch_roi_grad g,
                                    const struct zt_launch_roi_largest *largest) {
    const int64_t pixels = r.in[0] * r.in[1], groups = (r.c + TOGETHER - 1) / TOGETHER, bins = r.out[0] * r.out[1];
    EACH(at, r.n * groups * pixels) {
        const int64_t own = at % pixels, channel = at / pixels % groups * TOGETHER, sample = at / pixels / groups;
        const int64_t pixel[2] = { own / r.in[1], own % r.in[1] };
        const int channels = (int)least(r.c - channel, TOGETHER);
        float sum[TOGETHER] = { 0 };
        for (int64_t i = 0; i < r.rois; i++) {
            int64_t first[2], end[2];
            if (((const int64_t *)g.batch)[i] != sample)
                continue;
            const struct roi roi = roi_of(r, g.rois, (const int64_t *)g.batch, i);
            for (int a = 0; a < 2; a++)
                bins_of(roi.axis[a], r.out[a], pixel[a], &first[a], &end[a]);
            if (!roi.known || first[0] >= end[0] || first[1] >= end[1])
                continue;
            const float scale = 1 / (float)zt_roi_count(&roi.axis[0], &roi.axis[1]);
            for (int64_t p = first[0]; p < end[0]; p++) {
                const float down = r.max ? 1 : share_of(r, roi.axis[0], 0, p, pixel[0]);
                for (int64_t q = first[1]; down != 0 && q < end[1]; q++) {
                    const float along = r.max ? 1 : share_of(r, roi.axis[1], 1, q, pixel[1]);
                    for (int c = 0; along != 0 && c < channels; c++) {
                        const int64_t from = (i * r.c + channel + c) * bins + p * r.out[1] + q;
                        if (r.max)
                            sum[c] += largest[from].pixel == own ? largest[from].weight * get(g.dy, from) : 0;
                        else
                            sum[c] += down * along * scale * get(g.dy, from);
                    }
                }
            }
        }
        for (int c = 0; c < channels; c++)
            put(g.dx, (sample * r.c + channel + c) * pixels + own, sum[c]);
    }
}

/* ---- gradient of rois ---- */

/* A block takes a roi, a thread some of its bins; to[0..3]: x1, y1, x2, y2. */
static __global__ void rois_kernel(struct zt_roi_align r, struct zt_launch_roi_grad g,
                                   const struct zt_launch_roi_largest *largest) {
    __shared__ double part[BLOCK];
    const int64_t bins = r.out[0] * r.out[1], pixels = r.in[0] * r.in[1];
    for (int64_t i = blockIdx.x; i < r.rois; i += gridDim.x) {
        const struct roi roi = roi_of(r, g.rois, (const int64_t *)g.batch, i);
        const double count = zt_roi_count(&roi.axis[0], &roi.axis[1]);
        double to[4] = { 0 };
        for (int64_t at = threadIdx.x; roi.known && at < r.c * bins; at += BLOCK) {
            const int64_t bin[2] = { at % bins / r.out[1], at % r.out[1] };
            const int64_t plane = (roi.sample * r.c + at / bins) * pixels;
            const double d = get(g.dy, i * r.c * bins + at);
            each_sample(r, roi, bin[0], bin[1], [&](const struct sample &s) {
                for (int c = 0; c < 4; c++) {
                    if (r.max && largest[i * r.c * bins + at].corner != 4 * s.number + c)
                        continue;
                    for (int a = 0; a < 2; a++) {
                        const double u = zt_roi_fraction(&r, &roi.axis[a], a, bin[a], s.at[a]);
                        const double slope = d * s.slope(r, g.x, plane, c, a) * r.scale / (r.max ? 1 : count);
                        to[1 - a] += slope * (1 - u);
                        to[3 - a] += slope * u;
                    }
                }
            });
        }
        for (int k = 0; k < 4; k++) {
            const double sum = add_block<BLOCK>(to[k], part);
            if (threadIdx.x == 0)
                put(g.drois, 4 * i + k, (float)sum);
        }
    }
}

int zt_launch_roi_align_grad(cudaStream_t stream, const struct zt_roi_align *r, const struct zt_launch_roi_grad *g,
                             void *workspace) {
    struct zt_launch_roi_largest *largest = (struct zt_launch_roi_largest *)workspace;
    const int64_t count = r->rois * r->c * r->out[0] * r->out[1];
    const int64_t threads = r->n * ((r->c + TOGETHER - 1) / TOGETHER) * r->in[0] * r->in[1];
    if (r->max && count > 0)
        largest_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*r, *g, largest);
    if (threads > 0)
        image_kernel<<<blocks_for(threads), BLOCK, 0, stream>>>(*r, *g, largest);
    if (g->drois.data && r->rois > 0)
        rois_kernel<<<job_blocks(r->rois), BLOCK, 0, stream>>>(*r, *g, largest);
    return cudaGetLastError();
}
