/* The geometry of RotaryEmbedding, read from the node (rotary.h). */
#include "ops/attention/rotary.h"

#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"

bool zt_rotary_shape_fail(const struct zt_graph *g, int node, int in, const char *wanted, struct zt_err *err) {
    char text[ZT_SHAPE_TEXT];
    const struct zt_value *v = zt_in(g, node, in);
    return zt_node_fail(g, node, err, "\"%s\" has shape %s; wanted is %s", v->name, zt_shape_text(&v->shape, text),
                        wanted);
}

static bool read_heads(const struct zt_graph *g, int node, struct zt_launch_rotary *r, struct zt_err *err) {
    const struct zt_shape *x = &zt_in(g, node, ZT_ROTARY_X)->shape;
    int64_t heads = zt_attr_int(g->nodes[node], "num_heads", 0);
    const int64_t *d = x->dim;
    if (x->rank == 4) {
        *r = (struct zt_launch_rotary){ .batch = d[0], .heads = d[1], .rows = d[2], .size = d[3] };
        r->batch_step = d[1] * d[2] * d[3], r->head_step = d[2] * d[3], r->row_step = d[3];
        return true;
    }
    if (x->rank != 3 || heads < 1 || d[2] % heads)
        return zt_rotary_shape_fail(g, node, ZT_ROTARY_X,
                                    "[batch, heads, rows, size], or [batch, rows, num_heads * size]", err);
    *r = (struct zt_launch_rotary){ .batch = d[0], .heads = heads, .rows = d[1], .size = d[2] / heads };
    r->batch_step = d[1] * d[2], r->head_step = d[2] / heads, r->row_step = d[2];
    return true;
}

bool zt_rotary_read(const struct zt_graph *g, int node, struct zt_launch_rotary *r, struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    const struct zt_value *position = zt_in(g, node, ZT_ROTARY_POSITION);
    const struct zt_shape *cos = &zt_in(g, node, ZT_ROTARY_COS)->shape;
    if (!read_heads(g, node, r, err))
        return false;
    int64_t rotated = zt_attr_int(n, "rotary_embedding_dim", 0);
    rotated = rotated == 0 ? r->size : rotated;
    if (rotated < 0 || rotated > r->size || rotated % 2)
        return zt_node_fail(g, node, err, "%lld of %lld columns cannot be rotated in pairs", (long long)rotated,
                            (long long)r->size);
    r->half = rotated / 2;
    r->interleaved = zt_attr_int(n, "interleaved", 0) != 0;
    if (!zt_shape_equal(cos, &zt_in(g, node, ZT_ROTARY_SIN)->shape))
        return zt_rotary_shape_fail(g, node, ZT_ROTARY_SIN, "that of the cosines", err);
    if (cos->rank != (position ? 2 : 3) || cos->dim[cos->rank - 1] != r->half ||
        (!position && (cos->dim[0] != r->batch || cos->dim[1] != r->rows)))
        return zt_rotary_shape_fail(g, node, ZT_ROTARY_COS,
                                    position ? "[angles, rotated columns / 2]" : "[batch, rows, rotated columns / 2]",
                                    err);
    if (position &&
        (position->shape.rank != 2 || position->shape.dim[0] != r->batch || position->shape.dim[1] != r->rows))
        return zt_rotary_shape_fail(g, node, ZT_ROTARY_POSITION, "[batch, rows]", err);
    r->angles = zt_dims(cos, 0, cos->rank - 1);
    return true;
}

bool zt_rotary_angle(const struct zt_call *call, const struct zt_launch_rotary *r, int64_t b, int64_t s, int64_t *to,
                     struct zt_err *err) {
    const struct zt_view *position = call->in_count > ZT_ROTARY_POSITION ? &call->in[ZT_ROTARY_POSITION] : NULL;
    int64_t place = b * r->rows + s, row = place;
    if (position && position->data)
        row = zt_wrap_index(zt_load_int(position->dtype, position->data, place), r->angles);
    *to = row * r->half;
    return row >= 0 || zt_call_fail(call, err, "position %lld of place %lld is outside the %lld rows of angles",
                                    (long long)zt_load_int(position->dtype, position->data, place), (long long)place,
                                    (long long)r->angles);
}
