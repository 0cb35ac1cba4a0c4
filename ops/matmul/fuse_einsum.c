/* einsum: a contraction of three or more tensors as contractions of two,
 *
 *     nd,edo,ne->no  ->  neo = edo,nd     no = neo,ne
 *
 * A label is summed in the first contraction that no later tensor or the result needs it in. Of all pairs the one with
 * the fewest products comes first, and of those the one with the smaller result. In one sum over all labels every
 * product of two is made anew for each element of the others; no pair makes more products than that sum. Gradients are
 * contractions of two, too.
 *
 * einsum_axes: the axes that all three tensors of a contraction of two have become the first ones of a tensor whose
 * last axis is one of them, where its columns would not be adjacent as the result of a matrix product,
 *
 *     bikc,bjkc->bijc  ->  bcik = Transpose(bikc)     bcjk = Transpose(bjkc)
 *                          bcij = bcik,bcjk           bijc = Transpose(bcij)
 *
 * Operands too, which are results in the gradient. zt_einsum_cpu takes no other.
 */
#include "graph/passes/fusion/apply_patterns.h"
#include "graph/passes/fusion/fuse.h"
#include "ops/matmul/einsum.h"

enum { LABELS = ZT_EINSUM_LABELS, RESULT = ZT_EINSUM_OPERANDS, LETTERS = ZT_EINSUM_LETTERS };

/* The tensors that are left. */
struct contractions {
    struct zt_graph *g;
    const struct zt_op_table *table;
    int node; /* the Einsum */
    struct zt_equation e;
    int value[ZT_EINSUM_OPERANDS];
    char letter[LABELS]; /* of each label that occurs */
};

/* A pair of tensors, what it leaves, and what that takes. */
struct pair {
    int a, b;
    struct zt_equation_term result;
    double products, elements;
};

static bool holds(const struct zt_equation_term *t, int label) {
    for (int i = 0; i < t->count; i++)
        if (t->label[i] == label)
            return true;
    return false;
}

/* Gives every label a letter; false: there are more than letters. */
static bool name_labels(struct contractions *c) {
    int named = 0;
    for (int label = 0; label < LABELS; label++)
        if (c->e.dim[label] != 0) {
            if (named == LETTERS)
                return false;
            c->letter[label] = (char)(named < LETTERS / 2 ? 'a' + named : 'A' + named - LETTERS / 2);
            named++;
        }
    return true;
}

/* Whether a tensor besides the pair, or the result, has the label. */
static bool is_needed(const struct contractions *c, const struct pair *p, int label) {
    for (int n = 0; n < c->e.operands; n++)
        if (n != p->a && n != p->b && holds(&c->e.term[n], label))
            return true;
    return holds(&c->e.term[RESULT], label);
}

/* Appends the labels of the pair that are needed: those of both tensors, or of one of them alone. False: too many. */
static bool keep(const struct contractions *c, struct pair *p, bool a, bool b) {
    struct zt_equation_term *to = &p->result;
    for (int label = 0; label < LABELS; label++) {
        if (holds(&c->e.term[p->a], label) != a || holds(&c->e.term[p->b], label) != b || !is_needed(c, p, label))
            continue;
        if (to->count == ZT_MAX_RANK)
            return false;
        to->label[to->count++] = label;
    }
    return true;
}

/* The result has the labels of both first and those of one last, as batches of matrix products have them. */
static bool plan(const struct contractions *c, struct pair *p) {
    p->products = p->elements = 1;
    for (int label = 0; label < LABELS; label++)
        if (holds(&c->e.term[p->a], label) || holds(&c->e.term[p->b], label))
            p->products *= (double)c->e.dim[label];
    if (!keep(c, p, true, true) || !keep(c, p, true, false) || !keep(c, p, false, true))
        return false;
    for (int i = 0; i < p->result.count; i++)
        p->elements *= (double)c->e.dim[p->result.label[i]];
    return true;
}

static bool is_cheaper(const struct pair *p, const struct pair *than) {
    return p->products < than->products || (p->products == than->products && p->elements < than->elements);
}

