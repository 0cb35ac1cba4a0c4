/* Parameter or constant? ONNX does not say. An initializer is trained when
 *
 *     1. it is float and a differentiable path leads from it to the loss,
 *     2. where the graph carries PyTorch's signature: it is marked PARAMETER, or was folded from one, or bears no mark
 * and has a dimension (what BatchNormalization folding leaves has lost its mark),
 *     3. elsewhere: it has a dimension. Scalars are epsilons, scales, exponents.
 */
#include "graph/trainable.h"

#include "graph/op.h"
#include "graph/passes.h"

#include <stdlib.h>
#include <string.h>

/* ---- PyTorch's signature ---- */

/* Lines of the signature read "p_fc_weight: PARAMETER target='fc.weight'". The target of the next PARAMETER line after
 * *at, in `arena`; NULL at the end. */
static const char *next_parameter(struct zt_arena *arena, const char **at) {
    static const char sign[] = ": PARAMETER target='";
    const char *start = strstr(*at, sign);
    if (!start)
        return NULL;
    start += sizeof sign - 1;
    size_t length = strcspn(start, "'\n");
    *at = start + length;
    return zt_arena_strndup(arena, start, length);
}

/* folded_from is a Python list, "['arange', 'val_1', 'wpe.weight']": its next text after *at, NULL at the end. */
static const char *next_source(struct zt_arena *arena, const char **at) {
    const char *start = strpbrk(*at, "'\"");
    const char *end = start ? strchr(start + 1, *start) : NULL;
    if (!end)
        return NULL;
    *at = end + 1;
    return zt_arena_strndup(arena, start + 1, (size_t)(end - start - 1));
}

static void signature_parameters(struct zt_arena *arena, const char *signature, struct zt_map *parameters) {
    for (const char *name; (name = next_parameter(arena, &signature));)
        zt_map_put(parameters, name, 1);
}

/* A parameter that the value was folded from, NULL where there is none. */
static const char *folded_parameter(struct zt_arena *arena, const struct zt_value *v, const struct zt_map *parameters) {
    const char *at = v->torch_folded_from;
    for (const char *name; (name = next_source(arena, &at));)
        if (zt_map_get(parameters, name, 0))
            return name;
    return NULL;
}

/* ---- the differentiable path ---- */

/* What the walk knows of a value. */
struct path {
    int through;  /* node through which its gradient comes, -1: none does */
    int reader;   /* a node that reads it, -1: none does */
    bool stopped; /* that reader takes no gradient through this input (an index, a shape, a statistic) */
};

static bool stops_gradient(const struct zt_node *n, int in) {
    return n->op && in < 32 && (n->op->no_grad_in | n->op->statistic_in) >> in & 1;
}

/* A node with bodies is taken for differentiable in all that it reads: what it stands for is not known yet. */
static bool has_gradient(const struct zt_op *op) {
    return op && (op->grad || op->expand);
}

static bool is_integer(const struct zt_value *v) {
    return v->dtype != ZT_UNDEFINED && !zt_dtype_in(v->dtype, ZT_ANY_FLOAT);
}

static void walk_node(const struct zt_graph *g, int node, struct path *paths) {
    const struct zt_node *n = g->nodes[node];
    bool reached = false;
    for (int i = 0; i < n->out_count; i++)
        reached |= n->out[i] >= 0 && paths[n->out[i]].through >= 0 && !is_integer(g->values[n->out[i]]);
    for (int i = 0; i < n->in_count; i++) {
        if (n->in[i] < 0)
            continue;
        struct path *p = &paths[n->in[i]];
        if (reached && has_gradient(n->op) && !stops_gradient(n, i))
            p->through = node;
        p->reader = node;
        p->stopped = stops_gradient(n, i);
    }
}

/* From the loss (or the graph's outputs) back over the nodes; a root counts as reached through a node that does not
 * exist. */
static struct path *walk(const struct zt_graph *g, int loss) {
    struct path *paths = zt_malloc(((size_t)g->value_count + 1) * sizeof *paths);
    for (int i = 0; i < g->value_count; i++)
        paths[i] = (struct path){ -1, -1, false };
    for (int i = 0; loss < 0 && i < g->output_count; i++)
        paths[g->outputs[i]].through = g->node_count;
    if (loss >= 0)
        paths[loss].through = g->node_count;
    for (int n = g->node_count - 1; n >= 0; n--)
        if (!g->nodes[n]->dead)
            walk_node(g, n, paths);
    return paths;
}

/* ---- the verdict ---- */

static const char *why_unreached(const struct zt_graph *g, const struct path *p) {
    if (p->reader < 0)
        return "the loss does not need it";
    const struct zt_node *n = g->nodes[p->reader];
    if (p->stopped)
        return zt_arena_printf(g->arena, "statistics or shape input of %s (%s)", n->name, n->op_type);
    if (!has_gradient(n->op))
        return zt_arena_printf(g->arena, "no gradient through %s (%s)", n->name, n->op_type);
    return zt_arena_printf(g->arena, "no differentiable path from %s (%s) to the loss", n->name, n->op_type);
}

