/* A weight beside a product of low rank, y = x W + s (x A) B or y = x (W + s A B), as LoRA adapts a weight. A and B
 * have fewer elements than W, and nothing bends between them, so that whoever trains W has no use for them: W has
 * requires_grad=False there, which no file says. */
#include "graph/passes/trainable/trainable.h"

#include "graph/ir/op.h"

static const struct zt_node *producer_of(const struct zt_graph *g, int value) {
    const int producer = value >= 0 ? g->values[value]->producer : -1;
    return producer >= 0 ? g->nodes[producer] : NULL;
}

/* Whether the value is a constant, which scales. */
static bool is_factor(const struct zt_graph *g, int value) {
    const struct zt_node *cast = producer_of(g, value);
    const int at = zt_node_is(cast, "Cast") ? cast->in[0] : value;
    const struct zt_value *v = at >= 0 ? g->values[at] : NULL;
    return v && (zt_node_is(producer_of(g, at), "Constant") || (v->origin == ZT_FROM_INITIALIZER && !v->trainable));
}

/* The value before nodes that scale it by a constant, cast it or drop elements. */
static int unscaled(const struct zt_graph *g, int value) {
    static const char *const plain[] = { "Identity", "Cast", "Dropout", NULL };
    for (const struct zt_node *n; (n = producer_of(g, value));) {
        if (zt_node_is_any(n, plain) || ((zt_node_is(n, "Mul") || zt_node_is(n, "Div")) && is_factor(g, n->in[1])))
            value = n->in[0];
        else if (zt_node_is(n, "Mul") && is_factor(g, n->in[0]))
            value = n->in[1];
        else
            break;
    }
    return value;
}

/* The weight of a product, also where a node transposes it; NULL: none that trains. */
static const struct zt_value *weight_of(const struct zt_graph *g, const struct zt_node *n) {
    if (!n || !n->op || !zt_op_has_channels(n->op) || n->in_count < 2)
        return NULL;
    const struct zt_node *turn = producer_of(g, n->in[1]);
    const int at = zt_node_is(turn, "Transpose") ? turn->in[0] : n->in[1];
    const struct zt_value *v = at >= 0 ? g->values[at] : NULL;
    return v && v->origin == ZT_FROM_INITIALIZER && v->trainable ? v : NULL;
}

static bool has_bias(const struct zt_node *n) {
    return n->in_count > 2 && n->in[2] >= 0;
}

/* Whether the value is s (x A) B, without biases, of fewer elements than `most`. */
static bool is_low_rank(const struct zt_graph *g, int value, int x, int64_t most) {
    const struct zt_node *last = producer_of(g, unscaled(g, value));
    const struct zt_value *b = weight_of(g, last);
    if (!b || has_bias(last))
        return false;
    const struct zt_node *first = producer_of(g, unscaled(g, last->in[0]));
    const struct zt_value *a = weight_of(g, first);
    return a && !has_bias(first) && unscaled(g, first->in[0]) == x &&
           zt_shape_count(&a->shape) + zt_shape_count(&b->shape) < most;
}

/* The only reader of a value; NULL: there are none or several. */
static const struct zt_node *only_reader(const struct zt_graph *g, int value) {
    int reader = -1;
    return zt_graph_users(g, value, &reader) == 1 ? g->nodes[reader] : NULL;
}

/* The initializer that trains, also where nodes scale or transpose it; NULL: it is none. */
static const struct zt_value *factor_of(const struct zt_graph *g, int value) {
    const int from = unscaled(g, value);
    const struct zt_node *turn = producer_of(g, from);
    const int at = zt_node_is(turn, "Transpose") ? turn->in[0] : from;
    const struct zt_value *v = at >= 0 ? g->values[at] : NULL;
    return v && v->origin == ZT_FROM_INITIALIZER && v->trainable && v->shape.rank == 2 ? v : NULL;
}

/* Whether the value is s A B, of fewer elements than `most`. */
static bool is_formed(const struct zt_graph *g, int value, int64_t most) {
    const struct zt_node *product = producer_of(g, unscaled(g, value));
    const bool has = zt_node_is(product, "MatMul");
    const struct zt_value *a = has ? factor_of(g, product->in[0]) : NULL,
                          *b = has ? factor_of(g, product->in[1]) : NULL;
    return a && b && zt_shape_count(&a->shape) + zt_shape_count(&b->shape) < most;
}

bool zt_trainable_is_adapted(const struct zt_graph *g, const struct zt_value *v) {
    const struct zt_node *n = only_reader(g, v->id);
    if (zt_node_is(n, "Add") && v->shape.rank == 2)
        return is_formed(g, n->in[n->in[0] == v->id], zt_shape_count(&v->shape));
    n = zt_node_is(n, "Transpose") ? only_reader(g, n->out[0]) : n;
    if (weight_of(g, n) != v)
        return false;
    const int x = unscaled(g, n->in[0]);
    for (int sums = 0, y = n->out[0]; sums < 2; sums++) { /* of its bias, and of the product */
        const struct zt_node *sum = only_reader(g, y);
        if (!zt_node_is(sum, "Add"))
            return false;
        if (is_low_rank(g, sum->in[sum->in[0] == y], x, zt_shape_count(&v->shape)))
            return true;
        y = sum->out[0];
    }
    return false;
}
