/* Pools and their gradients (formulas: ops/pool/pool.c): a thread an element of the result. A gradient adds up the
 * windows that cover its element, in a fixed order. */
#include "ops/pool/launch_pool.h"
#include "ops/cuda/types.cuh"
#include "ops/cuda/window.cuh"

#include <math_constants.h>

/* Arguments of a kernel. I has 32 bits where every index fits. */
template <class I> struct pool {
    window<I> w;
    I channels, in, out; /* elements of a plane */
    bool count_include_pad, columns;
    int position_bytes;
    float p;
};
template <class I> static pool<I> pool_of(const struct zt_launch_pool &p) {
    const window<I> w = narrowed<I>(p.window);
    return { w, (I)p.channels, elems_of(w.in), elems_of(w.out), p.count_include_pad, p.columns, p.position_bytes, p.p };
}

/* The divisor of average pooling at result o. */
template <class I> static __device__ float count_at(const pool<I> &p, const place<I> &o) {
    const window<I> &w = p.w;
    float count = 1;
    for (int a = 0; a < ZT_LAUNCH_AXES; a++) {
        const reach<I> r = reach_of(w, a, o.at[a], p.count_include_pad ? -w.pad[a] : (I)0,
                                    w.in[a] + (p.count_include_pad ? w.pad_end[a] : (I)0));
        count *= (float)(r.end > r.first ? r.end - r.first : 0);
    }
    return count;
}

/* Element i of tensors with `elems` elements a plane: its plane, channel and element. */
template <class I> struct spot { I plane, channel, element; };
template <class I> static __device__ spot<I> spot_of(const pool<I> &p, I i, I elems) {
    const I side = i / p.channels;
    return { side / elems, i % p.channels, side % elems };
}

/* ---- forward ---- */

/* ONNX's Indices: the flat index of an element in the whole input, a plane counted by rows or by columns. */
template <class I> static __device__ int64_t index_of(const pool<I> &p, I plane, I element) {
    const I *in = p.w.in;
    const place<I> at = split(element, in);
    const I place = p.columns ? at.at[0] + in[0] * (at.at[1] + in[1] * at.at[2]) : element;
    return plane * p.in + place;
}

/* Computes a result; i: its index, channels last as x. */
template <class T, class I> struct largest_of {
    pool<I> p;
    const T *x;
    void *position;
    int64_t *indices;
    __device__ float operator()(const spot<I> &s, I i) const {
        const T *plane = x + s.plane * p.in * p.channels + s.channel;
        float best = -CUDART_INF_F;
        I at = -1, element = 0;
        each_covered(p.w, split(s.element, p.w.out), [&](I from, I k) {
            float v = to_float(plane[from * p.channels]);
            if (at >= 0 && !(v > best) && !(isnan(v) && !isnan(best)))
                return;
            best = v;
            at = k;
            element = from;
        });
        at = at < 0 ? 0 : at;
        if (position && p.position_bytes == 1)
            ((uint8_t *)position)[i] = (uint8_t)at;
        else if (position)
            ((int32_t *)position)[i] = (int32_t)at;
        if (indices)
            indices[i] = index_of(p, s.plane * p.channels + s.channel, element);
        return best;
    }
};

template <class T, class I> struct average_of {
    pool<I> p;
    const T *x;
    __device__ float operator()(const spot<I> &s, I) const {
        const T *plane = x + s.plane * p.in * p.channels + s.channel;
        const place<I> o = split(s.element, p.w.out);
        float sum = 0;
        each_covered(p.w, o, [&](I from, I) { sum += to_float(plane[from * p.channels]); });
        return sum / count_at(p, o);
    }
};

template <class T, class I> struct norm_of {
    pool<I> p;
    const T *x;
    __device__ float operator()(const spot<I> &s, I) const {
        const T *plane = x + s.plane * p.in * p.channels + s.channel;
        float sum = 0;
        each_covered(p.w, split(s.element, p.w.out), [&](I from, I) {
            float v = to_float(plane[from * p.channels]);
            sum += p.p == 2 ? v * v : powf(fabsf(v), p.p);
        });
        return powf(sum, 1 / p.p);
    }
};

template <class T, class I, class Result> static __global__ void forward_kernel(Result result, int64_t count, T *y) {
    EACH(i, count) {
        y[i] = from_float<T>(result(spot_of(result.p, (I)i, result.p.out), (I)i));
    }
}

/* ---- plain results of planes with channels last, and the gradient ---- */

/* A block transposes a plane of at most TRANSPOSED results and SIDE channels in shared memory. */
enum { TRANSPOSED = 256, SIDE = 32, PADDED = SIDE + 1 };

bool zt_launch_pool_can_transpose(const struct zt_launch_pool *p) {
    const int64_t results = elems_of(p->window.out);
    return results > 1 && results <= TRANSPOSED;
}

