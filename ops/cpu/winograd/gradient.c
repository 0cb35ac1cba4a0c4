/* Transformed tiles are [element][tile][channel], those of x [element][tile][phase][channel], where a word holds as
 * many tiles as depths of a product (simd_winograd.h). Sums of products are [phase][element][input channel][result
 * channel], and for db: [result channel].
 *
 *     many tiles   a piece of the batch is some units of tiles, which add to the piece's sums; where the sums of all
 *                  phases are large, each phase is a pass over the piece. The pieces are added in order. workspace:
 *                  [ sums of each piece | of each thread: tiles of x | tiles of dy ]
 *     few tiles    all are transformed first, and a unit of work is the products of a block of input channels and a
 *                  panel of results, whose sums of a phase stay in the second cache. workspace:
 *                  [ bias | tiles of x | tiles of dy | of each thread: sums ]
 */
#include "ops/cpu/winograd/gradient.h"

#include "base/align.h"
#include "device/threads.h"
#include "ops/cpu/winograd/tiles.h"
#include "ops/cpu/block_sum.h"
#include "ops/kernel/tile.h"

#include <string.h>

enum {
    MOST_PHASES = 4,
    FEWEST_PIECES = 4,
    MOST_PIECES = 16,
    SUMS = 1 << 23,   /* floats of all pieces */
    NEAR = 3 << 16,   /* floats of sums of all phases that stay in the second cache beside tiles; */
    CACHED = 1 << 18, /* of the phases whose tiles are transformed at a time */
    BESIDE = 5 << 15, /* floats of sums and tiles that stay in the second cache */
    FEW = 1 << 22,    /* words of all transformed tiles, where these are few */
    UNITS = 8,        /* the fewest of few tiles: panels of result vectors by blocks of input channels, */
    BLOCK = 66,       /* which a unit has at most */
    DEPTH = 96,       /* words whose panel of dy stays in the first cache */
    ROWS = 6          /* of a product with a whole panel */
};

struct zt_winograd_gradient {
    const struct zt_winograd_kernels *kernels;
    struct zt_winograd_conv conv;
    struct zt_winograd_tiles tiles;
    struct zt_winograd_phase phase[MOST_PHASES];
    int phases;
    int beside;   /* phases whose tiles are transformed at a time */
    int64_t used; /* elements of all phases */
    int64_t channel_vectors, result_vectors;
    int64_t unit, pieces; /* tiles; of the batch, 0: few tiles, which are one unit */
};

/* ---- geometry ---- */

static int64_t elements_of(const struct zt_winograd_gradient *w) {
    return w->kernels->elements;
}

static int64_t weight_elems(const struct zt_winograd_gradient *w) {
    return elements_of(w) * w->phases * w->conv.channels * w->result_vectors * w->kernels->vector;
}

static int64_t sum_elems(const struct zt_winograd_gradient *w) {
    return zt_align_floats(weight_elems(w) + w->result_vectors * w->kernels->vector);
}

static void set_tiles(struct zt_winograd_gradient *w) {
    w->tiles.all = w->conv.samples;
    for (int a = 0; a < 2; a++) {
        w->tiles.tiles[a] = zt_ceil_div(w->conv.out[a], ZT_WINOGRAD_RESULTS);
        w->tiles.all *= w->tiles.tiles[a];
    }
}

static int64_t panels_of(const struct zt_winograd_gradient *w) {
    return zt_ceil_div(w->result_vectors, w->kernels->panel);
}

/* Input channels of a unit of few tiles. */
static int64_t block_of(const struct zt_winograd_gradient *w) {
    const int64_t blocks = zt_ceil_div(UNITS, panels_of(w));
    return zt_min_int(zt_ceil_div(zt_ceil_div(w->conv.channels, blocks), ROWS) * ROWS, BLOCK);
}

