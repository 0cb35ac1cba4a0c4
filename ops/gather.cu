/* Gather and scatter. What several sources send to one place is combined there in the order of the sources: a thread
 * looks for the sources of its place, or a block, whose source is the first of its place, for the others. No atomics.
 */
#include "base/block.cuh"
#include "ops/launch_move.h"
#include "ops/types.cuh"

/* An index as ONNX writes it, 0..size-1; -1 where it is outside. */
static __device__ int64_t index_at(enum zt_dtype dtype, const void *index, int64_t i, int64_t size) {
    int64_t value = int_at(dtype, index, i);
    value += value < 0 ? size : 0;
    return value < 0 || value >= size ? -1 : value;
}

/* As zt_combine_element has it (combine.h): integers wrap as their type does. */
template <class T> static __device__ T combined(enum zt_combine how, T old, T with) {
    return how == ZT_COMBINE_ADD   ? (T)((uint64_t)old + (uint64_t)with)
           : how == ZT_COMBINE_MUL ? (T)((uint64_t)old * (uint64_t)with)
           : how == ZT_COMBINE_MAX ? (old < with ? with : old)
           : how == ZT_COMBINE_MIN ? (old < with ? old : with)
                                   : with;
}
template <> __device__ float combined<float>(enum zt_combine how, float a, float b) {
    return how == ZT_COMBINE_ADD   ? a + b
           : how == ZT_COMBINE_MUL ? a * b
           : how == ZT_COMBINE_MAX ? (a != a || a > b ? a : b)
           : how == ZT_COMBINE_MIN ? (a != a || a < b ? a : b)
                                   : b;
}
template <>
__device__ __nv_bfloat16 combined<__nv_bfloat16>(enum zt_combine how, __nv_bfloat16 old, __nv_bfloat16 with) {
    return from_float<__nv_bfloat16>(combined(how, to_float(old), to_float(with)));
}

/* ---- sources with slices: a block a source ---- */

/* Where source s of y begins, -1: nowhere. */
struct by_rows { /* of Gather and its gradient: source (o, j) is slice o * count + j */
    struct zt_launch_gather g;
    const void *index;
    __device__ int64_t sources() const {
        return g.outer * g.count;
    }
    __device__ int64_t slice() const {
        return g.inner;
    }
    __device__ int64_t group(int64_t s) const { /* sources that may meet: first of them and their number */
        return s / g.count * g.count;
    }
    __device__ int64_t together() const {
        return g.count;
    }
    __device__ int64_t place(int64_t s) const {
        const int64_t at = index_at(g.index_dtype, index, s % g.count, g.size);
        return at < 0 ? -1 : (s / g.count * g.size + at) * g.inner;
    }
};

struct by_tuples {
    struct zt_launch_tuples t;
    const void *index;
    __device__ int64_t sources() const {
        return t.tuples;
    }
    __device__ int64_t slice() const {
        return t.slice;
    }
    __device__ int64_t group(int64_t s) const {
        return s / t.per_batch * t.per_batch;
    }
    __device__ int64_t together() const {
        return t.per_batch;
    }
    __device__ int64_t place(int64_t s) const {
        int64_t at = 0;
        for (int64_t k = 0; k < t.length; k++) {
            const int64_t i = index_at(t.index_dtype, index, s * t.length + k, t.size[k]);
            if (i < 0)
                return -1;
            at = at * t.size[k] + i;
        }
        return (s / t.per_batch * t.batch_step + at) * t.slice;
    }
};

/* The sources of a group are looked through BLOCK at a time. A block whose source is not the first of its place leaves
 * it to that one. */
template <class Sources, class T>
static __global__ void put_slices_kernel(Sources from, enum zt_combine how, const T *x, T *y) {
    __shared__ int64_t places[BLOCK];
    __shared__ int met;
    for (int64_t s = blockIdx.x; s < from.sources(); s += gridDim.x) {
        const int64_t place = from.place(s), first = from.group(s), end = first + from.together();
        if (threadIdx.x == 0)
            met = 0;
        __syncthreads();
        for (int64_t other = first + threadIdx.x; other < s; other += BLOCK)
            if (from.place(other) == place)
                met = 1; /* by whichever thread */
        __syncthreads();
        const bool mine = place >= 0 && !met;
        __syncthreads();
        if (!mine) /* nor is it any other thread's of the block */
            continue;
        for (int64_t base = s; base < end; base += BLOCK) {
            if (threadIdx.x == 0)
                met = 0;
            __syncthreads();
            places[threadIdx.x] = base + threadIdx.x < end ? from.place(base + threadIdx.x) : -1;
            if (places[threadIdx.x] == place)
                met = 1;
            __syncthreads();
            for (int k = 0; met && k < BLOCK; k++)
                if (places[k] == place)
                    for (int64_t i = threadIdx.x; i < from.slice(); i += BLOCK)
                        y[place + i] = combined(how, y[place + i], x[(base + k) * from.slice() + i]);
            __syncthreads();
        }
    }
}

template <class Sources>
static int put_slices(cudaStream_t stream, enum zt_dtype dtype, int64_t sources, const Sources &from,
                      enum zt_combine how, const void *x, void *y) {
    const unsigned blocks = job_blocks(sources);
    const size_t bytes = bytes_of(dtype);
    if (how != ZT_COMBINE_REPLACE)
        WITH_NUMBER(dtype, sources,
                    (put_slices_kernel<Sources, T><<<blocks, BLOCK, 0, stream>>>(from, how, (const T *)x, (T *)y)));
    WITH_BYTES(bytes, sources,
               (put_slices_kernel<Sources, T><<<blocks, BLOCK, 0, stream>>>(from, how, (const T *)x, (T *)y)));
}

