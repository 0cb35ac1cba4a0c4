/* ONNX MaxPool, AveragePool, LpPool: y[o] = max, mean or p-norm of x[s] over a window, s = o stride - pad + k dilation
 *
 *     MaxPool      dx[i] = sum of dy[o] over the windows whose first maximum (or first NaN, which flows) is i
 *     AveragePool  dx[i] = sum of dy[o] / count(o) over the windows that cover i
 *     LpPool       dx[i] = sign(x[i]) |x[i]|^(p-1) times the sum of dy[o] / y[o]^(p-1) over the windows that cover i
 *
 * A max pool that will be differentiated is ztrain.MaxPoolTrain, whose second output is the maximum's position in its
 * window, a byte a result: the gradient then reads neither x nor y. Training rewrites MaxPool into it; `ztrain grad`,
 * whose forward nodes stay as they are, adds one behind. The global pools are the same with one window over the whole
 * plane.
 *
 * A pool counts one FLOP per element of x, as DeepSpeed's profiler does. */
#include "ops/pool/pool.h"

#include "graph/passes/grad.h"
#include "ops/pool/kernels.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"
#include "ops/kernel/training_form.h"

#include "device/threads.h"

#include <math.h>

#define POOL_ATTRS                                                                                                     \
    { "auto_pad", ZT_ATTR_STRING }, { "ceil_mode", ZT_ATTR_INT }, { "dilations", ZT_ATTR_INTS },                       \
        { "kernel_shape", ZT_ATTR_INTS }, { "pads", ZT_ATTR_INTS }, {                                                  \
        "strides", ZT_ATTR_INTS                                                                                        \
    }

/* Windows have kernel_shape, the global pools none. */
bool zt_pool_takes_cuda(const struct zt_graph *g, int node) {
    const struct zt_node *n = g->nodes[node];
    struct zt_pool p;
    struct zt_err err = { 0 };
    const struct zt_value *position = zt_in(g, node, 1);
    bool grad = zt_node_attr(n, "input_shape") != NULL, window = zt_node_attr(n, "kernel_shape") != NULL;
    if (position && !zt_dtype_in(position->dtype, ZT_BIT(ZT_UINT8) | ZT_BIT(ZT_INT32)))
        return false;
    return zt_cuda_is_float(zt_in(g, node, 0)) &&
           (grad     ? zt_pool_read_grad(g, node, &p, &err)
            : window ? zt_pool_read(g, node, &p, &err)
                     : zt_pool_read_global(g, node, &p, &err)) &&
           p.window.axes <= 3 && p.window.in_elems > 0 && p.planes > 0;
}

static const struct zt_attr_spec max_attrs[] = { POOL_ATTRS, { "storage_order", ZT_ATTR_INT }, { 0 } };
static const struct zt_attr_spec average_attrs[] = { POOL_ATTRS, { "count_include_pad", ZT_ATTR_INT }, { 0 } };
static const struct zt_attr_spec lp_attrs[] = { POOL_ATTRS, { "p", ZT_ATTR_INT }, { 0 } };
static const struct zt_attr_spec global_lp_attrs[] = { { "p", ZT_ATTR_INT }, { 0 } };
static const struct zt_attr_spec grad_attrs[] = {
    POOL_ATTRS,           { "storage_order", ZT_ATTR_INT },      { "count_include_pad", ZT_ATTR_INT },
    { "p", ZT_ATTR_INT }, { "input_shape", ZT_ATTR_INTS, true }, { 0 }
};

/* ---- shape rules ---- */

static void set_out(struct zt_graph *g, int node, const struct zt_pool *p, enum zt_dtype second) {
    struct zt_shape out = zt_in(g, node, 0)->shape;
    for (int a = 0; a < p->window.axes; a++)
        out.dim[a + 2] = p->window.out[a];
    zt_set_out(g, node, 0, zt_in(g, node, 0)->dtype, &out);
    zt_set_out(g, node, 1, second, &out);
}

static bool pool_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_pool p;
    if (!zt_pool_read(g, node, &p, err))
        return false;
    set_out(g, node, &p, ZT_INT64);
    return true;
}