/* From the words of a tile of x to the next, and of dy. */
static int64_t x_pitch(const struct zt_winograd_gradient *w) {
    return zt_winograd_pitch(w->beside * w->channel_vectors * w->kernels->vector);
}

static int64_t dy_pitch(const struct zt_winograd_gradient *w) {
    return zt_winograd_pitch(w->result_vectors * w->kernels->vector);
}

/* Words of `tiles` tiles, for each channel. */
static int64_t words_of(const struct zt_winograd_gradient *w, int64_t tiles) {
    return zt_ceil_div(tiles, w->kernels->depths);
}

/* From an element of the tiles of x to the next, and of dy. */
static int64_t x_step(const struct zt_winograd_gradient *w) {
    return zt_winograd_step(words_of(w, w->unit), x_pitch(w));
}

static int64_t dy_step(const struct zt_winograd_gradient *w) {
    return zt_winograd_step(words_of(w, w->unit), dy_pitch(w));
}

static int64_t unit_elems(const struct zt_winograd_gradient *w) {
    return elements_of(w) * (x_step(w) + dy_step(w));
}

/* Of a piece. */
static int64_t passes_of(const struct zt_winograd_gradient *w) {
    return w->phases / w->beside;
}

/* Sums of a pass. */
static int64_t pass_elems(const struct zt_winograd_gradient *w) {
    return weight_elems(w) / passes_of(w);
}

/* Tiles of a unit: pairs of bfloat16 share the second cache with the sums. */
static int64_t unit_of(const struct zt_winograd_gradient *w) {
    const int64_t depths = w->kernels->depths, left = BESIDE - pass_elems(w);
    const int64_t words = (w->beside * w->channel_vectors + w->result_vectors) * w->kernels->vector / depths;
    const int64_t unit = zt_winograd_unit(w->kernels, words);
    return depths == 1 || left < BESIDE / 2 ? unit : zt_min_int(unit, left / (elements_of(w) * words) / 2 * 2);
}

static struct zt_winograd_gradient describe(const struct zt_winograd_conv *c, bool few) {
    struct zt_winograd_gradient w = { .kernels = zt_winograd_kernels_of(c),
                                      .conv = *c,
                                      .phases = zt_winograd_phases(c) };
    for (int p = 0; p < w.phases; p++) {
        w.phase[p] = zt_winograd_phase_of(c, false, p);
        w.used += w.phase[p].used_count;
    }
    w.channel_vectors = zt_ceil_div(c->channels, w.kernels->vector);
    w.result_vectors = zt_ceil_div(c->results, w.kernels->vector);
    set_tiles(&w);
    w.beside = few || weight_elems(&w) <= NEAR ? w.phases : 1;
    w.unit = few ? w.tiles.all : unit_of(&w);
    w.pieces = few ? 0 : zt_min_int(SUMS / sum_elems(&w), MOST_PIECES / passes_of(&w));
    w.pieces = zt_min_int(w.pieces, zt_ceil_div(w.tiles.all, w.unit));
    return w;
}

static bool is_too_large(const struct zt_winograd_gradient *w, bool few) {
    return few ? unit_elems(w) > FEW : w->pieces < zt_min_int(FEWEST_PIECES, zt_ceil_div(w->tiles.all, w->unit));
}

/* As for the other directions (winograd.c); sums are loaded, stored and added up instead of transformed weights. Of few
 * tiles, panels of dy come from the second or third cache, and the transformed tiles through the third. */
