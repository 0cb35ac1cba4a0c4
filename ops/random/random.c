/* RandomUniform[Like]  y = low + (high - low) u          u uniform in [0, 1)
 * RandomNormal[Like]   y = mean + scale z                z standard normal: Box and Muller's pairs of two u
 * Bernoulli            y = 1 where u < x, else 0
 * Multinomial          y = the first class whose cumulated softmax of the row of x is above u
 *
 * No gradient: what is drawn does not depend on what the shape was taken from. A `seed` attribute gives the node
 * numbers of its own; they still change from step to step. Without a training run (predict) all are those of step 0. */
#include "ops/random/random.h"

#include "ops/random/kernels.h"
#include "ops/elementwise/simd_elementwise.h"
#include "ops/random/launch_random.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"

#include "device/threads.h"

#include <math.h>

/* ---- draws ---- */

/* In place: neighbours (u, v) become sqrt(-2 log(1 - u)) (cos, sin)(2 pi v). */
static void make_normal(double *u, int64_t count) {
    for (int64_t i = 0; i + 1 < count; i += 2) {
        double radius = sqrt(-2 * log1p(-u[i])), angle = 2 * M_PI * u[i + 1];
        u[i] = radius * cos(angle);
        u[i + 1] = radius * sin(angle);
    }
}

/* ---- shapes ---- */

static bool read_dtype(const struct zt_graph *g, int node, enum zt_dtype otherwise, unsigned allowed, enum zt_dtype *to,
                       struct zt_err *err) {
    int64_t dtype = zt_attr_int(g->nodes[node], "dtype", otherwise);
    if (dtype <= ZT_UNDEFINED || dtype >= ZT_DTYPES || !zt_dtype_in((enum zt_dtype)dtype, allowed))
        return zt_node_fail(g, node, err, "attribute \"dtype\" is %lld, which this operator does not draw",
                            (long long)dtype);
    *to = (enum zt_dtype)dtype;
    return true;
}

static bool made_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_shape shape;
    enum zt_dtype dtype;
    if (!read_dtype(g, node, ZT_FLOAT, ZT_ANY_FLOAT, &dtype, err) ||
        !zt_ops_ints(g, node, (struct zt_int_source){ 0, "shape" },
                     &(struct zt_int_list){ shape.dim, ZT_MAX_RANK, &shape.rank }, err))
        return false;
    for (int k = 0; k < shape.rank; k++)
        if (shape.dim[k] < 0)
            return zt_node_fail(g, node, err, "number %d of the shape is %lld", k, (long long)shape.dim[k]);
    zt_set_out(g, node, 0, dtype, &shape);
    return true;
}

/* Without `dtype` the input's, which must be one that can be drawn. */
static bool like_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0);
    enum zt_dtype dtype;
    if (!read_dtype(g, node, x->dtype, ZT_ANY_FLOAT, &dtype, err))
        return false;
    zt_set_out(g, node, 0, dtype, &x->shape);
    return true;
}

static bool bernoulli_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0);
    enum zt_dtype dtype;
    if (!read_dtype(g, node, x->dtype, ZT_ANY_NUMBER | ZT_BIT(ZT_BOOL), &dtype, err))
        return false;
    zt_set_out(g, node, 0, dtype, &x->shape);
    return true;
}

static bool multinomial_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0);
    int64_t samples = zt_attr_int(g->nodes[node], "sample_size", 1);
    enum zt_dtype dtype;
    if (x->shape.rank != 2)
        return zt_node_fail(g, node, err, "wants a matrix, has %d axes", x->shape.rank);
    if (x->shape.dim[1] == 0 || samples < 1 || samples > INT32_MAX)
        return zt_node_fail(g, node, err, "cannot draw %lld times from %lld classes", (long long)samples,
                            (long long)x->shape.dim[1]);
    if (!read_dtype(g, node, ZT_INT32, ZT_BIT(ZT_INT32) | ZT_BIT(ZT_INT64), &dtype, err))
        return false;
    zt_set_out(g, node, 0, dtype, &(struct zt_shape){ 2, { x->shape.dim[0], samples } });
    return true;
}

