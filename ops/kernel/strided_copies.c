#include "ops/kernel/strided_copies.h"

#include "ops/kernel/shape.h"

struct zt_move zt_move_whole(const struct zt_shape *shape) {
    struct zt_move move = { .shape = *shape };
    zt_shape_strides(shape, move.from_step);
    zt_shape_strides(shape, move.to_step);
    return move;
}

bool zt_moves_whole(const struct zt_graph *g, int node, zt_move_take *take, void *arg, struct zt_err *err) {
    (void)err;
    const struct zt_move move = zt_move_whole(&zt_in(g, node, 0)->shape);
    take(arg, &move);
    return true;
}

static void copy(void *arg, const struct zt_move *m) {
    const struct zt_call *call = arg;
    const struct zt_view *x = &call->in[m->in], *y = &call->out[m->out];
    const size_t bytes = zt_dtype_bytes(x->dtype);
    if (y->data && zt_shape_count(&m->shape) > 0)
        zt_copy_strided(call->threads, bytes, &m->shape, zt_element(y->data, bytes, m->to), m->to_step,
                        zt_element(x->data, bytes, m->from), m->from_step);
}

bool zt_moves_run(const struct zt_call *call, zt_moves *each, struct zt_err *err) {
    return each(call->graph, zt_call_node(call), copy, (void *)call, err);
}

static void count(void *arg, const struct zt_move *m) {
    (void)m;
    ++*(int *)arg;
}

static void append(void *arg, const struct zt_move *m) {
    struct zt_move_list *list = arg;
    list->move[list->count++] = *m;
}

bool zt_moves_list(const struct zt_graph *g, int node, zt_moves *each, bool clears, struct zt_move_list *to,
                   struct zt_err *err) {
    int copies = 0;
    if (!each(g, node, count, &copies, err))
        return false;
    *to = (struct zt_move_list){ .move = ZT_NEW_N(g->arena, struct zt_move, copies), .clears = clears };
    return each(g, node, append, to, err);
}
