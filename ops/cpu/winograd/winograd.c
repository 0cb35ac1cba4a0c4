/* A unit of work is some tiles of the batch: their transforms stay in the second cache. workspace:
 *
 *     [ transformed weights | bias | of each thread: transformed tiles | products ]
 *
 *     weights    [panel of result vectors][element][input channel][result channel of the panel]
 *     tiles      [element][tile][input channel]
 *     products   [element][tile][result channel of a panel] */
#include "ops/cpu/winograd/winograd.h"

#include "base/align.h"
#include "device/threads.h"
#include "ops/cpu/winograd/tiles.h"
#include "ops/kernel/tile.h"

#include <string.h>

enum { ELEMENTS = ZT_WINOGRAD_ELEMENTS, TAPS = 9, MOST_PANEL = 4 }; /* MOST_PANEL: of any kernels */

struct zt_winograd {
    const struct zt_winograd_kernels *kernels;
    bool backward;
    struct zt_winograd_tiles tiles;
    int64_t samples, depth, results; /* channels of x and of y */
    int64_t unit;                    /* tiles */
    int64_t depth_vectors, result_vectors;
};

/* ---- geometry ---- */

static void set_tiles(struct zt_winograd *w, const struct zt_winograd_wish *wish) {
    const struct zt_winograd_conv *c = &wish->conv;
    struct zt_winograd_tiles *t = &w->tiles;
    for (int a = 0; a < 2; a++) {
        t->out[a] = a == 0 ? wish->rows : wish->columns;
        t->in[a] = wish->backward ? c->out[a] : c->in[a];
        t->pad[a] = wish->backward ? 2 - c->pad[a] : c->pad[a];
        t->tiles[a] = zt_ceil_div(t->out[a], ZT_WINOGRAD_RESULTS);
    }
    t->all = w->samples * t->tiles[0] * t->tiles[1];
}

static struct zt_winograd describe(const struct zt_winograd_wish *wish) {
    const struct zt_winograd_conv *c = &wish->conv;
    struct zt_winograd w = { .kernels = zt_winograd_kernels(),
                             .backward = wish->backward,
                             .samples = c->samples,
                             .depth = wish->backward ? c->results : c->channels,
                             .results = wish->backward ? c->channels : c->results };
    w.depth_vectors = zt_ceil_div(w.depth, w.kernels->vector);
    w.result_vectors = zt_ceil_div(w.results, w.kernels->vector);
    w.unit = zt_winograd_unit(w.kernels, w.depth_vectors + zt_min_int(w.result_vectors, w.kernels->panel));
    set_tiles(&w, wish);
    return w;
}

/* A product costs as much as one of the direct convolution, a transformed weight some twelve, and moving the tiles some
 * vectors for each vector of channels. */
static double share_of(const struct zt_winograd *w) {
    const double tiles = (double)w->tiles.all, depth = (double)w->depth_vectors, results = (double)w->result_vectors;
    const double vector = w->kernels->vector;
    const double direct = (double)(w->tiles.out[0] * w->tiles.out[1] * w->samples) * TAPS * (double)w->depth * results;
    const double products = tiles * ELEMENTS * depth * vector * results;
    const double transforms = tiles * (60 * depth + 70 * results) + depth * vector * results * 200;
    return zt_winograd_share_of(direct, products + transforms);
}

double zt_winograd_share(const struct zt_winograd_wish *wish) {
    if (!zt_winograd_kernels())
        return 1;
    const struct zt_winograd w = describe(wish);
    return share_of(&w);
}

const struct zt_winograd *zt_winograd_make(struct zt_arena *arena, const struct zt_winograd_wish *wish) {
    if (zt_winograd_share(wish) >= 1)
        return NULL;
    struct zt_winograd *w = ZT_NEW(arena, struct zt_winograd);
    *w = describe(wish);
    return w;
}

static int64_t weight_elems(const struct zt_winograd *w) {
    return ELEMENTS * w->depth_vectors * w->result_vectors * w->kernels->vector * w->kernels->vector;
}

/* From an element of the tiles to the next, and of the products. */
static int64_t tile_step(const struct zt_winograd *w) {
    return zt_winograd_step(w->unit, w->depth_vectors * w->kernels->vector);
}

