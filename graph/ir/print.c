#include "graph/passes/passes.h"

#include <stdio.h>

static void print_value(const struct zt_graph *g, int id, FILE *to) {
    char shape[ZT_SHAPE_TEXT];
    if (id < 0) {
        fputc('-', to);
        return;
    }
    const struct zt_value *v = g->values[id];
    fprintf(to, "%s: %s%s", v->name, zt_dtype_name(v->dtype), zt_shape_text(&v->shape, shape));
    if (v->layout)
        fprintf(to, " as %s", v->layout->name);
}

void zt_graph_print(const struct zt_graph *g, FILE *to) {
    static const char *const backend[ZT_BACKENDS] = { "ref", "cpu", "cuda" };
    for (int n = 0; n < g->node_count; n++) {
        const struct zt_node *node = g->nodes[n];
        fprintf(to, "%c %s: %s%s%s [%s] (", node->phase == ZT_FORWARD ? 'F' : 'B', node->name, node->domain,
                node->domain[0] ? "." : "", node->op_type, backend[node->backend]);
        for (int i = 0; i < node->in_count; i++) {
            fputs(i ? ", " : "", to);
            print_value(g, node->in[i], to);
        }
        fputs(") -> ", to);
        for (int i = 0; i < node->out_count; i++) {
            fputs(i ? ", " : "", to);
            print_value(g, node->out[i], to);
        }
        fputc('\n', to);
    }
}
