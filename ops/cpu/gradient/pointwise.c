/* One tensor's channels are rows, the other's are in vectors, of which a group is summed at a time, so that its sums
 * stay in the second cache. A piece of the batch is some chunks of places; a unit of work is a piece and a group, and
 * the pieces are added in order. workspace, of each piece:
 *
 *     [ sums [group][row][vector of the group] | db ] */
#include "ops/cpu/gradient/pointwise.h"

#include "base/align.h"
#include "device/threads.h"
#include "ops/cpu/block_sum.h"
#include "ops/cpu/gradient/simd_outer_sums.h"
#include "ops/kernel/tile.h"

#include <string.h>

enum {
    PLACES = 64,       /* of a chunk at most: a panel of vectors stays in the first cache */
    GROUP = 1 << 16,   /* floats of a group's sums */
    SUMS = 1 << 20,    /* floats of all pieces, */
    FEWEST_PIECES = 4, /* or more */
    MOST_PIECES = 16,
    LEAST_CHANNELS = 16
};

struct zt_pointwise_gradient {
    const struct zt_outer_kernels *kernels;
    bool rows_of_y; /* rows are channels of dy, and vectors of x; else vice versa */
    struct zt_pointwise conv;
    int64_t rows, vectors;          /* of all groups */
    int64_t group;                  /* vectors of a group */
    int64_t places, chunks, pieces; /* of a chunk; of a sample; of the batch */
};

/* Vectors of the panels into which so many vectors are divided evenly. */
static int64_t panel_of(const struct zt_outer_kernels *k, int64_t vectors) {
    return zt_ceil_div(vectors, zt_ceil_div(vectors, k->vectors));
}

/* The time of a place; a panel of one vector waits for its sums. */
static double cost(const struct zt_outer_kernels *k, int64_t rows, int64_t channels) {
    const int64_t vectors = zt_ceil_div(channels, k->vector), panel = panel_of(k, vectors);
    return (double)(rows * vectors) * (panel == 1 ? 1.35 : 1);
}

const struct zt_pointwise_gradient *zt_pointwise_gradient_make(struct zt_arena *arena, const struct zt_pointwise *p) {
    const struct zt_outer_kernels *k = zt_outer_kernels();
    if (!k || p->samples * p->places == 0 || zt_min_int(p->channels, p->results) < LEAST_CHANNELS)
        return NULL;
    struct zt_pointwise_gradient *w = ZT_NEW(arena, struct zt_pointwise_gradient);
    *w = (struct zt_pointwise_gradient){ .kernels = k, .conv = *p };
    w->rows_of_y = cost(k, w->conv.results, w->conv.channels) <=
                   1.1 * cost(k, w->conv.channels, w->conv.results); /* whose sums lie as dw does */
    w->rows = w->rows_of_y ? w->conv.results : w->conv.channels;
    w->vectors = zt_ceil_div(w->rows_of_y ? w->conv.channels : w->conv.results, k->vector);
    const int64_t panel = panel_of(k, w->vectors), fit = GROUP / (w->rows * panel * k->vector);
    w->group = zt_max_int(fit, 1) * panel;
    w->chunks = zt_ceil_div(w->conv.places, PLACES);
    w->places = zt_ceil_div(w->conv.places, w->chunks);
    const int64_t sums = w->rows * w->vectors * k->vector;
    w->pieces = zt_max_int(FEWEST_PIECES, zt_min_int(MOST_PIECES, SUMS / sums));
    w->pieces = zt_min_int(w->pieces, w->conv.samples * w->chunks);
    return w;
}

static int64_t sum_elems(const struct zt_pointwise_gradient *w) {
    return w->rows * w->vectors * w->kernels->vector;
}

static int64_t piece_elems(const struct zt_pointwise_gradient *w) {
    const int64_t lanes = w->kernels->vector;
    return zt_align_floats(sum_elems(w) + zt_ceil_div(w->conv.results, lanes) * lanes);
}

static int64_t groups_of(const struct zt_pointwise_gradient *w) {
    return zt_ceil_div(w->vectors, w->group);
}

size_t zt_pointwise_gradient_bytes(const struct zt_pointwise_gradient *w) {
    return (size_t)(w->pieces * piece_elems(w)) * sizeof(float);
}

struct job {
    const struct zt_pointwise_gradient *w;
    const struct zt_planes_weights *data;
    float *sums;
};

/* A tensor at the first place of a chunk. */
struct source {
    const struct zt_planes *planes;
    const float *at;
};

/* A chunk of places and a group, first..end-1 of the vectors. What the next chunk reads is fetched meanwhile, a vector
 * of channels a run. */
struct chunk {
    struct source rows, vectors, next_rows, next_vectors;
    int64_t first, end, places, fetched;
    float *sums; /* of the group */
};

static struct source source_of(const struct zt_pointwise_gradient *w, const struct zt_planes_weights *d, bool y,
                               int64_t chunk) {
    const struct zt_planes *p = y ? &d->dy_planes : &d->x_planes;
    const int64_t sample = chunk / w->chunks, place = chunk % w->chunks * w->places;
    return (struct source){ p, (const float *)(y ? d->dy : d->x) + sample * p->sample + place * p->pixel };
}

