#include "graph/passes/low_rank/low_rank.h"

#include <string.h>

/* ---- emitting ---- */

int zt_low_rank_emit(struct zt_low_rank *l, const struct zt_low_rank_node *spec) {
    struct zt_graph *g = l->g;
    for (int i = 0; i < spec->in_count; i++)
        if (spec->in[i] < 0)
            return -1;
    const int out = zt_graph_add_value(g, NULL, ZT_UNDEFINED, NULL);
    const char *name = zt_arena_printf(g->arena, "%s.%s", l->name, spec->part);
    const int node = zt_graph_add_node(
        g, &(struct zt_node_spec){ name, spec->op_type, "", ZT_OPSET, spec->in, spec->in_count, &out, 1 });
    g->nodes[node]->place = g->nodes[l->node]->place;
    for (int i = 0; i < spec->attr_count; i++)
        zt_node_set_attr(g, node, &spec->attrs[i]);
    return zt_op_resolve(l->table, g, node, l->err) && zt_op_infer(g, node, l->err) ? out : -1;
}

int zt_low_rank_scale(struct zt_low_rank *l, int value) {
    if (l->scale == 1 || value < 0)
        return value;
    const int in[2] = { value, zt_graph_add_float(l->g, NULL, l->g->values[value]->dtype, l->scale) };
    return zt_low_rank_emit(l, &(struct zt_low_rank_node){ "lora_scale", "Mul", in, 2, NULL, 0 });
}

static int transpose(struct zt_low_rank *l, int value, const char *part) {
    return zt_low_rank_emit(l, &(struct zt_low_rank_node){ part, "Transpose", &value, 1, NULL, 0 });
}

/* Dropout is in training mode here; zt_pass_train() gives it its form. */
static int drop(struct zt_low_rank *l, int x, double ratio) {
    if (ratio <= 0)
        return x;
    const bool training = true;
    const int in[3] = { x, zt_graph_add_float(l->g, NULL, ZT_FLOAT, ratio),
                        zt_graph_add_constant(l->g, NULL, ZT_BOOL, &(struct zt_shape){ 0 }, &training) };
    return zt_low_rank_emit(l, &(struct zt_low_rank_node){ "lora_dropout", "Dropout", in, 3, NULL, 0 });
}

/* ---- one reader ---- */

/* The change of the stored matrix is B A, or A^T B^T where it is stored as [in, out]. A node that reads the transpose
 * of the stored matrix sees the transposed factors in the opposite order. */
static void find_factors(struct zt_low_rank *l, const struct zt_adapter *a, bool read_transposed, const int *ab) {
    const bool swapped = a->transposed != read_transposed;
    l->p = swapped ? transpose(l, ab[0], "lora_A_transposed") : ab[1];
    l->q = swapped ? transpose(l, ab[1], "lora_B_transposed") : ab[0];
}

/* Output 0 of the node becomes a new value, to which the second path is added. */
static bool add_path(struct zt_low_rank *l, int change) {
    struct zt_graph *g = l->g;
    struct zt_node *n = g->nodes[l->node];
    const int out = n->out[0];
    const struct zt_value *v = g->values[out];
    if (change < 0)
        return false;
    const struct zt_shape shape = v->shape;
    const int plain = zt_graph_add_value(g, zt_arena_printf(g->arena, "%s without adapter", v->name), v->dtype, &shape);
    const int in[2] = { plain, change };
    n->out[0] = plain;
    const int add = zt_graph_add_node(g, &(struct zt_node_spec){ zt_arena_printf(g->arena, "%s.lora", n->name), "Add",
                                                                 "", ZT_OPSET, in, 2, &out, 1 });
    g->nodes[add]->place = n->place;
    return zt_op_resolve(l->table, g, add, l->err) && zt_op_infer(g, add, l->err);
}

