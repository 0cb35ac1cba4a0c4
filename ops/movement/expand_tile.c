/* Expand (broadcasting to a shape) and Tile (repeating whole). */
#include "ops/reduce/kernels.h"
#include "device/threads.h"
#include "ops/movement/kernels.h"
#include "ops/kernel/strided_copies.h"
#include "ops/reduce/reduce.h"
#include "ops/kernel/shape.h"

#include "ops/kernel/element_blocks.h"

#include <string.h>

/* ---- Expand:  dx = dy summed over what was stretched ---- */

static bool expand_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0);
    struct zt_shape shape;
    if (!zt_ops_ints(g, node, (struct zt_int_source){ 1, NULL },
                     &(struct zt_int_list){ shape.dim, ZT_MAX_RANK, &shape.rank }, err))
        return false;
    for (int k = 0; k < shape.rank; k++)
        if (shape.dim[k] < 0)
            return zt_node_fail(g, node, err, "number %d of the shape is %lld", k, (long long)shape.dim[k]);
    if (!zt_broadcast(g, node, &x->shape, &shape, &shape, err))
        return false;
    zt_set_out(g, node, 0, x->dtype, &shape);
    return true;
}

/* Sizes that are not known, of axes of which the input has not one element: they are the input's, or 1. */
static bool expand_bound(struct zt_graph *g, int node, bool less, struct zt_err *err) {
    (void)less;
    const struct zt_value *x = zt_in(g, node, 0), *sizes = zt_in(g, node, 1);
    bool known = sizes->data || sizes->shape.rank != 1 || sizes->shape.dim[0] > x->shape.rank;
    for (int k = 1; !known && k <= sizes->shape.dim[0]; k++)
        known = x->shape.dim[x->shape.rank - k] == 1;
    if (known)
        return expand_infer(g, node, err);
    zt_set_out(g, node, 0, x->dtype, &x->shape);
    return true;
}

static bool expand_moves(const struct zt_graph *g, int node, zt_strided_copy_take *take, void *arg,
                         struct zt_err *err) {
    (void)err;
    struct zt_strided_copy move = zt_strided_copy_whole(&zt_out(g, node, 0)->shape);
    zt_broadcast_steps(&move.shape, &zt_in(g, node, 0)->shape, move.from_step);
    take(arg, &move);
    return true;
}
ZT_MOVES_DESCRIBE(expand, false)

static bool expand_run(const struct zt_call *call, struct zt_err *err) {
    return zt_strided_copies_run(call, expand_moves, err);
}

static bool expand_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    int dy = zt_grad_out(b, node, 0);
    zt_grad_give(b, node, 0, zt_grad_unbroadcast(b, dy, zt_grad_graph(b)->nodes[node]->in[0]));
    return true;
}

const struct zt_op zt_op_expand = {
    .name = "Expand",
    .domain = "",
    .since = 8,
    ZT_ONE_OUT(2, 2),
    .flags = ZT_OP_LIGHT,
    .in_types = { 0, ZT_BIT(ZT_INT64) },
    .infer = expand_infer,
    .bound = expand_bound,
    .grad = expand_grad,
    .no_grad_in = 1 << 1,
    .shape_in = 1 << 1,
    .kernel = { [ZT_REF] = { .run = expand_run },
                [ZT_CPU] = { .run = expand_run },
                [ZT_CUDA] = ZT_CUDA_AS(strided_copies, zt_cuda_any, expand_describe) },
};

/* ---- Tile:  y[i] = x[i mod size]    dx = sum of dy over the repetitions ---- */

static bool tile_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0);
    struct zt_shape shape = x->shape;
    int64_t repeats[ZT_MAX_RANK];
    int count;
    if (!zt_ops_ints(g, node, (struct zt_int_source){ 1, NULL }, &(struct zt_int_list){ repeats, ZT_MAX_RANK, &count },
                     err))
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

