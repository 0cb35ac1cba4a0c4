/* DeformConv beside its matrix products (formulas: ops/detection/deform_conv.c). Columns are [c, kernel, sample,
 * place]. A thread takes a position of a tap and goes through the channels of its offset group. */
#include "ops/detection/launch_deform_conv.h"

#include "ops/cuda/tensor.cuh"
#include "ops/movement/sort.cuh"

/* ---- positions ---- */

/* The lower corner of a cell and the distance from it. */
template <int AXES> struct position {
    int64_t low[AXES];
    float part[AXES];
};

/* Tap `tap` (offset group and window position) at result `place` of sample n. */
template <int AXES>
static __device__ position<AXES> position_of(const struct zt_launch_deform &d, const struct zt_launch_tensor &offset,
                                             int64_t n, int64_t tap, int64_t place) {
    const int64_t taps = d.offset_groups * d.kernel_elems;
    int64_t k = tap % d.kernel_elems, o = place;
    position<AXES> p;
    for (int a = AXES - 1; a >= 0; a--) {
        const float move = get(offset, ((n * taps + tap) * AXES + a) * d.places + place), whole = floorf(move);
        const int64_t base = o % d.out[a] * d.stride[a] - d.pad[a] + k % d.kernel[a] * d.dilation[a];
        const bool far = !(fabsf(move) < 1099511627776.0f); /* 2^40, as on the host */
        p.part[a] = move - whole;
        p.low[a] = far ? -2 : base + (int64_t)whole;
        if (move != move)
            p.low[a] = 0;
        else if (far)
            p.part[a] = 0;
        o /= d.out[a];
        k /= d.kernel[a];
    }
    return p;
}

/* The pixel of a corner, -1 outside. */
template <int AXES>
static __device__ int64_t pixel_of(const struct zt_launch_deform &d, const position<AXES> &p, int corner) {
    int64_t pixel = 0;
    bool inside = true;
    for (int a = 0; a < AXES; a++) {
        const int64_t i = p.low[a] + (corner >> a & 1);
        inside &= i >= 0 && i < d.in[a];
        pixel = pixel * d.in[a] + i;
    }
    return inside ? pixel : -1;
}

/* The weight of a corner; its derivative along axis `moved`. */
template <int AXES> static __device__ float weight_of(const position<AXES> &p, int corner, int moved) {
    float weight = 1;
    for (int a = 0; a < AXES; a++) {
        const bool upper = corner >> a & 1;
        weight *= a == moved ? (upper ? 1.0f : -1.0f) : upper ? p.part[a] : 1 - p.part[a];
    }
    return weight;
}

/* Index of (n, tap, place) in the mask; the tap and the position of thread i of [sample, tap, place]. */
struct at {
    int64_t sample, tap, place;
    __device__ at(const struct zt_launch_deform &d, int64_t i) {
        const int64_t taps = d.offset_groups * d.kernel_elems;
        place = i % d.places;
        tap = i / d.places % taps;
        sample = i / d.places / taps;
    }
    /* Element of channel c in the columns of `samples` samples. */
    __device__ int64_t column(const struct zt_launch_deform &d, int64_t samples, int64_t c) const {
        return ((c * d.kernel_elems + tap % d.kernel_elems) * samples + sample) * d.places + place;
    }
};

static __device__ float mask_of(const struct zt_launch_deform &d, const struct zt_launch_tensor &mask, int64_t n,
                                const struct at &at) {
    const int64_t taps = d.offset_groups * d.kernel_elems;
    return mask.data ? get(mask, (n * taps + at.tap) * d.places + at.place) : 1;
}

/* Launches kernel<AXES> for the axes of the node. A macro because a template is no argument of a function. */
#define WITH_AXES(count, kernel, ...)                                                                                  \
    do {                                                                                                               \
        if ((count) <= 0)                                                                                              \
            return cudaSuccess;                                                                                        \
        if (d->axes == 1)                                                                                              \
            kernel<1><<<blocks_for(count), BLOCK, 0, stream>>>(__VA_ARGS__);                                           \
        else if (d->axes == 2)                                                                                         \
            kernel<2><<<blocks_for(count), BLOCK, 0, stream>>>(__VA_ARGS__);                                           \
        else                                                                                                           \
            kernel<3><<<blocks_for(count), BLOCK, 0, stream>>>(__VA_ARGS__);                                           \
        return cudaGetLastError();                                                                                     \
    } while (0)

