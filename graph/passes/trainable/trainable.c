/* Parameter or constant? ONNX does not say. An initializer is trained when
 *
 *     1. it is float and a differentiable path leads from it to the loss, and
 *     2. where the graph carries PyTorch's signature (dynamo exporter): it is marked PARAMETER, or was made of
 * PARAMETERs by picking and placing elements, or bears no mark and has a dimension (what BatchNormalization folding
 * leaves has lost its mark). A tensor computed from a PARAMETER is a different one (graph/passes/trainable/derived.h),
 *     3. in a file of PyTorch's TorchScript exporter: its name is one of the module's state, whatever its rank, since
 * constants are Constant nodes there; or it is numbered by the exporter ("onnx::MatMul_7") and has a dimension,
 *     4. elsewhere: it has a dimension, tf2onnx's name of a variable, or is the slope of a PRelu. Other scalars are
 * epsilons, scales, exponents,
 *     5. without a mark: neither its name nor its contents nor its reader says that it is a constant
 * (graph/passes/trainable/constants.h).
 *
 * A scale of quantization trains where the config asks for it (ztrain.qat.scales). */
#include "graph/passes/trainable/trainable.h"

#include "graph/passes/lower.h"
#include "graph/passes/trainable/constants.h"
#include "graph/passes/trainable/torch.h"

#include "graph/ir/op.h"

#include <stdlib.h>
#include <string.h>

/* ---- the differentiable path ---- */

/* State of the walk for a value. */
struct path {
    int through;  /* node through which its gradient comes, -1: none does */
    int reader;   /* a node that reads it, -1: none does */
    int blocked;  /* the first node on the way to the loss that has no gradient, -1: none, or a detach() */
    bool stopped; /* that reader takes no gradient through this input (an index, a shape, a statistic) */
    bool scale;   /* a node reads it as a scale of quantization */
};

static bool stops_gradient(const struct zt_node *n, int in) {
    return n->op && in < 32 && (n->op->no_grad_in | n->op->statistic_in) >> in & 1;
}

/* A node with subgraphs counts as differentiable in all its inputs, since it is not expanded yet. */
static bool has_gradient(const struct zt_op *op) {
    return op && zt_op_has_gradient(op);
}

static bool is_integer(const struct zt_value *v) {
    return v->dtype != ZT_UNDEFINED && !zt_dtype_in(v->dtype, ZT_ANY_FLOAT);
}

/* For each input of a node whether its subgraphs, where they capture it, read it; the caller frees. NULL: all do. */
static bool *read_inputs(const struct zt_node *n) {
    if (!n->captured)
        return NULL;
    bool *reads = zt_malloc((size_t)n->in_count * sizeof *reads);
    int in = n->in_count - n->captured;
    memset(reads, true, (size_t)n->in_count * sizeof *reads);
    for (int i = 0; i < n->attr_count; i++) {
        const struct zt_graph *body = n->attr[i].graph;
        bool *read = body ? zt_graph_read(body) : NULL;
        for (int k = 0; body && k < body->output_count; k++)
            read[body->outputs[k]] = true;
        for (int k = 0; body && k < body->captured_count && in < n->in_count; k++, in++)
            reads[in] = read[body->captured[k]];
        free(read);
    }
    return reads;
}

/* The node at which input `in` of a node loses its gradient, where the loss needs the node. */
static int blocked_at(const struct zt_graph *g, int node, int in, const struct path *paths) {
    static const char *const by_intent[] = { "Shape", "Size", NULL };
    const struct zt_node *n = g->nodes[node];
    int behind = -1;
    bool needed = false;
    for (int i = 0; i < n->out_count; i++) {
        const struct path *p = n->out[i] >= 0 ? &paths[n->out[i]] : NULL;
        needed |= p && (p->through >= 0 || p->blocked >= 0);
        behind = p && p->blocked >= 0 ? p->blocked : behind;
    }
    if (!needed || zt_node_is_any(n, by_intent) || strcmp(n->op_type, "Detach") == 0)
        return -1;
    return has_gradient(n->op) && !stops_gradient(n, in) ? behind : node;
}

static void walk_node(const struct zt_graph *g, int node, struct path *paths) {
    const struct zt_node *n = g->nodes[node];
    bool *reads = read_inputs(n), reached = false;
    for (int i = 0; i < n->out_count; i++)
        reached |= n->out[i] >= 0 && paths[n->out[i]].through >= 0 && !is_integer(g->values[n->out[i]]);
    for (int i = 0; i < n->in_count; i++) {
        if (n->in[i] < 0 || (reads && !reads[i]))
            continue;
        struct path *p = &paths[n->in[i]];
        if (reached && has_gradient(n->op) && !stops_gradient(n, i))
            p->through = node;
        p->reader = node;
        p->blocked = p->blocked >= 0 ? p->blocked : blocked_at(g, node, i, paths);
        p->stopped = stops_gradient(n, i);
        p->scale |= n->op && i < 32 && n->op->scale_in >> i & 1;
    }
    free(reads);
}

