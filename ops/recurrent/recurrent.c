/* Shape rules and gradient rules of recurrent nodes. */
#include "ops/recurrent/kernels.h"
#include "ops/recurrent/recurrent.h"

#include "ops/kernel/training_form.h"

bool zt_recurrent_takes_cuda(const struct zt_cell *cell, const struct zt_graph *g, int node) {
    struct zt_recurrent r;
    struct zt_err err = { 0 };
    if (zt_in(g, node, 0)->dtype != ZT_FLOAT || !zt_recurrent_read(cell, g, node, &r, &err))
        return false;
    bool plain = zt_cuda_size(r.steps * r.rows) && zt_cuda_size(r.input) && zt_cuda_size(r.hidden);
    for (int i = 0; plain && i < cell->functions * (int)r.directions; i++)
        plain = zt_gate_plain(&r.function[i / cell->functions][i % cell->functions]) >= 0;
    return plain;
}

/* ---- rows ---- */

bool zt_recurrent_infer(const struct zt_cell *cell, struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_recurrent r;
    if (!zt_recurrent_read(cell, g, node, &r, err))
        return false;
    enum zt_dtype dtype = zt_in(g, node, 0)->dtype;
    struct zt_shape state = zt_recurrent_state_shape(&r), y = { 4, { r.steps, r.directions, r.rows, r.hidden } };
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
    zt_emit_node(b, &(struct zt_emission){ op, "ztrain", n->in, n->in_count, n }, out, cell->outs + cell->extra);
    to[0] = out[0];
    for (int i = 0; i < cell->extra; i++)
        to[1 + i] = out[cell->outs + i];
}

bool zt_recurrent_grad(const struct zt_cell *cell, struct zt_grad *b, int node, const char *train, const char *grad) {
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    int in[16], out[8], *past = in + cell->ins;
    for (int i = 0; i < cell->ins; i++)
        in[i] = i < n->in_count ? n->in[i] : -1;
    if (n->out_count < cell->outs + cell->extra)
        emit_train(cell, b, n, train, past);
    else
        past[0] = n->out[0];
    for (int i = 0; n->out_count == cell->outs + cell->extra && i < cell->extra; i++)
        past[1 + i] = n->out[cell->outs + i];
    for (int i = 0; i < cell->outs; i++)
        past[1 + cell->extra + i] = zt_grad_out(b, node, i);
    zt_emit_node(b, &(struct zt_emission){ grad, "ztrain", in, cell->ins + 1 + cell->extra + cell->outs, n }, out,
                 cell->ins);
    struct zt_graph *g = zt_grad_graph(b);
    for (int i = 0; out[0] >= 0 && i < cell->ins; i++)
        if (zt_grad_wanted(b, node, i))
            zt_grad_give(b, node, i, out[i]);
        else
            g->nodes[g->node_count - 1]->out[i] = -1; /* not computed */
    return true;
}

bool zt_recurrent_train(const struct zt_op *row, struct zt_graph *g, int node, const struct zt_train_options *options,
                        struct zt_err *err) {
    return options->evaluation || zt_train_rewrite(g, node, row, row->max_out, err);
}

/* Of the products of all steps with the hidden weights, and with those of the input where `input`. */
static double flops_of(const struct zt_cell *cell, const struct zt_graph *g, int node, bool input) {
    struct zt_recurrent r;
    struct zt_err err = { 0 };
    if (!zt_recurrent_read(cell, g, node, &r, &err))
        return 0;
    return 2.0 * (double)(r.directions * r.steps * r.rows) * (double)(r.hidden + (input ? r.input : 0)) *
           (double)(r.hidden * cell->gates);
}

double zt_recurrent_flops(const struct zt_cell *cell, const struct zt_graph *g, int node) {
    return flops_of(cell, g, node, true);
}

double zt_recurrent_grad_flops(const struct zt_cell *cell, const struct zt_graph *g, int node) {
    return flops_of(cell, g, node, true) + flops_of(cell, g, node, zt_out(g, node, 0));
}

bool zt_recurrent_prepare(const struct zt_cell *cell, bool backward, struct zt_prepare *p, struct zt_err *err) {
    struct zt_recurrent r;
    const struct zt_node *n = p->graph->nodes[p->node];
    for (int i = 0; i < n->in_count; i++)
        p->in_layout[i] = NULL;
    for (int i = 0; i < n->out_count; i++)
        p->out_layout[i] = NULL;
    if (!zt_recurrent_read(cell, p->graph, p->node, &r, err))
        return false;
    p->workspace_bytes = zt_time_loop_bytes(&r, backward);
    return true;
}

bool zt_recurrent_run(const struct zt_cell *cell, const struct zt_call *call, struct zt_err *err) {
    struct zt_recurrent r;
    return zt_recurrent_read(cell, call->graph, zt_call_node(call), &r, err) && zt_time_loop_forward(&r, call, err);
}

bool zt_recurrent_grad_run(const struct zt_cell *cell, const struct zt_call *call, struct zt_err *err) {
    struct zt_recurrent r;
    return zt_recurrent_read(cell, call->graph, zt_call_node(call), &r, err) && zt_time_loop_backward(&r, call, err);
}
