/* A unit of work is a block of input channels over a piece of the batch. It walks dy row by row: the counterpart of a
 * row at a tap is a row of x, from the first result whose window position lies inside x to the last one. The sums of a
 * unit are
 *
 *     [output block][tap][input channel][output channel]      and for db, in units of the first input block:
 *     [output channel]
 *
 * The pieces are added in order. */
#include "ops/conv/weight_gradient_3d_cpu.h"

#include "device/threads.h"
#include "ops/cpu/blocked_layout.h"
#include "ops/conv/simd/simd_weight_gradient_3d.h"
#include "ops/cpu/block_sum.h"
#include "ops/kernel/tile.h"

#include <string.h>

enum { AXES = 3, VECTOR = ZT_WEIGHT_GRADIENT_WIDTH };

struct zt_conv_weight_gradient {
    zt_simd_weight_gradient_run *run;
    struct zt_conv conv;
    int64_t in_blocks, out_blocks, pieces;
};

const struct zt_conv_weight_gradient *zt_conv_weight_gradient_make(struct zt_arena *arena, const struct zt_conv *c,
                                                                   enum zt_dtype dtype) {
    zt_simd_weight_gradient_run *run = zt_simd_weight_gradient_kernel();
    if (!run || dtype != ZT_FLOAT || c->window.axes != AXES || c->groups != 1 || c->c % VECTOR || c->m % VECTOR)
        return NULL;
    struct zt_conv_weight_gradient *w = ZT_NEW(arena, struct zt_conv_weight_gradient);
    *w = (struct zt_conv_weight_gradient){
        .run = run, .conv = *c, .in_blocks = c->c / VECTOR, .out_blocks = c->m / VECTOR
    };
    w->pieces = zt_min_int(c->n, zt_min_int(zt_conv_pieces(c), zt_ceil_div(ZT_BATCH_BLOCKS, w->in_blocks)));
    return w;
}

const struct zt_layout *zt_conv_weight_gradient_layout(struct zt_arena *arena, const struct zt_shape *shape) {
    return zt_layout_of(arena, ZT_ORDER_BLOCKED, VECTOR, ZT_FLOAT, shape);
}

/* Elements of a unit's sums. */
static int64_t sum_elems(const struct zt_conv_weight_gradient *w) {
    return w->conv.m * (VECTOR * w->conv.window.kernel_elems + 1);
}

size_t zt_conv_weight_gradient_bytes(const struct zt_conv_weight_gradient *w) {
    return (size_t)(sum_elems(w) * w->in_blocks * w->pieces) * sizeof(float);
}

struct job {
    const struct zt_conv_weight_gradient *w;
    const struct zt_planes_weights *weights;
    float *sums;
};

/* The results of a row whose window position k lies inside x: first..end-1. */
static void inside(const struct zt_window *w, int64_t k, int64_t *first, int64_t *end) {
    const int last = AXES - 1;
    const int64_t reach = w->pad[last] - k * w->dilation[last]; /* result o reads o stride - reach */
    *first = reach > 0 ? zt_ceil_div(reach, w->stride[last]) : 0;
    *end = w->in[last] - 1 + reach < 0 ? 0 : zt_min_int(w->out[last], (w->in[last] - 1 + reach) / w->stride[last] + 1);
}

/* Row (z, y) of dy at window position (z, y)-index `tap` / kernel[2] of all: x and dy are the sample's, of one input
 * block. */
