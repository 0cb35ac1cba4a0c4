/* Pad, Trilu, OneHot and ReverseSequence: a thread an element of the result. */
#include "ops/movement/launch_pad.h"
#include "ops/cuda/types.cuh"

/* ---- Pad ---- */

/* As ops/movement/pad.c has it. */
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
    const int64_t count = elems_in(p->big, p->axes);
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
    const int64_t count = elems_in(p->small, p->axes);
    WITH_TYPE(dtype, count,
              (pad_grad_kernel<T><<<blocks_for(count), BLOCK, 0, stream>>>(*p, count, (const T *)dy, (T *)dx)));
}

/* ---- Trilu ---- */

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

/* ---- OneHot ---- */

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

/* ---- ReverseSequence ---- */

template <class T>
static __global__ void reverse_kernel(struct zt_launch_reverse r, int64_t count, const T *x, const int64_t *length,
                                      T *y) {
    EACH(i, count) {
        const int64_t row = i / r.inner, sample = r.batch_first ? row / r.steps : row % r.samples;
        const int64_t step = r.batch_first ? row % r.steps : row / r.samples;
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

/* ---- TensorScatter ---- */

template <class T>
static __global__ void tensor_scatter_kernel(struct zt_launch_tensor_scatter s, int64_t count,
                                             struct zt_launch_tensor_scatter_data d) {
    EACH(i, count) {
        const int64_t matrix = i / s.inner / s.rows, row = i / s.inner % s.rows, sample = matrix / s.middle;
        int64_t from = d.places ? d.places[sample] : 0;
        if (s.circular)
            from = row - from % s.rows + (from % s.rows < 0 ? -s.rows : 0);
        else /* no difference of rows overflows */
            from = from < 0 || from > s.rows ? -1 : row - from;
        from += s.circular && from < 0 ? s.rows : 0;
        ((T *)d.y)[i] = from >= 0 && from < s.updates
                            ? ((const T *)d.update)[(matrix * s.updates + from) * s.inner + i % s.inner]
                            : ((const T *)d.cache)[i];
    }
}

int zt_launch_tensor_scatter(cudaStream_t stream, size_t bytes, const struct zt_launch_tensor_scatter *s,
                             const struct zt_launch_tensor_scatter_data *d) {
    const int64_t count = s->samples * s->middle * s->rows * s->inner;
    WITH_BYTES(bytes, count, (tensor_scatter_kernel<T><<<blocks_for(count), BLOCK, 0, stream>>>(*s, count, *d)));
}
