/* What products and convolutions need beside them: what is added to a product, spread over its result; ReLU of it, and
 * a bit an element of where its gradient flows. */
#include "ops/cuda/launch.h"
#include "ops/cuda/types.cuh"

static __device__ void place(const struct zt_launch_walk *walk, int64_t i, int64_t *a, int64_t *b) {
    *a = *b = 0;
    for (int k = walk->rank - 1; k > 0; k--) {
        int64_t at = i % walk->dim[k];
        i /= walk->dim[k];
        *a += at * walk->a[k];
        *b += at * walk->b[k];
    }
    *a += i * walk->a[0];
    *b += i * walk->b[0];
}

template <class T>
static __global__ void add_kernel(struct zt_launch_walk walk, int64_t count, const T *a, const T *b, T *y) {
    EACH(i, count) {
        int64_t left, right;
        place(&walk, i, &left, &right);
        y[i] = from_float<T>(to_float(a[left]) + to_float(b[right]));
    }
}

template <class T>
static __global__ void spread_kernel(struct zt_launch_walk walk, int64_t count, float factor, const T *b, T *y) {
    EACH(i, count) {
        int64_t left, right;
        place(&walk, i, &left, &right);
        y[i] = from_float<T>(factor * to_float(b[right]));
    }
}

template <class T> static __global__ void relu_kernel(int64_t count, T *y) {
    EACH(i, count) {
        y[i] = to_float(y[i]) <= 0 ? from_float<T>(0) : y[i];
    }
}

/* Elements of a byte of bits: `live` of them, 0 to 8, from y on; `wide`: all eight in one load. */
template <class T> struct eight {
    pack<T, 8> v;
    __device__ void load(const T *y, int64_t live, bool wide) {
        if (wide && live == 8)
            v = *(const pack<T, 8> *)y;
        else
            for (int64_t c = 0; c < live; c++)
                v.at[c] = y[c];
    }
    __device__ void store(T *y, int64_t live, bool wide) const {
        if (wide && live == 8)
            *(pack<T, 8> *)y = v;
        else
            for (int64_t c = 0; c < live; c++)
                y[c] = v.at[c];
    }
};

static __device__ int64_t live_of(const struct zt_launch_bits *b, int64_t at) {
    return most(0, least(8, b->columns - at));
}

template <class T> static __global__ void keep_kernel(struct zt_launch_bits b, bool wide, T *y, uint8_t *bits) {
    EACH(i, b.rows * b.row_bytes) {
        const int64_t row = i / b.row_bytes, at = i % b.row_bytes * 8, live = live_of(&b, at);
        T *here = y + row * b.columns + at;
        int set = 0;
        eight<T> e;
        e.load(here, live, wide);
        for (int64_t c = 0; c < live; c++) {
            const bool zero = to_float(e.v.at[c]) <= 0;
            e.v.at[c] = zero ? from_float<T>(0) : e.v.at[c];
            set |= zero ? 0 : 1 << c;
        }
        e.store(here, live, wide);
        bits[i] = (uint8_t)set;
    }
}

template <class T> static __global__ void masked_kernel(struct zt_launch_bits b, bool wide, T *y, const uint8_t *bits) {
    EACH(i, b.rows * b.row_bytes) {
        const int64_t row = i / b.row_bytes, at = i % b.row_bytes * 8, live = live_of(&b, at);
        T *here = y + row * b.columns + at;
        eight<T> e;
        e.load(here, live, wide);
        for (int64_t c = 0; c < live; c++)
            e.v.at[c] = bits[i] >> c & 1 ? e.v.at[c] : from_float<T>(0);
        e.store(here, live, wide);
    }
}

static bool is_wide(enum zt_dtype dtype, const struct zt_launch_bits *b, const void *y) {
    return b->columns % 8 == 0 && (uintptr_t)y % (8 * bytes_of(dtype)) == 0;
}

static int64_t count_of(const struct zt_launch_walk *walk) {
    int64_t count = 1;
    for (int k = 0; k < walk->rank; k++)
        count *= walk->dim[k];
    return count;
}

int zt_launch_add(cudaStream_t stream, enum zt_dtype dtype, const struct zt_launch_walk *walk, const void *a,
                  const void *b, void *y) {
    int64_t count = count_of(walk);
    WITH_TYPE(
        dtype, count,
        (add_kernel<T><<<blocks_for(count), BLOCK, 0, stream>>>(*walk, count, (const T *)a, (const T *)b, (T *)y)));
}

int zt_launch_broadcast(cudaStream_t stream, enum zt_dtype dtype, const struct zt_launch_walk *walk, float factor,
                        const void *b, void *y) {
    int64_t count = count_of(walk);
    WITH_TYPE(dtype, count,
              (spread_kernel<T><<<blocks_for(count), BLOCK, 0, stream>>>(*walk, count, factor, (const T *)b, (T *)y)));
}

int zt_launch_relu_keep(cudaStream_t stream, enum zt_dtype dtype, const struct zt_launch_bits *b, void *y, void *bits) {
    const int64_t count = b->rows * b->row_bytes;
    WITH_TYPE(
        dtype, count,
        (keep_kernel<T><<<blocks_for(count), BLOCK, 0, stream>>>(*b, is_wide(dtype, b, y), (T *)y, (uint8_t *)bits)));
}

int zt_launch_relu_masked(cudaStream_t stream, enum zt_dtype dtype, const struct zt_launch_bits *b, void *y,
                          const void *bits) {
    const int64_t count = b->rows * b->row_bytes;
    WITH_TYPE(dtype, count,
              (masked_kernel<T>
               <<<blocks_for(count), BLOCK, 0, stream>>>(*b, is_wide(dtype, b, y), (T *)y, (const uint8_t *)bits)));
}

int zt_launch_relu(cudaStream_t stream, enum zt_dtype dtype, int64_t count, void *y) {
    WITH_TYPE(dtype, count, (relu_kernel<T><<<blocks_for(count), BLOCK, 0, stream>>>(count, (T *)y)));
}