/* ---- kernels ---- */

/* Turns `count` uniform numbers of elements [from, ...) into what is stored. */
typedef void finisher(const struct zt_call *call, int64_t from, int64_t count, double *u);

static void finish_uniform(const struct zt_call *call, int64_t from, int64_t count, double *u) {
    (void)from;
    double low = (double)zt_attr_float(call->node, "low", 0), high = (double)zt_attr_float(call->node, "high", 1);
    for (int64_t i = 0; i < count; i++)
        u[i] = low + (high - low) * u[i];
}

/* A run may end inside a pair, of which both numbers are drawn. */
static int64_t whole_pairs(int64_t count) {
    return count + count % 2;
}

static void finish_normal(const struct zt_call *call, int64_t from, int64_t count, double *u) {
    (void)from;
    double mean = (double)zt_attr_float(call->node, "mean", 0), scale = (double)zt_attr_float(call->node, "scale", 1);
    make_normal(u, whole_pairs(count));
    for (int64_t i = 0; i < count; i++)
        u[i] = mean + scale * u[i];
}

/* The same in vectors of float. */
static void finish_normal_fast(const struct zt_call *call, int64_t from, int64_t count, double *u) {
    (void)from;
    const double mean = (double)zt_attr_float(call->node, "mean", 0),
                 scale = (double)zt_attr_float(call->node, "scale", 1);
    enum { PAIRS = ZT_ELEMENT_BLOCK / 2 };
    float radius[PAIRS], angle[PAIRS], x[PAIRS], y[PAIRS];
    const int64_t pairs = whole_pairs(count) / 2;
    for (int64_t i = 0; i < pairs; i++) {
        radius[i] = (float)(u[2 * i] < 0.5 ? u[2 * i] : u[2 * i] - 1);
        angle[i] = (float)u[2 * i + 1];
    }
    struct zt_simd_span span = { .a = radius, .b = angle, .y = x, .n = pairs, .a_step = 1, .b_step = 1 };
    zt_simd_functions()[ZT_SIMD_normal_cos](&span);
    span.y = y;
    zt_simd_functions()[ZT_SIMD_normal_sin](&span);
    for (int64_t i = 0; i < count; i++)
        u[i] = mean + scale * (double)(i % 2 ? y[i / 2] : x[i / 2]);
}

static void finish_bernoulli(const struct zt_call *call, int64_t from, int64_t count, double *u) {
    double p[ZT_ELEMENT_BLOCK];
    zt_load_block(call->in[0].dtype, call->in[0].data, from, 1, count, p);
    for (int64_t i = 0; i < count; i++)
        u[i] = u[i] < p[i];
}

struct drawing {
    const struct zt_call *call;
    struct zt_draws draws;
    finisher *finish;
    int64_t width; /* elements of a row */
};

static void draw_row(void *arg, int64_t row) {
    const struct drawing *d = arg;
    const struct zt_view *y = &d->call->out[0];
    for (int64_t at = 0; at < d->width; at += ZT_ELEMENT_BLOCK) {
        double block[ZT_ELEMENT_BLOCK];
        int64_t count = zt_min_int(ZT_ELEMENT_BLOCK, d->width - at);
        zt_draws_uniform(&d->draws, row, at, whole_pairs(count), block);
        d->finish(d->call, row * d->width + at, count, block);
        zt_store_block(y->dtype, y->data, row * d->width + at, 1, count, block);
    }
}

static bool draw(const struct zt_call *call, finisher *finish) {
    const struct zt_shape *y = &call->out[0].shape;
    struct drawing d = { .call = call, .draws = zt_draws_own(call), .finish = finish };
    int64_t rows = y->rank > 0 ? y->dim[0] : 1;
    d.width = rows ? zt_shape_count(y) / rows : 0;
    zt_parallel_for(zt_threads_worth(call->threads, 8.0 * (double)(rows * d.width)), rows, draw_row, &d);
    return true;
}

