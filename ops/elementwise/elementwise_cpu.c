#include "ops/elementwise/elementwise_cpu.h"

#include "device/threads.h"
#include "ops/cpu/blocked_layout.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"
#include "ops/elementwise/simd_typed.h"

#include <math.h>
#include <string.h>

enum { UNIT = 1 << 14 }; /* elements a thread takes at a time */

static const struct simd_row {
    int inputs;
    const char *attr[2];
    float otherwise[2];
    bool keeps_zero;
} simd_ops[ZT_SIMD_OPS] = {
#define LOOP(id, INPUTS, U, U0, V, V0, ZERO, VALUE) [ZT_SIMD_##id] = { INPUTS, { U, V }, { U0, V0 }, ZERO },
#include "ops/elementwise/loops.inc"
};

/* ---- which loop, with which numbers ---- */

/* Bounds of Clip and ClipGrad that are inputs, from `first` on; false where they are not known yet. */
static bool bounds_known(const struct zt_graph *g, int node, int first, float bound[2]) {
    for (int i = 0; i < 2; i++) {
        const struct zt_value *v = zt_in(g, node, first + i);
        if (v && !v->data)
            return false;
        bound[i] = v ? (float)zt_load_double(v->dtype, v->data, 0) : bound[i];
    }
    return true;
}

/* Pow and PowSlope: only the square, x^2 and 2x. */
static bool is_square(const struct zt_graph *g, int node) {
    const struct zt_value *e = zt_in(g, node, 1);
    return e->data && zt_shape_count(&e->shape) == 1 && zt_load_double(e->dtype, e->data, 0) == 2 &&
           zt_shape_equal(&zt_in(g, node, 0)->shape, &zt_out(g, node, 0)->shape);
}

static bool of_tanh(const struct zt_node *n) {
    return strcmp(zt_attr_text(n, "approximate", "none"), "tanh") == 0;
}

/* The loop of an op that has several loops, or numbers in its inputs; number: these numbers. */
static int variant_of(const struct zt_graph *g, int node, int i, float number[2]) {
    const struct zt_node *n = g->nodes[node];
    switch (i) {
    case ZT_SIMD_gelu:
        return of_tanh(n) ? ZT_SIMD_gelu_tanh : i;
    case ZT_SIMD_gelu_grad:
        return of_tanh(n) ? ZT_SIMD_gelu_tanh_grad : i;
    case ZT_SIMD_clip:
    case ZT_SIMD_clip_grad:
        return bounds_known(g, node, simd_ops[i].inputs, number) ? i : ZT_SIMD_none;
    case ZT_SIMD_pow:
        return is_square(g, node) ? ZT_SIMD_square : i;
    case ZT_SIMD_pow_slope:
        return is_square(g, node) ? ZT_SIMD_square_slope : i;
    case ZT_SIMD_fmod:
        return zt_attr_int(n, "fmod", 0) ? i : ZT_SIMD_none;
    case ZT_SIMD_is_inf:
        number[0] = (float)(zt_attr_int(n, "detect_positive", 1) != 0);
        number[1] = (float)(zt_attr_int(n, "detect_negative", 1) != 0);
        return i;
    default:
        return i;
    }
}

/* The loop of the row and the numbers that are attributes. */
static int find_lane(const struct zt_node *n, const struct zt_op *op, float number[2]) {
    const struct zt_elementwise *loops = op->detail;
    const int i = loops ? (int)loops->simd : ZT_SIMD_none;
    for (int k = 0; k < 2; k++)
        number[k] = simd_ops[i].attr[k] ? zt_attr_float(n, simd_ops[i].attr[k], simd_ops[i].otherwise[k]) : 0;
    return i;
}

int zt_simd_elementwise(const struct zt_graph *g, int node, float number[2]) {
    return variant_of(g, node, find_lane(g->nodes[node], g->nodes[node]->op, number), number);
}

zt_simd_function *zt_elementwise_loop(const struct zt_node *node, const struct zt_op *op, float number[2],
                                      bool *keeps_zero) {
    int i = find_lane(node, op, number);
    if (i == ZT_SIMD_none || simd_ops[i].inputs != 1)
        return NULL;
    if (i == ZT_SIMD_gelu && of_tanh(node))
        i = ZT_SIMD_gelu_tanh;
    *keeps_zero = simd_ops[i].keeps_zero;
    return zt_simd_functions()[i];
}