/* A byte holds the position wherever a window has at most 256. */
static bool indexed_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_pool p;
    if (!zt_pool_read(g, node, &p, err))
        return false;
    if (p.window.kernel_elems > INT32_MAX)
        return zt_node_fail(g, node, err, "windows of %lld positions", (long long)p.window.kernel_elems);
    set_out(g, node, &p, p.window.kernel_elems <= 256 ? ZT_UINT8 : ZT_INT32);
    return true;
}

static bool global_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_pool p;
    if (!zt_pool_read_global(g, node, &p, err))
        return false;
    set_out(g, node, &p, ZT_UNDEFINED);
    return true;
}

static bool grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_pool p;
    if (!zt_pool_read_grad(g, node, &p, err))
        return false;
    struct zt_shape out = zt_in(g, node, 0)->shape;
    for (int a = 0; a < p.window.axes; a++)
        out.dim[a + 2] = p.window.in[a];
    zt_set_out(g, node, 0, zt_in(g, node, 0)->dtype, &out);
    return true;
}

/* ---- forward kernels: a row of results at a time, position by position ---- */

/* Results [from, from + count) of the row of the last axis with outer indices `outer`. */
struct row {
    const struct zt_pool *pool;
    const struct zt_call *call;
    int64_t plane, outer[ZT_WINDOW_AXES], from, at; /* at: element of the first result in the output */
    int count;
    double p, value[ZT_ELEMENT_BLOCK];
    int64_t position[ZT_ELEMENT_BLOCK]; /* max: of the maximum, -1 before any */
};

struct pooling {
    void (*visit)(struct row *r, int64_t k, int first, int count, const double *x);
    void (*end)(struct row *r);
    double start;
};

static void max_visit(struct row *r, int64_t k, int first, int count, const double *x) {
    for (int i = 0; i < count; i++) {
        double *best = &r->value[first + i];
        if (r->position[first + i] >= 0 && !(x[i] > *best) && !(isnan(x[i]) && !isnan(*best)))
            continue;
        *best = x[i];
        r->position[first + i] = k;
    }
}

static void sum_visit(struct row *r, int64_t k, int first, int count, const double *x) {
    (void)k;
    for (int i = 0; i < count; i++)
        r->value[first + i] += x[i];
}

static void power_visit(struct row *r, int64_t k, int first, int count, const double *x) {
    (void)k;
    for (int i = 0; i < count; i++)
        r->value[first + i] += r->p == 2 ? x[i] * x[i] : pow(fabs(x[i]), r->p);
}

static void average_end(struct row *r) {
    const struct zt_window *w = &r->pool->window;
    double outer = 1;
    for (int a = 0; a < w->axes - 1; a++)
        outer *= (double)zt_pool_count(r->pool, a, r->outer[a]);
    for (int i = 0; i < r->count; i++)
        r->value[i] /= outer * (double)zt_pool_count(r->pool, w->axes - 1, r->from + i);
}

static void root_end(struct row *r) {
    for (int i = 0; i < r->count; i++)
        r->value[i] = pow(r->value[i], 1 / r->p);
}

/* ONNX's Indices: the maximum's place in the whole input, its plane counted along rows (storage_order 0) or columns. */
static int64_t place_of(const struct row *r, int i, bool columns) {
    const struct zt_window *w = &r->pool->window;
    int64_t k[ZT_WINDOW_AXES], place = 0, stride = 1;
    zt_window_split(r->position[i] < 0 ? 0 : r->position[i], w->kernel, w->axes, k);
    for (int step = 0; step < w->axes; step++) {
        int a = columns ? step : w->axes - 1 - step;
        int64_t o = a == w->axes - 1 ? r->from + i : r->outer[a];
        place += stride * (o * w->stride[a] - w->pad[a] + k[a] * w->dilation[a]);
        stride *= w->in[a];
    }
    return r->plane * w->in_elems + place;
}

