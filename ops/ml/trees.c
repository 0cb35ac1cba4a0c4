#include "ops/ml/trees.h"

#include <math.h>
#include <stdlib.h>

/* ---- attributes ---- */

/* An attribute of integers, `count` of them unless that is -1. */
static bool read_ints(const struct zt_graph *g, int node, const char *name, int64_t count, const int64_t **to,
                      struct zt_err *err) {
    int found;
    *to = zt_attr_ints(g->nodes[node], name, &found);
    return count < 0 || found == count ||
           zt_node_fail(g, node, err, "attribute \"%s\" has %d numbers, not %lld", name, found, (long long)count);
}

/* A vector of numbers of one of `types`. Without the attribute *to is NULL; else free with free(). */
struct numbers {
    const char *name;
    unsigned types;
    double *at;
    int64_t count;
};
static bool read_numbers(const struct zt_graph *g, int node, struct numbers *n, struct zt_err *err) {
    const struct zt_attr *a = zt_node_attr(g->nodes[node], n->name);
    n->at = NULL, n->count = 0;
    if (!a)
        return true;
    const int64_t count = zt_shape_count(&a->tensor.shape);
    if (a->tensor.shape.rank != 1 || !zt_dtype_in(a->tensor.dtype, n->types) || (count > 0 && !a->tensor.data))
        return zt_node_fail(g, node, err, "attribute \"%s\" is no vector of the type that it must have", n->name);
    n->count = count;
    n->at = zt_calloc((size_t)count + 1, sizeof *n->at);
    for (int64_t i = 0; i < count; i++)
        n->at[i] = zt_load_double(a->tensor.dtype, a->tensor.data, i);
    return true;
}

/* Whether all numbers of an attribute lie in 0..end - 1. */
static bool check_range(const struct zt_graph *g, int node, const char *name, int64_t end, struct zt_err *err) {
    int count;
    const int64_t *at = zt_attr_ints(g->nodes[node], name, &count);
    for (int i = 0; i < count; i++)
        if (at[i] < 0 || at[i] >= end)
            return zt_node_fail(g, node, err, "attribute \"%s\" has %lld at %d, which is outside 0..%lld", name,
                                (long long)at[i], i, (long long)end - 1);
    return true;
}

/* ---- nodes ---- */

static bool read_branch(const struct zt_graph *g, int node, struct zt_trees *t, int branch, struct zt_err *err) {
    static const char *const names[2][2] = { { "nodes_falsenodeids", "nodes_falseleafs" },
                                             { "nodes_truenodeids", "nodes_trueleafs" } };
    const int64_t *child, *leaf;
    if (!read_ints(g, node, names[branch][0], t->count, &child, err) ||
        !read_ints(g, node, names[branch][1], t->count, &leaf, err) || !check_range(g, node, names[branch][1], 2, err))
        return false;
    for (int64_t i = 0; i < t->count; i++) {
        const int64_t end = leaf[i] ? t->leaves : t->count;
        if (child[i] < 0 || child[i] >= end)
            return zt_node_fail(g, node, err, "attribute \"%s\" has %lld at %lld, which is outside 0..%lld",
                                names[branch][0], (long long)child[i], (long long)i, (long long)end - 1);
        t->node[i].leaf[branch] = leaf[i] != 0;
        t->node[i].child[branch] = child[i];
    }
    return true;
}

static bool read_features(const struct zt_graph *g, int node, struct zt_trees *t, struct zt_err *err) {
    const int64_t *feature, *missing;
    int given;
    if (!read_ints(g, node, "nodes_featureids", t->count, &feature, err) ||
        !check_range(g, node, "nodes_featureids", t->features, err))
        return false;
    missing = zt_attr_ints(g->nodes[node], "nodes_missing_value_tracks_true", &given);
    if (given != 0 && given != t->count)
        return zt_node_fail(g, node, err, "attribute \"nodes_missing_value_tracks_true\" has %d numbers, not %lld",
                            given, (long long)t->count);
    for (int64_t i = 0; i < t->count; i++) {
        t->node[i].feature = feature[i];
        t->node[i].missing = given && missing[i];
    }
    return true;
}

/* Sets are in the order of the nodes that test membership; a NaN ends each. */
static bool read_members(const struct zt_graph *g, int node, struct zt_trees *t, struct zt_err *err) {
    struct numbers members = { "membership_values", ZT_BIT(zt_in(g, node, 0)->dtype) };
    int64_t at = 0;
    if (!read_numbers(g, node, &members, err))
        return false;
    t->members = members.at;
    for (int64_t i = 0; i < t->count; i++) {
        if (t->node[i].mode != ZT_TREE_MEMBER)
            continue;
        t->node[i].members = at;
        while (at < members.count && !isnan(members.at[at]))
            at++;
        t->node[i].member_count = at - t->node[i].members;
        if (at++ >= members.count)
            return zt_node_fail(g, node, err, "attribute \"membership_values\" has no set for node %lld", (long long)i);
    }
    return at == members.count ||
           zt_node_fail(g, node, err, "attribute \"membership_values\" has %lld numbers too many",
                        (long long)(members.count - at));
}

static bool read_modes(const struct zt_graph *g, int node, struct zt_trees *t, struct zt_err *err) {
    struct numbers modes = { "nodes_modes", ZT_BIT(ZT_UINT8) };
    if (!read_numbers(g, node, &modes, err))
        return false;
    bool good =
        modes.count == t->count || zt_node_fail(g, node, err, "attribute \"nodes_modes\" has %lld numbers, not %lld",
                                                (long long)modes.count, (long long)t->count);
    for (int64_t i = 0; good && i < t->count; i++) {
        t->node[i].mode = (enum zt_tree_mode)modes.at[i];
        if (modes.at[i] >= ZT_TREE_MODES)
            good = zt_node_fail(g, node, err, "attribute \"nodes_modes\" has %g at %lld", modes.at[i], (long long)i);
    }
    free(modes.at);
    return good;
}

