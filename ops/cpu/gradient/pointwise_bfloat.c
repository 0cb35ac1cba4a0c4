/* Pairs of adjacent places are the depth of a product (simd_winograd.h). A piece of the batch is some pairs, UNIT of
 * which are packed at a time, as words of both places for each channel,
 *
 *     [pair][channel of x], [pair][channel of dy]
 *
 * and their products are added to the piece's sums,
 *
 *     [row][column], and for db: [channel of dy]
 *
 * where the channels of one tensor are the rows and those of the other the columns, in whole vectors. The pieces are
 * added in order.
 *
 * workspace: [ sums of each piece | of each thread: words of x | words of dy ] */
#include "ops/cpu/gradient/pointwise_bfloat.h"

#include "base/align.h"
#include "device/threads.h"
#include "ops/cpu/block_sum.h"
#include "ops/cpu/winograd/tiles.h"
#include "ops/kernel/tile.h"

#include <string.h>

enum {
    UNIT = 32, /* pairs */
    MOST_PIECES = 16,
    FEWEST_PIECES = 4,
    SUMS = 1 << 23 /* floats of all pieces */
};

struct zt_pointwise_bfloat {
    const struct zt_winograd_kernels *kernels;
    struct zt_pointwise conv;
    bool rows_of_y;                 /* whether the channels of dy are the rows */
    int64_t rows, vectors;          /* of the columns */
    int64_t x_vectors, y_vectors;   /* of channels */
    int64_t pairs_of_sample, pairs; /* the last of a sample may have one place */
    int64_t pieces;
};

static int64_t sum_elems(const struct zt_pointwise_bfloat *w) {
    return w->rows * w->vectors * w->kernels->vector;
}

static int64_t piece_elems(const struct zt_pointwise_bfloat *w) {
    return zt_align_floats(sum_elems(w) + w->y_vectors * w->kernels->vector);
}

/* Words from a pair to the next. */
static int64_t x_pitch(const struct zt_pointwise_bfloat *w) {
    return zt_winograd_pitch(w->x_vectors * w->kernels->vector);
}
static int64_t y_pitch(const struct zt_pointwise_bfloat *w) {
    return zt_winograd_pitch(w->y_vectors * w->kernels->vector);
}

static int64_t thread_elems(const struct zt_pointwise_bfloat *w) {
    return zt_align_floats(UNIT * (x_pitch(w) + y_pitch(w)));
}

const struct zt_pointwise_bfloat *zt_pointwise_bfloat_make(struct zt_arena *arena, const struct zt_pointwise *p) {
    const struct zt_winograd_kernels *kernels = zt_winograd_kernels(ZT_WINOGRAD_3X3, ZT_BFLOAT16);
    if (!kernels || p->channels < kernels->vector || p->results < kernels->vector)
        return NULL;
    struct zt_pointwise_bfloat w = { .kernels = kernels, .conv = *p };
    w.x_vectors = zt_ceil_div(p->channels, kernels->vector);
    w.y_vectors = zt_ceil_div(p->results, kernels->vector);
    w.rows_of_y = p->results * w.x_vectors < p->channels * w.y_vectors;
    w.rows = w.rows_of_y ? p->results : p->channels;
    w.vectors = w.rows_of_y ? w.x_vectors : w.y_vectors;
    w.pairs_of_sample = zt_ceil_div(p->places, 2);
    w.pairs = p->samples * w.pairs_of_sample;
    const int64_t units = zt_ceil_div(w.pairs, UNIT);
    w.pieces = zt_min_int(zt_min_int(SUMS / piece_elems(&w), MOST_PIECES), units);
    if (w.pieces < zt_min_int(FEWEST_PIECES, units))
        return NULL;
    struct zt_pointwise_bfloat *made = ZT_NEW(arena, struct zt_pointwise_bfloat);
    *made = w;
    return made;
}

size_t zt_pointwise_bfloat_bytes(const struct zt_pointwise_bfloat *w, int threads) {
    return (size_t)(w->pieces * piece_elems(w) + threads * thread_elems(w)) * sizeof(float);
}

struct job {
    const struct zt_pointwise_bfloat *w;
    const struct zt_planes_weights *data;
    float *sums, *threads;
};

/* A tensor whose pairs are packed. */
struct source {
    const struct zt_planes *planes;
    const uint16_t *data;
    int64_t vectors;
};

/* The words of a pair of places of a sample, or of the last place alone. Fetches what the next unit packs. */
static void pack_pair(const struct zt_pointwise_bfloat *w, const struct source *s, int64_t pair, float *to) {
    static const uint16_t nothing[16];
    const struct zt_planes *p = s->planes;
    const int64_t sample = pair / w->pairs_of_sample, place = 2 * (pair % w->pairs_of_sample);
    const uint16_t *from = s->data + sample * p->sample + place * p->pixel;
    for (int64_t g = 0; g < s->vectors; g++, to += w->kernels->vector) {
        const uint16_t *first = from + zt_planes_channel(p, g * w->kernels->vector);
        __builtin_prefetch(first + 2 * UNIT * p->pixel);
        w->kernels->pair(first, place + 1 < w->conv.places ? first + p->pixel : nothing, to);
    }
}