static bool choose(const struct contractions *c, struct pair *best) {
    bool found = false;
    for (int a = 0; a < c->e.operands; a++)
        for (int b = a + 1; b < c->e.operands; b++) {
            struct pair p = { .a = a, .b = b };
            if (!plan(c, &p))
                continue;
            if (!found || is_cheaper(&p, best))
                *best = p;
            found = true;
        }
    return found;
}

static char *write_term(const struct contractions *c, const struct zt_equation_term *t, char *at) {
    for (int i = 0; i < t->count; i++)
        *at++ = c->letter[t->label[i]];
    return at;
}

/* Adds the contraction of a pair; its result is `to`, or a new value. Returns it; -1: failed. */
static int contract(struct contractions *c, const struct pair *p, int to, struct zt_err *err) {
    const struct zt_node *like = c->g->nodes[c->node];
    const int in[2] = { c->value[p->a], c->value[p->b] },
              out = to >= 0 ? to : zt_graph_add_value(c->g, NULL, ZT_UNDEFINED, NULL);
    char text[3 * ZT_MAX_RANK + sizeof ",->"];
    char *at = write_term(c, &c->e.term[p->a], text);
    *at++ = ',';
    at = write_term(c, &c->e.term[p->b], at);
    *at++ = '-';
    *at++ = '>';
    *write_term(c, &p->result, at) = '\0';
    const int made =
        zt_fuse_add(c->g, like, &(struct zt_node_spec){ like->name, "Einsum", "", like->opset, in, 2, &out, 1 });
    zt_node_set_text(c->g, made, "equation", zt_arena_strdup(c->g->arena, text));
    return zt_fuse_settle(c->g, c->table, made, err) ? out : -1;
}

/* The pair's result takes the place of a, and the last tensor that of b. */
static void leave(struct contractions *c, const struct pair *p, int made) {
    c->e.operands--;
    c->value[p->a] = made;
    c->e.term[p->a] = p->result;
    c->value[p->b] = c->value[c->e.operands];
    c->e.term[p->b] = c->e.term[c->e.operands];
}

/* Chooses the pairs, in their order; false where an intermediate result would have too many axes. */
static bool choose_all(struct contractions c, struct pair *order) {
    for (; c.e.operands > 2; order++) {
        if (!choose(&c, order))
            return false;
        leave(&c, order, -1);
    }
    *order = (struct pair){ .a = 0, .b = 1, .result = c.e.term[RESULT] };
    return true;
}

static bool begin(struct contractions *c, struct zt_err *err) {
    const struct zt_node *n = c->g->nodes[c->node];
    if (!zt_node_is(n, "Einsum") || !zt_equation_read(c->g, c->node, 0, &c->e, err))
        return false;
    for (int i = 0; i < n->in_count; i++)
        c->value[i] = n->in[i];
    for (int label = 0; label < LABELS; label++)
        if (c->e.dim[label] < 0) /* of no elements */
            return false;
    return name_labels(c);
}

static bool apply(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    struct contractions c = { .g = g, .table = table, .node = node };
    struct pair order[ZT_EINSUM_OPERANDS];
    if (g->nodes[node]->in_count < 3 || !begin(&c, err) || !choose_all(c, order))
        return false;
    const int pairs = c.e.operands - 1, out = g->nodes[node]->out[0];
    g->nodes[node]->dead = true;
    for (int i = 0; i < pairs; i++) {
        const int made = contract(&c, &order[i], i == pairs - 1 ? out : -1, err);
        if (made < 0)
            return false;
        leave(&c, &order[i], made);
    }
    return true;
}

/* ---- einsum_axes ---- */

enum { A, B, Y, TENSORS };

static struct zt_equation_term *term_of(struct contractions *c, int tensor) {
    return &c->e.term[tensor == Y ? RESULT : tensor];
}

static bool in_all(struct contractions *c, int label) {
    return holds(term_of(c, A), label) && holds(term_of(c, B), label) && holds(term_of(c, Y), label);
}

/* Whether `tensor` shares an axis of more than one element with `with` alone. */
static bool shares(struct contractions *c, int tensor, int with) {
    const int other = A + B + Y - tensor - with;
    for (int label = 0; label < LABELS; label++)
        if (c->e.dim[label] > 1 && holds(term_of(c, tensor), label) && holds(term_of(c, with), label) &&
            !holds(term_of(c, other), label))
            return true;
    return false;
}

