/* Columns of the sums are pairs of a tap of a row of the kernel and a vector of channels. A piece of the batch is some
 * strips, parts of rows of results; the pieces are added in order. workspace: where x begins for each pair, of each
 * piece
 *
 *     [ sums [row of the kernel][result channel][tap of the row][vector of channels] | db [result channel][vector] ]
 *
 * and, where dy is plain, of each piece dy of a strip [place][result channel]. Else db is [result channel]. */
#include "ops/cpu/gradient/taps.h"

#include "base/align.h"
#include "device/threads.h"
#include "ops/cpu/block_sum.h"
#include "ops/cpu/gradient/simd_outer_sums.h"
#include "ops/kernel/tile.h"

#include <string.h>

enum {
    LEAST_PLACES = 16 /* of a row; */,
    LEAST_OF_TIME = 8 /* over time, in volumes, or strided and dilated */,
    LEAST_CHANNELS = 33 /* more than two vectors */,
    PLACES = 128 /* of a strip at most: a panel of vectors stays in the first cache */,
    FEWEST_PIECES = 4,
    MOST_PIECES = 16,
    LEAST_OF_PIECE = 1024 /* places, */,
    SUMS = 1 << 20 /* floats of all pieces, or FEWEST_PIECES */
};

/* Results first..end-1 of a row, whose inputs at a tap are inside the plane. */
struct range {
    int64_t first, end;
};

struct zt_taps_gradient {
    const struct zt_outer_kernels *kernels;
    struct zt_taps_conv conv;
    bool few; /* results; dy is plain */
    int64_t vectors, pairs, pieces;
    int64_t panel;          /* pairs that are summed at once */
    int64_t places, strips; /* of a strip, of a row */
    struct range *range;    /* of each pair */
};

static struct range range_of(const struct zt_taps_conv *c, int64_t tap) {
    const int64_t at = tap * c->dilation[2] - c->pad[2], last = c->in[2] - 1 - at;
    const int64_t first = at < 0 ? zt_ceil_div(-at, c->stride[2]) : 0;
    const int64_t end = last < 0 ? 0 : zt_min_int(c->out[2], last / c->stride[2] + 1);
    return (struct range){ first, zt_max_int(first, end) };
}

/* Rows of the kernel, and of the results of a sample. */
static int64_t kernel_rows(const struct zt_taps_conv *c) {
    return c->kernel[0] * c->kernel[1];
}

static int64_t out_rows(const struct zt_taps_conv *c) {
    return c->out[0] * c->out[1];
}

static int64_t sum_elems(const struct zt_taps_gradient *w) {
    return kernel_rows(&w->conv) * w->conv.results * w->pairs * w->kernels->vector;
}

static int64_t bias_elems(const struct zt_taps_gradient *w) {
    const int64_t lanes = w->kernels->vector;
    return w->few ? w->conv.results * lanes : zt_ceil_div(w->conv.results, lanes) * lanes;
}

static int64_t piece_elems(const struct zt_taps_gradient *w) {
    return zt_align_floats(sum_elems(w) + bias_elems(w));
}

/* Pairs of few vectors are of several taps, more are of one tap, whose results are a range without exceptions. */
static int64_t panel_of(const struct zt_taps_gradient *w) {
    const int64_t most = w->kernels->vectors, of = w->vectors < most - 1 ? w->pairs : w->vectors;
    return zt_ceil_div(of, zt_ceil_div(of, most));
}

/* Whether another kernel is faster for a volume: of whole vectors of 8 channels one of ours, of whole vectors of 16
 * that of oneDNN 2.6, which lacks dilation and windows that are deeper than the volume. */
static bool has_volume_kernel(const struct zt_outer_kernels *k, const struct zt_taps_conv *c) {
    bool is_dilated = false;
    for (int a = 0; a < 3; a++)
        is_dilated |= c->kernel[a] > 1 && c->dilation[a] > 1;
    return c->channels % k->vector == 0 && c->results % k->vector == 0 &&
           (k->vector == 8 || (!is_dilated && c->kernel[0] <= c->in[0]));
}

/* With shorter rows of results others are faster, and in planes with fewer vectors of 16 channels. */
static bool fits(const struct zt_outer_kernels *k, const struct zt_taps_conv *c) {
    const bool volume = c->in[0] > 1 || c->out[0] > 1, sparse = c->stride[2] > 1 && c->dilation[2] > 1;
    const bool time = !volume && c->in[1] == 1 && c->out[1] == 1;
    if (volume)
        return c->out[2] >= LEAST_OF_TIME && c->channels >= k->vector / 2 && !has_volume_kernel(k, c);
    if (c->results <= ZT_TAPS_FEW)
        return c->out[2] >= LEAST_PLACES && c->channels >= k->vector;
    if (time || sparse)
        return c->out[2] >= LEAST_OF_TIME && c->channels >= k->vector;
    return c->out[2] >= LEAST_PLACES && c->channels >= (k->vector == 16 ? LEAST_CHANNELS : k->vector);
}

