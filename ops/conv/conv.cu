/* Direct convolutions for cases without a cuDNN engine: a thread an element of the result (formulas:
 * ops/conv/conv.c). */
#include "ops/conv/launch_conv.h"
#include "ops/cuda/types.cuh"
#include "ops/cuda/window.cuh"

static __device__ int64_t at_of(const struct zt_launch_steps &s, int64_t first, int64_t second, int64_t place) {
    return first * s.first + second * s.second + place * s.place;
}

template <class T>
static __global__ void conv_to_y_kernel(struct zt_launch_conv v, int64_t count, const T *x, const T *w, T *y) {
    const int64_t out = elems_of(v.window.out), channels = v.c / v.groups, filters = v.m / v.groups;
    EACH(i, count) {
        int64_t m = i / out % v.m, n = i / out / v.m, c0 = m / filters * channels;
        const auto o = split(i % out, v.window.out);
        float sum = 0;
        for (int64_t c = 0; c < channels; c++)
            each_covered(v.window, o, [&](int64_t at, int64_t k) {
                sum += to_float(w[at_of(v.w, m, c, k)]) * to_float(x[at_of(v.x, n, c0 + c, at)]);
            });
        y[at_of(v.y, n, m, i % out)] = from_float<T>(sum);
    }
}

template <class T>
static __global__ void conv_to_x_kernel(struct zt_launch_conv v, int64_t count, T *x, const T *w, const T *y) {
    const int64_t in = elems_of(v.window.in), channels = v.c / v.groups, filters = v.m / v.groups;
    EACH(i, count) {
        int64_t c = i / in % v.c, n = i / in / v.c, m0 = c / channels * filters;
        const auto at = split(i % in, v.window.in);
        float sum = 0;
        for (int64_t m = m0; m < m0 + filters; m++)
            each_covering(v.window, at, [&](const place<int64_t> &o, int64_t k) {
                sum +=
                    to_float(w[at_of(v.w, m, c % channels, k)]) * to_float(y[at_of(v.y, n, m, flat(o, v.window.out))]);
            });
        x[at_of(v.x, n, c, i % in)] = from_float<T>(sum);
    }
}

/* A thread adds up a long sum, hence fp64. */
template <class T>
static __global__ void conv_to_w_kernel(struct zt_launch_conv v, int64_t count, const T *x, T *w, const T *y) {
    const int64_t out = elems_of(v.window.out), taps = elems_of(v.window.kernel);
    const int64_t channels = v.c / v.groups, filters = v.m / v.groups;
    EACH(i, count) {
        int64_t m = i / taps / channels, c = m / filters * channels + i / taps % channels;
        const auto k = split(i % taps, v.window.kernel);
        double sum = 0;
        for (int64_t n = 0; n < v.n; n++)
            for (int64_t o = 0; o < out; o++) {
                int64_t at = covered(v.window, split(o, v.window.out), k);
                if (at >= 0)
                    sum += (double)to_float(y[at_of(v.y, n, m, o)]) * to_float(x[at_of(v.x, n, c, at)]);
            }
        w[at_of(v.w, m, i / taps % channels, i % taps)] = from_float<T>((float)sum);
    }
}

int zt_launch_conv_to_y(cudaStream_t stream, const struct zt_launch_conv *v, const void *x, const void *w, void *y) {
    int64_t count = v->n * v->m * elems_of(v->window.out);
    WITH_TYPE(
        v->dtype, count,
        (conv_to_y_kernel<T><<<blocks_for(count), BLOCK, 0, stream>>>(*v, count, (const T *)x, (const T *)w, (T *)y)));
}

int zt_launch_conv_to_x(cudaStream_t stream, const struct zt_launch_conv *v, void *x, const void *w, const void *y) {
    int64_t count = v->n * v->c * elems_of(v->window.in);
    WITH_TYPE(
        v->dtype, count,
        (conv_to_x_kernel<T><<<blocks_for(count), BLOCK, 0, stream>>>(*v, count, (T *)x, (const T *)w, (const T *)y)));
}

int zt_launch_conv_to_w(cudaStream_t stream, const struct zt_launch_conv *v, const void *x, void *w, const void *y) {
    int64_t count = v->m * (v->c / v->groups) * elems_of(v->window.kernel);
    WITH_TYPE(
        v->dtype, count,
        (conv_to_w_kernel<T><<<blocks_for(count), BLOCK, 0, stream>>>(*v, count, (const T *)x, (T *)w, (const T *)y)));
}
