/* A piece of the batch is some units of tiles, which add to the piece's sums
 *
 *     [element][input channel][vector of result channels], and for db: [result channel]
 *
 * The pieces are added in order. workspace: [ sums of each piece | of each thread: tiles of x | tiles of dy ], both
 * [element][tile][channel]. */
#include "ops/cpu/winograd/gradient.h"

#include "base/align.h"
#include "device/threads.h"
#include "ops/cpu/winograd/tiles.h"
#include "ops/cpu/block_sum.h"
#include "ops/kernel/tile.h"

#include <string.h>

enum { ELEMENTS = ZT_WINOGRAD_ELEMENTS, TAPS = 9, FEWEST_PIECES = 4, MOST_PIECES = 16, SUMS = 1 << 23 /* floats */ };

struct zt_winograd_gradient {
    const struct zt_winograd_kernels *kernels;
    struct zt_winograd_tiles tiles;
    int64_t samples, channels, results;
    int64_t channel_vectors, result_vectors;
    int64_t unit, pieces; /* tiles; of the batch */
};

/* ---- geometry ---- */

static int64_t weight_elems(const struct zt_winograd_gradient *w) {
    return ELEMENTS * w->channels * w->result_vectors * w->kernels->vector;
}

static int64_t sum_elems(const struct zt_winograd_gradient *w) {
    return zt_align_floats(weight_elems(w) + w->result_vectors * w->kernels->vector);
}

static void set_tiles(struct zt_winograd_gradient *w, const struct zt_winograd_conv *c) {
    struct zt_winograd_tiles *t = &w->tiles;
    for (int a = 0; a < 2; a++) {
        t->out[a] = c->out[a];
        t->in[a] = c->in[a];
        t->pad[a] = c->pad[a];
        t->tiles[a] = zt_ceil_div(t->out[a], ZT_WINOGRAD_RESULTS);
    }
    t->all = w->samples * t->tiles[0] * t->tiles[1];
}

static struct zt_winograd_gradient describe(const struct zt_winograd_conv *c) {
    struct zt_winograd_gradient w = {
        .kernels = zt_winograd_kernels(), .samples = c->samples, .channels = c->channels, .results = c->results
    };
    w.channel_vectors = zt_ceil_div(c->channels, w.kernels->vector);
    w.result_vectors = zt_ceil_div(c->results, w.kernels->vector);
    w.unit = zt_winograd_unit(w.kernels, w.channel_vectors + w.result_vectors);
    set_tiles(&w, c);
    w.pieces = zt_min_int(SUMS / sum_elems(&w), MOST_PIECES);
    if (w.pieces < FEWEST_PIECES)
        w.pieces = 0; /* too large */
    w.pieces = zt_min_int(w.pieces, zt_ceil_div(w.tiles.all, w.unit));
    return w;
}

/* As for the other directions (winograd.c); sums are loaded, stored and added up instead of transformed weights. */
static double share_of(const struct zt_winograd_gradient *w) {
    const double tiles = (double)w->tiles.all, channels = (double)w->channels, results = (double)w->result_vectors;
    const double direct = (double)(w->tiles.out[0] * w->tiles.out[1] * w->samples) * TAPS * channels * results;
    const double products = tiles * ELEMENTS * channels * results * (1 + 3 / (double)w->unit);
    const double transforms = tiles * (60 * (double)w->channel_vectors + 40 * results);
    const double sums = (double)w->pieces * (double)weight_elems(w) / w->kernels->vector * 4;
    return zt_winograd_share_of(direct, products + transforms + sums);
}

double zt_winograd_gradient_share(const struct zt_winograd_conv *c) {
    if (!zt_winograd_kernels())
        return 1;
    const struct zt_winograd_gradient w = describe(c);
    return w.pieces > 0 ? share_of(&w) : 1;
}

const struct zt_winograd_gradient *zt_winograd_gradient_make(struct zt_arena *arena, const struct zt_winograd_conv *c) {
    if (zt_winograd_gradient_share(c) >= 1)
        return NULL;
    struct zt_winograd_gradient *w = ZT_NEW(arena, struct zt_winograd_gradient);
    *w = describe(c);
    return w;
}

/* From an element of the tiles of x to the next, and of dy. */
static int64_t x_step(const struct zt_winograd_gradient *w) {
    return zt_winograd_step(w->unit, w->channel_vectors * w->kernels->vector);
}

static int64_t dy_step(const struct zt_winograd_gradient *w) {
    return zt_winograd_step(w->unit, w->result_vectors * w->kernels->vector);
}

static int64_t thread_elems(const struct zt_winograd_gradient *w) {
    return ELEMENTS * (x_step(w) + dy_step(w));
}

size_t zt_winograd_gradient_bytes(const struct zt_winograd_gradient *w, int threads) {
    return (size_t)(w->pieces * sum_elems(w) + threads * thread_elems(w)) * sizeof(float);
}

/* ---- pieces ---- */