int zt_launch_gather_grad(cudaStream_t stream, enum zt_dtype dtype, const struct zt_launch_gather *g, const void *dy,
                          const void *index, void *dx) {
    const by_rows from = { *g, index };
    return put_slices(stream, dtype, g->inner ? g->outer * g->count : 0, from, ZT_COMBINE_ADD, dy, dx);
}

int zt_launch_put_tuples(cudaStream_t stream, enum zt_dtype dtype, const struct zt_launch_tuples *t, const void *x,
                         const void *index, void *y) {
    const by_tuples from = { *t, index };
    return put_slices(stream, dtype, t->slice ? t->tuples : 0, from, t->how, x, y);
}

template <class Sources, class T> static __global__ void get_slices_kernel(Sources from, const T *x, T *y) {
    EACH(i, from.sources() * from.slice()) {
        const int64_t place = from.place(i / from.slice());
        y[i] = place < 0 ? 0 : x[place + i % from.slice()];
    }
}

int zt_launch_gather(cudaStream_t stream, size_t bytes, const struct zt_launch_gather *g, const void *x,
                     const void *index, void *y) {
    const by_rows from = { *g, index };
    const int64_t count = g->outer * g->count * g->inner;
    WITH_BYTES(bytes, count,
               (get_slices_kernel<by_rows, T><<<blocks_for(count), BLOCK, 0, stream>>>(from, (const T *)x, (T *)y)));
}

int zt_launch_gather_tuples(cudaStream_t stream, size_t bytes, const struct zt_launch_tuples *t, const void *x,
                            const void *index, void *y) {
    const by_tuples from = { *t, index };
    const int64_t count = t->tuples * t->slice;
    WITH_BYTES(bytes, count,
               (get_slices_kernel<by_tuples, T><<<blocks_for(count), BLOCK, 0, stream>>>(from, (const T *)x, (T *)y)));
}

/* ---- elements: a thread a place ---- */

/* Element `at` of the data that index element i, whose value is `value`, points at. */
static __device__ int64_t element_place(const struct zt_launch_elements &e, int64_t i, int64_t value) {
    int64_t at = 0, step = 1;
    for (int k = e.axes - 1; k >= 0; k--) {
        at += (k == e.axis ? value : i % e.dim[k]) * step;
        i /= e.dim[k];
        step *= e.data[k];
    }
    return at;
}

template <class T>
static __global__ void gather_elements_kernel(struct zt_launch_elements e, int64_t count, const T *x, const void *index,
                                              T *y) {
    EACH(i, count) {
        const int64_t value = index_at(e.index_dtype, index, i, e.data[e.axis]);
        y[i] = value < 0 ? 0 : x[element_place(e, i, value)];
    }
}

int zt_launch_gather_elements(cudaStream_t stream, size_t bytes, const struct zt_launch_elements *e, const void *x,
                              const void *index, void *y) {
    int64_t count = 1;
    for (int k = 0; k < e->axes; k++)
        count *= e->dim[k];
    WITH_BYTES(
        bytes, count,
        (gather_elements_kernel<T><<<blocks_for(count), BLOCK, 0, stream>>>(*e, count, (const T *)x, index, (T *)y)));
}

/* Sources of place i are those with its coordinates outside the axis. */
template <class T>
static __global__ void put_elements_kernel(struct zt_launch_elements e, int64_t count, const T *start, const T *x,
                                           const void *index, T *y) {
    EACH(i, count) {
        int64_t rest = i, first = 0, step = 1, own = 0, along = 0;
        bool inside = true;
        for (int k = e.axes - 1; k >= 0; k--) {
            const int64_t at = rest % e.data[k];
            rest /= e.data[k];
            if (k == e.axis) {
                own = at;
                along = step;
            } else {
                inside &= at < e.dim[k];
                first += at * step;
            }
            step *= e.dim[k];
        }
        T value = start ? start[i] : T{};
        for (int64_t k = 0; inside && k < e.dim[e.axis]; k++)
            if (index_at(e.index_dtype, index, first + k * along, e.data[e.axis]) == own)
                value = combined(e.how, value, x[first + k * along]);
        y[i] = value;
    }
}

int zt_launch_put_elements(cudaStream_t stream, enum zt_dtype dtype, const struct zt_launch_elements *e,
                           const void *start, const void *x, const void *index, void *y) {
    int64_t count = 1;
    for (int k = 0; k < e->axes; k++)
        count *= e->data[k];
    const size_t bytes = bytes_of(dtype);
    if (e->how != ZT_COMBINE_REPLACE)
        WITH_NUMBER(dtype, count,
                    (put_elements_kernel<T><<<blocks_for(count), BLOCK, 0, stream>>>(*e, count, (const T *)start,
                                                                                     (const T *)x, index, (T *)y)));
    WITH_BYTES(bytes, count,
               (put_elements_kernel<T>
                <<<blocks_for(count), BLOCK, 0, stream>>>(*e, count, (const T *)start, (const T *)x, index, (T *)y)));
}
