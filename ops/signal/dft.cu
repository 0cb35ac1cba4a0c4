/* DFT and STFT (formulas and plan: ops/signal/dft_plan.h). A block takes a slice: it loads the slice into an array of
 * complex numbers, applies the stages from one array to the other, and writes the result. The arrays are in shared
 * memory, or of long transforms in a workspace. A pair of real numbers, or of a spectrum and its mirror image, costs
 * one thread. */
#include "ops/signal/launch_dft.h"
#include "ops/cuda/tensor.cuh"

/* A complex number. */
struct number {
    float re, im;
};
static __device__ inline number operator+(number a, number b) {
    return { a.re + b.re, a.im + b.im };
}
static __device__ inline number operator-(number a, number b) {
    return { a.re - b.re, a.im - b.im };
}
static __device__ inline number operator*(number a, number b) {
    return { a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re };
}
static __device__ inline number operator*(float a, number b) {
    return { a * b.re, a * b.im };
}
static __device__ inline number conjugate(number a) {
    return { a.re, -a.im };
}
static __device__ inline number exchanged(number a) {
    return { a.im, a.re };
}
/* i a */
static __device__ inline number turned(number a) {
    return { -a.im, a.re };
}

struct job {
    struct zt_launch_dft t;
    struct zt_launch_tensor x, window, y;
};
static __device__ inline number table(const struct zt_launch_dft &t, int64_t at) {
    return { t.numbers[2 * at], t.numbers[2 * at + 1] };
}

static __device__ inline int64_t start_of(const struct zt_dft_places &p, int64_t slice) {
    return slice / p.count * p.outer + slice % p.count * p.inner;
}

#define EACH_OF_BLOCK(i, count) for (int64_t i = threadIdx.x; i < (count); i += BLOCK)

/* ---- stages ---- */

/* Numbers (p, q) of a stage; `from` and `far` as the places of x[0][p][q] and the way to x[1][p][q]. */
static __device__ inline void butterfly(const struct zt_launch_dft &t, const struct zt_dft_stage &s, int64_t i,
                                        const number *x, number *y) {
    const int64_t p = i / s.s, q = i % s.s, far = s.m * s.s, to = p * s.radix * s.s + q;
    const int64_t twiddle = s.twiddle + p * (s.radix - 1) - 1;
    for (int j = 0; j < s.radix; j++) {
        number sum = x[i];
        for (int l = 1, turn = j; l < s.radix; l++) {
            sum = sum + table(t, s.roots + turn) * x[i + l * far];
            turn = turn + j < s.radix ? turn + j : turn + j - s.radix;
        }
        y[to + j * s.s] = j ? table(t, twiddle + j) * sum : sum;
    }
}

static __device__ inline void butterfly_4(const struct zt_launch_dft &t, const struct zt_dft_stage &s, int64_t i,
                                          const number *x, number *y) {
    const int64_t p = i / s.s, q = i % s.s, far = s.m * s.s, to = 4 * p * s.s + q, twiddle = s.twiddle + 3 * p;
    const number a = x[i], b = x[i + far], c = x[i + 2 * far], d = x[i + 3 * far];
    const number even = a + c, odd = b + d, left = a - c, right = turned(b - d);
    y[to] = even + odd;
    y[to + s.s] = table(t, twiddle) * (left - right);
    y[to + 2 * s.s] = table(t, twiddle + 1) * (even - odd);
    y[to + 3 * s.s] = table(t, twiddle + 2) * (left + right);
}

/* Transforms *a; the result is in *a. */
static __device__ void stages(const struct zt_launch_dft &t, number **a, number **b) {
    for (int k = 0; k < t.plan.stage_count; k++) {
        const struct zt_dft_stage &s = t.plan.stage[k];
        EACH_OF_BLOCK(i, s.m * s.s) {
            if (s.radix == 4)
                butterfly_4(t, s, i, *a, *b);
            else
                butterfly(t, s, i, *a, *b);
        }
        __syncthreads();
        number *const result = *b;
        *b = *a;
        *a = result;
    }
}

/* The transform of the first `complex` numbers of *a, by stages or as a convolution. */
static __device__ void transform(const struct zt_launch_dft &t, number **a, number **b) {
    const struct zt_dft_plan &p = t.plan;
    if (!p.chirped) {
        stages(t, a, b);
        return;
    }
    EACH_OF_BLOCK(n, p.points)
    (*a)[n] = n < p.complex ? table(t, p.chirp + n) * (*a)[n] : number{ 0, 0 };
    __syncthreads();
    stages(t, a, b);
    EACH_OF_BLOCK(n, p.points)
    (*a)[n] = exchanged(table(t, p.filter + n) * (*a)[n]);
    __syncthreads();
    stages(t, a, b);
    EACH_OF_BLOCK(n, p.complex)
    (*a)[n] = (1 / (float)p.points) * (table(t, p.chirp + n) * exchanged((*a)[n]));
    __syncthreads();
}

/* ---- elements to numbers ---- */

