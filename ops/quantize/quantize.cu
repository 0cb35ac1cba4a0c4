/* Quantization (formulas: ops/quantize/quantize.h). A thread takes an element. The gradient of a scale is the sum over
 * its elements, in parts of at least PART elements: a block sums a part, then a block sums the parts of a scale. */
#include "ops/quantize/launch_quantize.h"

#include "ops/cuda/tensor.cuh"

enum { PART = 4096, PARTS = 1024 };

static __device__ inline float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static __device__ inline uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static __device__ inline int64_t scale_of(const struct zt_launch_quantize &q, int64_t i) {
    if (q.scales == 1)
        return 0;
    const int64_t inner = i % q.inner, rest = i / q.inner;
    return rest / q.length * q.outer_step + rest % q.length / q.block * q.step + inner * q.inner_step;
}

/* An element of a type of q, as a number. */
static __device__ inline float code_at(const struct zt_launch_quantize &q, const void *data, int64_t i) {
    const uint8_t code =
        q.type == ZT_INT32 || q.type == ZT_INT16 || q.type == ZT_UINT16 ? 0 : ((const uint8_t *)data)[i];
    if (!q.integer)
        return float_of(zt_narrow_decode(q.format, code));
    switch (q.type) {
    case ZT_INT32:
        return (float)((const int32_t *)data)[i];
    case ZT_INT16:
        return ((const int16_t *)data)[i];
    case ZT_UINT16:
        return ((const uint16_t *)data)[i];
    case ZT_INT8:
        return (int8_t)code;
    case ZT_INT4:
        return (float)((int)(code ^ 8) - 8);
    case ZT_INT2:
        return (float)((int)(code ^ 2) - 2);
    default:
        return code;
    }
}

static __device__ inline float rounded(enum zt_dtype to, float x) {
    return to == ZT_FLOAT16    ? to_float(from_float<__half>(x))
           : to == ZT_BFLOAT16 ? to_float(from_float<__nv_bfloat16>(x))
                               : x;
}

static __device__ inline float divided(const struct zt_launch_quantize &q, float x, float scale) {
    return rounded(q.precision, rounded(q.precision, x) / rounded(q.precision, scale));
}

/* The code of a float type. */
static __device__ inline uint8_t narrowed(const struct zt_launch_quantize &q, float v, float zero) {
    return zt_narrow_encode(q.format, bits_of(zero != 0 ? v + zero : v), q.saturate);
}

/* q as a number: what is not above the lowest, NaN too, becomes the lowest. */
static __device__ inline float whole(const struct zt_launch_quantize &q, float v, float zero) {
    const float sum = rintf(v) + zero;
    return !(sum > q.low) ? q.low : sum < q.high ? sum : q.high;
}

static __device__ inline float quantized(const struct zt_launch_quantize &q, float v, float zero) {
    return q.integer ? whole(q, v, zero) : float_of(zt_narrow_decode(q.format, narrowed(q, v, zero)));
}

static __device__ inline void put_code(const struct zt_launch_quantize &q, void *data, int64_t i, float v, float zero) {
    const int code = q.integer ? (int)whole(q, v, zero) : narrowed(q, v, zero);
    if (q.type == ZT_INT16 || q.type == ZT_UINT16)
        ((uint16_t *)data)[i] = (uint16_t)code;
    else
        ((uint8_t *)data)[i] = (uint8_t)(q.type == ZT_INT4 ? code & 15 : q.type == ZT_INT2 ? code & 3 : code);
}

static __device__ inline float zero_of(const struct zt_launch_quantize &q, const struct zt_launch_tensor &zero,
                                       int64_t s) {
    return zero.data ? code_at(q, zero.data, s) : 0;
}

static __global__ void quantize_kernel(struct zt_launch_quantize q, struct zt_launch_tensor from,
                                       struct zt_launch_tensor scales, struct zt_launch_tensor zeros,
                                       struct zt_launch_tensor to) {
    EACH(i, q.count) {
        const int64_t s = scale_of(q, i);
        const float scale = get(scales, s), zero = zero_of(q, zeros, s);
        if (q.rule == ZT_LAUNCH_DEQUANTIZE) {
            put(to, i, (code_at(q, from.data, i) - zero) * scale);
            continue;
        }
        const float v = divided(q, get(from, i), scale);
        if (q.rule == ZT_LAUNCH_QUANTIZE)
            put_code(q, to.data, i, v, zero);
        else
            put(to, i, (quantized(q, v, zero) - zero) * scale);
    }
}

static __device__ inline bool passes(const struct zt_launch_quantize &q, float v, float zero) {
    return v >= q.low - zero && v <= q.high - zero;
}

