/* MaxUnpool (opset 9 on): y = zeros but y[index] = x, where indices are flat ones into a tensor of the size the pool
 * had, which lies in the corner of the output where output_shape asks for a larger one. Backwards dx = dy[index]. */
#include "ops/pool/launch_max_unpool.h"
#include "ops/pool/kernels.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/tile.h"
#include "ops/kernel/shape.h"

#include "device/threads.h"

#include <string.h>

enum { PLANES = 2 }; /* batch and channel */

/* Computes the shape of the input from which a pool with these windows makes `x`. */
static bool pooled_shape(const struct zt_graph *g, int node, const struct zt_shape *x, struct zt_shape *to,
                         struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    int axes, strides, pads;
    const int64_t *kernel = zt_attr_ints(n, "kernel_shape", &axes), *stride = zt_attr_ints(n, "strides", &strides);
    const int64_t *pad = zt_attr_ints(n, "pads", &pads);
    if (x->rank < PLANES + 1 || axes != x->rank - PLANES || (stride && strides != axes) || (pad && pads != 2 * axes))
        return zt_node_fail(g, node, err, "kernel_shape, strides or pads do not fit an input of rank %d", x->rank);
    *to = *x;
    for (int k = 0; k < axes; k++) {
        int64_t *dim = &to->dim[PLANES + k], step = stride ? stride[k] : 1, at;
        int64_t before = pad ? pad[k] : 0, after = pad ? pad[axes + k] : 0;
        if (kernel[k] < 1 || step < 1 || before < 0 || after < 0 || *dim < 1)
            return zt_node_fail(g, node, err, "axis %d has a window, stride, padding or length that is not positive",
                                k);
        if (!zt_ops_dim_product(g, node, *dim - 1, step, &at, err) || !zt_ops_dim_sum(g, node, at, kernel[k], &at, err))
            return false;
        if (before > at || after >= at - before)
            return zt_node_fail(g, node, err, "axis %d of its result is all padding", k);
        *dim = at - before - after;
    }
    return true;
}

static bool unpool_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0), *index = zt_in(g, node, 1);
    struct zt_shape pooled, out;
    if (!pooled_shape(g, node, &x->shape, &pooled, err) ||
        !zt_known_ints(g, node, 2, &(struct zt_int_list){ out.dim, ZT_MAX_RANK, &out.rank }, err))
        return false;
    if (!zt_shape_equal(&x->shape, &index->shape))
        return zt_node_fail(g, node, err, "\"%s\" and \"%s\" differ in shape", x->name, index->name);
    out = out.rank < 0 ? pooled : out;
    bool fits = out.rank == pooled.rank;
    for (int k = 0; fits && k < out.rank; k++)
        fits = k < PLANES ? out.dim[k] == pooled.dim[k] : out.dim[k] >= pooled.dim[k];
    char text[ZT_SHAPE_TEXT], least[ZT_SHAPE_TEXT];
    if (!fits)
        return zt_node_fail(g, node, err, "output_shape is %s, at least %s is wanted", zt_shape_text(&out, text),
                            zt_shape_text(&pooled, least));
    zt_set_out(g, node, 0, x->dtype, &out);
    return true;
}

/* ztrain.MaxUnpoolGrad(dy, index) */
static bool grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_shape pooled, x = zt_in(g, node, 1)->shape;
    const struct zt_value *dy = zt_in(g, node, 0);
    if (!pooled_shape(g, node, &x, &pooled, err))
        return false;
    for (int k = 0; k < x.rank; k++)
        if (dy->shape.rank != x.rank || dy->shape.dim[k] < pooled.dim[k])
            return zt_node_fail(g, node, err, "\"%s\" does not have the shape of the result", dy->name);
    zt_set_out(g, node, 0, dy->dtype, &x);
    return true;
}

/* Whether all of `elems` indices are below `count`. */
static bool check_indices(const struct zt_call *call, int64_t elems, int64_t count, struct zt_err *err) {
    const int64_t *index = call->in[1].data;
    bool outside = false;
    for (int64_t e = 0; e < elems; e++)
        outside |= index[e] < 0 || index[e] >= count;
    for (int64_t e = 0; e < elems && outside; e++)
        if (index[e] < 0 || index[e] >= count)
            return zt_call_fail(call, err, "index %lld at place %lld is outside %lld elements", (long long)index[e],
                                (long long)e, (long long)count);
    return true;
}

/* Returns the position of element `flat` of a tensor of shape `inner` in a larger tensor. */
static int64_t place_of(int64_t flat, const struct zt_shape *inner, const int64_t *stride) {
    int64_t at = 0;
    for (int k = inner->rank - 1; k >= 0; k--) {
        at += flat % inner->dim[k] * stride[k];
        flat /= inner->dim[k];
    }
    return at;
}

struct job {
    const int64_t *index;
    const struct zt_view *pooled, *whole;
    struct zt_shape inner;
    int64_t stride[ZT_MAX_RANK]; /* of `whole` */
    bool same, forward;          /* same: whole has the shape `inner` */
};