/* Types whose values floats hold exactly. They are computed with in float, and stored with one rounding. */
static const unsigned held = 1u << ZT_FLOAT | 1u << ZT_FLOAT16 | 1u << ZT_BFLOAT16 | 1u << ZT_BOOL | 1u << ZT_UINT8 |
                             1u << ZT_INT8 | 1u << ZT_UINT16 | 1u << ZT_INT16;
static const unsigned floats = 1u << ZT_FLOAT | 1u << ZT_FLOAT16 | 1u << ZT_BFLOAT16;

/* Max, Min, Sum and Mean fold any number of inputs: the loop's first input is the result so far. */
static bool folds(enum zt_simd_op op) {
    return op == ZT_SIMD_max || op == ZT_SIMD_min || op == ZT_SIMD_sum || op == ZT_SIMD_mean;
}

/* The loop in the elements' own type, NULL where there is none: integers, double, casts. */
static zt_typed_function *typed_of(const struct zt_graph *g, int node, int *inputs) {
    const struct zt_node *n = g->nodes[node];
    const enum zt_dtype dtype = zt_in(g, node, 0)->dtype;
    if (n->op->flags & ZT_OP_CAST) {
        *inputs = 1;
        return zt_typed_cast(dtype, zt_out(g, node, 0)->dtype);
    }
    zt_typed_function *loop = zt_typed_loop(n, dtype, inputs);
    for (int i = 1; loop && i < n->in_count; i++)
        if (!zt_in(g, node, i) || zt_in(g, node, i)->dtype != dtype)
            return NULL;
    return n->in_count < *inputs ? NULL : loop;
}

bool zt_elementwise_supports(const struct zt_graph *g, int node) {
    float number[2];
    int inputs = 0;
    if (zt_shape_count(&zt_out(g, node, 0)->shape) == 0)
        return false;
    if (typed_of(g, node, &inputs))
        return true;
    const enum zt_simd_op op = (enum zt_simd_op)zt_simd_elementwise(g, node, number);
    const enum zt_dtype to = zt_out(g, node, 0)->dtype;
    if (op == ZT_SIMD_none)
        return false;
    if (op == ZT_SIMD_cast)
        return zt_dtype_in(zt_in(g, node, 0)->dtype, held) && zt_dtype_in(to, floats | ZT_BIT(ZT_BOOL));
    if (folds(op)) {
        bool good = to == ZT_FLOAT && g->nodes[node]->in_count > 1;
        for (int i = 0; good && i < g->nodes[node]->in_count; i++)
            good = zt_in(g, node, i)->dtype == ZT_FLOAT;
        return good;
    }
    bool good = zt_dtype_in(to, floats | ZT_BIT(ZT_BOOL));
    for (int i = 0; good && i < simd_ops[op].inputs; i++)
        good = zt_dtype_in(zt_in(g, node, i)->dtype, to == ZT_BOOL ? floats | ZT_BIT(ZT_BOOL) : floats);
    return good;
}

/* ---- the walk ---- */

/* An operand of a binary loop on blocked activations that has one number for each channel, [n or 1, c, 1 ...] or
 * [c, 1 ...], as channel attention and PRelu have it, or for each pixel, [n or 1, 1, spatial ...]. */
struct spread {
    enum { SPREAD_NOT, SPREAD_CHANNELS, SPREAD_PIXELS } kind;
    int operand;             /* 0 or 1 */
    int64_t sample;          /* elements of it from sample to sample; 0: all have the same */
    struct zt_planes planes; /* of the result */
};

struct plan {
    zt_typed_function *typed; /* else `op` with its numbers */
    enum zt_simd_op op;
    float number[2];
    int inputs;           /* of the loop */
    bool folding;         /* all inputs, two at a time */
    int64_t elements;     /* of the output, padding of blocked layouts included */
    int folds;            /* how often the loop runs: 1, or for folding ops the inputs after the first */
    struct zt_walk *walk; /* by fold, with merged axes: steps along the last one are 0 or 1 */
    struct spread spread;
};

