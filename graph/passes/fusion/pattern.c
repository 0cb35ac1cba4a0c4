#include "graph/passes/fusion/pattern.h"

#include "graph/passes/eval.h"
#include "graph/passes/fusion/fuse.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A term that a value has to fit, and what has to fit after it. */
struct goal {
    const char *term;
    int value;
    const struct goal *next;
};

enum { ARGS = 4, LOOK_THROUGH = 4 };

static bool solve(struct zt_match *m, const struct goal *goal);

/* ---- reading a term ---- */

static const char *skip_space(const char *p) {
    while (*p == ' ')
        p++;
    return p;
}

static int word_length(const char *p) {
    int n = 0;
    while (isalnum((unsigned char)p[n]) || p[n] == '_')
        n++;
    return n;
}

/* The end of a term: the next ',', '|' or ')' that is not inside of it. */
static const char *skip_term(const char *p) {
    int depth = 0;
    for (; *p && (depth > 0 || !strchr(",|)", *p)); p++)
        depth += (*p == '(') - (*p == ')');
    return p;
}

static bool is_text(const char *p, int length, const char *text) {
    return (size_t)length == strlen(text) && strncmp(p, text, (size_t)length) == 0;
}

/* ---- the graph ---- */

bool zt_pattern_constant(const struct zt_graph *g, int value, double *to) {
    const struct zt_value *v = value >= 0 ? g->values[value] : NULL;
    if (!v || !zt_value_is_constant(v) || !zt_dtype_in(v->dtype, ZT_ANY_NUMBER) || zt_shape_count(&v->shape) != 1)
        return false;
    *to = zt_load_double(v->dtype, v->data, 0);
    return true;
}

/* Whether the constant is `wanted`, as far as its type can tell. */
static bool is_number(const struct zt_graph *g, int value, double wanted) {
    double have, step = 1e-6;
    if (!zt_pattern_constant(g, value, &have))
        return false;
    if (g->values[value]->dtype == ZT_FLOAT16)
        step = 0x1p-10;
    else if (g->values[value]->dtype == ZT_BFLOAT16)
        step = 0x1p-7;
    return fabs(have - wanted) <= step * fabs(wanted);
}

/* Whether the node is the standard operator that a word of a term names. */
static bool is_named(const struct zt_node *n, const char *word, int length) {
    return is_text(word, length, n->op_type) && zt_node_is(n, n->op_type);
}

/* A Dropout in its training or evaluation form: only the former drops, where its ratio is not 0. */
static bool drops_nothing(const struct zt_graph *g, int node) {
    const struct zt_node *n = g->nodes[node];
    double ratio = (double)zt_attr_float(n, "ratio", 0.5F);
    if (zt_node_is(n, "Dropout"))
        return n->in_count <= 2;
    return n->op && strcmp(n->op->name, "DropoutTrain") == 0 &&
           (n->in_count < 2 || zt_pattern_constant(g, n->in[1], &ratio)) && ratio == 0;
}

static bool does_nothing(const struct zt_graph *g, int node) {
    const struct zt_node *n = g->nodes[node];
    return zt_node_is(n, "Identity") ||
           (zt_node_is(n, "Cast") && zt_in(g, node, 0)->dtype == zt_out(g, node, 0)->dtype) || drops_nothing(g, node);
}

static bool is_inside(const struct zt_match *m, int node) {
    for (int i = 0; i < m->node_count; i++)
        if (m->node[i] == node)
            return true;
    return false;
}

static bool take_node(struct zt_match *m, int node) {
    if (is_inside(m, node))
        return true;
    if (m->node_count == ZT_PATTERN_NODES)
        return false;
    m->node[m->node_count++] = node;
    return true;
}

/* The node whose first output `value` is, taken into the group with what was looked through; -1: none. */
static int take_maker(struct zt_match *m, int value) {
    const struct zt_graph *g = m->g;
    for (int i = 0; i <= LOOK_THROUGH; i++) {
        int from = value >= 0 && g->values[value]->origin == ZT_FROM_NODE ? g->values[value]->producer : -1;
        const struct zt_node *n = from >= 0 ? g->nodes[from] : NULL;
        if (!n || n->dead || n->out[0] != value || n->phase != g->nodes[m->root]->phase ||
            n->stage != g->nodes[m->root]->stage || !take_node(m, from))
            return -1;
        if (!does_nothing(g, from))
            return from;
        value = n->in[0];
    }
    return -1;
}

/* ---- the group ---- */

/* Whether no node outside the group reads its inner values, and no input of the group is computed inside it. */
static bool is_closed(const struct zt_match *m) {
    for (int i = 0; i < m->name_count; i++)
        if (!m->name[i].made && m->g->values[m->name[i].value]->producer >= 0 &&
            is_inside(m, m->g->values[m->name[i].value]->producer))
            return false;
    for (int i = 0; i < m->node_count; i++) {
        const struct zt_node *n = m->g->nodes[m->node[i]];
        for (int k = 0; k < n->out_count; k++) {
            if (n->out[k] < 0 || (m->node[i] == m->root && k == 0))
                continue;
            if (!zt_fuse_read_only_by(m->g, n->out[k], m->node, m->node_count))
                return false;
        }
    }
    return true;
}

