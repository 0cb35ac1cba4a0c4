#include "ops/kernel/strided_copies.h"

#include "ops/kernel/shape.h"

struct zt_strided_copy zt_strided_copy_whole(const struct zt_shape *shape) {
    struct zt_strided_copy copy = { .shape = *shape };
    zt_shape_strides(shape, copy.from_step);
    zt_shape_strides(shape, copy.to_step);
    return copy;
}

bool zt_strided_copies_whole(const struct zt_graph *g, int node, zt_strided_copy_take *take, void *arg,
                             struct zt_err *err) {
    (void)err;
    const struct zt_strided_copy copy = zt_strided_copy_whole(&zt_in(g, node, 0)->shape);
    take(arg, &copy);
    return true;
}

static void run_copy(void *arg, const struct zt_strided_copy *m) {
    const struct zt_call *call = arg;
    const struct zt_view *x = &call->in[m->in], *y = &call->out[m->out];
    if (y->data)
        zt_strided_copy_run(call->threads, zt_dtype_bytes(x->dtype), m, y->data, x->data);
}

bool zt_strided_copies_run(const struct zt_call *call, zt_strided_copies *each, struct zt_err *err) {
    return each(call->graph, zt_call_node(call), run_copy, (void *)call, err);
}

static void count(void *arg, const struct zt_strided_copy *m) {
    (void)m;
    ++*(int *)arg;
}

static void append(void *arg, const struct zt_strided_copy *m) {
    struct zt_strided_copy_list *list = arg;
    list->copy[list->count++] = *m;
}

bool zt_strided_copies_list(const struct zt_graph *g, int node, zt_strided_copies *each, bool clears,
                            struct zt_strided_copy_list *to, struct zt_err *err) {
    int copies = 0;
    if (!each(g, node, count, &copies, err))
        return false;
    *to = (struct zt_strided_copy_list){ .copy = ZT_NEW_N(g->arena, struct zt_strided_copy, copies), .clears = clears };
    return each(g, node, append, to, err);
}
