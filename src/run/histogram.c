/* The buckets are those of TensorFlow's histograms: 0, +-1e-12 1.1^i below 1e20, and the largest double. A rank counts
 * the slices that it owns, and the counts are added. */
#include "run/histogram.h"

#include "run/rank/blocks.h"
#include "run/rank/passes.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LIMITS = 2000 };
/* Numbers in front of the counts of a tensor, and of each rank behind them. */
enum { COUNT, SUM, SQUARES, HEAD };
enum { OWN_COUNT, OWN_MIN, OWN_MAX, OWN };

struct counting {
    struct zt_rank *r;
    double limit[MOST_LIMITS];
    int limits;
    double *values; /* [HEAD], counts [limits], [ranks][OWN] */
    float *chunk;   /* ZT_PIECE elements on the host */
    const struct which *which;
    double shown_limit[MOST_LIMITS], shown[MOST_LIMITS];
};

static void make_limits(struct counting *c) {
    int positive = 0;
    for (double v = 1e-12; v < 1e20; v *= 1.1)
        positive++;
    c->limits = 2 * (positive + 1) + 1;
    const int zero = positive + 1;
    double v = 1e-12;
    for (int i = 1; i <= positive; i++, v *= 1.1) {
        c->limit[zero + i] = v;
        c->limit[zero - i] = -v;
    }
    c->limit[zero] = 0;
    c->limit[0] = -DBL_MAX;
    c->limit[c->limits - 1] = DBL_MAX;
}

/* Returns the first bucket whose limit is above `value`. */
static int bucket_of(const struct counting *c, double value) {
    int low = 0, high = c->limits - 1;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (c->limit[middle] > value)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static int values_count(const struct counting *c) {
    return HEAD + c->limits + OWN * c->r->world->size;
}

static double *own_of(const struct counting *c, int rank) {
    return c->values + HEAD + c->limits + OWN * rank;
}

static void count_chunk(struct counting *c, int64_t elements, double factor) {
    double *own = own_of(c, c->r->world->rank);
    for (int64_t i = 0; i < elements; i++) {
        const double value = (double)c->chunk[i] * factor;
        if (!isfinite(value))
            continue;
        own[OWN_MIN] = own[OWN_COUNT] == 0 ? value : fmin(value, own[OWN_MIN]);
        own[OWN_MAX] = own[OWN_COUNT] == 0 ? value : fmax(value, own[OWN_MAX]);
        own[OWN_COUNT]++;
        c->values[COUNT]++;
        c->values[SUM] += value;
        c->values[SQUARES] += value * value;
        c->values[HEAD + bucket_of(c, value)]++;
    }
}

struct which {
    int stage, tensor;
    bool gradient;
    double factor; /* of the values */
};

/* Weights that the host updates are in its memory. */
static bool count_piece(void *with, const struct zt_piece *p, struct zt_err *err) {
    struct counting *c = with;
    const struct zt_rank *r = c->r;
    const size_t bytes = (size_t)p->count * sizeof *c->chunk;
    if (r->owned[p->range].rank != r->plan->grid.data_rank)
        return true;
    if (c->which->gradient ? !zt_piece_fetch_gradient(r, p, c->chunk, err)
                           : !p->on_host && !zt_rank_fetch(r, c->chunk, p->param, bytes, err))
        return false;
    if (p->on_host && !c->which->gradient)
        memcpy(c->chunk, p->param, bytes);
    count_chunk(c, p->count, c->which->factor);
    return true;
}

/* Counts this rank's slices of the tensor. */
static bool count_own(struct counting *c, struct zt_err *err) {
    const struct zt_rank *r = c->r;
    if (!c->which->gradient)
        return zt_rank_each_piece_of(c->r, c->which->tensor, count_piece, c, err);
    for (int i = 0; i < r->piece_count; i++)
        if (r->pieces[i].tensor == c->which->tensor && !count_piece(c, &r->pieces[i], err))
            return false;
    return true;
}

/* Joins the minima and maxima of the ranks, and consecutive empty buckets. */
static struct zt_histogram finish(struct counting *c) {
    struct zt_histogram h = { .min = HUGE_VAL,
                              .max = -HUGE_VAL,
                              .count = c->values[COUNT],
                              .sum = c->values[SUM],
                              .squares = c->values[SQUARES],
                              .limit = c->shown_limit,
                              .bucket = c->shown };
    const double *counts = c->values + HEAD;
    for (int rank = 0; rank < c->r->world->size; rank++) {
        const double *own = own_of(c, rank);
        h.min = own[OWN_COUNT] > 0 ? fmin(h.min, own[OWN_MIN]) : h.min;
        h.max = own[OWN_COUNT] > 0 ? fmax(h.max, own[OWN_MAX]) : h.max;
    }
    for (int i = 0; i < c->limits; i++) {
        h.buckets += !h.buckets || counts[i] > 0 || c->shown[h.buckets - 1] > 0;
        c->shown_limit[h.buckets - 1] = c->limit[i];
        c->shown[h.buckets - 1] = counts[i];
    }
    return h;
}

static bool count_tensor(struct counting *c, const struct which *w, const struct zt_histogram_sink *sink,
                         struct zt_err *err) {
    struct zt_comm *world = c->r->world;
    for (int i = 0; i < values_count(c); i++)
        c->values[i] = 0;
    c->which = w;
    if ((w->stage == c->r->plan->grid.stage && !count_own(c, err)) ||
        !world->api->sum(world, c->values, values_count(c), err))
        return false;
    const struct zt_histogram h = finish(c);
    if (sink && h.count > 0)
        sink->take(sink, w->stage, w->tensor, w->gradient, &h);
    return true;
}

/* Shares the number of tensors of each stage. */
static bool share_counts(const struct zt_rank *r, double *counts, struct zt_err *err) {
    for (int s = 0; s < r->plan->grid.stages; s++)
        counts[s] = s == r->plan->grid.stage && r->plan->grid.data_rank == 0 ? r->plan->tensors.flat->own_tensors : 0;
    return r->world->api->sum(r->world, counts, r->plan->grid.stages, err);
}

bool zt_rank_histograms(struct zt_rank *r, double loss_scale, const struct zt_histogram_sink *sink,
                        struct zt_err *err) {
    const int stages = r->plan->grid.stages;
    struct counting *c = zt_calloc(1, sizeof *c);
    double *counts = zt_calloc((size_t)stages, sizeof *counts);
    c->r = r;
    make_limits(c);
    c->values = zt_calloc((size_t)values_count(c), sizeof *c->values);
    c->chunk = zt_malloc(ZT_PIECE * sizeof *c->chunk);
    bool ok = share_counts(r, counts, err);
    for (int s = 0; s < stages; s++)
        for (int i = 0; ok && i < 2 * (int)counts[s]; i++) {
            const struct which w = { s, i / 2, i % 2, i % 2 ? 1 / loss_scale : 1 };
            ok = count_tensor(c, &w, sink, err);
        }
    free(c->chunk);
    free(c->values);
    free(counts);
    free(c);
    return ok;
}