/* A block of elements of `pooled`. */
static void move_block(void *arg, int64_t block) {
    const struct job *j = arg;
    const size_t bytes = zt_dtype_bytes(j->pooled->dtype);
    const int64_t end = zt_min_int(zt_shape_count(&j->pooled->shape), (block + 1) * ZT_ELEMENT_BLOCK);
    for (int64_t e = block * ZT_ELEMENT_BLOCK; e < end; e++) {
        const int64_t at = j->same ? j->index[e] : place_of(j->index[e], &j->inner, j->stride);
        if (bytes == 4 && j->forward)
            ((uint32_t *)j->whole->data)[at] = ((const uint32_t *)j->pooled->data)[e];
        else if (bytes == 4)
            ((uint32_t *)j->pooled->data)[e] = ((const uint32_t *)j->whole->data)[at];
        else
            memcpy(zt_element(j->forward ? j->whole->data : j->pooled->data, bytes, j->forward ? at : e),
                   zt_element(j->forward ? j->pooled->data : j->whole->data, bytes, j->forward ? e : at), bytes);
    }
}

/* Copies the elements of `pooled` from or to their places in `whole`: to them in order, since places may repeat. */
static bool move_elements(const struct zt_call *call, const struct zt_view *pooled, const struct zt_view *whole,
                          bool forward, struct zt_err *err) {
    const int64_t elems = zt_shape_count(&pooled->shape);
    struct job j = { .index = call->in[1].data, .pooled = pooled, .whole = whole, .forward = forward };
    if (!pooled_shape(call->graph, zt_call_node(call), &pooled->shape, &j.inner, err) ||
        !check_indices(call, elems, zt_shape_count(&j.inner), err))
        return false;
    zt_shape_strides(&whole->shape, j.stride);
    j.same = zt_shape_equal(&j.inner, &whole->shape);
    zt_parallel_for(forward ? 1 : zt_threads_worth(call->threads, (double)elems), zt_ceil_div(elems, ZT_ELEMENT_BLOCK),
                    move_block, &j);
    return true;
}

static bool unpool_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_view *y = &call->out[0];
    memset(y->data, 0, zt_dtype_bytes(y->dtype) * (size_t)zt_shape_count(&y->shape));
    return move_elements(call, &call->in[0], y, true, err);
}

static bool grad_run(const struct zt_call *call, struct zt_err *err) {
    return move_elements(call, &call->out[0], &call->in[0], false, err);
}

/* A struct zt_launch_unpool for other back ends, of either row. */
static bool describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    const bool grad = g->nodes[node]->domain[0] != '\0';
    const struct zt_shape *pooled = &zt_in(g, node, grad)->shape;
    const struct zt_shape *whole = grad ? &zt_in(g, node, 0)->shape : &zt_out(g, node, 0)->shape;
    struct zt_launch_unpool *u = to;
    struct zt_shape inner;
    if (!pooled_shape(g, node, pooled, &inner, err))
        return false;
    *u = (struct zt_launch_unpool){ .axes = inner.rank,
                                    .elems = zt_shape_count(pooled),
                                    .inner_elems = zt_shape_count(&inner),
                                    .whole_elems = zt_shape_count(whole) };
    memcpy(u->inner, inner.dim, sizeof u->inner);
    zt_shape_strides(whole, u->step);
    return true;
}

static bool takes_cuda(const struct zt_graph *g, int node) {
    struct zt_launch_unpool u;
    struct zt_err err = { 0 };
    return describe(g, node, &u, &err) && u.elems < INT32_MAX && u.whole_elems < INT32_MAX;
}

static bool unpool_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    int in[] = { zt_grad_out(b, node, 0), n->in[1] }, out;
    zt_emit_node(b, &(struct zt_emission){ "MaxUnpoolGrad", "ztrain", in, 2, n }, &out, 1);
    zt_grad_give(b, node, 0, out);
    return true;
}

static const struct zt_attr_spec attrs[] = {
    { "kernel_shape", ZT_ATTR_INTS, true }, { "pads", ZT_ATTR_INTS }, { "strides", ZT_ATTR_INTS }, { 0 }
};

const struct zt_op zt_op_max_unpool = {
    .name = "MaxUnpool",
    .domain = "",
    .since = 9,
    ZT_ONE_OUT(2, 3),
    .in_types = { ZT_ANY_FLOAT, 1 << ZT_INT64, 1 << ZT_INT64 },
    .attrs = attrs,
    .infer = unpool_infer,
    .grad = unpool_grad,
    .no_grad_in = 0x6,
    .kernel = { [ZT_REF] = { .run = unpool_run }, [ZT_CUDA] = ZT_CUDA_AS(unpool, takes_cuda, describe) },
};
const struct zt_op zt_op_max_unpool_grad = {
    .name = "MaxUnpoolGrad",
    .domain = "ztrain",
    .since = 1,
    ZT_ONE_OUT(2, 2),
    .in_types = { ZT_ANY_FLOAT, 1 << ZT_INT64 },
    .attrs = attrs,
    .infer = grad_infer,
    .body = zt_max_unpool_grad_function_body,
    .kernel = { [ZT_REF] = { .run = grad_run }, [ZT_CUDA] = ZT_CUDA_AS(unpool_grad, takes_cuda, describe) },
};
