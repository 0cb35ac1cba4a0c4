/* Many tiles: a unit of work is some tiles of the batch, whose transforms stay in the second cache. workspace:
 *
 *     [ bias | transformed weights | of each thread: transformed tiles | products ]
 *
 *     weights    [phase of results][panel of result vectors][element][depth][result channel of the panel]
 *     tiles      [element][tile][depth]
 *     products   [element][tile][result channel of a panel]
 *
 * where depth is the input channels, of each phase that is summed. Of phases beside each other, tiles and products are
 * those of one.
 *
 * Few tiles, for which the transformed weights would be read more often than used: all tiles of all phases are
 * transformed first, and a unit of work is a panel, whose weights are transformed CHUNK of the depth at a time.
 * workspace:
 *
 *     [ bias | transformed tiles | of each thread: weights of a chunk | products ] */
#include "ops/cpu/winograd/winograd.h"

#include "base/align.h"
#include "device/threads.h"
#include "ops/cpu/winograd/tiles.h"
#include "ops/kernel/tile.h"

#include <string.h>

enum {
    MOST_PHASES = 4,
    MOST_PANEL = 4, /* of any kernels */
    MOST_DEPTHS = 2,
    CHUNK = 64,
    FEW = 192, /* tiles whose products stay in the second cache */
    FEW_PANELS = 4
};

struct zt_winograd {
    const struct zt_winograd_kernels *kernels;
    bool backward, few; /* few: tiles, which are one unit */
    struct zt_winograd_tiles tiles;
    struct zt_winograd_phase phase[MOST_PHASES];
    int deep, wide;                /* phases that are summed; phases of results beside each other */
    int64_t stride;                /* of the convolution */
    int64_t used;                  /* elements of all phases */
    int64_t kernel_elems;          /* of the convolution's kernel */
    int64_t in[2], out[2];         /* rows, columns: of x, of the wanted y */
    int64_t channels, results;     /* of x and of y */
    int64_t unit;                  /* tiles */
    int64_t vectors;               /* of channels of x */
    int64_t depth, result_vectors; /* depth: words */
};

/* Words of the depth of a phase. */
static int64_t phase_depth(const struct zt_winograd *w) {
    return w->vectors * w->kernels->vector / w->kernels->depths;
}

/* Those of channels; behind them, a phase's last vector has zeros. */
static int64_t filled_depth(const struct zt_winograd *w) {
    return zt_ceil_div(w->channels, w->kernels->depths);
}

/* ---- geometry ---- */

static void set_tiles(struct zt_winograd *w, const struct zt_winograd_wish *wish) {
    const struct zt_winograd_conv *c = &wish->conv;
    w->tiles.all = c->samples;
    for (int a = 0; a < 2; a++) {
        w->in[a] = wish->backward ? c->out[a] : c->in[a];
        w->out[a] = a == 0 ? wish->rows : wish->columns;
        w->tiles.tiles[a] = zt_ceil_div(w->out[a], ZT_WINOGRAD_RESULTS * (wish->backward ? c->stride : 1));
        w->tiles.all *= w->tiles.tiles[a];
    }
}

static struct zt_winograd describe(const struct zt_winograd_wish *wish, bool few) {
    const struct zt_winograd_conv *c = &wish->conv;
    const int phases = zt_winograd_phases(c);
    const bool is_wide = wish->backward && c->stride > 1;
    struct zt_winograd w = { .kernels = zt_winograd_kernels_of(c),
                             .backward = wish->backward,
                             .few = few,
                             .deep = is_wide ? 1 : phases,
                             .wide = is_wide ? phases : 1,
                             .stride = c->stride,
                             .kernel_elems = (int64_t)c->kernel * c->kernel,
                             .channels = wish->backward ? c->results : c->channels,
                             .results = wish->backward ? c->channels : c->results };
    for (int p = 0; p < phases; p++) {
        w.phase[p] = zt_winograd_phase_of(c, w.backward, p);
        w.used += w.phase[p].used_count;
    }
    w.vectors = zt_ceil_div(w.channels, w.kernels->vector);
    w.depth = w.deep * phase_depth(&w);
    w.result_vectors = zt_ceil_div(w.results, w.kernels->vector);
    set_tiles(&w, wish);
    w.unit =
        few ? w.tiles.all
            : zt_winograd_unit(w.kernels, w.depth + zt_min_int(w.result_vectors, w.kernels->panel) * w.kernels->vector);
    return w;
}

/* The time of products over that where their factors are in the first cache. Words of bfloat16 come from the second and
 * third cache more slowly than they are multiplied. */
