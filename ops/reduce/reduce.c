/* ReduceX: y = finish(fold of x over the axes), accumulated in double (integers: exactly, in 64 bits). */
#include "ops/reduce/kernels.h"
#include "ops/reduce/reduce.h"

#include "ops/reduce/reduce_cpu.h"
#include "ops/kernel/element_blocks.h"

#include <math.h>
#include <string.h>

/* Accumulation of a reduction. `fold` adds n elements x to acc, which is step (0: one number, 1: n of them) wide. */
struct rule {
    double start;
    int64_t start_int;
    void (*fold)(int64_t n, const double *x, double *acc, int step);
    void (*fold_int)(int64_t n, bool u, const int64_t *x, int64_t *acc,
                     int step);                 /* NULL: integers go through double */
    double (*finish)(double acc, double count); /* NULL: the sum itself */
    bool shifted; /* two passes: the maximum is found first and subtracted (log-sum-exp) */
};

bool zt_reduce_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    const struct zt_shape *x = &zt_in(g, node, 0)->shape;
    struct zt_reduction *r = to;
    r->axes = x->rank;
    memcpy(r->dim, x->dim, sizeof x->dim);
    return zt_reduce_axes(g, node, r->over, err);
}

static bool reduce_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0);
    bool over[ZT_MAX_RANK], keep = zt_attr_int(g->nodes[node], "keepdims", 1) != 0;
    struct zt_shape shape = { 0 };
    if (!zt_reduce_axes(g, node, over, err))
        return false;
    for (int k = 0; k < x->shape.rank; k++)
        if (!over[k])
            shape.dim[shape.rank++] = x->shape.dim[k];
        else if (keep)
            shape.dim[shape.rank++] = 1;
    zt_set_out(g, node, 0, x->dtype, &shape);
    return true;
}

/* The two walks of a call: the outer walk visits the results, the inner walk the elements of a result. Where the last
 * axis is kept, a block of results is accumulated at a time; where it is reduced, a block of elements is accumulated to
 * one result. */
struct plan {
    const struct zt_view *x, *y;
    struct zt_shape outer, inner; /* shape of x with the other set of axes made 1 */
    bool across;                  /* the last axis is kept */
    int64_t step[ZT_MAX_RANK];
    double count; /* elements a result */
};

static bool plan_make(const struct zt_call *call, struct plan *p, struct zt_err *err) {
    bool over[ZT_MAX_RANK];
    if (!zt_reduce_axes(call->graph, zt_call_node(call), over, err))
        return false;
    *p = (struct plan){ .x = &call->in[0], .y = &call->out[0] };
    p->outer = p->inner = p->x->shape;
    for (int k = 0; k < p->outer.rank; k++)
        (over[k] ? &p->outer : &p->inner)->dim[k] = 1;
    p->across = p->outer.rank > 0 && !over[p->outer.rank - 1];
    zt_shape_strides(&p->x->shape, p->step);
    p->count = (double)zt_shape_count(&p->inner);
    return true;
}

static void walk_of(const struct plan *p, const struct zt_shape *shape, int64_t limit, struct zt_walk *w) {
    zt_walk_start(w, shape, 1);
    for (int k = 0; k < p->x->shape.rank; k++)
        w->step[0][k] = p->step[k];
    w->limit = limit;
}

/* Folds the elements of the results from outer->offset on into acc. `less`: subtracted before the exponential, of which
 * the sum is taken; NULL: plain elements. */
static void accumulate(const struct plan *p, const struct zt_walk *outer,
                       void (*fold)(int64_t, const double *, double *, int), const double *less, double *acc) {
    struct zt_walk inner;
    double v[ZT_ELEMENT_BLOCK];
    walk_of(p, &p->inner, p->across ? 1 : ZT_ELEMENT_BLOCK, &inner);
    while (zt_walk_next(&inner)) {
        int64_t n = p->across ? outer->count : inner.count;
        int64_t stride = p->across ? outer->stride[0] : inner.stride[0];
        zt_load_block(p->x->dtype, p->x->data, outer->offset[0] + inner.offset[0], stride, n, v);
        for (int64_t i = 0; less && i < n; i++)
            v[i] = exp(v[i] - less[p->across ? i : 0]);
        fold(n, v, acc, p->across);
    }
}

static void accumulate_ints(const struct plan *p, const struct zt_walk *outer, const struct rule *rule, int64_t *acc) {
    struct zt_walk inner;
    int64_t v[ZT_ELEMENT_BLOCK];
    walk_of(p, &p->inner, p->across ? 1 : ZT_ELEMENT_BLOCK, &inner);
    while (zt_walk_next(&inner)) {
        int64_t n = p->across ? outer->count : inner.count;
        int64_t stride = p->across ? outer->stride[0] : inner.stride[0];
        zt_load_block_int(p->x->dtype, p->x->data, outer->offset[0] + inner.offset[0], stride, n, v);
        rule->fold_int(n, p->x->dtype == ZT_UINT64, v, acc, p->across);
    }
}

