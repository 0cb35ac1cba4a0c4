#include "graph/passes/trainable/repeats.h"

#include "base/map.h"
#include "base/vec.h"
#include "graph/ir/op.h"
#include "graph/passes/trainable/constants.h"
#include "graph/passes/trainable/torch.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- operations ---- */

/* f of one element, or of an element p and a constant c. `inverse` of one input: f(inverse(y)) = y. `constant`: the c
 * with f(p, c) = y. */
struct zt_derived_op {
    const char *torch, *onnx; /* what the exporter names values after; the operator that computes it */
    const char *text;         /* with the parameter's name, and the constant before or behind it */
    double (*f)(double p, double c);
    double (*inverse)(double y);            /* NULL: of two inputs, or without inverse */
    double (*constant)(double p, double y); /* NULL: of one input */
    double neutral;                         /* the constant with which nothing is computed, NAN: none */
    bool constant_first, sum;
};

static double f_exp(double p, double c) {
    (void)c;
    return exp(p);
}
static double f_log(double p, double c) {
    (void)c;
    return log(p);
}
static double f_neg(double p, double c) {
    (void)c;
    return -p;
}
static double f_reciprocal(double p, double c) {
    (void)c;
    return 1 / p;
}
static double f_sqrt(double p, double c) {
    (void)c;
    return sqrt(p);
}
static double f_tanh(double p, double c) {
    (void)c;
    return tanh(p);
}
static double f_sigmoid(double p, double c) {
    (void)c;
    return 1 / (1 + exp(-p));
}
static double f_softplus(double p, double c) {
    (void)c;
    return p > 0 ? p + log1p(exp(-p)) : log1p(exp(p));
}
static double neg(double y) {
    return -y;
}
static double reciprocal(double y) {
    return 1 / y;
}
static double square(double y) {
    return y * y;
}
static double logit(double y) {
    return log(y / (1 - y));
}
static double inverse_softplus(double y) {
    return y + log(-expm1(-y));
}
static double f_add(double p, double c) {
    return p + c;
}
static double f_from(double p, double c) {
    return c - p;
}
static double f_mul(double p, double c) {
    return p * c;
}
static double f_over(double p, double c) {
    return c / p;
}
static double c_add(double p, double y) {
    return y - p;
}
static double c_from(double p, double y) {
    return y + p;
}
static double c_mul(double p, double y) {
    return y / p;
}
static double c_over(double p, double y) {
    return y * p;
}

static const struct zt_derived_op ops[] = {
    { "exp", "Exp", "exp(%s)", f_exp, .inverse = log },
    { "log", "Log", "log(%s)", f_log, .inverse = exp },
    { "neg", "Neg", "-(%s)", f_neg, .inverse = neg },
    { "reciprocal", "Reciprocal", "1 / %s", f_reciprocal, .inverse = reciprocal },
    { "sqrt", "Sqrt", "sqrt(%s)", f_sqrt, .inverse = square },
    { "tanh", "Tanh", "tanh(%s)", f_tanh, .inverse = atanh },
    { "sigmoid", "Sigmoid", "sigmoid(%s)", f_sigmoid, .inverse = logit },
    { "softplus", "Softplus", "softplus(%s)", f_softplus, .inverse = inverse_softplus },
    { "sub", "Sub", "%g - %s", f_from, .constant = c_from, .neutral = NAN, .constant_first = true, .sum = true },
    { "rsub", "Sub", "%g - %s", f_from, .constant = c_from, .neutral = NAN, .constant_first = true, .sum = true },
    { "sub", "Add", "%s + %g", f_add, .constant = c_add, .neutral = 0, .sum = true },
    { "add", "Add", "%s + %g", f_add, .constant = c_add, .neutral = 0, .sum = true },
    { "mul", "Mul", "%s * %g", f_mul, .constant = c_mul, .neutral = 1 },
    { "div", "Mul", "%s * %g", f_mul, .constant = c_mul, .neutral = 1 },
    { "div", "Div", "%g / %s", f_over, .constant = c_over, .neutral = NAN, .constant_first = true },
};
enum { OPS = sizeof ops / sizeof *ops };