#define DRAW(name)                                                                                                     \
    static bool name##_run(const struct zt_call *call, struct zt_err *err) {                                           \
        (void)err;                                                                                                     \
        return draw(call, finish_##name);                                                                              \
    }
DRAW(uniform)
DRAW(normal)
DRAW(normal_fast)
DRAW(bernoulli)

/* A number drawn, and which of its run it is. */
struct drawn {
    double u;
    int64_t place;
};

/* Into ascending order, in place (Shell's sort with Ciura's gaps). */
static void sort_drawn(struct drawn *at, int64_t count) {
    static const int64_t gaps[] = { 57, 23, 10, 4, 1 };
    for (size_t g = 0; g < sizeof gaps / sizeof *gaps; g++)
        for (int64_t i = gaps[g]; i < count; i++) {
            const struct drawn moved = at[i];
            int64_t k = i;
            for (; k >= gaps[g] && at[k - gaps[g]].u > moved.u; k -= gaps[g])
                at[k] = at[k - gaps[g]];
            at[k] = moved;
        }
}

/* The largest of a row. */
static double row_max(const struct zt_view *x, int64_t row) {
    const int64_t classes = x->shape.dim[1];
    double max = -INFINITY, v[ZT_ELEMENT_BLOCK];
    for (int64_t at = 0; at < classes; at += ZT_ELEMENT_BLOCK) {
        const int64_t count = zt_min_int(ZT_ELEMENT_BLOCK, classes - at);
        zt_load_block(x->dtype, x->data, row * classes + at, 1, count, v);
        for (int64_t i = 0; i < count; i++)
            max = fmax(max, v[i]);
    }
    return max;
}

/* v[i] = exp(v[i] - max); fast: in vectors of float */
static void exponentials(bool fast, double max, int64_t count, double *v) {
    float t[ZT_ELEMENT_BLOCK];
    struct zt_simd_span span = { .a = t, .b = t, .y = t, .n = count, .a_step = 1, .b_step = 1 };
    for (int64_t i = 0; i < count; i++) {
        t[i] = (float)(v[i] - max);
        v[i] = fast ? v[i] : exp(v[i] - max);
    }
    if (fast)
        zt_simd_functions()[ZT_SIMD_exp](&span);
    for (int64_t i = 0; i < count && fast; i++)
        v[i] = (double)t[i];
}

/* A row of logits: its largest, the sum of exp(x - max). */
struct logits {
    const struct zt_view *x;
    int64_t row;
    bool fast;
    double max, sum;
};

/* exp(x - max) of a row added up in the order of the classes. Numbers are in ascending order: each gets the first class
 * whose sum is above u times that of the row, the last one where rounding leaves it above all. Returns the sum over
 * all. */
static double pass_row(const struct logits *l, const struct drawn *number, int64_t numbers, int64_t *class) {
    const int64_t classes = l->x->shape.dim[1];
    int64_t done = 0;
    double below = 0, v[ZT_ELEMENT_BLOCK];
    for (int64_t at = 0; at < classes && (done < numbers || !number); at += ZT_ELEMENT_BLOCK) {
        const int64_t count = zt_min_int(ZT_ELEMENT_BLOCK, classes - at);
        zt_load_block(l->x->dtype, l->x->data, l->row * classes + at, 1, count, v);
        exponentials(l->fast, l->max, count, v);
        for (int64_t i = 0; i < count; i++) {
            below += v[i];
            for (; done < numbers && number[done].u * l->sum < below; done++)
                class[number[done].place] = at + i;
        }
    }
    for (; done < numbers; done++)
        class[number[done].place] = classes - 1;
    return below;
}