const struct zt_taps_gradient *zt_taps_gradient_make(struct zt_arena *arena, const struct zt_taps_conv *c) {
    const struct zt_outer_kernels *k = zt_outer_kernels();
    if (!k || c->samples * out_rows(c) == 0 || !fits(k, c))
        return NULL;
    struct zt_taps_gradient *w = ZT_NEW(arena, struct zt_taps_gradient);
    *w = (struct zt_taps_gradient){ .kernels = k, .conv = *c, .few = c->results <= ZT_TAPS_FEW };
    w->vectors = zt_ceil_div(c->channels, k->vector);
    w->pairs = c->kernel[2] * w->vectors;
    w->panel = panel_of(w);
    w->strips = zt_ceil_div(c->out[2], PLACES);
    w->places = zt_ceil_div(c->out[2], w->strips);
    w->pieces = zt_min_int(SUMS / piece_elems(w), c->samples * out_rows(c) * c->out[2] / LEAST_OF_PIECE);
    w->pieces = zt_max_int(FEWEST_PIECES, zt_min_int(MOST_PIECES, w->pieces));
    w->pieces = zt_min_int(w->pieces, c->samples * out_rows(c) * w->strips);
    w->range = ZT_NEW_N(arena, struct range, w->pairs);
    for (int64_t p = 0; p < w->pairs; p++)
        w->range[p] = range_of(c, p / w->vectors);
    return w;
}

bool zt_taps_gradient_reads_plain(const struct zt_taps_gradient *w) {
    return w->few;
}

static int64_t strip_elems(const struct zt_taps_gradient *w) {
    return w->few ? zt_align_floats(w->places * w->conv.results) : 0;
}

static size_t pair_bytes(const struct zt_taps_gradient *w) {
    return zt_align_64((size_t)w->pairs * sizeof(int64_t));
}

size_t zt_taps_gradient_bytes(const struct zt_taps_gradient *w) {
    return pair_bytes(w) + (size_t)(w->pieces * (piece_elems(w) + strip_elems(w))) * sizeof(float);
}

struct job {
    const struct zt_taps_gradient *w;
    const struct zt_planes_weights *data;
    int64_t *at; /* floats from a row of x to what the first result of a pair reads */
    float *sums, *packed;
};

/* The next strip, which is fetched meanwhile, a vector of channels a run: `fetched` of them are. */
struct ahead {
    const float *x, *dy; /* of the first result, the last row of the kernel */
    int64_t fetched;
};

/* A strip of a row of results, first..end-1, and a row of the kernel: dy of the first result, the row of x, and their
 * sums. */
struct line {
    struct range strip;
    const float *dy, *x;
    float *sums;
    struct ahead *ahead;
};

/* A vector of channels of dy, or few plain ones that are packed: floats from a result to the next. */
static int64_t dy_step(const struct job *job) {
    return job->w->few ? job->w->conv.results : job->data->dy_planes.pixel;
}

/* Result channels from m on that a run takes: rows of the sums. */
static int64_t rows_beside(const struct job *job, int64_t m) {
    const struct zt_taps_gradient *w = job->w;
    const int64_t rest = w->conv.results - m, vector = job->data->dy_planes.vector;
    if (w->few)
        return zt_min_int(w->kernels->rows, rest);
    const int64_t beside = zt_min_int(vector - m % vector, rest);
    return zt_ceil_div(beside, zt_ceil_div(beside, w->kernels->rows));
}

static void choose_fetched(const struct job *job, struct ahead *a, struct zt_outer_sums *s) {
    const struct zt_taps_gradient *w = job->w;
    const struct zt_planes *dy = &job->data->dy_planes;
    const int64_t at = a->fetched++;
    s->fetch = s->a;
    s->fetch_step = 0;
    if (at < w->vectors) {
        s->fetch = a->x + zt_planes_channel(&job->data->x_planes, at * w->kernels->vector);
        s->fetch_step = s->b_step;
    } else if (!w->few && (at - w->vectors) * dy->vector < w->conv.results) {
        s->fetch = a->dy + (at - w->vectors) * dy->group;
        s->fetch_step = s->a_step;
    }
}