void zt_derived_compute(const struct zt_derived *d, const struct zt_value *v, enum zt_dtype dtype,
                        const void *parameter, void *to) {
    const int64_t count = zt_shape_count(&v->shape);
    if (d->repeated.index) {
        zt_derived_repeat(d, v, dtype, parameter, to);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        double x = zt_load_double(dtype, parameter, i);
        for (int s = 0; s < d->steps; s++)
            x = d->step[s].op->f(x, d->step[s].constant);
        zt_store_double(dtype, to, i, x);
    }
}

/* The innermost step is written first, and each later one around it. */
const char *zt_derived_text(struct zt_arena *arena, const struct zt_derived *d) {
    const char *text = d->repeated.index ? zt_arena_printf(arena, "vectors of %s", d->parameter) : d->parameter;
    for (int s = 0; s < d->steps; s++) {
        const struct zt_derived_op *op = d->step[s].op;
        if (!op->constant)
            text = zt_arena_printf(arena, op->text, text);
        else if (op->constant_first)
            text = zt_arena_printf(arena, op->text, d->step[s].constant, text);
        else
            text = zt_arena_printf(arena, op->text, text, d->step[s].constant);
    }
    return text;
}

/* ---- finding ---- */

struct search {
    const struct zt_graph *g;
    struct zt_arena *arena;
    struct zt_map listed; /* of the signature */
    ZT_VEC(struct zt_derived) found;
};

/* Relative rounding of a type. */
static double unit_of(enum zt_dtype dtype) {
    return dtype == ZT_DOUBLE ? DBL_EPSILON : dtype == ZT_FLOAT ? FLT_EPSILON : dtype == ZT_FLOAT16 ? 0x1p-10 : 0x1p-7;
}

/* Whether the steps lead from the numbers `from` to those of `v`, but for `slack` roundings: of the result, and of
 * what a sum was made of. */
static bool holds(const struct zt_derived *d, const struct zt_value *v, const void *from, double slack) {
    const int64_t count = zt_shape_count(&v->shape);
    for (int64_t i = 0; i < count; i++) {
        double x = zt_load_double(v->dtype, from, i), terms = 0;
        const double y = zt_load_double(v->dtype, v->data, i);
        if (d->step[0].op->sum)
            terms = fmax(fabs(x), fabs(d->step[0].constant));
        for (int s = 0; s < d->steps; s++)
            x = d->step[s].op->f(x, d->step[s].constant);
        if (!(fabs(x - y) <= slack * unit_of(v->dtype) * fmax(fmax(fabs(x), fabs(y)), terms)) || !isfinite(x))
            return false;
    }
    return true;
}

/* Roundings between what the exporter computed and what the steps give: of a parameter that is in the file, and of one
 * that was made by inverting them, rounded itself. */
static const double present = 4, inverted = 64;

/* One step with the constant that the first element wants, one that is not 0 where there is one. Where all elements are
 * one number any operation fits, so its name must be known; a constant with which nothing is computed does not count.
 */
static bool try_constant(struct zt_derived *d, const struct zt_derived_op *op, const struct zt_value *v,
                         const void *from) {
    const int64_t count = zt_shape_count(&v->shape);
    int64_t at = 0;
    while (at + 1 < count && zt_load_double(v->dtype, from, at) == 0)
        at++;
    const double p = zt_load_double(v->dtype, from, at), y = zt_load_double(v->dtype, v->data, at);
    const double c = (double)(float)op->constant(p, y);
    d->steps = 1;
    d->step[0] = (struct zt_derived_step){ op, c };
    return isfinite(c) && c != op->neutral && holds(d, v, from, present);
}

/* Operations of one input by the names they go by, in their order; false where one has no row or needs a constant. */
static bool chain(struct zt_derived *d, const char *const *names, int count) {
    d->steps = 0;
    for (int i = 0; i < count; i++) {
        int k = 0;
        while (k < OPS && (ops[k].constant || strcmp(ops[k].torch, names[i]) != 0))
            k++;
        if (k == OPS || d->steps == ZT_DERIVED_STEPS)
            return false;
        d->step[d->steps++] = (struct zt_derived_step){ &ops[k], 0 };
    }
    return d->steps > 0;
}