/* From the loss (or the graph's outputs) back over the nodes; a root counts as reached through a node that does not
 * exist. */
static struct path *walk(const struct zt_graph *g, int loss) {
    struct path *paths = zt_malloc(((size_t)g->value_count + 1) * sizeof *paths);
    for (int i = 0; i < g->value_count; i++)
        paths[i] = (struct path){ -1, -1, -1, false, false };
    for (int i = 0; loss < 0 && i < g->output_count; i++)
        paths[g->outputs[i]].through = g->node_count;
    if (loss >= 0)
        paths[loss].through = g->node_count;
    for (int n = g->node_count - 1; n >= 0; n--)
        if (!g->nodes[n]->dead)
            walk_node(g, n, paths);
    return paths;
}

/* ---- trainable or not, and the reason ---- */

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

static bool has_bodies(const struct zt_graph *g) {
    for (int n = 0; n < g->node_count; n++)
        for (int i = 0; i < g->nodes[n]->attr_count && !g->nodes[n]->dead; i++)
            if (g->nodes[n]->attr[i].graph)
                return true;
    return false;
}

struct zt_graph *zt_trainable_opened(const struct zt_graph *g) {
    enum { MOST = 1 << 11 }; /* small files that stand for large graphs are to be refused at once */
    struct zt_err none = { 0 };
    if (!g->table || !has_bodies(g))
        return NULL;
    struct zt_graph *to = zt_graph_clone_in(g->arena, g);
    bool ok = zt_pass_open_bodies(to, g->table, g->node_count + MOST, &none);
    for (int n = 0; ok && n < to->node_count; n++) {
        for (int i = 0; i < to->nodes[n]->attr_count; i++)
            to->nodes[n]->dead |= to->nodes[n]->attr[i].graph != NULL;
        if (n >= g->node_count)
            zt_op_resolve(g->table, to, n, &none); /* one without a row has a reason when it runs */
    }
    for (int v = g->value_count; ok && v < to->value_count; v++)
        to->values[v]->reached = true; /* by a gradient of the loss or not: it is not looked for inside */
    if (ok && zt_graph_index(to, &none))
        return to;
    zt_graph_destroy(to);
    return NULL;
}

/* The exporter, as far as it decides whether a tensor trains. */
struct exporter {
    const struct zt_graph *readers; /* the graph with the nodes inside of its nodes */
    const struct zt_map *listed;    /* of the signature; NULL: the graph has none */
    enum zt_writer writer;
};

static bool is_folded_parameter(const struct zt_graph *g, const struct zt_value *v, const struct zt_map *listed,
                                const char **why) {
    struct zt_torch_folding f;
    zt_torch_read_folding(g->arena, v, listed, &f);
    const char *others = f.parameters > 1 ? zt_arena_printf(g->arena, " and %d more", f.parameters - 1) : "";
    *why = !f.parameter ? "folded from constants"
           : f.operation_count
               ? zt_arena_printf(g->arena, "computed from parameter %s%s (%s)", f.parameter, others, f.operations[0])
               : zt_arena_printf(g->arena, "folded from parameter %s%s", f.parameter, others);
    return f.parameter && !f.operation_count;
}

/* Points 2 to 5. */
static bool is_parameter(const struct zt_graph *g, const struct zt_value *v, const struct exporter *by,
                         const char **why) {
    if (by->listed && v->torch_kind) {
        *why = zt_arena_printf(g->arena, "marked %s by the exporter", v->torch_kind);
        return strcmp(v->torch_kind, "PARAMETER") == 0;
    }
    if (by->listed && v->torch_folded_from)
        return is_folded_parameter(g, v, by->listed, why);
    *why = zt_constant_reason(g, v, by->writer);
    if (*why)
        return false;
    const bool named = zt_writer_names_parameter(by->writer, v->name), slope = zt_constant_is_slope(g, v);
    *why = v->shape.rank > 0                             ? "float with a gradient and a dimension"
           : named && by->writer == ZT_WRITER_TENSORFLOW ? "named as a variable"
           : named ? "named as a parameter: this exporter keeps constants in Constant nodes"
           : slope ? "the slope of a PRelu"
                   : "a scalar: epsilon, scale or exponent";
    return v->shape.rank > 0 || named || slope;
}

/* Whether an initializer without path to the loss is a parameter. Masks, too, are float tensors behind which gradients
 * stop: without a list of parameters only weights of products count, and what the loss does not need. */