/* Adds the contributions of results of the range to `count` pairs from `first` on. */
static void sum_pairs(const struct job *job, const struct line *line, int64_t first, int count, struct range r) {
    const struct zt_taps_gradient *w = job->w;
    const struct range in = { zt_max_int(r.first, line->strip.first), zt_min_int(r.end, line->strip.end) };
    if (in.end <= in.first)
        return;
    const int64_t step = w->conv.stride[2] * job->data->x_planes.pixel;
    const float *dy = line->dy + (in.first - line->strip.first) * dy_step(job);
    struct zt_outer_sums s = { .a_step = dy_step(job),
                               .b_step = step,
                               .places = in.end - in.first,
                               .m = line->sums + first * w->kernels->vector,
                               .m_row = w->pairs * w->kernels->vector,
                               .vectors = count };
    for (int i = 0; i < count; i++)
        s.b[i] = line->x + job->at[first + i] + in.first * step;
    for (int64_t m = 0; m < w->conv.results; m += s.rows, s.m += s.rows * s.m_row) {
        s.rows = (int)rows_beside(job, m);
        s.a = dy + (w->few ? m : zt_planes_channel(&job->data->dy_planes, m));
        choose_fetched(job, line->ahead, &s);
        w->kernels->run(&s);
    }
}

/* Pairs whose taps have other results beyond those that all have take them alone. */
static void sum_group(const struct job *job, const struct line *line, int64_t first, int count) {
    const struct zt_taps_gradient *w = job->w;
    struct range all = { 0, w->conv.out[2] };
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
    const int64_t of = w->vectors < w->kernels->vectors - 1 ? w->pairs : w->vectors; /* as in panel_of */
    for (int64_t p = 0, count; p < w->pairs; p += count) {
        count = zt_min_int(w->panel, of - p % of);
        sum_group(job, line, p, (int)count);
    }
}

/* Of `places` results; plain dy has several sums a channel. */
static void add_bias(const struct job *job, const float *dy, int64_t places, float *sums) {
    const struct zt_taps_gradient *w = job->w;
    const int64_t lanes = w->kernels->vector;
    if (!w->few) {
        for (int64_t m = 0; m < w->conv.results; m += lanes)
            w->kernels->add(dy + zt_planes_channel(&job->data->dy_planes, m), job->data->dy_planes.pixel, places,
                            sums + m);
        return;
    }
    for (int64_t m = 0; m < w->conv.results; m++, dy += out_rows(&w->conv) * w->conv.out[2], sums += lanes) {
        w->kernels->add(dy, lanes, places / lanes, sums);
        for (int64_t i = places / lanes * lanes; i < places; i++)
            sums[i % lanes] += dy[i];
    }
}

static void pack_strip(const struct zt_taps_gradient *w, const float *dy, int64_t places, float *to) {
    const int64_t plane = out_rows(&w->conv) * w->conv.out[2];
    for (int64_t i = 0; i < places; i++)
        for (int64_t m = 0; m < w->conv.results; m++)
            *to++ = dy[m * plane + i];
}

/* Strip `index` of the results of the batch. */
struct strip {
    struct range results;
    int64_t sample, row;
    const float *dy; /* of the first result */
};

static struct strip strip_of(const struct job *job, int64_t index) {
    const struct zt_taps_gradient *w = job->w;
    const struct zt_planes *dy = &job->data->dy_planes;
    const int64_t row = index / w->strips, first = index % w->strips * w->places;
    struct strip s = { .results = { first, zt_min_int(first + w->places, w->conv.out[2]) },
                       .sample = row / out_rows(&w->conv),
                       .row = row % out_rows(&w->conv) };
    s.dy = (const float *)job->data->dy + s.sample * dy->sample + (s.row * w->conv.out[2] + first) * dy->pixel;
    return s;
}

/* The row of x that row k of the kernel covers, of all planes; -1: it is outside. */
static int64_t row_of_x(const struct zt_taps_conv *c, const struct strip *s, int64_t k) {
    const int64_t plane = s->row / c->out[1] * c->stride[0] + k / c->kernel[1] * c->dilation[0] - c->pad[0];
    const int64_t row = s->row % c->out[1] * c->stride[1] + k % c->kernel[1] * c->dilation[1] - c->pad[1];
    return plane < 0 || plane >= c->in[0] || row < 0 || row >= c->in[1] ? -1 : plane * c->in[1] + row;
}

static const float *x_at(const struct job *job, const struct strip *s, int64_t row) {
    const struct zt_planes *x = &job->data->x_planes;
    return (const float *)job->data->x + s->sample * x->sample + row * job->w->conv.in[2] * x->pixel;
}

