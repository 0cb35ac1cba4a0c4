/* The geometry of recurrent nodes, read from the node (recurrent.h). It needs no table of rows, because the CUDA module
 * has it too.
 */
#include "ops/recurrent/recurrent.h"

#include <math.h>
#include <string.h>

/* ---- attributes ---- */

static bool read_direction(const struct zt_graph *g, int node, struct zt_recurrent *to, struct zt_err *err) {
    const char *name = zt_attr_text(g->nodes[node], "direction", "forward");
    to->directions = strcmp(name, "bidirectional") == 0 ? 2 : 1;
    to->reverse = strcmp(name, "reverse") == 0;
    if (to->directions == 1 && !to->reverse && strcmp(name, "forward") != 0)
        return zt_node_fail(g, node, err, "direction = \"%s\", allowed forward, reverse, bidirectional", name);
    return true;
}

/* The next number of a list for a function that reads one; a list may be shorter than its functions. */
static void next_number(bool reads, const float *list, int count, int *at, double *to) {
    if (reads && *at < count)
        *to = (double)list[(*at)++];
}

/* Numbers are handed out in the order of the functions, to those that read any (as onnxruntime does). */
static bool read_functions(const struct zt_graph *g, int node, struct zt_recurrent *to, struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    const struct zt_attr *names = zt_node_attr(n, "activations");
    int alphas, betas, alpha_at = 0, beta_at = 0, wanted = to->cell->functions * (int)to->directions;
    const float *alpha = zt_attr_floats(n, "activation_alpha", &alphas);
    const float *beta = zt_attr_floats(n, "activation_beta", &betas);
    if (names && names->count < wanted)
        return zt_node_fail(g, node, err, "activations: %d names, wants %d", names->count, wanted);
    for (int i = 0; i < wanted; i++) {
        struct zt_gate_function *f = &to->function[i / to->cell->functions][i % to->cell->functions];
        const char *name = names ? names->strings[i] : to->cell->usual[i % to->cell->functions];
        bool reads_alpha, reads_beta;
        if (!zt_gate_find(name, f, &reads_alpha, &reads_beta))
            return zt_node_fail(g, node, err, "activations: \"%s\" is no activation function", name);
        next_number(reads_alpha, alpha, alphas, &alpha_at, &f->alpha);
        next_number(reads_beta, beta, betas, &beta_at, &f->beta);
    }
    return true;
}

static bool read_attributes(const struct zt_graph *g, int node, struct zt_recurrent *to, struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    to->clip = (double)zt_attr_float(n, "clip", INFINITY);
    if (!(to->clip > 0))
        return zt_node_fail(g, node, err, "clip = %g, wants more than 0", to->clip);
    to->on = to->cell->switch_name && zt_attr_int(n, to->cell->switch_name, 0);
    return read_direction(g, node, to, err) && read_functions(g, node, to, err);
}

/* ---- shapes ---- */

/* Input numbers of W, R, B, sequence_lens, initial_h, initial_c and P. */
enum { AT_W = 1, AT_R, AT_B, AT_LENGTHS, AT_H, AT_C, AT_P };

static bool check(const struct zt_graph *g, int node, int in, struct zt_shape want, struct zt_err *err) {
    const struct zt_value *v = zt_in(g, node, in);
    char have[ZT_SHAPE_TEXT], text[ZT_SHAPE_TEXT];
    if (!v || zt_shape_equal(&v->shape, &want))
        return true;
    return zt_node_fail(g, node, err, "input \"%s\" has shape %s, wants %s", v->name, zt_shape_text(&v->shape, have),
                        zt_shape_text(&want, text));
}

struct zt_shape zt_recurrent_state_shape(const struct zt_recurrent *r) {
    return r->rows_first ? (struct zt_shape){ 3, { r->rows, r->directions, r->hidden } }
                         : (struct zt_shape){ 3, { r->directions, r->rows, r->hidden } };
}

static bool check_inputs(const struct zt_recurrent *r, const struct zt_graph *g, int node, struct zt_err *err) {
    int64_t wide = r->cell->gates * r->hidden;
    struct zt_shape state = zt_recurrent_state_shape(r);
    return check(g, node, AT_W, (struct zt_shape){ 3, { r->directions, wide, r->input } }, err) &&
           check(g, node, AT_R, (struct zt_shape){ 3, { r->directions, wide, r->hidden } }, err) &&
           check(g, node, AT_B, (struct zt_shape){ 2, { r->directions, 2 * wide } }, err) &&
           check(g, node, AT_LENGTHS, (struct zt_shape){ 1, { r->rows } }, err) && check(g, node, AT_H, state, err) &&
           (r->cell->ins <= AT_C || check(g, node, AT_C, state, err)) &&
           (r->cell->ins <= AT_P ||
            check(g, node, AT_P, (struct zt_shape){ 2, { r->directions, 3 * r->hidden } }, err));
}

static void read_strides(struct zt_recurrent *to) {
    bool rows_first = to->rows_first;
    int64_t wide = to->directions * to->hidden;
    to->x_step = rows_first ? to->input : to->rows * to->input;
    to->x_row = rows_first ? to->steps * to->input : to->input;
    to->y_step = rows_first ? wide : to->rows * wide;
    to->y_row = rows_first ? to->steps * wide : to->hidden;
    to->y_direction = rows_first ? to->hidden : to->rows * to->hidden;
    to->h_row = rows_first ? wide : to->hidden;
    to->h_direction = rows_first ? to->hidden : to->rows * to->hidden;
}

/* The sizes of a direction stay far below 2^62. */
static bool check_size(const struct zt_recurrent *r, const struct zt_graph *g, int node, struct zt_err *err) {
    double steps = (double)r->steps + 1, rows = (double)r->rows, input = (double)r->input, hidden = (double)r->hidden;
    double wide = 10 * (hidden + 1);
    if (steps * (rows + 1) * (wide + input) + wide * (input + wide) < 0x1p55)
        return true;
    return zt_node_fail(g, node, err, "%lld steps of %lld rows with %lld hidden units are beyond any memory",
                        (long long)r->steps, (long long)r->rows, (long long)r->hidden);
}

bool zt_recurrent_read(const struct zt_cell *cell, const struct zt_graph *g, int node, struct zt_recurrent *to,
                       struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0), *recurrent = zt_in(g, node, AT_R);
    *to = (struct zt_recurrent){ .cell = cell };
    if (x->shape.rank != 3 || recurrent->shape.rank != 3)
        return zt_node_fail(g, node, err, "inputs \"%s\" and \"%s\" have rank %d and %d, want 3", x->name,
                            recurrent->name, x->shape.rank, recurrent->shape.rank);
    to->rows_first = zt_attr_int(g->nodes[node], "layout", 0) != 0;
    to->steps = x->shape.dim[to->rows_first];
    to->rows = x->shape.dim[!to->rows_first];
    to->input = x->shape.dim[2];
    to->hidden = recurrent->shape.dim[2];
    int64_t hidden = zt_attr_int(g->nodes[node], "hidden_size", to->hidden);
    if (hidden != to->hidden)
        return zt_node_fail(g, node, err, "hidden_size = %lld, but \"%s\" is made for %lld", (long long)hidden,
                            recurrent->name, (long long)to->hidden);
    if (!read_attributes(g, node, to, err) || !check_size(to, g, node, err))
        return false;
    read_strides(to);
    return check_inputs(to, g, node, err);
}
