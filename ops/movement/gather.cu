/* Gather and scatter. Sources that go to one place are combined there in their order, without atomics: they are sorted
 * by place (sort.cuh), and the threads at the first source of a place go on to its last. */
#include "ops/movement/launch_gather.h"
#include "ops/cuda/types.cuh"
#include "ops/movement/sort.cuh"

/* An index of ONNX as 0..size-1; -1: it is outside. */
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
template <> __device__ __half combined<__half>(enum zt_combine how, __half old, __half with) {
    return from_float<__half>(combined(how, to_float(old), to_float(with)));
}

/* ---- sources ---- */

/* Sources come in batches: source k of a batch is `slice` elements from from(batch, k) on, and they belong to
 * to(batch, key). A key of -1: nowhere. Batches beyond `orders` have the keys of the first. */
struct by_rows {
    struct zt_launch_gather g;
    const void *index;
    __host__ __device__ int64_t batches() const {
        return g.outer;
    }
    __host__ __device__ int64_t orders() const {
        return g.outer > 0;
    }
    __host__ __device__ int64_t together() const {
        return g.count;
    }
    __host__ __device__ int64_t keys() const {
        return g.size;
    }
    __host__ __device__ int64_t slice() const {
        return g.inner;
    }
    __device__ int64_t key(int64_t, int64_t k) const {
        return index_at(g.index_dtype, index, k, g.size);
    }
    __device__ int64_t from(int64_t batch, int64_t k) const {
        return (batch * g.count + k) * g.inner;
    }
    __device__ int64_t to(int64_t batch, int64_t key) const {
        return (batch * g.size + key) * g.inner;
    }
};

struct by_tuples {
    struct zt_launch_tuples t;
    const void *index;
    __host__ __device__ int64_t batches() const {
        return t.per_batch > 0 ? t.tuples / t.per_batch : 0;
    }
    __host__ __device__ int64_t orders() const {
        return batches();
    }
    __host__ __device__ int64_t together() const {
        return t.per_batch;
    }
    __host__ __device__ int64_t keys() const {
        return t.batch_step;
    }
    __host__ __device__ int64_t slice() const {
        return t.slice;
    }
    __device__ int64_t key(int64_t batch, int64_t k) const {
        int64_t at = 0;
        for (int64_t i = 0; i < t.length; i++) {
            const int64_t value = index_at(t.index_dtype, index, (batch * t.per_batch + k) * t.length + i, t.size[i]);
            if (value < 0)
                return -1;
            at = at * t.size[i] + value;
        }
        return at;
    }
    __device__ int64_t from(int64_t batch, int64_t k) const {
        return (batch * t.per_batch + k) * t.slice;
    }
    __device__ int64_t to(int64_t batch, int64_t key) const {
        return (batch * t.batch_step + key) * t.slice;
    }
};

/* A batch is an axis slice. */
struct by_slices {
    struct zt_launch_elements e;
    const void *index;
    __host__ __device__ int64_t batches() const {
        int64_t count = 1;
        for (int k = 0; k < e.axes; k++)
            count *= k == e.axis ? 1 : e.dim[k];
        return count;
    }
    __host__ __device__ int64_t orders() const {
        return batches();
    }
    __host__ __device__ int64_t together() const {
        return e.dim[e.axis];
    }
    __host__ __device__ int64_t keys() const {
        return e.data[e.axis];
    }
    __host__ __device__ int64_t slice() const {
        return 1;
    }
    /* Element `at` of a batch in a tensor of shape `dim`. */
    __device__ int64_t place(int64_t batch, int64_t at, const int64_t *dim) const {
        int64_t place = 0, step = 1;
        for (int k = e.axes - 1; k >= 0; k--) {
            place += (k == e.axis ? at : batch % e.dim[k]) * step;
            batch /= k == e.axis ? 1 : e.dim[k];
            step *= dim[k];
        }
        return place;
    }
    __device__ int64_t key(int64_t batch, int64_t k) const {
        return index_at(e.index_dtype, index, from(batch, k), e.data[e.axis]);
    }
    __device__ int64_t from(int64_t batch, int64_t k) const {
        return place(batch, k, e.dim);
    }
    __device__ int64_t to(int64_t batch, int64_t key) const {
        return place(batch, key, e.data);
    }
};