static double share_of(const struct zt_winograd_gradient *w) {
    const struct zt_winograd_conv *c = &w->conv;
    const double tiles = (double)w->tiles.all, channels = (double)w->conv.channels, results = (double)w->result_vectors;
    const double places = (double)(c->out[0] * c->out[1] * c->samples);
    const double depths = w->kernels->depths;
    const double direct = places * (double)(c->kernel * c->kernel) * channels * results / depths;
    const double products = tiles * (double)w->used * channels * results / depths;
    const bool large = depths > 1 && pass_elems(w) > CACHED;
    const double added = large ? 12 : w->phases > 1 ? 4 : 3; /* large: sums that do not stay in the second cache */
    const double apart = depths > 1 && unit_elems(w) > FEW / 2 ? 0.3 : 0; /* tiles that the third cache does not hold */
    const double loads = w->pieces ? added * depths / (double)w->unit : 3.0 / DEPTH + 8 / (double)block_of(w) + apart;
    const double moved = 3.8 * w->phases * (double)w->channel_vectors + 2.5 * results * (double)passes_of(w);
    const double transforms = tiles * (double)elements_of(w) * moved * (w->pieces ? 1 : 2.5);
    const double sums = (double)zt_max_int(w->pieces, 1) * (double)weight_elems(w) / w->kernels->vector * 12;
    return zt_winograd_share_of(direct, products * (1 + loads) + transforms + sums);
}

/* The faster of both ways; false where neither is used. */
static bool choose(const struct zt_winograd_conv *c, struct zt_winograd_gradient *to, double *share) {
    const bool fits = zt_winograd_kernels_of(c);
    *share = 1;
    for (int few = 0; few < 2 && fits; few++) {
        const struct zt_winograd_gradient w = describe(c, few);
        const double of_w = is_too_large(&w, few) ? 1 : share_of(&w);
        if (of_w < *share) {
            *share = of_w;
            *to = w;
        }
    }
    return *share < 1;
}

double zt_winograd_gradient_share(const struct zt_winograd_conv *c) {
    struct zt_winograd_gradient w;
    double share;
    choose(c, &w, &share);
    return share;
}

const struct zt_winograd_gradient *zt_winograd_gradient_make(struct zt_arena *arena, const struct zt_winograd_conv *c) {
    struct zt_winograd_gradient w, *made;
    double share;
    if (!choose(c, &w, &share))
        return NULL;
    made = ZT_NEW(arena, struct zt_winograd_gradient);
    *made = w;
    return made;
}

static int64_t block_elems(const struct zt_winograd_gradient *w) {
    return zt_align_floats(elements_of(w) * block_of(w) * w->kernels->panel * w->kernels->vector);
}

static int64_t bias_elems(const struct zt_winograd_gradient *w) {
    return zt_align_floats(w->result_vectors * w->kernels->vector);
}

size_t zt_winograd_gradient_bytes(const struct zt_winograd_gradient *w, int threads) {
    const int64_t pieces = w->pieces * sum_elems(w) + threads * unit_elems(w);
    const int64_t few = bias_elems(w) + unit_elems(w) + threads * block_elems(w);
    return (size_t)(w->pieces ? pieces : few) * sizeof(float);
}

/* ---- tiles ---- */

struct job {
    const struct zt_winograd_gradient *w;
    const struct zt_planes_weights *data;
    float *sums, *bias, *tiles, *threads;
};

/* Transforms tiles first, first + 1, ... of both planes to the words of `first` and those behind them; those of x of
 * the phases beside `phase`. */
