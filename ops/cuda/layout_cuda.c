#include "ops/cuda/layout_cuda.h"

#include "ops/cuda/broadcast_cuda.h"
#include "ops/kernel/shape.h"

#include <string.h>

/* ---- choosing ---- */

bool zt_layout_either(const struct zt_shape *shape) {
    return shape->rank < 3 || shape->dim[1] == 1 || zt_dims(shape, 2, shape->rank) == 1;
}

const struct zt_layout *zt_layout_last(struct zt_arena *arena, const struct zt_layout *given,
                                       const struct zt_value *v) {
    if (zt_layout_is_last(given))
        return given;
    return zt_layout_either(&v->shape) ? NULL : zt_layout_of(arena, ZT_ORDER_CHANNELS_LAST, 0, v->dtype, &v->shape);
}

/* Whether a reader of `value`, or of a cast of it, has another input of its shape that is channels last. */
static bool joins_last(const struct zt_graph *g, int value) {
    for (int n = 0; n < g->node_count; n++) {
        bool reads = false, last = false;
        for (int i = 0; i < g->nodes[n]->in_count; i++) {
            const struct zt_value *v = zt_in(g, n, i);
            reads |= g->nodes[n]->in[i] == value;
            last |= v && zt_layout_is_last(v->layout) && zt_shape_equal(&v->shape, &g->values[value]->shape);
        }
        if (reads && (last || (g->nodes[n]->op->flags & ZT_OP_CAST && joins_last(g, g->nodes[n]->out[0]))))
            return true;
    }
    return false;
}

/* The last bit is that of all tensors from its number on. */
static bool in_mask(unsigned mask, int i) {
    return mask >> (i < 31 ? i : 31) & 1;
}

static bool comes_last(const struct zt_prepare *p, unsigned ins, unsigned outs) {
    const struct zt_node *n = p->graph->nodes[p->node];
    const struct zt_value *y = in_mask(outs, 0) ? zt_out(p->graph, p->node, 0) : NULL;
    bool last = false, shows = false;
    for (int i = 0; i < n->in_count; i++)
        if (in_mask(ins, i) && zt_in(p->graph, p->node, i)) {
            last |= zt_layout_is_last(p->in_layout[i]);
            shows |= !zt_layout_either(&zt_in(p->graph, p->node, i)->shape);
        }
    return last || (!shows && y && !zt_layout_either(&y->shape) && joins_last(p->graph, n->out[0]));
}

bool zt_layout_alike(struct zt_prepare *p, unsigned ins, unsigned outs) {
    const struct zt_graph *g = p->graph;
    const struct zt_node *n = g->nodes[p->node];
    const bool last = comes_last(p, ins, outs);
    for (int i = 0; i < n->in_count; i++) {
        const struct zt_value *v = zt_in(g, p->node, i);
        p->in_layout[i] = last && v && in_mask(ins, i) ? zt_layout_last(g->arena, p->in_layout[i], v) : NULL;
    }
    for (int i = 0; i < n->out_count; i++) {
        const struct zt_value *v = zt_out(g, p->node, i);
        p->out_layout[i] = last && v && in_mask(outs, i) ? zt_layout_last(g->arena, NULL, v) : NULL;
    }
    return last;
}

static bool is_like_y(const struct zt_prepare *p, int i) {
    return zt_shape_equal(&zt_in(p->graph, p->node, i)->shape, &zt_out(p->graph, p->node, 0)->shape);
}

void zt_layout_broadcast(struct zt_prepare *p, int inputs) {
    struct zt_graph *g = p->graph;
    const struct zt_value *y = zt_out(g, p->node, 0);
    const struct zt_layout *given =
        NULL; /* layout of an input with y's element size: with one layout they may share memory */
    bool last = false, whole = false;
    for (int i = 0; i < inputs; i++)
        if (is_like_y(p, i)) {
            const bool comes_last = zt_layout_is_last(p->in_layout[i]);
            last |= comes_last;
            whole = true;
            if (!given && comes_last && zt_dtype_bytes(zt_in(g, p->node, i)->dtype) == zt_dtype_bytes(y->dtype))
                given = p->in_layout[i];
        }
    last = whole ? last : !zt_layout_either(&y->shape) && joins_last(g, g->nodes[p->node]->out[0]);
    for (int i = 0; i < g->nodes[p->node]->in_count; i++) {
        const struct zt_value *x = zt_in(g, p->node, i);
        if (i >= inputs || x->shape.rank != y->shape.rank || (is_like_y(p, i) && !last))
            p->in_layout[i] = NULL;
        else if (is_like_y(p, i))
            p->in_layout[i] = zt_layout_last(g->arena, p->in_layout[i], x);
    }
    p->out_layout[0] = last ? zt_layout_last(g->arena, given, y) : NULL;
}

/* ---- orders ---- */

void zt_layout_axes(const struct zt_layout *layout, int rank, int axis[ZT_MAX_RANK]) {
    const bool last = zt_layout_is_last(layout);
    for (int k = 0; k < rank; k++)
        axis[k] = !last || k == 0 ? k : k < rank - 1 ? k + 1 : 1;
}

void zt_layout_steps(const struct zt_layout *layout, const struct zt_shape *shape, int64_t step[ZT_MAX_RANK]) {
    int axis[ZT_MAX_RANK];
    int64_t next = 1;
    zt_layout_axes(layout, shape->rank, axis);
    for (int k = shape->rank - 1; k >= 0; k--) {
        step[axis[k]] = next;
        next *= shape->dim[axis[k]];
        if (k == shape->rank - 1)
            zt_layout_fill(layout, &next);
    }
}

void zt_broadcast_layout_dims(const struct zt_prepare *p, int64_t dim[ZT_MAX_RANK]) {
    const struct zt_shape *y = &zt_out(p->graph, p->node, 0)->shape;
    int axis[ZT_MAX_RANK];
    zt_layout_axes(p->out_layout[0], y->rank, axis);
    for (int k = 0; k < y->rank; k++)
        dim[k] = y->dim[axis[k]];
}

void zt_broadcast_layout_steps(const struct zt_prepare *p, int i, int64_t step[ZT_MAX_RANK]) {
    const struct zt_shape *x = &zt_in(p->graph, p->node, i)->shape, *y = &zt_out(p->graph, p->node, 0)->shape;
    int axis[ZT_MAX_RANK];
    int64_t own[ZT_MAX_RANK], along[ZT_MAX_RANK];
    zt_layout_axes(p->out_layout[0], y->rank, axis);
    zt_layout_steps(p->in_layout[i], x, own);
    zt_steps_cuda(y, x, own, along);
    for (int k = 0; k < y->rank; k++)
        step[k] = along[axis[k]];
}

struct zt_launch_strided_copy zt_transposed_copy_cuda(const struct zt_shape *shape, const struct zt_layout *from,
                                                      const struct zt_layout *to) {
    int axis[ZT_MAX_RANK];
    int64_t from_step[ZT_MAX_RANK], to_step[ZT_MAX_RANK], step[2][ZT_MAX_RANK], dim[ZT_MAX_RANK];
    zt_layout_axes(to, shape->rank, axis);
    zt_layout_steps(from, shape, from_step);
    zt_layout_steps(to, shape, to_step);
    for (int k = 0; k < shape->rank; k++) {
        dim[k] = shape->dim[axis[k]];
        step[0][k] = from_step[axis[k]];
        step[1][k] = to_step[axis[k]];
    }
    return zt_strided_copy_cuda(shape->rank, dim, step[0], step[1]);
}
