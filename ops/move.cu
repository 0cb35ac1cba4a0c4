/* Kernels that move elements by strides: copies, transposes, paddings, triangles. An element is so many bits. */
#include "base/block.cuh"
#include "ops/launch_move.h"
#include "ops/types.cuh"

static int64_t product(const int64_t *dim, int axes) {
    int64_t count = 1;
    for (int k = 0; k < axes; k++)
        count *= dim[k];
    return count;
}

/* ---- strided copies ---- */

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

template <class T, class Y, class Put>
static __global__ void move_kernel(struct zt_launch_move m, int64_t count, const T *from, Y *to, Put put) {
    EACH(i, count) {
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

enum { TILE = 32, ROWS = 8 }; /* a block moves a square of TILE x TILE elements, ROWS lines at a time */

/* The last axis of m goes on by one in `to`, axis `across` by one in `from`: squares of the two are turned in shared
 * memory, so that both sides are read and written in lines. */
template <class T, class Y, class Put>
static __global__ void turn_kernel(struct zt_launch_move m, int across, int64_t squares, const T *from, Y *to,
                                   Put put) {
    __shared__ T part[TILE][TILE + 1];
    const int last = m.axes - 1;
    const int64_t wide = (m.dim[last] + TILE - 1) / TILE, high = (m.dim[across] + TILE - 1) / TILE;
    for (int64_t s = blockIdx.x; s < squares; s += gridDim.x) {
        int64_t column = s % wide * TILE, line = s / wide % high * TILE, rest = s / wide / high, f = 0, t = 0;
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
static int across_of(const struct zt_launch_move *m) {
    const int last = m->axes - 1;
    if (last < 1 || m->from_step[last] == 1 || m->from_step[last] == 0 || m->to_step[last] != 1)
        return -1;
    for (int k = last - 1; k >= 0; k--)
        if (m->from_step[k] == 1 && m->dim[k] >= TILE / 4)
            return k;
    return -1;
}

template <class T, class Y, class Put>
static void launch_move(cudaStream_t stream, const struct zt_launch_move &m, int64_t count, const void *from, void *to,
                        Put put) {
    const int across = across_of(&m);
    if (across >= 0) {
        const int64_t high = (m.dim[across] + TILE - 1) / TILE, wide = (m.dim[m.axes - 1] + TILE - 1) / TILE;
        const int64_t squares = count / m.dim[across] / m.dim[m.axes - 1] * high * wide;
        turn_kernel<T, Y, Put>
            <<<job_blocks(squares), dim3(TILE, ROWS), 0, stream>>>(m, across, squares, (const T *)from, (Y *)to, put);
    } else {
        move_kernel<T, Y, Put><<<blocks_for(count), BLOCK, 0, stream>>>(m, count, (const T *)from, (Y *)to, put);
    }
}

int zt_launch_move(cudaStream_t stream, size_t bytes, const struct zt_launch_move *m, const void *from, void *to) {
    const int64_t count = product(m->dim, m->axes);
    WITH_BYTES(bytes, count, (launch_move<T, T>(stream, *m, count, from, to, as_it_is<T>{})));
}

int zt_launch_move_sum(cudaStream_t stream, enum zt_dtype from_dtype, enum zt_dtype to_dtype,
                       const struct zt_launch_move *m, const void *from, void *to, bool accumulate) {
    const int64_t count = product(m->dim, m->axes);
    if (to_dtype == ZT_FLOAT)
        WITH_TYPE(from_dtype, count,
                  (launch_move<T, float>(stream, *m, count, from, to, as_number<T, float>{ accumulate })));
    if (to_dtype == ZT_FLOAT16)
        WITH_TYPE(from_dtype, count,
                  (launch_move<T, __half>(stream, *m, count, from, to, as_number<T, __half>{ accumulate })));
    WITH_TYPE(from_dtype, count,
              (launch_move<T, __nv_bfloat16>(stream, *m, count, from, to, as_number<T, __nv_bfloat16>{ accumulate })));
}

/* ---- padding ---- */

/* As ops/pad.c has it. */
static __device__ int64_t source_of(enum zt_launch_padding mode, int64_t i, int64_t size) {
    if (i >= 0 && i < size)
        return i;
    if (mode == ZT_PAD_CONSTANT)
        return -1;
    if (mode == ZT_PAD_EDGE)
        return i < 0 ? 0 : size - 1;
    int64_t period = mode == ZT_PAD_WRAP ? size : 2 * (size - 1);
    if (period == 0)
        return 0;
    i %= period;
    i += i < 0 ? period : 0;
    return i < size ? i : period - i;
}

template <class T> static __global__ void pad_kernel(struct zt_launch_pad p, int64_t count, const T *x, T *y) {
    EACH(i, count) {
        int64_t rest = i, at = 0, step = 1;
        for (int k = p.axes - 1; k >= 0 && at >= 0; k--) {
            int64_t from = source_of(p.mode, rest % p.big[k] - p.front[k], p.small[k]);
            rest /= p.big[k];
            at = from < 0 ? -1 : at + from * step;
            step *= p.small[k];
        }
        y[i] = at >= 0 ? x[at] : p.fill_at ? *(const T *)p.fill_at : (T)p.fill;
    }
}

int zt_launch_pad(cudaStream_t stream, size_t bytes, const struct zt_launch_pad *p, const void *x, void *y) {
    const int64_t count = product(p->big, p->axes);
    WITH_BYTES(bytes, count, (pad_kernel<T><<<blocks_for(count), BLOCK, 0, stream>>>(*p, count, (const T *)x, (T *)y)));
}

/* The first index from `from` on of axis k of dy that takes element i of dx; the size of the axis where none does. */
static __device__ int64_t next_taker(const struct zt_launch_pad *p, int k, int64_t i, int64_t from) {
    if (p->mode == ZT_PAD_CONSTANT) {
        int64_t only = i + p->front[k];
        return only >= from && only < p->big[k] ? only : p->big[k];
    }
    while (from < p->big[k] && source_of(p->mode, from - p->front[k], p->small[k]) != i)
        from++;
    return from;
}

template <class T> static __global__ void pad_grad_kernel(struct zt_launch_pad p, int64_t count, const T *dy, T *dx) {
    EACH(i, count) {
        int64_t index[ZT_MAX_RANK], taker[ZT_MAX_RANK], rest = i;
        bool any = true;
        float sum = 0;
        for (int k = p.axes - 1; k >= 0; k--) {
            index[k] = rest % p.small[k];
            rest /= p.small[k];
            taker[k] = next_taker(&p, k, index[k], 0);
            any &= taker[k] < p.big[k];
        }
        while (any) {
            int64_t at = 0;
            for (int k = 0; k < p.axes; k++)
                at = at * p.big[k] + taker[k];
            sum += to_float(dy[at]);
            int k = p.axes - 1;
            for (; k >= 0; k--) {
                taker[k] = next_taker(&p, k, index[k], taker[k] + 1);
                if (taker[k] < p.big[k])
                    break;
                taker[k] = next_taker(&p, k, index[k], 0);
            }
            any = k >= 0;
        }
        dx[i] = from_float<T>(sum);
    }
}

int zt_launch_pad_grad(cudaStream_t stream, enum zt_dtype dtype, const struct zt_launch_pad *p, const void *dy,
                       void *dx) {
    const int64_t count = product(p->small, p->axes);
    WITH_TYPE(dtype, count,
              (pad_grad_kernel<T><<<blocks_for(count), BLOCK, 0, stream>>>(*p, count, (const T *)dy, (T *)dx)));
}

/* ---- triangles ---- */

template <class T> static __global__ void triangle_kernel(struct zt_launch_triangle t, const T *x, T *y) {
    EACH(i, t.count) {
        int64_t from_diagonal = i % t.columns - i / t.columns % t.rows - t.k;
        y[i] = (t.upper ? from_diagonal >= 0 : from_diagonal <= 0) ? x[i] : 0;
    }
}

int zt_launch_triangle(cudaStream_t stream, size_t bytes, const struct zt_launch_triangle *t, const void *x, void *y) {
    WITH_BYTES(bytes, t->count,
               (triangle_kernel<T><<<blocks_for(t->count), BLOCK, 0, stream>>>(*t, (const T *)x, (T *)y)));
}

/* ---- one-hot ---- */

static __device__ int64_t whole_at(enum zt_dtype dtype, const void *data, int64_t i) {
    return dtype == ZT_FLOAT   ? (int64_t)((const float *)data)[i]
           : dtype == ZT_UINT8 ? (int64_t)((const uint8_t *)data)[i]
                               : int_at(dtype, data, i);
}

template <class T>
static __global__ void one_hot_kernel(struct zt_launch_one_hot h, int64_t count, const void *index, const T *values,
                                      T *y) {
    EACH(i, count) {
        const int64_t place = whole_at(h.index_dtype, index, i / h.inner / h.depth * h.inner + i % h.inner);
        const int64_t depth = i / h.inner % h.depth;
        y[i] = values[depth == (place < 0 ? place + h.depth : place)];
    }
}

int zt_launch_one_hot(cudaStream_t stream, size_t bytes, const struct zt_launch_one_hot *h, const void *index,
                      const void *values, void *y) {
    const int64_t count = h->outer * h->depth * h->inner;
    WITH_BYTES(
        bytes, count,
        (one_hot_kernel<T><<<blocks_for(count), BLOCK, 0, stream>>>(*h, count, index, (const T *)values, (T *)y)));
}

/* ---- sequences turned round ---- */

template <class T>
static __global__ void reverse_kernel(struct zt_launch_reverse r, int64_t count, const T *x, const int64_t *length,
                                      T *y) {
    EACH(i, count) {
        const int64_t line = i / r.inner, sample = r.batch_first ? line / r.steps : line % r.samples;
        const int64_t step = r.batch_first ? line % r.steps : line / r.samples;
        const int64_t end = length[sample] < r.steps ? length[sample] : r.steps;
        const int64_t from = step < end ? end - 1 - step : step;
        y[i] = x[i + (from - step) * (r.batch_first ? 1 : r.samples) * r.inner];
    }
}

int zt_launch_reverse(cudaStream_t stream, size_t bytes, const struct zt_launch_reverse *r, const void *x,
                      const int64_t *length, void *y) {
    const int64_t count = r->samples * r->steps * r->inner;
    WITH_BYTES(bytes, count,
               (reverse_kernel<T><<<blocks_for(count), BLOCK, 0, stream>>>(*r, count, (const T *)x, length, (T *)y)));
}