static bool adapt_reader(struct zt_low_rank *l, const struct zt_adapter *a, const struct zt_weight_reader *r,
                         const int *ab) {
    const struct zt_node *n = l->g->nodes[r->node];
    const struct zt_low_rank_row *row = n->op->low_rank;
    l->node = r->node;
    l->name = n->name;
    l->in = r->in;
    l->scale = a->scale; /* rows change it */
    l->x = drop(l, n->in[r->in == 0], a->dropout);
    if (row->windows) {
        l->p = ab[1];
        l->q = ab[0];
    } else {
        find_factors(l, a, r->transposed, ab);
    }
    return add_path(l, row->emit(l));
}

/* ---- the adapter ---- */

static int add_factor(struct zt_graph *g, const struct zt_adapter *a, int which) {
    const int id = zt_graph_add_value(g, a->name[which], ZT_FLOAT, &a->shape[which]);
    struct zt_value *v = g->values[id];
    v->origin = ZT_FROM_INITIALIZER;
    v->data = a->initial[which];
    v->may_train = true;
    v->trainable = a->train[which];
    v->why = zt_arena_printf(g->arena, "adapter of %s", a->weight);
    return id;
}

/* Appends A and B to the inputs of a node that runs a graph, and to those of the graph; in_body: there. */
static void share_factors(struct zt_graph *g, struct zt_node *n, struct zt_graph *body, const int *ab, int *in_body) {
    int *in = ZT_NEW_N(g->arena, int, n->in_count + 2), *inputs = ZT_NEW_N(g->arena, int, body->input_count + 2);
    memcpy(in, n->in, (size_t)n->in_count * sizeof *in);
    memcpy(inputs, body->inputs, (size_t)body->input_count * sizeof *inputs);
    for (int i = 0; i < 2; i++) {
        const struct zt_value *v = g->values[ab[i]];
        const struct zt_shape shape = v->shape;
        in_body[i] = zt_graph_add_value(body, v->name, v->dtype, &shape);
        body->values[in_body[i]]->origin = ZT_FROM_INPUT;
        in[n->in_count + i] = ab[i];
        inputs[body->input_count + i] = in_body[i];
    }
    n->in = in;
    n->in_count += 2;
    body->inputs = inputs;
    body->input_count += 2;
}

static int adapt(struct zt_low_rank *l, const struct zt_adapter *a, const struct zt_weight_seen *seen, const int *ab);

/* The graph of a door is shared and constant: the node gets a changed copy. */
static int adapt_body(struct zt_low_rank *l, const struct zt_adapter *a, const struct zt_weight_door *door,
                      const struct zt_weight_seen *seen, const int *ab) {
    struct zt_graph *g = l->g;
    struct zt_node *n = g->nodes[door->node];
    const struct zt_low_rank_body *row = n->op->low_rank->body;
    const struct zt_graph *old = zt_node_attr(n, row->attr)->graph;
    if (a->dropout > 0) {
        zt_node_fail(g, door->node, l->err,
                     "reads \"%s\" in a loop that runs as a loop: ztrain.lora.dropout draws other numbers in each "
                     "iteration, which such a loop cannot",
                     a->weight);
        return -1;
    }
    struct zt_graph *body = zt_graph_clone_in(g->arena, old);
    int in_body[2];
    share_factors(g, n, body, ab, in_body);
    const struct zt_weight_seen inside = { body->inputs[door->in + row->before], door->transposed, seen->windows };
    l->g = body;
    const int count = adapt(l, a, &inside, in_body);
    const bool ok = count >= 0 && zt_graph_sort(body, l->err);
    l->g = g;
    zt_graph_settle(body);
    zt_node_set_attr(g, door->node, &(struct zt_attr){ .name = row->attr, .type = ZT_ATTR_GRAPH, .graph = body });
    return ok && zt_op_infer(g, door->node, l->err) ? count : -1;
}

