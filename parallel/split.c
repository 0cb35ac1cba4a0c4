/* The forward nodes are grouped into layers (a node that reads a trainable parameter starts one), and the layers are
 * cut into `stages` contiguous ranges whose dearest is as cheap as possible (dynamic programming over cuts):
 *
 *     layers  fc1 relu | fc2 relu | fc3 loss        cost 10 | 6 | 2
 *     2 stages: {fc1} {fc2, fc3}: 10 and 8          (not {fc1, fc2} {fc3}: 16 and 2) */
#include "parallel/split.h"

#include "graph/op.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>

static bool starts_layer(const struct zt_graph *g, int node) {
    for (int i = 0; i < g->nodes[node].in_count; i++)
        if (zt_in(g, node, i) && zt_in(g, node, i)->trainable)
            return true;
    return false;
}

static double node_cost(const struct zt_graph *g, int node) {
    double bytes = 0;
    for (int i = 0; i < g->nodes[node].out_count; i++) {
        const struct zt_value *v = zt_out(g, node, i);
        bytes += v ? (double)zt_shape_count(&v->shape) * (double)zt_dtype_bytes(v->dtype) : 0;
    }
    return zt_op_flops(g, node) + bytes;
}

/* layer[n]: number of the layer of node n. A bias Add behind its MatMul reads a parameter too, but a layer of its own
 * is harmless. */
static int find_layers(const struct zt_graph *g, int *layer) {
    int count = 0;
    for (int n = 0; n < g->node_count; n++) {
        if (g->nodes[n].phase == ZT_FORWARD && starts_layer(g, n))
            count++;
        layer[n] = count > 0 ? count - 1 : 0;
    }
    return count;
}

/* first[s]: first layer of stage s. best[s][l]: cost of the dearest of s + 1 stages that hold layers 0..l. */
static void cut(const double *sum, int layers, int stages, int *first) {
    double *best = zt_malloc(sizeof *best * (size_t)stages * (size_t)layers);
    int *from = zt_malloc(sizeof *from * (size_t)stages * (size_t)layers);
    for (int s = 0; s < stages; s++) {
        for (int l = s; l < layers; l++) {
            best[s * layers + l] = s == 0 ? sum[l + 1] : 1e300;
            from[s * layers + l] = 0;
            /* the later the cut k, the cheaper stage s and the dearer those before: the best is where they cross, and
             * moves on with l */
            for (int k = s == 0 || l == s ? s : from[s * layers + l - 1]; s > 0 && k <= l; k++) {
                double own = sum[l + 1] - sum[k], before = best[(s - 1) * layers + k - 1];
                double worst = own > before ? own : before;
                if (worst < best[s * layers + l]) {
                    best[s * layers + l] = worst;
                    from[s * layers + l] = k;
                }
                if (before > own)
                    break;
            }
        }
    }
    for (int s = stages - 1, l = layers - 1; s >= 0; l = first[s] - 1, s--)
        first[s] = from[s * layers + l];
    free(from);
    free(best);
}

/* ---- what a layer weighs ---- */

static double weight_by_cost(const struct zt_graph *g, int node, const regex_t *type) {
    (void)type;
    return node_cost(g, node);
}

static double weight_by_flops(const struct zt_graph *g, int node, const regex_t *type) {
    (void)type;
    return zt_op_flops(g, node);
}

static double weight_by_parameters(const struct zt_graph *g, int node, const regex_t *type) {
    double elements = 0;
    (void)type;
    for (int i = 0; i < g->nodes[node].in_count; i++) {
        const struct zt_value *v = zt_in(g, node, i);
        elements += v && v->trainable ? (double)zt_shape_count(&v->shape) : 0;
    }
    return elements;
}

static double weight_by_layer(const struct zt_graph *g, int node, const regex_t *type) {
    (void)type;
    return starts_layer(g, node);
}

/* What Python's class name says is in the operator, the node's name or the parameters' names here. */
static double weight_by_type(const struct zt_graph *g, int node, const regex_t *type) {
    const struct zt_node *n = &g->nodes[node];
    bool fits = regexec(type, n->op_type, 0, NULL, 0) == 0 || regexec(type, n->name, 0, NULL, 0) == 0;
    for (int i = 0; i < n->in_count && !fits; i++)
        fits = zt_in(g, node, i) && zt_in(g, node, i)->trainable &&
               regexec(type, zt_in(g, node, i)->name, 0, NULL, 0) == 0;
    return fits && starts_layer(g, node);
}