/* Each axis of y is two: repetitions, and what is repeated. Axes of one are left out, so that few remain. */
static bool tile_moves(const struct zt_graph *g, int node, zt_strided_copy_take *take, void *arg, struct zt_err *err) {
    const struct zt_shape *big = &zt_out(g, node, 0)->shape, *small = &zt_in(g, node, 0)->shape;
    int64_t from[ZT_MAX_RANK], to[ZT_MAX_RANK];
    struct zt_strided_copy move = { 0 };
    zt_shape_strides(small, from);
    zt_shape_strides(big, to);
    for (int k = 0; k < big->rank; k++) {
        const int64_t dim[] = { small->dim[k] ? big->dim[k] / small->dim[k] : 0, small->dim[k] };
        for (int half = 0; half < 2; half++) {
            if (dim[half] == 1)
                continue;
            if (move.shape.rank == ZT_MAX_RANK)
                return zt_ops_rank(g, node, 2 * big->rank, err);
            move.from_step[move.shape.rank] = half ? from[k] : 0;
            move.to_step[move.shape.rank] = half ? to[k] : to[k] * small->dim[k];
            move.shape.dim[move.shape.rank++] = dim[half];
        }
    }
    take(arg, &move);
    return true;
}
ZT_MOVES_DESCRIBE(tile, false)

struct tiling {
    struct zt_shape small, big; /* of rank 1 at least */
    const struct zt_view *x, *y;
};

static struct tiling tiling_of(const struct zt_view *small, const struct zt_view *big) {
    struct tiling t = { small->shape, big->shape, small, big };
    if (t.small.rank == 0)
        t.small = t.big = (struct zt_shape){ 1, { 1 } };
    return t;
}

/* Offset of the row of x that is repeated in row `row` of y. */
static int64_t tiled_row(const struct tiling *t, int64_t row) {
    const int last = t->big.rank - 1;
    int64_t offset = 0, step = t->small.dim[last];
    for (int k = last - 1; k >= 0; row /= t->big.dim[k--]) {
        offset += row % t->big.dim[k] % t->small.dim[k] * step;
        step *= t->small.dim[k];
    }
    return offset;
}

static void tile_row(void *arg, int64_t row) {
    const struct tiling *t = arg;
    const int last = t->big.rank - 1;
    const size_t bytes = zt_dtype_bytes(t->x->dtype);
    const int64_t n = t->small.dim[last], from = tiled_row(t, row);
    for (int64_t at = 0; at < t->big.dim[last]; at += n)
        memcpy(zt_element(t->y->data, bytes, row * t->big.dim[last] + at), zt_element(t->x->data, bytes, from),
               bytes * (size_t)n);
}

static bool tile_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    struct tiling t = tiling_of(&call->in[0], &call->out[0]);
    const int64_t count = zt_shape_count(&t.big);
    if (count > 0)
        zt_parallel_for(zt_threads_worth(call->threads, (double)count), count / t.big.dim[t.big.rank - 1], tile_row,
                        &t);
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
    if (!zt_ops_ints(g, node, (struct zt_int_source){ -1, "shape" },
                     &(struct zt_int_list){ shape.dim, ZT_MAX_RANK, &shape.rank }, err))
        return false;
    bool fits = shape.rank == dy->shape.rank;
    for (int k = 0; fits && k < shape.rank; k++)
        fits = shape.dim[k] > 0 ? dy->shape.dim[k] % shape.dim[k] == 0 : dy->shape.dim[k] == 0;
    if (!fits)
        return zt_node_fail(g, node, err, "its input is no tiling of its shape");
    zt_set_out(g, node, 0, dy->dtype, &shape);
    return true;
}

