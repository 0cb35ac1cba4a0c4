/* GridSample and AffineGrid with their gradients (formulas: ops/resample/grid_sample.c, affine_grid.c). The taps of
 * all places are computed once, in fp64 as on the host, so that both choose the same pixels. dX gathers: a pixel goes
 * through the places in order and skips blocks of places that do not read it. */
#include "ops/resample/launch_grid_sample.h"
#include "ops/cuda/tensor.cuh"

/* Channels that a thread adds up; places and channels of a block of threads. */
enum { TOGETHER = 4, WIDE = 32, LANES = 8 };

/* ---- taps ---- */

static __device__ int taps_of(const struct zt_sampler &s) {
    return s.mode == ZT_SAMPLE_NEAREST ? 1 : s.mode == ZT_SAMPLE_LINEAR ? 2 : ZT_SAMPLE_TAPS;
}

static __global__ void taps_kernel(struct zt_sampler s, struct zt_launch_tensor grid, struct zt_launch_taps *taps) {
    EACH(i, s.n * s.places * s.axes) {
        const int axis = (int)(i % s.axes);
        struct zt_sample_taps found;
        struct zt_launch_taps one = {};
        zt_sample_axis_taps(&s, axis, get(grid, i - axis + s.axes - 1 - axis), &found); /* names the last axis first */
        for (int k = 0; k < found.count; k++) {
            one.offset[k] = (int32_t)found.offset[k];
            one.weight[k] = (float)found.weight[k];
            one.slope[k] = (float)found.slope[k];
        }
        taps[i] = one;
    }
}

/* The weighted sum of pixels of a plane; slopes instead of weights on axis `moved`. */
static __device__ float blend(const struct zt_sampler &s, const struct zt_launch_taps *taps,
                              const struct zt_launch_tensor &x, int64_t plane, int moved) {
    const int count = taps_of(s);
    int all = 1;
    float sum = 0;
    for (int k = 0; k < s.axes; k++)
        all *= count;
    for (int i = 0; i < all; i++) {
        int64_t at = plane;
        float weight = 1;
        bool inside = true;
        for (int k = s.axes - 1, rest = i; k >= 0; k--, rest /= count) {
            const int t = rest % count;
            inside &= taps[k].offset[t] >= 0;
            at += taps[k].offset[t];
            weight *= k == moved ? taps[k].slope[t] : taps[k].weight[t];
        }
        sum += inside ? weight * get(x, at) : 0;
    }
    return sum;
}

/* ---- GridSample ---- */

static __global__ void sample_kernel(struct zt_sampler s, const struct zt_launch_taps *taps, struct zt_launch_tensor x,
                                     struct zt_launch_tensor y) {
    EACH(i, s.n * s.channels * s.places) {
        const int64_t plane = i / s.places, place = plane / s.channels * s.places + i % s.places;
        put(y, i, blend(s, taps + place * s.axes, x, plane * s.pixels, -1));
    }
}

int zt_launch_grid_sample(cudaStream_t stream, const struct zt_sampler *s, struct zt_launch_tensor x,
                          struct zt_launch_tensor grid, struct zt_launch_tensor y, void *workspace) {
    struct zt_launch_taps *taps = (struct zt_launch_taps *)workspace;
    const int64_t places = s->n * s->places * s->axes, count = s->n * s->channels * s->places;
    if (count <= 0)
        return cudaSuccess;
    taps_kernel<<<blocks_for(places), BLOCK, 0, stream>>>(*s, grid, taps);
    sample_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*s, taps, x, y);
    return cudaGetLastError();
}

/* ---- its gradients ---- */

/* The first and the last pixel of a plane that a block of places may read; none: the last is before the first. */
static __global__ void reach_kernel(struct zt_sampler s, int64_t blocks, const struct zt_launch_taps *taps,
                                    int32_t *reach) {
    const int count = taps_of(s);
    EACH(i, s.n * blocks) {
        const int64_t first = i % blocks * ZT_LAUNCH_SAMPLE_BLOCK, sample = i / blocks;
        int64_t low = s.pixels, high = -1;
        for (int64_t p = first; p < first + ZT_LAUNCH_SAMPLE_BLOCK && p < s.places; p++) {
            const struct zt_launch_taps *t = taps + (sample * s.places + p) * s.axes;
            int64_t least = 0, most = 0;
            for (int k = 0; k < s.axes; k++) {
                int64_t from = s.pixels, to = -s.pixels;
                for (int c = 0; c < count; c++) {
                    if (t[k].offset[c] < 0)
                        continue;
                    from = t[k].offset[c] < from ? t[k].offset[c] : from;
                    to = t[k].offset[c] > to ? t[k].offset[c] : to;
                }
                least += from;
                most += to;
            }
            low = most >= 0 && least < low ? least : low;
            high = most > high ? most : high;
        }
        reach[2 * i] = (int32_t)low;
        reach[2 * i + 1] = (int32_t)high;
    }
}

