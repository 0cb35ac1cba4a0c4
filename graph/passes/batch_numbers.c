#include "graph/passes/batch_numbers.h"

#include "graph/ir/op.h"

#include <stdlib.h>
#include <string.h>

/* Whether the shape follows the batch. */
static bool varies(const struct zt_value *v, const struct zt_graph *reference) {
    const int id = zt_graph_find(reference, v->name);
    return id >= 0 && !zt_shape_equal(&v->shape, &reference->values[id]->shape);
}

static bool is_number(const struct zt_value *v, int64_t from) {
    if (!v->data || !zt_dtype_in(v->dtype, ZT_ANY_FLOAT) || zt_shape_count(&v->shape) != 1)
        return false;
    const double x = zt_load_double(v->dtype, v->data, 0);
    return (from > 1 && x == (double)from) || (from > 2 && x == (double)(from - 1));
}

/* Marks the results of the node that do not follow the batch, where an input did or was summed over it. */
static void mark(const struct zt_graph *g, const struct zt_graph *reference, const struct zt_node *n, bool *summed) {
    bool any = false;
    for (int i = 0; i < n->in_count; i++)
        any = any || (n->in[i] >= 0 && (summed[n->in[i]] || varies(g->values[n->in[i]], reference)));
    for (int i = 0; i < n->out_count; i++) {
        const struct zt_value *v = n->out[i] >= 0 ? g->values[n->out[i]] : NULL;
        if (v)
            summed[v->id] = any && !v->data && zt_dtype_in(v->dtype, ZT_ANY_FLOAT) && !varies(v, reference);
    }
}

int zt_pass_batch_numbers(const struct zt_graph *g, const struct zt_graph *reference, int64_t from,
                          const char ***names) {
    bool *summed = zt_calloc((size_t)g->value_count + 1, sizeof *summed);
    int count = 0;
    *names = ZT_NEW_N(g->arena, const char *, g->node_count + 1);
    for (int k = 0; k < g->node_count; k++) {
        const struct zt_node *n = g->nodes[k];
        if (n->dead)
            continue;
        mark(g, reference, n, summed);
        const bool scales = n->in_count == 2 && (zt_node_is(n, "Mul") || zt_node_is(n, "Div"));
        for (int i = 0; scales && i < 2; i++)
            if (summed[n->in[1 - i]] && is_number(g->values[n->in[i]], from)) {
                (*names)[count++] = n->name;
                break;
            }
    }
    free(summed);
    return count;
}
