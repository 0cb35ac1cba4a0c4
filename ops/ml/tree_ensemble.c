/* TreeEnsemble (ai.onnx.ml 5): each row of x [N, F] walks through every tree to a leaf, whose weight belongs to one
 * target.
 *
 *     y[row, target] = post(aggregate of the weights of the leaves reached that belong to the target)
 *
 * aggregate_function 0: their sum divided by the number of trees, 1: sum, 2: least, 3: greatest; of no leaf 0. A node
 * sends x to its true branch where the comparison holds, and where x is NaN and nodes_missing_value_tracks_true says
 * so. post_transform 0: none, 1: softmax over the targets, 2: 1 / (1 + e^-y), 3: softmax over those that are not 0,
 * which stay 0, 4: probit, the quantile of the normal distribution. */
#include "ops/ml/kernels.h"
#include "ops/ml/trees.h"

#include "ops/kernel/axis_slices.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"

#include "device/threads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum aggregate { AVERAGE, SUM, MIN, MAX, AGGREGATES };
enum post { NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO, PROBIT, POSTS };

static bool read_choice(const struct zt_graph *g, int node, const char *name, int64_t end, int *to,
                        struct zt_err *err) {
    const int64_t choice = zt_attr_int(g->nodes[node], name, *to);
    if (choice < 0 || choice >= end)
        return zt_node_fail(g, node, err, "attribute \"%s\" is %lld, not 0..%lld", name, (long long)choice,
                            (long long)end - 1);
    *to = (int)choice;
    return true;
}

struct state {
    struct zt_trees trees;
    int aggregate, post;
};

static bool read_ensemble(const struct zt_graph *g, int node, struct state *s, struct zt_err *err) {
    s->aggregate = SUM, s->post = NONE;
    return zt_trees_read(g, node, &s->trees, err) &&
           read_choice(g, node, "aggregate_function", AGGREGATES, &s->aggregate, err) &&
           read_choice(g, node, "post_transform", POSTS, &s->post, err);
}

static bool ensemble_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0);
    struct state s;
    const bool good = read_ensemble(g, node, &s, err);
    if (good)
        zt_set_out(g, node, 0, x->dtype, &(struct zt_shape){ 2, { x->shape.dim[0], s.trees.targets } });
    zt_trees_finish(&s.trees);
    return good;
}

static void release(void *state) {
    struct state *s = state;
    if (s)
        zt_trees_finish(&s->trees);
    free(s);
}

/* Numbers of a thread: a row of x, one of y, and how many leaves each target has had. */
static int64_t row_numbers(const struct zt_trees *t) {
    return t->features + 2 * t->targets;
}

static bool prepare(struct zt_prepare *p, struct zt_err *err) {
    struct state *s = zt_calloc(1, sizeof *s);
    if (!read_ensemble(p->graph, p->node, s, err)) {
        release(s);
        return false;
    }
    p->state = s;
    if (zt_in(p->graph, p->node, 0)->shape.dim[0] > 0)
        p->workspace_bytes = (size_t)p->threads * sizeof(double) * (size_t)row_numbers(&s->trees);
    return true;
}

/* ---- what follows the sums ---- */

/* y with erfc(y) = p, 0 < p <= 1: an approximation by elementary functions (Winitzki 2008), then Halley's iteration. */
static double inverse_erfc(double p) {
    const double a = 0.147, l = log(p * (2 - p)), b = 2 / (M_PI * a) + l / 2;
    double y = sqrt(sqrt(b * b - l / a) - b);
    for (int i = 0; i < 3; i++) {
        const double step = (erfc(y) - p) / (M_2_SQRTPI * exp(-y * y));
        y += step / (1 - y * step);
    }
    return y;
}
static double probit(double p) {
    if (!(p > 0 && p < 1))
        return p == 0 ? -INFINITY : p == 1 ? INFINITY : NAN;
    return p < 0.5 ? -M_SQRT2 * inverse_erfc(2 * p) : M_SQRT2 * inverse_erfc(2 * (1 - p));
}