static int64_t product_step(const struct zt_winograd *w) {
    return zt_winograd_step(w->unit, (int64_t)w->kernels->panel * w->kernels->vector);
}

static int64_t thread_elems(const struct zt_winograd *w) {
    return ELEMENTS * (tile_step(w) + product_step(w));
}

size_t zt_winograd_bytes(const struct zt_winograd *w, int threads) {
    return (size_t)(weight_elems(w) + zt_align_floats(w->result_vectors * w->kernels->vector) +
                    threads * thread_elems(w)) *
           sizeof(float);
}

/* ---- weights ---- */

struct job {
    const struct zt_winograd *w;
    const struct zt_winograd_data *data;
    float *weights, *bias, *threads;
};

/* Result vectors of the panel that begins with vector `first`. */
static int vectors_of_panel(const struct zt_winograd *w, int64_t first) {
    return (int)zt_min_int(w->kernels->panel, w->result_vectors - first);
}

static float *panel_weights(const struct job *job, int64_t first) {
    const struct zt_winograd *w = job->w;
    return job->weights + first * ELEMENTS * w->depth_vectors * w->kernels->vector * w->kernels->vector;
}

/* Kernel `k` of a vector of results as [tap][result]; backwards turned by half a turn. */
static void gather(const struct job *job, int64_t vector, int64_t k, float *g) {
    const struct zt_winograd *w = job->w;
    const bool forward = !w->backward;
    const int64_t lanes = w->kernels->vector, step = TAPS * (forward ? w->depth : 1);
    const int64_t used = k < w->depth ? zt_min_int(lanes, w->results - vector * lanes) : 0;
    const float *from = job->data->w + TAPS * (forward ? k : k * w->results) + vector * lanes * step;
    memset(g, 0, (size_t)(TAPS * lanes) * sizeof *g);
    for (int64_t l = 0; l < used; l++)
        for (int64_t t = 0; t < TAPS; t++)
            g[t * lanes + l] = from[l * step + (forward ? t : TAPS - 1 - t)];
}

static void transform_weights(void *arg, int64_t vector) {
    const struct job *job = arg;
    const struct zt_winograd *w = job->w;
    const int64_t lanes = w->kernels->vector, first = vector / w->kernels->panel * w->kernels->panel;
    const int64_t row = vectors_of_panel(w, first) * lanes, depth = w->depth_vectors * lanes;
    float g[TAPS * 16], *to = panel_weights(job, first) + (vector - first) * lanes;
    for (int64_t k = 0; k < depth; k++) {
        gather(job, vector, k, g);
        w->kernels->weight(g, to + k * row, depth * row);
    }
}

/* ---- results ---- */

/* The places of a tile's results in their plane; -1 beyond the last row and column. */
static void find_results(const struct zt_winograd_tiles *tiles, const struct zt_planes *p,
                         const struct zt_winograd_tile *t, int64_t *at) {
    for (int i = 0; i < 4; i++) {
        const int64_t row = t->row * ZT_WINOGRAD_RESULTS + i / ZT_WINOGRAD_RESULTS;
        const int64_t column = t->column * ZT_WINOGRAD_RESULTS + i % ZT_WINOGRAD_RESULTS;
        const bool inside = row < tiles->out[0] && column < tiles->out[1];
        at[i] = inside ? (row * tiles->out[1] + column) * p->pixel : -1;
    }
}

/* Fetches what the tile below writes, and reads of the tensor that is added. */
static void fetch_below(const struct zt_winograd_data *d, const struct zt_winograd_tiles *tiles, int64_t plane,
                        const int64_t *at) {
    const int64_t below = plane + ZT_WINOGRAD_RESULTS * tiles->out[1] * d->y_planes.pixel;
    for (int i = 0; i < 4 && at[i] >= 0; i++) {
        __builtin_prefetch(d->y + below + at[i], 1);
        if (d->added)
            __builtin_prefetch(d->added + below + at[i]);
    }
}