/* Threads for `slices` of `elements` elements: a row of a block takes a slice; the grid's second axis divides it. */
struct grid {
    dim3 blocks, threads;
};
static struct grid grid_for(int64_t slices, int64_t elements) {
    int wide = 1;
    while (wide < BLOCK && wide < elements)
        wide *= 2;
    return { dim3(job_blocks((slices + BLOCK / wide - 1) / (BLOCK / wide)), job_blocks((elements + wide - 1) / wide)),
             dim3((unsigned)wide, (unsigned)(BLOCK / wide)) };
}
/* Loops as macros, like EACH (block.cuh): their bodies use continue. */
#define EACH_SLICE(s, slices)                                                                                          \
    for (int64_t s = (int64_t)blockIdx.x * blockDim.y + threadIdx.y; s < (slices); s += (int64_t)gridDim.x * blockDim.y)
#define EACH_OF_SLICE(i, elements)                                                                                     \
    for (int64_t i = (int64_t)blockIdx.y * blockDim.x + threadIdx.x; i < (elements);                                   \
         i += (int64_t)gridDim.y * blockDim.x)

/* ---- slices to their places ---- */

enum { AHEAD = 8 }; /* sources that are read before the first is combined */

template <class Sources, class T>
static __global__ void put_slices_kernel(Sources from, struct order order, enum zt_combine how, const T *__restrict__ x,
                                         T *__restrict__ y) {
    const int64_t together = from.together();
    EACH_SLICE(s, from.batches() * together) {
        const int64_t batch = s / together, first = s % together;
        const ordered items = { order, order.sorted + (from.orders() > 1 ? batch * together : 0) };
        const int64_t key = items.key(first);
        if (key == from.keys() || (first > 0 && items.key(first - 1) == key))
            continue;
        EACH_OF_SLICE(i, from.slice()) {
            T *to = y + from.to(batch, key) + i, value = *to;
            bool more = true;
            for (int64_t k = first; more; k += AHEAD) {
                T with[AHEAD];
                int count = 0;
                for (int j = 0; j < AHEAD; j++) {
                    const bool same = k + j < together && items.key(k + j) == key;
                    with[j] = same ? x[from.from(batch, items.source(k + j)) + i] : T{};
                    count += same;
                }
                for (int j = 0; j < AHEAD; j++)
                    value = j < count ? combined(how, value, with[j]) : value;
                more = count == AHEAD;
            }
            *to = value;
        }
    }
}

template <class Sources>
static int put_slices(cudaStream_t stream, const Sources &from, enum zt_combine how, struct zt_launch_tensor x, void *y,
                      const struct zt_launch_room &room) {
    const int64_t slices = from.batches() * from.together(), count = slices * from.slice();
    const size_t bytes = bytes_of(x.dtype);
    if (count == 0)
        return cudaSuccess;
    const struct grid grid = grid_for(slices, from.slice());
    const struct order order = sort_sources(stream, from, room);
    if (how != ZT_COMBINE_REPLACE)
        WITH_NUMBER(x.dtype, count,
                    (put_slices_kernel<Sources, T>
                     <<<grid.blocks, grid.threads, 0, stream>>>(from, order, how, (const T *)x.data, (T *)y)));
    WITH_BYTES(bytes, count,
               (put_slices_kernel<Sources, T>
                <<<grid.blocks, grid.threads, 0, stream>>>(from, order, how, (const T *)x.data, (T *)y)));
}

