/* Columns of the sums are pairs of a tap of a row of the kernel and a vector of channels. A piece of the batch is some
 * rows of results; the pieces are added in order. workspace: where x begins for each pair, of each piece
 *
 *     [ sums [row of the kernel][result channel][tap of the row][vector of channels] | db [result channel][vector] ]
 *
 * and of each piece dy of a row [place][result channel]. */
#include "ops/cpu/gradient/taps.h"

#include "base/align.h"
#include "device/threads.h"
#include "ops/cpu/block_sum.h"
#include "ops/cpu/gradient/simd_outer_sums.h"
#include "ops/kernel/tile.h"

#include <string.h>

enum {
    MOST_RESULTS = 6,
    LEAST_PLACES = 16 /* of a row */,
    MOST_PIECES = 16,
    SUMS = 1 << 20 /* floats of all pieces */
};

/* Results first..end-1 of a row, whose inputs at a tap are inside the plane. */
struct range {
    int64_t first, end;
};

struct zt_taps_gradient {
    const struct zt_outer_kernels *kernels;
    struct zt_taps_conv conv;
    int64_t vectors, pairs, pieces;
    struct range *range; /* of each pair */
};

static struct range range_of(const struct zt_taps_conv *c, int64_t tap) {
    const int64_t at = tap * c->dilation[1] - c->pad[1], last = c->in[1] - 1 - at;
    const int64_t first = at < 0 ? zt_ceil_div(-at, c->stride[1]) : 0;
    const int64_t end = last < 0 ? 0 : zt_min_int(c->out[1], last / c->stride[1] + 1);
    return (struct range){ first, zt_max_int(first, end) };
}

static int64_t sum_elems(const struct zt_taps_gradient *w) {
    return w->conv.kernel[0] * w->conv.results * w->pairs * w->kernels->vector;
}

static int64_t piece_elems(const struct zt_taps_gradient *w) {
    return zt_align_floats(sum_elems(w) + w->conv.results * w->kernels->vector);
}

const struct zt_taps_gradient *zt_taps_gradient_make(struct zt_arena *arena, const struct zt_taps_conv *c) {
    const struct zt_outer_kernels *k = zt_outer_kernels();
    if (!k || c->results > MOST_RESULTS || c->channels < k->vector || c->samples * c->out[0] == 0 ||
        c->out[1] < LEAST_PLACES)
        return NULL;
    struct zt_taps_gradient *w = ZT_NEW(arena, struct zt_taps_gradient);
    *w = (struct zt_taps_gradient){ .kernels = k, .conv = *c };
    w->vectors = zt_ceil_div(c->channels, k->vector);
    w->pairs = c->kernel[1] * w->vectors;
    w->pieces = zt_max_int(1, zt_min_int(MOST_PIECES, SUMS / piece_elems(w)));
    w->pieces = zt_min_int(w->pieces, c->samples * c->out[0]);
    w->range = ZT_NEW_N(arena, struct range, w->pairs);
    for (int64_t p = 0; p < w->pairs; p++)
        w->range[p] = range_of(c, p / w->vectors);
    return w;
}

static int64_t row_elems(const struct zt_taps_gradient *w) {
    return zt_align_floats(w->conv.out[1] * w->conv.results);
}

static size_t pair_bytes(const struct zt_taps_gradient *w) {
    return zt_align_64((size_t)w->pairs * sizeof(int64_t));
}

size_t zt_taps_gradient_bytes(const struct zt_taps_gradient *w) {
    return pair_bytes(w) + (size_t)(w->pieces * (piece_elems(w) + row_elems(w))) * sizeof(float);
}

struct job {
    const struct zt_taps_gradient *w;
    const struct zt_planes_weights *data;
    int64_t *at; /* floats from a row of x to what the first result of a pair reads */
    float *sums, *rows;
};

/* A row of results and a row of the kernel: dy [place][result channel], the row of x, and their sums. */
struct line {
    const float *dy, *x;
    float *sums;
};

/* Adds what results of the range contribute to `count` pairs from `first` on. */
static void sum_pairs(const struct job *job, const struct line *line, int64_t first, int count, struct range r) {
    const struct zt_taps_gradient *w = job->w;
    if (r.end <= r.first)
        return;
    const int64_t step = w->conv.stride[1] * job->data->x_planes.pixel;
    struct zt_outer_sums s = { .a = line->dy + r.first * w->conv.results,
                               .a_step = w->conv.results,
                               .b_step = step,
                               .places = r.end - r.first,
                               .m = line->sums + first * w->kernels->vector,
                               .m_row = w->pairs * w->kernels->vector,
                               .vectors = count };
    for (int i = 0; i < count; i++)
        s.b[i] = line->x + job->at[first + i] + r.first * step;
    s.fetch = s.a;
    for (int64_t m = 0; m < w->conv.results; m += s.rows, s.a += s.rows, s.m += s.rows * s.m_row) {
        s.rows = (int)zt_min_int(w->kernels->rows, w->conv.results - m);
        w->kernels->run(&s);
    }
}

