/* A unit of work is some tiles of the batch: their transforms stay in the second cache. workspace:
 *
 *     [ transformed weights | bias | of each thread: transformed tiles | products ]
 *
 *     weights    [panel of result vectors][element][input channel][result channel of the panel]
 *     tiles      [element][tile][input channel]
 *     products   [element][tile][result channel of a panel] */
#include "ops/conv/winograd/winograd_cpu.h"

#include "base/align.h"
#include "device/threads.h"
#include "ops/conv/winograd/simd_winograd.h"
#include "ops/kernel/tile.h"

#include <string.h>

enum {
    ELEMENTS = ZT_WINOGRAD_ELEMENTS,
    TAPS = 9,
    MOST_TILES = 48, /* of a unit, which has UNIT_BYTES of transforms where that is at least LEAST_TILES */
    LEAST_TILES = 12,
    UNIT_BYTES = 3 << 18
};

struct zt_winograd {
    const struct zt_winograd_kernels *kernels;
    enum zt_conv_direction direction;
    int64_t samples, depth, results;  /* channels of x and of y */
    int64_t in[2], wanted[2], pad[2]; /* rows, columns: of x, of y */
    int64_t tiles[2], unit, all;      /* of a sample; of a unit; of the batch */
    int64_t depth_vectors, result_vectors;
};

/* ---- geometry ---- */

/* A product costs as much as one of the direct convolution, a transformed weight some sixteen, and moving the tiles
 * some vectors for each vector of channels. */
static bool pays(const struct zt_winograd *w) {
    const double tiles = (double)w->all, depth = (double)w->depth_vectors, results = (double)w->result_vectors;
    const double vector = w->kernels->vector,
                 direct = (double)(w->wanted[0] * w->wanted[1] * w->samples) * TAPS * (double)w->depth * results;
    const double products = tiles * ELEMENTS * depth * vector * results;
    const double transforms = tiles * (60 * depth + 70 * results) + depth * vector * results * 200;
    return products + transforms < 0.9 * direct;
}

static bool fits(const struct zt_conv *c) {
    const struct zt_window *w = &c->window;
    if (w->axes != 2 || c->groups != 1)
        return false;
    for (int a = 0; a < 2; a++)
        if (w->kernel[a] != 3 || w->stride[a] != 1 || w->dilation[a] != 1 || w->pad[a] < 0 || w->pad[a] > 2)
            return false;
    return true;
}

static int64_t tiles_of_unit(const struct zt_winograd *w) {
    const int64_t vectors = w->depth_vectors + zt_min_int(w->result_vectors, w->kernels->panel);
    const int64_t fit = UNIT_BYTES / (ELEMENTS * vectors * w->kernels->vector * (int64_t)sizeof(float));
    return fit < LEAST_TILES ? LEAST_TILES : fit > MOST_TILES ? MOST_TILES : fit / 6 * 6;
}

const struct zt_winograd *zt_winograd_make(struct zt_arena *arena, const struct zt_winograd_wish *wish) {
    const struct zt_winograd_kernels *kernels = zt_winograd_kernels();
    const struct zt_conv *c = wish->conv;
    const bool forward = wish->direction == ZT_CONV_TO_Y;
    if (!kernels || !fits(c))
        return NULL;
    struct zt_winograd *w = ZT_NEW(arena, struct zt_winograd);
    *w = (struct zt_winograd){ .kernels = kernels,
                               .direction = wish->direction,
                               .samples = c->n,
                               .depth = forward ? c->c : c->m,
                               .results = forward ? c->m : c->c,
                               .wanted = { wish->rows, wish->columns } };
    w->depth_vectors = zt_ceil_div(w->depth, kernels->vector);
    w->result_vectors = zt_ceil_div(w->results, kernels->vector);
    for (int a = 0; a < 2; a++) {
        w->in[a] = forward ? c->window.in[a] : c->window.out[a];
        w->pad[a] = forward ? c->window.pad[a] : 2 - c->window.pad[a];
        w->tiles[a] = zt_ceil_div(w->wanted[a], ZT_WINOGRAD_RESULTS);
    }
    w->all = w->samples * w->tiles[0] * w->tiles[1];
    w->unit = tiles_of_unit(w);
    return pays(w) ? w : NULL;
}