static void plan_broadcast(struct zt_walk *walk, const struct zt_shape *y, const struct zt_shape *a,
                           const struct zt_shape *b) {
    zt_walk_start(walk, y, 2);
    zt_walk_strides(walk, 0, a);
    zt_walk_strides(walk, 1, b);
    zt_walk_merge(walk);
}

/* Over the elements of a layout that all inputs but single numbers, which have another shape than the result, have. */
static void plan_flat(struct zt_walk *walk, int64_t elements, const bool is_number[2]) {
    const struct zt_shape all = { .rank = 1, .dim = { elements } }, one = { .rank = 1, .dim = { 1 } };
    plan_broadcast(walk, &all, is_number[0] ? &one : &all, is_number[1] ? &one : &all);
}

static const unsigned reordered = 1u << ZT_FLOAT | 1u << ZT_BFLOAT16; /* types that Reorder nodes take */

/* How an operand spreads over blocked activations of shape y. */
static struct spread spread_of(const struct zt_value *x, const struct zt_shape *y) {
    const int missing = y->rank - x->shape.rank;
    struct spread s = { SPREAD_NOT };
    if (missing > 1 || missing < 0)
        return s;
    const int64_t n = missing ? 1 : x->shape.dim[0], c = x->shape.dim[1 - missing];
    bool single = true, whole = true;
    for (int k = 2; k < y->rank; k++) {
        single &= x->shape.dim[k - missing] == 1;
        whole &= x->shape.dim[k - missing] == y->dim[k];
    }
    if (n != 1 && n != y->dim[0])
        return s;
    if (single && c == y->dim[1])
        s.kind = SPREAD_CHANNELS;
    else if (whole && c == 1)
        s.kind = SPREAD_PIXELS;
    s.sample = n == 1 ? 0 : zt_shape_count(&x->shape) / n;
    return s;
}

/* Whether all tensors can have the layout of the first blocked input, `layout`: shapes agree, or an operand spreads
 * over the others, types have Reorder nodes and the padding stays zero. */
static bool can_share(const struct zt_prepare *p, const struct zt_layout *layout, enum zt_simd_op op, int inputs,
                      struct spread *spread) {
    const struct zt_value *y = zt_out(p->graph, p->node, 0);
    const bool padded = (int64_t)layout->bytes != zt_value_bytes(y);
    int block;
    const bool blocked = zt_layout_order(layout, &block) == ZT_ORDER_BLOCKED;
    for (int i = 0; i < inputs; i++) {
        const struct zt_value *x = zt_in(p->graph, p->node, i);
        if (!zt_dtype_in(x->dtype, reordered))
            return false;
        if (zt_shape_equal(&x->shape, &y->shape))
            continue;
        if (zt_shape_count(&x->shape) == 1 && (!padded || op == ZT_SIMD_mul)) /* 0 times a number stays 0 */
            continue;
        *spread = spread_of(x, &y->shape);
        spread->operand = i;
        if (spread->kind == SPREAD_NOT || !blocked || inputs != 2 || folds(op))
            return false;
        zt_planes_of(layout, &y->shape, &spread->planes);
    }
    return zt_dtype_in(y->dtype, reordered) && (!padded || simd_ops[op].keeps_zero);
}

/* The layout of value v in the order of `first`, that of a tensor of the same shape. */
static const struct zt_layout *in_order(const struct zt_prepare *p, const struct zt_layout *first,
                                        const struct zt_value *v) {
    int block;
    const enum zt_order order = zt_layout_order(first, &block);
    return zt_layout_of(p->graph->arena, order, block, v->dtype, &v->shape);
}

/* Sets the layouts of all tensors; returns whether they are those of the first blocked input instead of plain. What
 * spreads stays plain. */
static bool set_layouts(struct zt_prepare *p, enum zt_simd_op op, int inputs, struct spread *spread) {
    const struct zt_graph *g = p->graph;
    const struct zt_value *y = zt_out(g, p->node, 0);
    const struct zt_layout *first = NULL;
    int block;
    for (int i = 0; i < inputs && !first; i++) {
        const enum zt_order order = zt_layout_order(p->in_layout[i], &block);
        if ((order == ZT_ORDER_BLOCKED || order == ZT_ORDER_CHANNELS_LAST) &&
            zt_shape_equal(&zt_in(g, p->node, i)->shape, &y->shape))
            first = in_order(p, p->in_layout[i], y);
    }
    const bool shared = first && can_share(p, first, op, inputs, spread);
    if (!shared)
        spread->kind = SPREAD_NOT;
    for (int i = 0; i < g->nodes[p->node]->in_count; i++) {
        const bool whole = shared && i < inputs && zt_shape_equal(&zt_in(g, p->node, i)->shape, &y->shape);
        p->in_layout[i] = whole ? in_order(p, first, zt_in(g, p->node, i)) : NULL;
    }
    p->out_layout[0] = shared ? first : NULL;
    return shared;
}