static struct chunk chunk_of(const struct job *job, int64_t chunk, int64_t next, int64_t group) {
    const struct zt_pointwise_gradient *w = job->w;
    return (struct chunk){ .rows = source_of(w, job->data, w->rows_of_y, chunk),
                           .vectors = source_of(w, job->data, !w->rows_of_y, chunk),
                           .next_rows = source_of(w, job->data, w->rows_of_y, next),
                           .next_vectors = source_of(w, job->data, !w->rows_of_y, next),
                           .first = group * w->group,
                           .end = zt_min_int((group + 1) * w->group, w->vectors),
                           .places = zt_min_int(w->places, w->conv.places - chunk % w->chunks * w->places) };
}

static void choose_fetched(const struct zt_pointwise_gradient *w, struct chunk *c, struct zt_outer_sums *s) {
    const int64_t vectors = c->end - c->first, at = c->fetched++;
    const struct zt_planes *rows = c->rows.planes, *of = at < vectors ? c->vectors.planes : rows;
    s->fetch = s->a;
    s->fetch_step = of->pixel;
    if (at < vectors)
        s->fetch = c->next_vectors.at + zt_planes_channel(of, (c->first + at) * w->kernels->vector);
    else if ((at - vectors) * rows->vector < w->rows)
        s->fetch = c->next_rows.at + (at - vectors) * rows->group;
}

/* `count` vectors from `first` on, and all rows. */
static void sum_panel(const struct zt_pointwise_gradient *w, struct chunk *c, int64_t first, int count) {
    const struct zt_planes *of = c->rows.planes;
    const int64_t lanes = w->kernels->vector;
    struct zt_outer_sums s = { .a_step = of->pixel,
                               .b_step = c->vectors.planes->pixel,
                               .places = c->places,
                               .m_row = (c->end - c->first) * lanes,
                               .vectors = count };
    for (int v = 0; v < count; v++)
        s.b[v] = c->vectors.at + zt_planes_channel(c->vectors.planes, (first + v) * lanes);
    for (int64_t r = 0, beside; r < w->rows; r += beside) {
        beside = zt_min_int(of->vector - r % of->vector, w->rows - r);
        beside = zt_ceil_div(beside, zt_ceil_div(beside, w->kernels->rows));
        s.a = c->rows.at + zt_planes_channel(of, r);
        s.m = c->sums + r * s.m_row + (first - c->first) * lanes;
        s.rows = (int)beside;
        choose_fetched(w, c, &s);
        w->kernels->run(&s);
    }
}

static void sum_chunk(const struct zt_pointwise_gradient *w, struct chunk *c) {
    const int64_t panel = panel_of(w->kernels, w->vectors);
    for (int64_t v = c->first; v < c->end; v += panel)
        sum_panel(w, c, v, (int)zt_min_int(panel, c->end - v));
}

static void add_bias(const struct zt_pointwise_gradient *w, const struct chunk *c, float *to) {
    const struct source *dy = w->rows_of_y ? &c->rows : &c->vectors;
    for (int64_t m = 0; m < w->conv.results; m += w->kernels->vector)
        w->kernels->add(dy->at + zt_planes_channel(dy->planes, m), dy->planes->pixel, c->places, to + m);
}

static void do_unit(void *arg, int64_t unit) {
    const struct job *job = arg;
    const struct zt_pointwise_gradient *w = job->w;
    const int64_t lanes = w->kernels->vector, piece = unit / groups_of(w), group = unit % groups_of(w);
    const int64_t chunks = w->conv.samples * w->chunks, end = chunks * (piece + 1) / w->pieces;
    const int64_t vectors = zt_min_int(w->group, w->vectors - group * w->group);
    float *sums = job->sums + piece * piece_elems(w), *of_group = sums + group * w->group * lanes * w->rows;
    memset(of_group, 0, (size_t)(vectors * lanes * w->rows) * sizeof *sums);
    if (group == 0)
        memset(sums + sum_elems(w), 0, (size_t)(piece_elems(w) - sum_elems(w)) * sizeof *sums);
    for (int64_t i = chunks * piece / w->pieces; i < end; i++) {
        struct chunk c = chunk_of(job, i, zt_min_int(i + 1, end - 1), group);
        c.sums = of_group;
        if (job->data->dw)
            sum_chunk(w, &c);
        if (job->data->db && group == 0)
            add_bias(w, &c, sums + sum_elems(w));
    }
}

/* Row `row` of the sums to dw. */
static void finish_row(void *arg, int64_t row) {
    const struct job *job = arg;
    const struct zt_pointwise_gradient *w = job->w;
    const int64_t lanes = w->kernels->vector, channels = w->rows_of_y ? w->conv.channels : w->conv.results;
    const int64_t step = w->rows_of_y ? 1 : w->conv.channels;
    float *to = job->data->dw + row * (w->rows_of_y ? w->conv.channels : 1);
    for (int64_t group = 0, done = 0; done < channels; group++) {
        const int64_t first = group * w->group, width = zt_min_int(w->group, w->vectors - first) * lanes;
        const float *from = job->sums + first * lanes * w->rows + row * width;
        for (int64_t i = 0; i < width && done < channels; i++, done++)
            to[done * step] = (job->data->accumulate ? to[done * step] : 0) + from[i];
    }
}

void zt_pointwise_gradient_run(const struct zt_pointwise_gradient *w, const struct zt_planes_weights *data,
                               void *workspace, int threads) {
    struct job job = { w, data, workspace };
    zt_parallel_for(threads, w->pieces * groups_of(w), do_unit, &job);
    zt_sum_blocks(job.sums, piece_elems(w), w->pieces, threads);
    if (data->dw)
        zt_parallel_for(threads, w->rows, finish_row, &job);
    if (data->db)
        memcpy(data->db, job.sums + sum_elems(w), (size_t)w->conv.results * sizeof *data->db);
}