/* ---- forward ---- */

template <int AXES>
static __global__ void columns_kernel(struct zt_launch_deform d, struct zt_launch_samples samples,
                                      struct zt_launch_deform_tensors t) {
    const int64_t width = d.c / d.offset_groups;
    EACH(i, samples.count * d.offset_groups * d.kernel_elems * d.places) {
        const struct at at(d, i);
        const int64_t n = samples.first + at.sample, first = at.tap / d.kernel_elems * width;
        const position<AXES> p = position_of<AXES>(d, t.offset, n, at.tap, at.place);
        const float mask = mask_of(d, t.mask, n, at);
        int64_t pixel[1 << AXES];
        float weight[1 << AXES];
        for (int k = 0; k < 1 << AXES; k++) {
            pixel[k] = pixel_of<AXES>(d, p, k);
            weight[k] = weight_of<AXES>(p, k, -1);
        }
        for (int64_t c = first; c < first + width; c++) {
            float sum = 0;
            for (int k = 0; k < 1 << AXES; k++)
                if (pixel[k] >= 0)
                    sum += weight[k] * get(t.x, (n * d.c + c) * d.pixels + pixel[k]);
            put(t.columns, at.column(d, samples.count, c), sum * mask);
        }
    }
}

int zt_launch_deform_columns(cudaStream_t stream, const struct zt_launch_deform *d, struct zt_launch_samples samples,
                             const struct zt_launch_deform_tensors *t) {
    const int64_t count = samples.count * d->offset_groups * d->kernel_elems * d->places;
    WITH_AXES(count, columns_kernel, *d, samples, *t);
}

static __global__ void bias_kernel(struct zt_launch_deform d, struct zt_launch_tensor bias, struct zt_launch_tensor y) {
    EACH(i, d.n * d.m * d.places)
    put(y, i, bias.data ? get(bias, i / d.places % d.m) : 0);
}

int zt_launch_deform_bias(cudaStream_t stream, const struct zt_launch_deform *d, struct zt_launch_tensor bias,
                          struct zt_launch_tensor y) {
    const int64_t count = d->n * d->m * d->places;
    if (count > 0)
        bias_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*d, bias, y);
    return cudaGetLastError();
}

static __global__ void rows_kernel(struct zt_launch_deform d, struct zt_launch_samples samples,
                                   struct zt_launch_tensor dy, struct zt_launch_tensor to) {
    EACH(i, d.m * samples.count * d.places) {
        const int64_t n = samples.first + i / d.places % samples.count, m = i / d.places / samples.count;
        put(to, i, get(dy, (n * d.m + m) * d.places + i % d.places));
    }
}

int zt_launch_deform_rows(cudaStream_t stream, const struct zt_launch_deform *d, struct zt_launch_samples samples,
                          struct zt_launch_tensor dy, struct zt_launch_tensor to) {
    const int64_t count = d->m * samples.count * d->places;
    if (count > 0)
        rows_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*d, samples, dy, to);
    return cudaGetLastError();
}

/* ---- gradients ---- */

/* With q[corner] = sum over c of d x[corner], which all axes share: doffset = mask sum over corners of slope q, and
 * dmask = sum over corners of weight q. */
