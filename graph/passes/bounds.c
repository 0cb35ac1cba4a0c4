#include "graph/passes/bounds.h"

#include "graph/ir/op.h"

#include <math.h>
#include <string.h>

enum {
    DEPTH = 32,
    VALUES = 4096,
    ELEMENTS = 4096
}; /* limits of the search: VALUES of a graph, each as often as read */

struct search {
    int depth, values; /* of the value that is looked at; that may still be */
};

typedef struct zt_bounds range;

static const range ANYTHING = { -INFINITY, INFINITY }, FLAG = { 0, 1 };

static range of_value(const struct zt_graph *g, int value, struct search *s);

static range of_input(const struct zt_graph *g, const struct zt_node *n, int i, struct search *s) {
    return i < n->in_count && n->in[i] >= 0 ? of_value(g, n->in[i], s) : ANYTHING;
}

static range of_contents(const struct zt_value *v) {
    const int64_t count = zt_shape_count(&v->shape);
    if (!v->data || count < 1 || count > ELEMENTS || !zt_dtype_in(v->dtype, ZT_ANY_TYPE))
        return ANYTHING;
    range r = { INFINITY, -INFINITY };
    for (int64_t i = 0; i < count; i++) {
        const double x = zt_load_double(v->dtype, v->data, i);
        r = (range){ fmin(r.low, x), fmax(r.high, x) };
    }
    return r;
}

/* What may be true, and must be. */
static range flag(bool may, bool must) {
    return (range){ must, may };
}

/* ---- nodes ---- */

static range first(const range *in, int count) {
    return count > 0 ? in[0] : ANYTHING;
}

static range either(const range *in, int count) {
    range r = first(in, count);
    for (int i = 1; i < count; i++)
        r = (range){ fmin(r.low, in[i].low), fmax(r.high, in[i].high) };
    return r;
}

static range smallest(const range *in, int count) {
    range r = first(in, count);
    for (int i = 1; i < count; i++)
        r = (range){ fmin(r.low, in[i].low), fmin(r.high, in[i].high) };
    return r;
}

static range largest(const range *in, int count) {
    range r = first(in, count);
    for (int i = 1; i < count; i++)
        r = (range){ fmax(r.low, in[i].low), fmax(r.high, in[i].high) };
    return r;
}

static range clipped(const range *in, int count) {
    range r = in[0];
    if (count > 1)
        r = (range){ fmax(r.low, in[1].low), fmax(r.high, in[1].low) };
    if (count > 2)
        r = (range){ fmin(r.low, in[2].high), fmin(r.high, in[2].high) };
    return r;
}

static range sum(const range *in, int count) {
    return count == 2 ? (range){ in[0].low + in[1].low, in[0].high + in[1].high } : ANYTHING;
}

static range difference(const range *in, int count) {
    return count == 2 ? (range){ in[0].low - in[1].high, in[0].high - in[1].low } : ANYTHING;
}

static range negated(const range *in, int count) {
    (void)count;
    return (range){ -in[0].high, -in[0].low };
}

static range fraction(const range *in, int count) {
    (void)in;
    (void)count;
    return FLAG;
}

static range less(const range *in, int count) {
    return count == 2 ? flag(in[0].low < in[1].high, in[0].high < in[1].low) : FLAG;
}

static range less_or_equal(const range *in, int count) {
    return count == 2 ? flag(in[0].low <= in[1].high, in[0].high <= in[1].low) : FLAG;
}

static range greater(const range *in, int count) {
    return count == 2 ? flag(in[0].high > in[1].low, in[0].low > in[1].high) : FLAG;
}

static range greater_or_equal(const range *in, int count) {
    return count == 2 ? flag(in[0].high >= in[1].low, in[0].low >= in[1].high) : FLAG;
}

static range equal(const range *in, int count) {
    const bool known = count == 2 && in[0].low == in[0].high && in[1].low == in[1].high;
    return count == 2 ? flag(in[0].low <= in[1].high && in[1].low <= in[0].high, known && in[0].low == in[1].low)
                      : FLAG;
}

static range not(const range *in, int count) {
    (void)count;
    return flag(in[0].low == 0, in[0].high == 0);
}