static double fetched_share(const struct zt_winograd *w) {
    if (w->kernels->depths == 1)
        return w->few ? 1 + 3.0 / CHUNK : 1;
    return w->few ? 1.6 : 1 + 14.0 / (double)w->unit;
}

/* A product of words costs as much as one of the direct convolution, and moving the tiles some vectors for each vector
 * of channels. A transformed weight costs some twelve products, half of them where it stays in cache. */
static double share_of(const struct zt_winograd *w, int64_t samples) {
    const double elements = w->kernels->elements, tiles = (double)w->tiles.all;
    const double results = (double)w->result_vectors, depths = w->kernels->depths, depth = depths * (double)w->depth;
    const double places = (double)(w->out[0] * w->out[1] * samples) / w->wide;
    const double direct = places * (double)(w->kernel_elems * w->channels) * results / depths;
    const double pairs = (double)filled_depth(w) * results;
    const double products = tiles * (double)w->used * pairs * fetched_share(w);
    const double moved = w->kernels->taps == 3 ? 60 * depth / w->kernels->vector + 70 * results
                                               : 60 * depth / w->kernels->vector + 60 * results + 45;
    const double transforms = tiles * w->wide * moved * (w->few ? 1.5 : 1);
    const double weights = w->wide * elements * depth * results * (w->few ? 6.3 : 12.5);
    return zt_winograd_share_of(direct, products + transforms + weights);
}