/* Makes t->node with the splits, which say how many there are. */
static bool read_splits(const struct zt_graph *g, int node, struct zt_trees *t, struct zt_err *err) {
    struct numbers splits = { "nodes_splits", ZT_BIT(zt_in(g, node, 0)->dtype) };
    if (!read_numbers(g, node, &splits, err))
        return false;
    t->count = splits.count;
    t->node = zt_calloc((size_t)t->count + 1, sizeof *t->node);
    for (int64_t i = 0; i < t->count; i++)
        t->node[i].split = splits.at[i];
    free(splits.at);
    return true;
}

static bool read_leaves(const struct zt_graph *g, int node, struct zt_trees *t, struct zt_err *err) {
    struct numbers weights = { "leaf_weights", ZT_BIT(zt_in(g, node, 0)->dtype) };
    int64_t most = -1;
    if (!read_numbers(g, node, &weights, err))
        return false;
    t->weight = weights.at;
    t->leaves = weights.count;
    if (!read_ints(g, node, "leaf_targetids", t->leaves, &t->target, err))
        return false;
    for (int64_t i = 0; i < t->leaves; i++)
        most = t->target[i] > most ? t->target[i] : most;
    t->targets = zt_attr_int(g->nodes[node], "n_targets", most < INT64_MAX ? most + 1 : most);
    if (t->targets < 1 || t->targets > INT64_C(1) << 40)
        return zt_node_fail(g, node, err, "the number of targets is %lld", (long long)t->targets);
    return check_range(g, node, "leaf_targetids", t->targets, err);
}

/* ---- walks end: no node is its own descendant ---- */

enum { NEW, OPEN, DONE };

/* Visits everything below `root`, depth first, without recursion: `path` holds the open nodes. */
static bool visit(const struct zt_trees *t, int64_t root, char *state, int64_t *path) {
    int64_t depth = 0;
    if (state[root] == NEW)
        path[depth++] = root;
    while (depth > 0) {
        const int64_t at = path[depth - 1];
        int64_t next = -1;
        state[at] = OPEN;
        for (int branch = 0; branch < 2 && next < 0; branch++) {
            const int64_t child = t->node[at].child[branch];
            if (t->node[at].leaf[branch] || state[child] == DONE)
                continue;
            if (state[child] == OPEN)
                return false;
            next = child;
        }
        if (next >= 0)
            path[depth++] = next;
        else
            state[path[--depth]] = DONE;
    }
    return true;
}

static bool check_walks(const struct zt_graph *g, int node, struct zt_trees *t, struct zt_err *err) {
    int roots;
    t->root = zt_attr_ints(g->nodes[node], "tree_roots", &roots);
    t->roots = roots;
    if (roots == 0)
        return zt_node_fail(g, node, err, "attribute \"tree_roots\" names no tree");
    if (!check_range(g, node, "tree_roots", t->count, err))
        return false;
    char *state = zt_calloc((size_t)t->count + 1, 1);
    int64_t *path = zt_calloc((size_t)t->count + 1, sizeof *path);
    bool good = true;
    for (int i = 0; good && i < roots; i++)
        if (!visit(t, t->root[i], state, path))
            good = zt_node_fail(g, node, err, "the tree from node %lld has a circle", (long long)t->root[i]);
    free(path);
    free(state);
    return good;
}

bool zt_trees_read(const struct zt_graph *g, int node, struct zt_trees *t, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0);
    *t = (struct zt_trees){ 0 };
    if (x->shape.rank != 2)
        return zt_node_fail(g, node, err, "\"%s\" has rank %d, not 2", x->name, x->shape.rank);
    t->features = x->shape.dim[1];
    return read_splits(g, node, t, err) && read_leaves(g, node, t, err) && read_modes(g, node, t, err) &&
           read_features(g, node, t, err) && read_branch(g, node, t, 0, err) && read_branch(g, node, t, 1, err) &&
           read_members(g, node, t, err) && check_walks(g, node, t, err);
}

void zt_trees_finish(struct zt_trees *t) {
    free(t->node);
    free(t->weight);
    free(t->members);
}

/* ---- walking ---- */

static bool is_member(const struct zt_trees *t, const struct zt_tree_node *n, double x) {
    for (int64_t i = n->members; i < n->members + n->member_count; i++)
        if (t->members[i] == x)
            return true;
    return false;
}

static bool compare(const struct zt_trees *t, const struct zt_tree_node *n, double x) {
    switch (n->mode) {
    case ZT_TREE_LEQ:
        return x <= n->split;
    case ZT_TREE_LT:
        return x < n->split;
    case ZT_TREE_GTE:
        return x >= n->split;
    case ZT_TREE_GT:
        return x > n->split;
    case ZT_TREE_EQ:
        return x == n->split;
    case ZT_TREE_NEQ:
        return x != n->split;
    default:
        return is_member(t, n, x);
    }
}

int64_t zt_trees_leaf(const struct zt_trees *t, int64_t root, const double *row) {
    for (int64_t at = root;;) {
        const struct zt_tree_node *n = &t->node[at];
        const double x = row[n->feature];
        const int branch = compare(t, n, x) || (n->missing && isnan(x));
        at = n->child[branch];
        if (n->leaf[branch])
            return at;
    }
}