/* What a unit packs. */
struct packed {
    const float *x, *y;
    int64_t pairs;
};

static void add_products(const struct zt_pointwise_bfloat *w, const struct packed *u, float *sums) {
    const int64_t lanes = w->kernels->vector;
    for (int64_t o = 0; o < w->vectors; o += w->kernels->panel)
        w->kernels->product(
            &(struct zt_winograd_product){ .a = w->rows_of_y ? u->y : u->x,
                                           .b = (w->rows_of_y ? u->x : u->y) + o * lanes,
                                           .m = sums + o * lanes,
                                           .a_row = 1,
                                           .a_step = w->rows_of_y ? y_pitch(w) : x_pitch(w),
                                           .b_step = w->rows_of_y ? x_pitch(w) : y_pitch(w),
                                           .m_row = w->vectors * lanes,
                                           .rows = w->rows,
                                           .depth = u->pairs,
                                           .vectors = (int)zt_min_int(w->kernels->panel, w->vectors - o),
                                           .add = true });
}

/* The sums of dy: its products with ones. */
static void add_bias(const struct zt_pointwise_bfloat *w, const struct packed *u, float *sums) {
    const uint32_t ones = 0x3f803f80;
    const float word = zt_float_of_bits(ones);
    const int64_t lanes = w->kernels->vector;
    for (int64_t o = 0; o < w->y_vectors; o += w->kernels->panel)
        w->kernels->product(
            &(struct zt_winograd_product){ .a = &word,
                                           .b = u->y + o * lanes,
                                           .m = sums + o * lanes,
                                           .b_step = y_pitch(w),
                                           .rows = 1,
                                           .depth = u->pairs,
                                           .vectors = (int)zt_min_int(w->kernels->panel, w->y_vectors - o),
                                           .add = true });
}

static void do_piece(void *arg, int64_t piece) {
    const struct job *job = arg;
    const struct zt_pointwise_bfloat *w = job->w;
    const struct source x = { &job->data->x_planes, job->data->x, w->x_vectors };
    const struct source y = { &job->data->dy_planes, job->data->dy, w->y_vectors };
    const int64_t units = zt_ceil_div(w->pairs, UNIT);
    float *sums = job->sums + piece * piece_elems(w);
    float *x_words = job->threads + zt_parallel_thread() * thread_elems(w), *y_words = x_words + UNIT * x_pitch(w);
    memset(sums, 0, (size_t)piece_elems(w) * sizeof *sums);
    for (int64_t u = units * piece / w->pieces; u < units * (piece + 1) / w->pieces; u++) {
        const struct packed packed = { x_words, y_words, zt_min_int(UNIT, w->pairs - u * UNIT) };
        for (int64_t i = 0; i < packed.pairs; i++) {
            pack_pair(w, &x, u * UNIT + i, x_words + i * x_pitch(w));
            pack_pair(w, &y, u * UNIT + i, y_words + i * y_pitch(w));
        }
        if (job->data->dw)
            add_products(w, &packed, sums);
        if (job->data->db)
            add_bias(w, &packed, sums + sum_elems(w));
    }
}

/* Row `row` of the sums to dw. */
static void finish_row(void *arg, int64_t row) {
    const struct job *job = arg;
    const struct zt_pointwise_bfloat *w = job->w;
    const int64_t columns = w->rows_of_y ? w->conv.channels : w->conv.results;
    const int64_t step = w->rows_of_y ? 1 : w->conv.channels;
    const float *from = job->sums + row * w->vectors * w->kernels->vector;
    float *to = job->data->dw + row * (w->rows_of_y ? w->conv.channels : 1);
    for (int64_t i = 0; i < columns; i++)
        to[i * step] = (job->data->accumulate ? to[i * step] : 0) + from[i];
}

void zt_pointwise_bfloat_run(const struct zt_pointwise_bfloat *w, const struct zt_planes_weights *data, void *workspace,
                             int threads) {
    struct job job = { .w = w, .data = data, .sums = workspace };
    job.threads = job.sums + w->pieces * piece_elems(w);
    zt_parallel_for(threads, w->pieces, do_piece, &job);
    zt_sum_blocks(job.sums, piece_elems(w), w->pieces, threads);
    if (data->dw)
        zt_parallel_for(threads, w->rows, finish_row, &job);
    if (data->db)
        memcpy(data->db, job.sums + sum_elems(w), (size_t)w->conv.results * sizeof *data->db);
}
