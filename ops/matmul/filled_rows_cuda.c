#include "ops/matmul/filled_rows_cuda.h"

#include <string.h>

void zt_filled_sides(struct zt_prepare *p) {
    for (int i = 0; i < p->graph->nodes[p->node]->in_count; i++)
        if (i >= 2 || !zt_layout_is_filled(p->in_layout[i]))
            p->in_layout[i] = NULL;
}

/* Whether nodes alone read `value`, and `takes` is true of all of them. */
static bool all_readers(const struct zt_graph *g, int value,
                        bool (*takes)(const struct zt_graph *g, int node, int value)) {
    int readers = 0;
    for (int i = 0; i < g->output_count; i++)
        if (g->outputs[i] == value)
            return false;
    for (int n = 0; n < g->node_count; n++)
        for (int i = 0; !g->nodes[n]->dead && i < g->nodes[n]->in_count; i++)
            if (g->nodes[n]->in[i] == value) {
                if (!takes(g, n, value))
                    return false;
                readers++;
            }
    return readers > 0;
}

/* Whether the node is a product and `value` one of its two matrices. */
static bool is_product(const struct zt_graph *g, int node, int value) {
    static const char *const products[] = { "BatchMatMul", "Gemm",           "GemmFloat",
                                            "MatMul",      "MatMulGeluGrad", "MatMulReluGrad" };
    const struct zt_node *n = g->nodes[node];
    size_t k = 0;
    while (k < sizeof products / sizeof *products && strcmp(products[k], n->op_type) != 0)
        k++;
    for (int i = 2; i < n->in_count; i++)
        if (n->in[i] == value)
            return false;
    return k < sizeof products / sizeof *products;
}

/* Whether the node is the cross entropy of these logits and products alone read its gradient. */
static bool is_cross_entropy(const struct zt_graph *g, int node, int value) {
    const struct zt_node *n = g->nodes[node];
    const int64_t axis = zt_attr_int(n, "axis", 1);
    return strcmp(n->op_type, "CrossEntropyTrain") == 0 && n->in[1] == value && (axis == 1 || axis == -1) &&
           n->out[0] >= 0 && all_readers(g, n->out[0], is_product);
}

const struct zt_layout *zt_filled_logits(const struct zt_prepare *p) {
    const struct zt_graph *g = p->graph;
    const struct zt_value *y = zt_out(g, p->node, 0);
    const int64_t row = y->shape.rank == 2 ? y->shape.dim[1] : 0, step = zt_layout_row(row, y->dtype);
    if (!zt_dtype_is_half(y->dtype) || step == row || step > 2 * row || step > INT32_MAX ||
        !all_readers(g, g->nodes[p->node]->out[0], is_cross_entropy))
        return NULL;
    return zt_layout_of(g->arena, ZT_ORDER_FILLED_ROWS, (int)step, y->dtype, &y->shape);
}
