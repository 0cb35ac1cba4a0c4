/* Reading recurrent nodes, their shape rules and gradient rules. */
#include "ops/recurrent.h"

#include "ops/train.h"

#include <math.h>
#include <string.h>

/* ---- attributes ---- */

static bool read_direction(const struct zt_graph *g, int node, struct zt_recurrent *to, struct zt_err *err) {
    const char *name = zt_attr_text(&g->nodes[node], "direction", "forward");
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
    const struct zt_node *n = &g->nodes[node];
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
    const struct zt_node *n = &g->nodes[node];
    to->clip = (double)zt_attr_float(n, "clip", INFINITY);
    if (!(to->clip > 0))
        return zt_node_fail(g, node, err, "clip = %g, wants more than 0", to->clip);
    to->on = to->cell->switch_name && zt_attr_int(n, to->cell->switch_name, 0);
    return read_direction(g, node, to, err) && read_functions(g, node, to, err);
}

/* ---- shapes ---- */

/* Where W, R, B, sequence_lens, initial_h, initial_c and P stand. */
enum { AT_W = 1, AT_R, AT_B, AT_LENGTHS, AT_H, AT_C, AT_P };

static bool check(const struct zt_graph *g, int node, int in, struct zt_shape want, struct zt_err *err) {
    const struct zt_value *v = zt_in(g, node, in);
    char have[ZT_SHAPE_TEXT], text[ZT_SHAPE_TEXT];
    if (!v || zt_shape_equal(&v->shape, &want))
        return true;
    return zt_node_fail(g, node, err, "input \"%s\" has shape %s, wants %s", v->name, zt_shape_text(&v->shape, have),
                        zt_shape_text(&want, text));
}

static struct zt_shape state_shape(const struct zt_recurrent *r) {
    return r->rows_first ? (struct zt_shape){ 3, { r->rows, r->directions, r->hidden } }
                         : (struct zt_shape){ 3, { r->directions, r->rows, r->hidden } };
}

static bool check_inputs(const struct zt_recurrent *r, const struct zt_graph *g, int node, struct zt_err *err) {
    int64_t wide = r->cell->gates * r->hidden;
    struct zt_shape state = state_shape(r);
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
    to->y_turn = rows_first ? to->hidden : to->rows * to->hidden;
    to->h_row = rows_first ? wide : to->hidden;
    to->h_turn = rows_first ? to->hidden : to->rows * to->hidden;
}

/* Everything kept of a sweep stays far below 2^62. */
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
    to->rows_first = zt_attr_int(&g->nodes[node], "layout", 0) != 0;
    to->steps = x->shape.dim[to->rows_first];
    to->rows = x->shape.dim[!to->rows_first];
    to->input = x->shape.dim[2];
    to->hidden = recurrent->shape.dim[2];
    int64_t hidden = zt_attr_int(&g->nodes[node], "hidden_size", to->hidden);
    if (hidden != to->hidden)
        return zt_node_fail(g, node, err, "hidden_size = %lld, but \"%s\" is made for %lld", (long long)hidden,
                            recurrent->name, (long long)to->hidden);
    if (!read_attributes(g, node, to, err) || !check_size(to, g, node, err))
        return false;
    read_strides(to);
    return check_inputs(to, g, node, err);
}

/* ---- rows ---- */

bool zt_recurrent_infer(const struct zt_cell *cell, struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_recurrent r;
    if (!zt_recurrent_read(cell, g, node, &r, err))
        return false;
    enum zt_dtype dtype = zt_in(g, node, 0)->dtype;
    struct zt_shape state = state_shape(&r), y = { 4, { r.steps, r.directions, r.rows, r.hidden } };
    if (r.rows_first)
        y = (struct zt_shape){ 4, { r.rows, r.steps, r.directions, r.hidden } };
    zt_set_out(g, node, 0, dtype, &y);
    for (int i = 1; i < cell->outs; i++)
        zt_set_out(g, node, i, dtype, &state);
    struct zt_shape all = { 4, { r.directions, r.rows_first ? r.rows : r.steps, r.rows_first ? r.steps : r.rows, 0 } };
    for (int i = 0; i < cell->extra; i++) { /* of the training form */
        all.dim[3] = i == 0 ? cell->gates * r.hidden : r.hidden;
        zt_set_out(g, node, cell->outs + i, dtype, &all);
    }
    return true;
}

