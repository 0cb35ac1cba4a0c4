/* Statistics of normalizations that a file computes by plain operators, as Keras on JAX and TensorFlow write
 * BatchNormalization and Normalization:
 *
 *     (x - mean) / sqrt(variance + epsilon)      x f - mean f, f = scale / sqrt(variance + epsilon)
 *
 * A variance is read for its square root alone, behind which or before which a small number keeps a divisor from 0; a
 * mean is subtracted beside a factor made of such a root. */
#include "graph/ir/op.h"
#include "graph/passes/trainable/constants.h"
#include "graph/passes/trainable/trainable.h"

enum { MOST_NODES = 8 }; /* between a variance and what is multiplied by it */

/* The only node that reads *value, behind nodes that only move it, which *value becomes the input of; NULL: none or
 * several. */
static const struct zt_node *reader_behind(const struct zt_graph *g, int *value) {
    static const char *const moves[] = { "Reshape", "Squeeze", "Unsqueeze", "Identity", "Cast", "Expand", NULL };
    for (int steps = 0; steps < MOST_NODES; steps++) {
        int reader = -1;
        if (zt_graph_users(g, *value, &reader) != 1)
            return NULL;
        const struct zt_node *n = g->nodes[reader];
        if (!zt_node_is_any(n, moves) || n->in[0] != *value)
            return n;
        *value = n->out[0];
    }
    return NULL;
}

static const struct zt_node *producer_of(const struct zt_graph *g, int value) {
    return value >= 0 && g->values[value]->producer >= 0 ? g->nodes[g->values[value]->producer] : NULL;
}

static bool is_negative(const struct zt_value *v) {
    const int64_t count = zt_shape_count(&v->shape);
    for (int64_t i = 0; i < count; i++)
        if (!(zt_constant_at(v, i) >= 0))
            return true;
    return false;
}

static bool is_one_number(const struct zt_graph *g, int value) {
    return value >= 0 && g->values[value]->shape.rank >= 0 && zt_shape_count(&g->values[value]->shape) == 1;
}

/* Whether the node adds one number to `value` or bounds it by one. */
static bool is_kept_from_zero(const struct zt_graph *g, const struct zt_node *n, int value) {
    static const char *const bounds[] = { "Add", "Max", NULL };
    return zt_node_is_any(n, bounds) && n->in_count == 2 && is_one_number(g, n->in[n->in[0] == value]);
}

/* Whether the value's readers are those of a variance. */
static bool is_rooted(const struct zt_graph *g, const struct zt_value *v) {
    int value = v->id;
    if (v->origin != ZT_FROM_INITIALIZER || v->shape.rank == 0)
        return false;
    const struct zt_node *n = reader_behind(g, &value);
    if (is_kept_from_zero(g, n, value)) {
        value = n->out[0];
        return zt_node_is(reader_behind(g, &value), "Sqrt");
    }
    if (!zt_node_is(n, "Sqrt"))
        return false;
    value = n->out[0];
    return is_kept_from_zero(g, reader_behind(g, &value), value);
}

static bool is_variance(const struct zt_graph *g, const struct zt_value *v) {
    return is_rooted(g, v) && v->data && !is_negative(v); /* contents last: they are read from the file */
}

/* The value with a variance's readers of which `value` is made within `depth` nodes; -1: none. */
static int variance_of(const struct zt_graph *g, int value, int depth) {
    static const char *const parts[] = { "Reshape", "Squeeze",    "Unsqueeze", "Identity", "Cast", "Expand", "Add",
                                         "Sqrt",    "Reciprocal", "Div",       "Mul",      "Max",  NULL };
    const struct zt_node *n = producer_of(g, value);
    int found = value >= 0 && is_rooted(g, g->values[value]) ? value : -1;
    for (int i = 0; found < 0 && depth > 0 && zt_node_is_any(n, parts) && n->in_count <= 2 && i < n->in_count; i++)
        found = variance_of(g, n->in[i], depth - 1);
    return found;
}

/* Whether the node multiplies or divides `value` by something made of a variance. */
static bool is_scaled(const struct zt_graph *g, const struct zt_node *n, int value) {
    const bool divides = zt_node_is(n, "Div");
    if ((!divides && !zt_node_is(n, "Mul")) || n->in_count != 2 || (divides && n->in[0] != value))
        return false;
    const int variance = variance_of(g, n->in[n->in[0] == value], MOST_NODES);
    return variance >= 0 && is_variance(g, g->values[variance]);
}

static bool is_mean(const struct zt_graph *g, const struct zt_value *v) {
    int value = v->id;
    if (v->origin != ZT_FROM_INITIALIZER || v->shape.rank == 0)
        return false;
    const struct zt_node *n = reader_behind(g, &value);
    if (zt_node_is(n, "Neg") || (zt_node_is(n, "Sub") && n->in[1] == value)) {
        value = n->out[0];
        return is_scaled(g, reader_behind(g, &value), value);
    }
    if (!n || !is_scaled(g, n, value))
        return false;
    value = n->out[0];
    n = reader_behind(g, &value);
    return zt_node_is(n, "Sub") && n->in[1] == value;
}

const char *zt_trainable_statistic(const struct zt_graph *g, const struct zt_value *v) {
    return is_variance(g, v) ? "variance of a normalization" : is_mean(g, v) ? "mean of a normalization" : NULL;
}
