/* Any number of broadcast inputs folded into one: Min, Max, Sum, Mean. Min and Max propagate NaN. */
#include "ops/elementwise/pointwise.h"
#include "ops/elementwise/elementwise_cpu.h"
#include "ops/elementwise/kernels.h"
#include "ops/kernel/shape.h"

#include "ops/kernel/element_blocks.h"

#include <math.h>
#include <string.h>

struct fold {
    void (*f)(int64_t n, const double *x, double *y);               /* y = y op x */
    void (*f_int)(int64_t n, bool u, const int64_t *x, int64_t *y); /* NULL: no integers */
    bool mean;                                                      /* divide by the number of inputs */
};

/* Offset of the block in a tensor of the given steps. */
static int64_t offset_of(const struct zt_walk *w, const int64_t *step) {
    int64_t offset = 0;
    for (int k = 0; k < w->shape.rank; k++)
        offset += w->index[k] * step[k];
    return offset;
}

static void fold_block(const struct zt_call *call, const struct fold *fold, const struct zt_walk *w) {
    const struct zt_view *y = &call->out[0];
    bool ints = zt_dtype_in(y->dtype, ZT_ANY_INT);
    double a[ZT_ELEMENT_BLOCK], b[ZT_ELEMENT_BLOCK];
    int64_t step[ZT_MAX_RANK], p[ZT_ELEMENT_BLOCK], q[ZT_ELEMENT_BLOCK];
    for (int i = 0; i < call->in_count; i++) {
        const struct zt_view *x = &call->in[i];
        zt_broadcast_steps(&w->shape, &x->shape, step);
        int64_t at = offset_of(w, step), stride = step[w->shape.rank - 1];
        if (ints) {
            zt_load_block_int(x->dtype, x->data, at, stride, w->count, i ? q : p);
            if (i)
                fold->f_int(w->count, x->dtype == ZT_UINT64, q, p);
        } else {
            zt_load_block(x->dtype, x->data, at, stride, w->count, i ? b : a);
            if (i)
                fold->f(w->count, b, a);
        }
    }
    for (int64_t i = 0; fold->mean && i < w->count; i++)
        a[i] /= call->in_count;
    if (ints)
        zt_store_block_int(y->dtype, y->data, w->offset[0], w->stride[0], w->count, p);
    else
        zt_store_block(y->dtype, y->data, w->offset[0], w->stride[0], w->count, a);
}

static void fold_all(const struct zt_call *call, const struct fold *fold) {
    struct zt_walk w;
    zt_walk_start(&w, &call->out[0].shape, 1);
    zt_walk_strides(&w, 0, &call->out[0].shape);
    while (zt_walk_next(&w))
        fold_block(call, fold, &w);
}

/* Every input of one type, however many. */
static bool variadic_infer(struct zt_graph *g, int node, struct zt_err *err) {
    for (int i = 0; i < g->nodes[node]->in_count; i++) {
        const struct zt_value *x = zt_in(g, node, i);
        if (!x)
            return zt_node_fail(g, node, err, "input %d is missing", i);
        if (x->dtype != zt_in(g, node, 0)->dtype)
            return zt_node_fail(g, node, err, "input \"%s\" has type %s, but \"%s\" has type %s", x->name,
                                zt_dtype_name(x->dtype), zt_in(g, node, 0)->name,
                                zt_dtype_name(zt_in(g, node, 0)->dtype));
    }
    return zt_infer_broadcast(g, node, err);
}

/* y = sum x_i    dx_i = dy */
static bool sum_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    for (int i = 0; i < zt_grad_graph(b)->nodes[node]->in_count; i++)
        if (zt_grad_wanted(b, node, i)) {
            int x = zt_grad_graph(b)->nodes[node]->in[i];
            zt_grad_give(b, node, i, zt_grad_unbroadcast(b, zt_grad_out(b, node, 0), x));
        }
    return true;
}

/* y = sum x_i / n    dx_i = dy / n */
static bool mean_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    int dy = zt_grad_out(b, node, 0), count = zt_grad_graph(b)->nodes[node]->in_count;
    int part = ZT_EMIT(b, "Div", dy, zt_emit_float(b, zt_grad_dtype(b, node), count));
    for (int i = 0; i < count; i++)
        if (zt_grad_wanted(b, node, i))
            zt_grad_give(b, node, i, zt_grad_unbroadcast(b, part, zt_grad_graph(b)->nodes[node]->in[i]));
    return true;
}

