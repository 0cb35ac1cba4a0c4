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

/* to[i * step] = what kernel position k of the plane at `plane` contributes to place p0 + i; 0 in the padding. */
static void gather(const struct flow *f, int64_t plane, const int64_t *k, int64_t p0, int count, double *to, int step) {
    const struct zt_window *w = f->window;
    int last = w->axes - 1;
    int64_t index[ZT_WINDOW_AXES];
    double run[ZT_TILE_COLS];
    zt_window_split(p0, f->dims, w->axes, index);
    for (int i = 0; i < count; i++)
        to[i * step] = 0;
    for (int done = 0; done < count;) {
        int64_t length = zt_min_int(count - done, f->dims[last] - index[last]);
        struct zt_stretch s;
        (f->back ? zt_window_stretch_back : zt_window_stretch)(w, index, k, index[last], length, &s);
        zt_load_block(f->job->dtype, f->job->from, plane + s.partner, s.stride, s.count, run);
        double *at = to + (done + s.first - index[last]) * step;
        for (int64_t i = 0; i < s.count; i++)
            at[i * s.step * step] = run[i];
        done += (int)length;
        index[last] = 0;
        for (int a = last; a > 0 && (a == last || index[a] == f->dims[a]); a--) {
            index[a] = 0;
            index[a - 1]++;
        }
    }
}

/* Rows d0.. of the gathered matrix (a source channel and a kernel position each) at places p0..: to[d * lead + p *
 * step]. */
static void gather_tile(const struct flow *f, int64_t planes, int64_t d0, int depth, int64_t p0, int count, double *to,
                        int lead, int step) {
    for (int d = 0; d < depth; d++) {
        int64_t source = (d0 + d) / f->window->kernel_elems, k[ZT_WINDOW_AXES];
        zt_window_split((d0 + d) % f->window->kernel_elems, f->window->kernel, f->window->axes, k);
        gather(f, planes + source * f->source_places, k, p0, count, to + d * lead, step);
    }
}

/* Rows of weights [r0, r0 + rows) of group `group` at depths d0.., read in stretches that are contiguous. */
static void weight_tile(const struct flow *f, int64_t group, int64_t r0, int rows, int64_t d0, int depth, double *to) {
    int64_t kernel = f->window->kernel_elems, start = group * f->sources * f->results * kernel;
    for (int r = 0; r < rows; r++)
        for (int d = 0; d < depth;) {
            int64_t source = (d0 + d) / kernel, k = (d0 + d) % kernel;
            int64_t run = f->back ? zt_min_int(kernel - k, depth - d) : depth - d;
            zt_load_block(f->job->dtype, f->job->weight, start + (r0 + r) * f->w_result + source * f->w_source + k, 1,
                          run, to + r * ZT_TILE_DEPTH + d);
            d += (int)run;
        }
}

