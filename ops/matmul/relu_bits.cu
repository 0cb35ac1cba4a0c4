/* ReLU of a product in place, with one bit an element for its gradient: a thread a byte of bits. */
#include "ops/matmul/launch_relu_bits.h"
#include "ops/cuda/types.cuh"

/* The elements of a byte of bits: `live` of them, 0 to 8, from y on. wide: one load of all eight. */
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