static void gradient_row(const struct zt_conv_weight_gradient *weight_gradient, const int64_t *row, const float *x,
                         const float *dy, float *sums) {
    const struct zt_window *w = &weight_gradient->conv.window;
    const int64_t plane = w->out_elems * VECTOR, taps = w->kernel_elems;
    for (int64_t tap = 0; tap < taps; tap++) {
        const int64_t k[AXES] = { tap / w->kernel[2] / w->kernel[1], tap / w->kernel[2] % w->kernel[1],
                                  tap % w->kernel[2] };
        const int64_t z = row[0] * w->stride[0] - w->pad[0] + k[0] * w->dilation[0];
        const int64_t y = row[1] * w->stride[1] - w->pad[1] + k[1] * w->dilation[1];
        int64_t first, end;
        inside(w, k[2], &first, &end);
        if (z < 0 || z >= w->in[0] || y < 0 || y >= w->in[1] || first >= end)
            continue;
        const int64_t at = first * w->stride[2] - w->pad[2] + k[2] * w->dilation[2];
        const float *from = x + ((z * w->in[1] + y) * w->in[2] + at) * VECTOR;
        const float *gradient = dy + ((row[0] * w->out[1] + row[1]) * w->out[2] + first) * VECTOR;
        for (int64_t block = 0; block < weight_gradient->out_blocks; block += 2) {
            const struct zt_simd_weight_gradient r = { .pixels = end - first,
                                                       .x_step = w->stride[2] * VECTOR,
                                                       .dy_block = plane,
                                                       .w_block = taps * VECTOR * VECTOR,
                                                       .blocks = block + 1 < weight_gradient->out_blocks ? 2 : 1 };
            weight_gradient->run(&r, from, gradient + block * plane, sums + (block * taps + tap) * VECTOR * VECTOR);
        }
    }
}

/* db += sums over the planes of a sample */
static void add_planes(const struct zt_conv_weight_gradient *w, const float *dy, float *db) {
    for (int64_t block = 0; block < w->out_blocks; block++) {
        float sum[VECTOR] = { 0 };
        for (int64_t p = 0; p < w->conv.window.out_elems; p++, dy += VECTOR)
            for (int l = 0; l < VECTOR; l++)
                sum[l] += dy[l];
        for (int l = 0; l < VECTOR; l++)
            db[block * VECTOR + l] += sum[l];
    }
}

static void gradient_unit(void *arg, int64_t unit) {
    const struct job *job = arg;
    const struct zt_conv_weight_gradient *w = job->w;
    const struct zt_window *window = &w->conv.window;
    const int64_t block = unit / w->pieces, piece = unit % w->pieces;
    const int64_t x = window->in_elems * VECTOR, y = window->out_elems * VECTOR;
    float *sums = job->sums + unit * sum_elems(w);
    memset(sums, 0, (size_t)sum_elems(w) * sizeof *sums);
    for (int64_t n = w->conv.n * piece / w->pieces; n < w->conv.n * (piece + 1) / w->pieces; n++) {
        const float *dy = (const float *)job->weights->dy + n * w->out_blocks * y;
        if (block == 0 && job->weights->db)
            add_planes(w, dy, sums + sum_elems(w) - w->conv.m);
        for (int64_t r = 0; job->weights->dw && r < window->out[0] * window->out[1]; r++)
            gradient_row(w, (const int64_t[]){ r / window->out[1], r % window->out[1] },
                         (const float *)job->weights->x + (n * w->in_blocks + block) * x, dy, sums);
    }
}

/* The pieces of an input block added in order, to plain weights [output channel][input channel][tap]. */
static void finish_block(void *arg, int64_t block) {
    const struct job *job = arg;
    const struct zt_conv_weight_gradient *w = job->w;
    const int64_t elems = sum_elems(w), taps = w->conv.window.kernel_elems;
    float *sums = job->sums + block * w->pieces * elems;
    zt_sum_blocks(sums, elems, w->pieces, 1);
    for (int64_t m = 0; job->weights->dw && m < w->conv.m; m++)
        for (int64_t i = 0; i < VECTOR; i++) {
            float *to = job->weights->dw + (m * w->conv.c + block * VECTOR + i) * taps;
            const float *from = sums + (m / VECTOR * taps * VECTOR + i) * VECTOR + m % VECTOR;
            for (int64_t t = 0; t < taps; t++)
                to[t] = job->weights->accumulate ? to[t] + from[t * VECTOR * VECTOR] : from[t * VECTOR * VECTOR];
        }
    if (block == 0 && job->weights->db)
        memcpy(job->weights->db, sums + elems - w->conv.m, (size_t)w->conv.m * sizeof *sums);
}

void zt_conv_weight_gradient_run(const struct zt_conv_weight_gradient *w, const struct zt_planes_weights *weights,
                                 void *workspace, int threads) {
    struct job job = { w, weights, workspace };
    zt_parallel_for(threads, w->in_blocks * w->pieces, gradient_unit, &job);
    zt_parallel_for(threads, w->in_blocks, finish_block, &job);
}