/* y = max x_i (or min)    dx_i = dy m_i / sum m_j with m_i = [x_i = y]: ties share */
static bool extreme_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    const int dy = zt_grad_out(b, node, 0), count = zt_grad_graph(b)->nodes[node]->in_count;
    int total = -1, *mask = ZT_NEW_N(zt_grad_graph(b)->arena, int, count);
    for (int i = 0; i < count; i++) {
        const struct zt_node *n = zt_grad_graph(b)->nodes[node];
        mask[i] = zt_emit_cast_like(b, ZT_EMIT(b, "Equal", n->in[i], n->out[0]), dy);
        total = i ? ZT_EMIT(b, "Add", total, mask[i]) : mask[i];
    }
    int share = ZT_EMIT(b, "Div", dy, total);
    for (int i = 0; i < count; i++)
        if (zt_grad_wanted(b, node, i)) {
            int dx = ZT_EMIT(b, "Mul", share, mask[i]);
            zt_grad_give(b, node, i, zt_grad_unbroadcast(b, dx, zt_grad_graph(b)->nodes[node]->in[i]));
        }
    return true;
}

/* F: the new result from the result a and the input b. Macros, because the compiler vectorizes a loop only where the
 * expression stands in it. */
#define FOLD_LOOP(name, F)                                                                                             \
    static void name(int64_t n, const double *x, double *y) {                                                          \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const double a = y[i], b = x[i];                                                                           \
            y[i] = F;                                                                                                  \
        }                                                                                                              \
    }
#define FOLD_INT_LOOP(name, F)                                                                                         \
    static void name(int64_t n, bool u, const int64_t *x, int64_t *y) {                                                \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const int64_t a = y[i], b = x[i];                                                                          \
            y[i] = F;                                                                                                  \
        }                                                                                                              \
    }

FOLD_LOOP(max_f, isnan(a) || a > b ? a : b)
FOLD_INT_LOOP(max_i, (u ? (uint64_t)a > (uint64_t)b : a > b) ? a : b)
FOLD_LOOP(min_f, isnan(a) || a < b ? a : b)
FOLD_INT_LOOP(min_i, (u ? (uint64_t)a < (uint64_t)b : a < b) ? a : b)
FOLD_LOOP(sum_f, a + b)

static const struct fold max_fold = { max_f, max_i, false }, min_fold = { min_f, min_i, false },
                         sum_fold = { sum_f, NULL, false }, mean_fold = { sum_f, NULL, true };

/* A macro, as it defines a function and a row. */
#define VARIADIC_ROW(id, NAME, TYPES, GRAD, TYPED)                                                                     \
    static bool id##_run(const struct zt_call *call, struct zt_err *err) {                                             \
        (void)err;                                                                                                     \
        fold_all(call, &id##_fold);                                                                                    \
        return true;                                                                                                   \
    }                                                                                                                  \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = NAME,                                                                                                  \
        .domain = "",                                                                                                  \
        .since = 6,                                                                                                    \
        ZT_ONE_OUT(1, 1),                                                                                              \
        .flags = ZT_OP_VARIADIC | ZT_OP_POINTWISE | ZT_OP_LIGHT,                                                       \
        .in_types = { TYPES },                                                                                         \
        .infer = variadic_infer,                                                                                       \
        .grad = GRAD,                                                                                                  \
        .detail = ZT_ELEMENTWISE_LOOPS(id, TYPED),                                                                     \
        .kernel = { [ZT_REF] = { .run = id##_run }, [ZT_CPU] = ZT_ELEMENTWISE_CPU, [ZT_CUDA] = ZT_POINTWISE_CUDA },    \
    };

VARIADIC_ROW(max, "Max", ZT_ANY_NUMBER, extreme_grad, max)
VARIADIC_ROW(mean, "Mean", ZT_ANY_FLOAT, mean_grad, none)
VARIADIC_ROW(min, "Min", ZT_ANY_NUMBER, extreme_grad, min)
VARIADIC_ROW(sum, "Sum", ZT_ANY_FLOAT, sum_grad, sum)