struct job {
    const struct zt_winograd_gradient *w;
    const struct zt_winograd_gradient_data *data;
    float *sums, *threads;
};

/* Element (1, 1) of a transformed gradient is a quarter of the sum of its results. */
static void add_bias(const struct zt_winograd_gradient *w, int64_t tiles, const float *dy, float *sums) {
    const int64_t row = w->result_vectors * w->kernels->vector;
    const float *from = dy + 5 * dy_step(w);
    for (int64_t t = 0; t < tiles; t++, from += row)
        for (int64_t i = 0; i < row; i++)
            sums[i] += 4 * from[i];
}

static void add_products(const struct zt_winograd_gradient *w, int64_t tiles, const float *x, const float *dy,
                         float *sums) {
    const int64_t lanes = w->kernels->vector, depth = w->channel_vectors * lanes, row = w->result_vectors * lanes;
    for (int64_t e = 0; e < ELEMENTS; e++)
        for (int64_t o = 0; o < w->result_vectors; o += w->kernels->panel)
            w->kernels->product(
                &(struct zt_winograd_product){ .a = x + e * x_step(w),
                                               .b = dy + e * dy_step(w) + o * lanes,
                                               .m = sums + e * w->channels * row + o * lanes,
                                               .a_row = 1,
                                               .a_step = depth,
                                               .b_step = row,
                                               .m_row = row,
                                               .rows = w->channels,
                                               .depth = tiles,
                                               .vectors = (int)zt_min_int(w->kernels->panel, w->result_vectors - o),
                                               .add = true });
}

static void do_unit(const struct job *job, int64_t unit, float *own, float *sums) {
    const struct zt_winograd_gradient *w = job->w;
    const struct zt_winograd_tiles *t = &w->tiles;
    const int64_t first = unit * w->unit, tiles = zt_min_int(w->unit, t->all - first);
    const struct zt_winograd_source x = { .tiles = t,
                                          .planes = &job->data->x_planes,
                                          .data = job->data->x,
                                          .run = w->kernels->input,
                                          .square = ZT_WINOGRAD_TILE,
                                          .vector = w->kernels->vector,
                                          .size = { t->in[0], t->in[1] },
                                          .pad = { t->pad[0], t->pad[1] },
                                          .vectors = w->channel_vectors };
    const struct zt_winograd_source dy = { .tiles = t,
                                           .planes = &job->data->dy_planes,
                                           .data = job->data->dy,
                                           .run = w->kernels->gradient,
                                           .square = ZT_WINOGRAD_RESULTS,
                                           .vector = w->kernels->vector,
                                           .size = { t->out[0], t->out[1] },
                                           .vectors = w->result_vectors };
    float *results = own + ELEMENTS * x_step(w);
    zt_winograd_transform(&x, zt_winograd_tile_of(t, first), tiles, own, x_step(w));
    zt_winograd_transform(&dy, zt_winograd_tile_of(t, first), tiles, results, dy_step(w));
    if (job->data->dw)
        add_products(w, tiles, own, results, sums);
    if (job->data->db)
        add_bias(w, tiles, results, sums + weight_elems(w));
}

static void do_piece(void *arg, int64_t piece) {
    const struct job *job = arg;
    const struct zt_winograd_gradient *w = job->w;
    const int64_t units = zt_ceil_div(w->tiles.all, w->unit);
    float *sums = job->sums + piece * sum_elems(w), *own = job->threads + zt_parallel_thread() * thread_elems(w);
    memset(sums, 0, (size_t)sum_elems(w) * sizeof *sums);
    for (int64_t u = units * piece / w->pieces; u < units * (piece + 1) / w->pieces; u++)
        do_unit(job, u, own, sums);
}

/* ---- gradients ---- */

static void finish_channel(void *arg, int64_t c) {
    const struct job *job = arg;
    const struct zt_winograd_gradient *w = job->w;
    const int64_t lanes = w->kernels->vector, row = w->result_vectors * lanes;
    float g[TAPS * 16];
    for (int64_t m = 0; m < w->results; m++) {
        if (m % lanes == 0)
            w->kernels->kernel(job->sums + c * row + m, w->channels * row, g);
        float *to = job->data->dw + (m * w->channels + c) * TAPS;
        for (int t = 0; t < TAPS; t++)
            to[t] = (job->data->accumulate ? to[t] : 0) + g[t * lanes + m % lanes];
    }
}

void zt_winograd_gradient_run(const struct zt_winograd_gradient *w, const struct zt_winograd_gradient_data *data,
                              void *workspace, int threads) {
    struct job job = { .w = w, .data = data, .sums = workspace };
    job.threads = job.sums + w->pieces * sum_elems(w);
    zt_parallel_for(threads, w->pieces, do_piece, &job);
    zt_sum_blocks(job.sums, sum_elems(w), w->pieces, threads);
    if (data->dw)
        zt_parallel_for(threads, w->channels, finish_channel, &job);
    if (data->db)
        memcpy(data->db, job.sums + weight_elems(w), (size_t)w->results * sizeof *data->db);
}
