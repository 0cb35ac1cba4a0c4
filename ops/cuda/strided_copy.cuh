/* Strided copies by blocks: element by element, or in tiles that are transposed in shared memory. */
#ifndef ZT_OPS_CUDA_STRIDED_COPY_CUH
#define ZT_OPS_CUDA_STRIDED_COPY_CUH

#include "base/block.cuh"
#include "ops/cuda/launch_strided_copy.h"
#include "ops/cuda/types.cuh"

/* Storage of an element: unchanged, */
template <class T> struct as_it_is {
    __device__ void operator()(T *to, T x) const {
        *to = x;
    }
};
/* or converted, or added in fp32. */
template <class T, class Y> struct as_number {
    bool accumulate;
    __device__ void operator()(Y *to, T x) const {
        *to = from_float<Y>(accumulate ? to_float(*to) + to_float(x) : to_float(x));
    }
};

/* Division of a copy. across -1: element by element, else in tiles of the last axis and axis `across`. */
struct shares {
    int across;
    int64_t count, tiles; /* elements, tiles */
};

enum { TILE = 32 }; /* a tile is TILE x TILE elements */

/* The elements or tiles that a thread or block copies: first, first + step, ... */
struct walk {
    int64_t first, step;
};

/* Places of element i of m in `from` and `to`. I: an unsigned type that holds i; divisions of 64 bits take several
 * times as long. */
template <class I>
static __device__ void places_of(const struct zt_launch_strided_copy &m, I i, int64_t *from, int64_t *to) {
    *from = *to = 0;
    for (int k = m.axes - 1; k >= 0; k--) {
        const I dim = (I)m.dim[k], rest = k > 0 ? i / dim : 0;
        const int64_t at = (int64_t)(i - rest * dim);
        *from += at * m.from_step[k];
        *to += at * m.to_step[k];
        i = rest;
    }
}

template <class T, class Y, class Put>
static __device__ void copy_elements(const struct zt_launch_strided_copy &m, int64_t count, struct walk walk,
                                     const T *from, Y *to, Put put) {
    for (int64_t i = walk.first; i < count; i += walk.step) {
        int64_t f, t;
        if (count <= UINT32_MAX)
            places_of<uint32_t>(m, (uint32_t)i, &f, &t);
        else
            places_of<uint64_t>(m, (uint64_t)i, &f, &t);
        put(&to[t], from[f]);
    }
}

/* By TILE x ROWS threads. `to` is contiguous along the last axis of m, `from` along axis s.across. Tiles are transposed
 * in shared memory, so that a warp reads and writes contiguous elements. */
template <int ROWS, class T, class Y, class Put>
static __device__ void copy_tiles(const struct zt_launch_strided_copy &m, const struct shares &s, struct walk walk,
                                  const T *from, Y *to, Put put) {
    __shared__ T part[TILE][TILE + 1];
    const int last = m.axes - 1, across = s.across;
    const int64_t wide = (m.dim[last] + TILE - 1) / TILE, high = (m.dim[across] + TILE - 1) / TILE;
    for (int64_t tile = walk.first; tile < s.tiles; tile += walk.step) {
        int64_t column = tile % wide * TILE, row = tile / wide % high * TILE, rest = tile / wide / high;
        int64_t f = 0, t = 0;
        for (int k = last - 1; k >= 0; k--) {
            if (k == across)
                continue;
            f += rest % m.dim[k] * m.from_step[k];
            t += rest % m.dim[k] * m.to_step[k];
            rest /= m.dim[k];
        }
        for (int r = threadIdx.y; r < TILE; r += ROWS)
            if (column + r < m.dim[last] && row + threadIdx.x < m.dim[across])
                part[r][threadIdx.x] = from[f + (column + r) * m.from_step[last] + row + threadIdx.x];
        __syncthreads();
        for (int r = threadIdx.y; r < TILE; r += ROWS)
            if (row + r < m.dim[across] && column + threadIdx.x < m.dim[last])
                put(&to[t + (row + r) * m.to_step[across] + column + threadIdx.x], part[threadIdx.x][r]);
        __syncthreads();
    }
}

/* The axis to transpose with the last one; -1: an element by element copy is best. */
static inline int across_of(const struct zt_launch_strided_copy *m) {
    const int last = m->axes - 1;
    if (last < 1 || m->from_step[last] == 1 || m->from_step[last] == 0 || m->to_step[last] != 1)
        return -1;
    for (int k = last - 1; k >= 0; k--)
        if (m->from_step[k] == 1 && m->dim[k] >= TILE / 4)
            return k;
    return -1;
}

static inline struct shares shares_of(const struct zt_launch_strided_copy *m) {
    struct shares s = { across_of(m), elems_in(m->dim, m->axes), 0 };
    if (s.across < 0 || s.count == 0)
        return s;
    const int64_t high = m->dim[s.across], wide = m->dim[m->axes - 1];
    s.tiles = s.count / high / wide * ((high + TILE - 1) / TILE) * ((wide + TILE - 1) / TILE);
    return s;
}

#endif