/* Adds the second path at all readers of the value; returns their number, -1 on failure. */
static int adapt(struct zt_low_rank *l, const struct zt_adapter *a, const struct zt_weight_seen *seen, const int *ab) {
    struct zt_weight_readers readers;
    int count = 0;
    zt_weight_readers_of(l->g, seen, &readers);
    for (int i = 0; i < readers.count; i++) {
        if (readers.at[i].inside)
            continue;
        if (!adapt_reader(l, a, &readers.at[i], ab))
            return -1;
        count++;
    }
    for (int i = 0; i < readers.door_count; i++) {
        const int inside = adapt_body(l, a, &readers.doors[i], seen, ab);
        if (inside < 0)
            return -1;
        count += inside;
    }
    return count;
}

/* ---- the changed weight itself ---- */

/* The first node that reads a value; -1: none. */
static int first_reader(const struct zt_graph *g, int value) {
    for (int n = 0; n < g->node_count; n++)
        for (int i = 0; i < g->nodes[n]->in_count && !g->nodes[n]->dead; i++)
            if (g->nodes[n]->in[i] == value)
                return n;
    return -1;
}

/* A tensor of windows as a matrix [out, rest]. */
static int flat(struct zt_low_rank *l, int value, const char *part) {
    return l->g->values[value]->shape.rank == 2
               ? value
               : zt_low_rank_emit(l, &(struct zt_low_rank_node){ part, "Flatten", &value, 1, NULL, 0 });
}

static int add_sum(struct zt_low_rank *l, const struct zt_adapter *a, int weight, const int *ab) {
    const struct zt_shape shape = l->g->values[weight]->shape;
    const struct zt_attr attrs[] = { { .name = "alpha", .type = ZT_ATTR_FLOAT, .f = (float)a->scale },
                                     { .name = "transA", .type = ZT_ATTR_INT, .i = a->transposed },
                                     { .name = "transB", .type = ZT_ATTR_INT, .i = a->transposed } };
    const int A = flat(l, ab[0], "lora_A"), B = flat(l, ab[1], "lora_B"), w = flat(l, weight, "lora_weight");
    const int in[3] = { a->transposed ? A : B, a->transposed ? B : A, w };
    const int sum = zt_low_rank_emit(l, &(struct zt_low_rank_node){ "lora", "Gemm", in, 3, attrs, 3 });
    if (shape.rank == 2 || sum < 0)
        return sum;
    const int back[2] = { sum, zt_graph_add_ints(l->g, NULL, shape.dim, shape.rank) };
    return zt_low_rank_emit(l, &(struct zt_low_rank_node){ "lora_shape", "Reshape", back, 2, NULL, 0 });
}

/* All nodes read the sum instead of the weight; returns their number, -1 on failure. */
static int form(struct zt_low_rank *l, const struct zt_adapter *a, int weight, const int *ab) {
    struct zt_graph *g = l->g;
    const int before = g->node_count;
    int count = 0;
    l->node = first_reader(g, weight);
    l->name = a->weight;
    const int sum = add_sum(l, a, weight, ab);
    for (int n = before; n < g->node_count; n++)
        g->nodes[n]->full = true;
    for (int n = 0; n < before && sum >= 0; n++)
        for (int i = 0; i < g->nodes[n]->in_count; i++)
            if (g->nodes[n]->in[i] == weight) {
                g->nodes[n]->in[i] = sum;
                count++;
            }
    return sum < 0 ? -1 : count;
}

bool zt_pass_low_rank(struct zt_graph *g, const struct zt_op_table *table, const struct zt_adapter *a, int *count,
                      struct zt_err *err) {
    struct zt_weight_readers readers = { 0 };
    struct zt_low_rank l = { .g = g, .table = table, .err = err };
    const int weight = zt_graph_find(g, a->weight);
    if (a->formed)
        readers.count = first_reader(g, weight) >= 0;
    else
        zt_weight_readers_find(g, weight, &readers);
    *count = 0;
    if (!readers.count)
        return true;
    const int ab[2] = { add_factor(g, a, 0), add_factor(g, a, 1) };
    const struct zt_weight_seen seen = { .value = weight, .windows = g->values[weight]->shape.rank > 2 };
    *count = a->formed ? form(&l, a, weight, ab) : adapt(&l, a, &seen, ab);
    return *count >= 0 && zt_graph_sort(g, err);
}
