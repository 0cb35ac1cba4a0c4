#include "graph/passes/infer.h"

#include "graph/passes/data_sizes.h"
#include "graph/passes/fold.h"
#include "graph/passes/lower.h"

#include <string.h>

bool zt_pass_resolve(struct zt_graph *g, const struct zt_op_table *table, const int *roots, int root_count,
                     struct zt_err *err) {
    if (!zt_graph_prune(g, roots, root_count, err))
        return false;
    bool ok = true, joined = false;
    for (int n = 0; n < g->node_count; n++) {
        ok &= zt_op_resolve(table, g, n, err);
        joined |= ok && g->nodes[n]->file_index < 0; /* its producers may have no reader now */
    }
    return ok && (!joined || zt_graph_prune(g, roots, root_count, err));
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
    struct zt_folding folding;
    int nested;                  /* expansions that are under way */
    bool unsized;                /* in one of them a number of iterations depends on data */
    bool trial;                  /* sizes that depend on data are taken to be their bounds (data_sizes.h) */
    const struct zt_graph *most; /* in a trial with one less: the graph of the trial with the bounds; otherwise NULL */
};

static bool check_inputs_known(const struct zt_graph *g, int node, struct zt_err *err) {
    for (int i = 0; i < g->nodes[node]->in_count; i++) {
        const struct zt_value *v = zt_in(g, node, i);
        if (v && !v->list && !zt_shape_known(&v->shape))
            return zt_node_fail(g, node, err, "the shape of input \"%s\" is not known", v->name);
    }
    return true;
}

static bool before(const struct inference *f, int n, struct zt_err *err) {
    return !f->watch || f->watch->before(f->watch->with, f->g, n, err);
}

static bool after(const struct inference *f, int n, struct zt_err *err) {
    return !f->watch || f->watch->after(f->watch->with, f->g, n, err);
}

static bool infer_sized(struct inference *f, int n, struct zt_err *err) {
    return before(f, n, err) && zt_op_infer(f->g, n, err) && zt_fold_node(&f->folding, f->g, n, err) &&
           after(f, n, err);
}

static bool infer_nodes(void *inference, int first, int last, struct zt_err *err);

/* Whether the contents that the shape depends on are known. Another fault is reported by `bound` again. */
static bool is_sized(struct zt_graph *g, int n) {
    struct zt_err unknown = { 0 };
    return !g->nodes[n]->op->bound || zt_op_infer(g, n, &unknown);
}

bool zt_pass_infer_bounds(struct zt_graph *g, int first, const struct zt_graph *most, size_t fold_limit,
                          struct zt_err *err) {
    struct inference trial = { .g = g, .folding = zt_folding_begin(fold_limit), .trial = true, .most = most };
    const bool good = infer_nodes(&trial, first, g->node_count, err);
    zt_folding_finish(&trial.folding);
    return good;
}

static bool infer_bounds(void *inference, struct zt_graph *g, int first, const struct zt_graph *most,
                         struct zt_err *err) {
    const struct inference *f = inference;
    return zt_pass_infer_bounds(g, first, most, f->folding.node_limit, err);
}

/* The bounds of the sizes in a trial, else the node as part of an EagerRun. */
static bool infer_unsized(struct inference *f, int n, struct zt_err *err) {
    const struct zt_size_trial trial = { f, infer_bounds };
    if (f->trial)
        return before(f, n, err) && f->g->nodes[n]->op->bound(f->g, n, f->most != NULL, err) && after(f, n, err);
    if (f->nested || f->watch)
        return before(f, n, err) && zt_op_infer(f->g, n, err);
    return zt_data_sizes_enclose(f->g, n, &trial, err);
}

/* Whether one of the values is the same in both trials, or is not. */
static bool any_same(const struct inference *f, const int *values, int count, bool same) {
    for (int i = 0; i < count; i++)
        if (values[i] >= 0 && values[i] < f->most->value_count &&
            zt_data_sizes_same(f->g->values[values[i]], f->most->values[values[i]]) == same)
            return true;
    return false;
}

/* A node of shares that has read what varies in the trial with one less, and gives the same as with the largest
 * sizes: its bounds for one less, without the contents that vary. */
