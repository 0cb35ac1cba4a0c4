/* The reference convolutions as products of tiles. For each sample and group, with P places of the result plane and D =
 * channels x kernel positions
 *
 *     y[M, P] = w[M, D] * gathered(x)[D, P]           forward
 *     x[C, P] = w^T[C, D] * gathered(y)[D, P]         backward: gathers where a window meets an element, never scatters
 *     w[M, D] = sum over samples of y[M, P] * gathered(x)^T[P, D]
 *
 * The gathered matrix (im2col) only ever exists as one tile on the stack. Every sum runs in a fixed order whatever the
 * threads. */
#include "ops/conv/conv.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/tile.h"

#include "device/threads.h"

#include <string.h>

/* One direction of a convolution: planes of `sources` channels are gathered for each of `results` channels. */
struct flow {
    const struct zt_conv_job *job;
    const struct zt_window *window;
    bool back;                /* gathers results for elements of the input plane */
    int64_t sources, results; /* channels of a group */
    const int64_t *dims;      /* of the result plane */
    int64_t places, source_places;
    int64_t w_result, w_source; /* strides of the weight; positions are contiguous */
    int64_t depth;              /* sources x kernel positions */
};

static struct flow flow_of(const struct zt_conv_job *job, bool back) {
    const struct zt_conv *c = &job->conv;
    const struct zt_window *w = &c->window;
    struct flow f = { .job = job, .window = w, .back = back };
    int64_t mg = c->m / c->groups, cg = c->c / c->groups;
    f.sources = back ? mg : cg;
    f.results = back ? cg : mg;
    f.dims = back ? w->in : w->out;
    f.places = back ? w->in_elems : w->out_elems;
    f.source_places = back ? w->out_elems : w->in_elems;
    f.w_result = back ? w->kernel_elems : cg * w->kernel_elems;
    f.w_source = back ? cg * w->kernel_elems : w->kernel_elems;
    f.depth = f.sources * w->kernel_elems;
    return f;
}

/* Doubles on the stack: element (d, p) of a gathered matrix is at[d * row + p * col]. */
struct stack_matrix {
    double *at;
    int row, col;
};

/* to[i * col] = the contribution of kernel position k of the plane at `plane` to place i of the tile; 0 in the padding.
 */
static void gather(const struct flow *f, int64_t plane, const int64_t *k, const struct zt_tile *tile, double *to,
                   int col) {
    const struct zt_window *w = f->window;
    const int last = w->axes - 1, count = tile->cols;
    int64_t index[ZT_WINDOW_AXES];
    double stretch[ZT_TILE_COLS];
    zt_window_split(tile->col, f->dims, w->axes, index);
    for (int i = 0; i < count; i++)
        to[i * col] = 0;
    for (int done = 0; done < count;) {
        int64_t length = zt_min_int(count - done, f->dims[last] - index[last]);
        struct zt_stretch s;
        (f->back ? zt_window_stretch_back : zt_window_stretch)(w, index, k, index[last], length, &s);
        zt_load_block(f->job->dtype, f->job->from, plane + s.partner, s.stride, s.count, stretch);
        double *at = to + (done + s.first - index[last]) * col;
        for (int64_t i = 0; i < s.count; i++)
            at[i * s.step * col] = stretch[i];
        done += (int)length;
        index[last] = 0;
        for (int a = last; a > 0 && (a == last || index[a] == f->dims[a]); a--) {
            index[a] = 0;
            index[a - 1]++;
        }
    }
}

/* A tile of the gathered matrix of the planes at `planes`: a row is a source channel and a kernel position, a column is
 * a place. */
static void gather_tile(const struct flow *f, int64_t planes, struct zt_tile tile, struct stack_matrix to) {
    const struct zt_window *w = f->window;
    for (int d = 0; d < tile.rows; d++) {
        int64_t source = (tile.row + d) / w->kernel_elems, k[ZT_WINDOW_AXES];
        zt_window_split((tile.row + d) % w->kernel_elems, w->kernel, w->axes, k);
        gather(f, planes + source * f->source_places, k, &tile, to.at + d * to.row, to.col);
    }
}

/* A tile of the weights [result channel][depth] of group `group`, read in contiguous blocks. */
static void weight_tile(const struct flow *f, int64_t group, struct zt_tile tile, double *to) {
    int64_t kernel = f->window->kernel_elems, start = group * f->sources * f->results * kernel;
    for (int r = 0; r < tile.rows; r++)
        for (int d = 0; d < tile.cols;) {
            int64_t source = (tile.col + d) / kernel, k = (tile.col + d) % kernel;
            int64_t length = f->back ? zt_min_int(kernel - k, tile.cols - d) : tile.cols - d;
            int64_t from = start + (tile.row + r) * f->w_result + source * f->w_source + k;
            zt_load_block(f->job->dtype, f->job->weight, from, 1, length, to + r * ZT_TILE_DEPTH + d);
            d += (int)length;
        }
}