static __global__ void gradient_kernel(struct zt_launch_quantize q, struct zt_launch_quantize_grad t) {
    EACH(i, q.count) {
        const int64_t s = scale_of(q, i);
        const float v = divided(q, get(t.x, i), get(t.scale, s));
        put(t.dx, i, passes(q, v, zero_of(q, t.zero, s)) ? get(t.dy, i) : 0);
    }
}

/* The elements of a scale: `count`, of which element e is at(e). */
struct members {
    int64_t count, start, group, length, inner;
    __device__ int64_t at(int64_t e) const {
        return start + e / group * length * inner + e % group * inner;
    }
};
static __device__ inline struct members members_of(const struct zt_launch_quantize &q, int64_t s) {
    if (!q.step && !q.inner_step) /* all: inner is 1 */
        return { q.count, 0, q.count, q.length, q.inner };
    if (!q.inner_step) { /* those with index s along the axis: rows of `inner` elements */
        const int64_t outer = q.count / (q.length * q.inner);
        return { outer * q.inner, s * q.inner, q.inner, q.length * q.inner, 1 };
    }
    const int64_t o = s / q.outer_step, block = s % q.outer_step / q.inner, i = s % q.inner;
    const int64_t first = block * q.block;
    return { least(q.block, q.length - first), (o * q.length + first) * q.inner + i, q.length, q.length, q.inner };
}

static int64_t parts_of(const struct zt_launch_quantize *q) {
    const int64_t each = q->scales > 0 ? q->count / q->scales : 0, parts = (each + PART - 1) / PART;
    return parts < 1 ? 1 : parts < (int64_t)PARTS ? parts : (int64_t)PARTS;
}

static __global__ void scale_parts_kernel(struct zt_launch_quantize q, struct zt_launch_quantize_grad t,
                                          int64_t parts) {
    __shared__ float part[SLICE_THREADS];
    for (int64_t job = blockIdx.x; job < q.scales * parts; job += gridDim.x) {
        const int64_t s = job / parts, p = job % parts;
        const struct members m = members_of(q, s);
        const int64_t each = (m.count + parts - 1) / parts, last = least(m.count, (p + 1) * each);
        const float scale = get(t.scale, s), zero = zero_of(q, t.zero, s);
        float sum = 0;
        for (int64_t e = p * each + threadIdx.x; e < last; e += SLICE_THREADS) {
            const int64_t i = m.at(e);
            const float v = divided(q, get(t.x, i), scale);
            sum += get(t.dy, i) * (quantized(q, v, zero) - zero - (passes(q, v, zero) ? v : 0));
        }
        sum = add_block<SLICE_THREADS>(sum, part);
        if (threadIdx.x == 0)
            t.sums[job] = sum;
    }
}

static __global__ void scale_kernel(struct zt_launch_quantize q, struct zt_launch_quantize_grad t, int64_t parts) {
    __shared__ float part[SLICE_THREADS];
    for (int64_t s = blockIdx.x; s < q.scales; s += gridDim.x) {
        float sum = 0;
        for (int64_t p = threadIdx.x; p < parts; p += SLICE_THREADS)
            sum += t.sums[s * parts + p];
        sum = add_block<SLICE_THREADS>(sum, part);
        if (threadIdx.x == 0)
            put(t.ds, s, q.factor * sum);
    }
}

int zt_launch_quantize(cudaStream_t stream, const struct zt_launch_quantize *q, struct zt_launch_tensor from,
                       struct zt_launch_tensor scale, struct zt_launch_tensor zero, struct zt_launch_tensor to) {
    if (q->count == 0)
        return cudaSuccess;
    quantize_kernel<<<blocks_for(q->count), BLOCK, 0, stream>>>(*q, from, scale, zero, to);
    return cudaGetLastError();
}

int64_t zt_launch_quantize_sums(const struct zt_launch_quantize *q) {
    return q->scales * parts_of(q);
}

int zt_launch_quantize_grad(cudaStream_t stream, const struct zt_launch_quantize *q,
                            const struct zt_launch_quantize_grad *t) {
    const int64_t parts = parts_of(q);
    if (q->count > 0 && t->dx.data)
        gradient_kernel<<<blocks_for(q->count), BLOCK, 0, stream>>>(*q, *t);
    if (t->ds.data && q->scales > 0) {
        scale_parts_kernel<<<job_blocks(q->scales * parts), SLICE_THREADS, 0, stream>>>(*q, *t, parts);
        scale_kernel<<<job_blocks(q->scales), SLICE_THREADS, 0, stream>>>(*q, *t, parts);
    }
    return cudaGetLastError();
}
