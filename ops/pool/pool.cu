/* Pools and their gradients (formulas: ops/pool/pool.c): a thread an element of the result, or with channels last as
 * many channels of it as 16 bytes hold. A gradient adds up the windows that cover its element, in a fixed order. */
#include "ops/pool/launch_pool.h"
#include "ops/cuda/types.cuh"
#include "ops/cuda/window.cuh"

#include <initializer_list>
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

/* Each computes W results, of the channels from s.channel on; i: the index of the first, channels last as x. */
template <class T, class I> struct largest_of {
    pool<I> p;
    const T *x;
    void *position;
    int64_t *indices;
    template <int W> __device__ void operator()(const spot<I> &s, I i, float (&best)[W]) const {
        const T *plane = x + s.plane * p.in * p.channels + s.channel;
        I at[W], element[W];
        for (int e = 0; e < W; e++)
            best[e] = -CUDART_INF_F, at[e] = -1, element[e] = 0;
        each_covered(p.w, split(s.element, p.w.out), [&](I from, I k) {
            float v[W];
            load_floats<W>(plane + from * p.channels, v);
            for (int e = 0; e < W; e++)
                if (at[e] < 0 || v[e] > best[e] || (isnan(v[e]) && !isnan(best[e])))
                    best[e] = v[e], at[e] = k, element[e] = from;
        });
        keep(s, i, at, element);
    }
    template <int W> __device__ void keep(const spot<I> &s, I i, const I (&at)[W], const I (&element)[W]) const {
        pack<uint8_t, W> narrow;
        for (int e = 0; e < W; e++) {
            narrow.at[e] = (uint8_t)(at[e] < 0 ? 0 : at[e]);
            if (position && p.position_bytes != 1)
                ((int32_t *)position)[i + e] = (int32_t)(at[e] < 0 ? 0 : at[e]);
            if (indices)
                indices[i + e] = index_of(p, s.plane * p.channels + s.channel + e, element[e]);
        }
        if (position && p.position_bytes == 1)
            *(pack<uint8_t, W> *)((uint8_t *)position + i) = narrow;
    }
};

template <class T, class I> struct average_of {
    pool<I> p;
    const T *x;
    template <int W> __device__ void operator()(const spot<I> &s, I, float (&sum)[W]) const {
        const T *plane = x + s.plane * p.in * p.channels + s.channel;
        const place<I> o = split(s.element, p.w.out);
        for (int e = 0; e < W; e++)
            sum[e] = 0;
        each_covered(p.w, o, [&](I from, I) {
            float v[W];
            load_floats<W>(plane + from * p.channels, v);
            for (int e = 0; e < W; e++)
                sum[e] += v[e];
        });
        const float count = count_at(p, o);
        for (int e = 0; e < W; e++)
            sum[e] /= count;
    }
};

template <class T, class I> struct norm_of {
    pool<I> p;
    const T *x;
    template <int W> __device__ void operator()(const spot<I> &s, I, float (&sum)[W]) const {
        const T *plane = x + s.plane * p.in * p.channels + s.channel;
        for (int e = 0; e < W; e++)
            sum[e] = 0;
        each_covered(p.w, split(s.element, p.w.out), [&](I from, I) {
            float v[W];
            load_floats<W>(plane + from * p.channels, v);
            for (int e = 0; e < W; e++)
                sum[e] += p.p == 2 ? v[e] * v[e] : powf(fabsf(v[e]), p.p);
        });
        for (int e = 0; e < W; e++)
            sum[e] = powf(sum[e], 1 / p.p);
    }
};