/* Channels [r0, r0 + rows) and places [p0, p0 + cols) of sample and group `image`. */
static void result_tile(const struct flow *f, int64_t image, int64_t r0, int rows, int64_t p0, int cols) {
    const struct zt_conv_job *job = f->job;
    double acc[ZT_TILE_ROWS * ZT_TILE_COLS], a[ZT_TILE_ROWS * ZT_TILE_DEPTH], b[ZT_TILE_DEPTH * ZT_TILE_COLS];
    int64_t group = image % job->conv.groups, channel = group * f->results + r0;
    for (int r = 0; r < rows; r++) {
        double bias = job->bias ? zt_load_double(job->dtype, job->bias, channel + r) : 0;
        for (int c = 0; c < ZT_TILE_COLS; c++)
            acc[r * ZT_TILE_COLS + c] = bias;
    }
    for (int64_t d = 0; d < f->depth; d += ZT_TILE_DEPTH) {
        int depth = (int)zt_min_int(ZT_TILE_DEPTH, f->depth - d);
        weight_tile(f, group, r0, rows, d, depth, a);
        gather_tile(f, image * f->sources * f->source_places, d, depth, p0, cols, b, ZT_TILE_COLS, 1);
        zt_tile_pad(b, depth, cols);
        zt_tile_multiply(acc, a, b, rows, depth, cols);
    }
    for (int r = 0; r < rows; r++)
        zt_store_block(job->dtype, job->to, (image * f->results + r0 + r) * f->places + p0, 1, cols,
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

static void run_result_tile(void *arg, int64_t i) {
    const struct tiles *t = arg;
    int64_t r0 = i / t->across % t->down * ZT_TILE_ROWS, p0 = i % t->across * ZT_TILE_COLS;
    result_tile(&t->f, i / (t->down * t->across), r0, (int)zt_min_int(ZT_TILE_ROWS, t->f.results - r0), p0,
                (int)zt_min_int(ZT_TILE_COLS, t->f.places - p0));
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

/* dw of output channels [r0, r0 + rows) of `group` at depths [d0, d0 + cols): samples and places in order. */
static void weight_gradient_tile(const struct flow *f, int64_t group, int64_t r0, int rows, int64_t d0, int cols) {
    const struct zt_conv_job *job = f->job;
    double acc[ZT_TILE_ROWS * ZT_TILE_COLS] = { 0 }, a[ZT_TILE_ROWS * ZT_TILE_DEPTH], b[ZT_TILE_DEPTH * ZT_TILE_COLS];
    for (int64_t n = 0; n < job->conv.n; n++) {
        int64_t image = n * job->conv.groups + group;
        struct zt_matrix dy = { job->dtype, job->dy, image * f->results * f->places, f->places, 1 };
        for (int64_t p = 0; p < f->places; p += ZT_TILE_DEPTH) {
            int depth = (int)zt_min_int(ZT_TILE_DEPTH, f->places - p);
            zt_tile_load(&dy, r0, p, rows, depth, a, ZT_TILE_DEPTH);
            gather_tile(f, image * f->sources * f->source_places, d0, cols, p, depth, b, 1, ZT_TILE_COLS);
            zt_tile_pad(b, depth, cols);
            zt_tile_multiply(acc, a, b, rows, depth, cols);
        }
    }
    for (int r = 0; r < rows; r++)
        zt_store_block(job->to_dtype, job->to, (group * f->results + r0 + r) * f->depth + d0, 1, cols,
                       acc + r * ZT_TILE_COLS);
}

static void bias_gradient(const struct zt_conv_job *job, int64_t m) {
    const struct zt_conv *c = &job->conv;
    double sum = 0, run[ZT_ELEMENT_BLOCK];
    for (int64_t n = 0; n < c->n; n++)
        for (int64_t p = 0; p < c->window.out_elems; p += ZT_ELEMENT_BLOCK) {
            int64_t count = zt_min_int(ZT_ELEMENT_BLOCK, c->window.out_elems - p);
            zt_load_block(job->dtype, job->dy, (n * c->m + m) * c->window.out_elems + p, 1, count, run);
            for (int64_t i = 0; i < count; i++)
                sum += run[i];
        }
    zt_store_double(job->to_dtype, job->db, m, sum);
}

static void run_weight_gradient_tile(void *arg, int64_t i) {
    const struct tiles *t = arg;
    int64_t r0 = i / t->across % t->down * ZT_TILE_ROWS, d0 = i % t->across * ZT_TILE_COLS;
    weight_gradient_tile(&t->f, i / (t->down * t->across), r0, (int)zt_min_int(ZT_TILE_ROWS, t->f.results - r0), d0,
                         (int)zt_min_int(ZT_TILE_COLS, t->f.depth - d0));
}

void zt_conv_weight(const struct zt_conv_job *job) {
    struct tiles t = tiles_of(job, false, true);
    zt_parallel_for(zt_threads_worth(job->threads, flops_of(job)), job->conv.groups * t.down * t.across,
                    run_weight_gradient_tile, &t);
    for (int64_t m = 0; job->db && m < job->conv.m; m++)
        bias_gradient(job, m);
}