/* Pairs whose taps have other results beyond those that all have take them alone. */
static void sum_group(const struct job *job, const struct line *line, int64_t first, int count) {
    const struct zt_taps_gradient *w = job->w;
    struct range all = { 0, w->conv.out[1] };
    for (int i = 0; i < count; i++) {
        const struct range *r = &w->range[first + i];
        all = (struct range){ zt_max_int(all.first, r->first), zt_min_int(all.end, r->end) };
    }
    all.end = zt_max_int(all.first, all.end);
    sum_pairs(job, line, first, count, all);
    for (int64_t i = first; i < first + count; i++) {
        const struct range *r = &w->range[i];
        sum_pairs(job, line, i, 1, (struct range){ r->first, zt_min_int(r->end, all.first) });
        sum_pairs(job, line, i, 1, (struct range){ zt_max_int(r->first, all.end), r->end });
    }
}

static void sum_line(const struct job *job, const struct line *line) {
    const struct zt_taps_gradient *w = job->w;
    const int64_t group = zt_ceil_div(w->pairs, zt_ceil_div(w->pairs, w->kernels->vectors));
    for (int64_t p = 0; p < w->pairs; p += group)
        sum_group(job, line, p, (int)zt_min_int(group, w->pairs - p));
}

static void add_bias(const struct zt_taps_gradient *w, const float *dy, float *sums) {
    const int64_t lanes = w->kernels->vector, width = w->conv.out[1];
    for (int64_t m = 0; m < w->conv.results; m++, dy += w->conv.out[0] * width, sums += lanes) {
        w->kernels->add(dy, lanes, width / lanes, sums);
        for (int64_t i = width / lanes * lanes; i < width; i++)
            sums[i % lanes] += dy[i];
    }
}

static void pack_row(const struct zt_taps_gradient *w, const float *dy, float *to) {
    const int64_t plane = w->conv.out[0] * w->conv.out[1];
    for (int64_t i = 0; i < w->conv.out[1]; i++)
        for (int64_t m = 0; m < w->conv.results; m++)
            *to++ = dy[m * plane + i];
}

/* Row `row` of the results of the batch. */
static void sum_row(const struct job *job, int64_t row, float *packed, float *sums) {
    const struct zt_taps_gradient *w = job->w;
    const struct zt_taps_conv *c = &w->conv;
    const struct zt_planes *x = &job->data->x_planes;
    const int64_t sample = row / c->out[0], at = row % c->out[0];
    const float *dy = (const float *)job->data->dy + (sample * c->results * c->out[0] + at) * c->out[1];
    pack_row(w, dy, packed);
    for (int64_t k = 0; k < c->kernel[0] && job->data->dw; k++) {
        const int64_t from = at * c->stride[0] + k * c->dilation[0] - c->pad[0];
        if (from >= 0 && from < c->in[0])
            sum_line(job, &(struct line){ packed,
                                          (const float *)job->data->x + sample * x->sample + from * c->in[1] * x->pixel,
                                          sums + k * c->results * w->pairs * w->kernels->vector });
    }
    if (job->data->db)
        add_bias(w, dy, sums + sum_elems(w));
}

/* Where x begins for each pair. */
static void find_pairs(const struct job *job) {
    const struct zt_taps_gradient *w = job->w;
    const struct zt_planes *x = &job->data->x_planes;
    for (int64_t p = 0; p < w->pairs; p++) {
        const int64_t tap = p / w->vectors, channel = p % w->vectors * w->kernels->vector;
        job->at[p] = (tap * w->conv.dilation[1] - w->conv.pad[1]) * x->pixel + zt_planes_channel(x, channel);
    }
}

static void do_piece(void *arg, int64_t piece) {
    const struct job *job = arg;
    const struct zt_taps_gradient *w = job->w;
    const int64_t rows = w->conv.samples * w->conv.out[0];
    float *sums = job->sums + piece * piece_elems(w);
    memset(sums, 0, (size_t)piece_elems(w) * sizeof *sums);
    for (int64_t row = rows * piece / w->pieces; row < rows * (piece + 1) / w->pieces; row++)
        sum_row(job, row, job->rows + piece * row_elems(w), sums);
}

static void finish_channel(const struct job *job, int64_t m) {
    const struct zt_taps_gradient *w = job->w;
    const struct zt_taps_conv *c = &w->conv;
    const int64_t lanes = w->kernels->vector;
    float *to = job->data->dw + m * c->channels * c->kernel[0] * c->kernel[1];
    for (int64_t channel = 0; channel < c->channels; channel++)
        for (int64_t k = 0; k < c->kernel[0]; k++)
            for (int64_t t = 0; t < c->kernel[1]; t++, to++) {
                const int64_t row = (k * c->results + m) * w->pairs;
                const float sum = job->sums[(row + t * w->vectors + channel / lanes) * lanes + channel % lanes];
                *to = (job->data->accumulate ? *to : 0) + sum;
            }
}

void zt_taps_gradient_run(const struct zt_taps_gradient *w, const struct zt_planes_weights *data, void *workspace,
                          int threads) {
    struct job job = { w, data, workspace, (float *)((char *)workspace + pair_bytes(w)) };
    job.rows = job.sums + w->pieces * piece_elems(w);
    find_pairs(&job);
    zt_parallel_for(threads, w->pieces, do_piece, &job);
    zt_sum_blocks(job.sums, piece_elems(w), w->pieces, threads);
    for (int64_t m = 0; m < w->conv.results && data->dw; m++)
        finish_channel(&job, m);
    for (int64_t m = 0; m < w->conv.results && data->db; m++) {
        const float *from = job.sums + sum_elems(w) + m * w->kernels->vector;
        data->db[m] = 0;
        for (int l = 0; l < w->kernels->vector; l++)
            data->db[m] += from[l];
    }
}