/* Whether each label of the tensor stands once, and for as many elements as in the equation. */
static bool is_plain(struct contractions *c, int tensor, const struct zt_shape *shape) {
    const struct zt_equation_term *t = term_of(c, tensor);
    for (int i = 0; i < t->count; i++) {
        if (shape->dim[i] != c->e.dim[t->label[i]])
            return false;
        for (int k = 0; k < i; k++)
            if (t->label[k] == t->label[i])
                return false;
    }
    return true;
}

/* Whether the last axis of more than one element is in all tensors, and the tensor, as a result, has rows and columns.
 */
static bool ends_in_all(struct contractions *c, int tensor) {
    const struct zt_equation_term *t = term_of(c, tensor);
    int last = t->count - 1;
    while (last >= 0 && c->e.dim[t->label[last]] == 1)
        last--;
    return last >= 0 && in_all(c, t->label[last]) && shares(c, tensor, (tensor + 1) % TENSORS) &&
           shares(c, tensor, (tensor + 2) % TENSORS);
}

/* Moves the labels that are in all tensors to the front; perm[i]: the place before of the one that is now at i. */
static void move_labels(struct contractions *c, int tensor, int64_t *perm) {
    struct zt_equation_term *t = term_of(c, tensor);
    const struct zt_equation_term from = *t;
    int at = 0;
    for (int first = 1; first >= 0; first--)
        for (int i = 0; i < from.count; i++)
            if (in_all(c, from.label[i]) == first) {
                perm[at] = i;
                t->label[at++] = from.label[i];
            }
}

static bool transpose(struct contractions *c, const int64_t *perm, int count, const int value[2], struct zt_err *err) {
    const struct zt_node *like = c->g->nodes[c->node];
    const int made = zt_fuse_add(
        c->g, like, &(struct zt_node_spec){ like->name, "Transpose", "", like->opset, value, 1, value + 1, 1 });
    zt_node_set_ints(c->g, made, "perm", perm, count);
    return zt_fuse_settle(c->g, c->table, made, err);
}

static bool apply_axes(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    struct contractions c = { .g = g, .table = table, .node = node };
    const struct zt_node *n = g->nodes[node];
    int64_t perm[ZT_MAX_RANK], back[ZT_MAX_RANK];
    bool moves[TENSORS];
    if (n->in_count != 2 || !begin(&c, err) || zt_out(g, node, 0)->dtype != ZT_FLOAT)
        return false;
    for (int t = 0; t < TENSORS; t++) {
        moves[t] = ends_in_all(&c, t);
        if (!is_plain(&c, t, t == Y ? &zt_out(g, node, 0)->shape : &zt_in(g, node, t)->shape))
            return false;
    }
    if (!moves[A] && !moves[B] && !moves[Y])
        return false;
    const int out = n->out[0];
    g->nodes[node]->dead = true;
    for (int t = A; t <= B; t++)
        if (moves[t]) {
            const int value[2] = { c.value[t], zt_graph_add_value(g, NULL, ZT_UNDEFINED, NULL) };
            move_labels(&c, t, perm);
            if (!transpose(&c, perm, c.e.term[t].count, value, err))
                return false;
            c.value[t] = value[1];
        }
    if (moves[Y])
        move_labels(&c, Y, perm);
    const struct pair whole = { .a = A, .b = B, .result = c.e.term[RESULT] };
    const int made = contract(&c, &whole, moves[Y] ? -1 : out, err);
    if (made < 0 || !moves[Y])
        return made >= 0;
    for (int i = 0; i < whole.result.count; i++)
        back[perm[i]] = i;
    return transpose(&c, back, whole.result.count, (const int[2]){ made, out }, err);
}

const struct zt_pattern zt_pattern_einsum = { "einsum", ZT_FUSE_FORWARD, apply };
const struct zt_pattern zt_pattern_einsum_axes = { "einsum_axes", ZT_FUSE_FORWARD_CPU, apply_axes };