bool zt_elementwise_prepare(struct zt_prepare *p, struct zt_err *err) {
    (void)err;
    struct plan *plan = ZT_NEW(p->graph->arena, struct plan);
    const int given = p->graph->nodes[p->node]->in_count;
    plan->op = (enum zt_simd_op)zt_simd_elementwise(p->graph, p->node, plan->number);
    plan->typed = typed_of(p->graph, p->node, &plan->inputs);
    if (!plan->typed)
        plan->inputs = simd_ops[plan->op].inputs;
    plan->folding = folds(plan->op);
    plan->folds = plan->folding ? given - 1 : 1;
    plan->walk = ZT_NEW_N(p->graph->arena, struct zt_walk, plan->folds);
    const int inputs = plan->folding ? given : plan->inputs;
    const struct zt_value *out = zt_out(p->graph, p->node, 0);
    const struct zt_shape *y = &out->shape;
    const bool shared = set_layouts(p, plan->typed ? ZT_SIMD_none : plan->op, plan->typed ? 0 : inputs, &plan->spread);
    plan->elements = shared ? (int64_t)(p->out_layout[0]->bytes / zt_dtype_bytes(out->dtype)) : zt_shape_count(y);
    for (int i = 0; i < plan->folds && !plan->spread.kind; i++) {
        const struct zt_value *a = i ? out : zt_in(p->graph, p->node, 0),
                              *b = zt_in(p->graph, p->node, plan->folding ? i + 1 : inputs - 1);
        if (shared)
            plan_flat(&plan->walk[i], plan->elements,
                      (bool[2]){ !zt_shape_equal(&a->shape, y), !zt_shape_equal(&b->shape, y) });
        else
            plan_broadcast(&plan->walk[i], y, &a->shape, &b->shape);
    }
    p->state = plan;
    return true;
}

/* One pass of the loop over tensors of any type that floats hold. */
struct job {
    const struct plan *plan;
    const struct zt_walk *walk;
    const struct zt_view *in[2], *out;
    float scale; /* of the result, 1 but for Mean */
};

enum { BLOCK = 512, SHORT_ROW = 64 }; /* elements that are converted at a time */

/* `n` elements (one with step 0) as floats: in place, or converted into `to`. */
static const float *as_floats(const struct zt_view *v, int64_t offset, int step, int64_t n, float *to) {
    if (v->dtype == ZT_FLOAT)
        return (const float *)v->data + offset;
    zt_simd_load(v->dtype, zt_element(v->data, zt_dtype_bytes(v->dtype), offset), step ? n : 1, to);
    return to;
}

static void run_typed(const struct job *job, const struct zt_walk *w, int64_t at) {
    const struct zt_view *a = job->in[0], *b = job->in[1];
    const struct zt_typed_span span = { .a = zt_element(a->data, zt_dtype_bytes(a->dtype), w->offset[0]),
                                        .b = zt_element(b->data, zt_dtype_bytes(b->dtype), w->offset[1]),
                                        .y = zt_element(job->out->data, zt_dtype_bytes(job->out->dtype), at),
                                        .n = w->count,
                                        .a_step = w->stride[0] != 0,
                                        .b_step = w->stride[1] != 0 };
    job->plan->typed(&span);
}

/* The loop over n elements, which become elements `at` on of the output; the steps of a and b are 0 or 1. */
static void run_loop(const struct job *job, struct zt_simd_span span, int64_t at) {
    const struct plan *plan = job->plan;
    const bool direct = job->out->dtype == ZT_FLOAT;
    float block[BLOCK];
    span.u = plan->number[0];
    span.v = plan->number[1];
    span.y = direct ? (float *)job->out->data + at : block;
    zt_simd_functions()[plan->op](&span);
    for (int64_t i = 0; job->scale != 1 && i < span.n; i++)
        span.y[i] *= job->scale;
    if (!direct)
        zt_simd_store(job->out->dtype, block, span.n, zt_element(job->out->data, zt_dtype_bytes(job->out->dtype), at));
}