static struct ahead ahead_of(const struct job *job, const struct strip *s) {
    const struct zt_taps_conv *c = &job->w->conv;
    const int64_t row = zt_max_int(0, row_of_x(c, s, kernel_rows(c) - 1));
    const int64_t place = zt_min_int(s->results.first * c->stride[2], c->in[2] - 1);
    return (struct ahead){ .x = x_at(job, s, row) + place * job->data->x_planes.pixel, .dy = s->dy };
}

static void sum_strip(const struct job *job, const struct strip *s, struct ahead *ahead, struct line line) {
    const struct zt_taps_gradient *w = job->w;
    const struct zt_taps_conv *c = &w->conv;
    float *sums = line.sums;
    line.strip = s->results;
    line.ahead = ahead;
    for (int64_t k = 0; k < kernel_rows(c) && job->data->dw; k++) {
        const int64_t row = row_of_x(c, s, k);
        if (row < 0)
            continue;
        line.x = x_at(job, s, row);
        line.sums = sums + k * c->results * w->pairs * w->kernels->vector;
        sum_line(job, &line);
    }
    if (job->data->db)
        add_bias(job, s->dy, s->results.end - s->results.first, sums + sum_elems(w));
}

/* Where x begins for each pair. */
static void find_pairs(const struct job *job) {
    const struct zt_taps_gradient *w = job->w;
    const struct zt_planes *x = &job->data->x_planes;
    for (int64_t p = 0; p < w->pairs; p++) {
        const int64_t tap = p / w->vectors, channel = p % w->vectors * w->kernels->vector;
        job->at[p] = (tap * w->conv.dilation[2] - w->conv.pad[2]) * x->pixel + zt_planes_channel(x, channel);
    }
}

static void do_piece(void *arg, int64_t piece) {
    const struct job *job = arg;
    const struct zt_taps_gradient *w = job->w;
    const int64_t strips = w->conv.samples * out_rows(&w->conv) * w->strips;
    float *sums = job->sums + piece * piece_elems(w);
    memset(sums, 0, (size_t)piece_elems(w) * sizeof *sums);
    const int64_t end = strips * (piece + 1) / w->pieces;
    float *packed = job->packed + piece * strip_elems(w);
    for (int64_t i = strips * piece / w->pieces; i < end; i++) {
        const struct strip s = strip_of(job, i), next = strip_of(job, zt_min_int(i + 1, end - 1));
        struct ahead ahead = ahead_of(job, &next);
        if (w->few)
            pack_strip(w, s.dy, s.results.end - s.results.first, packed);
        sum_strip(job, &s, &ahead, (struct line){ .dy = w->few ? packed : s.dy, .sums = sums });
    }
}

static void finish_channel(void *arg, int64_t m) {
    const struct job *job = arg;
    const struct zt_taps_gradient *w = job->w;
    const struct zt_taps_conv *c = &w->conv;
    const int64_t lanes = w->kernels->vector, taps = kernel_rows(c) * c->kernel[2];
    for (int64_t t = 0; t < taps; t++) {
        const int64_t row = (t / c->kernel[2] * c->results + m) * w->pairs;
        const float *from = job->sums + (row + t % c->kernel[2] * w->vectors) * lanes;
        float *to = job->data->dw + m * c->channels * taps + t;
        for (int64_t channel = 0; channel < c->channels; channel++, to += taps)
            *to = (job->data->accumulate ? *to : 0) + from[channel];
    }
}

static void finish_bias(const struct zt_taps_gradient *w, const float *sums, float *db) {
    const int lanes = w->few ? w->kernels->vector : 1;
    for (int64_t m = 0; m < w->conv.results; m++, sums += lanes) {
        db[m] = 0;
        for (int l = 0; l < lanes; l++)
            db[m] += sums[l];
    }
}

void zt_taps_gradient_run(const struct zt_taps_gradient *w, const struct zt_planes_weights *data, void *workspace,
                          int threads) {
    struct job job = { w, data, workspace, (float *)((char *)workspace + pair_bytes(w)) };
    job.packed = job.sums + w->pieces * piece_elems(w);
    find_pairs(&job);
    zt_parallel_for(threads, w->pieces, do_piece, &job);
    zt_sum_blocks(job.sums, piece_elems(w), w->pieces, threads);
    if (data->dw)
        zt_parallel_for(threads, w->conv.results, finish_channel, &job);
    if (data->db)
        finish_bias(w, job.sums + sum_elems(w), data->db);
}
