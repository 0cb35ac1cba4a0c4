/* Strided copies by blocks: element by element, or in squares that are turned in shared memory. */
#ifndef ZT_OPS_CUDA_COPY_CUH
#define ZT_OPS_CUDA_COPY_CUH

#include "base/block.cuh"
#include "ops/cuda/launch_copy.h"
#include "ops/cuda/types.cuh"

/* What is done with an element: it is put down as it is, */
template <class T> struct as_it_is {
    __device__ void operator()(T *to, T x) const {
        *to = x;
    }
};
/* or as a number of the other type, or added. */
template <class T, class Y> struct as_number {
    bool accumulate;
    __device__ void operator()(Y *to, T x) const {
        *to = from_float<Y>(accumulate ? to_float(*to) + to_float(x) : to_float(x));
    }
};

/* How the elements of a copy are shared out: `across` -1: one by one, else in squares (below). */
struct shares {
    int across;
    int64_t count, squares; /* elements, squares */
};

enum { TILE = 32 }; /* a square is TILE x TILE elements */

/* Elements first, first + step, ... */
template <class T, class Y, class Put>
static __device__ void move_elements(const struct zt_launch_strided_copy &m, int64_t count, int64_t first, int64_t step,
                                     const T *from, Y *to, Put put) {
    for (int64_t i = first; i < count; i += step) {
        int64_t rest = i, f = 0, t = 0;
        for (int k = m.axes - 1; k >= 0; k--) {
            int64_t at = k > 0 ? rest % m.dim[k] : rest;
            rest = k > 0 ? rest / m.dim[k] : 0;
            f += at * m.from_step[k];
            t += at * m.to_step[k];
        }
        put(&to[t], from[f]);
    }
}

/* Squares first, first + step, ... by TILE x ROWS threads. The last axis of m goes on by one in `to`, axis `across` by
 * one in `from`: squares of the two are turned in shared memory, so that both sides are read and written in lines. */
template <int ROWS, class T, class Y, class Put>
static __device__ void turn_squares(const struct zt_launch_strided_copy &m, const struct shares &s, int64_t first,
                                    int64_t step, const T *from, Y *to, Put put) {
    __shared__ T part[TILE][TILE + 1];
    const int last = m.axes - 1, across = s.across;
    const int64_t wide = (m.dim[last] + TILE - 1) / TILE, high = (m.dim[across] + TILE - 1) / TILE;
    for (int64_t square = first; square < s.squares; square += step) {
        int64_t column = square % wide * TILE, line = square / wide % high * TILE, rest = square / wide / high;
        int64_t f = 0, t = 0;
        for (int k = last - 1; k >= 0; k--) {
            if (k == across)
                continue;
            f += rest % m.dim[k] * m.from_step[k];
            t += rest % m.dim[k] * m.to_step[k];
            rest /= m.dim[k];
        }
        for (int r = threadIdx.y; r < TILE; r += ROWS)
            if (column + r < m.dim[last] && line + threadIdx.x < m.dim[across])
                part[r][threadIdx.x] = from[f + (column + r) * m.from_step[last] + line + threadIdx.x];
        __syncthreads();
        for (int r = threadIdx.y; r < TILE; r += ROWS)
            if (line + r < m.dim[across] && column + threadIdx.x < m.dim[last])
                put(&to[t + (line + r) * m.to_step[across] + column + threadIdx.x], part[threadIdx.x][r]);
        __syncthreads();
    }
}

/* The axis to turn against the last one, -1: the copy is best done as it is. */
static inline int across_of(const struct zt_launch_strided_copy *m) {
    const int last = m->axes - 1;
    if (last < 1 || m->from_step[last] == 1 || m->from_step[last] == 0 || m->to_step[last] != 1)
        return -1;
    for (int k = last - 1; k >= 0; k--)
        if (m->from_step[k] == 1 && m->dim[k] >= TILE / 4)
            return k;
    return -1;
}

static inline int64_t product(const int64_t *dim, int axes) {
    int64_t count = 1;
    for (int k = 0; k < axes; k++)
        count *= dim[k];
    return count;
}

static inline struct shares shares_of(const struct zt_launch_strided_copy *m) {
    struct shares s = { across_of(m), product(m->dim, m->axes), 0 };
    if (s.across < 0 || s.count == 0)
        return s;
    const int64_t high = m->dim[s.across], wide = m->dim[m->axes - 1];
    s.squares = s.count / high / wide * ((high + TILE - 1) / TILE) * ((wide + TILE - 1) / TILE);
    return s;
}

#endif