const struct zt_layout *zt_winograd_layout(struct zt_arena *arena, const struct zt_layout *given, enum zt_dtype dtype,
                                           const struct zt_shape *shape) {
    const struct zt_layout *layout = zt_layout_vector(arena, given, dtype, shape);
    struct zt_planes planes;
    zt_planes_of(layout, shape, &planes);
    return planes.vector % zt_winograd_kernels()->vector == 0 ? layout : zt_layout_vector(arena, NULL, dtype, shape);
}

static int64_t aligned(int64_t elems) {
    return zt_align_64(elems * (int64_t)sizeof(float)) / (int64_t)sizeof(float);
}

static int64_t weight_elems(const struct zt_winograd *w) {
    return ELEMENTS * w->depth_vectors * w->result_vectors * w->kernels->vector * w->kernels->vector;
}

static int64_t tile_elems(const struct zt_winograd *w) {
    return aligned(ELEMENTS * w->unit * w->depth_vectors * w->kernels->vector);
}

static int64_t thread_elems(const struct zt_winograd *w) {
    return tile_elems(w) + aligned(ELEMENTS * w->unit * w->kernels->panel * w->kernels->vector);
}

size_t zt_winograd_bytes(const struct zt_winograd *w, int threads) {
    return (size_t)(weight_elems(w) + aligned(w->result_vectors * w->kernels->vector) + threads * thread_elems(w)) *
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
    const bool forward = w->direction == ZT_CONV_TO_Y;
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

/* ---- tiles ---- */

struct tile {
    int64_t sample, row, column;
};

static struct tile tile_of(const struct zt_winograd *w, int64_t index) {
    const int64_t in_sample = w->tiles[0] * w->tiles[1], at = index % in_sample;
    return (struct tile){ index / in_sample, at / w->tiles[1], at % w->tiles[1] };
}

static int64_t vector_at(const struct zt_planes *p, int64_t channel) {
    return channel / p->vector * p->group + channel % p->vector;
}

/* A tile that reaches into the padding: the pixels inside, in the rows and columns of `to`. */
static void copy_tile(const struct zt_winograd *w, const struct zt_planes *p, const float *x, const int64_t *corner,
                      float *to) {
    const size_t bytes = (size_t)w->kernels->vector * sizeof *to;
    for (int64_t i = 0; i < ELEMENTS; i++, to += w->kernels->vector) {
        const int64_t row = corner[0] + i / ZT_WINOGRAD_TILE, column = corner[1] + i % ZT_WINOGRAD_TILE;
        if (row < 0 || row >= w->in[0] || column < 0 || column >= w->in[1])
            memset(to, 0, bytes);
        else
            memcpy(to, x + (row * w->in[1] + column) * p->pixel, bytes);
    }
}

static void transform_tile(const struct job *job, int64_t index, float *to, int64_t step) {
    const struct zt_winograd *w = job->w;
    const struct zt_planes *p = &job->data->x_planes;
    const struct tile t = tile_of(w, index);
    const int64_t corner[2] = { t.row * ZT_WINOGRAD_RESULTS - w->pad[0], t.column * ZT_WINOGRAD_RESULTS - w->pad[1] };
    const int64_t lanes = w->kernels->vector;
    const bool inside = corner[0] >= 0 && corner[0] + ZT_WINOGRAD_TILE <= w->in[0] && corner[1] >= 0 &&
                        corner[1] + ZT_WINOGRAD_TILE <= w->in[1];
    float copy[ELEMENTS * 16];
    for (int64_t g = 0; g < w->depth_vectors; g++) {
        const float *x = job->data->x + t.sample * p->sample + vector_at(p, g * lanes);
        if (inside) {
            w->kernels->input(x + (corner[0] * w->in[1] + corner[1]) * p->pixel, w->in[1] * p->pixel, p->pixel,
                              to + g * lanes, step);
        } else {
            copy_tile(w, p, x, corner, copy);
            w->kernels->input(copy, ZT_WINOGRAD_TILE * lanes, lanes, to + g * lanes, step);
        }
    }
}

/* ---- results ---- */

/* The places of a tile's results in a plane of y; NULL beyond the last row and column. */
static void find_results(const struct zt_winograd *w, const struct zt_planes *p, const struct tile *t, float *plane,
                         float **y) {
    for (int i = 0; i < 4; i++) {
        const int64_t row = t->row * ZT_WINOGRAD_RESULTS + i / ZT_WINOGRAD_RESULTS;
        const int64_t column = t->column * ZT_WINOGRAD_RESULTS + i % ZT_WINOGRAD_RESULTS;
        y[i] = row < w->wanted[0] && column < w->wanted[1] ? plane + (row * w->wanted[1] + column) * p->pixel : NULL;
    }
}

static void give_tile(const struct job *job, int64_t index, int64_t vector, const float *m, int64_t step) {
    const struct zt_winograd *w = job->w;
    const struct zt_winograd_data *d = job->data;
    const struct zt_planes *p = &d->y_planes;
    const struct tile t = tile_of(w, index);
    const struct zt_winograd_finish finish = { job->bias + vector * w->kernels->vector, d->relu };
    const int64_t plane = t.sample * p->sample + vector_at(p, vector * w->kernels->vector);
    if (d->position) {
        const int64_t at = plane + (t.row * w->tiles[1] + t.column) * p->pixel;
        w->kernels->pool(m, step, &finish, d->y + at, d->position + at);
    } else {
        float *y[4];
        find_results(w, p, &t, d->y + plane, y);
        w->kernels->output(m, step, &finish, y);
    }
}

static void do_panel(const struct job *job, int64_t first_tile, int64_t tiles, int64_t first, float *own) {
    const struct zt_winograd *w = job->w;
    const int64_t lanes = w->kernels->vector, depth = w->depth_vectors * lanes;
    const int vectors = vectors_of_panel(w, first);
    const int64_t row = vectors * lanes, step = w->unit * row;
    float *products = own + tile_elems(w);
    for (int64_t e = 0; e < ELEMENTS; e++)
        w->kernels->product(&(struct zt_winograd_product){ .v = own + e * w->unit * depth,
                                                           .u = panel_weights(job, first) + e * depth * row,
                                                           .m = products + e * step,
                                                           .v_row = depth,
                                                           .tiles = tiles,
                                                           .depth = depth,
                                                           .vectors = vectors });
    for (int64_t t = 0; t < tiles; t++)
        for (int o = 0; o < vectors; o++)
            give_tile(job, first_tile + t, first + o, products + t * row + o * lanes, step);
}

static void do_unit(void *arg, int64_t unit) {
    const struct job *job = arg;
    const struct zt_winograd *w = job->w;
    const int64_t first = unit * w->unit, tiles = zt_min_int(w->unit, w->all - first);
    const int64_t depth = w->depth_vectors * w->kernels->vector;
    float *own = job->threads + zt_parallel_thread() * thread_elems(w);
    for (int64_t t = 0; t < tiles; t++)
        transform_tile(job, first + t, own + t * depth, w->unit * depth);
    for (int64_t o = 0; o < w->result_vectors; o += w->kernels->panel)
        do_panel(job, first, tiles, o, own);
}

void zt_winograd_run(const struct zt_winograd *w, const struct zt_winograd_data *data, void *workspace, int threads) {
    const int64_t bias = w->result_vectors * w->kernels->vector;
    struct job job = { .w = w, .data = data, .weights = workspace };
    job.bias = job.weights + weight_elems(w);
    job.threads = job.bias + aligned(bias);
    memset(job.bias, 0, (size_t)bias * sizeof *job.bias);
    if (data->bias)
        memcpy(job.bias, data->bias, (size_t)w->results * sizeof *job.bias);
    zt_parallel_for(threads, w->result_vectors, transform_weights, &job);
    zt_parallel_for(threads, zt_ceil_div(w->all, w->unit), do_unit, &job);
}