/* Point 2 where `parameters` is given, else point 3. */
static bool is_parameter(const struct zt_graph *g, const struct zt_value *v, const struct zt_map *parameters,
                         const char **why) {
    if (parameters && v->torch_kind) {
        *why = zt_arena_printf(g->arena, "marked %s by the exporter", v->torch_kind);
        return strcmp(v->torch_kind, "PARAMETER") == 0;
    }
    if (parameters && v->torch_folded_from) {
        const char *from = folded_parameter(g->arena, v, parameters);
        *why = from ? zt_arena_printf(g->arena, "folded from parameter %s", from) : "folded from constants";
        return from != NULL;
    }
    *why = v->shape.rank > 0 ? "float with a gradient and a dimension" : "a scalar: epsilon, scale or exponent";
    return v->shape.rank > 0;
}

static bool verdict(const struct zt_graph *g, const struct zt_value *v, const struct path *p,
                    const struct zt_map *parameters, const char **why) {
    if (!zt_dtype_in(v->dtype, ZT_ANY_FLOAT)) {
        *why = zt_arena_printf(g->arena, "of type %s", zt_dtype_name(v->dtype));
        return false;
    }
    if (p->through < 0 || p->through == g->node_count) {
        *why = why_unreached(g, p);
        return false;
    }
    return is_parameter(g, v, parameters, why);
}

void zt_pass_trainable(struct zt_graph *g, const char *signature, int loss) {
    struct zt_map parameters = { 0 };
    struct path *paths = walk(g, loss);
    if (signature)
        signature_parameters(g->arena, signature, &parameters);
    for (int i = 0; i < g->value_count; i++)
        if (g->values[i]->origin == ZT_FROM_INITIALIZER)
            g->values[i]->trainable =
                verdict(g, g->values[i], &paths[i], signature ? &parameters : NULL, &g->values[i]->why);
    zt_map_finish(&parameters);
    free(paths);
}

/* ---- merged tensors ---- */

static bool is_copy(const struct zt_op *op, const struct zt_node *n) {
    return op && zt_op_copies(op) && n->in_count == 1 && n->out_count == 1 && n->in[0] >= 0 && n->out[0] >= 0;
}

void zt_pass_split_aliases(struct zt_graph *g, const struct zt_op_table *table) {
    bool any = false;
    for (int i = 0; i < g->node_count; i++) {
        struct zt_node *n = g->nodes[i];
        if (n->dead || !is_copy(zt_op_find(table, n->domain, n->op_type, n->opset), n) ||
            g->values[n->in[0]]->origin != ZT_FROM_INITIALIZER)
            continue;
        zt_value_copy(g->values[n->out[0]], g->values[n->in[0]]);
        g->values[n->out[0]]->producer = -1;
        n->dead = any = true;
    }
    struct zt_err none = { 0 };
    if (any)
        zt_graph_sort(g, &none); /* a graph stays sorted when nodes go and nothing new is read */
}

int zt_trainable_aliases(const struct zt_onnx *model, const struct zt_graph *g, const char ***names) {
    int count = 0;
    *names = ZT_NEW_N(g->arena, const char *, g->value_count);
    for (int i = 0; i < g->value_count; i++)
        if (g->values[i]->origin == ZT_FROM_INITIALIZER && !zt_onnx_stores(model, g->values[i]->name))
            (*names)[count++] = g->values[i]->name;
    return count;
}

int zt_trainable_listed(const struct zt_onnx *model, const char ***names) {
    struct zt_arena *arena = model->graph->arena;
    const char *at = model->torch_signature;
    int count = 0, room = 0;
    *names = NULL;
    for (const char *more = at; more && next_parameter(arena, &more);)
        room++;
    *names = ZT_NEW_N(arena, const char *, room + 1);
    for (const char *name; at && (name = next_parameter(arena, &at));)
        (*names)[count++] = name;
    return count;
}

int zt_trainable_missing(const struct zt_onnx *model, const char ***names) {
    struct zt_arena *arena = model->graph->arena;
    struct zt_map held = { 0 };
    int listed = zt_trainable_listed(model, names), count = 0;
    for (int i = 0; i < model->graph->value_count; i++) {
        const struct zt_value *v = model->graph->values[i];
        if (v->origin != ZT_FROM_INITIALIZER)
            continue;
        zt_map_put(&held, v->name, 1);
        const char *list = v->torch_folded_from ? v->torch_folded_from : "";
        for (const char *name; (name = next_source(arena, &list));)
            zt_map_put(&held, name, 1);
    }
    for (int i = 0; i < listed; i++)
        if (!zt_map_get(&held, (*names)[i], 0))
            (*names)[count++] = (*names)[i];
    zt_map_finish(&held);
    return count;
}