static void multinomial_row(const struct zt_call *call, const struct zt_draws *draws, int64_t row, bool fast) {
    const struct zt_view *x = &call->in[0], *y = &call->out[0];
    const int64_t samples = y->shape.dim[1];
    struct logits l = { x, row, fast, row_max(x, row), 0 };
    l.sum = pass_row(&l, NULL, 0, NULL);
    struct drawn number[ZT_ELEMENT_BLOCK];
    int64_t class[ZT_ELEMENT_BLOCK];
    double u[ZT_ELEMENT_BLOCK];
    for (int64_t at = 0; at < samples; at += ZT_ELEMENT_BLOCK) {
        const int64_t count = zt_min_int(ZT_ELEMENT_BLOCK, samples - at);
        zt_draws_uniform(draws, row, at, count, u);
        for (int64_t i = 0; i < count; i++)
            number[i] = (struct drawn){ u[i], i };
        sort_drawn(number, count);
        pass_row(&l, number, count, class);
        zt_store_block_int(y->dtype, y->data, row * samples + at, 1, count, class);
    }
}

struct multinomial {
    const struct zt_call *call;
    struct zt_draws draws;
    bool fast;
};

static void run_multinomial_row(void *arg, int64_t row) {
    const struct multinomial *m = arg;
    multinomial_row(m->call, &m->draws, row, m->fast);
}

static bool draw_classes(const struct zt_call *call, bool fast) {
    struct multinomial m = { call, zt_draws_own(call), fast };
    const struct zt_shape *x = &call->in[0].shape;
    const double work = 16.0 * (double)x->dim[0] * (double)(x->dim[1] + call->out[0].shape.dim[1]);
    zt_parallel_for(zt_threads_worth(call->threads, work), x->dim[0], run_multinomial_row, &m);
    return true;
}

static bool multinomial_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    return draw_classes(call, false);
}
static bool multinomial_fast_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    return draw_classes(call, true);
}

/* Fast kernels draw floats, or classes of floats. */
static bool gives_float(const struct zt_graph *g, int node) {
    return zt_out(g, node, 0)->dtype == ZT_FLOAT;
}
static bool takes_float(const struct zt_graph *g, int node) {
    return zt_in(g, node, 0)->dtype == ZT_FLOAT;
}

/* ---- what other back ends are told ---- */

enum {
    CUDA_FROM = ZT_BIT(ZT_FLOAT) | ZT_ANY_HALF,
    CUDA_TO = ZT_ANY_FLOAT | ZT_BIT(ZT_BOOL) | ZT_BIT(ZT_UINT8) | ZT_BIT(ZT_INT32) | ZT_BIT(ZT_INT64)
};

static bool draws_cuda(const struct zt_graph *g, int node) {
    return zt_dtype_in(zt_out(g, node, 0)->dtype, CUDA_TO);
}
static bool draws_cuda_from(const struct zt_graph *g, int node) {
    return draws_cuda(g, node) && zt_dtype_in(zt_in(g, node, 0)->dtype, CUDA_FROM);
}

/* A struct zt_launch_draws. */
static bool describe(const struct zt_graph *g, int node, enum zt_launch_drawing how, double shift, double factor,
                     struct zt_launch_draws *to) {
    const struct zt_shape *y = &zt_out(g, node, 0)->shape;
    const int64_t rows = y->rank > 0 ? y->dim[0] : 1;
    *to = (struct zt_launch_draws){
        .how = how, .rows = rows, .width = rows ? zt_shape_count(y) / rows : 0, .shift = shift, .factor = factor
    };
    return true;
}

static bool uniform_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    (void)err;
    const double low = (double)zt_attr_float(g->nodes[node], "low", 0),
                 high = (double)zt_attr_float(g->nodes[node], "high", 1);
    return describe(g, node, ZT_DRAW_UNIFORM, low, high - low, to);
}
static bool normal_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    (void)err;
    return describe(g, node, ZT_DRAW_NORMAL, (double)zt_attr_float(g->nodes[node], "mean", 0),
                    (double)zt_attr_float(g->nodes[node], "scale", 1), to);
}
static bool bernoulli_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    (void)err;
    return describe(g, node, ZT_DRAW_BERNOULLI, 0, 0, to);
}