template <int AXES>
static __global__ void taps_grad_kernel(struct zt_launch_deform d, struct zt_launch_samples samples,
                                        struct zt_launch_deform_tensors t, struct zt_launch_tensor doffset,
                                        struct zt_launch_tensor dmask) {
    const int64_t width = d.c / d.offset_groups, taps = d.offset_groups * d.kernel_elems;
    EACH(i, samples.count * taps * d.places) {
        const struct at at(d, i);
        const int64_t n = samples.first + at.sample, first = at.tap / d.kernel_elems * width;
        const position<AXES> p = position_of<AXES>(d, t.offset, n, at.tap, at.place);
        const float mask = mask_of(d, t.mask, n, at);
        int64_t pixel[1 << AXES];
        float q[1 << AXES] = { 0 };
        for (int k = 0; k < 1 << AXES; k++)
            pixel[k] = pixel_of<AXES>(d, p, k);
        for (int64_t c = first; c < first + width; c++) {
            const float column = get(t.columns, at.column(d, samples.count, c));
            for (int k = 0; k < 1 << AXES; k++)
                if (pixel[k] >= 0)
                    q[k] += column * get(t.x, (n * d.c + c) * d.pixels + pixel[k]);
        }
        for (int a = 0; a <= AXES; a++) { /* the last one: the mask */
            float sum = 0;
            for (int k = 0; k < 1 << AXES; k++)
                if (pixel[k] >= 0)
                    sum += weight_of<AXES>(p, k, a) * q[k];
            if (a < AXES)
                put(doffset, ((n * taps + at.tap) * AXES + a) * d.places + at.place, sum * mask);
            else
                put(dmask, (n * taps + at.tap) * d.places + at.place, sum);
        }
    }
}

int zt_launch_deform_taps_grad(cudaStream_t stream, const struct zt_launch_deform *d, struct zt_launch_samples samples,
                               const struct zt_launch_deform_tensors *t, struct zt_launch_tensor doffset,
                               struct zt_launch_tensor dmask) {
    const int64_t count = samples.count * d->offset_groups * d->kernel_elems * d->places;
    WITH_AXES(count, taps_grad_kernel, *d, samples, *t, doffset, dmask);
}

/* ---- dx ---- */

/* A reader of a pixel: a tap at a position, with its corner's weight. */
struct reader {
    uint32_t tap_place; /* window position and place */
    float weight;
};

/* The sources of the sort (sort.cuh): corners of the taps of an offset group of a sample, by pixel. */
template <int AXES> struct corners {
    struct zt_launch_deform d;
    struct zt_launch_samples samples;
    struct zt_launch_tensor offset;
    __host__ __device__ int64_t orders() const {
        return samples.count * d.offset_groups;
    }
    __host__ __device__ int64_t together() const {
        return (d.kernel_elems * d.places) << AXES;
    }
    __host__ __device__ int64_t keys() const {
        return d.pixels;
    }
    __device__ position<AXES> at(int64_t batch, int64_t k) const {
        const int64_t tap = batch % d.offset_groups * d.kernel_elems + (k >> AXES) / d.places;
        return position_of<AXES>(d, offset, samples.first + batch / d.offset_groups, tap, (k >> AXES) % d.places);
    }
    __device__ int64_t key(int64_t batch, int64_t k) const {
        return pixel_of<AXES>(d, at(batch, k), (int)(k & ((1 << AXES) - 1)));
    }
};

/* reader[batch][k] of the sorted corners, and first[batch][pixel], where those of a pixel begin; first[batch][pixels]
 * is their number. */
template <int AXES>
static __global__ void readers_kernel(struct corners<AXES> from, struct order order, struct zt_launch_tensor mask,
                                      struct reader *reader, uint32_t *first) {
    const int64_t together = from.together(), pixels = from.d.pixels;
    EACH(i, from.orders() * together) {
        const int64_t batch = i / together, k = i % together;
        const struct ordered items = { order, order.sorted + batch * together };
        const int64_t source = items.source(k), key = items.key(k), before = k > 0 ? items.key(k - 1) : -1;
        const position<AXES> p = from.at(batch, source);
        struct at at(from.d, 0);
        at.tap = batch % from.d.offset_groups * from.d.kernel_elems + (source >> AXES) / from.d.places;
        at.place = (source >> AXES) % from.d.places;
        const float scale = mask_of(from.d, mask, from.samples.first + batch / from.d.offset_groups, at);
        reader[i] = { (uint32_t)(source >> AXES), weight_of<AXES>(p, (int)(source & ((1 << AXES) - 1)), -1) * scale };
        for (int64_t pixel = before + 1; pixel <= key; pixel++)
            first[batch * (pixels + 1) + pixel] = (uint32_t)k;
        for (int64_t pixel = key + 1; k == together - 1 && pixel <= pixels; pixel++)
            first[batch * (pixels + 1) + pixel] = (uint32_t)together;
    }
}