/* The channels of a sample that a block takes at a time. */
template <class I> struct group { I plane, first, channels; };
template <class I> static __device__ group<I> group_of(const pool<I> &p, I number) {
    const I groups = (p.channels + SIDE - 1) / SIDE, first = number % groups * SIDE;
    return { number / groups, first, smaller((I)SIDE, p.channels - first) };
}
static int64_t groups_of(const struct zt_launch_pool &p) {
    return p.planes * ((p.channels + SIDE - 1) / SIDE);
}

template <class T, class I, class Result>
static __global__ void __launch_bounds__(BLOCK) forward_plain_kernel(Result result, int64_t groups, T *y) {
    __shared__ float part[TRANSPOSED * PADDED];
    const pool<I> &p = result.p;
    for (int64_t b = blockIdx.x; b < groups; b += gridDim.x) {
        const group<I> g = group_of(p, (I)b);
        for (I e = threadIdx.x; e < p.out * SIDE; e += BLOCK) {
            const I c = e % SIDE, o = e / SIDE;
            if (c < g.channels)
                part[o * PADDED + c] =
                    result({ g.plane, g.first + c, o }, (g.plane * p.out + o) * p.channels + g.first + c);
        }
        __syncthreads();
        T *plane = y + (g.plane * p.channels + g.first) * p.out;
        for (I e = threadIdx.x; e < p.out * g.channels; e += BLOCK)
            plane[e] = from_float<T>(part[e % p.out * PADDED + e / p.out]);
        __syncthreads();
    }
}

/* Whether 32 bits hold every index, and every place along an axis with its padding. */
static bool is_narrow(const struct zt_launch_pool &p) {
    const struct zt_launch_window &w = p.window;
    const int64_t most = INT32_MAX / 4, planes = p.planes * p.channels;
    bool narrow = planes * elems_of(w.in) <= INT32_MAX && planes * elems_of(w.out) <= INT32_MAX;
    for (int a = 0; a < ZT_LAUNCH_AXES; a++)
        narrow &= w.in[a] <= most && w.pad[a] <= most && w.pad_end[a] <= most && w.stride[a] <= most / (w.out[a] + 1) &&
                  w.dilation[a] <= most / (w.kernel[a] + 1);
    return narrow;
}

/* Runs `call` with T the storage type and I the integer type. A macro for the reason of WITH_TYPE (types.cuh). */
#define WITH_POOL(p, count, call)                                                                                      \
    do {                                                                                                               \
        if (is_narrow(p)) {                                                                                            \
            using I = int32_t;                                                                                         \
            WITH_TYPE((p).dtype, count, call);                                                                         \
        } else {                                                                                                       \
            using I = int64_t;                                                                                         \
            WITH_TYPE((p).dtype, count, call);                                                                         \
        }                                                                                                              \
    } while (0)

static int64_t results_of(const struct zt_launch_pool &p) {
    return p.planes * p.channels * elems_of(p.window.out);
}

/* Launches largest_of, average_of or norm_of. */
template <class T, class I, class Result>
static void launch_forward(cudaStream_t stream, const struct zt_launch_pool &p, const Result &of, void *y) {
    const int64_t count = results_of(p), groups = groups_of(p);
    if (p.plain_result)
        forward_plain_kernel<T, I, Result><<<job_blocks(groups), BLOCK, 0, stream>>>(of, groups, (T *)y);
    else
        forward_kernel<T, I, Result><<<blocks_for(count), BLOCK, 0, stream>>>(of, count, (T *)y);
}

int zt_launch_pool_max(cudaStream_t stream, const struct zt_launch_pool *p, const void *x, void *y, void *position,
                       int64_t *indices) {
    WITH_POOL(
        *p, results_of(*p),
        (launch_forward<T, I>(stream, *p, largest_of<T, I>{ pool_of<I>(*p), (const T *)x, position, indices }, y)));
}

int zt_launch_pool_average(cudaStream_t stream, const struct zt_launch_pool *p, const void *x, void *y) {
    WITH_POOL(*p, results_of(*p),
              (launch_forward<T, I>(stream, *p, average_of<T, I>{ pool_of<I>(*p), (const T *)x }, y)));
}

int zt_launch_pool_norm(cudaStream_t stream, const struct zt_launch_pool *p, const void *x, void *y) {
    WITH_POOL(*p, results_of(*p), (launch_forward<T, I>(stream, *p, norm_of<T, I>{ pool_of<I>(*p), (const T *)x }, y)));
}

/* ---- backward ---- */

/* dy of a result, 0 where the ReLU's y is not above 0. `at`: its index, channels last; `o`: its place in the plane. */
template <class T, class I> struct in_memory {
    const T *dy, *y; /* y NULL: there is no ReLU */
    __device__ float operator()(I at, I o) const {
        (void)o;
        return y && to_float(y[at]) <= 0 ? 0 : to_float(dy[at]);
    }
};
template <class I> struct in_block { /* of one channel */
    const float *part;
    __device__ float operator()(I at, I o) const {
        (void)at;
        return part[o * PADDED];
    }
};

