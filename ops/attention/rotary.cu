/* RotaryEmbedding and the gradient of its caches (formulas: ops/attention/rotary.c). */
#include "ops/attention/launch_rotary.h"
#include "ops/cuda/tensor.cuh"

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

/* A thread takes a pair of columns, or a column that is not rotated. Neighbours have one head and place. */
static __global__ void rotary_kernel(struct zt_launch_rotary r, struct zt_launch_rotary_tensors t) {
    const int64_t wide = r.size - r.half; /* pairs, then the columns behind them */
    EACH(i, r.batch * r.rows * r.heads * wide) {
        const int64_t pair = i % wide, head = i / wide % r.heads, place = i / wide / r.heads;
        const int64_t start = place_start(r, place) + head * r.head_step;
        if (pair >= r.half) {
            put(t.y, start + r.half + pair, get(t.x, start + r.half + pair));
            continue;
        }
        int64_t first, second;
        columns_of(r, pair, &first, &second);
        const int64_t row = angle_of(r, t.position, place), angle = row * r.half + pair;
        const float c = row < 0 ? CUDART_NAN_F : get(t.cos, angle), s = row < 0 ? CUDART_NAN_F : get(t.sin, angle);
        const float x1 = get(t.x, start + first), x2 = get(t.x, start + second);
        put(t.y, start + first, c * x1 - s * x2);
        put(t.y, start + second, s * x1 + c * x2);
    }
}

int zt_launch_rotary(cudaStream_t stream, const struct zt_launch_rotary *r, const struct zt_launch_rotary_tensors *t) {
    const int64_t count = r->batch * r->rows * r->heads * (r->size - r->half);
    if (count > 0)
        rotary_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*r, *t);
    return cudaGetLastError();
}

/* A thread takes a number of the caches and adds up the places with its row, in their order. */
static __global__ void cache_grad_kernel(struct zt_launch_rotary r, struct zt_launch_rotary_cache_grad g) {
    EACH(i, r.angles * r.half) {
        const int64_t row = i / r.half, begin = g.position ? 0 : row, end = g.position ? r.batch * r.rows : row + 1;
        int64_t first, second;
        float c = 0, s = 0;
        columns_of(r, i % r.half, &first, &second);
        for (int64_t n = begin; n < end; n++) {
            if (angle_of(r, g.position, n) != row)
                continue;
            int64_t start = place_start(r, n);
            for (int64_t h = 0; h < r.heads; h++, start += r.head_step) {
                const float x1 = get(g.x, start + first), x2 = get(g.x, start + second);
                const float d1 = get(g.dy, start + first), d2 = get(g.dy, start + second);
                c += x1 * d1 + x2 * d2;
                s += x1 * d2 - x2 * d1;
            }
        }
        put(g.dcos, i, c);
        put(g.dsin, i, s);
    }
}

int zt_launch_rotary_cache_grad(cudaStream_t stream, const struct zt_launch_rotary *r,
                                const struct zt_launch_rotary_cache_grad *g) {
    const int64_t count = r->angles * r->half;
    if (count > 0)
        cache_grad_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*r, *g);
    return cudaGetLastError();
}