/* A tile [channel][place] of the result of sample and group `image`. */
static void result_tile(const struct flow *f, int64_t image, struct zt_tile tile) {
    const struct zt_conv_job *job = f->job;
    double acc[ZT_TILE_ROWS * ZT_TILE_COLS], a[ZT_TILE_ROWS * ZT_TILE_DEPTH], b[ZT_TILE_DEPTH * ZT_TILE_COLS];
    int64_t group = image % job->conv.groups, channel = group * f->results + tile.row;
    for (int r = 0; r < tile.rows; r++) {
        double bias = job->bias ? zt_load_double(job->dtype, job->bias, channel + r) : 0;
        for (int c = 0; c < ZT_TILE_COLS; c++)
            acc[r * ZT_TILE_COLS + c] = bias;
    }
    for (int64_t d = 0; d < f->depth; d += ZT_TILE_DEPTH) {
        int depth = (int)zt_min_int(ZT_TILE_DEPTH, f->depth - d);
        weight_tile(f, group, (struct zt_tile){ tile.row, d, tile.rows, depth }, a);
        gather_tile(f, image * f->sources * f->source_places, (struct zt_tile){ d, tile.col, depth, tile.cols },
                    (struct stack_matrix){ b, ZT_TILE_COLS, 1 });
        zt_tile_pad(b, depth, tile.cols);
        zt_tile_multiply(acc, a, b, tile.rows, depth, tile.cols);
    }
    for (int r = 0; r < tile.rows; r++)
        zt_store_block(job->dtype, job->to, (image * f->results + tile.row + r) * f->places + tile.col, 1, tile.cols,
                       acc + r * ZT_TILE_COLS);
}

static double flops_of(const struct zt_conv_job *job) {
    const struct zt_conv *c = &job->conv;
    return (double)(c->n * c->m) * (double)c->window.out_elems * (double)(c->c / c->groups) *
           (double)c->window.kernel_elems;
}

/* The tiles of an image's result, or of a group's weight gradient. */
struct tiles {
    struct flow f;
    int64_t down, across;
};

static struct tiles tiles_of(const struct zt_conv_job *job, bool back, bool weights) {
    struct tiles t = { .f = flow_of(job, back) };
    t.down = zt_ceil_div(t.f.results, ZT_TILE_ROWS);
    t.across = zt_ceil_div(weights ? t.f.depth : t.f.places, ZT_TILE_COLS);
    return t;
}

/* Tile i of all, in a matrix of `cols` columns. */
static struct zt_tile tile_at(const struct tiles *t, int64_t i, int64_t cols) {
    struct zt_tile tile = { .row = i / t->across % t->down * ZT_TILE_ROWS, .col = i % t->across * ZT_TILE_COLS };
    tile.rows = (int)zt_min_int(ZT_TILE_ROWS, t->f.results - tile.row);
    tile.cols = (int)zt_min_int(ZT_TILE_COLS, cols - tile.col);
    return tile;
}

static void run_result_tile(void *arg, int64_t i) {
    const struct tiles *t = arg;
    result_tile(&t->f, i / (t->down * t->across), tile_at(t, i, t->f.places));
}

static void run_flow(const struct zt_conv_job *job, bool back) {
    struct tiles t = tiles_of(job, back, false);
    zt_parallel_for(zt_threads_worth(job->threads, flops_of(job)), job->conv.n * job->conv.groups * t.down * t.across,
                    run_result_tile, &t);
}

void zt_conv_forward(const struct zt_conv_job *job) {
    run_flow(job, false);
}

void zt_conv_backward(const struct zt_conv_job *job) {
    run_flow(job, true);
}

/* A tile [output channel][depth] of dw of `group`: samples and places in order. */
static void weight_gradient_tile(const struct flow *f, int64_t group, struct zt_tile tile) {
    const struct zt_conv_job *job = f->job;
    double acc[ZT_TILE_ROWS * ZT_TILE_COLS] = { 0 }, a[ZT_TILE_ROWS * ZT_TILE_DEPTH], b[ZT_TILE_DEPTH * ZT_TILE_COLS];
    for (int64_t n = 0; n < job->conv.n; n++) {
        int64_t image = n * job->conv.groups + group;
        struct zt_matrix dy = { job->dtype, job->dy, image * f->results * f->places, f->places, 1 };
        for (int64_t p = 0; p < f->places; p += ZT_TILE_DEPTH) {
            int depth = (int)zt_min_int(ZT_TILE_DEPTH, f->places - p);
            zt_tile_load(&dy, (struct zt_tile){ tile.row, p, tile.rows, depth }, a, ZT_TILE_DEPTH);
            gather_tile(f, image * f->sources * f->source_places, (struct zt_tile){ tile.col, p, tile.cols, depth },
                        (struct stack_matrix){ b, 1, ZT_TILE_COLS });
            zt_tile_pad(b, depth, tile.cols);
            zt_tile_multiply(acc, a, b, tile.rows, depth, tile.cols);
        }
    }
    for (int r = 0; r < tile.rows; r++)
        zt_store_block(job->to_dtype, job->to, (group * f->results + tile.row + r) * f->depth + tile.col, 1, tile.cols,
                       acc + r * ZT_TILE_COLS);
}

static void bias_gradient(const struct zt_conv_job *job, int64_t m) {
    const struct zt_conv *c = &job->conv;
    double sum = 0, block[ZT_ELEMENT_BLOCK];
    for (int64_t n = 0; n < c->n; n++)
        for (int64_t p = 0; p < c->window.out_elems; p += ZT_ELEMENT_BLOCK) {
            int64_t count = zt_min_int(ZT_ELEMENT_BLOCK, c->window.out_elems - p);
            zt_load_block(job->dtype, job->dy, (n * c->m + m) * c->window.out_elems + p, 1, count, block);
            for (int64_t i = 0; i < count; i++)
                sum += block[i];
        }
    zt_store_double(job->to_dtype, job->db, m, sum);
}

static void run_weight_gradient_tile(void *arg, int64_t i) {
    const struct tiles *t = arg;
    weight_gradient_tile(&t->f, i / (t->down * t->across), tile_at(t, i, t->f.depth));
}

void zt_conv_weight(const struct zt_conv_job *job) {
    struct tiles t = tiles_of(job, false, true);
    zt_parallel_for(zt_threads_worth(job->threads, flops_of(job)), job->conv.groups * t.down * t.across,
                    run_weight_gradient_tile, &t);
    for (int64_t m = 0; job->db && m < job->conv.m; m++)
        bias_gradient(job, m);
}
