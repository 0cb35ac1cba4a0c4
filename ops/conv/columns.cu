/* Windows laid out as columns and put together again (ops/conv/col2im.c), and MaxUnpool (ops/pool/max_unpool.c): a
 * thread an element of the result. What a pool's indices send to one place is the last of it, found with a maximum of
 * integers.
 */
#include "ops/conv/launch_columns.h"
#include "ops/cuda/rows.cuh"
#include "ops/cuda/window.cuh"

/* ---- Im2Col and Col2Im ---- */

/* y[plane, k, o] = element that window position k of result o covers, 0 in the padding */
template <class T> static __global__ void im2col_kernel(struct zt_launch_columns c, int64_t count, const T *x, T *y) {
    const int64_t in = elems_of(c.window.in), out = elems_of(c.window.out), kernel = elems_of(c.window.kernel);
    EACH(i, count) {
        const int64_t from = covered(c.window, split(i % out, c.window.out), split(i / out % kernel, c.window.kernel));
        y[i] = from < 0 ? from_float<T>(0) : x[i / out / kernel * in + from];
    }
}

template <class T> static __global__ void col2im_kernel(struct zt_launch_columns c, int64_t count, const T *x, T *y) {
    const int64_t in = elems_of(c.window.in), out = elems_of(c.window.out), kernel = elems_of(c.window.kernel);
    EACH(i, count) {
        float sum = 0;
        each_covering(c.window, split(i % in, c.window.in), [&](const place<int64_t> &o, int64_t k) {
            sum += to_float(x[(i / in * kernel + k) * out + flat(o, c.window.out)]);
        });
        y[i] = from_float<T>(sum);
    }
}

int zt_launch_im2col(cudaStream_t stream, const struct zt_launch_columns *c, struct zt_launch_tensor x,
                     struct zt_launch_tensor y) {
    const int64_t count = c->planes * elems_of(c->window.kernel) * elems_of(c->window.out);
    WITH_TYPE(x.dtype, count,
              (im2col_kernel<T><<<blocks_for(count), BLOCK, 0, stream>>>(*c, count, (const T *)x.data, (T *)y.data)));
}

int zt_launch_col2im(cudaStream_t stream, const struct zt_launch_columns *c, struct zt_launch_tensor x,
                     struct zt_launch_tensor y) {
    const int64_t count = c->planes * elems_of(c->window.in);
    WITH_TYPE(x.dtype, count,
              (col2im_kernel<T><<<blocks_for(count), BLOCK, 0, stream>>>(*c, count, (const T *)x.data, (T *)y.data)));
}

/* ---- MaxUnpool ---- */

/* Where element `flat` of the pooled shape lies in the whole, -1: outside. */
static __device__ int64_t place_of(const struct zt_launch_unpool &u, int64_t flat) {
    return flat < 0 || flat >= u.inner_elems ? -1 : walked(u.axes, u.inner, u.step, flat);
}

static __global__ void last_kernel(struct zt_launch_unpool u, const int64_t *index, int32_t *last) {
    EACH(i, u.elems) {
        const int64_t at = place_of(u, index[i]);
        if (at >= 0)
            atomicMax(&last[at], (int32_t)i + 1);
    }
}

template <class T>
static __global__ void unpool_kernel(struct zt_launch_unpool u, const int32_t *last, const T *x, T *y) {
    EACH(i, u.whole_elems) {
        y[i] = last[i] > 0 ? x[last[i] - 1] : T{};
    }
}

template <class T>
static __global__ void unpool_grad_kernel(struct zt_launch_unpool u, const int64_t *index, const T *dy, T *dx) {
    EACH(i, u.elems) {
        const int64_t at = place_of(u, index[i]);
        dx[i] = at < 0 ? T{} : dy[at];
    }
}

int zt_launch_unpool(cudaStream_t stream, size_t bytes, const struct zt_launch_unpool *u, const void *x,
                     const int64_t *index, void *y, int32_t *last) {
    if (u->elems > 0)
        last_kernel<<<blocks_for(u->elems), BLOCK, 0, stream>>>(*u, index, last);
    WITH_BYTES(bytes, u->whole_elems,
               (unpool_kernel<T><<<blocks_for(u->whole_elems), BLOCK, 0, stream>>>(*u, last, (const T *)x, (T *)y)));
}

int zt_launch_unpool_grad(cudaStream_t stream, size_t bytes, const struct zt_launch_unpool *u, const void *dy,
                          const int64_t *index, void *dx) {
    WITH_BYTES(bytes, u->elems,
               (unpool_grad_kernel<T><<<blocks_for(u->elems), BLOCK, 0, stream>>>(*u, index, (const T *)dy, (T *)dx)));
}