/* ---- fitting ---- */

static bool bind(struct zt_match *m, const char *text, int length, int value, bool made) {
    for (int i = 0; i < m->name_count; i++) {
        if (m->name[i].length != length || strncmp(m->name[i].text, text, (size_t)length) != 0)
            continue;
        m->name[i].made |= made;
        return m->name[i].value == value;
    }
    if (m->name_count == ZT_PATTERN_NAMES || value < 0)
        return false;
    m->name[m->name_count++] = (struct zt_pattern_name){ text, length, value, made };
    return true;
}

static bool commutes(const struct zt_node *n) {
    return n->in_count == 2 && (zt_node_is(n, "Add") || zt_node_is(n, "Mul") || zt_node_is(n, "Max"));
}

/* The inputs of `node` have to fit the arguments that start at `p`, in this order or the other. */
static bool solve_inputs(struct zt_match *m, int node, const char *p, bool swapped, const struct goal *next) {
    const struct zt_node *n = m->g->nodes[node];
    struct goal goals[ARGS];
    int count = 0;
    for (p = skip_space(p); count < ARGS && *p && *p != ')' && *p != '.'; count++) {
        if (count >= n->in_count)
            return false;
        goals[count] = (struct goal){ .term = p, .value = n->in[swapped ? 1 - count : count] };
        p = skip_term(p);
        p = skip_space(*p == ',' ? p + 1 : p);
    }
    if (*p != '.')
        for (int i = count; i < n->in_count; i++)
            if (n->in[i] >= 0)
                return false;
    for (int i = 0; i < count; i++)
        goals[i].next = i + 1 < count ? &goals[i + 1] : next;
    return solve(m, count ? goals : next);
}

static bool solve_node(struct zt_match *m, int node, const char *op, int length, const struct goal *next) {
    const struct zt_node *n = m->g->nodes[node];
    if (!is_named(n, op, length))
        return false;
    const char *args = op + length + 1;
    struct zt_match before = *m;
    for (int swapped = 0; swapped <= commutes(n); swapped++) {
        if (solve_inputs(m, node, args, swapped, next))
            return true;
        *m = before;
    }
    return false;
}

/* A word: the name of a value, or of an op, or "name = Op". */
static bool solve_word(struct zt_match *m, const char *word, const struct goal *goal) {
    int length = word_length(word);
    const char *after = skip_space(word + length);
    if (*after == '=') {
        if (!bind(m, word, length, goal->value, true))
            return false;
        word = skip_space(after + 1);
        length = word_length(word);
    } else if (*after != '(') {
        return bind(m, word, length, goal->value, false) && solve(m, goal->next);
    }
    int node = take_maker(m, goal->value);
    return node >= 0 && solve_node(m, node, word, length, goal->next);
}

static bool solve_one(struct zt_match *m, const char *term, const struct goal *goal) {
    double number;
    if (isdigit((unsigned char)*term) || *term == '-')
        return is_number(m->g, goal->value, strtod(term, NULL)) && solve(m, goal->next);
    if (*term == '$')
        return zt_pattern_constant(m->g, goal->value, &number) &&
               bind(m, term + 1, word_length(term + 1), goal->value, false) && solve(m, goal->next);
    return solve_word(m, term, goal);
}

static bool solve(struct zt_match *m, const struct goal *goal) {
    if (!goal)
        return is_closed(m);
    const char *term = skip_space(goal->term);
    struct zt_match before = *m;
    if (*term != '(') {
        if (solve_one(m, term, goal))
            return true;
        *m = before;
        return false;
    }
    for (const char *p = term; *p && *p != ')'; p = skip_term(p + 1)) {
        struct goal either = { p + 1, goal->value, goal->next };
        if (solve(m, &either))
            return true;
    }
    return false;
}

/* ---- for patterns ---- */

bool zt_pattern_find(struct zt_graph *g, int node, const char *term, struct zt_match *to) {
    const struct zt_node *n = g->nodes[node];
    term = skip_space(term);
    int length = word_length(term);
    if (n->dead || !is_named(n, term, length) || n->out[0] < 0)
        return false;
    *to = (struct zt_match){ .g = g, .root = node, .node = { node }, .node_count = 1 };
    return solve_node(to, node, term, length, NULL);
}

int zt_match_value(const struct zt_match *m, const char *name) {
    for (int i = 0; i < m->name_count; i++)
        if (is_text(m->name[i].text, m->name[i].length, name))
            return m->name[i].value;
    return -1;
}

const struct zt_node *zt_match_node(const struct zt_match *m, const char *name) {
    int value = zt_match_value(m, name), node = value >= 0 ? m->g->values[value]->producer : -1;
    while (node >= 0 && does_nothing(m->g, node))
        node = m->g->values[m->g->nodes[node]->in[0]]->producer;
    return node >= 0 ? m->g->nodes[node] : NULL;
}

double zt_match_number(const struct zt_match *m, const char *name, double otherwise) {
    double number = otherwise;
    zt_pattern_constant(m->g, zt_match_value(m, name), &number);
    return number;
}