static void indices_end(struct row *r) {
    const struct zt_view *indices = r->call->out_count > 1 ? &r->call->out[1] : NULL;
    bool columns = zt_attr_int(r->call->node, "storage_order", 0);
    for (int i = 0; indices && indices->data && i < r->count; i++)
        zt_store_int(indices->dtype, indices->data, r->at + i, place_of(r, i, columns));
}

static void positions_end(struct row *r) {
    const struct zt_view *position = &r->call->out[1];
    for (int i = 0; position->data && i < r->count; i++)
        zt_store_int(position->dtype, position->data, r->at + i, r->position[i] < 0 ? 0 : r->position[i]);
}

static const struct pooling max_pooling = { max_visit, indices_end, -INFINITY };
static const struct pooling indexed_pooling = { max_visit, positions_end, -INFINITY };
static const struct pooling average_pooling = { sum_visit, average_end, 0 };
static const struct pooling power_pooling = { power_visit, root_end, 0 };

static void run_row(struct row *r, const struct pooling *kind) {
    const struct zt_window *w = &r->pool->window;
    enum zt_dtype dtype = r->call->in[0].dtype;
    double block[ZT_ELEMENT_BLOCK];
    for (int i = 0; i < r->count; i++) {
        r->value[i] = kind->start;
        r->position[i] = -1;
    }
    for (int64_t k = 0; k < w->kernel_elems; k++) {
        int64_t index[ZT_WINDOW_AXES];
        struct zt_stretch s;
        zt_window_split(k, w->kernel, w->axes, index);
        zt_window_stretch(w, r->outer, index, r->from, r->count, &s);
        zt_load_block(dtype, r->call->in[0].data, r->plane * w->in_elems + s.partner, s.stride, s.count, block);
        kind->visit(r, k, (int)(s.first - r->from), (int)s.count, block);
    }
    kind->end(r);
    zt_store_block(dtype, r->call->out[0].data, r->at, 1, r->count, r->value);
}

static void run_plane(const struct zt_call *call, const struct zt_pool *pool, const struct pooling *kind,
                      int64_t plane) {
    const struct zt_window *w = &pool->window;
    int64_t length = w->out[w->axes - 1];
    struct row r = { .pool = pool, .call = call, .plane = plane, .p = (double)zt_attr_int(call->node, "p", 2) };
    for (int64_t row = 0; row * length < w->out_elems; row++)
        for (int64_t from = 0; from < length; from += ZT_ELEMENT_BLOCK) {
            zt_window_split(row, w->out, w->axes - 1, r.outer);
            r.from = from;
            r.count = (int)zt_min_int(ZT_ELEMENT_BLOCK, length - from);
            r.at = plane * w->out_elems + row * length + from;
            run_row(&r, kind);
        }
}

static double work_of(const struct zt_pool *p) {
    return (double)p->planes * (double)p->window.out_elems * (double)p->window.kernel_elems;
}

struct planes;
/* Adds what the results at `s` (through window position k) give to a row of dx. */
typedef void gather(const struct planes *p, int64_t plane, int64_t k, const struct zt_stretch *s, const double *dy,
                    double *dx);

struct planes {
    const struct zt_call *call;
    struct zt_pool pool;
    const struct pooling *kind; /* forward */
    gather *add;                /* backward */
};

static void run_one_plane(void *arg, int64_t plane) {
    const struct planes *p = arg;
    run_plane(p->call, &p->pool, p->kind, plane);
}

static bool run_pool(const struct zt_call *call, const struct pooling *kind,
                     bool (*read)(const struct zt_graph *, int, struct zt_pool *, struct zt_err *),
                     struct zt_err *err) {
    struct planes p = { .call = call, .kind = kind };
    if (!read(call->graph, zt_call_node(call), &p.pool, err))
        return false;
    zt_parallel_for(zt_threads_worth(call->threads, work_of(&p.pool)), p.pool.planes, run_one_plane, &p);
    return true;
}

#define RUN(name, kind, read)                                                                                          \
    static bool name(const struct zt_call *call, struct zt_err *err) {                                                 \
        return run_pool(call, &kind, read, err);                                                                       \
    }
