/* RotaryEmbedding (opset 23 on): pairs of the first columns of every head are rotated by the angle of their position,
 *
 *     y1 = cos x1 - sin x2        y2 = sin x1 + cos x2
 *
 * pairs being columns (2 i, 2 i + 1) if interleaved, else (i, i + half). Row position[b, s] of the caches holds the
 * angles of row s, or row (b, s) itself without positions. The inverse rotation gives the gradient of x, and
 *
 *     dcos = sum x1 dy1 + x2 dy2        dsin = sum x1 dy2 - x2 dy1        over the heads, and over all rows with that
 * position. */
#include "ops/attention/rotary.h"

#include "ops/attention/kernels.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"

#include <string.h>

static bool rotary_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_launch_rotary r;
    return zt_rotary_read(g, node, &r, err) && zt_infer_first(g, node, err);
}

static bool cache_grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_launch_rotary r;
    const struct zt_value *cache = zt_in(g, node, ZT_ROTARY_COS);
    if (!zt_rotary_read(g, node, &r, err))
        return false;
    if (!zt_in(g, node, ZT_ROTARY_DY))
        return zt_node_fail(g, node, err, "it has no gradient to start from");
    if (!zt_shape_equal(&zt_in(g, node, ZT_ROTARY_DY)->shape, &zt_in(g, node, ZT_ROTARY_X)->shape))
        return zt_rotary_shape_fail(g, node, ZT_ROTARY_DY, "that of x", err);
    zt_set_out(g, node, 0, cache->dtype, &cache->shape);
    zt_set_out(g, node, 1, cache->dtype, &cache->shape);
    return true;
}

/* ---- kernels ---- */

static void columns_of(const struct zt_launch_rotary *r, int64_t i, int64_t *first, int64_t *second) {
    *first = r->interleaved ? 2 * i : i;
    *second = r->interleaved ? 2 * i + 1 : i + r->half;
}

static void rotate_row(const struct zt_call *call, const struct zt_launch_rotary *r, int64_t start, int64_t angle) {
    const struct zt_view *x = &call->in[ZT_ROTARY_X], *y = &call->out[0], *c = &call->in[ZT_ROTARY_COS],
                         *s = &call->in[ZT_ROTARY_SIN];
    for (int64_t i = 0; i < r->half; i++) {
        int64_t first, second;
        columns_of(r, i, &first, &second);
        double x1 = zt_load_double(x->dtype, x->data, start + first),
               cos = zt_load_double(c->dtype, c->data, angle + i);
        double x2 = zt_load_double(x->dtype, x->data, start + second),
               sin = zt_load_double(s->dtype, s->data, angle + i);
        zt_store_double(y->dtype, y->data, start + first, cos * x1 - sin * x2);
        zt_store_double(y->dtype, y->data, start + second, sin * x1 + cos * x2);
    }
    size_t bytes = zt_dtype_bytes(x->dtype), unrotated = (size_t)(r->size - 2 * r->half) * bytes;
    memcpy(zt_element(y->data, bytes, start + 2 * r->half), zt_element(x->data, bytes, start + 2 * r->half), unrotated);
}

static bool rotary_ref(const struct zt_call *call, struct zt_err *err) {
    struct zt_launch_rotary r;
    if (!zt_rotary_read(call->graph, zt_call_node(call), &r, err))
        return false;
    if (zt_shape_count(&call->in[ZT_ROTARY_X].shape) == 0)
        return true;
    for (int64_t n = 0; n < r.batch * r.rows; n++) {
        int64_t b = n / r.rows, s = n % r.rows, angle;
        if (!zt_rotary_angle(call, &r, b, s, &angle, err))
            return false;
        for (int64_t h = 0; h < r.heads; h++)
            rotate_row(call, &r, b * r.batch_step + h * r.head_step + s * r.row_step, angle);
    }
    return true;
}

static void add_to(const struct zt_view *to, int64_t at, double value) {
    if (to->data)
        zt_store_double(to->dtype, to->data, at, zt_load_double(to->dtype, to->data, at) + value);
}

/* One pair of columns of one position, summed over the heads. */
static void cache_grad_pair(const struct zt_call *call, const struct zt_launch_rotary *r, int64_t start, int64_t angle,
                            int64_t i) {
    const struct zt_view *x = &call->in[ZT_ROTARY_X], *dy = &call->in[ZT_ROTARY_DY];
    double dcos = 0, dsin = 0;
    int64_t first, second;
    columns_of(r, i, &first, &second);
    for (int64_t h = 0; h < r->heads; h++, start += r->head_step) {
        double x1 = zt_load_double(x->dtype, x->data, start + first);
        double x2 = zt_load_double(x->dtype, x->data, start + second);
        double dy1 = zt_load_double(dy->dtype, dy->data, start + first);
        double dy2 = zt_load_double(dy->dtype, dy->data, start + second);
        dcos += x1 * dy1 + x2 * dy2;
        dsin += x1 * dy2 - x2 * dy1;
    }
    add_to(&call->out[0], angle + i, dcos);
    add_to(&call->out[1], angle + i, dsin);
}