/* ---- folds ---- */

/* F: the new result from the result a and the term x. Macros, because the compiler vectorizes a loop only where the
 * expression stands in it. */
#define FOLD(name, F)                                                                                                  \
    static void name(int64_t n, const double *from, double *acc, int step) {                                           \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const double a = acc[i * step], x = from[i];                                                               \
            acc[i * step] = F;                                                                                         \
        }                                                                                                              \
    }
#define FOLD_INT(name, F)                                                                                              \
    static void name(int64_t n, bool u, const int64_t *from, int64_t *acc, int step) {                                 \
        (void)u;                                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const int64_t a = acc[i * step], x = from[i];                                                              \
            acc[i * step] = F;                                                                                         \
        }                                                                                                              \
    }

static int64_t wrapped_add(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t wrapped_mul(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

FOLD(sum, a + x)
FOLD_INT(sum_int, wrapped_add(a, x))
FOLD(product, a *x)
FOLD_INT(product_int, wrapped_mul(a, x))
FOLD(sum_abs, a + fabs(x))
FOLD_INT(sum_abs_int, x < 0 && !u ? wrapped_add(a, wrapped_mul(-1, x)) : wrapped_add(a, x))
FOLD(sum_square, a + x * x)
FOLD_INT(sum_square_int, wrapped_add(a, wrapped_mul(x, x)))
FOLD(maximum, isnan(a) || a > x ? a : x)
FOLD_INT(maximum_int, (u ? (uint64_t)a > (uint64_t)x : a > x) ? a : x)
FOLD(minimum, isnan(a) || a < x ? a : x)
FOLD_INT(minimum_int, (u ? (uint64_t)a < (uint64_t)x : a < x) ? a : x)

static double mean_of(double sum_, double count) {
    return sum_ / count;
}

static double root_of(double sum_, double count) {
    (void)count;
    return sqrt(sum_);
}

static double log_of(double sum_, double count) {
    (void)count;
    return log(sum_);
}

static const struct rule reduce_l1_rule = { 0, 0, sum_abs, sum_abs_int, NULL, false };
static const struct rule reduce_l2_rule = { 0, 0, sum_square, NULL, root_of, false };
static const struct rule reduce_log_sum_rule = { 0, 0, sum, NULL, log_of, false };
static const struct rule reduce_log_sum_exp_rule = { 0, 0, sum, NULL, log_of, true };
static const struct rule reduce_max_rule = { -INFINITY, INT64_MIN, maximum, maximum_int, NULL, false };
static const struct rule reduce_mean_rule = { 0, 0, sum, NULL, mean_of, false };
static const struct rule reduce_min_rule = { INFINITY, INT64_MAX, minimum, minimum_int, NULL, false };
static const struct rule reduce_prod_rule = { 1, 1, product, product_int, NULL, false };
static const struct rule reduce_sum_rule = { 0, 0, sum, sum_int, NULL, false };
static const struct rule reduce_sum_square_rule = { 0, 0, sum_square, sum_square_int, NULL, false };

/* ---- kernels ---- */

static void results(const struct plan *p, const struct rule *rule, const struct zt_walk *outer, int64_t at) {
    double acc[ZT_ELEMENT_BLOCK], most[ZT_ELEMENT_BLOCK];
    for (int64_t i = 0; i < outer->count; i++) {
        acc[i] = rule->start;
        most[i] = -INFINITY;
    }
    if (rule->shifted) {
        accumulate(p, outer, maximum, NULL, most);
        for (int64_t i = 0; i < outer->count; i++)
            most[i] = isinf(most[i]) ? 0 : most[i]; /* all -inf, or an inf that must stay one */
    }
    accumulate(p, outer, rule->fold, rule->shifted ? most : NULL, acc);
    for (int64_t i = 0; i < outer->count; i++) {
        acc[i] = rule->finish ? rule->finish(acc[i], p->count) : acc[i];
        acc[i] += rule->shifted ? most[i] : 0;
    }
    zt_store_block(p->y->dtype, p->y->data, at, 1, outer->count, acc);
}

/* The start of a fold over integers, cut to what the type holds: an empty maximum is the least number of the type. */
static int64_t start_of(const struct rule *rule, enum zt_dtype dtype) {
    unsigned bits = 8 * (unsigned)zt_dtype_bytes(dtype);
    bool is_unsigned = zt_dtype_in(dtype, ZT_ANY_UNSIGNED | ZT_BIT(ZT_BOOL));
    if (rule->start_int == INT64_MIN)
        return is_unsigned ? 0 : -(INT64_C(1) << (bits - 2)) * 2;
    if (rule->start_int == INT64_MAX)
        return is_unsigned ? (int64_t)(UINT64_MAX >> (64 - bits)) : INT64_MAX >> (64 - bits);
    return rule->start_int;
}

static void results_int(const struct plan *p, const struct rule *rule, const struct zt_walk *outer, int64_t at) {
    int64_t acc[ZT_ELEMENT_BLOCK], start = start_of(rule, p->x->dtype);
    for (int64_t i = 0; i < outer->count; i++)
        acc[i] = start;
    accumulate_ints(p, outer, rule, acc);
    zt_store_block_int(p->y->dtype, p->y->data, at, 1, outer->count, acc);
}

static bool reduce(const struct zt_call *call, const struct rule *rule, struct zt_err *err) {
    struct plan p;
    struct zt_walk outer;
    if (!plan_make(call, &p, err))
        return false;
    bool ints = rule->fold_int && zt_dtype_in(p.x->dtype, ZT_ANY_INT | ZT_BIT(ZT_BOOL));
    walk_of(&p, &p.outer, p.across ? ZT_ELEMENT_BLOCK : 1, &outer);
    for (int64_t at = 0; zt_walk_next(&outer); at += outer.count)
        (ints ? results_int : results)(&p, rule, &outer, at);
    return true;
}

static double reduce_flops(const struct zt_graph *g, int node) {
    return (double)zt_shape_count(&zt_in(g, node, 0)->shape);
}

/* ---- rows ---- */

static const struct zt_attr_spec with_axes[] = { { "axes", ZT_ATTR_INTS }, { "keepdims", ZT_ATTR_INT }, { 0 } };
static const struct zt_attr_spec with_noop[] = { { "keepdims", ZT_ATTR_INT },
                                                 { "noop_with_empty_axes", ZT_ATTR_INT },
                                                 { 0 } };

static bool takes_cuda(const struct zt_graph *g, int node) {
    bool over[ZT_MAX_RANK];
    struct zt_err err = { 0 };
    return zt_dtype_in(zt_in(g, node, 0)->dtype, ZT_CUDA_FLOATS) && zt_reduce_axes(g, node, over, &err);
}

#define REDUCE_FORM(id, NAME, SINCE, UNTIL, MOST_IN, TYPES, ATTRS, GRAD)                                               \
    {                                                                                                                  \
        .name = NAME, .domain = "", .since = SINCE, .until = UNTIL, ZT_ONE_OUT(1, MOST_IN),                            \
        .in_types = { TYPES, ZT_BIT(ZT_INT64) }, .attrs = ATTRS, .infer = reduce_infer, .grad = GRAD,                  \
        .flags = ZT_OP_SUMS, .body = zt_axes_old_function_body, .no_grad_in = 1 << 1, .flops = reduce_flops,           \
        .kernel = { [ZT_REF] = { .run = id##_run },                                                                    \
                    [ZT_CPU] = ZT_REDUCE_CPU,                                                                          \
                    [ZT_CUDA] = ZT_CUDA_AS(reduce, takes_cuda, zt_reduce_describe) },                                  \
    }

/* A row up to the opset in which axes became an input, and a row from that opset on. A macro, as it defines a function
 * and rows. */
#define REDUCE_ROWS(id, NAME, MOVED, TYPES)                                                                            \
    static bool id##_run(const struct zt_call *call, struct zt_err *err) {                                             \
        return reduce(call, &id##_rule, err);                                                                          \
    }                                                                                                                  \
    const struct zt_op zt_op_##id##_1 = REDUCE_FORM(id, NAME, 1, MOVED - 1, 1, TYPES, with_axes, zt_##id##_grad);      \
    const struct zt_op zt_op_##id = REDUCE_FORM(id, NAME, MOVED, 0, 2, TYPES, with_noop, zt_##id##_grad);

#define zt_reduce_max_grad zt_reduce_extreme_grad
#define zt_reduce_min_grad zt_reduce_extreme_grad

REDUCE_ROWS(reduce_l1, "ReduceL1", 18, ZT_ANY_NUMBER)
REDUCE_ROWS(reduce_l2, "ReduceL2", 18, ZT_ANY_NUMBER)
REDUCE_ROWS(reduce_log_sum, "ReduceLogSum", 18, ZT_ANY_NUMBER)
REDUCE_ROWS(reduce_log_sum_exp, "ReduceLogSumExp", 18, ZT_ANY_NUMBER)
REDUCE_ROWS(reduce_max, "ReduceMax", 18, ZT_ANY_TYPE)
REDUCE_ROWS(reduce_mean, "ReduceMean", 18, ZT_ANY_NUMBER)
REDUCE_ROWS(reduce_min, "ReduceMin", 18, ZT_ANY_TYPE)
REDUCE_ROWS(reduce_prod, "ReduceProd", 18, ZT_ANY_NUMBER)
REDUCE_ROWS(reduce_sum, "ReduceSum", 13, ZT_ANY_NUMBER)
REDUCE_ROWS(reduce_sum_square, "ReduceSumSquare", 18, ZT_ANY_NUMBER)