bool zt_recurrent_grad_infer(const struct zt_cell *cell, struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_recurrent r;
    if (!zt_recurrent_read(cell, g, node, &r, err))
        return false;
    for (int i = 0; i < cell->ins; i++) { /* an omitted input's gradient is never read */
        const struct zt_value *v = zt_in(g, node, i), *x = zt_in(g, node, 0);
        zt_set_out(g, node, i, x->dtype, v ? &v->shape : &(struct zt_shape){ 1, { 0 } });
    }
    return true;
}

/* Y and the outputs that only the training form has, of a node that has not got them. */
static void emit_train(const struct zt_cell *cell, struct zt_grad *b, const struct zt_node *n, const char *op,
                       int *to) {
    int out[8];
    zt_emit_node(b, op, "ztrain", n->in, n->in_count, n, NULL, 0, out, cell->outs + cell->extra);
    to[0] = out[0];
    for (int i = 0; i < cell->extra; i++)
        to[1 + i] = out[cell->outs + i];
}

bool zt_recurrent_grad(const struct zt_cell *cell, struct zt_grad *b, int node, const char *train, const char *grad) {
    const struct zt_node n = zt_grad_graph(b)->nodes[node];
    int in[16], out[8], *past = in + cell->ins;
    for (int i = 0; i < cell->ins; i++)
        in[i] = i < n.in_count ? n.in[i] : -1;
    if (n.out_count < cell->outs + cell->extra)
        emit_train(cell, b, &n, train, past);
    else
        past[0] = n.out[0];
    for (int i = 0; n.out_count == cell->outs + cell->extra && i < cell->extra; i++)
        past[1 + i] = n.out[cell->outs + i];
    for (int i = 0; i < cell->outs; i++)
        past[1 + cell->extra + i] = zt_grad_out(b, node, i);
    zt_emit_node(b, grad, "ztrain", in, cell->ins + 1 + cell->extra + cell->outs, &n, NULL, 0, out, cell->ins);
    struct zt_graph *g = zt_grad_graph(b);
    for (int i = 0; out[0] >= 0 && i < cell->ins; i++)
        if (zt_grad_wanted(b, node, i))
            zt_grad_give(b, node, i, out[i]);
        else
            g->nodes[g->node_count - 1].out[i] = -1; /* not computed */
    return true;
}

bool zt_recurrent_train(const struct zt_op *row, struct zt_graph *g, int node, const struct zt_train_options *options,
                        struct zt_err *err) {
    return options->evaluation || zt_train_rewrite(g, node, row, row->max_out, err);
}

double zt_recurrent_flops(const struct zt_cell *cell, const struct zt_graph *g, int node) {
    struct zt_recurrent r;
    struct zt_err err = { 0 };
    if (!zt_recurrent_read(cell, g, node, &r, &err))
        return 0;
    return 2.0 * (double)(r.directions * r.steps * r.rows) * (double)(r.input + r.hidden) *
           (double)(r.hidden * cell->gates);
}

bool zt_recurrent_prepare(const struct zt_cell *cell, bool backward, struct zt_prepare *p, struct zt_err *err) {
    struct zt_recurrent r;
    const struct zt_node *n = &p->graph->nodes[p->node];
    for (int i = 0; i < n->in_count; i++)
        p->in_layout[i] = NULL;
    for (int i = 0; i < n->out_count; i++)
        p->out_layout[i] = NULL;
    if (!zt_recurrent_read(cell, p->graph, p->node, &r, err))
        return false;
    p->workspace_bytes = zt_sweep_bytes(&r, backward);
    return true;
}

bool zt_recurrent_run(const struct zt_cell *cell, const struct zt_call *call, struct zt_err *err) {
    struct zt_recurrent r;
    return zt_recurrent_read(cell, call->graph, zt_call_node(call), &r, err) && zt_sweep_forward(&r, call, err);
}

bool zt_recurrent_grad_run(const struct zt_cell *cell, const struct zt_call *call, struct zt_err *err) {
    struct zt_recurrent r;
    return zt_recurrent_read(cell, call->graph, zt_call_node(call), &r, err) && zt_sweep_backward(&r, call, err);
}