/* A struct zt_launch_multinomial. */
static bool multinomial_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    (void)err;
    const struct zt_shape *x = &zt_in(g, node, 0)->shape;
    *(struct zt_launch_multinomial *)to = (struct zt_launch_multinomial){ .rows = x->dim[0],
                                                                          .classes = x->dim[1],
                                                                          .samples = zt_out(g, node, 0)->shape.dim[1] };
    return true;
}

/* ---- rows ---- */

#define SEEDED                                                                                                         \
    { "dtype", ZT_ATTR_INT, .element_type = true }, {                                                                  \
        "seed", ZT_ATTR_FLOAT                                                                                          \
    }
#define UNIFORM                                                                                                        \
    SEEDED, { "low", ZT_ATTR_FLOAT }, {                                                                                \
        "high", ZT_ATTR_FLOAT                                                                                          \
    }
#define NORMAL                                                                                                         \
    SEEDED, { "mean", ZT_ATTR_FLOAT }, {                                                                               \
        "scale", ZT_ATTR_FLOAT                                                                                         \
    }
#define SHAPED                                                                                                         \
    { "shape", ZT_ATTR_INTS, true }
static const struct zt_attr_spec bernoulli_attrs[] = { SEEDED, { 0 } };
static const struct zt_attr_spec multinomial_attrs[] = { SEEDED, { "sample_size", ZT_ATTR_INT }, { 0 } };
static const struct zt_attr_spec random_uniform_attrs[] = { UNIFORM, SHAPED, { 0 } };
static const struct zt_attr_spec random_uniform_like_attrs[] = { UNIFORM, { 0 } };
static const struct zt_attr_spec random_normal_attrs[] = { NORMAL, SHAPED, { 0 } };
static const struct zt_attr_spec random_normal_like_attrs[] = { NORMAL, { 0 } };

#define RANDOM_ROW(id, NAME, SINCE, COUNT, TYPES, INFER, RUN, KERNEL, CUDA, ...)                                       \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = NAME,                                                                                                  \
        .domain = "",                                                                                                  \
        .since = SINCE,                                                                                                \
        ZT_ONE_OUT(COUNT, COUNT),                                                                                      \
        .flags = ZT_OP_RANDOM,                                                                                         \
        .in_types = { TYPES },                                                                                         \
        .attrs = id##_attrs,                                                                                           \
        .infer = INFER##_infer,                                                                                        \
        .kernel = { [ZT_REF] = { .run = RUN##_run },                                                                   \
                    [ZT_CPU] = { __VA_ARGS__ },                                                                        \
                    [ZT_CUDA] = ZT_CUDA_AS(KERNEL, CUDA, RUN##_describe) },                                            \
    };

RANDOM_ROW(bernoulli, "Bernoulli", 15, 1, ZT_ANY_FLOAT, bernoulli, bernoulli, draws, draws_cuda_from, 0)
RANDOM_ROW(multinomial, "Multinomial", 7, 1, ZT_ANY_FLOAT, multinomial, multinomial, multinomial, draws_cuda_from,
           .supports = takes_float, .run = multinomial_fast_run)
RANDOM_ROW(random_normal, "RandomNormal", 1, 0, 0, made, normal, draws, draws_cuda, .supports = gives_float,
           .run = normal_fast_run)
RANDOM_ROW(random_normal_like, "RandomNormalLike", 1, 1, 0, like, normal, draws, draws_cuda, .supports = gives_float,
           .run = normal_fast_run)
RANDOM_ROW(random_uniform, "RandomUniform", 1, 0, 0, made, uniform, draws, draws_cuda, 0)
RANDOM_ROW(random_uniform_like, "RandomUniformLike", 1, 1, 0, like, uniform, draws, draws_cuda, 0)