static void run_span(const struct job *job, const struct zt_walk *w, int64_t at) {
    float block[2][BLOCK];
    struct zt_simd_span span = { .a_step = w->stride[0] != 0, .b_step = w->stride[1] != 0, .n = w->count };
    span.a = as_floats(job->in[0], w->offset[0], span.a_step, span.n, block[0]);
    span.b = as_floats(job->in[1], w->offset[1], span.b_step, span.n, block[1]);
    run_loop(job, span, at);
}

/* Elements [unit * UNIT, ...) in spans along the innermost axis. */
static void run_unit(void *arg, int64_t unit) {
    const struct job *job = arg;
    const bool direct = job->plan->typed ||
                        (job->out->dtype == ZT_FLOAT && job->in[0]->dtype == ZT_FLOAT && job->in[1]->dtype == ZT_FLOAT);
    struct zt_walk w = *job->walk;
    int64_t at = unit * UNIT;
    w.limit = direct ? UNIT : BLOCK;
    zt_walk_part(&w, at, job->plan->elements - at < UNIT ? job->plan->elements - at : UNIT);
    for (; zt_walk_next(&w); at += w.count)
        if (job->plan->typed)
            run_typed(job, &w, at);
        else
            run_span(job, &w, at);
}

/* ---- short rows: several at once ---- */

/* Whether the innermost axis is so short that starting the loop would take longer than the loop. */
static bool has_short_rows(const struct plan *plan, const struct zt_walk *w) {
    return !plan->typed && w->shape.rank > 1 && w->shape.dim[w->shape.rank - 1] <= SHORT_ROW;
}

/* Rows of an input, `row` elements apart, of elements `step` apart (0 or 1). */
struct rows {
    int64_t offset, count, row, columns;
    int step;
};

/* Inlined with a known step, 0 or 1. */
static inline __attribute__((always_inline)) void copy_row(const float *restrict from, int step, int64_t columns,
                                                           float *restrict to) {
    for (int64_t k = 0; k < columns; k++)
        to[k] = from[k * step];
}

/* The rows as floats without gaps. */
static void copy_rows(const struct zt_view *v, const struct rows *r, float *to) {
    float one[BLOCK];
    const bool together = r->step && r->row == r->columns;
    const int64_t times = together ? 1 : r->count, columns = together ? r->count * r->columns : r->columns;
    const float *from = one;
    for (int64_t i = 0; i < times; i++) {
        if (i == 0 || r->row)
            from = as_floats(v, r->offset + i * r->row, r->step, columns, one);
        if (r->step)
            copy_row(from, 1, columns, to + i * columns);
        else
            copy_row(from, 0, columns, to + i * columns);
    }
}

/* Starts the loop over the rows that were copied; an input of all elements of the result is read in place. */
static void run_copied(const struct job *job, struct zt_simd_span span, const bool *whole, int64_t at) {
    if (whole[0])
        span.a = (const float *)job->in[0]->data + at;
    if (whole[1])
        span.b = (const float *)job->in[1]->data + at;
    run_loop(job, span, at);
}

static void run_rows(void *arg, int64_t unit) {
    const struct job *job = arg;
    struct zt_walk w = *job->walk; /* over rows */
    const int last = --w.shape.rank;
    const int64_t columns = w.shape.dim[last], rows = job->plan->elements / columns, share = UNIT / columns;
    float block[2][BLOCK];
    bool whole[2];
    struct zt_simd_span span = { .a = block[0], .b = block[1], .a_step = 1, .b_step = 1 };
    int64_t at = unit * share * columns;
    for (int t = 0; t < 2; t++)
        whole[t] = job->in[t]->dtype == ZT_FLOAT && zt_shape_count(&job->in[t]->shape) == job->plan->elements;
    w.limit = BLOCK / columns;
    zt_walk_part(&w, unit * share, zt_min_int(share, rows - unit * share));
    while (zt_walk_next(&w)) {
        if (span.n + w.count * columns > BLOCK) {
            run_copied(job, span, whole, at);
            at += span.n;
            span.n = 0;
        }
        for (int t = 0; t < 2; t++)
            if (!whole[t])
                copy_rows(job->in[t],
                          &(struct rows){ w.offset[t], w.count, w.stride[t], columns, w.step[t][last] != 0 },
                          block[t] + span.n);
        span.n += w.count * columns;
    }
    run_copied(job, span, whole, at);
}

