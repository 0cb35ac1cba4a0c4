/* Where and Clip: they select values without arithmetic, so every type is copied or compared exactly. */
#include "ops/elementwise/pointwise.h"
#include "ops/elementwise/kernels.h"
#include "ops/kernel/shape.h"

#include "ops/elementwise/elementwise_cpu.h"
#include "ops/elementwise/where_cpu.h"
#include "ops/kernel/element_blocks.h"

#include <math.h>
#include <string.h>

/* ---- Where:  y = x where c, else z    dx = dy where c, else 0    dz = 0 where c, else dy ---- */

static bool where_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 1), *z = zt_in(g, node, 2);
    if (x->dtype != z->dtype)
        return zt_node_fail(g, node, err, "the choices have types %s and %s", zt_dtype_name(x->dtype),
                            zt_dtype_name(z->dtype));
    if (!zt_infer_broadcast(g, node, err))
        return false;
    zt_out(g, node, 0)->dtype = x->dtype;
    return true;
}

static bool where_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct zt_view *y = &call->out[0];
    size_t bytes = zt_dtype_bytes(y->dtype);
    struct zt_walk w;
    zt_walk_start(&w, &y->shape, 4);
    zt_walk_strides(&w, 0, &y->shape);
    for (int i = 0; i < 3; i++)
        zt_walk_strides(&w, i + 1, &call->in[i].shape);
    while (zt_walk_next(&w))
        for (int64_t k = 0; k < w.count; k++) {
            int from = ((const uint8_t *)call->in[0].data)[w.offset[1] + k * w.stride[1]] ? 1 : 2;
            int64_t at = w.offset[from + 1] + k * w.stride[from + 1];
            memcpy(zt_element(y->data, bytes, w.offset[0] + k * w.stride[0]),
                   zt_element(call->in[from].data, bytes, at), bytes);
        }
    return true;
}

static bool where_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    const int dy = zt_grad_out(b, node, 0), condition = zt_grad_graph(b)->nodes[node]->in[0];
    int zero = zt_emit_float(b, zt_grad_dtype(b, node), 0);
    for (int i = 1; i < 3; i++)
        if (zt_grad_wanted(b, node, i)) {
            int dx = ZT_EMIT(b, "Where", condition, i == 1 ? dy : zero, i == 1 ? zero : dy);
            zt_grad_give(b, node, i, zt_grad_unbroadcast(b, dx, zt_grad_graph(b)->nodes[node]->in[i]));
        }
    return true;
}

/* Chosen elements are moved as they are stored. */
static bool where_expression(const struct zt_graph *g, int node, struct zt_pointwise *to) {
    *to = (struct zt_pointwise){
        .value = "a ? b : c", .dtype = zt_in(g, node, 1)->dtype, .copies = true, .inputs = 3, .scale = 1
    };
    return true;
}

const struct zt_op zt_op_where = {
    .name = "Where",
    .domain = "",
    .since = 9,
    ZT_ONE_OUT(3, 3),
    .flags = ZT_OP_LIGHT | ZT_OP_PASSES_HALF,
    .in_types = { ZT_BIT(ZT_BOOL) },
    .infer = where_infer,
    .grad = where_grad,
    .no_grad_in = 1 << 0,
    .detail = &(const struct zt_elementwise){ .expression = where_expression },
    .kernel = { [ZT_REF] = { .run = where_run }, [ZT_CPU] = ZT_WHERE_CPU, [ZT_CUDA] = ZT_POINTWISE_CUDA },
};

/* ---- Clip:  y = min(max(x, low), high)    dx = dy where low <= x <= high
 *
 *     dhigh = sum of dy where high < max(x, low)    dlow = sum of dy where x < low and not so ---- */

/* Bounds are attributes up to opset 10, scalar inputs after it. */
struct bounds {
    double low, high;
    int64_t low_int, high_int;
    bool has_low, has_high;
};