int zt_launch_gather_grad(cudaStream_t stream, const struct zt_launch_gather *g, struct zt_launch_tensor dy,
                          const void *index, void *dx, struct zt_launch_room room) {
    const by_rows from = { *g, index };
    return put_slices(stream, from, ZT_COMBINE_ADD, dy, dx, room);
}
size_t zt_launch_gather_grad_bytes(const struct zt_launch_gather *g) {
    return order_bytes(by_rows{ *g, NULL });
}

int zt_launch_put_tuples(cudaStream_t stream, const struct zt_launch_tuples *t, struct zt_launch_tensor x,
                         const void *index, void *y, struct zt_launch_room room) {
    const by_tuples from = { *t, index };
    return put_slices(stream, from, t->how, x, y, room);
}
size_t zt_launch_put_tuples_bytes(const struct zt_launch_tuples *t) {
    return order_bytes(by_tuples{ *t, NULL });
}

int zt_launch_put_elements(cudaStream_t stream, const struct zt_launch_elements *e, struct zt_launch_tensor x,
                           const void *index, void *y, struct zt_launch_room room) {
    const by_slices from = { *e, index };
    return put_slices(stream, from, e->how, x, y, room);
}
size_t zt_launch_put_elements_bytes(const struct zt_launch_elements *e) {
    return order_bytes(by_slices{ *e, NULL });
}

/* ---- slices from their places ---- */

template <class Sources, class T>
static __global__ void get_slices_kernel(Sources from, const T *__restrict__ x, T *__restrict__ y) {
    const int64_t together = from.together();
    EACH_SLICE(s, from.batches() * together) {
        const int64_t batch = s / together, k = s % together, key = from.key(batch, k);
        const T *data = x + (key < 0 ? 0 : from.to(batch, key));
        T *to = y + from.from(batch, k);
        EACH_OF_SLICE(i, from.slice()) {
            to[i] = key < 0 ? 0 : data[i];
        }
    }
}

template <class Sources>
static int get_slices(cudaStream_t stream, size_t bytes, const Sources &from, const void *x, void *y) {
    const int64_t slices = from.batches() * from.together(), count = slices * from.slice();
    const struct grid grid = grid_for(slices, from.slice());
    WITH_BYTES(bytes, count,
               (get_slices_kernel<Sources, T><<<grid.blocks, grid.threads, 0, stream>>>(from, (const T *)x, (T *)y)));
}

int zt_launch_gather(cudaStream_t stream, size_t bytes, const struct zt_launch_gather *g, const void *x,
                     const void *index, void *y) {
    const by_rows from = { *g, index };
    return get_slices(stream, bytes, from, x, y);
}

int zt_launch_gather_tuples(cudaStream_t stream, size_t bytes, const struct zt_launch_tuples *t, const void *x,
                            const void *index, void *y) {
    const by_tuples from = { *t, index };
    return get_slices(stream, bytes, from, x, y);
}

/* A thread an element: where the axis is not the last, neighbouring elements belong to different axis slices. */
template <class T>
static __global__ void gather_elements_kernel(by_slices from, int64_t count, const T *__restrict__ x,
                                              T *__restrict__ y) {
    const struct zt_launch_elements &e = from.e;
    EACH(i, count) {
        const int64_t value = index_at(e.index_dtype, from.index, i, e.data[e.axis]);
        int64_t rest = i, at = 0, step = 1;
        for (int k = e.axes - 1; k >= 0; k--) {
            at += (k == e.axis ? value : rest % e.dim[k]) * step;
            rest /= e.dim[k];
            step *= e.data[k];
        }
        y[i] = value < 0 ? 0 : x[at];
    }
}

int zt_launch_gather_elements(cudaStream_t stream, size_t bytes, const struct zt_launch_elements *e, const void *x,
                              const void *index, void *y) {
    const by_slices from = { *e, index };
    const int64_t count = from.batches() * from.together();
    WITH_BYTES(bytes, count,
               (gather_elements_kernel<T><<<blocks_for(count), BLOCK, 0, stream>>>(from, count, (const T *)x, (T *)y)));
}