/* The element of the parameter for one of the initializer: the inverse of each step, last to first. */
static double invert_element(const struct zt_derived *d, double y) {
    for (int k = d->steps - 1; k >= 0; k--)
        y = d->step[k].op->inverse ? d->step[k].op->inverse(y) : y - d->step[k].constant;
    return y;
}

bool zt_derived_invert(const struct zt_derived *d, const float *made, int64_t count, float *parameter) {
    bool ok = !d->repeated.index && d->steps > 0;
    for (int k = 0; k < d->steps; k++)
        ok &= d->step[k].op->inverse || strcmp(d->step[k].op->torch, "add") == 0;
    for (int64_t i = 0; ok && i < count; i++)
        parameter[i] = (float)invert_element(d, (double)made[i]);
    return ok;
}

/* The contents of a parameter that is lost: from an earlier row, else by the inverses. */
static const void *invert(const struct search *s, const struct zt_derived *d, const struct zt_value *v) {
    const int64_t count = zt_shape_count(&v->shape);
    char *to = zt_arena_alloc(s->arena, (size_t)count * zt_dtype_bytes(v->dtype) + 1);
    for (int64_t i = 0; i < count; i++)
        zt_store_double(v->dtype, to, i, invert_element(d, zt_load_double(v->dtype, v->data, i)));
    return to;
}

/* The contents of a lost parameter to which a constant was added. The constant is lost too and is taken for 1, as in
 * the norms that hold their distance from it (1 + w). Gradients do not depend on it, only weight decay does. */
static const void *offset_by_one(const struct search *s, struct zt_derived *d, const struct zt_value *v) {
    const int64_t count = zt_shape_count(&v->shape);
    char *to = zt_arena_alloc(s->arena, (size_t)count * zt_dtype_bytes(v->dtype) + 1);
    int k = 0;
    while (strcmp(ops[k].torch, "add") != 0)
        k++;
    d->steps = 1;
    d->step[0] = (struct zt_derived_step){ &ops[k], 1 };
    for (int64_t i = 0; i < count; i++)
        zt_store_double(v->dtype, to, i, zt_load_double(v->dtype, v->data, i) - 1);
    return to;
}

static const struct zt_derived *made_before(const struct search *s, const char *parameter) {
    for (int i = 0; i < s->found.count; i++)
        if (s->found.at[i].made && strcmp(s->found.at[i].parameter, parameter) == 0)
            return &s->found.at[i];
    return NULL;
}

/* Relates v to a parameter of known contents by the operations that its folding names. */
static bool relate(const struct zt_value *v, const void *from, const char *const *names, int count,
                   struct zt_derived *d) {
    if (chain(d, names, count) && holds(d, v, from, present))
        return true;
    for (int k = 0; count == 1 && k < OPS; k++)
        if (ops[k].constant && strcmp(ops[k].torch, names[0]) == 0 && try_constant(d, &ops[k], v, from))
            return true;
    return false;
}

static const struct zt_value *initializer(const struct zt_graph *g, const char *name) {
    const int id = zt_graph_find(g, name);
    return id >= 0 && g->values[id]->origin == ZT_FROM_INITIALIZER ? g->values[id] : NULL;
}

/* Finds a folding by dynamo from the operations in its metadata: one, or two of which the second is the value's own.
 * The order of more than two is unknown. */
static bool find_folded(struct search *s, const struct zt_value *v, struct zt_derived *d) {
    struct zt_torch_folding f;
    zt_torch_read_folding(s->arena, v, &s->listed, &f);
    if (f.parameters != 1 || f.picked || f.copied || f.buffer || f.operation_count < 1 ||
        f.operation_count > ZT_DERIVED_STEPS)
        return false;
    const struct zt_value *p = initializer(s->g, f.parameter);
    const struct zt_derived *before = p ? NULL : made_before(s, f.parameter);
    *d = (struct zt_derived){ .name = v->name, .parameter = f.parameter, .lost = !p };
    if (p || before) {
        const struct zt_value *shaped = p ? p : initializer(s->g, before->name);
        const void *from = p ? p->data : before->made;
        return from && shaped->dtype == v->dtype && zt_shape_equal(&shaped->shape, &v->shape) &&
               relate(v, from, f.operations, f.operation_count, d);
    }
    if (zt_graph_find(s->g, f.parameter) >= 0)
        return false;
    if (chain(d, f.operations, f.operation_count))
        d->made = invert(s, d, v);
    else if (f.operation_count == 1 && !f.moved && strcmp(f.operations[0], "add") == 0) /* else w + w.flip() */
        d->made = offset_by_one(s, d, v);
    else
        return false;
    return holds(d, v, d->made, inverted);
}