static void transform(const struct job *job, int phase, int64_t first, int64_t tiles, float *x_tiles, float *dy_tiles) {
    const struct zt_winograd_gradient *w = job->w;
    const struct zt_winograd_conv *c = &w->conv;
    const struct zt_winograd_tile tile = zt_winograd_tile_of(&w->tiles, first);
    struct zt_winograd_source x = { .tiles = &w->tiles,
                                    .kernels = w->kernels,
                                    .planes = &job->data->x_planes,
                                    .data = job->data->x,
                                    .run = w->kernels->input,
                                    .square = w->kernels->square,
                                    .depths = w->kernels->depths,
                                    .size = { c->in[0], c->in[1] },
                                    .stride = c->stride,
                                    .vectors = w->channel_vectors,
                                    .pitch = x_pitch(w) };
    const struct zt_winograd_source dy = { .tiles = &w->tiles,
                                           .kernels = w->kernels,
                                           .planes = &job->data->dy_planes,
                                           .data = job->data->dy,
                                           .run = w->kernels->gradient,
                                           .square = ZT_WINOGRAD_RESULTS,
                                           .depths = w->kernels->depths,
                                           .size = { c->out[0], c->out[1] },
                                           .stride = 1,
                                           .vectors = w->result_vectors,
                                           .pitch = dy_pitch(w) };
    for (int p = 0; p < w->beside; p++, x_tiles += w->channel_vectors * w->kernels->vector) {
        memcpy(x.origin, w->phase[phase + p].origin, sizeof x.origin);
        zt_winograd_transform(&x, tile, tiles, x_tiles, x_step(w));
    }
    zt_winograd_transform(&dy, tile, tiles, dy_tiles, dy_step(w));
}

/* The sum of the depths of a word. */
static inline float sum_of_word(const struct zt_winograd_gradient *w, float word) {
    if (w->kernels->depths == 1)
        return word;
    const uint32_t bits = zt_float_bits(word);
    return zt_bfloat_to_float((uint16_t)bits) + zt_bfloat_to_float((uint16_t)(bits >> 16));
}

/* From element (1, 1) of the transformed gradients. */
static void add_bias(const struct zt_winograd_gradient *w, int64_t tiles, const float *dy, float *sums) {
    const float *from = dy + (w->kernels->square + 1) * dy_step(w);
    for (int64_t t = 0; t < words_of(w, tiles); t++, from += dy_pitch(w))
        for (int64_t i = 0; i < w->result_vectors * w->kernels->vector; i++)
            sums[i] += w->kernels->sum_scale * sum_of_word(w, from[i]);
}

/* The kernels of a phase between input channel c and the vector of results from m on. */
struct place {
    int phase;
    int64_t c, m;
};

/* Their gradient; `sums` of these, `step` from an element to the next. */
static void give_kernels(const struct job *job, const struct place *at, const float *sums, int64_t step) {
    const struct zt_winograd_gradient *w = job->w;
    const int64_t lanes = w->kernels->vector, used = zt_min_int(lanes, w->conv.results - at->m);
    const int64_t elems = (int64_t)w->conv.kernel * w->conv.kernel, *tap = w->phase[at->phase].tap;
    const int taps = w->kernels->taps * w->kernels->taps;
    float g[ZT_WINOGRAD_TAPS * 16], *to = job->data->dw + (at->m * w->conv.channels + at->c) * elems;
    w->kernels->kernel(sums, step, g);
    for (int64_t l = 0; l < used; l++, to += w->conv.channels * elems)
        for (int t = 0; t < taps; t++)
            if (tap[t] >= 0)
                to[tap[t]] = (job->data->accumulate ? to[tap[t]] : 0) + g[t * lanes + l];
}

/* ---- many tiles ---- */

/* Of element e of a phase, to all its sums. */
static void add_element(const struct zt_winograd_gradient *w, int64_t tiles, const float *x, const float *dy,
                        float *sums) {
    const int64_t lanes = w->kernels->vector, row = w->result_vectors * lanes;
    for (int64_t o = 0; o < w->result_vectors; o += w->kernels->panel)
        w->kernels->product(
            &(struct zt_winograd_product){ .a = x,
                                           .b = dy + o * lanes,
                                           .m = sums + o * lanes,
                                           .a_row = 1,
                                           .a_step = x_pitch(w),
                                           .b_step = dy_pitch(w),
                                           .m_row = row,
                                           .rows = w->conv.channels,
                                           .depth = words_of(w, tiles),
                                           .vectors = (int)zt_min_int(w->kernels->panel, w->result_vectors - o),
                                           .add = true });
}