/* `count` results, a multiple of W where W channels lie beside each other. */
template <class T, class I, int W, class Result>
static __global__ void forward_kernel(Result result, int64_t count, T *y) {
    EACH(k, count / W) {
        const I i = (I)k * W;
        float v[W];
        result(spot_of(result.p, i, result.p.out), i, v);
        store_floats<W>(v, y + i);
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
            float v[1];
            if (c < g.channels) {
                result(spot<I>{ g.plane, g.first + c, o }, (g.plane * p.out + o) * p.channels + g.first + c, v);
                part[o * PADDED + c] = v[0];
            }
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

/* Whether threads take WIDE channels each: they lie beside each other, and every tensor starts at a multiple of
 * 16. */
enum { WIDE = 8 };
static bool are_wide(const struct zt_launch_pool &p, std::initializer_list<const void *> tensors) {
    uintptr_t bits = 0;
    for (const void *tensor : tensors)
        bits |= (uintptr_t)tensor;
    return p.channels % WIDE == 0 && bits % 16 == 0;
}

/* Launches largest_of, average_of or norm_of; `other`: of its tensors beside x and y. */
template <class T, class I, class Result>
static void launch_forward(cudaStream_t stream, const struct zt_launch_pool &p, const Result &of, const void *other,
                           void *y) {
    const int64_t count = results_of(p), groups = groups_of(p);
    if (p.plain_result)
        forward_plain_kernel<T, I, Result><<<job_blocks(groups), BLOCK, 0, stream>>>(of, groups, (T *)y);
    else if (are_wide(p, { of.x, other, y }))
        forward_kernel<T, I, WIDE, Result><<<blocks_for(count / WIDE), BLOCK, 0, stream>>>(of, count, (T *)y);
    else
        forward_kernel<T, I, 1, Result><<<blocks_for(count), BLOCK, 0, stream>>>(of, count, (T *)y);
}

int zt_launch_pool_max(cudaStream_t stream, const struct zt_launch_pool *p, const void *x, void *y, void *position,
                       int64_t *indices) {
    WITH_POOL(*p, results_of(*p),
              (launch_forward<T, I>(stream, *p, largest_of<T, I>{ pool_of<I>(*p), (const T *)x, position, indices },
                                    position, y)));
}

int zt_launch_pool_average(cudaStream_t stream, const struct zt_launch_pool *p, const void *x, void *y) {
    WITH_POOL(*p, results_of(*p),
              (launch_forward<T, I>(stream, *p, average_of<T, I>{ pool_of<I>(*p), (const T *)x }, NULL, y)));
}

int zt_launch_pool_norm(cudaStream_t stream, const struct zt_launch_pool *p, const void *x, void *y) {
    WITH_POOL(*p, results_of(*p),
              (launch_forward<T, I>(stream, *p, norm_of<T, I>{ pool_of<I>(*p), (const T *)x }, NULL, y)));
}

/* ---- backward ---- */

/* dy of W results, 0 where the ReLU's y is not above 0. `at`: the index of the first, channels last; `o`: its place in
 * the plane. */
template <class T, class I> struct in_memory {
    const T *dy, *y; /* y NULL: there is no ReLU */
    template <int W> __device__ void operator()(I at, I o, float (&v)[W]) const {
        (void)o;
        load_floats<W>(dy + at, v);
        if (!y)
            return;
        float r[W];
        load_floats<W>(y + at, r);
        for (int e = 0; e < W; e++)
            v[e] = r[e] <= 0 ? 0 : v[e];
    }
};
template <class I> struct in_block { /* of one channel */
    const float *part;
    __device__ void operator()(I at, I o, float (&v)[1]) const {
        (void)at;
        v[0] = part[o * PADDED];
    }
};

/* Each computes W elements of dx, of the channels from s.channel on. */
template <class I> struct max_grad {
    pool<I> p;
    const void *positions;
    template <int W, class Flow> __device__ void operator()(const spot<I> &s, const Flow &dy, float (&sum)[W]) const {
        for (int e = 0; e < W; e++)
            sum[e] = 0;
        each_covering(p.w, split(s.element, p.w.in), [&](const place<I> &to, I k) {
            const I o = flat(to, p.w.out), at = (s.plane * p.out + o) * p.channels + s.channel;
            bool found[W], any = false;
            if (p.position_bytes == 1) {
                const auto here = *(const pack<uint8_t, W> *)((const uint8_t *)positions + at);
                for (int e = 0; e < W; e++)
                    found[e] = here.at[e] == k;
            } else
                for (int e = 0; e < W; e++)
                    found[e] = ((const int32_t *)positions)[at + e] == k;
            for (int e = 0; e < W; e++)
                any |= found[e];
            if (!any)
                return;
            float v[W];
            dy(at, o, v);
            for (int e = 0; e < W; e++)
                sum[e] += found[e] ? v[e] : 0;
        });
    }
};
template <class I> struct sum_grad {
    pool<I> p;
    bool average;
    template <int W, class Flow> __device__ void operator()(const spot<I> &s, const Flow &dy, float (&sum)[W]) const {
        for (int e = 0; e < W; e++)
            sum[e] = 0;
        each_covering(p.w, split(s.element, p.w.in), [&](const place<I> &to, I) {
            const I o = flat(to, p.w.out);
            const float count = average ? count_at(p, to) : 1;
            float v[W];
            dy((s.plane * p.out + o) * p.channels + s.channel, o, v);
            for (int e = 0; e < W; e++)
                sum[e] += average ? v[e] / count : v[e];
        });
    }
};

template <class T, class I, int W, class Grad>
static __global__ void grad_kernel(Grad grad, int64_t count, in_memory<T, I> flow, T *dx) {
    EACH(k, count / W) {
        const I i = (I)k * W;
        float v[W];
        grad(spot_of(grad.p, i, grad.p.in), flow, v);
        store_floats<W>(v, dx + i);
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
            float v[1];
            if (c < g.channels) {
                grad(spot<I>{ g.plane, g.first + c, i }, in_block<I>{ part + c }, v);
                dx[(g.plane * p.in + i) * p.channels + g.first + c] = from_float<T>(v[0]);
            }
        }
        __syncthreads();
    }
}

static int64_t elements_of(const struct zt_launch_pool &p) {
    return p.planes * p.channels * elems_of(p.window.in);
}

template <class T, class I, class Grad>
static void launch_grad(cudaStream_t stream, const struct zt_launch_pool &p, const Grad &of, in_memory<T, I> flow,
                        const void *positions, T *dx) {
    const int64_t count = elements_of(p), groups = groups_of(p);
    if (p.plain_dy || p.plain_y)
        grad_transposed_kernel<T, I, Grad>
            <<<job_blocks(groups), BLOCK, 0, stream>>>(of, groups, flow, p.plain_dy, p.plain_y, dx);
    else if (are_wide(p, { flow.dy, flow.y, positions, dx }))
        grad_kernel<T, I, WIDE, Grad><<<blocks_for(count / WIDE), BLOCK, 0, stream>>>(of, count, flow, dx);
    else
        grad_kernel<T, I, 1, Grad><<<blocks_for(count), BLOCK, 0, stream>>>(of, count, flow, dx);
}

int zt_launch_pool_max_grad(cudaStream_t stream, const struct zt_launch_pool *p, const void *dy, const void *position,
                            const void *y, void *dx) {
    WITH_POOL(*p, elements_of(*p),
              (launch_grad<T, I>(stream, *p, max_grad<I>{ pool_of<I>(*p), position },
                                 in_memory<T, I>{ (const T *)dy, (const T *)y }, position, (T *)dx)));
}

int zt_launch_pool_sum_grad(cudaStream_t stream, const struct zt_launch_pool *p, const void *dy, bool average,
                            void *dx) {
    WITH_POOL(*p, elements_of(*p),
              (launch_grad<T, I>(stream, *p, sum_grad<I>{ pool_of<I>(*p), average },
                                 in_memory<T, I>{ (const T *)dy, NULL }, NULL, (T *)dx)));
}