/* Softmax of those that are not 0, of all with `zeros`. */
static void softmax(double *y, int64_t count, bool zeros) {
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < count; i++)
        most = (zeros || y[i] != 0) && !(y[i] <= most) ? y[i] : most;
    for (int64_t i = 0; i < count; i++) {
        y[i] = zeros || y[i] != 0 ? exp(y[i] - most) : 0;
        sum += y[i];
    }
    for (int64_t i = 0; i < count && sum != 0; i++)
        y[i] /= sum;
}

static void finish_row(const struct state *s, double *y) {
    const int64_t count = s->trees.targets;
    if (s->post == SOFTMAX || s->post == SOFTMAX_ZERO)
        softmax(y, count, s->post == SOFTMAX);
    for (int64_t i = 0; i < count; i++)
        y[i] = s->post == LOGISTIC ? 1 / (1 + exp(-y[i])) : s->post == PROBIT ? probit(y[i]) : y[i];
}

/* ---- rows ---- */

/* Adds the weight of a leaf to its target, which `found` leaves had before. */
static void join(const struct state *s, double weight, double *y, double *found) {
    const bool less = weight < *y, both_sum = s->aggregate == SUM || s->aggregate == AVERAGE;
    if (both_sum)
        *y += weight;
    else if (*found == 0 || isnan(weight) || less == (s->aggregate == MIN))
        *y = isnan(*y) ? *y : weight;
    *found += 1;
}

static void run_row(void *arg, int64_t i) {
    const struct zt_call *call = arg;
    const struct state *s = call->state;
    const struct zt_trees *t = &s->trees;
    const struct zt_view *x = &call->in[0], *y = &call->out[0];
    double *row = (double *)call->workspace + zt_parallel_thread() * row_numbers(t);
    double *to = row + t->features, *found = to + t->targets;
    zt_load_block(x->dtype, x->data, i * t->features, 1, t->features, row);
    memset(to, 0, 2 * sizeof *to * (size_t)t->targets);
    for (int64_t tree = 0; tree < t->roots; tree++) {
        const int64_t leaf = zt_trees_leaf(t, t->root[tree], row), target = t->target[leaf];
        join(s, t->weight[leaf], &to[target], &found[target]);
    }
    for (int64_t k = 0; k < t->targets && s->aggregate == AVERAGE; k++)
        to[k] /= (double)t->roots;
    finish_row(s, to);
    zt_store_block(y->dtype, y->data, i * t->targets, 1, t->targets, to);
}

static bool run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct state *s = call->state;
    const int64_t rows = call->in[0].shape.dim[0];
    zt_parallel_for(zt_threads_worth(call->threads, 32.0 * (double)rows * (double)s->trees.roots), rows, run_row,
                    (void *)call);
    return true;
}

static const struct zt_attr_spec attrs[] = {
    { "aggregate_function", ZT_ATTR_INT },
    { "leaf_targetids", ZT_ATTR_INTS, true },
    { "leaf_weights", ZT_ATTR_TENSOR, true },
    { "membership_values", ZT_ATTR_TENSOR },
    { "n_targets", ZT_ATTR_INT },
    { "nodes_falseleafs", ZT_ATTR_INTS, true },
    { "nodes_falsenodeids", ZT_ATTR_INTS, true },
    { "nodes_featureids", ZT_ATTR_INTS, true },
    { "nodes_hitrates", ZT_ATTR_TENSOR },
    { "nodes_missing_value_tracks_true", ZT_ATTR_INTS },
    { "nodes_modes", ZT_ATTR_TENSOR, true },
    { "nodes_splits", ZT_ATTR_TENSOR, true },
    { "nodes_trueleafs", ZT_ATTR_INTS, true },
    { "nodes_truenodeids", ZT_ATTR_INTS, true },
    { "post_transform", ZT_ATTR_INT },
    { "tree_roots", ZT_ATTR_INTS, true },
    { 0 },
};

const struct zt_op zt_op_tree_ensemble = {
    .name = "TreeEnsemble",
    .domain = "ai.onnx.ml",
    .since = 5,
    .until = ZT_ML_OPSET,
    ZT_ONE_OUT(1, 1),
    .in_types = { ZT_BIT(ZT_FLOAT) | ZT_BIT(ZT_DOUBLE) | ZT_BIT(ZT_FLOAT16) },
    .attrs = attrs,
    .infer = ensemble_infer,
    .kernel = { [ZT_REF] = { .prepare = prepare, .run = run, .release = release } },
};