/* Of the phases beside `phase`, whose tiles are at x. */
static void add_products(const struct zt_winograd_gradient *w, int phase, int64_t tiles, const float *x,
                         const float *dy, float *sums) {
    const int64_t lanes = w->kernels->vector, of_element = w->conv.channels * w->result_vectors * lanes;
    for (int64_t e = 0; e < elements_of(w); e++)
        for (int p = phase; p < phase + w->beside; p++)
            if (w->phase[p].used[e])
                add_element(w, tiles, x + e * x_step(w) + (p - phase) * w->channel_vectors * lanes, dy + e * dy_step(w),
                            sums + (p * elements_of(w) + e) * of_element);
}

/* Adds a unit to the sums of a piece: of the phases beside `phase`. */
static void do_unit(const struct job *job, int phase, int64_t unit, float *sums) {
    const struct zt_winograd_gradient *w = job->w;
    const int64_t first = unit * w->unit, tiles = zt_min_int(w->unit, w->tiles.all - first);
    float *x = job->threads + zt_parallel_thread() * unit_elems(w), *dy = x + elements_of(w) * x_step(w);
    transform(job, phase, first, tiles, x, dy);
    if (job->data->dw)
        add_products(w, phase, tiles, x, dy, sums);
    if (job->data->db && phase == 0)
        add_bias(w, tiles, dy, sums + weight_elems(w));
}

/* A piece, and phases beside each other. */
static void do_piece(void *arg, int64_t index) {
    const struct job *job = arg;
    const struct zt_winograd_gradient *w = job->w;
    const int64_t units = zt_ceil_div(w->tiles.all, w->unit), piece = index / passes_of(w);
    const int64_t of_phase = weight_elems(w) / w->phases;
    const int phase = (int)(index % passes_of(w)) * w->beside;
    float *sums = job->sums + piece * sum_elems(w);
    memset(sums + phase * of_phase, 0, (size_t)(w->beside * of_phase) * sizeof *sums);
    if (phase == 0)
        memset(sums + weight_elems(w), 0, (size_t)(sum_elems(w) - weight_elems(w)) * sizeof *sums);
    for (int64_t u = units * piece / w->pieces; u < units * (piece + 1) / w->pieces; u++)
        do_unit(job, phase, u, sums);
}

static void finish_channel(void *arg, int64_t c) {
    const struct job *job = arg;
    const struct zt_winograd_gradient *w = job->w;
    const int64_t lanes = w->kernels->vector, row = w->result_vectors * lanes;
    for (int p = 0; p < w->phases; p++)
        for (int64_t m = 0; m < w->conv.results; m += lanes)
            give_kernels(job, &(struct place){ p, c, m },
                         job->sums + (p * elements_of(w) * w->conv.channels + c) * row + m, w->conv.channels * row);
}

static void run_pieces(struct job *job, int threads) {
    const struct zt_winograd_gradient *w = job->w;
    job->threads = job->sums + w->pieces * sum_elems(w);
    job->bias = job->sums + weight_elems(w);
    zt_parallel_for(threads, w->pieces * passes_of(w), do_piece, job);
    zt_sum_blocks(job->sums, sum_elems(w), w->pieces, threads);
    if (job->data->dw)
        zt_parallel_for(threads, w->conv.channels, finish_channel, job);
}

/* ---- few tiles ---- */

static void transform_share(void *arg, int64_t share) {
    const struct job *job = arg;
    const struct zt_winograd_gradient *w = job->w;
    const int64_t first = share * ZT_WINOGRAD_SHARE;
    float *x = job->tiles + words_of(w, first) * x_pitch(w);
    float *dy = job->tiles + elements_of(w) * x_step(w) + words_of(w, first) * dy_pitch(w);
    transform(job, 0, first, zt_min_int(ZT_WINOGRAD_SHARE, w->tiles.all - first), x, dy);
}

/* A block of input channels of a phase: first..end-1. */
struct block {
    int phase;
    int64_t first, end;
};

