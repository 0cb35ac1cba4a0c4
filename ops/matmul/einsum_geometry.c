/* The equation of Einsum and its contraction, read from the node (einsum.h). */
#include "ops/matmul/einsum.h"

#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"

#include <string.h>

enum {
    LETTERS = ZT_EINSUM_LETTERS,
    LABELS = ZT_EINSUM_LABELS,
    OPERANDS = ZT_EINSUM_OPERANDS,
    RESULT = OPERANDS,
    DOTS = -1
};

static bool fail_equation(const struct zt_graph *g, int node, const char *text, const char *why, struct zt_err *err) {
    return zt_node_fail(g, node, err, "equation \"%s\": %s", text, why);
}

/* Letters in ASCII order, so that the implicit output is in order of label. */
static int label_of(char c) {
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    return c >= 'a' && c <= 'z' ? c - 'a' + 26 : -2;
}

/* One term of `text` up to a comma, an arrow or the end: letters and DOTS. NULL where it is not one; else what follows.
 */
static const char *read_term(const char *text, struct zt_equation_term *to) {
    for (to->count = 0; *text && *text != ',' && *text != '-'; text++) {
        int label = label_of(*text);
        if (*text == ' ')
            continue;
        if (strncmp(text, "...", 3) == 0) {
            label = DOTS;
            text += 2;
        }
        if (label < DOTS || to->count == ZT_MAX_RANK)
            return NULL;
        to->label[to->count++] = label;
    }
    return text;
}

/* Replaces DOTS by the labels of `axes` axes, right-aligned. */
static bool expand_dots(struct zt_equation_term *t, int axes) {
    for (int i = 0; i < t->count; i++) {
        if (t->label[i] != DOTS)
            continue;
        if (t->count - 1 + axes > ZT_MAX_RANK)
            return false;
        memmove(t->label + i + axes, t->label + i + 1, sizeof *t->label * (size_t)(t->count - i - 1));
        t->count += axes - 1;
        for (int k = 0; k < axes; k++)
            t->label[i + k] = LABELS - axes + k;
        i += axes - 1;
    }
    return true;
}

static int dots_in(const struct zt_equation_term *t) {
    int dots = 0;
    for (int i = 0; i < t->count; i++)
        dots += t->label[i] == DOTS;
    return dots;
}

/* Binds the labels of operand `n` to its dims. */
static bool bind(struct zt_equation *e, int n, const struct zt_shape *shape) {
    struct zt_equation_term *t = &e->term[n];
    int dots = dots_in(t);
    if (dots > 1 || (dots ? shape->rank < t->count - 1 : shape->rank != t->count) ||
        !expand_dots(t, shape->rank - (t->count - dots)))
        return false;
    for (int k = 0; k < t->count; k++) {
        int64_t *dim = &e->dim[t->label[k]], size = shape->dim[k] == 0 ? -1 : shape->dim[k];
        if (*dim > 1 && size != *dim && size != 1)
            return false;
        if (*dim == -1 && size > 1)
            return false;
        if (*dim == 0 || *dim == 1)
            *dim = size;
    }
    return true;
}

/* The output without an arrow: ellipsis axes, then the letters that appear once, in order. */
static void implicit_output(struct zt_equation *e) {
    int seen[LABELS] = { 0 };
    struct zt_equation_term *out = &e->term[RESULT];
    for (int n = 0; n < e->operands; n++)
        for (int k = 0; k < e->term[n].count; k++)
            seen[e->term[n].label[k]]++;
    out->count = 0;
    for (int label = LETTERS; label < LABELS; label++)
        if (seen[label] && out->count < ZT_MAX_RANK)
            out->label[out->count++] = label;
    for (int label = 0; label < LETTERS; label++)
        if (seen[label] == 1 && out->count < ZT_MAX_RANK)
            out->label[out->count++] = label;
}

static bool explicit_output(struct zt_equation *e) {
    int axes = 0;
    for (int label = LETTERS; label < LABELS; label++)
        axes += e->dim[label] != 0;
    bool seen[LABELS] = { false };
    struct zt_equation_term *out = &e->term[RESULT];
    if (dots_in(out) > 1 || !expand_dots(out, axes))
        return false;
    for (int k = 0; k < out->count; k++) {
        if (seen[out->label[k]] || e->dim[out->label[k]] == 0)
            return false;
        seen[out->label[k]] = true;
    }
    return true;
}

