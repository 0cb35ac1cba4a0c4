/* The forward nodes in their order are cut into `stages` contiguous ranges. A node that reads a parameter or a running
 * statistic starts a layer; every stage contains the start of a layer. Stage bounds lie before any node where the
 * method balances cost, else before layers:
 *
 *     layers  conv1 relu pool | conv2 relu pool | fc loss        cost 6 1 4 | 8 1 1 | 2 1
 *     2 stages: {conv1 relu pool} {conv2 ...}: 11 and 13         ({conv1 relu} {pool conv2 ...}: 7 and 17)
 *
 * Of all bounds whose most expensive stage is within SLACK of the minimum, those with the smallest boundary tensors are
 * chosen. Dynamic programming over the bounds finds them for a given limit of a stage's cost; bisection finds the
 * limit. */
#include "parallel/partition/split.h"

#include "graph/ir/op.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

enum { HALVINGS = 64 }; /* of an interval of doubles, until no double lies between its ends */

static const double SLACK = 1.05;

/* ---- layers ---- */

/* The forward nodes of a graph, and where layers start. */
struct layers {
    const struct zt_graph *g;
    int *at;      /* by node: the node at whose place it runs */
    bool *starts; /* by node: a layer starts there */
    int count;
};

/* A node that depends on parameters alone (the Transpose of a tied embedding) belongs to the first reader of its
 * result: the stage of that reader holds the weight, and neither the weight nor its gradient is a boundary tensor. */
static void find_places(const struct zt_graph *g, int *at) {
    bool *from_params = zt_graph_from_params(g);
    int *reader = zt_malloc(((size_t)g->value_count + 1) * sizeof *reader); /* by value: where it is first read */
    for (int v = 0; v < g->value_count; v++)
        reader[v] = INT_MAX;
    for (int n = g->node_count - 1; n >= 0; n--) {
        const struct zt_node *node = g->nodes[n];
        int first = INT_MAX;
        for (int i = 0; i < node->out_count; i++)
            if (node->out[i] >= 0 && from_params[node->out[i]] && reader[node->out[i]] < first)
                first = reader[node->out[i]];
        at[n] = first < INT_MAX ? first : n;
        for (int i = 0; i < node->in_count; i++)
            if (node->in[i] >= 0 && at[n] < reader[node->in[i]])
                reader[node->in[i]] = at[n];
    }
    free(reader);
    free(from_params);
}

/* A bias Add after its MatMul reads a parameter too and starts a layer, which is harmless. */
static bool reads_weights(const struct zt_graph *g, int node) {
    for (int i = 0; i < g->nodes[node]->in_count; i++)
        if (zt_in(g, node, i) && (zt_in(g, node, i)->trainable || zt_in(g, node, i)->statistic))
            return true;
    return false;
}

static struct layers find_layers(const struct zt_graph *g) {
    struct layers l = { .g = g,
                        .at = zt_malloc(((size_t)g->node_count + 1) * sizeof *l.at),
                        .starts = zt_calloc((size_t)g->node_count + 1, sizeof *l.starts) };
    find_places(g, l.at);
    for (int n = 0; n < g->node_count; n++) {
        l.count += reads_weights(g, n) && !l.starts[l.at[n]];
        l.starts[l.at[n]] |= reads_weights(g, n);
    }
    return l;
}

static void free_layers(struct layers *l) {
    free(l->starts);
    free(l->at);
}

/* ---- the cost of a node ---- */

static double weight_by_cost(const struct zt_graph *g, int node, const regex_t *type) {
    double bytes = 0;
    (void)type;
    for (int i = 0; i < g->nodes[node]->out_count; i++)
        bytes += (double)zt_value_bytes(zt_out(g, node, i));
    return zt_op_work(g, node) + bytes;
}

static double weight_by_flops(const struct zt_graph *g, int node, const regex_t *type) {
    (void)type;
    return zt_op_work(g, node);
}