static bool is_unreached(const struct zt_graph *g, const struct zt_value *v, const struct path *p,
                         const struct exporter *by) {
    const char *form;
    const bool product = p->reader >= 0 && g->nodes[p->reader]->op && g->nodes[p->reader]->op->flops;
    return p->through < 0 && !p->stopped && (by->listed || p->reader < 0 || product) &&
           is_parameter(by->readers, v, by, &form);
}

static bool is_trainable(const struct zt_graph *g, struct zt_value *v, const struct path *p, const struct exporter *by,
                         const char **why) {
    v->may_train = v->unreached = v->scale = false;
    v->blocked_at = NULL;
    if (!zt_dtype_in(v->dtype, ZT_ANY_FLOAT)) {
        *why = zt_arena_printf(g->arena, "of type %s", zt_dtype_name(v->dtype));
        return false;
    }
    if (p->through < 0 || p->through == g->node_count) {
        *why = why_unreached(g, p);
        v->unreached = is_unreached(g, v, p, by);
        v->blocked_at = v->unreached && p->blocked >= 0 ? g->nodes[p->blocked]->name : NULL;
        return false;
    }
    v->may_train = true;
    v->scale = p->scale;
    if (v->scale) {
        *why = "a scale of quantization: ztrain.qat.scales \"learn\" trains it";
        return false;
    }
    return is_parameter(by->readers, v, by, why);
}

void zt_pass_trainable(struct zt_graph *g, const struct zt_onnx *model, int loss) {
    struct zt_map listed = { 0 };
    struct path *paths = walk(g, loss);
    const bool has_signature = model && model->torch_signature;
    struct zt_graph *opened = zt_trainable_opened(g);
    const struct exporter by = { .readers = opened ? opened : g,
                                 .listed = has_signature ? &listed : NULL,
                                 .writer = zt_writer_of(model) };
    if (has_signature)
        zt_torch_read_signature(g->arena, model->torch_signature, &listed);
    for (int i = 0; i < g->value_count; i++) {
        g->values[i]->reached = paths[i].through >= 0;
        if (g->values[i]->origin == ZT_FROM_INITIALIZER)
            g->values[i]->trainable = is_trainable(g, g->values[i], &paths[i], &by, &g->values[i]->why);
    }
    zt_map_finish(&listed);
    zt_graph_destroy(opened);
    free(paths);
}

/* ---- merged tensors ---- */

static bool is_copy(const struct zt_op *op, const struct zt_node *n) {
    return op && zt_op_copies(op) && n->in_count == 1 && n->out_count == 1 && n->in[0] >= 0 && n->out[0] >= 0;
}

/* Makes the output of the copy an initializer of its own. */
static void split(struct zt_graph *g, struct zt_node *n) {
    zt_value_copy(g->values[n->out[0]], g->values[n->in[0]]);
    g->values[n->out[0]]->producer = -1;
    n->dead = true;
}

/* Makes the readers of copies read what was copied. */
static void read_through(struct zt_graph *g, const int *copied) {
    for (int i = 0; i < g->node_count; i++)
        for (int k = 0; k < g->nodes[i]->in_count; k++)
            if (g->nodes[i]->in[k] >= 0)
                g->nodes[i]->in[k] = copied[g->nodes[i]->in[k]];
}

void zt_pass_split_aliases(struct zt_graph *g, const struct zt_op_table *table, const struct zt_onnx *model) {
    const bool script = zt_torch_is_script(model);
    int *copied = zt_malloc(((size_t)g->value_count + 1) * sizeof *copied);
    bool any = false;
    for (int i = 0; i < g->value_count; i++)
        copied[i] = i;
    for (int i = 0; i < g->node_count; i++) {
        struct zt_node *n = g->nodes[i];
        if (n->dead || !is_copy(zt_op_of(table, n), n) || g->values[copied[n->in[0]]]->origin != ZT_FROM_INITIALIZER)
            continue;
        if (script)
            split(g, n);
        else
            copied[n->out[0]] = copied[n->in[0]];
        any = true;
    }
    struct zt_err none = { 0 };
    if (any && script)
        zt_graph_sort(g, &none); /* a graph stays sorted when nodes go and nothing new is read */
    else if (any)
        read_through(g, copied);
    free(copied);
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
    return zt_torch_parameters(model->graph->arena, model->torch_signature, names);
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
        for (const char *name; (name = zt_torch_next_source(arena, &list));)
            zt_map_put(&held, name, 1);
    }
    for (int i = 0; i < listed; i++)
        if (!zt_map_get(&held, (*names)[i], 0))
            (*names)[count++] = (*names)[i];
    zt_map_finish(&held);
    return count ? zt_trainable_drop_unread(model, *names, count) : 0;
}