/* The contribution of a place to pixel `own` (an offset an axis): the sum of the products of the weights. */
static __device__ bool share_of(const struct zt_sampler &s, const struct zt_launch_taps *taps, const int32_t *own,
                                float *weight) {
    const int count = taps_of(s);
    *weight = 1;
    for (int k = 0; k < s.axes; k++) {
        float along = 0;
        bool meets = false;
        for (int t = 0; t < count; t++)
            if (taps[k].offset[t] == own[k]) {
                along += taps[k].weight[t];
                meets = true;
            }
        if (!meets)
            return false;
        *weight *= along;
    }
    return true;
}

/* A block takes BLOCK neighbouring pixels of TOGETHER channels of a sample. */
static __global__ void image_kernel(struct zt_sampler s, int64_t blocks, const struct zt_launch_taps *taps,
                                    const int32_t *reach, struct zt_launch_tensor dy, struct zt_launch_tensor dx) {
    const int64_t tiles = (s.pixels + BLOCK - 1) / BLOCK, groups = (s.channels + TOGETHER - 1) / TOGETHER;
    for (int64_t job = blockIdx.x; job < s.n * groups * tiles; job += gridDim.x) {
        const int64_t sample = job / tiles / groups, channel = job / tiles % groups * TOGETHER;
        const int64_t first = job % tiles * BLOCK, pixel = first + threadIdx.x;
        const int channels = s.channels - channel < TOGETHER ? (int)(s.channels - channel) : (int)TOGETHER;
        const int64_t plane = sample * s.channels + channel;
        double sum[TOGETHER] = { 0 };
        int32_t own[ZT_LAUNCH_SAMPLE_AXES];
        for (int k = 0; k < s.axes; k++)
            own[k] = (int32_t)(pixel / s.stride[k] % s.size[k] * s.stride[k]);
        for (int64_t block = 0; pixel < s.pixels && block < blocks; block++) {
            const int32_t *range = reach + 2 * (sample * blocks + block);
            const int64_t begin = block * ZT_LAUNCH_SAMPLE_BLOCK, end = begin + ZT_LAUNCH_SAMPLE_BLOCK;
            if (range[1] < first || range[0] >= first + BLOCK)
                continue;
            for (int64_t p = begin; p < end && p < s.places; p++) {
                float weight;
                if (!share_of(s, taps + (sample * s.places + p) * s.axes, own, &weight))
                    continue;
                for (int c = 0; c < channels; c++)
                    sum[c] += weight * get(dy, (plane + c) * s.places + p);
            }
        }
        for (int c = 0; pixel < s.pixels && c < channels; c++)
            put(dx, (plane + c) * s.pixels + pixel, (float)sum[c]);
    }
}

/* A block takes WIDE places; thread row k takes channels k, k + LANES, ... and the sums are combined in order. */
static __global__ void places_kernel(struct zt_sampler s, const struct zt_launch_taps *taps, struct zt_launch_tensor dy,
                                     struct zt_launch_tensor x, struct zt_launch_tensor dgrid) {
    __shared__ float part[LANES][WIDE];
    const int64_t all = s.n * s.places, jobs = (all + WIDE - 1) / WIDE;
    for (int64_t job = blockIdx.x; job < jobs; job += gridDim.x) {
        const int64_t place = job * WIDE + threadIdx.x, sample = place / s.places;
        float sum[ZT_LAUNCH_SAMPLE_AXES] = { 0 };
        for (int64_t c = threadIdx.y; place < all && c < s.channels; c += LANES) {
            const int64_t plane = sample * s.channels + c;
            const float d = get(dy, plane * s.places + place % s.places);
            for (int k = 0; k < s.axes; k++)
                sum[k] += d * blend(s, taps + place * s.axes, x, plane * s.pixels, k);
        }
        for (int k = 0; k < s.axes; k++) {
            sum[k] = add_columns<LANES>(sum[k], part);
            if (threadIdx.y == 0 && place < all)
                put(dgrid, (place + 1) * s.axes - 1 - k, sum[k]);
        }
    }
}

