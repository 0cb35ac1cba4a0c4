/* Ops that draw random numbers (ops/random/random.c, ops/random/dropout.c). A thread takes the four numbers of one
 * counter of the generator, so that element i of a row has the number it has on the host. */
#include "ops/random/launch_random.h"
#include "ops/cuda/tensor.cuh"

#include "base/rng.h"

static __device__ double uniform_of(uint32_t word) {
    return word * 2.3283064365386963e-10; /* 2^-32 */
}

static __device__ void set_number(const struct zt_launch_tensor &y, int64_t i, double value) {
    switch (y.dtype) {
    case ZT_DOUBLE:
        ((double *)y.data)[i] = value;
        break;
    case ZT_FLOAT16:
        ((__half *)y.data)[i] = __double2half(value);
        break;
    case ZT_BFLOAT16:
        ((__nv_bfloat16 *)y.data)[i] = __double2bfloat16(value);
        break;
    case ZT_BOOL:
    case ZT_UINT8:
        ((uint8_t *)y.data)[i] = (uint8_t)value;
        break;
    case ZT_INT32:
        ((int32_t *)y.data)[i] = (int32_t)value;
        break;
    case ZT_INT64:
        ((int64_t *)y.data)[i] = (int64_t)value;
        break;
    default:
        ((float *)y.data)[i] = (float)value;
    }
}

/* ---- numbers by themselves ---- */

static __global__ void draws_kernel(struct zt_launch_draws d, struct zt_launch_tensor p, struct zt_launch_tensor y) {
    const struct zt_draws draws = zt_rng_draws(&d.drawing);
    const int64_t blocks = (d.width + 3) / 4;
    EACH(i, d.rows * blocks) {
        const int64_t row = i / blocks, first = i % blocks * 4;
        uint32_t word[4];
        double number[4];
        zt_rng_words(draws.key, draws.first_sample + (uint64_t)row, (uint64_t)(i % blocks), word);
        for (int k = 0; k < 4; k++)
            number[k] = uniform_of(word[k]);
        for (int k = 0; d.how == ZT_DRAW_NORMAL && k < 4; k += 2) { /* Box and Muller's pairs */
            const double radius = sqrt(-2 * log1p(-number[k])), angle = 2 * 3.14159265358979323846 * number[k + 1];
            number[k] = radius * cos(angle);
            number[k + 1] = radius * sin(angle);
        }
        for (int k = 0; k < 4 && first + k < d.width; k++) {
            const int64_t at = row * d.width + first + k;
            set_number(y, at, d.how == ZT_DRAW_BERNOULLI ? number[k] < get(p, at) : d.shift + d.factor * number[k]);
        }
    }
}

int zt_launch_draws(cudaStream_t stream, const struct zt_launch_draws *d, struct zt_launch_tensor p,
                    struct zt_launch_tensor y) {
    const int64_t count = d->rows * ((d->width + 3) / 4);
    if (count > 0)
        draws_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*d, p, y);
    return cudaGetLastError();
}

/* ---- Dropout ---- */

static __global__ void dropout_kernel(struct zt_launch_dropout d, struct zt_launch_tensor x, struct zt_launch_tensor y,
                                      uint8_t *mask) {
    const struct zt_draws draws = zt_rng_draws(&d.drawing);
    const int64_t blocks = (d.width + 3) / 4; /* of four draws, a row */
    const float scale = d.ratio < 1 ? (float)(1 / (1 - d.ratio)) : 0;
    EACH(i, d.rows * blocks) {
        const int64_t row = i / blocks, first = i % blocks * 4;
        uint32_t word[4];
        zt_rng_words(draws.key, draws.first_sample + (uint64_t)row, (uint64_t)(i % blocks), word);
        for (int k = 0; k < 4 && first + k < d.width; k++) {
            const int64_t at = row * d.width + first + k;
            const bool keeps = uniform_of(word[k]) >= d.ratio;
            put(y, at, keeps ? get(x, at) * scale : 0);
            if (mask)
                mask[at] = keeps;
        }
    }
}

int zt_launch_dropout(cudaStream_t stream, const struct zt_launch_dropout *d, struct zt_launch_tensor x,
                      struct zt_launch_tensor y, uint8_t *mask) {
    const int64_t count = d->rows * ((d->width + 3) / 4);
    if (count > 0)
        dropout_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*d, x, y, mask);
    return cudaGetLastError();
}

/* ---- classes ---- */

/* Running sum of exp(x - max) of a row in the order of the classes: a block takes a row, a thread a stretch of it. */
static __global__ void cumulate_row_kernel(struct zt_launch_multinomial m, struct zt_launch_tensor x,
                                           double *cumulated) {
    __shared__ double part[BLOCK];
    const int64_t each = (m.classes + BLOCK - 1) / BLOCK, first = threadIdx.x * each;
    const int64_t end = first + each < m.classes ? first + each : m.classes;
    for (int64_t row = blockIdx.x; row < m.rows; row += gridDim.x) {
        double *sums = cumulated + row * m.classes, max = -CUDART_INF_F, sum = 0, before = 0;
        for (int64_t i = first; i < end; i++)
            max = fmax(max, (double)get(x, row * m.classes + i));
        max = fold_block<BLOCK>(max, part, [](double a, double b) { return fmax(a, b); });
        for (int64_t i = first; i < end; i++)
            sums[i] = sum += exp(get(x, row * m.classes + i) - max);
        part[threadIdx.x] = sum;
        __syncthreads();
        for (int k = 0; k < (int)threadIdx.x; k++)
            before += part[k];
        for (int64_t i = first; i < end; i++)
            sums[i] += before;
        __syncthreads();
    }
}

/* The first class whose running sum exceeds `level`; the last class where rounding leaves none. */
static __device__ int64_t class_at(const double *sums, int64_t classes, double level) {
    int64_t low = 0, high = classes - 1;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (level < sums[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static __global__ void choose_kernel(struct zt_launch_multinomial m, const double *cumulated,
                                     struct zt_launch_tensor y) {
    const struct zt_draws draws = zt_rng_draws(&m.drawing);
    const int64_t blocks = (m.samples + 3) / 4;
    EACH(i, m.rows * blocks) {
        const int64_t row = i / blocks, first = i % blocks * 4;
        const double *sums = cumulated + row * m.classes;
        uint32_t word[4];
        zt_rng_words(draws.key, draws.first_sample + (uint64_t)row, (uint64_t)(i % blocks), word);
        for (int k = 0; k < 4 && first + k < m.samples; k++)
            set_number(y, row * m.samples + first + k,
                       (double)class_at(sums, m.classes, uniform_of(word[k]) * sums[m.classes - 1]));
    }
}

int zt_launch_multinomial(cudaStream_t stream, const struct zt_launch_multinomial *m, struct zt_launch_tensor x,
                          struct zt_launch_tensor y, double *cumulated) {
    if (m->rows <= 0)
        return cudaSuccess;
    cumulate_row_kernel<<<job_blocks(m->rows), BLOCK, 0, stream>>>(*m, x, cumulated);
    choose_kernel<<<blocks_for(m->rows * ((m->samples + 3) / 4)), BLOCK, 0, stream>>>(*m, cumulated, y);
    return cudaGetLastError();
}