/* A row of dx: dy over all repetitions, in their order. */
static void tile_grad_row(void *arg, int64_t row) {
    const struct tiling *t = arg;
    const int last = t->small.rank - 1;
    const int64_t n = t->small.dim[last];
    struct zt_shape times = { .rank = t->small.rank };
    int64_t stride[ZT_MAX_RANK], index[ZT_MAX_RANK] = { 0 };
    double sum[ZT_ELEMENT_BLOCK], v[ZT_ELEMENT_BLOCK];
    zt_shape_strides(&t->big, stride);
    for (int64_t rest = row, k = last - 1; k >= 0; rest /= t->small.dim[k--])
        index[k] = rest % t->small.dim[k];
    for (int k = 0; k <= last; k++)
        times.dim[k] = t->big.dim[k] / t->small.dim[k];
    for (int64_t at = 0; at < n; at += ZT_ELEMENT_BLOCK) {
        const int64_t width = n - at < ZT_ELEMENT_BLOCK ? n - at : ZT_ELEMENT_BLOCK;
        int64_t repeat[ZT_MAX_RANK] = { 0 };
        memset(sum, 0, sizeof sum);
        do {
            int64_t from = at;
            for (int k = 0; k <= last; k++)
                from += (repeat[k] * t->small.dim[k] + index[k]) * stride[k];
            zt_load_block(t->y->dtype, t->y->data, from, 1, width, v);
            for (int64_t i = 0; i < width; i++)
                sum[i] += v[i];
        } while (zt_next_index(&times, repeat));
        zt_store_block(t->x->dtype, t->x->data, row * n + at, 1, width, sum);
    }
}

/* Each axis of dy is two: repetitions, which are added up, and what is repeated. */
static bool tile_grad_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    (void)err;
    const struct zt_shape *big = &zt_in(g, node, 0)->shape, *small = &zt_out(g, node, 0)->shape;
    struct zt_reduction *r = to;
    r->axes = 2 * big->rank;
    for (int k = 0; k < big->rank; k++) {
        r->dim[2 * k] = small->dim[k] ? big->dim[k] / small->dim[k] : 1;
        r->dim[2 * k + 1] = small->dim[k];
        r->over[2 * k] = true;
        r->over[2 * k + 1] = false;
    }
    return true;
}

static bool tile_grad_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    struct tiling t = tiling_of(&call->out[0], &call->in[0]);
    const int64_t count = zt_shape_count(&t.small);
    if (zt_shape_count(&t.big) == 0)
        memset(call->out[0].data, 0, (size_t)count * zt_dtype_bytes(call->out[0].dtype));
    else
        zt_parallel_for(zt_threads_worth(call->threads, (double)zt_shape_count(&t.big)),
                        count / t.small.dim[t.small.rank - 1], tile_grad_row, &t);
    return true;
}

static const struct zt_attr_spec with_shape[] = { { "shape", ZT_ATTR_INTS, true }, { 0 } };

static bool tile_takes_cuda(const struct zt_graph *g, int node) {
    struct zt_strided_copy_list list;
    struct zt_err err = { 0 };
    const struct zt_kernel *k = &g->nodes[node]->op->kernel[ZT_CUDA];
    return k->describe(g, node, &list, &err);
}

const struct zt_op zt_op_tile = {
    .name = "Tile",
    .domain = "",
    .since = 6,
    ZT_ONE_OUT(2, 2),
    .flags = ZT_OP_LIGHT,
    .in_types = { 0, ZT_BIT(ZT_INT64) },
    .infer = tile_infer,
    .grad = tile_grad,
    .no_grad_in = 1 << 1,
    .size_in = 1 << 1,
    .kernel = { [ZT_REF] = { .run = tile_run },
                [ZT_CPU] = { .run = tile_run },
                [ZT_CUDA] = ZT_CUDA_AS(strided_copies, tile_takes_cuda, tile_describe) },
};

const struct zt_op zt_op_tile_grad = {
    .name = "TileGrad",
    .domain = "ztrain",
    .since = 1,
    ZT_ONE_OUT(1, 1),
    .in_types = { ZT_ANY_FLOAT },
    .attrs = with_shape,
    .infer = tile_grad_infer,
    .body = zt_tile_grad_function_body,
    .kernel = { [ZT_REF] = { .run = tile_grad_run },
                [ZT_CUDA] = ZT_CUDA_AS(reduce, zt_cuda_floats, tile_grad_describe) },
};