int zt_launch_grid_sample_grad(cudaStream_t stream, const struct zt_sampler *s, const struct zt_launch_sample_grad *g,
                               void *workspace) {
    struct zt_launch_taps *taps = (struct zt_launch_taps *)workspace;
    const int64_t places = s->n * s->places * s->axes, blocks = zt_launch_sample_blocks(s);
    int32_t *reach = (int32_t *)(taps + places);
    if (places > 0)
        taps_kernel<<<blocks_for(places), BLOCK, 0, stream>>>(*s, g->grid, taps);
    if (g->dx.data && s->n * s->channels * s->pixels > 0) {
        const int64_t tiles = (s->pixels + BLOCK - 1) / BLOCK, groups = (s->channels + TOGETHER - 1) / TOGETHER;
        if (blocks > 0)
            reach_kernel<<<blocks_for(s->n * blocks), BLOCK, 0, stream>>>(*s, blocks, taps, reach);
        image_kernel<<<job_blocks(s->n * groups * tiles), BLOCK, 0, stream>>>(*s, blocks, taps, reach, g->dy, g->dx);
    }
    if (g->dgrid.data && places > 0)
        places_kernel<<<job_blocks((s->n * s->places + WIDE - 1) / WIDE), dim3(WIDE, LANES), 0, stream>>>(
            *s, taps, g->dy, g->x, g->dgrid);
    return cudaGetLastError();
}

/* ---- AffineGrid ---- */

/* Coordinate c of a place: x, y, z, then 1. */
static __device__ double base_at(const struct zt_launch_affine_grid &g, int64_t place, int c) {
    int64_t size = 1;
    if (c == g.axes)
        return 1;
    for (int k = 0; k <= c; k++) {
        place /= size;
        size = g.dim[g.axes - 1 - k];
    }
    const double i = (double)(place % size);
    if (g.align_corners)
        return size > 1 ? 2 * i / (double)(size - 1) - 1 : 0;
    return (2 * i + 1) / (double)size - 1;
}

static __global__ void affine_kernel(struct zt_launch_affine_grid g, struct zt_launch_tensor theta,
                                     struct zt_launch_tensor grid) {
    EACH(i, g.batch * g.places * g.axes) {
        const int64_t row = i / g.axes / g.places * g.axes + i % g.axes;
        double sum = 0;
        for (int c = 0; c <= g.axes; c++)
            sum += get(theta, row * (g.axes + 1) + c) * base_at(g, i / g.axes % g.places, c);
        put(grid, i, (float)sum);
    }
}

int zt_launch_affine_grid(cudaStream_t stream, const struct zt_launch_affine_grid *g, struct zt_launch_tensor theta,
                          struct zt_launch_tensor grid) {
    const int64_t count = g->batch * g->places * g->axes;
    if (count > 0)
        affine_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*g, theta, grid);
    return cudaGetLastError();
}

/* A block takes one element of dtheta. */
static __global__ void affine_grad_kernel(struct zt_launch_affine_grid g, struct zt_launch_tensor dgrid,
                                          struct zt_launch_tensor dtheta) {
    __shared__ double part[BLOCK];
    const int64_t width = g.axes + 1;
    for (int64_t i = blockIdx.x; i < g.batch * g.axes * width; i += gridDim.x) {
        const int64_t n = i / width / g.axes, row = i / width % g.axes;
        double sum = 0;
        for (int64_t place = threadIdx.x; place < g.places; place += BLOCK)
            sum += get(dgrid, (n * g.places + place) * g.axes + row) * base_at(g, place, (int)(i % width));
        sum = add_block<BLOCK>(sum, part);
        if (threadIdx.x == 0)
            put(dtheta, i, (float)sum);
    }
}

int zt_launch_affine_grid_grad(cudaStream_t stream, const struct zt_launch_affine_grid *g,
                               struct zt_launch_tensor dgrid, struct zt_launch_tensor dtheta) {
    const int64_t count = g->batch * g->axes * (g->axes + 1);
    if (count > 0)
        affine_grad_kernel<<<job_blocks(count), BLOCK, 0, stream>>>(*g, dgrid, dtheta);
    return cudaGetLastError();
}