/* The faster of both ways; false where neither is used. */
static bool choose(const struct zt_winograd_wish *wish, struct zt_winograd *to, double *share) {
    *share = 1;
    for (int few = 0; few < 2 && zt_winograd_kernels_of(&wish->conv); few++) {
        const struct zt_winograd w = describe(wish, few);
        const bool fits = !few || (w.tiles.all <= FEW && w.result_vectors >= (int64_t)FEW_PANELS * w.kernels->panel);
        const double of_w = fits ? share_of(&w, wish->conv.samples) : 1;
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

/* Of a vector of results of a phase. */
static int64_t vector_elems(const struct zt_winograd *w) {
    return w->kernels->elements * w->depth * w->kernels->vector;
}

static int64_t panel_lanes(const struct zt_winograd *w) {
    return (int64_t)w->kernels->panel * w->kernels->vector;
}

static int64_t chunk_elems(const struct zt_winograd *w) {
    return w->kernels->elements * CHUNK * panel_lanes(w);
}

/* From a tile to the next. */
static int64_t tile_pitch(const struct zt_winograd *w) {
    return zt_winograd_pitch(w->depth);
}

/* From an element of the tiles to the next, and of the products. */
static int64_t tile_step(const struct zt_winograd *w) {
    return zt_winograd_step(w->unit, tile_pitch(w));
}

static int64_t product_step(const struct zt_winograd *w) {
    return zt_winograd_step(w->unit, panel_lanes(w));
}

/* The transformed tiles of a unit, of a phase of results. */
static int64_t tile_elems(const struct zt_winograd *w) {
    return w->kernels->elements * tile_step(w);
}

static int64_t shared_elems(const struct zt_winograd *w) {
    return bias_elems(w) + w->wide * (w->few ? tile_elems(w) : w->result_vectors * vector_elems(w));
}

static int64_t thread_elems(const struct zt_winograd *w) {
    return w->kernels->elements * product_step(w) + (w->few ? chunk_elems(w) : tile_elems(w));
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

static float *panel_weights(const struct job *job, int phase, int64_t first) {
    return job->weights + (phase * job->w->result_vectors + first) * vector_elems(job->w);
}

/* A vector of results of a phase. */
struct results {
    int phase;
    int64_t vector;
};

static inline float weight_at(bool is_float, const void *weights, int64_t at) {
    return is_float ? ((const float *)weights)[at] : zt_bfloat_to_float(((const uint16_t *)weights)[at]);
}

/* Kernel `k` of the depth, not in words, of a vector of results as [tap][result]. */
static void gather(const struct job *job, const struct results *r, int64_t k, float *g) {
    const struct zt_winograd *w = job->w;
    const int64_t lanes = w->kernels->vector, padded = w->vectors * lanes, channel = k % padded;
    const int64_t taps = w->kernels->taps * w->kernels->taps, *tap = w->phase[r->phase + k / padded].tap;
    const int64_t step = w->kernel_elems * (w->backward ? 1 : w->channels);
    const int64_t used = channel < w->channels ? zt_min_int(lanes, w->results - r->vector * lanes) : 0;
    const int64_t from = w->kernel_elems * (w->backward ? channel * w->results : channel) + r->vector * lanes * step;
    const bool is_float = w->kernels->depths == 1;
    if (used < lanes)
        memset(g, 0, (size_t)(taps * lanes) * sizeof *g);
    for (int64_t l = 0; l < used; l++)
        for (int64_t t = 0; t < taps; t++)
            g[t * lanes + l] = tap[t] < 0 ? 0 : weight_at(is_float, job->data->w, from + l * step + tap[t]);
}

/* Transforms the kernels of words first..end-1 of the depth of a vector of results to to[e * step + (k - first) * row].
 */
static void transform_kernels(const struct job *job, const struct results *r, const int64_t range[2], int64_t row,
                              float *to) {
    const int64_t step = (range[1] - range[0]) * row;
    const struct zt_winograd_kernels *kernels = job->w->kernels;
    const int64_t depths = kernels->depths, elems = (int64_t)kernels->taps * kernels->taps * kernels->vector;
    float g[MOST_DEPTHS * ZT_WINOGRAD_TAPS * 16];
    for (int64_t k = range[0]; k < range[1]; k++, to += row) {
        for (int64_t d = 0; d < depths; d++)
            gather(job, r, k * depths + d, g + d * elems);
        kernels->weight(g, to, step);
    }
}

/* Of vector `index` of the results of all phases. */
static void transform_weights(void *arg, int64_t index) {
    const struct job *job = arg;
    const struct zt_winograd *w = job->w;
    const struct results r = { (int)(index / w->result_vectors), index % w->result_vectors };
    const int64_t lanes = w->kernels->vector, first = r.vector / w->kernels->panel * w->kernels->panel;
    const int64_t all[2] = { 0, w->depth };
    transform_kernels(job, &r, all, vectors_of_panel(w, first) * lanes,
                      panel_weights(job, r.phase, first) + (r.vector - first) * lanes);
}

/* ---- results ---- */

/* From a result of a phase to the next. */
static int64_t result_step(const struct zt_winograd *w) {
    return w->backward ? w->stride : 1;
}

/* The places of a tile's results of a phase in their plane; -1 beyond the last row and column. */
static void find_results(const struct zt_winograd *w, int phase, int64_t pixel, const struct zt_winograd_tile *t,
                         int64_t *at) {
    const int64_t step = result_step(w), *first = w->phase[phase].result;
    const int64_t row = first[0] + ZT_WINOGRAD_RESULTS * step * t->row;
    const int64_t column = first[1] + ZT_WINOGRAD_RESULTS * step * t->column;
    const int64_t corner = (row * w->out[1] + column) * pixel, right = step * pixel, below = right * w->out[1];
    const bool rows[2] = { row < w->out[0], row + step < w->out[0] };
    const bool columns[2] = { column < w->out[1], column + step < w->out[1] };
    for (int i = 0; i < 4; i++)
        at[i] = rows[i / 2] && columns[i % 2] ? corner + i / 2 * below + i % 2 * right : -1;
}

/* Element `at` of a tensor of planes. */
static void *element(const struct zt_winograd *w, const void *data, int64_t at) {
    return (char *)data + at * w->kernels->bytes;
}

/* Fetches what the tile below writes, and reads of the tensor that is added. */
static void fetch_below(const struct zt_winograd_data *d, const struct zt_winograd *w, int64_t plane,
                        const int64_t *at) {
    const int64_t below = plane + ZT_WINOGRAD_RESULTS * result_step(w) * w->out[1] * d->y_planes.pixel;
    for (int i = 0; i < 4 && at[i] >= 0; i++) {
        __builtin_prefetch(element(w, d->y, below + at[i]), 1);
        if (d->added)
            __builtin_prefetch(element(w, d->added, below + at[i]));
    }
}

/* A tile of a phase, and a vector of its channels, whose plane begins at `channel` in a sample. */
struct place {
    int phase;
    const struct zt_winograd_tile *tile;
    int64_t channel;
};

/* m: the products. */
static void give_vector(const struct job *job, const struct place *to, const struct zt_winograd_finish *finish,
                        const float *m, int64_t step) {
    const struct zt_winograd *w = job->w;
    const struct zt_winograd_data *d = job->data;
    const struct zt_planes *p = &d->y_planes;
    const struct zt_winograd_tile *t = to->tile;
    const int64_t plane = t->sample * p->sample + to->channel;
    if (d->position) {
        const int64_t at = plane + (t->row * w->tiles.tiles[1] + t->column) * p->pixel;
        w->kernels->pool(m, step, finish, element(w, d->y, at), d->position + at);
    } else {
        struct zt_winograd_finish here = *finish;
        int64_t at[4];
        here.added = d->added ? element(w, d->added, plane) : NULL;
        find_results(w, to->phase, p->pixel, t, at);
        fetch_below(d, w, plane, at);
        w->kernels->output(m, step, &here, element(w, d->y, plane), at);
    }
}

/* Tiles first_tile, ... of the panel that begins with vector `first` of a phase. */
static void give_panel(const struct job *job, int64_t first_tile, int64_t tiles, const struct results *first,
                       const float *products) {
    const struct zt_winograd *w = job->w;
    const int64_t lanes = w->kernels->vector, step = product_step(w);
    const int vectors = vectors_of_panel(w, first->vector);
    struct zt_winograd_finish finish[MOST_PANEL];
    int64_t channel[MOST_PANEL];
    for (int o = 0; o < vectors; o++) {
        const int64_t at = (first->vector + o) * lanes;
        finish[o] = (struct zt_winograd_finish){ .bias = job->bias + at, .relu = job->data->relu };
        channel[o] = zt_planes_channel(&job->data->y_planes, at);
    }
    struct zt_winograd_tile t = zt_winograd_tile_of(&w->tiles, first_tile);
    for (int64_t i = 0; i < tiles; i++, products += vectors * lanes, zt_winograd_next(&w->tiles, &t))
        for (int o = 0; o < vectors; o++)
            give_vector(job, &(struct place){ first->phase, &t, channel[o] }, &finish[o], products + o * lanes, step);
}

/* Of a phase of results: of the phases that it sums. */
static void transform_tiles(const struct job *job, int phase, int64_t first, int64_t tiles, float *to) {
    const struct zt_winograd *w = job->w;
    struct zt_winograd_source source = { .tiles = &w->tiles,
                                         .kernels = w->kernels,
                                         .planes = &job->data->x_planes,
                                         .data = job->data->x,
                                         .run = w->kernels->input,
                                         .square = w->kernels->square,
                                         .depths = 1,
                                         .size = { w->in[0], w->in[1] },
                                         .stride = w->backward ? 1 : (int)w->stride,
                                         .vectors = w->vectors,
                                         .pitch = tile_pitch(w) };
    for (int d = 0; d < w->deep; d++, to += phase_depth(w)) {
        memcpy(source.origin, w->phase[phase + d].origin, sizeof source.origin);
        zt_winograd_transform(&source, zt_winograd_tile_of(&w->tiles, first), tiles, to, tile_step(w));
    }
}

/* Weights [element][first..end-1 of the depth][result channel of the panel] of a panel that begins with vector
 * `first`. */
struct part {
    const float *weights;
    int phase; /* the first */
    int64_t first, range[2];
};

/* Advances to the end of the phases of the depth from k on that use element e, or of those that do not; where zeros lie
 * between phases, of one. */
static int64_t end_of_run(const struct zt_winograd *w, const struct part *p, int64_t e, int64_t k) {
    const int64_t of_phase = phase_depth(w);
    const bool used = w->phase[p->phase + k / of_phase].used[e];
    do
        k = (k / of_phase + 1) * of_phase;
    while (k < p->range[1] && filled_depth(w) == of_phase && w->phase[p->phase + k / of_phase].used[e] == used);
    return zt_min_int(k, p->range[1]);
}

/* Where the zeros of a phase begin in a run from k to `end`. */
static int64_t filled_end(const struct zt_winograd *w, int64_t k, int64_t end) {
    const int64_t of_phase = phase_depth(w), zeros = of_phase - filled_depth(w);
    return zeros > 0 ? zt_min_int(end, (k / of_phase + 1) * of_phase - zeros) : end;
}

/* products (+)= tiles * weights of element e. */
static void multiply_element(const struct zt_winograd *w, const struct part *p, const float *tiles, int64_t count,
                             float *products, int64_t e) {
    const int vectors = vectors_of_panel(w, p->first);
    const int64_t row = vectors * w->kernels->vector, of_phase = phase_depth(w);
    const float *weights = p->weights + e * (p->range[1] - p->range[0]) * row;
    bool add = p->range[0] > 0;
    for (int64_t k = p->range[0], end; k < p->range[1]; k = end) {
        end = end_of_run(w, p, e, k);
        const int64_t depth = filled_end(w, k, end) - k;
        if (!w->phase[p->phase + k / of_phase].used[e] || depth <= 0)
            continue;
        w->kernels->product(&(struct zt_winograd_product){ .a = tiles + e * tile_step(w) + k,
                                                           .b = weights + (k - p->range[0]) * row,
                                                           .m = products + e * product_step(w),
                                                           .a_row = tile_pitch(w),
                                                           .a_step = 1,
                                                           .b_step = row,
                                                           .m_row = row,
                                                           .rows = count,
                                                           .depth = depth,
                                                           .vectors = vectors,
                                                           .add = add });
        add = true;
    }
    if (!add)
        memset(products + e * product_step(w), 0, (size_t)(count * row) * sizeof *products);
}

static void multiply(const struct zt_winograd *w, const struct part *p, const float *tiles, int64_t count,
                     float *products) {
    for (int64_t e = 0; e < w->kernels->elements; e++)
        multiply_element(w, p, tiles, count, products, e);
}

/* ---- many tiles ---- */

static void do_unit(void *arg, int64_t unit) {
    const struct job *job = arg;
    const struct zt_winograd *w = job->w;
    const int64_t first = unit * w->unit, tiles = zt_min_int(w->unit, w->tiles.all - first);
    float *own = job->threads + zt_parallel_thread() * thread_elems(w), *products = own + tile_elems(w);
    struct results r;
    for (r.phase = 0; r.phase < w->wide; r.phase++) {
        transform_tiles(job, r.phase, first, tiles, own);
        for (r.vector = 0; r.vector < w->result_vectors; r.vector += w->kernels->panel) {
            multiply(w, &(struct part){ panel_weights(job, r.phase, r.vector), r.phase, r.vector, { 0, w->depth } },
                     own, tiles, products);
            give_panel(job, first, tiles, &r, products);
        }
    }
}

static void run_many(struct job *job, int threads) {
    const struct zt_winograd *w = job->w;
    job->weights = job->bias + bias_elems(w);
    zt_parallel_for(threads, w->wide * w->result_vectors, transform_weights, job);
    zt_parallel_for(threads, zt_ceil_div(w->tiles.all, w->unit), do_unit, job);
}

/* ---- few tiles ---- */

static void transform_share(void *arg, int64_t share) {
    const struct job *job = arg;
    const struct zt_winograd *w = job->w;
    const int64_t first = share * ZT_WINOGRAD_SHARE, tiles = zt_min_int(ZT_WINOGRAD_SHARE, w->tiles.all - first);
    for (int p = 0; p < w->wide; p++)
        transform_tiles(job, p, first, tiles, job->tiles + p * tile_elems(w) + first * tile_pitch(w));
}

static int64_t panels_of(const struct zt_winograd *w) {
    return zt_ceil_div(w->result_vectors, w->kernels->panel);
}

/* Of panel `index` of all phases. */
static void do_panel(void *arg, int64_t index) {
    const struct job *job = arg;
    const struct zt_winograd *w = job->w;
    const struct results first = { (int)(index / panels_of(w)), index % panels_of(w) * w->kernels->panel };
    const int64_t lanes = w->kernels->vector;
    const int vectors = vectors_of_panel(w, first.vector);
    float *weights = job->threads + zt_parallel_thread() * thread_elems(w), *products = weights + chunk_elems(w);
    struct part part = { weights, first.phase, first.vector, { 0 } };
    for (int64_t k = 0; k < w->depth; k = part.range[1]) {
        part.range[0] = k;
        part.range[1] = zt_min_int(k + CHUNK, w->depth);
        for (int o = 0; o < vectors; o++)
            transform_kernels(job, &(struct results){ first.phase, first.vector + o }, part.range, vectors * lanes,
                              weights + o * lanes);
        multiply(w, &part, job->tiles + first.phase * tile_elems(w), w->tiles.all, products);
    }
    give_panel(job, 0, w->tiles.all, &first, products);
}

static void run_few(struct job *job, int threads) {
    const struct zt_winograd *w = job->w;
    job->tiles = job->bias + bias_elems(w);
    zt_parallel_for(threads, zt_ceil_div(w->tiles.all, ZT_WINOGRAD_SHARE), transform_share, job);
    zt_parallel_for(threads, w->wide * panels_of(w), do_panel, job);
}

void zt_winograd_run(const struct zt_winograd *w, const struct zt_winograd_data *data, void *workspace, int threads) {
    struct job job = { .w = w, .data = data, .bias = workspace };
    job.threads = job.bias + shared_elems(w);
    memset(job.bias, 0, (size_t)bias_elems(w) * sizeof *job.bias);
    for (int64_t i = 0; data->bias && i < w->results; i++)
        job.bias[i] = weight_at(w->kernels->depths == 1, data->bias, i);
    if (w->few)
        run_few(&job, threads);
    else
        run_many(&job, threads);
}
