#include "device/arrays_cuda.h"

#include "base/block.cuh"
#include "device/half_arrays.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

/* ---- sums ---- */

static __global__ void accumulate_kernel(float *to, const float *from, int64_t count) {
    EACH(i, count) {
        to[i] += from[i];
    }
}

int zt_launch_accumulate(cudaStream_t stream, float *to, const float *from, int64_t count) {
    accumulate_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(to, from, count);
    return cudaGetLastError();
}

/* ---- gradients in 16 bits ---- */

template <class T> static __device__ T rounded(float x);
template <> __device__ __nv_bfloat16 rounded<__nv_bfloat16>(float x) {
    return __float2bfloat16_rn(x);
}
template <> __device__ __half rounded<__half>(float x) {
    return __float2half_rn(x);
}

static __device__ float widened(__nv_bfloat16 x) {
    return __bfloat162float(x);
}
static __device__ float widened(__half x) {
    return __half2float(x);
}

template <class T>
static __global__ void narrow_kernel(T *to, const float *from, int64_t count, float exact, float factor) {
    EACH(i, count) {
        to[i] = rounded<T>(widened(rounded<T>(from[i] * exact)) * factor);
    }
}

template <class T> static __global__ void widen_kernel(float *to, const T *from, int64_t count, float factor) {
    EACH(i, count) {
        to[i] = widened(rounded<T>(widened(from[i]) * factor));
    }
}

template <class T> static __global__ void accumulate_half_kernel(float *to, const float *from, int64_t count) {
    EACH(i, count) {
        const float sum = from ? to[i] + widened(rounded<T>(from[i])) : to[i];
        to[i] = widened(rounded<T>(sum));
    }
}

int zt_launch_narrow(cudaStream_t stream, uint16_t *to, const float *from, int64_t count,
                     const struct zt_half_cast *cast) {
    const float exact = cast->exact, factor = cast->factor;
    if (cast->fp16)
        narrow_kernel<__half><<<blocks_for(count), BLOCK, 0, stream>>>((__half *)to, from, count, exact, factor);
    else
        narrow_kernel<__nv_bfloat16>
            <<<blocks_for(count), BLOCK, 0, stream>>>((__nv_bfloat16 *)to, from, count, exact, factor);
    return cudaGetLastError();
}

int zt_launch_widen(cudaStream_t stream, float *to, const uint16_t *from, int64_t count,
                    const struct zt_half_cast *cast) {
    const float factor = cast->factor;
    if (cast->fp16)
        widen_kernel<__half><<<blocks_for(count), BLOCK, 0, stream>>>(to, (const __half *)from, count, factor);
    else
        widen_kernel<__nv_bfloat16>
            <<<blocks_for(count), BLOCK, 0, stream>>>(to, (const __nv_bfloat16 *)from, count, factor);
    return cudaGetLastError();
}

int zt_launch_accumulate_half(cudaStream_t stream, float *to, const float *from, int64_t count, bool fp16) {
    if (fp16)
        accumulate_half_kernel<__half><<<blocks_for(count), BLOCK, 0, stream>>>(to, from, count);
    else
        accumulate_half_kernel<__nv_bfloat16><<<blocks_for(count), BLOCK, 0, stream>>>(to, from, count);
    return cudaGetLastError();
}

/* ---- many copies ---- */

enum { COPY_BLOCKS = 8 }; /* blocks of each copy */

/* Copies every `step`th element of type T from `first` on; returns the bytes that the elements of type T cover. */
template <class T> static __device__ size_t copy_some(const struct zt_copy &c, size_t first, size_t step) {
    const size_t count = c.bytes / sizeof(T);
    for (size_t i = first; i < count; i += step)
        ((T *)c.to)[i] = ((const T *)c.from)[i];
    return count * sizeof(T);
}

struct alignas(16) sixteen {
    uint64_t half[2];
};

/* The copies are passed by value, so that no host copy is needed. */
static __global__ void copies_kernel(struct zt_launch_copies copies) {
    struct zt_copy c = copies.at[blockIdx.x / COPY_BLOCKS];
    const size_t first = (size_t)(blockIdx.x % COPY_BLOCKS) * blockDim.x + threadIdx.x;
    const size_t step = (size_t)COPY_BLOCKS * blockDim.x;
    const uintptr_t ends = (uintptr_t)c.to | (uintptr_t)c.from;
    const size_t done = ends % 16 == 0  ? copy_some<struct sixteen>(c, first, step)
                        : ends % 4 == 0 ? copy_some<uint32_t>(c, first, step)
                                        : 0;
    c = { (char *)c.to + done, (const char *)c.from + done, c.bytes - done };
    copy_some<char>(c, first, step);
}

int zt_launch_copies(cudaStream_t stream, const struct zt_launch_copies *copies) {
    if (copies->count > 0)
        copies_kernel<<<(unsigned)(copies->count * COPY_BLOCKS), BLOCK, 0, stream>>>(*copies);
    return cudaGetLastError();
}

/* ---- many casts ---- */

enum { CAST_ELEMENTS = 16 * BLOCK }; /* elements of a block */

/* The elements `first` to `last` of `to`, which a block casts. */
template <class T> static __device__ void cast_turned(const struct zt_cast &c, int64_t first, int64_t last) {
    const uint32_t matrix = c.channels * c.places;
    const int64_t base = first / matrix * matrix; /* first element of the matrix that contains element `first` */
    const float *from = (const float *)c.from + base;
    T *to = (T *)c.to + base;
    const uint32_t end = (uint32_t)(last - base);
    for (uint32_t i = (uint32_t)(first - base) + threadIdx.x; i < end; i += BLOCK) {
        const uint32_t within = i % matrix, place = within / c.channels;
        to[i] = rounded<T>(from[i - within + (within - place * c.channels) * c.places + place]);
    }
}