/* Elements of one parameter that stand several times. */
static bool find_repeated(struct search *s, const struct zt_value *v, struct zt_derived *d) {
    struct zt_torch_folding f;
    zt_torch_read_folding(s->arena, v, &s->listed, &f);
    *d = (struct zt_derived){ .name = v->name, .parameter = f.parameter };
    return f.parameters == 1 && f.copied && !f.operation_count && !f.buffer && zt_graph_find(s->g, f.parameter) < 0 &&
           !made_before(s, f.parameter) && zt_derived_repeats(s->arena, v, d) == ZT_REPEATS_VECTORS;
}

const char *zt_derived_apart(struct zt_arena *arena, const struct zt_value *v, const struct zt_map *listed) {
    struct zt_torch_folding f;
    struct zt_derived d;
    zt_torch_read_folding(arena, v, listed, &f);
    return f.parameter && f.copied && zt_derived_repeats(arena, v, &d) != ZT_REPEATS_NOTHING ? f.parameter : NULL;
}

/* Whether what reads p and what reads v meet in one node: x p + y (1 - p). */
static bool meet(const struct zt_graph *g, const struct zt_value *p, const struct zt_value *v) {
    int reader = -1, sum = -1;
    if (zt_graph_users(g, v->id, &reader) != 1 || g->nodes[reader]->out_count < 1 ||
        zt_graph_users(g, g->nodes[reader]->out[0], &sum) != 1)
        return false;
    for (int i = 0; i < g->nodes[sum]->in_count; i++) {
        const int from = g->nodes[sum]->in[i] >= 0 ? g->values[g->nodes[sum]->in[i]]->producer : -1;
        for (int k = 0; from >= 0 && from != reader && k < g->nodes[from]->in_count; k++)
            if (g->nodes[from]->in[k] == p->id)
                return true;
    }
    return false;
}

/* Returns the evidence besides the contents: a node reads the tensor with its parameter; its constant is 1. */
static int evidence(const struct zt_graph *g, const struct zt_value *v, const struct zt_derived *d) {
    return 2 * meet(g, initializer(g, d->parameter), v) + (d->step[0].constant == 1);
}

/* Finds a folding by TorchScript: a numbered tensor that is a constant minus, plus or times a parameter of the same
 * shape. The file has no metadata of it, so the contents decide; a parameter of equal elements decides nothing. Of
 * several candidates the one with the most evidence is taken, and none if two have the same. */
static bool find_numbered(struct search *s, const struct zt_value *v, struct zt_derived *d) {
    static const char *const tried[] = { "rsub", "add", "mul" };
    int best = -1;
    bool alone = false;
    for (int i = 0; i < s->g->value_count; i++) {
        const struct zt_value *p = s->g->values[i];
        if (p->origin != ZT_FROM_INITIALIZER || !p->trainable || !p->data || p->dtype != v->dtype ||
            !zt_torch_is_state_name(p->name) || !zt_shape_equal(&p->shape, &v->shape) || zt_constant_is_uniform(p))
            continue;
        struct zt_derived found = { .name = v->name, .parameter = p->name };
        for (size_t k = 0; k < sizeof tried / sizeof *tried; k++) {
            if (!relate(v, p->data, &tried[k], 1, &found))
                continue;
            const int speaks = evidence(s->g, v, &found);
            alone = speaks != best && (speaks > best || alone);
            if (speaks > best) {
                best = speaks;
                *d = found;
            }
        }
    }
    return alone;
}

/* Keeps the row, its names in the arena of the list: the graph may go before it. */
static void add(struct search *s, struct zt_derived d) {
    d.name = zt_arena_strdup(s->arena, d.name);
    d.parameter = zt_arena_strdup(s->arena, d.parameter);
    zt_vec_push(&s->found, d);
}

