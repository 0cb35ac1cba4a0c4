/* RotaryEmbedding and the gradient of its caches (formulas: ops/attention/rotary.c). */
#include "ops/attention/launch_rotary.h"
#include "ops/cuda/rows.cuh"

/* Row of the caches for place n = b * rows + s, -1: outside. */
static __device__ int64_t angle_of(const struct zt_launch_rotary &r, const int64_t *position, int64_t n) {
    if (!position)
        return n;
    const int64_t row = position[n] + (position[n] < 0 ? r.angles : 0);
    return row < 0 || row >= r.angles ? -1 : row;
}

static __device__ int64_t place_start(const struct zt_launch_rotary &r, int64_t n) {
    return n / r.rows * r.batch_step + n % r.rows * r.row_step;
}

static __device__ void columns_of(const struct zt_launch_rotary &r, int64_t i, int64_t *first, int64_t *second) {
    *first = r.interleaved ? 2 * i : i;
    *second = r.interleaved ? 2 * i + 1 : i + r.half;
}

/* A thread a pair of columns, or a column that is not turned; neighbours are of one head and place. */
static __global__ void rotary_kernel(struct zt_launch_rotary r, struct zt_launch_tensor x, struct zt_launch_tensor cos,
                                     struct zt_launch_tensor sin, const int64_t *position, struct zt_launch_tensor y) {
    const int64_t wide = r.size - r.half; /* pairs, then the columns behind them */
    EACH(i, r.batch * r.rows * r.heads * wide) {
        const int64_t pair = i % wide, head = i / wide % r.heads, place = i / wide / r.heads;
        const int64_t start = place_start(r, place) + head * r.head_step;
        if (pair >= r.half) {
            put(y, start + r.half + pair, get(x, start + r.half + pair));
            continue;
        }
        int64_t first, second;
        columns_of(r, pair, &first, &second);
        const int64_t row = angle_of(r, position, place), angle = row * r.half + pair;
        const float c = row < 0 ? CUDART_NAN_F : get(cos, angle), s = row < 0 ? CUDART_NAN_F : get(sin, angle);
        const float x1 = get(x, start + first), x2 = get(x, start + second);
        put(y, start + first, c * x1 - s * x2);
        put(y, start + second, s * x1 + c * x2);
    }
}

int zt_launch_rotary(cudaStream_t stream, const struct zt_launch_rotary *r, struct zt_launch_tensor x,
                     struct zt_launch_tensor cos, struct zt_launch_tensor sin, const int64_t *position,
                     struct zt_launch_tensor y) {
    const int64_t count = r->batch * r->rows * r->heads * (r->size - r->half);
    if (count > 0)
        rotary_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*r, x, cos, sin, position, y);
    return cudaGetLastError();
}

/* A thread a number of the caches; it looks for the places with its row, in their order. */
static __global__ void cache_grad_kernel(struct zt_launch_rotary r, struct zt_launch_tensor x,
                                         struct zt_launch_tensor dy, const int64_t *position,
                                         struct zt_launch_tensor dcos, struct zt_launch_tensor dsin) {
    EACH(i, r.angles * r.half) {
        const int64_t row = i / r.half, begin = position ? 0 : row, end = position ? r.batch * r.rows : row + 1;
        int64_t first, second;
        float c = 0, s = 0;
        columns_of(r, i % r.half, &first, &second);
        for (int64_t n = begin; n < end; n++) {
            if (angle_of(r, position, n) != row)
                continue;
            int64_t start = place_start(r, n);
            for (int64_t h = 0; h < r.heads; h++, start += r.head_step) {
                const float x1 = get(x, start + first), x2 = get(x, start + second);
                const float d1 = get(dy, start + first), d2 = get(dy, start + second);
                c += x1 * d1 + x2 * d2;
                s += x1 * d2 - x2 * d1;
            }
        }
        put(dcos, i, c);
        put(dsin, i, s);
    }
}

int zt_launch_rotary_cache_grad(cudaStream_t stream, const struct zt_launch_rotary *r, struct zt_launch_tensor x,
                                struct zt_launch_tensor dy, const int64_t *position, struct zt_launch_tensor dcos,
                                struct zt_launch_tensor dsin) {
    const int64_t count = r->angles * r->half;
    if (count > 0)
        cache_grad_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*r, x, dy, position, dcos, dsin);
    return cudaGetLastError();
}