static bool cache_grad_ref(const struct zt_call *call, struct zt_err *err) {
    struct zt_launch_rotary r;
    if (!zt_rotary_read(call->graph, zt_call_node(call), &r, err))
        return false;
    for (int i = 0; i < 2; i++)
        if (call->out[i].data)
            memset(call->out[i].data, 0,
                   (size_t)zt_shape_count(&call->out[i].shape) * zt_dtype_bytes(call->out[i].dtype));
    if (zt_shape_count(&call->in[ZT_ROTARY_X].shape) == 0)
        return true;
    for (int64_t n = 0; n < r.batch * r.rows; n++) {
        int64_t b = n / r.rows, s = n % r.rows, angle;
        if (!zt_rotary_angle(call, &r, b, s, &angle, err))
            return false;
        for (int64_t i = 0; i < r.half; i++)
            cache_grad_pair(call, &r, b * r.batch_step + s * r.row_step, angle, i);
    }
    return true;
}

/* A struct zt_launch_rotary for other back ends. */
static bool rotary_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    return zt_rotary_read(g, node, to, err);
}

static bool rotary_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    int dy = zt_grad_out(b, node, 0), position = n->in_count > ZT_ROTARY_POSITION ? n->in[ZT_ROTARY_POSITION] : -1,
        out[2];
    if (zt_grad_wanted(b, node, ZT_ROTARY_X)) {
        int in[] = { dy, n->in[ZT_ROTARY_COS], ZT_EMIT(b, "Neg", n->in[ZT_ROTARY_SIN]), position };
        zt_emit_node(b, &(struct zt_emission){ "RotaryEmbedding", "", in, 4, n }, out, 1);
        zt_grad_give(b, node, ZT_ROTARY_X, out[0]);
    }
    if (!zt_grad_wanted(b, node, ZT_ROTARY_COS) && !zt_grad_wanted(b, node, ZT_ROTARY_SIN))
        return true;
    int in[] = { n->in[ZT_ROTARY_X], n->in[ZT_ROTARY_COS], n->in[ZT_ROTARY_SIN], position, dy };
    zt_emit_node(b, &(struct zt_emission){ "RotaryCacheGrad", "ztrain", in, 5, n }, out, 2);
    for (int i = 0; i < 2; i++)
        if (zt_grad_wanted(b, node, ZT_ROTARY_COS + i))
            zt_grad_give(b, node, ZT_ROTARY_COS + i, out[i]);
    return true;
}

static const struct zt_attr_spec attrs[] = {
    { "interleaved", ZT_ATTR_INT }, { "num_heads", ZT_ATTR_INT }, { "rotary_embedding_dim", ZT_ATTR_INT }, { 0 }
};

#define TYPES ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, 1 << ZT_INT64

const struct zt_op zt_op_rotary_embedding = {
    .name = "RotaryEmbedding",
    .domain = "",
    .since = 23,
    ZT_ONE_OUT(3, 4),
    .in_types = { TYPES },
    .same_type = 1 << ZT_ROTARY_COS | 1 << ZT_ROTARY_SIN,
    .attrs = attrs,
    .infer = rotary_infer,
    .grad = rotary_grad,
    .no_grad_in = 1 << ZT_ROTARY_POSITION,
    .kernel = { [ZT_REF] = { .run = rotary_ref },
                [ZT_CPU] = ZT_ON_CPU(zt_rotary_cpu),
                [ZT_CUDA] = ZT_CUDA_AS(rotary, zt_cuda_float_data, rotary_describe) },
};
/* (x, cos, sin, positions, dy) -> dcos, dsin */
const struct zt_op zt_op_rotary_cache_grad = {
    .name = "RotaryCacheGrad",
    .domain = "ztrain",
    .since = 1,
    .min_in = 3,
    .max_in = 5,
    .min_out = 2,
    .max_out = 2,
    .in_types = { TYPES, ZT_ANY_FLOAT },
    .same_type = 1 << ZT_ROTARY_COS | 1 << ZT_ROTARY_SIN | 1 << ZT_ROTARY_DY,
    .attrs = attrs,
    .infer = cache_grad_infer,
    .body = zt_rotary_cache_grad_function_body,
    .kernel = { [ZT_REF] = { .run = cache_grad_ref },
                [ZT_CUDA] = ZT_CUDA_AS(rotary_cache_grad, zt_cuda_float_data, rotary_describe) },
};