RUN(max_ref, max_pooling, zt_pool_read)
RUN(indexed_ref, indexed_pooling, zt_pool_read)
RUN(average_ref, average_pooling, zt_pool_read)
RUN(lp_ref, power_pooling, zt_pool_read)
RUN(global_max_ref, max_pooling, zt_pool_read_global)
RUN(global_average_ref, average_pooling, zt_pool_read_global)
RUN(global_lp_ref, power_pooling, zt_pool_read_global)

/* ---- gradient kernels: each input element gathers from the windows that cover it, so threads never meet ---- */

static void gather_max(const struct planes *p, int64_t plane, int64_t k, const struct zt_stretch *s, const double *dy,
                       double *dx) {
    double position[ZT_ELEMENT_BLOCK];
    const struct zt_view *positions = &p->call->in[1];
    zt_load_block(positions->dtype, positions->data, plane * p->pool.window.out_elems + s->partner, 1, s->count,
                  position);
    for (int64_t i = 0; i < s->count; i++)
        if (position[i] == (double)k)
            dx[i * s->step] += dy[i];
}

static void gather_average(const struct planes *p, int64_t plane, int64_t k, const struct zt_stretch *s,
                           const double *dy, double *dx) {
    (void)plane, (void)k;
    const struct zt_window *w = &p->pool.window;
    int64_t o[ZT_WINDOW_AXES];
    double outer = 1;
    zt_window_split(s->partner, w->out, w->axes, o);
    for (int a = 0; a < w->axes - 1; a++)
        outer *= (double)zt_pool_count(&p->pool, a, o[a]);
    for (int64_t i = 0; i < s->count; i++)
        dx[i * s->step] += dy[i] / (outer * (double)zt_pool_count(&p->pool, w->axes - 1, o[w->axes - 1] + i));
}

static void gather_sum(const struct planes *p, int64_t plane, int64_t k, const struct zt_stretch *s, const double *dy,
                       double *dx) {
    (void)p, (void)plane, (void)k;
    for (int64_t i = 0; i < s->count; i++)
        dx[i * s->step] += dy[i];
}

/* Elements [from, from + count) of a row of an input plane. */
static void grad_row(const struct planes *p, int64_t plane, int64_t row, int64_t from, int count) {
    const struct zt_window *w = &p->pool.window;
    const struct zt_view *of_y = &p->call->in[0], *of_x = &p->call->out[0];
    double dx[ZT_ELEMENT_BLOCK] = { 0 }, dy[ZT_ELEMENT_BLOCK];
    int64_t outer[ZT_WINDOW_AXES], index[ZT_WINDOW_AXES];
    zt_window_split(row, w->in, w->axes - 1, outer);
    for (int64_t k = 0; k < w->kernel_elems; k++) {
        struct zt_stretch s;
        zt_window_split(k, w->kernel, w->axes, index);
        zt_window_stretch_back(w, outer, index, from, count, &s);
        if (s.count == 0)
            continue;
        zt_load_block(of_y->dtype, of_y->data, plane * w->out_elems + s.partner, 1, s.count, dy);
        p->add(p, plane, k, &s, dy, dx + (s.first - from));
    }
    zt_store_block(of_x->dtype, of_x->data, plane * w->in_elems + row * w->in[w->axes - 1] + from, 1, count, dx);
}

static void grad_plane(void *arg, int64_t plane) {
    const struct planes *p = arg;
    const struct zt_window *w = &p->pool.window;
    int64_t length = w->in[w->axes - 1];
    for (int64_t row = 0; row * length < w->in_elems; row++)
        for (int64_t from = 0; from < length; from += ZT_ELEMENT_BLOCK)
            grad_row(p, plane, row, from, (int)zt_min_int(ZT_ELEMENT_BLOCK, length - from));
}

static bool run_grad(const struct zt_call *call, gather *add, struct zt_err *err) {
    struct planes p = { .call = call, .add = add };
    if (!zt_pool_read_grad(call->graph, zt_call_node(call), &p.pool, err))
        return false;
    zt_parallel_for(zt_threads_worth(call->threads, work_of(&p.pool)), p.pool.planes, grad_plane, &p);
    return true;
}