int zt_derived_find(const struct zt_onnx *model, const struct zt_graph *g, struct zt_arena *arena,
                    struct zt_derived **list) {
    struct search s = { .g = g, .arena = arena };
    if (model->torch_signature)
        zt_torch_read_signature(arena, model->torch_signature, &s.listed);
    for (int i = 0; i < g->value_count; i++) {
        const struct zt_value *v = g->values[i];
        struct zt_derived d;
        if (v->origin != ZT_FROM_INITIALIZER || !v->data || !v->may_train || !zt_shape_count(&v->shape))
            continue;
        if (zt_torch_is_made(model, v) ? find_numbered(&s, v, &d)
                                       : model->torch_signature && v->torch_folded_from &&
                                             (v->trainable ? find_repeated(&s, v, &d) : find_folded(&s, v, &d)))
            add(&s, d);
    }
    const int count = s.found.count;
    *list = zt_vec_copy(arena, &s.found);
    zt_vec_finish(&s.found);
    zt_map_finish(&s.listed);
    return count;
}

/* ---- undoing ---- */

/* The parameter's value, made where an earlier row has not done so. */
static int parameter_of(struct zt_graph *g, const struct zt_derived *d, const struct zt_value *like) {
    int id = zt_graph_find(g, d->parameter);
    if (id >= 0)
        return id;
    const struct zt_shape vectors = { 2, { d->repeated.vectors, like->shape.dim[d->repeated.axis] } };
    id = zt_graph_add_value(g, d->parameter, like->dtype, d->repeated.index ? &vectors : &like->shape);
    struct zt_value *p = g->values[id];
    p->origin = ZT_FROM_INITIALIZER;
    p->data = d->made;
    p->trainable = p->may_train = true;
    p->why = zt_arena_printf(g->arena, "made again from %s, which the exporter made of it", d->name);
    return id;
}

static int add_step(struct zt_graph *g, const struct zt_op_table *table, const struct zt_derived_step *step, int from,
                    int64_t place, struct zt_err *err) {
    const enum zt_dtype dtype = g->values[from]->dtype;
    const int c = step->op->constant ? zt_graph_add_float(g, NULL, dtype, step->constant) : -1;
    const int in[2] = { step->op->constant_first ? c : from, step->op->constant_first ? from : c };
    const int out = zt_graph_add_value(g, NULL, ZT_UNDEFINED, NULL);
    const char *name = zt_arena_printf(g->arena, "%s of %s", step->op->onnx, g->values[from]->name);
    const int node =
        zt_graph_add_node(g, &(struct zt_node_spec){ name, step->op->onnx, "", ZT_OPSET, in, c >= 0 ? 2 : 1, &out, 1 });
    g->nodes[node]->place = place;
    return zt_op_resolve(table, g, node, err) ? out : -1;
}

/* The initializer as its steps compute it, in front of node `reader`; -1 on failure. */
static int add_steps(struct zt_graph *g, const struct zt_op_table *table, const struct zt_derived *d,
                     const struct zt_value *v, int reader, struct zt_err *err) {
    const int64_t place = g->nodes[reader]->place;
    int x = parameter_of(g, d, v);
    if (d->repeated.index)
        return zt_derived_add_repeats(g, table, d, x, place, err);
    for (int s = 0; s < d->steps && x >= 0; s++)
        x = add_step(g, table, &d->step[s], x, place, err);
    return x;
}

bool zt_derived_apply(struct zt_graph *g, const struct zt_op_table *table, const struct zt_derived *d,
                      struct zt_err *err) {
    struct zt_value *v = g->values[zt_graph_find(g, d->name)];
    const int count = g->node_count;
    int instead = -1;
    for (int n = 0; n < count; n++)
        for (int i = 0; i < g->nodes[n]->in_count; i++) {
            if (g->nodes[n]->in[i] != v->id)
                continue;
            if (instead < 0 && (instead = add_steps(g, table, d, v, n, err)) < 0)
                return false;
            g->nodes[n]->in[i] = instead;
        }
    v->trainable = v->may_train = false;
    v->why = zt_arena_printf(g->arena, "follows parameter %s", d->parameter);
    return zt_graph_sort(g, err);
}
