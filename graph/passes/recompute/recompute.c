#include "graph/passes/recompute/recompute.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

enum { PRODUCT_FLOPS = 16 }; /* FLOPs per input and output element from which a node counts as a matrix product */

/* Random ops can be recomputed if an attribute `key` selects their random numbers. */
static bool takes_key(const struct zt_op *op) {
    for (const struct zt_attr_spec *s = op->attrs; s && s->name; s++)
        if (strcmp(s->name, "key") == 0)
            return true;
    return false;
}

static double elements_around(const struct zt_graph *g, int node) {
    double count = 0;
    for (int i = 0; i < g->nodes[node]->in_count; i++)
        count += zt_in(g, node, i) ? (double)zt_shape_count(&zt_in(g, node, i)->shape) : 0;
    for (int i = 0; i < g->nodes[node]->out_count; i++)
        count += zt_out(g, node, i) ? (double)zt_shape_count(&zt_out(g, node, i)->shape) : 0;
    return count;
}

static void analyse_forward(struct zt_forward *f, const struct zt_graph *g, const struct zt_graph_roots *roots) {
    *f = (struct zt_forward){ .g = g, .from_params = zt_graph_from_params(g) };
    while (f->count < g->node_count && g->nodes[f->count]->phase == ZT_FORWARD)
        f->count++;
    f->root = zt_calloc((size_t)g->value_count + 1, sizeof *f->root);
    f->bytes = zt_calloc((size_t)g->value_count + 1, sizeof *f->bytes);
    f->fixed = zt_calloc((size_t)f->count + 1, sizeof *f->fixed);
    f->matrix_product = zt_calloc((size_t)f->count + 1, sizeof *f->matrix_product);
    for (int i = 0; i < roots->output_count; i++)
        if (roots->outputs[i] >= 0)
            f->root[roots->outputs[i]] = true;
    for (int i = 0; i < g->value_count; i++)
        f->bytes[i] = g->values[i]->producer >= 0 ? zt_value_bytes(g->values[i]) : 0;
    for (int n = 0; n < f->count; n++) {
        const struct zt_node *node = g->nodes[n];
        f->fixed[n] = node->op->flags & ZT_OP_NO_RECOMPUTE || (node->op->flags & ZT_OP_RANDOM && !takes_key(node->op));
        for (int i = 0; i < node->out_count; i++)
            f->fixed[n] |= node->out[i] >= 0 && f->from_params[node->out[i]];
        f->matrix_product[n] = zt_op_work(g, n) > PRODUCT_FLOPS * elements_around(g, n);
    }
}

static void free_forward(struct zt_forward *f) {
    free(f->matrix_product);
    free(f->fixed);
    free(f->bytes);
    free(f->root);
    free(f->from_params);
}

/* ---- the pass ---- */

static void report(const struct zt_forward *f, const struct zt_choice *c, struct zt_graph *g, struct zt_segments *to) {
    bool *saved = zt_choice_saved_values(f, c);
    int *before = zt_choice_clones(f, c, saved), segments = 0;
    for (int n = 0; n < f->count; n++)
        if (c->segment[n] >= segments)
            segments = c->segment[n] + 1;
    int *number =
        zt_malloc(((size_t)segments + 1) * sizeof *number); /* in the report; -1: nothing is made recomputed */
    memset(number, -1, ((size_t)segments + 1) * sizeof *number);
    *to = (struct zt_segments){ .at = ZT_NEW_N(g->arena, struct zt_segment, segments + 1) };
    for (int n = 0; n < f->count; n++) {
        if (before[n] < 0)
            continue;
        int *k = &number[c->segment[n]];
        if (*k < 0) {
            *k = to->count++;
            to->at[*k].first = f->g->nodes[n]->name;
        }
        struct zt_segment *s = &to->at[*k];
        s->last = f->g->nodes[n]->name;
        s->nodes++;
        s->flops += zt_op_flops(f->g, n);
        to->flops += zt_op_flops(f->g, n);
        for (int i = 0; i < f->g->nodes[n]->out_count; i++)
            if (f->g->nodes[n]->out[i] >= 0 && !saved[f->g->nodes[n]->out[i]] &&
                !(f->g->nodes[n]->op->flags & ZT_OP_VIEW))
                s->bytes += f->bytes[f->g->nodes[n]->out[i]];
    }
    free(number);
    free(before);
    free(saved);
}

bool zt_recompute_fits(const struct zt_graph *g, const char *glob) {
    for (int n = 0; n < g->node_count; n++)
        if (g->nodes[n]->phase == ZT_FORWARD && zt_glob(glob, g->nodes[n]->name))
            return true;
    return false;
}

bool zt_pass_recompute(struct zt_graph *g, const struct zt_recompute *how, const struct zt_graph_roots *roots,
                       struct zt_segments *done, struct zt_err *err) {
    struct zt_forward f;
    struct zt_choice c = { 0 };
    *done = (struct zt_segments){ 0 };
    analyse_forward(&f, g, roots);
    bool ok = zt_choose(&f, how, roots, &c, err);
    if (ok) {
        report(&f, &c, g, done);
        ok = zt_choice_apply(&f, &c, g, err);
        done->bytes = zt_recompute_peak(g, roots);
    }
    free(c.segment);
    free(c.recomputed);
    free_forward(&f);
    return ok;
}
