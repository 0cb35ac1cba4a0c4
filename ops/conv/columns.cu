/* Im2Col and Col2Im (ops/conv/col2im.c): a thread an element of the result. */
#include "ops/conv/launch_columns.h"
#include "ops/cuda/window.cuh"

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