static const struct method {
    const char *name; /* up to a colon */
    double (*weight)(const struct zt_graph *g, int node, const regex_t *type);
    bool even; /* by number of layers, the first stages get what is over (DeepSpeed's partition_uniform) */
} methods[] = {
    { .name = "best", .weight = weight_by_cost },
    { .name = "profile", .weight = weight_by_flops },
    { .name = "parameters", .weight = weight_by_parameters },
    { .name = "uniform", .weight = weight_by_layer, .even = true },
    { .name = "type:", .weight = weight_by_type },
};

static const struct method *find_method(const char *name) {
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        size_t length = strlen(methods[i].name);
        if (methods[i].name[length - 1] == ':' ? strncmp(methods[i].name, name, length) == 0
                                               : strcmp(methods[i].name, name) == 0)
            return &methods[i];
    }
    return NULL;
}

/* sum[l]: weight of the layers before l. */
static bool weigh(const struct zt_graph *g, const struct method *method, const char *name, const int *layer, int layers,
                  double *sum, struct zt_err *err) {
    regex_t type;
    const char *pattern = strchr(name, ':') ? strchr(name, ':') + 1 : "";
    int failed = regcomp(&type, pattern, REG_EXTENDED | REG_ICASE | REG_NOSUB);
    if (failed) {
        char why[128];
        regerror(failed, &type, why, sizeof why);
        return zt_fail(err, ZT_EXIT_CONFIG, "pipeline.partition: \"%s\": %s", name, why);
    }
    for (int n = 0; n < g->node_count; n++)
        sum[layer[n] + 1] += method->weight(g, n, &type);
    regfree(&type);
    for (int l = 0; l < layers; l++)
        sum[l + 1] += sum[l];
    return sum[layers] > 0 || layers == 0 ||
           zt_fail(err, ZT_EXIT_CONFIG, "pipeline.partition: \"%s\" fits no layer", name);
}

static void cut_evenly(int layers, int stages, int *first) {
    for (int s = 0; s <= stages; s++)
        first[s] = layers / stages * s + (s < layers % stages ? s : layers % stages);
}

/* ---- weights that several stages read ---- */

/* Nodes that depend on parameters alone (the Transpose of a tied embedding) stand where their result is read: the
 * weight is held there, and neither it nor its gradient travels as an activation. */
static void sink(struct zt_graph *g) {
    bool *from_params = zt_calloc((size_t)g->value_count + 1, sizeof *from_params);
    int *wanted = zt_malloc(((size_t)g->value_count + 1) * sizeof *wanted); /* lowest stage that reads it, -1: none */
    for (int v = 0; v < g->value_count; v++) {
        from_params[v] = g->values[v].trainable;
        wanted[v] = -1;
    }
    for (int n = 0; n < g->node_count; n++) {
        const struct zt_node *node = &g->nodes[n];
        bool all = node->in_count > 0 && !(node->op->flags & ZT_OP_RANDOM);
        for (int i = 0; i < node->in_count; i++)
            all &= node->in[i] < 0 || from_params[node->in[i]] ||
                   (g->values[node->in[i]].data && !g->values[node->in[i]].statistic);
        for (int i = 0; i < node->out_count; i++)
            if (node->out[i] >= 0)
                from_params[node->out[i]] = all;
    }
    for (int n = g->node_count - 1; n >= 0; n--) {
        struct zt_node *node = &g->nodes[n];
        int to = -1;
        for (int i = 0; i < node->out_count; i++) {
            int v = node->out[i];
            if (v >= 0 && from_params[v] && wanted[v] >= 0 && (to < 0 || wanted[v] < to))
                to = wanted[v];
        }
        node->stage = to >= 0 ? to : node->stage;
        for (int i = 0; i < node->in_count; i++)
            if (node->in[i] >= 0 && (wanted[node->in[i]] < 0 || node->stage < wanted[node->in[i]]))
                wanted[node->in[i]] = node->stage;
    }
    free(wanted);
    free(from_params);
}

/* The readers of `value` on `stage` read a copy of it. */
static void copy_for(struct zt_graph *g, int value, int stage) {
    struct zt_value of = g->values[value];
    int copy = zt_graph_add_value(g, zt_arena_printf(g->arena, "%s on stage %d", of.name, stage), of.dtype, &of.shape);
    const char *name = g->values[copy].name;
    g->values[copy] = of;
    g->values[copy].name = name;
    g->values[copy].copy_of = of.name;
    for (int n = 0; n < g->node_count; n++)
        for (int i = 0; g->nodes[n].stage == stage && i < g->nodes[n].in_count; i++)
            if (g->nodes[n].in[i] == value)
                g->nodes[n].in[i] = copy;
}