/* Element n of a slice, 0 beyond its end. */
static __device__ inline number element(const struct job &j, int64_t start, int64_t n) {
    const struct zt_dft &d = j.t.plan.dft;
    if (n >= d.reads)
        return { 0, 0 };
    const int64_t at = start + n * d.in.step;
    const number x = { get(j.x, at), d.in.real ? 0 : get(j.x, at + 1) };
    return d.window ? get(j.window, n) * x : x;
}

/* X[k] of a spectrum whose other half is the conjugate; real where it is its own conjugate. */
static __device__ inline number half_element(const struct job &j, int64_t start, int64_t k) {
    const int64_t length = j.t.plan.dft.length;
    const number x = element(j, start, 2 * k > length ? length - k : k);
    if (k == 0 || 2 * k == length)
        return { x.re, 0 };
    return 2 * k > length ? conjugate(x) : x;
}

/* Number n of what is transformed, as in simd_dft_group.inc. */
static __device__ inline number loaded(const struct job &j, int64_t start, int64_t n) {
    const struct zt_dft_plan &p = j.t.plan;
    if (!p.dft.out.real)
        return p.half ? number{ element(j, start, 2 * n).re, element(j, start, 2 * n + 1).re } : element(j, start, n);
    const number a = half_element(j, start, n);
    if (!p.half)
        return a;
    const number b = conjugate(half_element(j, start, p.complex - n));
    return a + b + turned((a - b) * conjugate(table(j.t, p.turn + n)));
}

/* ---- numbers to elements ---- */

static __device__ inline void store(const struct job &j, int64_t at, float scale, number x) {
    put(j.y, at, scale * x.re);
    put(j.y, at + 1, scale * x.im);
}

/* X[k], and X[N - k] where that is wanted, from the transform z of the pairs of a real slice. */
static __device__ inline void store_pair(const struct job &j, int64_t start, const number *z, int64_t k, float scale) {
    const struct zt_dft_plan &p = j.t.plan;
    const number a = z[k < p.complex ? k : 0], b = conjugate(z[k ? p.complex - k : 0]);
    const number even = 0.5f * (a + b), odd = -0.5f * turned(a - b);
    number x = even + table(j.t, p.turn + k) * odd;
    if (p.dft.inverse)
        x = conjugate(x);
    store(j, start + k * p.dft.out.step, scale, x);
    if (k > 0 && k < p.complex && p.dft.writes > p.complex + 1)
        store(j, start + (p.dft.length - k) * p.dft.out.step, scale, conjugate(x));
}

static __device__ void store_slice(const struct job &j, int64_t start, const number *z, bool back) {
    const struct zt_dft_plan &p = j.t.plan;
    const struct zt_dft &d = p.dft;
    const float scale = d.inverse ? 1 / (float)d.length : 1;
    const bool pairs = p.half && !d.out.real;
    EACH_OF_BLOCK(k, pairs ? p.complex + 1 : d.out.real ? p.complex : d.writes) {
        const number x = pairs ? z[0] : back ? exchanged(z[k]) : z[k];
        if (pairs)
            store_pair(j, start, z, k, scale);
        else if (!d.out.real)
            store(j, start + k * d.out.step, scale, x);
        else if (!p.half)
            put(j.y, start + k * d.out.step, scale * x.re);
        else {
            put(j.y, start + 2 * k * d.out.step, scale * x.re);
            put(j.y, start + (2 * k + 1) * d.out.step, scale * x.im);
        }
    }
}

/* NEAR: complex numbers of an array in shared memory; 1: arrays are in t.room. */
template <int NEAR> static __global__ void dft_kernel(struct job j) {
    __shared__ number near[2 * NEAR];
    const struct zt_dft_plan &p = j.t.plan;
    const bool back = p.dft.inverse && !(p.half && p.dft.in.real);
    number *a = NEAR > 1 ? near : (number *)j.t.room + (int64_t)blockIdx.x * 2 * j.t.rows;
    number *b = a + (NEAR > 1 ? NEAR : j.t.rows);
    for (int64_t slice = blockIdx.x; slice < p.dft.slices; slice += gridDim.x) {
        const int64_t from = start_of(p.dft.in, slice);
        EACH_OF_BLOCK(n, p.complex) {
            const number x = loaded(j, from, n);
            a[n] = back ? exchanged(x) : x;
        }
        __syncthreads();
        transform(j.t, &a, &b);
        store_slice(j, start_of(p.dft.out, slice), a, back);
        __syncthreads();
    }
}

int zt_launch_dft(cudaStream_t stream, const struct zt_launch_dft *t, struct zt_launch_tensor x,
                  struct zt_launch_tensor window, struct zt_launch_tensor y) {
    const struct job j = { *t, x, window, y };
    const unsigned blocks = (unsigned)t->blocks;
    if (t->room)
        dft_kernel<1><<<blocks, BLOCK, 0, stream>>>(j);
    else if (t->rows <= ZT_LAUNCH_DFT_NEAR / 4)
        dft_kernel<ZT_LAUNCH_DFT_NEAR / 4><<<blocks, BLOCK, 0, stream>>>(j);
    else
        dft_kernel<ZT_LAUNCH_DFT_NEAR><<<blocks, BLOCK, 0, stream>>>(j);
    return cudaGetLastError();
}