/* sums [element][channel][result] of a block and the panel that begins with vector o. */
static void sum_block(const struct job *job, const struct block *b, int64_t o, int vectors, float *sums) {
    const struct zt_winograd_gradient *w = job->w;
    const int64_t lanes = w->kernels->vector, row = vectors * lanes;
    const float *x = job->tiles + b->phase * w->channel_vectors * lanes + b->first;
    const float *dy = job->tiles + elements_of(w) * x_step(w) + o * lanes;
    const int64_t words = words_of(w, w->tiles.all), depth = zt_ceil_div(words, zt_ceil_div(words, DEPTH));
    for (int64_t t = 0; t < words; t += depth)
        for (int64_t e = 0; e < elements_of(w); e++)
            w->kernels->product(&(struct zt_winograd_product){ .a = x + e * x_step(w) + t * x_pitch(w),
                                                               .b = dy + e * dy_step(w) + t * dy_pitch(w),
                                                               .m = sums + e * (b->end - b->first) * row,
                                                               .a_row = 1,
                                                               .a_step = x_pitch(w),
                                                               .b_step = dy_pitch(w),
                                                               .m_row = row,
                                                               .rows = b->end - b->first,
                                                               .depth = zt_min_int(depth, words - t),
                                                               .vectors = vectors,
                                                               .add = t > 0 });
}

/* The gradient of the kernels between a block and the panel that begins with vector o. */
static void do_panel(const struct job *job, const struct block *b, int64_t o, float *sums) {
    const struct zt_winograd_gradient *w = job->w;
    const int64_t lanes = w->kernels->vector;
    const int vectors = (int)zt_min_int(w->kernels->panel, w->result_vectors - o);
    const int64_t row = vectors * lanes, step = (b->end - b->first) * row;
    sum_block(job, b, o, vectors, sums);
    for (int64_t v = 0; v < vectors; v++)
        for (int64_t c = b->first; c < b->end; c++)
            give_kernels(job, &(struct place){ b->phase, c, (o + v) * lanes }, sums + (c - b->first) * row + v * lanes,
                         step);
}

/* A panel of a block: the panels of a block follow one another. */
static void do_block(void *arg, int64_t index) {
    const struct job *job = arg;
    const struct zt_winograd_gradient *w = job->w;
    const int64_t first = index / panels_of(w) * block_of(w), o = index % panels_of(w) * w->kernels->panel;
    struct block block = { 0, first, zt_min_int(first + block_of(w), w->conv.channels) };
    float *sums = job->threads + zt_parallel_thread() * block_elems(w);
    for (block.phase = 0; block.phase < w->phases; block.phase++)
        do_panel(job, &block, o, sums);
}

static void run_few(struct job *job, int threads) {
    const struct zt_winograd_gradient *w = job->w;
    job->bias = job->sums;
    job->tiles = job->bias + bias_elems(w);
    job->threads = job->tiles + unit_elems(w);
    zt_parallel_for(threads, zt_ceil_div(w->tiles.all, ZT_WINOGRAD_SHARE), transform_share, job);
    if (job->data->dw)
        zt_parallel_for(threads, zt_ceil_div(w->conv.channels, block_of(w)) * panels_of(w), do_block, job);
    if (job->data->db) {
        memset(job->bias, 0, (size_t)bias_elems(w) * sizeof *job->bias);
        add_bias(w, w->tiles.all, job->tiles + elements_of(w) * x_step(w), job->bias);
    }
}

void zt_winograd_gradient_run(const struct zt_winograd_gradient *w, const struct zt_planes_weights *data,
                              void *workspace, int threads) {
    struct job job = { .w = w, .data = data, .sums = workspace };
    if (w->pieces)
        run_pieces(&job, threads);
    else
        run_few(&job, threads);
    if (data->db)
        memcpy(data->db, job.bias, (size_t)w->conv.results * sizeof *data->db);
}
