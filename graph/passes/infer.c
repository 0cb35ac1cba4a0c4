#include "graph/passes/infer.h"

#include "graph/passes/eval.h"
#include "graph/passes/fold.h"
#include "graph/passes/lower.h"

#include <stdlib.h>
#include <string.h>

/* Limit for folding with reference kernels, about a second. Other constant nodes run with the graph. */
static const double FOLD_FLOPS = 1e8;

bool zt_pass_resolve(struct zt_graph *g, const struct zt_op_table *table, const int *roots, int root_count,
                     struct zt_err *err) {
    if (!zt_graph_prune(g, roots, root_count, err))
        return false;
    bool ok = true;
    for (int n = 0; n < g->node_count; n++)
        ok &= zt_op_resolve(table, g, n, err);
    return ok;
}

/* Binds the symbol `name` to `size` in every input. */
static bool bind_symbol(struct zt_graph *g, const char *name, int64_t size, enum zt_exit code, struct zt_err *err) {
    for (int i = 0; i < g->input_count; i++) {
        struct zt_value *v = g->values[g->inputs[i]];
        for (int k = 0; k < v->shape.rank; k++) {
            if (!v->dim_param[k] || strcmp(v->dim_param[k], name) != 0)
                continue;
            if (v->shape.dim[k] >= 0 && v->shape.dim[k] != size)
                return zt_fail(err, code, "input \"%s\": dim %d (%s) is %lld elsewhere and %lld here", v->name, k, name,
                               (long long)v->shape.dim[k], (long long)size);
            v->shape.dim[k] = size;
        }
    }
    return true;
}

bool zt_pass_bind(struct zt_graph *g, int value, const struct zt_shape *shape, enum zt_exit code, struct zt_err *err) {
    struct zt_value *v = g->values[value];
    char want[ZT_SHAPE_TEXT], have[ZT_SHAPE_TEXT];
    if (v->shape.rank < 0)
        v->shape = *shape;
    if (v->shape.rank != shape->rank)
        return zt_fail(err, code, "input \"%s\" wants shape %s, the data have %s", v->name,
                       zt_shape_text(&v->shape, want), zt_shape_text(shape, have));
    for (int k = 0; k < shape->rank; k++) {
        if (v->shape.dim[k] >= 0 && v->shape.dim[k] != shape->dim[k])
            return zt_fail(err, code, "input \"%s\" wants shape %s, the data have %s: dim %d is %lld, not %lld",
                           v->name, zt_shape_text(&v->shape, want), zt_shape_text(shape, have), k,
                           (long long)shape->dim[k], (long long)v->shape.dim[k]);
        v->shape.dim[k] = shape->dim[k];
        if (v->dim_param[k] && !bind_symbol(g, v->dim_param[k], shape->dim[k], code, err))
            return false;
    }
    return true;
}

struct inference {
    struct zt_graph *g;
    const struct zt_watch *watch; /* NULL: no callbacks */
    size_t fold_limit;
    double left, flops_left; /* totals that are left, which bound the work for a file of many small nodes */
    struct zt_folded folded;
};

static bool is_constant(const struct zt_graph *g, int node) {
    const struct zt_node *n = g->nodes[node];
    if (n->op->flags & ZT_OP_RANDOM)
        return false;
    for (int i = 0; i < n->in_count; i++) {
        const struct zt_value *v = zt_in(g, node, i);
        const bool contents = !(n->op->flags & ZT_OP_SHAPE_ONLY) && !(i < 32 && n->op->type_in >> i & 1);
        if (v && contents && !zt_value_is_constant(v))
            return false;
    }
    return true;
}

static bool is_within_limits(const struct inference *f, int node) {
    const struct zt_graph *g = f->g;
    const struct zt_node *n = g->nodes[node];
    double bytes = 0;
    for (int i = 0; i < n->out_count; i++)
        bytes += (double)zt_value_bytes(zt_out(g, node, i));
    return bytes <= (double)f->fold_limit && bytes <= f->left && zt_op_flops(g, node) <= f->flops_left;
}

static bool check_inputs_known(const struct zt_graph *g, int node, struct zt_err *err) {
    for (int i = 0; i < g->nodes[node]->in_count; i++) {
        const struct zt_value *v = zt_in(g, node, i);
        if (v && !zt_shape_known(&v->shape))
            return zt_node_fail(g, node, err, "the shape of input \"%s\" is not known", v->name);
    }
    return true;
}

static bool infer_node(struct inference *f, int n, struct zt_err *err) {
    struct zt_graph *g = f->g;
    if (!zt_op_infer(g, n, err))
        return false;
    if (!is_constant(g, n))
        return true;
    if (!zt_folded_alike(&f->folded, g, n)) {
        if (!is_within_limits(f, n))
            return true;
        f->flops_left -= zt_op_flops(g, n);
        if (!zt_eval_node(g, n, g->arena, NULL, 1, err))
            return false;
        for (int i = 0; i < g->nodes[n]->out_count; i++)
            f->left -= (double)zt_value_bytes(zt_out(g, n, i));
    }
    for (int i = 0; i < g->nodes[n]->out_count; i++)
        if (zt_out(g, n, i))
            zt_out(g, n, i)->origin = ZT_FROM_CONSTANT;
    g->nodes[n]->dead = true;
    return true;
}

static bool infer_watched(struct inference *f, int n, struct zt_err *err) {
    const struct zt_watch *w = f->watch;
    return (!w || w->before(w->with, f->g, n, err)) && infer_node(f, n, err) && (!w || w->after(w->with, f->g, n, err));
}

static bool infer_nodes(void *inference, int first, int last, struct zt_err *err) {
    struct inference *f = inference;
    const struct zt_settler settler = { f, infer_nodes, NULL };
    for (int n = first; n < last; n++) {
        if (!check_inputs_known(f->g, n, err))
            return false;
        if (f->g->nodes[n]->op->expand ? !zt_expand(f->g, n, &settler, err) : !infer_watched(f, n, err))
            return false;
    }
    return true;
}

bool zt_pass_infer_watched(struct zt_graph *g, size_t fold_limit, const struct zt_watch *watch, struct zt_err *err) {
    struct inference f = { g, watch, fold_limit, 2 * (double)fold_limit, FOLD_FLOPS, { { 0 } } };
    const bool inferred = infer_nodes(&f, 0, g->node_count, err);
    zt_folded_finish(&f.folded);
    return inferred && zt_graph_sort(g, err);
}

bool zt_pass_infer(struct zt_graph *g, size_t fold_limit, struct zt_err *err) {
    return zt_pass_infer_watched(g, fold_limit, NULL, err);
}

bool zt_pass_train(struct zt_graph *g, const struct zt_train_options *options, struct zt_err *err) {
    int count = g->node_count; /* hooks may append */
    for (int n = 0; n < count; n++)
        if (!g->nodes[n]->dead && g->nodes[n]->op->train && !g->nodes[n]->op->train(g, n, options, err))
            return false;
    return zt_graph_sort(g, err);
}