static bool max_grad_ref(const struct zt_call *call, struct zt_err *err) {
    return run_grad(call, gather_max, err);
}

static bool average_grad_ref(const struct zt_call *call, struct zt_err *err) {
    return run_grad(call, gather_average, err);
}

static bool sum_grad_ref(const struct zt_call *call, struct zt_err *err) {
    return run_grad(call, gather_sum, err);
}

/* ---- gradient rules ---- */

/* A gradient node with the window of `node`; a global pool's is written out. */
static int emit(struct zt_grad *b, int node, const char *op, const int *in, int in_count) {
    struct zt_graph *g = zt_grad_graph(b);
    const struct zt_node *like = g->nodes[node];
    struct zt_shape x = zt_in(g, node, 0)->shape;
    const int64_t *dims = zt_arena_copy(g->arena, x.dim, sizeof x.dim);
    struct zt_attr attrs[] = {
        { .name = "input_shape", .type = ZT_ATTR_INTS, .count = x.rank, .ints = dims },
        { .name = "kernel_shape", .type = ZT_ATTR_INTS, .count = x.rank - 2, .ints = dims + 2 },
    };
    int out, count = zt_node_attr(like, "kernel_shape") ? 1 : 2;
    return zt_emit_node(b, &(struct zt_emission){ op, "ztrain", in, in_count, like, attrs, count }, &out, 1) ? out : -1;
}

/* The positions of a max pool that did not keep them. */
static int emit_positions(struct zt_grad *b, int node) {
    struct zt_graph *g = zt_grad_graph(b);
    const struct zt_node *like = g->nodes[node];
    struct zt_shape x = zt_in(g, node, 0)->shape;
    struct zt_attr kernel = { .name = "kernel_shape",
                              .type = ZT_ATTR_INTS,
                              .count = x.rank - 2,
                              .ints = zt_arena_copy(g->arena, x.dim + 2, sizeof *x.dim * (size_t)(x.rank - 2)) };
    int out[2], count = zt_node_attr(like, "kernel_shape") ? 0 : 1;
    return zt_emit_node(b, &(struct zt_emission){ "MaxPoolTrain", "ztrain", like->in, 1, like, &kernel, count }, out, 2)
               ? out[1]
               : -1;
}

static bool max_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    int dy = zt_grad_out(b, node, 0);
    if (dy >= 0)
        zt_grad_give(b, node, 0, emit(b, node, "MaxPoolGrad", (const int[]){ dy, emit_positions(b, node) }, 2));
    return true;
}

static bool indexed_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    int in[2] = { zt_grad_out(b, node, 0), zt_grad_graph(b)->nodes[node]->out[1] };
    zt_grad_give(b, node, 0, emit(b, node, "MaxPoolGrad", in, 2));
    return true;
}

static bool average_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    int dy = zt_grad_out(b, node, 0);
    zt_grad_give(b, node, 0, emit(b, node, "AveragePoolGrad", &dy, 1));
    return true;
}

/* y = 0 means that every x in the window is 0: the quotient only has to stay finite there. */
static bool lp_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    struct zt_node n = *zt_grad_graph(b)->nodes[node];
    enum zt_dtype dtype = zt_in(zt_grad_graph(b), node, 0)->dtype;
    double p = (double)zt_attr_int(&n, "p", 2);
    int dy = zt_grad_out(b, node, 0), slope = p == 2 ? n.in[0] : ZT_EMIT(b, "Sign", n.in[0]);
    if (p == 2) {
        dy = ZT_EMIT(b, "Div", dy, ZT_EMIT(b, "Max", n.out[0], zt_emit_float(b, dtype, 1e-20)));
    } else if (p != 1) {
        int power = zt_emit_float(b, dtype, p - 1), tiny = zt_emit_float(b, dtype, 1e-20);
        dy = ZT_EMIT(b, "Div", dy, ZT_EMIT(b, "Pow", ZT_EMIT(b, "Max", n.out[0], tiny), power));
        slope = ZT_EMIT(b, "Mul", slope, ZT_EMIT(b, "Pow", ZT_EMIT(b, "Abs", n.in[0]), power));
    }
    zt_grad_give(b, node, 0, ZT_EMIT(b, "Mul", slope, emit(b, node, "SumPoolGrad", &dy, 1)));
    return true;
}

