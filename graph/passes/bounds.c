#include "graph/passes/bounds.h"

#include "graph/ir/op.h"

#include <math.h>
#include <string.h>

/* Limits of the search: VALUES of a graph, each as often as it is read. */
enum { DEPTH = 32, VALUES = 4096, ELEMENTS = 4096 };

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

static range same(range a, range b) {
    (void)b;
    return a;
}

static range either(range a, range b) {
    return (range){ fmin(a.low, b.low), fmax(a.high, b.high) };
}

static range smaller(range a, range b) {
    return (range){ fmin(a.low, b.low), fmin(a.high, b.high) };
}

static range larger(range a, range b) {
    return (range){ fmax(a.low, b.low), fmax(a.high, b.high) };
}

static range sum(range a, range b) {
    return (range){ a.low + b.low, a.high + b.high };
}

static range negated(range a, range b) {
    (void)b;
    return (range){ -a.high, -a.low };
}

static range difference(range a, range b) {
    return sum(a, negated(b, b));
}

static range fraction(range a, range b) {
    (void)a, (void)b;
    return FLAG;
}

static range not(range a, range b) {
    (void)b;
    return flag(a.low == 0, a.high == 0);
}

static range less(range a, range b) {
    return flag(a.low < b.high, a.high < b.low);
}

static range greater(range a, range b) {
    return less(b, a);
}

static range less_or_equal(range a, range b) {
    return not(greater(a, b), FLAG);
}

static range greater_or_equal(range a, range b) {
    return not(less(a, b), FLAG);
}

static range equal(range a, range b) {
    const bool known = a.low == a.high && b.low == b.high;
    return flag(a.low <= b.high && b.low <= a.high, known && a.low == b.low);
}

/* Rows whose range follows from that of their first input, or of all: of the first two, of that and the third ... */
static const struct {
    const char *op;
    bool all;
    range (*of)(range a, range b);
} rules[] = {
    { "Identity", false, same },    { "Squeeze", false, same },
    { "Unsqueeze", false, same },   { "Reshape", false, same },
    { "Flatten", false, same },     { "Transpose", false, same },
    { "Expand", false, same },      { "Tile", false, same },
    { "Gather", false, same },      { "Slice", false, same },
    { "ReduceMax", false, same },   { "ReduceMin", false, same },
    { "Concat", true, either },     { "Min", true, smaller },
    { "Max", true, larger },        { "Add", true, sum },
    { "Sub", true, difference },    { "Neg", false, negated },
    { "Sigmoid", false, fraction }, { "Softmax", false, fraction },
    { "Less", true, less },         { "LessOrEqual", true, less_or_equal },
    { "Greater", true, greater },   { "GreaterOrEqual", true, greater_or_equal },
    { "Equal", true, equal },       { "Not", false, not },
    { "And", true, smaller },       { "Or", true, larger },
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
        range r = of_input(g, n, 0, s);
        if (!rules[k].all)
            return rules[k].of(r, r);
        for (int i = 1; i < n->in_count; i++)
            r = rules[k].of(r, of_input(g, n, i, s));
        return r;
    }
    return ANYTHING;
}

/* Bounds that are left out change nothing. */
static range clipped(const struct zt_graph *g, const struct zt_node *n, struct search *s) {
    range r = of_input(g, n, 0, s);
    if (n->in_count > 1 && n->in[1] >= 0)
        r = larger(r, of_input(g, n, 1, s));
    if (n->in_count > 2 && n->in[2] >= 0)
        r = smaller(r, of_input(g, n, 2, s));
    return r;
}

/* Output `out` of an If that chooses its branch when it runs. */
static range of_branches(const struct zt_node *n, int out, struct search *s) {
    const struct zt_graph *then = zt_node_attr(n, "then_branch")->graph, *other = zt_node_attr(n, "else_branch")->graph;
    return either(of_value(then, then->outputs[out], s), of_value(other, other->outputs[out], s));
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
    if (strcmp(n->op->name, "Clip") == 0)
        return clipped(g, n, s);
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
