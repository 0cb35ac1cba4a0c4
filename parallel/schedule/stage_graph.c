/* Cuts one stage out of the training graph. A value computed on stage a and read on stage b crosses every boundary in
 * between, forward values downwards, gradients upwards: the stages in between relay a skip connection.
 *
 *     stage 0        stage 1        stage 2            x computed on 0, read on 2:
 *        x ----------> x ------------> x               0 sends x, 1 receives and sends x, 2 receives x
 *
 * All stages list the boundary tensors of a boundary in the order of value ids, which is the same on every rank. */
#include "parallel/schedule/stage_graph.h"

#include "graph/ir/op.h"

#include <stdlib.h>
#include <string.h>

/* By value: the stage that computes it, and the stages that read it. */
struct reach {
    int home;     /* -1: constants and parameters, which every stage that reads them holds */
    int up, down; /* lowest and highest stage that reads it */
    bool backward;
};

static struct reach *find_reach(const struct zt_training_graph *training_graph, int last_stage) {
    const struct zt_graph *g = training_graph->graph;
    struct reach *r = zt_malloc(((size_t)g->value_count + 1) * sizeof *r);
    for (int v = 0; v < g->value_count; v++) {
        int n = g->values[v]->producer;
        r[v] = (struct reach){ -1, last_stage + 1, -1, false };
        if (n >= 0)
            r[v] = (struct reach){ g->nodes[n]->stage, g->nodes[n]->stage, g->nodes[n]->stage,
                                   g->nodes[n]->phase == ZT_BACKWARD };
    }
    for (int i = 0; i < training_graph->column_count; i++) /* data are loaded on the first and the last stage */
        if (training_graph->columns[i] >= 0)
            r[training_graph->columns[i]] = (struct reach){ 0, 0, 0, false };
    for (int n = 0; n < g->node_count; n++) {
        for (int i = 0; i < g->nodes[n]->in_count; i++) {
            int v = g->nodes[n]->in[i], stage = g->nodes[n]->stage;
            if (v < 0 || r[v].home < 0 || (g->values[v]->producer < 0 && stage == last_stage))
                continue;
            if (stage < r[v].up)
                r[v].up = stage;
            if (stage > r[v].down)
                r[v].down = stage;
        }
    }
    return r;
}

static void list(struct zt_program *p, struct zt_boundary_tensors *to, const struct reach *r, bool backward, int low) {
    const struct zt_graph *g = p->training_graph.graph;
    to->at = ZT_NEW_N(p->arena, struct zt_boundary_tensor, g->value_count + 1);
    for (int v = 0; v < g->value_count; v++) { /* over the boundary between stages low and low + 1 */
        bool crosses = r[v].home >= 0 && r[v].backward == backward &&
                       (backward ? r[v].home > low && r[v].up <= low : r[v].home <= low && r[v].down > low);
        if (crosses)
            to->at[to->count++] = (struct zt_boundary_tensor){ v, (size_t)zt_value_bytes(g->values[v]) };
    }
}

static void forget(int *id, const bool *here) {
    if (*id >= 0 && !here[*id])
        *id = -1;
}

/* Ids of values that this stage neither makes nor reads, and that are no gradient as they are, become -1. */
static void forget_absent(struct zt_program *p) {
    struct zt_training_graph *j = &p->training_graph;
    bool *here = zt_calloc((size_t)j->graph->value_count + 1, sizeof *here);
    for (int n = 0; n < j->graph->node_count; n++) {
        const struct zt_node *node = j->graph->nodes[n];
        for (int i = 0; i < node->in_count; i++)
            if (node->in[i] >= 0)
                here[node->in[i]] = true;
        for (int i = 0; i < node->out_count; i++)
            if (node->out[i] >= 0)
                here[node->out[i]] = true;
    }
    for (int i = 0; j->training && i < j->param_count; i++)
        if (j->grads[i] >= 0)
            here[j->grads[i]] = true;
    int *const ids[] = { &j->loss, &j->seed, &j->row_weight, &j->correct, &j->counted };
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        forget(ids[i], here);
    for (int i = 0; i < j->column_count; i++)
        forget(&j->columns[i], here);
    free(here);
}

bool zt_program_stage_graph(struct zt_program *p, int stages, struct zt_err *err) {
    struct zt_graph *g = p->training_graph.graph;
    if (stages > 1) {
        struct reach *r = find_reach(&p->training_graph, stages - 1);
        if (p->stage > 0) {
            list(p, &p->recv_act, r, false, p->stage - 1);
            list(p, &p->send_grad, r, true, p->stage - 1);
        }
        if (p->stage < stages - 1) {
            list(p, &p->send_act, r, false, p->stage);
            list(p, &p->recv_grad, r, true, p->stage);
        }
        free(r);
        for (int n = 0; n < g->node_count; n++)
            g->nodes[n]->dead = g->nodes[n]->stage != p->stage;
        for (int i = 0; i < p->recv_act.count; i++)
            g->values[p->recv_act.at[i].value]->origin = ZT_FROM_INPUT;
        for (int i = 0; i < p->recv_grad.count; i++)
            g->values[p->recv_grad.at[i].value]->origin = ZT_FROM_INPUT;
        int count = 0;
        for (int i = 0; i < g->write_back_count; i++)
            if (!g->nodes[g->values[g->write_backs[i].value]->producer]->dead)
                g->write_backs[count++] = g->write_backs[i];
        g->write_back_count = count;
        if (!zt_graph_sort(g, err))
            return false;
    }
    forget_absent(p);
    return true;
}