/* ---- training form ---- */

extern const struct zt_op zt_op_max_pool_train;

static bool max_train(struct zt_graph *g, int node, const struct zt_train_options *options, struct zt_err *err) {
    if (options->evaluation || zt_out(g, node, 1) || !zt_dtype_in(zt_in(g, node, 0)->dtype, ZT_ANY_FLOAT))
        return true; /* Indices are used by the graph itself: they stay, and the gradient finds the positions again */
    return zt_train_rewrite(g, node, &zt_op_max_pool_train, 2, err);
}

static bool global_max_train(struct zt_graph *g, int node, const struct zt_train_options *options, struct zt_err *err) {
    struct zt_shape x = zt_in(g, node, 0)->shape;
    if (options->evaluation)
        return true;
    zt_node_set_ints(g, node, "kernel_shape", x.dim + 2, x.rank - 2);
    return zt_train_rewrite(g, node, &zt_op_max_pool_train, 2, err);
}

/* ---- rows ---- */

#define POOL_ROW .domain = "", .min_in = 1, .max_in = 1, .min_out = 1
#define GRAD_ROW .domain = "ztrain", .since = 1, .min_out = 1, .max_out = 1, .attrs = grad_attrs, .infer = grad_infer
enum { MAX_TYPES = ZT_ANY_FLOAT | 1 << ZT_INT8 | 1 << ZT_UINT8 };

