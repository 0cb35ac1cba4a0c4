/* Many tiles: a unit of work is some tiles of the batch, whose transforms stay in the second cache. workspace:
 *
 *     [ bias | transformed weights | of each thread: transformed tiles | products ]
 *
 *     weights    [panel of result vectors][element][input channel][result channel of the panel]
 *     tiles      [element][tile][input channel]
 *     products   [element][tile][result channel of a panel]
 *
 * Few tiles, for which the transformed weights would be read more often than used: all tiles are transformed first, and
 * a unit of work is a panel, whose weights are transformed CHUNK input channels at a time. workspace:
 *
 *     [ bias | transformed tiles | of each thread: weights of a chunk | products ] */
#include "ops/cpu/winograd/winograd.h"

#include "base/align.h"
#include "device/threads.h"
#include "ops/cpu/winograd/tiles.h"
#include "ops/kernel/tile.h"

#include <string.h>

enum {
    ELEMENTS = ZT_WINOGRAD_ELEMENTS,
    TAPS = 9,
    MOST_PANEL = 4, /* of any kernels */
    CHUNK = 64,
    FEW = 192, /* tiles whose products stay in the second cache */
    FEW_PANELS = 4
};

struct zt_winograd {
    const struct zt_winograd_kernels *kernels;
    bool backward, few; /* few: tiles, which are one unit */
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

static struct zt_winograd describe(const struct zt_winograd_wish *wish, bool few) {
    const struct zt_winograd_conv *c = &wish->conv;
    struct zt_winograd w = { .kernels = zt_winograd_kernels(),
                             .backward = wish->backward,
                             .few = few,
                             .samples = c->samples,
                             .depth = wish->backward ? c->results : c->channels,
                             .results = wish->backward ? c->channels : c->results };
    w.depth_vectors = zt_ceil_div(w.depth, w.kernels->vector);
    w.result_vectors = zt_ceil_div(w.results, w.kernels->vector);
    set_tiles(&w, wish);
    w.unit = few ? w.tiles.all
                 : zt_winograd_unit(w.kernels, w.depth_vectors + zt_min_int(w.result_vectors, w.kernels->panel));
    return w;
}

/* A product costs as much as one of the direct convolution, and moving the tiles some vectors for each vector of
 * channels. A transformed weight costs some twelve products, half of them where it stays in cache. */
static double share_of(const struct zt_winograd *w) {
    const double tiles = (double)w->tiles.all, depth = (double)w->depth_vectors, results = (double)w->result_vectors;
    const double vector = w->kernels->vector;
    const double direct = (double)(w->tiles.out[0] * w->tiles.out[1] * w->samples) * TAPS * (double)w->depth * results;
    const double products = tiles * ELEMENTS * depth * vector * results * (w->few ? 1 + 3.0 / CHUNK : 1);
    const double transforms = tiles * ((w->few ? 90 : 60) * depth + 70 * results);
    const double weights = depth * vector * results * (w->few ? 100 : 200);
    return zt_winograd_share_of(direct, products + transforms + weights);
}

/* The faster of both ways; false where neither is used. */
static bool choose(const struct zt_winograd_wish *wish, struct zt_winograd *to, double *share) {
    *share = 1;
    for (int few = 0; few < 2 && zt_winograd_kernels(); few++) {
        const struct zt_winograd w = describe(wish, few);
        const bool fits = !few || (w.tiles.all <= FEW && w.result_vectors >= (int64_t)FEW_PANELS * w.kernels->panel);
        const double of_w = fits ? share_of(&w) : 1;
        if (of_w < *share) {
            *share = of_w;
            *to = w;
        }
    }
    return *share < 1;
}

double zt_winograd_share(const struct zt_winograd_wish *wish) {
    struct zt_winograd w;
    double share;
    choose(wish, &w, &share);
    return share;
}

const struct zt_winograd *zt_winograd_make(struct zt_arena *arena, const struct zt_winograd_wish *wish) {
    struct zt_winograd w, *made;
    double share;
    if (!choose(wish, &w, &share))
        return NULL;
    made = ZT_NEW(arena, struct zt_winograd);
    *made = w;
    return made;
}

static int64_t bias_elems(const struct zt_winograd *w) {
    return zt_align_floats(w->result_vectors * w->kernels->vector);
}

static int64_t weight_elems(const struct zt_winograd *w) {
    return ELEMENTS * w->depth_vectors * w->result_vectors * w->kernels->vector * w->kernels->vector;
}

static int64_t panel_lanes(const struct zt_winograd *w) {
    return (int64_t)w->kernels->panel * w->kernels->vector;
}

static int64_t chunk_elems(const struct zt_winograd *w) {
    return ELEMENTS * CHUNK * panel_lanes(w);
}

/* From a tile to the next. */
static int64_t tile_pitch(const struct zt_winograd *w) {
    return zt_winograd_pitch(w->kernels, w->depth_vectors);
}

/* From an element of the tiles to the next, and of the products. */
static int64_t tile_step(const struct zt_winograd *w) {
    return zt_winograd_step(w->unit, tile_pitch(w));
}

static int64_t product_step(const struct zt_winograd *w) {
    return zt_winograd_step(w->unit, panel_lanes(w));
}

static int64_t shared_elems(const struct zt_winograd *w) {
    return bias_elems(w) + (w->few ? ELEMENTS * tile_step(w) : weight_elems(w));
}

static int64_t thread_elems(const struct zt_winograd *w) {
    return ELEMENTS * product_step(w) + (w->few ? chunk_elems(w) : ELEMENTS * tile_step(w));
}

size_t zt_winograd_bytes(const struct zt_winograd *w, int threads) {
    return (size_t)(shared_elems(w) + threads * thread_elems(w)) * sizeof(float);
}

/* ---- weights ---- */

struct job {
    const struct zt_winograd *w;
    const struct zt_winograd_data *data;
    float *bias, *weights, *tiles, *threads;
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
    if (used < lanes)
        memset(g, 0, (size_t)(TAPS * lanes) * sizeof *g);
    for (int64_t l = 0; l < used; l++)
        for (int64_t t = 0; t < TAPS; t++)
            g[t * lanes + l] = from[l * step + (forward ? t : TAPS - 1 - t)];
}

/* Transforms kernels first..end-1 of a vector of results to to[e * step + (k - first) * row]. */
static void transform_kernels(const struct job *job, int64_t vector, const int64_t range[2], int64_t row, float *to) {
    const int64_t step = (range[1] - range[0]) * row;
    float g[TAPS * 16];
    for (int64_t k = range[0]; k < range[1]; k++, to += row) {
        gather(job, vector, k, g);
        job->w->kernels->weight(g, to, step);
    }
}

static void transform_weights(void *arg, int64_t vector) {
    const struct job *job = arg;
    const struct zt_winograd *w = job->w;
    const int64_t lanes = w->kernels->vector, first = vector / w->kernels->panel * w->kernels->panel;
    const int64_t all[2] = { 0, w->depth_vectors * lanes };
    transform_kernels(job, vector, all, vectors_of_panel(w, first) * lanes,
                      panel_weights(job, first) + (vector - first) * lanes);
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

/* Tiles first_tile, ... of the panel that begins with vector `first`. */
static void give_panel(const struct job *job, int64_t first_tile, int64_t tiles, int64_t first, const float *products) {
    const struct zt_winograd *w = job->w;
    const int64_t lanes = w->kernels->vector, step = product_step(w);
    const int vectors = vectors_of_panel(w, first);
    struct zt_winograd_finish finish[MOST_PANEL];
    int64_t channel[MOST_PANEL];
    for (int o = 0; o < vectors; o++) {
        finish[o] = (struct zt_winograd_finish){ .bias = job->bias + (first + o) * lanes, .relu = job->data->relu };
        channel[o] = zt_planes_channel(&job->data->y_planes, (first + o) * lanes);
    }
    struct zt_winograd_tile t = zt_winograd_tile_of(&w->tiles, first_tile);
    for (int64_t i = 0; i < tiles; i++, products += vectors * lanes, zt_winograd_next(&w->tiles, &t))
        for (int o = 0; o < vectors; o++)
            give_vector(job, &t, channel[o], &finish[o], products + o * lanes, step);
}

static void transform_tiles(const struct job *job, int64_t first, int64_t tiles, float *to) {
    const struct zt_winograd *w = job->w;
    const struct zt_winograd_source source = { .tiles = &w->tiles,
                                               .planes = &job->data->x_planes,
                                               .data = job->data->x,
                                               .run = w->kernels->input,
                                               .square = ZT_WINOGRAD_TILE,
                                               .vector = w->kernels->vector,
                                               .size = { w->tiles.in[0], w->tiles.in[1] },
                                               .pad = { w->tiles.pad[0], w->tiles.pad[1] },
                                               .vectors = w->depth_vectors,
                                               .pitch = tile_pitch(w) };
    zt_winograd_transform(&source, zt_winograd_tile_of(&w->tiles, first), tiles, to, tile_step(w));
}

/* Weights [element][channel first..end-1][result channel of the panel] of a panel that begins with vector `first`. */
struct part {
    const float *weights;
    int64_t first, range[2];
};

/* products (+)= tiles * weights, element by element. */
static void multiply(const struct zt_winograd *w, const struct part *p, const float *tiles, int64_t count,
                     float *products) {
    const int vectors = vectors_of_panel(w, p->first);
    const int64_t row = vectors * w->kernels->vector, depth = p->range[1] - p->range[0];
    for (int64_t e = 0; e < ELEMENTS; e++)
        w->kernels->product(&(struct zt_winograd_product){ .a = tiles + e * tile_step(w) + p->range[0],
                                                           .b = p->weights + e * depth * row,
                                                           .m = products + e * product_step(w),
                                                           .a_row = tile_pitch(w),
                                                           .a_step = 1,
                                                           .b_step = row,
                                                           .m_row = row,
                                                           .rows = count,
                                                           .depth = depth,
                                                           .vectors = vectors,
                                                           .add = p->range[0] > 0 });
}

/* ---- many tiles ---- */

static void do_unit(void *arg, int64_t unit) {
    const struct job *job = arg;
    const struct zt_winograd *w = job->w;
    const int64_t first = unit * w->unit, tiles = zt_min_int(w->unit, w->tiles.all - first);
    float *own = job->threads + zt_parallel_thread() * thread_elems(w), *products = own + ELEMENTS * tile_step(w);
    transform_tiles(job, first, tiles, own);
    for (int64_t o = 0; o < w->result_vectors; o += w->kernels->panel) {
        multiply(w, &(struct part){ panel_weights(job, o), o, { 0, w->depth_vectors * w->kernels->vector } }, own,
                 tiles, products);
        give_panel(job, first, tiles, o, products);
    }
}

static void run_many(struct job *job, int threads) {
    const struct zt_winograd *w = job->w;
    job->weights = job->bias + bias_elems(w);
    zt_parallel_for(threads, w->result_vectors, transform_weights, job);
    zt_parallel_for(threads, zt_ceil_div(w->tiles.all, w->unit), do_unit, job);
}

/* ---- few tiles ---- */

static void transform_share(void *arg, int64_t share) {
    const struct job *job = arg;
    const int64_t first = share * ZT_WINOGRAD_SHARE;
    transform_tiles(job, first, zt_min_int(ZT_WINOGRAD_SHARE, job->w->tiles.all - first),
                    job->tiles + first * tile_pitch(job->w));
}

static void do_panel(void *arg, int64_t panel) {
    const struct job *job = arg;
    const struct zt_winograd *w = job->w;
    const int64_t lanes = w->kernels->vector, first = panel * w->kernels->panel;
    const int vectors = vectors_of_panel(w, first);
    float *weights = job->threads + zt_parallel_thread() * thread_elems(w), *products = weights + chunk_elems(w);
    struct part part = { weights, first, { 0 } };
    for (int64_t k = 0; k < w->depth_vectors * lanes; k = part.range[1]) {
        part.range[0] = k;
        part.range[1] = zt_min_int(k + CHUNK, w->depth_vectors * lanes);
        for (int o = 0; o < vectors; o++)
            transform_kernels(job, first + o, part.range, vectors * lanes, weights + o * lanes);
        multiply(w, &part, job->tiles, w->tiles.all, products);
    }
    give_panel(job, 0, w->tiles.all, first, products);
}

static void run_few(struct job *job, int threads) {
    const struct zt_winograd *w = job->w;
    job->tiles = job->bias + bias_elems(w);
    zt_parallel_for(threads, zt_ceil_div(w->tiles.all, ZT_WINOGRAD_SHARE), transform_share, job);
    zt_parallel_for(threads, zt_ceil_div(w->result_vectors, w->kernels->panel), do_panel, job);
}

void zt_winograd_run(const struct zt_winograd *w, const struct zt_winograd_data *data, void *workspace, int threads) {
    struct job job = { .w = w, .data = data, .bias = workspace };
    job.threads = job.bias + shared_elems(w);
    memset(job.bias, 0, (size_t)bias_elems(w) * sizeof *job.bias);
    if (data->bias)
        memcpy(job.bias, data->bias, (size_t)w->results * sizeof *job.bias);
    if (w->few)
        run_few(&job, threads);
    else
        run_many(&job, threads);
}