static double weight_by_parameters(const struct zt_graph *g, int node, const regex_t *type) {
    double elements = 0;
    (void)type;
    for (int i = 0; i < g->nodes[node]->in_count; i++) {
        const struct zt_value *v = zt_in(g, node, i);
        elements += v && v->trainable ? (double)zt_shape_count(&v->shape) : 0;
    }
    return elements;
}

static double weight_by_layer(const struct zt_graph *g, int node, const regex_t *type) {
    (void)type;
    return reads_weights(g, node);
}

/* DeepSpeed matches the Python class of a layer. ONNX has operator, node name and parameter names instead. */
static double weight_by_type(const struct zt_graph *g, int node, const regex_t *type) {
    const struct zt_node *n = g->nodes[node];
    bool fits = regexec(type, n->op_type, 0, NULL, 0) == 0 || regexec(type, n->name, 0, NULL, 0) == 0;
    for (int i = 0; i < n->in_count && !fits; i++)
        fits = zt_in(g, node, i) && zt_in(g, node, i)->trainable &&
               regexec(type, zt_in(g, node, i)->name, 0, NULL, 0) == 0;
    return fits && reads_weights(g, node);
}

static const struct method {
    const char *name; /* up to a colon */
    double (*weight)(const struct zt_graph *g, int node, const regex_t *type);
    bool anywhere; /* bounds before any node; else before layers */
    bool even;     /* by number of layers; the first stages get the remainder (DeepSpeed's partition_uniform) */
} methods[] = {
    { .name = "best", .weight = weight_by_cost, .anywhere = true },
    { .name = "profile", .weight = weight_by_flops, .anywhere = true },
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

/* ---- ranges between possible stage bounds ---- */

/* Arrays by range, [count + 1]; sums are of all ranges before it. */
struct ranges {
    int count;
    struct zt_stage_bounds *start;
    int *layers;    /* that start before it */
    double *weight; /* of the nodes before it */
    double *cross;  /* bytes of boundary tensors if a stage starts here */
};

/* By node: bytes of values computed before it that it or a later node reads. Free with free(). */
static double *find_boundary_bytes(const struct layers *l) {
    const struct zt_graph *g = l->g;
    double *cross = zt_calloc((size_t)g->node_count + 2, sizeof *cross);
    int *made = zt_malloc(((size_t)g->value_count + 1) * sizeof *made); /* by value: where it is computed, */
    int *last = zt_calloc((size_t)g->value_count + 1, sizeof *last);    /* and last read */
    for (int v = 0; v < g->value_count; v++)
        made[v] = g->values[v]->origin == ZT_FROM_INPUT ? 0 : INT_MAX;
    for (int n = 0; n < g->node_count; n++) {
        const struct zt_node *node = g->nodes[n];
        for (int i = 0; i < node->in_count; i++)
            if (node->in[i] >= 0 && l->at[n] > last[node->in[i]])
                last[node->in[i]] = l->at[n];
        for (int i = 0; i < node->out_count; i++)
            if (node->out[i] >= 0)
                made[node->out[i]] = l->at[n];
    }
    for (int v = 0; v < g->value_count; v++) {
        if (last[v] > made[v]) {
            cross[made[v] + 1] += (double)zt_value_bytes(g->values[v]);
            cross[last[v] + 1] -= (double)zt_value_bytes(g->values[v]);
        }
    }
    for (int n = 0; n < g->node_count; n++)
        cross[n + 1] += cross[n];
    free(last);
    free(made);
    return cross;
}

static struct ranges find_ranges(const struct layers *l, bool anywhere, const double *weight) {
    const struct zt_graph *g = l->g;
    size_t room = (size_t)g->node_count + 2;
    struct ranges s = { 0, zt_calloc(room, sizeof *s.start), zt_calloc(room, sizeof *s.layers),
                        zt_calloc(room, sizeof *s.weight), zt_calloc(room, sizeof *s.cross) };
    double *cross = find_boundary_bytes(l), sum = 0;
    struct zt_stage_bounds here = { -1, 0 };
    s.count = l->count > 0;
    for (int n = 0; n < g->node_count; n++) {
        int layers = here.layer + 1;
        if (l->at[n] == n)
            here = l->starts[n] ? (struct zt_stage_bounds){ layers, 0 }
                                : (struct zt_stage_bounds){ here.layer, here.nodes + 1 };
        if (l->at[n] == n && layers > 0 && (anywhere || l->starts[n])) {
            s.start[s.count] = here;
            s.layers[s.count] = layers;
            s.weight[s.count] = sum;
            s.cross[s.count++] = cross[n];
        }
        sum += weight[n];
    }
    s.layers[s.count] = l->count;
    s.weight[s.count] = sum;
    free(cross);
    return s;
}

static void free_ranges(struct ranges *s) {
    free(s->cross);
    free(s->weight);
    free(s->layers);
    free(s->start);
}

/* weight[n]: the cost of the nodes at the place of node n. */
static bool find_weights(const struct layers *l, const struct method *method, const char *name, double *weight,
                         struct zt_err *err) {
    regex_t type;
    const char *pattern = strchr(name, ':') ? strchr(name, ':') + 1 : "";
    int failed = regcomp(&type, pattern, REG_EXTENDED | REG_ICASE | REG_NOSUB);
    double sum = 0;
    if (failed) {
        char why[128];
        regerror(failed, &type, why, sizeof why);
        return zt_fail(err, ZT_EXIT_CONFIG, "pipeline.partition: \"%s\": %s", name, why);
    }
    for (int n = 0; n < l->g->node_count; n++) {
        double own = method->weight(l->g, n, &type);
        weight[l->at[n]] += own;
        sum += own;
    }
    regfree(&type);
    return sum > 0 || zt_fail(err, ZT_EXIT_CONFIG, "pipeline.partition: \"%s\" matches no layer", name);
}

/* ---- stage bounds ---- */

/* The minimum of the boundary bytes if no stage costs more than `limit`; INFINITY: impossible. first[s] becomes the
 * first range of stage s.
 *
 * least[s][i] is the minimum for ranges 0..i - 1 on s + 1 stages. The last of these stages begins at a range k for
 * which the cost of k..i - 1 is within the limit and fewer layers start before k than before i. Both ends of the
 * interval of such k move forward with i, so a monotonic queue gives its minimum. */
static double bounds_within(const struct ranges *p, int stages, double limit, int *first) {
    int width = p->count + 1;
    double *least = zt_malloc(sizeof *least * (size_t)stages * (size_t)width), total;
    int *from = zt_calloc((size_t)stages * (size_t)width, sizeof *from),
        *queue = zt_malloc(sizeof *queue * (size_t)width);
    for (int i = 0; i < width; i++)
        least[i] = p->layers[i] > 0 && p->weight[i] <= limit ? 0 : INFINITY;
    for (int s = 1; s < stages; s++) {
        const double *before = least + (s - 1) * width;
        int front = 0, back = 0, next = 1;
        for (int i = 0; i < width; i++) {
            for (; next < i && p->layers[next] < p->layers[i]; queue[back++] = next++)
                while (back > front &&
                       before[queue[back - 1]] + p->cross[queue[back - 1]] > before[next] + p->cross[next])
                    back--;
            while (front < back && p->weight[i] - p->weight[queue[front]] > limit)
                front++;
            bool any = front < back;
            least[s * width + i] = any ? before[queue[front]] + p->cross[queue[front]] : INFINITY;
            from[s * width + i] = any ? queue[front] : 0;
        }
    }
    total = least[stages * width - 1];
    for (int s = stages - 1, i = p->count; total < INFINITY && s >= 0; i = first[s], s--)
        first[s] = from[s * width + i];
    free(queue);
    free(from);
    free(least);
    return total;
}

/* The lowest limit of a stage's cost between `low` and `high` with at most `bytes` boundary bytes; `high` satisfies it.
 * `first` is overwritten. */
static double lowest_limit(const struct ranges *p, int stages, double low, double high, double bytes, int *first) {
    for (int i = 0; i < HALVINGS; i++) {
        double middle = low + (high - low) / 2;
        if (bounds_within(p, stages, middle, first) <= bytes)
            high = middle;
        else
            low = middle;
    }
    return high;
}

static void choose_balanced(const struct ranges *p, int stages, double slack, int *first) {
    double lowest = lowest_limit(p, stages, 0, p->weight[p->count], DBL_MAX, first);
    double bytes = bounds_within(p, stages, lowest * slack, first);
    if (slack > 1)
        bounds_within(p, stages, lowest_limit(p, stages, lowest, lowest * slack, bytes, first), first);
}

static void choose_evenly(int layers, int stages, int *first) {
    for (int s = 0; s < stages; s++)
        first[s] = layers / stages * s + (s < layers % stages ? s : layers % stages);
}

/* ---- parameters that several stages read ---- */

/* Nodes on `stage` that read `value` read a copy of it instead. */
static void copy_for(struct zt_graph *g, int value, int stage) {
    const struct zt_value *of = g->values[value];
    const char *name = zt_arena_printf(g->arena, "%s on stage %d", of->name, stage);
    const int copy = zt_graph_add_value(g, name, of->dtype, &of->shape);
    zt_value_copy(g->values[copy], of);
    g->values[copy]->copy_of = of->name;
    for (int n = 0; n < g->node_count; n++)
        for (int i = 0; g->nodes[n]->stage == stage && i < g->nodes[n]->in_count; i++)
            if (g->nodes[n]->in[i] == value)
                g->nodes[n]->in[i] = copy;
}

static bool hold_copies(struct zt_graph *g, int stages, struct zt_err *err) {
    int values = g->value_count;
    bool *reads = zt_calloc((size_t)(values + 1) * (size_t)stages, sizeof *reads), ok = true;
    for (int n = 0; n < g->node_count; n++)
        for (int i = 0; i < g->nodes[n]->in_count; i++)
            if (g->nodes[n]->in[i] >= 0)
                reads[g->nodes[n]->in[i] * stages + g->nodes[n]->stage] = true;
    for (int v = 0; ok && v < values; v++) {
        int home = -1;
        for (int s = 0; ok && s < stages && (g->values[v]->trainable || g->values[v]->statistic); s++) {
            if (!reads[v * stages + s])
                continue;
            if (home >= 0 && g->values[v]->statistic)
                ok = zt_fail(err, ZT_EXIT_CONFIG,
                             "pipeline.stages: running statistic \"%s\" is used on stages %d and %d; all "
                             "its uses must be on one stage",
                             g->values[v]->name, home, s);
            else if (home >= 0)
                copy_for(g, v, s);
            else
                home = s;
        }
    }
    free(reads);
    return ok && (g->value_count == values || zt_graph_index(g, err));
}

/* Chooses the bounds between the stages by the method's cost. */
static bool choose(const struct layers *l, const struct method *method, const char *name, int stages,
                   struct zt_stage_bounds *bounds, struct zt_err *err) {
    double *weight = zt_calloc((size_t)l->g->node_count + 1, sizeof *weight);
    bool ok = find_weights(l, method, name, weight, err);
    if (ok) {
        struct ranges p = find_ranges(l, method->anywhere, weight);
        int *first = zt_calloc((size_t)stages, sizeof *first);
        if (method->even)
            choose_evenly(p.count, stages, first);
        else
            choose_balanced(&p, stages, method->anywhere ? SLACK : 1, first);
        for (int s = 1; s < stages; s++)
            bounds[s] = p.start[first[s]];
        free(first);
        free_ranges(&p);
    }
    free(weight);
    return ok;
}

bool zt_split_choose(const struct zt_graph *g, const char *name, int stages, struct zt_stage_bounds *bounds,
                     struct zt_err *err) {
    const struct method *method = find_method(name);
    if (!method)
        return zt_fail(err, ZT_EXIT_CONFIG, "pipeline.partition: \"%s\" is not known", name);
    struct layers l = find_layers(g);
    bool ok = stages == 1 || stages <= l.count ||
              zt_fail(err, ZT_EXIT_CONFIG, "pipeline.stages = %d, but the model has only %d layers with parameters",
                      stages, l.count);
    bounds[0] = (struct zt_stage_bounds){ 0, 0 };
    bounds[stages] = (struct zt_stage_bounds){ l.count, 0 };
    ok = ok && (stages == 1 || choose(&l, method, name, stages, bounds, err));
    free_layers(&l);
    return ok;
}

static bool is_behind(const struct zt_stage_bounds *here, const struct zt_stage_bounds *bound) {
    return here->layer > bound->layer || (here->layer == bound->layer && here->nodes >= bound->nodes);
}

static void set_stages(struct zt_graph *g, const struct layers *l, int stages, const struct zt_stage_bounds *bounds) {
    struct zt_stage_bounds here = { -1, 0 };
    int stage = 0;
    for (int n = 0; n < g->node_count; n++) {
        if (l->at[n] != n)
            continue;
        here = l->starts[n] ? (struct zt_stage_bounds){ here.layer + 1, 0 }
                            : (struct zt_stage_bounds){ here.layer, here.nodes + 1 };
        while (stage < stages - 1 && is_behind(&here, &bounds[stage + 1]))
            stage++;
        g->nodes[n]->stage = stage;
    }
    for (int n = 0; n < g->node_count; n++)
        g->nodes[n]->stage = g->nodes[l->at[n]]->stage;
}

bool zt_split_apply(struct zt_graph *g, int stages, const struct zt_stage_bounds *bounds, struct zt_err *err) {
    if (stages == 1)
        return true;
    struct layers l = find_layers(g);
    bool alike = l.count == bounds[stages].layer ||
                 zt_fail(err, ZT_EXIT_MODEL,
                         "pipeline.stages: %d layers with parameters for one batch size or graph, %d for another",
                         bounds[stages].layer, l.count);
    if (alike)
        set_stages(g, &l, stages, bounds);
    free_layers(&l);
    return alike && hold_copies(g, stages, err);
}

const char **zt_split_layers(const struct zt_graph *g, struct zt_arena *arena) {
    struct layers l = find_layers(g);
    const char **names = ZT_NEW_N(arena, const char *, l.count + 1);
    for (int n = 0, layer = 0; n < g->node_count; n++)
        if (l.starts[n])
            names[layer++] = g->nodes[n]->name && g->nodes[n]->name[0] ? g->nodes[n]->name : g->nodes[n]->op_type;
    free_layers(&l);
    return names;
}

bool zt_split_loss(struct zt_graph *g, int64_t rows, const int *inputs, int input_count, struct zt_err *err) {
    bool *of_loss = zt_calloc((size_t)g->value_count + 1, sizeof *of_loss), ok = true;
    for (int i = 0; i < input_count; i++)
        if (inputs[i] >= 0)
            of_loss[inputs[i]] = true;
    for (int n = 0; n < g->node_count; n++) {
        struct zt_node *node = g->nodes[n];
        for (int i = 0; i < node->in_count; i++)
            if (node->in[i] >= 0 && of_loss[node->in[i]])
                node->stage = 1;
        for (int i = 0; i < node->out_count; i++)
            if (node->out[i] >= 0)
                of_loss[node->out[i]] = node->stage == 1;
    }
    for (int n = 0; ok && n < g->node_count; n++) {
        for (int i = 0; ok && g->nodes[n]->stage == 1 && i < g->nodes[n]->in_count; i++) {
            const struct zt_value *v = zt_in(g, n, i);
            bool crosses = v && v->producer >= 0 && g->nodes[v->producer]->stage == 0;
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