/* ---- an operand that spreads over blocked activations ---- */

static int64_t plane_chunks(const struct zt_planes *p) {
    return zt_ceil_div(p->group, UNIT);
}

/* The operand's numbers for `n` elements of a plane (sample, group of channels) from element `at` on; 0 for the
 * padding. */
static void spread_over(const struct job *job, const int64_t plane[2], int64_t at, int64_t n, float *to) {
    const struct spread *s = &job->plan->spread;
    const struct zt_view *v = job->in[s->operand];
    const int vector = s->planes.vector;
    const int64_t first = plane[1] * vector, used = zt_min_int(vector, s->planes.channels - first);
    const bool pixels = s->kind == SPREAD_PIXELS;
    float numbers[BLOCK];
    const float *from =
        as_floats(v, plane[0] * s->sample + (pixels ? at / vector : first), 1, pixels ? n / vector : used, numbers);
    for (int64_t i = 0; pixels && i < n; i += vector, from++)
        for (int l = 0; l < vector; l++)
            to[i + l] = l < used ? *from : 0;
    if (pixels)
        return;
    memcpy(to, from, (size_t)used * sizeof *to);
    memset(to + used, 0, (size_t)(vector - used) * sizeof *to);
    for (int64_t done = vector, more; done < n; done += more) { /* twice as many each time */
        more = zt_min_int(done, n - done);
        memcpy(to + done, to, (size_t)more * sizeof *to);
    }
}

/* A part of a plane of at most UNIT elements. */
static void run_spread(void *arg, int64_t unit) {
    const struct job *job = arg;
    const struct spread *s = &job->plan->spread;
    const struct zt_planes *p = &s->planes;
    const int64_t chunks = plane_chunks(p), start = unit % chunks * UNIT, end = zt_min_int(p->group, start + UNIT);
    const int64_t plane[2] = { unit / chunks / p->groups, unit / chunks % p->groups };
    const int64_t offset = plane[0] * p->sample + plane[1] * p->group;
    float spread[BLOCK], block[BLOCK];
    for (int64_t at = start; at < end; at += BLOCK) {
        const int64_t n = zt_min_int(BLOCK, end - at);
        if (at == start || s->kind == SPREAD_PIXELS)
            spread_over(job, plane, at, n, spread);
        const float *other = as_floats(job->in[1 - s->operand], offset + at, 1, n, block);
        const struct zt_simd_span span = {
            .a = s->operand ? other : spread, .b = s->operand ? spread : other, .a_step = 1, .b_step = 1, .n = n
        };
        run_loop(job, span, offset + at);
    }
}

bool zt_elementwise_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct plan *plan = call->state;
    for (int i = 0; i < plan->folds; i++) {
        struct job job = { .plan = plan,
                           .walk = &plan->walk[i],
                           .in = { i ? &call->out[0] : &call->in[0],
                                   &call->in[plan->folding ? i + 1 : plan->inputs - 1] },
                           .out = &call->out[0],
                           .scale = 1 };
        if (plan->op == ZT_SIMD_mean && i == plan->folds - 1)
            job.scale = 1 / (float)(plan->folds + 1);
        if (plan->spread.kind) {
            const struct zt_planes *p = &plan->spread.planes;
            zt_parallel_for(call->threads, p->samples * p->groups * plane_chunks(p), run_spread, &job);
            continue;
        }
        const struct zt_shape *walked = &job.walk->shape;
        const int64_t columns = walked->dim[walked->rank - 1];
        if (has_short_rows(plan, job.walk))
            zt_parallel_for(call->threads, zt_ceil_div(plan->elements / columns, UNIT / columns), run_rows, &job);
        else
            zt_parallel_for(call->threads, zt_ceil_div(plan->elements, UNIT), run_unit, &job);
    }
    return true;
}
