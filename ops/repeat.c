/* Expand (broadcasting to a shape) and Tile (repeating whole). */
#include "ops/shape.h"

#include "ops/runs.h"

#include <string.h>

/* ---- Expand:  dx = dy summed over what was stretched ---- */

static bool expand_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0);
    struct zt_shape shape;
    if (!zt_ops_ints(g, node, 1, NULL, shape.dim, ZT_MAX_RANK, &shape.rank, err))
        return false;
    for (int k = 0; k < shape.rank; k++)
        if (shape.dim[k] < 0)
            return zt_node_fail(g, node, err, "number %d of the shape is %lld", k, (long long)shape.dim[k]);
    if (!zt_broadcast(g, node, &x->shape, &shape, &shape, err))
        return false;
    zt_set_out(g, node, 0, x->dtype, &shape);
    return true;
}

static bool expand_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct zt_view *x = &call->in[0], *y = &call->out[0];
    int64_t from[ZT_MAX_RANK], to[ZT_MAX_RANK];
    zt_broadcast_steps(&y->shape, &x->shape, from);
    zt_shape_strides(&y->shape, to);
    zt_copy_strided(zt_dtype_bytes(x->dtype), &y->shape, y->data, to, x->data, from);
    return true;
}

static bool expand_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    int dy = zt_grad_out(b, node, 0);
    zt_grad_give(b, node, 0, zt_grad_unbroadcast(b, dy, zt_grad_graph(b)->nodes[node].in[0]));
    return true;
}

const struct zt_op zt_op_expand = {
    .name = "Expand",
    .domain = "",
    .since = 8,
    ZT_ONE_OUT(2, 2),
    .in_types = { 0, ZT_BIT(ZT_INT64) },
    .infer = expand_infer,
    .grad = expand_grad,
    .no_grad_in = 1 << 1,
    .kernel = { [ZT_REF] = { .run = expand_run } },
};

/* ---- Tile:  y[i] = x[i mod size]    dx = sum of dy over the repetitions ---- */

static bool tile_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0);
    struct zt_shape shape = x->shape;
    int64_t repeats[ZT_MAX_RANK];
    int count;
    if (!zt_ops_ints(g, node, 1, NULL, repeats, ZT_MAX_RANK, &count, err))
        return false;
    if (count != shape.rank)
        return zt_node_fail(g, node, err, "has %d repeats for %d axes", count, shape.rank);
    for (int k = 0; k < count; k++) {
        if (repeats[k] < 0)
            return zt_node_fail(g, node, err, "repeat %d is %lld", k, (long long)repeats[k]);
        if (!zt_ops_dim_product(g, node, shape.dim[k], repeats[k], &shape.dim[k], err))
            return false;
    }
    zt_set_out(g, node, 0, x->dtype, &shape);
    return true;
}

static int64_t tiled_offset(const struct zt_shape *x, const int64_t *index) {
    int64_t offset = 0;
    for (int k = 0; k < x->rank; k++)
        offset = offset * x->dim[k] + index[k] % x->dim[k];
    return offset;
}

static bool tile_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct zt_view *x = &call->in[0], *y = &call->out[0];
    size_t bytes = zt_dtype_bytes(x->dtype);
    int64_t index[ZT_MAX_RANK] = { 0 }, count = zt_shape_count(&y->shape);
    for (int64_t i = 0; i < count; i++, zt_next_index(&y->shape, index))
        memcpy(zt_element(y->data, bytes, i), zt_element(x->data, bytes, tiled_offset(&x->shape, index)), bytes);
    return true;
}

static bool tile_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    struct zt_shape x = *zt_grad_in_shape(b, node, 0);
    int dy = zt_grad_out(b, node, 0);
    zt_grad_give(
        b, node, 0,
        zt_emit_own_ints(b, "TileGrad", &dy, 1, NULL, (struct zt_ints[]){ { "shape", x.dim, x.rank }, { 0 } }));
    return true;
}

static bool tile_grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *dy = zt_in(g, node, 0);
    struct zt_shape shape;
    if (!zt_ops_ints(g, node, -1, "shape", shape.dim, ZT_MAX_RANK, &shape.rank, err))
        return false;
    bool fits = shape.rank == dy->shape.rank;
    for (int k = 0; fits && k < shape.rank; k++)
        fits = shape.dim[k] > 0 ? dy->shape.dim[k] % shape.dim[k] == 0 : dy->shape.dim[k] == 0;
    if (!fits)
        return zt_node_fail(g, node, err, "its input is no tiling of its shape");
    zt_set_out(g, node, 0, dy->dtype, &shape);
    return true;
}

/* Sum of dy over all repetitions of one element of x, whose index it is. */
static double tiled_sum(const struct zt_view *dy, const struct zt_shape *x, const int64_t *index) {
    struct zt_shape times = { .rank = x->rank };
    int64_t stride[ZT_MAX_RANK], turn[ZT_MAX_RANK] = { 0 };
    double sum = 0;
    zt_shape_strides(&dy->shape, stride);
    for (int k = 0; k < x->rank; k++)
        times.dim[k] = dy->shape.dim[k] / x->dim[k];
    if (zt_shape_count(&times) == 0)
        return 0;
    do {
        int64_t at = 0;
        for (int k = 0; k < x->rank; k++)
            at += (turn[k] * x->dim[k] + index[k]) * stride[k];
        sum += zt_load_double(dy->dtype, dy->data, at);
    } while (zt_next_index(&times, turn));
    return sum;
}

static bool tile_grad_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct zt_view *dy = &call->in[0], *dx = &call->out[0];
    int64_t index[ZT_MAX_RANK] = { 0 }, count = zt_shape_count(&dx->shape);
    for (int64_t i = 0; i < count; i++, zt_next_index(&dx->shape, index))
        zt_store_double(dx->dtype, dx->data, i, tiled_sum(dy, &dx->shape, index));
    return true;
}

static const struct zt_attr_spec with_shape[] = { { "shape", ZT_ATTR_INTS, true }, { 0 } };

const struct zt_op zt_op_tile = {
    .name = "Tile",
    .domain = "",
    .since = 6,
    ZT_ONE_OUT(2, 2),
    .in_types = { 0, ZT_BIT(ZT_INT64) },
    .infer = tile_infer,
    .grad = tile_grad,
    .no_grad_in = 1 << 1,
    .kernel = { [ZT_REF] = { .run = tile_run } },
};

const struct zt_op zt_op_tile_grad = {
    .name = "TileGrad",
    .domain = "ztrain",
    .since = 1,
    ZT_ONE_OUT(1, 1),
    .in_types = { ZT_ANY_FLOAT },
    .attrs = with_shape,
    .infer = tile_grad_infer,
    .kernel = { [ZT_REF] = { .run = tile_grad_run } },
};