/* Rows whose range follows from those of their first `inputs` inputs (0: all). */
static const struct {
    const char *op;
    int inputs;
    range (*of)(const range *in, int count);
} rules[] = {
    { "Identity", 1, first },
    { "Squeeze", 1, first },
    { "Unsqueeze", 1, first },
    { "Reshape", 1, first },
    { "Flatten", 1, first },
    { "Transpose", 1, first },
    { "Expand", 1, first },
    { "Tile", 1, first },
    { "Gather", 1, first },
    { "Slice", 1, first },
    { "ReduceMax", 1, first },
    { "ReduceMin", 1, first },
    { "Concat", 0, either },
    { "Min", 0, smallest },
    { "Max", 0, largest },
    { "Clip", 0, clipped },
    { "Add", 0, sum },
    { "Sub", 0, difference },
    { "Neg", 1, negated },
    { "Sigmoid", 1, fraction },
    { "Softmax", 1, fraction },
    { "Less", 0, less },
    { "LessOrEqual", 0, less_or_equal },
    { "Greater", 0, greater },
    { "GreaterOrEqual", 0, greater_or_equal },
    { "Equal", 0, equal },
    { "Not", 1, not },
    { "And", 0, smallest },
    { "Or", 0, largest },
};

/* To an integer, towards 0; to a boolean, whether it is another number than 0. */
static range cast(const struct zt_value *to, range r) {
    if (to->dtype == ZT_BOOL)
        return flag(r.low != 0 || r.high != 0, r.low > 0 || r.high < 0);
    return zt_dtype_in(to->dtype, ZT_ANY_FLOAT) ? r : (range){ trunc(r.low), trunc(r.high) };
}

static range index_along(const struct zt_graph *g, const struct zt_node *n) {
    const struct zt_value *v = g->values[n->in[0]];
    const int64_t axis = zt_attr_int(n, "axis", 0), rank = v->shape.rank;
    const int64_t at = axis < 0 ? axis + rank : axis;
    return at >= 0 && at < rank ? (range){ 0, (double)v->shape.dim[at] - 1 } : ANYTHING;
}

/* Each result is a sum of as many elements. */
static range reduced_sum(const struct zt_graph *g, const struct zt_node *n, range r) {
    const int64_t results = zt_shape_count(&g->values[n->out[0]]->shape);
    const double each = results > 0 ? (double)zt_shape_count(&g->values[n->in[0]]->shape) / (double)results : INFINITY;
    return isfinite(each) && isfinite(r.low) && isfinite(r.high) ? (range){ each * r.low, each * r.high } : ANYTHING;
}

static range by_rule(const struct zt_graph *g, const struct zt_node *n, struct search *s) {
    for (size_t k = 0; k < sizeof rules / sizeof *rules; k++) {
        if (strcmp(n->op->name, rules[k].op) != 0)
            continue;
        const int count = rules[k].inputs && rules[k].inputs < n->in_count ? rules[k].inputs : n->in_count;
        range *in = ZT_NEW_N(g->arena, range, count + 1);
        for (int i = 0; i < count; i++)
            in[i] = of_input(g, n, i, s);
        return rules[k].of(in, count);
    }
    return ANYTHING;
}

/* Output `out` of an If that chooses its branch when it runs. */
static range of_branches(const struct zt_node *n, int out, struct search *s) {
    const struct zt_graph *then = zt_node_attr(n, "then_branch")->graph, *other = zt_node_attr(n, "else_branch")->graph;
    const range r[] = { of_value(then, then->outputs[out], s), of_value(other, other->outputs[out], s) };
    return either(r, 2);
}

static range of_node(const struct zt_graph *g, const struct zt_node *n, int value, struct search *s) {
    if (!n->op || n->in_count < 1)
        return ANYTHING;
    for (int i = 0; strcmp(n->op->name, "IfRun") == 0 && i < n->out_count; i++)
        if (n->out[i] == value)
            return of_branches(n, i, s);
    if (*n->op->domain)
        return ANYTHING;
    if (strcmp(n->op->name, "Cast") == 0)
        return cast(g->values[n->out[0]], of_input(g, n, 0, s));
    if (strcmp(n->op->name, "ArgMax") == 0 || strcmp(n->op->name, "ArgMin") == 0)
        return index_along(g, n);
    if (strcmp(n->op->name, "ReduceSum") == 0)
        return reduced_sum(g, n, of_input(g, n, 0, s));
    return by_rule(g, n, s);
}

static range of_value(const struct zt_graph *g, int value, struct search *s) {
    const struct zt_value *v = g->values[value];
    range r = v->data ? of_contents(v) : v->bounds ? *v->bounds : ANYTHING;
    if (!v->data && v->producer >= 0 && s->depth < DEPTH && s->values > 0) {
        s->values--;
        s->depth++;
        r = of_node(g, g->nodes[v->producer], value, s);
        s->depth--;
    }
    if (isnan(r.low) || isnan(r.high))
        r = ANYTHING;
    return v->dtype == ZT_BOOL ? (range){ fmax(r.low, 0), fmin(r.high, 1) } : r;
}

struct zt_bounds zt_bounds_of(const struct zt_graph *g, int value) {
    return of_value(g, value, &(struct search){ .values = VALUES });
}