/* Computes an element of dx. */
template <class I> struct max_grad {
    pool<I> p;
    const void *positions;
    template <class Flow> __device__ float operator()(const spot<I> &s, const Flow &dy) const {
        float sum = 0;
        each_covering(p.w, split(s.element, p.w.in), [&](const place<I> &to, I k) {
            const I o = flat(to, p.w.out), at = (s.plane * p.out + o) * p.channels + s.channel;
            const I found = p.position_bytes == 1 ? ((const uint8_t *)positions)[at] : ((const int32_t *)positions)[at];
            if (found == k)
                sum += dy(at, o);
        });
        return sum;
    }
};
template <class I> struct sum_grad {
    pool<I> p;
    bool average;
    template <class Flow> __device__ float operator()(const spot<I> &s, const Flow &dy) const {
        float sum = 0;
        each_covering(p.w, split(s.element, p.w.in), [&](const place<I> &to, I) {
            const I o = flat(to, p.w.out);
            const float d = dy((s.plane * p.out + o) * p.channels + s.channel, o);
            sum += average ? d / count_at(p, to) : d;
        });
        return sum;
    }
};

template <class T, class I, class Grad>
static __global__ void grad_kernel(Grad grad, int64_t count, in_memory<T, I> flow, T *dx) {
    EACH(i, count) {
        dx[i] = from_float<T>(grad(spot_of(grad.p, (I)i, grad.p.in), flow));
    }
}

/* Calls visit(index in memory, place in the block) for the results of a group in memory order: plain or channels
 * last. */
template <class I, class Visit>
static __device__ void each_of(const pool<I> &p, const group<I> &g, bool plain, Visit visit) {
    for (I e = threadIdx.x; e < p.out * (plain ? g.channels : (I)SIDE); e += BLOCK) {
        const I c = plain ? e / p.out : e % SIDE, o = plain ? e % p.out : e / SIDE;
        if (plain)
            visit((g.plane * p.channels + g.first) * p.out + e, o * PADDED + c);
        else if (c < g.channels)
            visit((g.plane * p.out + o) * p.channels + g.first + c, o * PADDED + c);
    }
}

template <class T, class I, class Grad>
static __global__ void __launch_bounds__(BLOCK)
    grad_transposed_kernel(Grad grad, int64_t groups, in_memory<T, I> flow, bool plain_dy, bool plain_y, T *dx) {
    __shared__ float part[TRANSPOSED * PADDED];
    const pool<I> &p = grad.p;
    for (int64_t b = blockIdx.x; b < groups; b += gridDim.x) {
        const group<I> g = group_of(p, (I)b);
        each_of(p, g, plain_dy, [&](I at, I to) { part[to] = to_float(flow.dy[at]); });
        __syncthreads();
        if (flow.y) {
            each_of(p, g, plain_y, [&](I at, I to) { part[to] = to_float(flow.y[at]) <= 0 ? 0 : part[to]; });
            __syncthreads();
        }
        for (I e = threadIdx.x; e < p.in * SIDE; e += BLOCK) {
            const I c = e % SIDE, i = e / SIDE;
            if (c < g.channels)
                dx[(g.plane * p.in + i) * p.channels + g.first + c] =
                    from_float<T>(grad(spot<I>{ g.plane, g.first + c, i }, in_block<I>{ part + c }));
        }
        __syncthreads();
    }
}

static int64_t elements_of(const struct zt_launch_pool &p) {
    return p.planes * p.channels * elems_of(p.window.in);
}

template <class T, class I, class Grad>
static void launch_grad(cudaStream_t stream, const struct zt_launch_pool &p, const Grad &of, const void *dy,
                        const void *y, void *dx) {
    const int64_t count = elements_of(p), groups = groups_of(p);
    const in_memory<T, I> flow = { (const T *)dy, (const T *)y };
    if (p.plain_dy || p.plain_y)
        grad_transposed_kernel<T, I, Grad>
            <<<job_blocks(groups), BLOCK, 0, stream>>>(of, groups, flow, p.plain_dy, p.plain_y, (T *)dx);
    else
        grad_kernel<T, I, Grad><<<blocks_for(count), BLOCK, 0, stream>>>(of, count, flow, (T *)dx);
}

int zt_launch_pool_max_grad(cudaStream_t stream, const struct zt_launch_pool *p, const void *dy, const void *position,
                            const void *y, void *dx) {
    WITH_POOL(*p, elements_of(*p), (launch_grad<T, I>(stream, *p, max_grad<I>{ pool_of<I>(*p), position }, dy, y, dx)));
}

int zt_launch_pool_sum_grad(cudaStream_t stream, const struct zt_launch_pool *p, const void *dy, bool average,
                            void *dx) {
    WITH_POOL(*p, elements_of(*p),
              (launch_grad<T, I>(stream, *p, sum_grad<I>{ pool_of<I>(*p), average }, dy, NULL, dx)));
}