template <class T> static __global__ void casts_kernel(struct zt_launch_casts casts) {
    const int entry = entry_of(casts.blocks, casts.count);
    const struct zt_cast c = casts.at[entry];
    const int64_t begin = (int64_t)(blockIdx.x - casts.blocks[entry]) * CAST_ELEMENTS;
    const int64_t last = begin + CAST_ELEMENTS < c.count ? begin + CAST_ELEMENTS : c.count;
    if (c.places) {
        cast_turned<T>(c, begin, last);
        return;
    }
    for (int64_t i = begin + threadIdx.x; i < last; i += BLOCK)
        ((T *)c.to)[i] = rounded<T>(((const float *)c.from)[i]);
}

int zt_launch_casts(cudaStream_t stream, struct zt_launch_casts *casts) {
    casts->blocks[0] = 0;
    for (int i = 0; i < casts->count; i++)
        casts->blocks[i + 1] = casts->blocks[i] + (unsigned)((casts->at[i].count + CAST_ELEMENTS - 1) / CAST_ELEMENTS);
    const unsigned blocks = casts->blocks[casts->count];
    if (blocks > 0 && casts->fp16)
        casts_kernel<__half><<<blocks, BLOCK, 0, stream>>>(*casts);
    else if (blocks > 0)
        casts_kernel<__nv_bfloat16><<<blocks, BLOCK, 0, stream>>>(*casts);
    return cudaGetLastError();
}

/* ---- samples by number ---- */

/* Decodes N bytes of a sample from `at` on. */
template <class T, int N>
static __device__ void look_up(const struct zt_gather &g, const unsigned char *from, char *to, uint32_t at) {
    const uint32_t plane = (uint32_t)g.bytes / g.planes;
    const T *table = (const T *)g.table + at / plane * 256;
    const pack<unsigned char, N> bytes = *(const pack<unsigned char, N> *)(from + at);
    pack<T, N> elements;
    for (int k = 0; k < N; k++)
        elements.at[k] = table[bytes.at[k]];
    ((pack<T, N> *)to)[at / N] = elements;
}

template <class T>
static __device__ void look_up_some(const struct zt_gather &g, const unsigned char *from, char *to, uint32_t at,
                                    uint32_t width) {
    if (width == 4)
        look_up<T, 4>(g, from, to, at);
    else
        look_up<T, 1>(g, from, to, at);
}

/* Gathers `width` bytes of a sample from `at` on. */
static __device__ void gather_some(const struct zt_gather &g, const unsigned char *from, char *to, size_t at,
                                   uint32_t width) {
    if (g.table && g.element_bytes == 4)
        look_up_some<uint32_t>(g, from, to, (uint32_t)at, width);
    else if (g.table && g.element_bytes == 2)
        look_up_some<uint16_t>(g, from, to, (uint32_t)at, width);
    else if (g.table && g.element_bytes == 8)
        look_up_some<uint64_t>(g, from, to, (uint32_t)at, width);
    else if (g.table)
        look_up_some<unsigned char>(g, from, to, (uint32_t)at, width);
    else if (width == 16)
        *(struct sixteen *)(to + at) = *(const struct sixteen *)(from + at);
    else if (width == 4)
        *(uint32_t *)(to + at) = *(const uint32_t *)(from + at);
    else
        to[at] = (char)from[at];
}

/* The blocks of an entry share its parts in a loop, because 64-bit divisions are slow. */
static __global__ void gathers_kernel(struct zt_launch_gathers x) {
    const int entry = entry_of(x.blocks, x.count);
    const struct zt_gather g = x.at[entry];
    const int64_t parts = x.parts[entry], count = g.rows * parts;
    const int64_t step = (int64_t)(x.blocks[entry + 1] - x.blocks[entry]) * BLOCK;
    const size_t row_bytes = g.table ? g.bytes * g.element_bytes : g.bytes;
    const uint32_t width = x.width[entry];
    const bool small = count <= UINT32_MAX;
    for (int64_t i = (int64_t)(blockIdx.x - x.blocks[entry]) * BLOCK + threadIdx.x; i < count; i += step) {
        const int64_t row = small ? (uint32_t)i / (uint32_t)parts : i / parts;
        const int64_t sample = g.index[row];
        gather_some(g, (const unsigned char *)g.from + (size_t)sample * g.bytes, (char *)g.to + (size_t)row * row_bytes,
                    (size_t)(i - row * parts) * width, width);
    }
}

static uint32_t gather_width(const struct zt_gather *g) {
    if (g->table)
        return g->bytes / g->planes % 4 == 0 ? 4 : 1;
    return g->bytes % 16 == 0 ? 16 : g->bytes % 4 == 0 ? 4 : 1;
}

int zt_launch_gathers(cudaStream_t stream, struct zt_launch_gathers *x) {
    x->blocks[0] = 0;
    for (int i = 0; i < x->count; i++) {
        x->width[i] = gather_width(&x->at[i]);
        x->parts[i] = (int64_t)(x->at[i].bytes / x->width[i]);
        const int64_t count = x->at[i].rows * x->parts[i];
        x->blocks[i + 1] = x->blocks[i] + (count > 0 ? blocks_for(count) : 0);
    }
    const unsigned blocks = x->blocks[x->count];
    if (blocks > 0)
        gathers_kernel<<<blocks, BLOCK, 0, stream>>>(*x);
    return cudaGetLastError();
}
