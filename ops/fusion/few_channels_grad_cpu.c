/* A unit of work is a piece of the batch, which it walks in bands: some rows of the pool's results of one sample. The
 * patches of a band, 4 x 4 inputs of each window and input channel, are copied first:
 *
 *     [input channel][window][row][column]
 *
 * The sums of a unit are [group of output channels][input channel][tap][vector], and for db [output channel]. The
 * pieces are added in order.
 *
 * workspace: [ sums of each piece | of each thread: padded row of x | patches ] */
#include "ops/fusion/few_channels_grad_cpu.h"

#include "base/align.h"
#include "device/threads.h"
#include "ops/conv/conv_cpu.h"
#include "ops/cpu/block_sum.h"
#include "ops/cpu/fetch.h"
#include "ops/fusion/simd_few_channels.h"
#include "ops/kernel/tile.h"

#include <string.h>

enum {
    SIDE = 4,
    PATCH = SIDE * SIDE,
    BAND_FLOATS = 1 << 14 /* of patches, some */
};

struct zt_few_channels_grad {
    const struct zt_few_channels_kernels *kernels;
    struct zt_conv_pool c;
    int64_t columns;   /* of a padded row, those that windows read */
    int64_t pool_rows; /* of a whole band */
    int64_t groups;    /* vectors of output channels */
    int64_t pieces;
};

/* ---- geometry ---- */

static bool takes(const struct zt_conv_pool *c) {
    const struct zt_window *w = &c->conv.window;
    if (w->axes != 2 || c->conv.groups != 1 || c->conv.c > ZT_FEW_CHANNELS || !zt_conv_pool_pairs(&c->pool))
        return false;
    for (int a = 0; a < 2; a++)
        if (w->kernel[a] != ZT_FEW_CHANNELS_KERNEL || w->stride[a] != 1 || w->dilation[a] != 1)
            return false;
    return true;
}

const struct zt_few_channels_grad *zt_few_channels_grad_make(struct zt_arena *arena, const struct zt_conv_pool *c) {
    const struct zt_few_channels_kernels *kernels = zt_few_channels_kernels();
    if (!kernels || !kernels->weight[0] || !takes(c))
        return NULL;
    struct zt_few_channels_grad *s = ZT_NEW(arena, struct zt_few_channels_grad);
    *s = (struct zt_few_channels_grad){ .kernels = kernels, .c = *c, .columns = 2 * c->pool.out[1] + 2 };
    s->pool_rows = zt_max_int(BAND_FLOATS / (c->conv.c * c->pool.out[1] * PATCH), 1);
    s->pool_rows = zt_min_int(s->pool_rows, c->pool.out[0]);
    s->groups = zt_ceil_div(c->conv.m, kernels->vector);
    s->pieces = zt_min_int(c->conv.n, zt_min_int(zt_conv_pieces(&c->conv), ZT_BATCH_BLOCKS));
    return s;
}

int zt_few_channels_grad_vector(const struct zt_few_channels_grad *s) {
    return s->kernels->vector;
}

/* Floats of the sums of a group of output channels and an input channel. */
static int64_t kernel_elems(const struct zt_few_channels_grad *s) {
    return (int64_t)ZT_FEW_CHANNELS_TAPS * s->kernels->vector;
}

static int64_t weight_elems(const struct zt_few_channels_grad *s) {
    return s->groups * s->c.conv.c * kernel_elems(s);
}

static int64_t sum_elems(const struct zt_few_channels_grad *s) {
    return zt_align_floats(weight_elems(s) + s->groups * s->kernels->vector);
}

static int64_t thread_elems(const struct zt_few_channels_grad *s) {
    return zt_align_floats(s->columns) + s->c.conv.c * s->pool_rows * s->c.pool.out[1] * PATCH;
}

size_t zt_few_channels_grad_bytes(const struct zt_few_channels_grad *s, int threads) {
    return (size_t)(sum_elems(s) * s->pieces + thread_elems(s) * threads) * sizeof(float);
}

/* ---- patches ---- */

struct job {
    const struct zt_few_channels_grad *s;
    const struct zt_few_channels_grad_data *d;
    float *sums, *threads;
};

struct band {
    int64_t sample, pool_row, pool_rows;
    float *line, *patches;
};

/* Copies row `y` of the padded x, from its first column on. */
static void read_line(const struct zt_few_channels_grad *s, const float *plane, int64_t y, float *line) {
    const struct zt_window *w = &s->c.conv.window;
    const int64_t left = zt_min_int(w->pad[1], s->columns), count = zt_min_int(w->in[1], s->columns - left);
    y -= w->pad[0];
    memset(line, 0, (size_t)s->columns * sizeof *line);
    if (y < 0 || y >= w->in[0])
        return;
    zt_fetch_ahead(plane + y * w->in[1], count);
    memcpy(line + left, plane + y * w->in[1], (size_t)count * sizeof *line);
}

