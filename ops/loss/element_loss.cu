/* Losses of single elements and their gradients (formulas: ops/loss/element_loss.c). Blocks add up their parts in a
 * fixed order, in fp64, and one thread adds up the blocks. */
#include "base/block.cuh"
#include "ops/loss/launch_element_loss.h"
#include "ops/cuda/types.cuh"

/* An element of the target; integers become floats. */
static __device__ float target_at(enum zt_dtype dtype, const void *data, int64_t i) {
    switch (dtype) {
    case ZT_FLOAT:
    case ZT_BFLOAT16:
    case ZT_FLOAT16:
        return float_at(dtype, data, i);
    case ZT_DOUBLE:
        return (float)((const double *)data)[i];
    case ZT_INT32:
    case ZT_INT64:
        return (float)int_at(dtype, data, i);
    default: /* bool, uint8 */
        return (float)((const uint8_t *)data)[i];
    }
}

static __device__ float sign_of(float d) {
    return d > 0 ? 1 : d < 0 ? -1 : d;
}

static __device__ float term_of(const struct zt_launch_element_loss &j, float x, float t) {
    const float d = fabsf(x - t);
    switch (j.term) {
    case ZT_TERM_SQUARED:
        return d * d;
    case ZT_TERM_ABSOLUTE:
        return d;
    case ZT_TERM_SMOOTH:
        return d < j.bend ? d * d / (2 * j.bend) : d - j.bend / 2;
    case ZT_TERM_HUBER:
        return d <= j.bend ? d * d / 2 : j.bend * (d - j.bend / 2);
    default:
        return (x < 0 ? 0 : x) - x * t + log1pf(expf(-fabsf(x)));
    }
}

static __device__ float slope_of(const struct zt_launch_element_loss &j, float x, float t) {
    const float d = x - t;
    switch (j.term) {
    case ZT_TERM_SQUARED:
        return 2 * d;
    case ZT_TERM_ABSOLUTE:
        return sign_of(d);
    case ZT_TERM_SMOOTH:
        return fabsf(d) < j.bend ? d / j.bend : sign_of(d);
    case ZT_TERM_HUBER:
        return fabsf(d) <= j.bend ? d : j.bend * sign_of(d);
    default:
        return 1 / (1 + expf(-x)) - t;
    }
}

static __device__ float row_weight(const struct zt_launch_element_loss &j, int64_t row) {
    return j.weight ? float_at(j.weight_dtype, j.weight, row) : 1;
}

/* sums[2 b] and sums[2 b + 1]: the weighted terms and the weights of block b. A row of weight 0 may hold any values. */
static __global__ void element_loss_kernel(struct zt_launch_element_loss j, bool terms, double *sums) {
    __shared__ double part[BLOCK];
    double value = 0, weight = 0;
    EACH(i, j.rows * j.width) {
        const float w = row_weight(j, i / j.width);
        weight += w;
        if (terms && w != 0)
            value += (double)w * term_of(j, float_at(j.dtype, j.x, i), target_at(j.target_dtype, j.target, i));
    }
    value = add_block<BLOCK>(value, part);
    weight = add_block<BLOCK>(weight, part);
    if (threadIdx.x == 0) {
        sums[2 * blockIdx.x] = value;
        sums[2 * blockIdx.x + 1] = weight;
    }
}

/* Adds up the sums of the blocks in their order and computes the loss. */
static __global__ void element_finish_kernel(struct zt_launch_element_loss j, int parts, void *loss, double *sums) {
    double value = 0, weight = 0;
    if (threadIdx.x != 0)
        return;
    for (int b = 0; b < parts; b++) {
        value += sums[2 * b];
        weight += sums[2 * b + 1];
    }
    sums[2 * ZT_ELEMENT_LOSS_PARTS + 1] = weight;
    if (loss)
        set_float(j.dtype, loss, 0, weight != 0 ? (float)(value / weight) : 0);
}

static __global__ void element_grad_kernel(struct zt_launch_element_loss j, const void *dloss, void *dx,
                                           const double *sums) {
    const double total = sums[2 * ZT_ELEMENT_LOSS_PARTS + 1], d = float_at(j.dloss_dtype, dloss, 0);
    EACH(i, j.rows * j.width) {
        const float factor = total != 0 ? (float)(d * row_weight(j, i / j.width) / total) : 0;
        set_float(j.dtype, dx, i,
                  factor != 0 ? factor * slope_of(j, float_at(j.dtype, j.x, i), target_at(j.target_dtype, j.target, i))
                              : 0);
    }
}

static void add_terms(cudaStream_t stream, const struct zt_launch_element_loss *j, void *loss, double *sums) {
    const int64_t blocks = (j->rows * j->width + BLOCK - 1) / BLOCK;
    const int64_t most = ZT_ELEMENT_LOSS_PARTS;
    const int parts = (int)(blocks < most ? blocks : most);
    if (parts > 0)
        element_loss_kernel<<<(unsigned)parts, BLOCK, 0, stream>>>(*j, loss != NULL, sums);
    element_finish_kernel<<<1, 1, 0, stream>>>(*j, parts, loss, sums);
}

int zt_launch_element_loss(cudaStream_t stream, const struct zt_launch_element_loss *j, void *loss, void *workspace) {
    add_terms(stream, j, loss, (double *)workspace);
    return cudaGetLastError();
}

int zt_launch_element_loss_grad(cudaStream_t stream, const struct zt_launch_element_loss *j, const void *dloss,
                                void *dx, void *workspace) {
    const int64_t count = j->rows * j->width;
    add_terms(stream, j, NULL, (double *)workspace);
    if (count > 0)
        element_grad_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*j, dloss, dx, (const double *)workspace);
    return cudaGetLastError();
}