/* m: the products of a vector of channels, whose plane begins at `channel` in a sample. */
static void give_vector(const struct job *job, const struct zt_winograd_tile *t, int64_t channel,
                        const struct zt_winograd_finish *finish, const float *m, int64_t step) {
    const struct zt_winograd *w = job->w;
    const struct zt_winograd_data *d = job->data;
    const struct zt_planes *p = &d->y_planes;
    const int64_t plane = t->sample * p->sample + channel;
    if (d->position) {
        const int64_t at = plane + (t->row * w->tiles.tiles[1] + t->column) * p->pixel;
        w->kernels->pool(m, step, finish, d->y + at, d->position + at);
    } else {
        struct zt_winograd_finish here = *finish;
        int64_t at[4];
        here.added = d->added ? d->added + plane : NULL;
        find_results(&w->tiles, p, t, at);
        fetch_below(d, &w->tiles, plane, at);
        w->kernels->output(m, step, &here, d->y + plane, at);
    }
}

static void do_panel(const struct job *job, int64_t first_tile, int64_t tiles, int64_t first, float *own) {
    const struct zt_winograd *w = job->w;
    const int64_t lanes = w->kernels->vector, depth = w->depth_vectors * lanes;
    const int vectors = vectors_of_panel(w, first);
    const int64_t row = vectors * lanes, step = product_step(w);
    float *products = own + ELEMENTS * tile_step(w);
    for (int64_t e = 0; e < ELEMENTS; e++)
        w->kernels->product(&(struct zt_winograd_product){ .a = own + e * tile_step(w),
                                                           .b = panel_weights(job, first) + e * depth * row,
                                                           .m = products + e * step,
                                                           .a_row = depth,
                                                           .a_step = 1,
                                                           .b_step = row,
                                                           .m_row = row,
                                                           .rows = tiles,
                                                           .depth = depth,
                                                           .vectors = vectors });
    struct zt_winograd_finish finish[MOST_PANEL];
    int64_t channel[MOST_PANEL];
    for (int o = 0; o < vectors; o++) {
        finish[o] = (struct zt_winograd_finish){ .bias = job->bias + (first + o) * lanes, .relu = job->data->relu };
        channel[o] = zt_planes_channel(&job->data->y_planes, (first + o) * lanes);
    }
    struct zt_winograd_tile t = zt_winograd_tile_of(&w->tiles, first_tile);
    for (int64_t i = 0; i < tiles; i++, zt_winograd_next(&w->tiles, &t))
        for (int o = 0; o < vectors; o++)
            give_vector(job, &t, channel[o], &finish[o], products + i * row + o * lanes, step);
}

static void do_unit(void *arg, int64_t unit) {
    const struct job *job = arg;
    const struct zt_winograd *w = job->w;
    const int64_t first = unit * w->unit, tiles = zt_min_int(w->unit, w->tiles.all - first);
    float *own = job->threads + zt_parallel_thread() * thread_elems(w);
    const struct zt_winograd_source source = { .tiles = &w->tiles,
                                               .planes = &job->data->x_planes,
                                               .data = job->data->x,
                                               .run = w->kernels->input,
                                               .square = ZT_WINOGRAD_TILE,
                                               .vector = w->kernels->vector,
                                               .size = { w->tiles.in[0], w->tiles.in[1] },
                                               .pad = { w->tiles.pad[0], w->tiles.pad[1] },
                                               .vectors = w->depth_vectors };
    zt_winograd_transform(&source, zt_winograd_tile_of(&w->tiles, first), tiles, own, tile_step(w));
    for (int64_t o = 0; o < w->result_vectors; o += w->kernels->panel)
        do_panel(job, first, tiles, o, own);
}

void zt_winograd_run(const struct zt_winograd *w, const struct zt_winograd_data *data, void *workspace, int threads) {
    const int64_t bias = w->result_vectors * w->kernels->vector;
    struct job job = { .w = w, .data = data, .weights = workspace };
    job.bias = job.weights + weight_elems(w);
    job.threads = job.bias + zt_align_floats(bias);
    memset(job.bias, 0, (size_t)bias * sizeof *job.bias);
    if (data->bias)
        memcpy(job.bias, data->bias, (size_t)w->results * sizeof *job.bias);
    zt_parallel_for(threads, w->result_vectors, transform_weights, &job);
    zt_parallel_for(threads, zt_ceil_div(w->tiles.all, w->unit), do_unit, &job);
}