static bool read_equation(const struct zt_graph *g, int node, const struct zt_shape *const *shapes, int operands,
                          struct zt_equation *e, struct zt_err *err) {
    const char *text = zt_attr_text(g->nodes[node], "equation", ""), *at = text;
    memset(e, 0, sizeof *e);
    e->operands = operands;
    if (operands > OPERANDS)
        return zt_node_fail(g, node, err, "has %d operands, at most %d are supported", operands, OPERANDS);
    for (int n = 0; n < operands; n++) {
        at = read_term(n ? at + 1 : at, &e->term[n]);
        if (!at || (n + 1 < operands && *at != ','))
            return fail_equation(g, node, text, "its terms are not those of the inputs", err);
        if (!bind(e, n, shapes[n]))
            return fail_equation(g, node, text, "a term does not fit the shape of its input", err);
    }
    if (*at == '\0')
        implicit_output(e);
    else if (strncmp(at, "->", 2) != 0 || !(at = read_term(at + 2, &e->term[RESULT])) || *at || !explicit_output(e))
        return fail_equation(g, node, text, "its output term is not one of the operands' labels", err);
    e->out.rank = e->term[RESULT].count;
    for (int k = 0; k < e->out.rank; k++)
        e->out.dim[k] = zt_max_int(e->dim[e->term[RESULT].label[k]], 0);
    return true;
}

bool zt_equation_read(const struct zt_graph *g, int node, int first, struct zt_equation *e, struct zt_err *err) {
    const struct zt_shape *shapes[OPERANDS];
    int operands = g->nodes[node]->in_count - first;
    for (int n = 0; n < operands && n < OPERANDS; n++) {
        const struct zt_value *v = zt_in(g, node, first + n);
        if (!v)
            return zt_node_fail(g, node, err, "input %d is missing", first + n);
        shapes[n] = &v->shape;
    }
    return read_equation(g, node, shapes, operands, e, err);
}

static int64_t step_of(const struct zt_equation_term *t, const struct zt_shape *shape, int label) {
    int64_t stride[ZT_MAX_RANK], step = 0;
    zt_shape_strides(shape, stride);
    for (int k = 0; k < t->count; k++)
        if (t->label[k] == label && shape->dim[k] != 1)
            step += stride[k];
    return step;
}

static bool has_label(const struct zt_equation_term *t, const struct zt_shape *shape, int label, int64_t dim) {
    for (int k = 0; k < t->count; k++)
        if (t->label[k] == label && shape->dim[k] == dim)
            return true;
    return false;
}

/* The axes of the result first, then those summed over; terms[n] belongs to operand n, terms[RESULT] to the result. */
static void plan(struct zt_contraction *c, const struct zt_graph *g, int node, const struct zt_equation *e,
                 const struct zt_equation_term *const *terms) {
    const struct zt_shape *result = &zt_out(g, node, 0)->shape;
    c->axes = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int label = 0; label < LABELS; label++) {
            int64_t dim = zt_max_int(e->dim[label], 0);
            bool in_result = has_label(terms[RESULT], result, label, dim);
            if (e->dim[label] == 0 || in_result != (pass == 0))
                continue;
            c->dim[c->axes] = dim;
            for (int n = 0; n < c->operands; n++)
                c->step[n][c->axes] = step_of(terms[n], &zt_in(g, node, c->in[n])->shape, label);
            c->step[c->operands][c->axes++] = in_result ? step_of(terms[RESULT], result, label) : 0;
        }
        if (pass == 0)
            c->result_axes = c->axes;
    }
}

bool zt_contraction_read(const struct zt_graph *g, int node, bool grad, struct zt_contraction *to, struct zt_err *err) {
    struct zt_equation e;
    const struct zt_equation_term *terms[OPERANDS + 1];
    if (!zt_equation_read(g, node, grad, &e, err))
        return false;
    int wanted = grad ? (int)zt_attr_int(g->nodes[node], "operand", 0) : RESULT;
    to->operands = e.operands;
    terms[RESULT] = &e.term[wanted];
    for (int n = 0; n < e.operands; n++) {
        to->in[n] = n == wanted ? 0 : grad + n; /* dy takes the place of the operand whose gradient is made */
        terms[n] = n == wanted ? &e.term[RESULT] : &e.term[n];
    }
    plan(to, g, node, &e, terms);
    return true;
}