bool zt_match_same(const struct zt_match *m, int a, int b) {
    const struct zt_value *x = m->g->values[a], *y = m->g->values[b];
    return x->dtype == y->dtype && zt_shape_equal(&x->shape, &y->shape);
}

bool zt_match_along(const struct zt_match *m, int value, int x, int from, int to) {
    if (value < 0)
        return true;
    const struct zt_value *v = m->g->values[value], *like = m->g->values[x];
    int shift = like->shape.rank - v->shape.rank;
    if (v->dtype != like->dtype || shift < 0)
        return false;
    for (int k = 0; k < like->shape.rank; k++)
        if ((k < shift ? 1 : v->shape.dim[k - shift]) != (k >= from && k < to ? like->shape.dim[k] : 1))
            return false;
    return true;
}

int zt_match_result(const struct zt_match *m) {
    return m->g->nodes[m->root]->out[0];
}

static int add_node(struct zt_match *m, const char *name, const char *op_type, const int *in, int in_count, int out) {
    int node = zt_fuse_add(m->g, m->g->nodes[m->root],
                           &(struct zt_node_spec){ name, op_type, "", ZT_OPSET, in, in_count, &out, 1 });
    m->g->values[out]->producer = node;
    return node;
}

/* The name of what replaces the group: that of the last product in it, which a user looks for, else the root's. */
static const char *name_of(const struct zt_match *m) {
    int product = -1;
    for (int i = 0; i < m->node_count; i++) {
        const struct zt_op *op = m->g->nodes[m->node[i]]->op;
        if (op && op->flops && !(op->flags & ZT_OP_SUMS) && m->node[i] > product)
            product = m->node[i];
    }
    return m->g->nodes[product >= 0 ? product : m->root]->name;
}

int zt_match_replace(struct zt_match *m, const char *op_type, const int *in, int in_count) {
    for (int i = 0; i < m->node_count; i++)
        m->g->nodes[m->node[i]]->dead = true;
    return add_node(m, name_of(m), op_type, in, in_count, zt_match_result(m));
}

static bool all_constant(const struct zt_graph *g, int node) {
    for (int i = 0; i < g->nodes[node]->in_count; i++) {
        const struct zt_value *v = zt_in(g, node, i);
        if (v && !zt_value_is_constant(v))
            return false;
    }
    return true;
}

int zt_match_before(struct zt_match *m, const struct zt_op_table *table, const struct zt_match_node *spec,
                    struct zt_err *err) {
    struct zt_graph *g = m->g;
    int out = zt_graph_add_value(g, NULL, ZT_UNDEFINED, NULL);
    int node = add_node(m, name_of(m), spec->op_type, spec->in, spec->in_count, out);
    if (spec->list)
        zt_node_set_ints(g, node, spec->list->attr, spec->list->at, spec->list->count);
    if (spec->flag)
        zt_node_set_int(g, node, spec->flag, 1);
    if (!zt_match_done(m, table, node, err))
        return -1;
    if (!all_constant(g, node))
        return out;
    if (!zt_eval_node(g, node, g->arena, NULL, 1, err))
        return -1;
    g->nodes[node]->dead = true;
    g->values[out]->origin = ZT_FROM_CONSTANT;
    g->values[out]->producer = -1;
    return out;
}

int zt_match_reshape(struct zt_match *m, const struct zt_op_table *table, int value, const struct zt_shape *shape,
                     struct zt_err *err) {
    const struct zt_value *v = m->g->values[value];
    const struct zt_node *from = v->origin == ZT_FROM_NODE && v->producer >= 0 ? m->g->nodes[v->producer] : NULL;
    if (zt_shape_equal(&v->shape, shape))
        return value;
    if ((zt_node_is(from, "Reshape") || zt_node_is(from, "Unsqueeze")) &&
        zt_shape_equal(&m->g->values[from->in[0]]->shape, shape))
        return from->in[0];
    int in[2] = { value, zt_graph_add_ints(m->g, NULL, shape->dim, shape->rank) };
    return zt_match_before(m, table, &(struct zt_match_node){ "Reshape", in, 2 }, err);
}

bool zt_match_done(struct zt_match *m, const struct zt_op_table *table, int node, struct zt_err *err) {
    return zt_fuse_settle(m->g, table, node, err);
}

bool zt_match_trains(const struct zt_match *m, int value) {
    enum { MOST = 256 };
    int seen[MOST], count = 1;
    seen[0] = value;
    for (int at = 0; at < count; at++) {
        const struct zt_value *v = m->g->values[seen[at]];
        const struct zt_node *n = v->origin == ZT_FROM_NODE && v->producer >= 0 ? m->g->nodes[v->producer] : NULL;
        if (v->trainable)
            return true;
        for (int i = 0; n && zt_dtype_in(v->dtype, ZT_ANY_FLOAT) && i < n->in_count; i++) {
            bool known = n->in[i] < 0;
            for (int k = 0; k < count && !known; k++)
                known = seen[k] == n->in[i];
            if (!known && count == MOST)
                return true;
            if (!known)
                seen[count++] = n->in[i];
        }
    }
    return false;
}