/* The sorted corners: `together` of them in each batch. */
struct readers {
    const struct reader *reader;
    const uint32_t *first;
    int64_t together;
};

static __global__ void image_grad_kernel(struct zt_launch_deform d, struct zt_launch_samples samples, struct readers of,
                                         struct zt_launch_tensor columns, struct zt_launch_tensor dx) {
    const int64_t width = d.c / d.offset_groups;
    EACH(i, samples.count * d.c * d.pixels) {
        const int64_t pixel = i % d.pixels, c = i / d.pixels % d.c, sample = i / d.pixels / d.c;
        const int64_t batch = sample * d.offset_groups + c / width;
        const uint32_t *range = of.first + batch * (d.pixels + 1) + pixel;
        float sum = 0;
        for (uint32_t k = range[0]; k < range[1]; k++) {
            const struct reader r = of.reader[batch * of.together + k];
            const int64_t tap = r.tap_place / d.places, place = r.tap_place % d.places;
            sum += r.weight * get(columns, ((c * d.kernel_elems + tap) * samples.count + sample) * d.places + place);
        }
        put(dx, samples.first * d.c * d.pixels + i, sum);
    }
}

/* The workspace: the sort's, then the readers and where they begin. */
template <int AXES> static size_t image_grad_bytes(const struct corners<AXES> &from, size_t *sorting) {
    *sorting = (order_bytes(from) + 255) / 256 * 256;
    return *sorting + (size_t)(from.orders() * from.together()) * sizeof(struct reader) +
           (size_t)(from.orders() * (from.d.pixels + 1)) * sizeof(uint32_t);
}

template <int AXES>
static int image_grad(cudaStream_t stream, const struct corners<AXES> &from, const struct zt_launch_deform_tensors *t,
                      struct zt_launch_tensor dx, struct zt_launch_room room) {
    const int64_t sources = from.orders() * from.together();
    size_t sorting;
    image_grad_bytes(from, &sorting);
    struct reader *reader = (struct reader *)((char *)room.workspace + sorting);
    uint32_t *first = (uint32_t *)(reader + sources);
    const struct order order = sort_sources(stream, from, room);
    readers_kernel<AXES><<<blocks_for(sources), BLOCK, 0, stream>>>(from, order, t->mask, reader, first);
    image_grad_kernel<<<blocks_for(from.samples.count * from.d.c * from.d.pixels), BLOCK, 0, stream>>>(
        from.d, from.samples, { reader, first, from.together() }, t->columns, dx);
    return cudaGetLastError();
}

int zt_launch_deform_image_grad(cudaStream_t stream, const struct zt_launch_deform *d, struct zt_launch_samples samples,
                                const struct zt_launch_deform_tensors *t, struct zt_launch_tensor dx,
                                struct zt_launch_room room) {
    if (d->axes == 1)
        return image_grad(stream, corners<1>{ *d, samples, t->offset }, t, dx, room);
    if (d->axes == 2)
        return image_grad(stream, corners<2>{ *d, samples, t->offset }, t, dx, room);
    return image_grad(stream, corners<3>{ *d, samples, t->offset }, t, dx, room);
}

size_t zt_launch_deform_image_grad_bytes(const struct zt_launch_deform *d, int64_t samples) {
    const struct zt_launch_samples some = { 0, samples };
    size_t sorting;
    return d->axes == 1   ? image_grad_bytes(corners<1>{ *d, some, {} }, &sorting)
           : d->axes == 2 ? image_grad_bytes(corners<2>{ *d, some, {} }, &sorting)
                          : image_grad_bytes(corners<3>{ *d, some, {} }, &sorting);
}