/* Row `row` of the patches of a row of windows. */
static void put_row(const struct zt_few_channels_grad *s, const float *line, int64_t row, float *patches) {
    for (int64_t i = 0; i < s->c.pool.out[1]; i++)
        memcpy(patches + i * PATCH + row * SIDE, line + 2 * i, SIDE * sizeof *line);
}

static void read_patches(const struct job *job, const struct band *b) {
    const struct zt_few_channels_grad *s = job->s;
    const int64_t of_row = s->c.pool.out[1] * PATCH;
    for (int64_t c = 0; c < s->c.conv.c; c++) {
        const float *plane = job->d->x + (b->sample * s->c.conv.c + c) * s->c.conv.window.in_elems;
        float *patches = b->patches + c * b->pool_rows * of_row;
        for (int64_t i = 0; i < 2 * b->pool_rows + 2; i++) { /* a row belongs to two rows of windows */
            read_line(s, plane, 2 * b->pool_row + i, b->line);
            if (i / 2 < b->pool_rows)
                put_row(s, b->line, i % 2, patches + i / 2 * of_row);
            if (i >= 2)
                put_row(s, b->line, 2 + i % 2, patches + (i / 2 - 1) * of_row);
        }
    }
}

/* ---- gradients ---- */

static void do_band(const struct job *job, const struct band *b, float *sums) {
    const struct zt_few_channels_grad *s = job->s;
    const struct zt_planes *p = &job->d->p_planes;
    const int64_t vector = s->kernels->vector, windows = b->pool_rows * s->c.pool.out[1];
    read_patches(job, b);
    for (int64_t g = 0; g < s->groups; g++) {
        const int64_t o =
            b->sample * p->sample + zt_planes_channel(p, g * vector) + b->pool_row * s->c.pool.out[1] * p->pixel;
        for (int64_t c = 0, together; c < s->c.conv.c; c += together) {
            together = zt_min_int(s->c.conv.c - c, ZT_FEW_CHANNELS_TOGETHER);
            const struct zt_few_channels_patches patches = { .patches = b->patches + c * windows * PATCH,
                                                             .channel = windows * PATCH,
                                                             .windows = windows,
                                                             .dp = job->d->dp + o,
                                                             .p = job->d->p + o,
                                                             .position = job->d->position + o,
                                                             .pixel = p->pixel };
            s->kernels->weight[together - 1](&patches, sums + (g * s->c.conv.c + c) * kernel_elems(s),
                                             c == 0 ? sums + weight_elems(s) + g * vector : NULL);
        }
    }
}

static void do_piece(void *arg, int64_t piece) {
    const struct job *job = arg;
    const struct zt_few_channels_grad *s = job->s;
    const int64_t end = s->c.conv.n * (piece + 1) / s->pieces;
    float *sums = job->sums + piece * sum_elems(s);
    struct band b = { .line = job->threads + zt_parallel_thread() * thread_elems(s) };
    b.patches = b.line + zt_align_floats(s->columns);
    memset(sums, 0, (size_t)sum_elems(s) * sizeof *sums);
    for (b.sample = s->c.conv.n * piece / s->pieces; b.sample < end; b.sample++)
        for (b.pool_row = 0; b.pool_row < s->c.pool.out[0]; b.pool_row += b.pool_rows) {
            b.pool_rows = zt_min_int(s->pool_rows, s->c.pool.out[0] - b.pool_row);
            do_band(job, &b, sums);
        }
}

static void finish_weight(const struct job *job) {
    const struct zt_few_channels_grad *s = job->s;
    const int64_t vector = s->kernels->vector;
    float *to = job->d->dw;
    for (int64_t m = 0; m < s->c.conv.m; m++)
        for (int64_t c = 0; c < s->c.conv.c; c++)
            for (int64_t t = 0; t < ZT_FEW_CHANNELS_TAPS; t++, to++) {
                const float sum = job->sums[(m / vector * s->c.conv.c + c) * kernel_elems(s) + t * vector + m % vector];
                *to = job->d->accumulate ? *to + sum : sum;
            }
}

void zt_few_channels_grad_run(const struct zt_few_channels_grad *s, const struct zt_few_channels_grad_data *d,
                              void *workspace, int threads) {
    struct job job = { .s = s, .d = d, .sums = workspace };
    job.threads = job.sums + s->pieces * sum_elems(s);
    zt_parallel_for(threads, s->pieces, do_piece, &job);
    zt_sum_blocks(job.sums, sum_elems(s), s->pieces, threads);
    if (d->dw)
        finish_weight(&job);
    if (d->db)
        memcpy(d->db, job.sums + weight_elems(s), (size_t)s->c.conv.m * sizeof *d->db);
}