static void bound(const struct zt_call *call, int in, const char *attr, double *to, int64_t *to_int, bool *has) {
    const struct zt_view *v = in < call->in_count && call->in[in].data ? &call->in[in] : NULL;
    const struct zt_attr *a = zt_node_attr(call->node, attr);
    *has = v || a;
    *to = v ? zt_load_double(v->dtype, v->data, 0) : a ? (double)a->f : 0;
    *to_int = v ? zt_load_int(v->dtype, v->data, 0) : 0;
}

static struct bounds bounds_of(const struct zt_call *call, int first) {
    struct bounds b;
    bound(call, first, "min", &b.low, &b.low_int, &b.has_low);
    bound(call, first + 1, "max", &b.high, &b.high_int, &b.has_high);
    return b;
}

static void clip_floats(const struct zt_view *x, const struct zt_view *y, const struct bounds *b) {
    double v[ZT_ELEMENT_BLOCK];
    int64_t count = zt_shape_count(&y->shape);
    for (int64_t at = 0; at < count; at += ZT_ELEMENT_BLOCK) {
        int64_t n = count - at < ZT_ELEMENT_BLOCK ? count - at : ZT_ELEMENT_BLOCK;
        zt_load_block(x->dtype, x->data, at, 1, n, v);
        for (int64_t i = 0; i < n; i++) {
            if (b->has_low && v[i] < b->low)
                v[i] = b->low;
            if (b->has_high && v[i] > b->high)
                v[i] = b->high;
        }
        zt_store_block(y->dtype, y->data, at, 1, n, v);
    }
}

static bool less(bool u, int64_t a, int64_t b) {
    return u ? (uint64_t)a < (uint64_t)b : a < b;
}

static void clip_ints(const struct zt_view *x, const struct zt_view *y, const struct bounds *b) {
    bool u = x->dtype == ZT_UINT64;
    int64_t count = zt_shape_count(&y->shape);
    for (int64_t i = 0; i < count; i++) {
        int64_t v = zt_load_int(x->dtype, x->data, i);
        if (b->has_low && less(u, v, b->low_int))
            v = b->low_int;
        if (b->has_high && less(u, b->high_int, v))
            v = b->high_int;
        zt_store_int(y->dtype, y->data, i, v);
    }
}

static bool clip_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    struct bounds b = bounds_of(call, 1);
    (zt_dtype_in(call->in[0].dtype, ZT_ANY_INT) ? clip_ints : clip_floats)(&call->in[0], &call->out[0], &b);
    return true;
}

static bool clip_infer(struct zt_graph *g, int node, struct zt_err *err) {
    for (int i = 1; i < 3; i++) {
        const struct zt_value *v = zt_in(g, node, i);
        if (v && zt_shape_count(&v->shape) != 1)
            return zt_node_fail(g, node, err, "bound \"%s\" is not a scalar", v->name);
    }
    return zt_infer_first(g, node, err);
}

static int sum_where(struct zt_grad *b, int condition, int yes, int no, int like) {
    return zt_grad_unbroadcast(b, ZT_EMIT(b, "Where", condition, yes, no), like);
}

static void clip_grad_bounds(struct zt_grad *b, int node) {
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    const int dy = zt_grad_out(b, node, 0), x = n->in[0];
    const int low = n->in_count > 1 ? n->in[1] : -1, high = n->in_count > 2 ? n->in[2] : -1;
    const bool wants_low = low >= 0 && zt_grad_wanted(b, node, 1), wants_high = high >= 0 && zt_grad_wanted(b, node, 2);
    if (!wants_low && !wants_high)
        return;
    const int zero = zt_emit_float(b, zt_grad_dtype(b, node), 0);
    const int below = low >= 0 ? ZT_EMIT(b, "Less", x, low) : -1;
    const int raised = low >= 0 ? ZT_EMIT(b, "Where", below, low, x) : x;
    const int above = high >= 0 ? ZT_EMIT(b, "Less", high, raised) : -1;
    if (wants_high)
        zt_grad_give(b, node, 2, sum_where(b, above, dy, zero, high));
    if (wants_low)
        zt_grad_give(b, node, 1, sum_where(b, below, high >= 0 ? ZT_EMIT(b, "Where", above, zero, dy) : dy, zero, low));
}

