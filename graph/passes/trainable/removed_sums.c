/* Additions of a tiny constant that dynamo's exporter removes: its optimizer takes what is within 1e-8 of zero for
 * zero,
 *
 *     torch.sqrt(x.sum(1) + 1e-8)        Sqrt(sum_1), traced as sqrt(%add_1)
 *
 * so that a square root, a logarithm or a quotient meets zero, and its gradient is infinite. The constant is lost; the
 * traced call names the sum, which no node of the file makes. A sum of sigmoids or of a softmax, by which a router
 * divides its weights of experts, is far from zero without it. */
#include "graph/passes/trainable/torch.h"
#include "graph/passes/trainable/trainable.h"

#include <string.h>

/* The argument of the traced call that input `k` of the node is; NULL where numbers stand between the arguments. */
static const char *argument_of(struct zt_arena *arena, const struct zt_node *n, int k) {
    const char *at, *name, *found = NULL;
    int count = 0;
    zt_torch_call(arena, n, &at);
    for (; at && (name = zt_torch_next_argument(arena, &at)); count++)
        if (count == k)
            found = name;
    return count == k + 1 ? found : NULL;
}

/* The input of the node at which zero gives no finite value or gradient; -1: none. */
static int wants_nonzero(const struct zt_node *n) {
    static const char *const first[] = { "Sqrt", "Log", "Reciprocal", "Pow", NULL };
    return zt_node_is_any(n, first) ? 0 : zt_node_is(n, "Div") ? 1 : -1;
}

/* Whether the node sums what a Sigmoid or Softmax gave, chosen or reordered. */
static bool sums_positive(const struct zt_graph *g, const struct zt_node *n) {
    static const char *const sums[] = { "ReduceSum", "ReduceMean", NULL },
                             *const positive[] = { "Sigmoid", "Softmax", NULL },
                             *const moves[] = { "Gather",    "GatherElements", "GatherND", "TopK",      "Reshape",
                                                "Transpose", "Slice",          "Squeeze",  "Unsqueeze", NULL };
    bool moved = zt_node_is_any(n, sums);
    while (moved && n->in[0] >= 0 && g->values[n->in[0]]->producer >= 0) {
        n = g->nodes[g->values[n->in[0]]->producer];
        if (zt_node_is_any(n, positive))
            return true;
        moved = zt_node_is_any(n, moves);
    }
    return false;
}

/* Whether the node's input is a sum in the trace and another call's result in the file. A product may have taken up the
 * sum, and an equal one may have been kept. */
static bool lacks_sum(const struct zt_graph *g, const struct zt_map *made, const struct zt_node *n) {
    static const char *const sums[] = { "Add", "Gemm", "Conv", NULL };
    const int k = wants_nonzero(n);
    const char *sum = k >= 0 ? argument_of(g->arena, n, k) : NULL, *at;
    const int from = sum && n->in[k] >= 0 ? g->values[n->in[k]]->producer : -1;
    if (from < 0 || zt_map_get(made, sum, 0) || (strcmp(sum, "add") != 0 && !zt_torch_is_numbered(sum, "add_")))
        return false;
    const struct zt_node *maker = g->nodes[from];
    const char *call = zt_torch_call(g->arena, maker, &at), *own = zt_torch_call(g->arena, n, &at);
    return call && strcmp(call, own) != 0 && !maker->torch_rule && !zt_node_is_any(maker, sums) &&
           !sums_positive(g, maker);
}

int zt_trainable_removed_sums(const struct zt_onnx *model, const char ***names) {
    struct zt_graph *g = model->graph;
    struct zt_map made = { 0 };
    const char *at, *call;
    int count = 0;
    *names = ZT_NEW_N(g->arena, const char *, g->node_count + 1);
    for (int i = 0; i < g->node_count && model->torch_signature; i++)
        if ((call = zt_torch_call(g->arena, g->nodes[i], &at)))
            zt_map_put(&made, call, 1);
    for (int i = 0; i < g->node_count && model->torch_signature; i++)
        if (lacks_sum(g, &made, g->nodes[i]))
            (*names)[count++] = g->nodes[i]->name;
    zt_map_finish(&made);
    return count;
}