static bool settle_varying(struct inference *f, int n, struct zt_err *err) {
    const struct zt_node *node = f->g->nodes[n];
    if (!f->most || f->nested || !(node->op->flags & ZT_OP_SHARES) || !any_same(f, node->in, node->in_count, false) ||
        !any_same(f, node->out, node->out_count, true))
        return true;
    const void **contents = ZT_NEW_N(f->g->arena, const void *, node->in_count + 1);
    for (int i = 0; i < node->in_count; i++) {
        struct zt_value *v = zt_in(f->g, n, i);
        if (!v)
            continue;
        contents[i] = v->data;
        if (!zt_data_sizes_same_contents(v, f->most->values[node->in[i]]))
            v->data = NULL;
    }
    const bool good = node->op->bound(f->g, n, true, err);
    for (int i = 0; i < node->in_count; i++)
        if (zt_in(f->g, n, i))
            zt_in(f->g, n, i)->data = contents[i];
    return good;
}

/* A node that joins what a node of shares has made of an axis: no longer than the axis. */
static bool settle_joined(struct inference *f, int n, struct zt_err *err) {
    const struct zt_node *node = f->g->nodes[n];
    return !f->trial || !node->op || !(node->op->flags & ZT_OP_JOINS) || node->op->bound(f->g, n, f->most != NULL, err);
}

/* Contents behind a number of iterations that depends on data do not follow from the trial with one less, also where
 * the largest number gives the same. Nested values have no counterparts there. */
static void forget_contents(const struct inference *f, int n) {
    for (int i = 0; i < f->g->nodes[n]->out_count; i++) {
        struct zt_value *v = zt_out(f->g, n, i);
        if (v && (f->nested || zt_data_sizes_same_contents(v, f->most->values[v->id])))
            v->data = NULL;
    }
}

static bool expand(struct inference *f, int n, struct zt_err *err) {
    const enum zt_trial trial = !f->trial ? ZT_TRIAL_NONE : f->most ? ZT_TRIAL_LEAST : ZT_TRIAL_MOST;
    const struct zt_settler settler = { f, infer_nodes, NULL, trial, &f->unsized };
    const bool before = f->unsized;
    f->unsized = false;
    f->nested++;
    const bool good = zt_expand(f->g, n, &settler, err);
    f->nested--;
    if (good && f->unsized && f->most)
        forget_contents(f, n);
    f->unsized = (f->unsized || before) && (!good || f->nested > 0);
    return good;
}

static bool has_graph(const struct zt_node *n) {
    bool has = false;
    for (int i = 0; i < n->attr_count; i++)
        has |= n->attr[i].graph != NULL;
    return has;
}

/* Takes back what an expansion has done: the node is there again, what it was replaced by is not. */
static void take_back(struct zt_graph *g, int node, int first) {
    for (int n = first; n < g->node_count; n++)
        g->nodes[n]->dead = true;
    g->nodes[node]->dead = false;
}

/* The nodes that the node stands for. Where it holds graphs in which sizes depend on data, it is enclosed as it is. */
static bool expand_or_enclose(struct inference *f, int n, struct zt_err *err) {
    const struct zt_size_trial trial = { f, infer_bounds };
    const int nodes = f->g->node_count;
    const double lowered_nodes = f->g->lowered_nodes, lowered_bytes = f->g->lowered_bytes;
    struct zt_err why = { 0 }, in_trial = { 0 };
    if (f->nested || f->trial || f->watch || !has_graph(f->g->nodes[n]))
        return expand(f, n, err);
    if (expand(f, n, &why))
        return true;
    const bool unsized = f->unsized;
    f->unsized = false;
    take_back(f->g, n, nodes);
    f->g->lowered_nodes = lowered_nodes;
    f->g->lowered_bytes = lowered_bytes;
    if (zt_data_sizes_enclose(f->g, n, &trial, &in_trial))
        return true;
    *err = unsized ? in_trial : why;
    return false;
}

static bool infer_nodes(void *inference, int first, int last, struct zt_err *err) {
    struct inference *f = inference;
    for (int n = first; n < last; n++) {
        if (f->g->nodes[n]->dead)
            continue;
        if (!check_inputs_known(f->g, n, err))
            return false;
        zt_op_join(f->g, n);
        const bool good = zt_op_expands(f->g, n) ? expand_or_enclose(f, n, err)
                          : is_sized(f->g, n)    ? infer_sized(f, n, err)
                                                 : infer_unsized(f, n, err);
        if (!good || !settle_varying(f, n, err) || !settle_joined(f, n, err))
            return false;
    }
    return true;
}

bool zt_pass_infer_watched(struct zt_graph *g, size_t fold_limit, const struct zt_watch *watch, struct zt_err *err) {
    struct inference f = {
        .g = g, .watch = watch, .folding = zt_folding_begin(fold_limit), .trial = watch && watch->bounds
    };
    const bool inferred = infer_nodes(&f, 0, g->node_count, err);
    zt_folding_finish(&f.folding);
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