static bool hold_copies(struct zt_graph *g, int stages, struct zt_err *err) {
    int values = g->value_count;
    bool *reads = zt_calloc((size_t)(values + 1) * (size_t)stages, sizeof *reads), ok = true;
    for (int n = 0; n < g->node_count; n++)
        for (int i = 0; i < g->nodes[n].in_count; i++)
            if (g->nodes[n].in[i] >= 0)
                reads[g->nodes[n].in[i] * stages + g->nodes[n].stage] = true;
    for (int v = 0; ok && v < values; v++) {
        int home = -1;
        for (int s = 0; ok && s < stages && (g->values[v].trainable || g->values[v].statistic); s++) {
            if (!reads[v * stages + s])
                continue;
            if (home >= 0 && g->values[v].statistic)
                ok = zt_fail(err, ZT_EXIT_CONFIG,
                             "pipeline.stages: running statistic \"%s\" is used on stages %d and %d, and a statistic "
                             "cannot be held twice",
                             g->values[v].name, home, s);
            else if (home >= 0)
                copy_for(g, v, s);
            else
                home = s;
        }
    }
    free(reads);
    return ok && (g->value_count == values || zt_graph_index(g, err));
}

bool zt_split_choose(const struct zt_graph *g, const char *name, int stages, int *first, struct zt_err *err) {
    const struct method *method = find_method(name);
    if (!method)
        return zt_fail(err, ZT_EXIT_CONFIG, "pipeline.partition: \"%s\" is not known", name);
    int *layer = zt_calloc((size_t)g->node_count + 1, sizeof *layer);
    int layers = find_layers(g, layer);
    double *sum = zt_calloc((size_t)layers + 2, sizeof *sum);
    bool ok = stages == 1 || stages <= layers ||
              zt_fail(err, ZT_EXIT_CONFIG, "pipeline.stages = %d, but the model has only %d layers with parameters",
                      stages, layers);
    ok = ok && (stages == 1 || weigh(g, method, name, layer, layers, sum, err));
    first[0] = 0;
    first[stages] = layers;
    if (ok && stages > 1 && method->even)
        cut_evenly(layers, stages, first);
    else if (ok && stages > 1)
        cut(sum, layers, stages, first);
    free(sum);
    free(layer);
    return ok;
}

bool zt_split_apply(struct zt_graph *g, int stages, const int *first, struct zt_err *err) {
    int *layer = zt_calloc((size_t)g->node_count + 1, sizeof *layer);
    int layers = find_layers(g, layer);
    for (int n = 0; n < g->node_count; n++)
        for (int s = 1; s < stages; s++)
            if (layer[n] >= first[s])
                g->nodes[n].stage = s;
    free(layer);
    if (stages > 1 && layers != first[stages])
        return zt_fail(err, ZT_EXIT_MODEL,
                       "pipeline.stages: %d layers with parameters in one batch size or form, %d in another",
                       first[stages], layers);
    if (stages == 1)
        return true;
    sink(g);
    return hold_copies(g, stages, err);
}

bool zt_split_loss(struct zt_graph *g, int64_t rows, const int *inputs, int input_count, struct zt_err *err) {
    bool *of_loss = zt_calloc((size_t)g->value_count + 1, sizeof *of_loss), ok = true;
    for (int i = 0; i < input_count; i++)
        if (inputs[i] >= 0)
            of_loss[inputs[i]] = true;
    for (int n = 0; n < g->node_count; n++) {
        struct zt_node *node = &g->nodes[n];
        for (int i = 0; i < node->in_count; i++)
            if (node->in[i] >= 0 && of_loss[node->in[i]])
                node->stage = 1;
        for (int i = 0; i < node->out_count; i++)
            if (node->out[i] >= 0)
                of_loss[node->out[i]] = node->stage == 1;
    }
    for (int n = 0; ok && n < g->node_count; n++) {
        for (int i = 0; ok && g->nodes[n].stage == 1 && i < g->nodes[n].in_count; i++) {
            const struct zt_value *v = zt_in(g, n, i);
            bool crosses = v && v->producer >= 0 && g->nodes[v->producer].stage == 0;
            if (v && v->trainable)
                ok = zt_fail(err, ZT_EXIT_MODEL, "mode \"dp\": the loss reads parameter \"%s\"", v->name);
            else if (crosses && (v->shape.rank < 1 || v->shape.dim[0] != rows))
                ok =
                    zt_fail(err, ZT_EXIT_MODEL,
                            "mode \"dp\": the loss reads \"%s\", whose first axis is not the batch of %lld, so that it "
                            "cannot be gathered from replicas",
                            v->name, (long long)rows);
        }
    }
    free(of_loss);
    return ok;
}
