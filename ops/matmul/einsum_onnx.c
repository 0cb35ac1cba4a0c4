/* The gradient of one Einsum operand as an Einsum (formula in einsum.c).
 *
 * Operands are expanded over broadcast axes, and the axes of an ellipsis get letters, so that the equation consists of
 * letters only. The equation multiplies dy and the other operands. The result is expanded along letters that only the
 * operand has, lies on the diagonal of repeated letters, and is summed over broadcast axes. */
#include "ops/matmul/kernels.h"
#include "ops/kernel/shape.h"

#include <ctype.h>
#include <string.h>

enum { TERMS = 10, LETTERS = 32 };

struct equation {
    struct zt_function_body *b;
    int operands;
    char term[TERMS][LETTERS]; /* letters of the operands, then of the result */
    int64_t dim[128];          /* by letter */
};

/* A letter that the text does not use, number k of them. */
static char fresh(const char *text, int k) {
    for (char c = 'A'; c <= 'z'; c++)
        if (isalpha((unsigned char)c) && !strchr(text, c) && k-- == 0)
            return c;
    return 0;
}

/* The letters of one term; `rank` axes, of which those that have no letter are the ellipsis, right-aligned. */
static void write_out(const char *text, const char *from, size_t length, int rank, char *to) {
    int letters = 0, at = 0;
    for (size_t i = 0; i < length; i++)
        letters += isalpha((unsigned char)from[i]) != 0;
    for (size_t i = 0; i < length; i++) {
        if (isalpha((unsigned char)from[i]))
            to[at++] = from[i];
        else if (strncmp(from + i, "...", 3) == 0)
            for (int k = rank - letters - 1; k >= 0; k--)
                to[at++] = fresh(text, k);
    }
    to[at] = 0;
}

/* The result term of an equation without "->": the ellipsis, then the labels that occur once, in order. */
static void imply_result(struct equation *e, const char *text, int ellipsis) {
    int at = 0;
    char *to = e->term[e->operands];
    for (int k = ellipsis - 1; k >= 0; k--)
        to[at++] = fresh(text, k);
    for (char c = 'A'; c <= 'z'; c++) {
        const char *first = isalpha((unsigned char)c) ? strchr(text, c) : NULL;
        if (first && !strchr(first + 1, c))
            to[at++] = c;
    }
    to[at] = 0;
}

static bool read_equation(struct equation *e, const char *text) {
    const char *arrow = strstr(text, "->"), *at = text, *end = arrow ? arrow : text + strlen(text);
    const struct zt_graph *g = e->b->g;
    int ellipsis = 0;
    for (int i = 0; i < e->operands; i++) {
        size_t length = strcspn(at, ",-");
        const struct zt_shape *x = &zt_in(g, e->b->node, i + 1)->shape;
        if (at > end || x->rank >= LETTERS)
            return false;
        write_out(text, at, length, x->rank, e->term[i]);
        int letters = 0;
        for (size_t k = 0; k < length; k++)
            letters += isalpha((unsigned char)at[k]) != 0;
        ellipsis = x->rank - letters > ellipsis ? x->rank - letters : ellipsis;
        for (int k = 0; k < x->rank && e->term[i][k]; k++) {
            int64_t *dim = &e->dim[(unsigned char)e->term[i][k]];
            *dim = *dim == 0 || *dim == 1 ? x->dim[k] : *dim;
        }
        at += length + 1;
    }
    if (!arrow)
        imply_result(e, text, ellipsis);
    else
        write_out(text, arrow + 2, strlen(arrow + 2), zt_in(g, e->b->node, 0)->shape.rank, e->term[e->operands]);
    return true;
}

/* NAME broadcast to full lengths */
static void write_full(struct equation *e, const char *name, const char *term) {
    struct zt_shape full = { (int)strlen(term), { 0 } };
    for (int k = 0; k < full.rank; k++)
        full.dim[k] = e->dim[(unsigned char)term[k]];
    zt_function_body_add(e->b, "%s = Expand(%s, %s)", name, name, zt_function_body_dims(e->b, &full));
}

/* dx from `part`, which has the letters `made`, in the order of the operand's. */
static void write_expanded(struct equation *e, const char *term, const char *made, const struct zt_shape *x) {
    struct zt_function_body *b = e->b;
    struct zt_shape shape = { x->rank, { 0 } }, full = shape;
    int64_t broadcast[ZT_MAX_RANK];
    int count = 0;
    for (int k = 0; k < x->rank; k++) {
        full.dim[k] = e->dim[(unsigned char)term[k]];
        shape.dim[k] = strchr(made, term[k]) && strchr(term, term[k]) == term + k ? full.dim[k] : 1;
        if (x->dim[k] != full.dim[k])
            broadcast[count++] = k;
    }
    zt_function_body_add(b, "dx = Expand(Reshape(part, %s), %s)", zt_function_body_dims(b, &shape),
                         zt_function_body_dims(b, &full));
    for (int k = 0; k < x->rank; k++) {
        int first = (int)(strchr(term, term[k]) - term);
        struct zt_shape first_axis = { x->rank, { 1, 1, 1, 1, 1, 1, 1, 1 } }, this_axis = first_axis;
        first_axis.dim[first] = this_axis.dim[k] = full.dim[k];
        const char *places = zt_function_body_range(b, full.dim[k]);
        if (first != k)
            zt_function_body_add(b, "dx = Where(Equal(Reshape(%s, %s), Reshape(%s, %s)), dx, 0)", places,
                                 zt_function_body_dims(b, &first_axis), places, zt_function_body_dims(b, &this_axis));
    }
    if (count)
        zt_function_body_add(b, "dx = ReduceSum(dx, %s)", zt_function_body_list(b, broadcast, count));
}

ZT_FUNCTION_BODY(zt_einsum_grad_function_body) {
    const struct zt_node *n = g->nodes[node];
    struct equation e = { .b = b, .operands = n->in_count - 1 };
    int operand = (int)zt_attr_int(n, "operand", 0), at = 0;
    const char *names = "dy", *inputs = "dy", *terms = "";
    for (int i = 0; i < e.operands; i++)
        names = zt_function_body_text(b, i == operand ? "%s, _" : "%s, x_%d", names, i);
    if (e.operands >= TERMS || !read_equation(&e, zt_attr_text(n, "equation", "")))
        return zt_node_fail(g, node, err, "cannot be emitted: its equation is too long");
    zt_function_body_names(b, zt_function_body_text(b, "%s -> dx", names));
    write_full(&e, "dy", e.term[e.operands]);
    terms = e.term[e.operands];
    for (int i = 0; i < e.operands; i++) {
        if (i == operand)
            continue;
        write_full(&e, zt_function_body_text(b, "x_%d", i), e.term[i]);
        inputs = zt_function_body_text(b, "%s, x_%d", inputs, i);
        terms = zt_function_body_text(b, "%s,%s", terms, e.term[i]);
    }
    char made[LETTERS] = "";
    const char *own = e.term[operand];
    for (int k = 0; own[k]; k++)
        if (strchr(terms, own[k]) && strchr(own, own[k]) == own + k)
            made[at++] = own[k];
    zt_function_body_add(b, "part = Einsum<equation=\"%s->%s\">(%s)", terms, made, inputs);
    write_expanded(&e, own, made, &zt_out(g, node, 0)->shape);
    return true;
}