/* ClipGrad reads dy, x and the bounds. */
static bool clip_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    int dy = zt_grad_out(b, node, 0);
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    int in[4] = { dy, n->in[0], n->in_count > 1 ? n->in[1] : -1, n->in_count > 2 ? n->in[2] : -1 };
    int dx;
    zt_emit_node(b, &(struct zt_emission){ "ClipGrad", "ztrain", in, 4, n }, &dx, 1);
    zt_grad_give(b, node, 0, dx);
    clip_grad_bounds(b, node);
    return true;
}

static bool clip_grad_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    struct bounds b = bounds_of(call, 2);
    const struct zt_view *dy = &call->in[0], *x = &call->in[1], *dx = &call->out[0];
    double v[ZT_ELEMENT_BLOCK], g[ZT_ELEMENT_BLOCK];
    int64_t count = zt_shape_count(&dx->shape);
    for (int64_t at = 0; at < count; at += ZT_ELEMENT_BLOCK) {
        int64_t n = count - at < ZT_ELEMENT_BLOCK ? count - at : ZT_ELEMENT_BLOCK;
        zt_load_block(dy->dtype, dy->data, at, 1, n, g);
        zt_load_block(x->dtype, x->data, at, 1, n, v);
        for (int64_t i = 0; i < n; i++)
            if ((b.has_low && v[i] < b.low) || (b.has_high && v[i] > b.high))
                g[i] = 0;
        zt_store_block(dx->dtype, dx->data, at, 1, n, g);
    }
    return true;
}

static const struct zt_attr_spec with_bounds[] = { { "min", ZT_ATTR_FLOAT }, { "max", ZT_ATTR_FLOAT }, { 0 } };

const struct zt_op zt_op_clip_6 = {
    .name = "Clip",
    .domain = "",
    .since = 6,
    .until = 10,
    ZT_ONE_OUT(1, 1),
    .flags = ZT_OP_IN_PLACE | ZT_OP_POINTWISE | ZT_OP_LIGHT | ZT_OP_PASSES_HALF,
    .in_types = { ZT_ANY_FLOAT },
    .attrs = with_bounds,
    .infer = clip_infer,
    .grad = clip_grad,
    .body = zt_clip_old_function_body,
    .detail = ZT_ELEMENTWISE_LOOPS(clip, none),
    .kernel = { [ZT_REF] = { .run = clip_run }, [ZT_CPU] = ZT_ELEMENTWISE_CPU, [ZT_CUDA] = ZT_POINTWISE_CUDA },
};

const struct zt_op zt_op_clip = {
    .name = "Clip",
    .domain = "",
    .since = 11,
    ZT_ONE_OUT(1, 3),
    .flags = ZT_OP_IN_PLACE | ZT_OP_POINTWISE | ZT_OP_LIGHT | ZT_OP_PASSES_HALF,
    .in_types = { ZT_ANY_NUMBER, ZT_ANY_NUMBER, ZT_ANY_NUMBER },
    .same_type = 1 << 1 | 1 << 2,
    .infer = clip_infer,
    .grad = clip_grad,
    .detail = ZT_ELEMENTWISE_LOOPS(clip, none),
    .kernel = { [ZT_REF] = { .run = clip_run }, [ZT_CPU] = ZT_ELEMENTWISE_CPU, [ZT_CUDA] = ZT_POINTWISE_CUDA },
};

const struct zt_op zt_op_clip_grad = {
    .name = "ClipGrad",
    .domain = "ztrain",
    .since = 1,
    ZT_ONE_OUT(2, 4),
    .flags = ZT_OP_LIGHT | ZT_OP_PASSES_HALF,
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT },
    .same_type = 1 << 1 | 1 << 2 | 1 << 3,
    .attrs = with_bounds,
    .infer = zt_infer_first,
    .body = zt_clip_grad_function_body,
    .detail = ZT_ELEMENTWISE_LOOPS(clip_grad, none),
    .kernel = { [ZT_REF] = { .run = clip_grad_run }, [ZT_CPU] = ZT_ELEMENTWISE_CPU, [ZT_CUDA] = ZT_POINTWISE_CUDA },
};