const struct zt_op zt_op_max_pool = {
    .name = "MaxPool",
    POOL_ROW,
    .since = 1,
    .max_out = 2,
    .flags = ZT_OP_PASSES_HALF,
    .in_types = { MAX_TYPES },
    .attrs = max_attrs,
    .infer = pool_infer,
    .flops_each = 1,
    .grad = max_grad,
    .train = max_train,
    .kernel = { [ZT_REF] = { .run = max_ref },
                [ZT_CPU] = ZT_IF_DNNL(zt_max_pool_cpu),
                [ZT_CUDA] = ZT_ON_CUDA(max_pool, zt_pool_takes_cuda) },
};
/* y and the position of each maximum in its window, row-major (uint8; int32 for windows beyond 256) */
const struct zt_op zt_op_max_pool_train = {
    .name = "MaxPoolTrain",
    .domain = "ztrain",
    .since = 1,
    .min_in = 1,
    .max_in = 1,
    .min_out = 2,
    .max_out = 2,
    .flags = ZT_OP_PASSES_HALF,
    .in_types = { ZT_ANY_FLOAT },
    .attrs = max_attrs,
    .infer = indexed_infer,
    .flops_each = 1,
    .grad = indexed_grad,
    .body = zt_max_pool_train_function_body,
    .kernel = { [ZT_REF] = { .run = indexed_ref },
                [ZT_CPU] = ZT_IF_DNNL(zt_max_pool_cpu),
                [ZT_CUDA] = ZT_ON_CUDA(max_pool_train, zt_pool_takes_cuda) },
};
const struct zt_op zt_op_average_pool = {
    .name = "AveragePool",
    POOL_ROW,
    .since = 1,
    .max_out = 1,
    .flags = ZT_OP_PASSES_HALF,
    .in_types = { ZT_ANY_FLOAT },
    .attrs = average_attrs,
    .infer = pool_infer,
    .flops_each = 1,
    .grad = average_grad,
    .kernel = { [ZT_REF] = { .run = average_ref },
                [ZT_CPU] = ZT_IF_DNNL(zt_sum_pool_cpu),
                [ZT_CUDA] = ZT_ON_CUDA(average_pool, zt_pool_takes_cuda) },
};
const struct zt_op zt_op_lp_pool = {
    .name = "LpPool",
    POOL_ROW,
    .since = 2,
    .max_out = 1,
    .in_types = { ZT_ANY_FLOAT },
    .attrs = lp_attrs,
    .infer = pool_infer,
    .flops_each = 1,
    .grad = lp_grad,
    .kernel = { [ZT_REF] = { .run = lp_ref },
                [ZT_CPU] = ZT_IF_DNNL(zt_sum_pool_cpu),
                [ZT_CUDA] = ZT_ON_CUDA(lp_pool, zt_pool_takes_cuda) },
};
const struct zt_op zt_op_global_max_pool = {
    .name = "GlobalMaxPool",
    POOL_ROW,
    .since = 1,
    .max_out = 1,
    .flags = ZT_OP_PASSES_HALF,
    .in_types = { ZT_ANY_FLOAT },
    .infer = global_infer,
    .flops_each = 1,
    .grad = max_grad,
    .train = global_max_train,
    .kernel = { [ZT_REF] = { .run = global_max_ref },
                [ZT_CPU] = ZT_IF_DNNL(zt_max_pool_cpu),
                [ZT_CUDA] = ZT_ON_CUDA(global_max_pool, zt_pool_takes_cuda) },
};
const struct zt_op zt_op_global_average_pool = {
    .name = "GlobalAveragePool",
    POOL_ROW,
    .since = 1,
    .max_out = 1,
    .flags = ZT_OP_PASSES_HALF,
    .in_types = { ZT_ANY_FLOAT },
    .infer = global_infer,
    .flops_each = 1,
    .grad = average_grad,
    .kernel = { [ZT_REF] = { .run = global_average_ref },
                [ZT_CPU] = ZT_IF_DNNL(zt_sum_pool_cpu),
                [ZT_CUDA] = ZT_ON_CUDA(global_average_pool, zt_pool_takes_cuda) },
};
const struct zt_op zt_op_global_lp_pool = {
    .name = "GlobalLpPool",
    POOL_ROW,
    .since = 2,
    .max_out = 1,
    .in_types = { ZT_ANY_FLOAT },
    .attrs = global_lp_attrs,
    .infer = global_infer,
    .flops_each = 1,
    .grad = lp_grad,
    .kernel = { [ZT_REF] = { .run = global_lp_ref },
                [ZT_CPU] = ZT_IF_DNNL(zt_sum_pool_cpu),
                [ZT_CUDA] = ZT_ON_CUDA(global_lp_pool, zt_pool_takes_cuda) },
};
const struct zt_op zt_op_max_pool_grad = {
    .name = "MaxPoolGrad",
    GRAD_ROW,
    .min_in = 2,
    .max_in = 2,
    .flags = ZT_OP_PASSES_HALF,
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_INT },
    .body = zt_max_pool_grad_function_body,
    .kernel = { [ZT_REF] = { .run = max_grad_ref },
                [ZT_CPU] = ZT_IF_DNNL(zt_max_pool_grad_cpu),
                [ZT_CUDA] = ZT_ON_CUDA(max_pool_grad, zt_pool_takes_cuda) },
};
const struct zt_op zt_op_average_pool_grad = {
    .name = "AveragePoolGrad",
    GRAD_ROW,
    .min_in = 1,
    .max_in = 1,
    .flags = ZT_OP_PASSES_HALF,
    .in_types = { ZT_ANY_FLOAT },
    .body = zt_average_pool_grad_function_body,
    .kernel = { [ZT_REF] = { .run = average_grad_ref },
                [ZT_CPU] = ZT_IF_DNNL(zt_sum_pool_grad_cpu),
                [ZT_CUDA] = ZT_ON_CUDA(average_pool_grad, zt_pool_takes_cuda) },
};
/* dy summed over the windows that cover an element: the gradient of a sum over windows */
const struct zt_op zt_op_sum_pool_grad = {
    .name = "SumPoolGrad",
    GRAD_ROW,
    .min_in = 1,
    .max_in = 1,
    .in_types = { ZT_ANY_FLOAT },
    .body = zt_sum_pool_grad_function_body,
    .kernel = { [ZT_REF] = { .run = sum_grad_ref },
                [ZT_CPU] = ZT_IF_DNNL(zt_sum_pool_grad_cpu),
                [ZT_CUDA] = ZT_ON_CUDA(sum_pool_grad, zt_pool_takes_cuda) },
};
