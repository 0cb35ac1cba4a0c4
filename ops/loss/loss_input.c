/* Removal of an activation at the end of the graph that the loss applies itself. */
#include "ops/loss/loss.h"
#include "ops/softmax/softmax.h"

#include <string.h>

static const struct {
    const char *op;
    enum zt_loss_end end;
} ends[] = { { "Softmax", ZT_END_SOFTMAX }, { "LogSoftmax", ZT_END_LOG_SOFTMAX }, { "Sigmoid", ZT_END_SIGMOID } };

/* Hands on its input's numbers in their order, at most as another type of float. */
static bool passes_on(const struct zt_graph *g, int node) {
    const struct zt_node *n = g->nodes[node];
    const struct zt_value *x = zt_in(g, node, 0), *y = zt_out(g, node, 0);
    if (!x || !y || !zt_dtype_in(x->dtype, ZT_ANY_FLOAT) || !zt_dtype_in(y->dtype, ZT_ANY_FLOAT))
        return false;
    return n->op->flags & ZT_OP_CAST || (n->op->flags & ZT_OP_VIEW && x->dtype == y->dtype);
}

/* Classes that are `inner` elements apart stay so in any view. */
static bool along_classes(const struct zt_graph *g, int node, int64_t classes, int64_t inner) {
    struct zt_axis_slices rows;
    struct zt_err err = { 0 };
    return zt_softmax_read(g, node, &rows, &err) && rows.length == classes && rows.inner == inner;
}

enum zt_loss_end zt_loss_end_of(const struct zt_graph *g, int root, const struct zt_shape *logits, int axis, int *node,
                                int *reader) {
    int64_t inner = axis >= 0 ? zt_dims(logits, axis + 1, logits->rank) : 1;
    *reader = -1;
    for (*node = g->values[root]->producer; *node >= 0; *node = g->values[g->nodes[*node]->in[0]]->producer) {
        const struct zt_node *n = g->nodes[*node];
        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
            if (n->domain[0] || strcmp(n->op_type, ends[i].op) != 0)
                continue;
            bool fits =
                ends[i].end == ZT_END_SIGMOID || (axis >= 0 && along_classes(g, *node, logits->dim[axis], inner));
            return fits ? ends[i].end : ZT_END_PLAIN;
        }
        if (!passes_on(g, *node))
            break;
        *reader = *node;
    }
    return ZT_END_PLAIN;
}
