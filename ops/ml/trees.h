/* The trees of a TreeEnsemble node, checked: every index is in range and every walk ends in a leaf. */
#ifndef ZT_OPS_ML_TREES_H
#define ZT_OPS_ML_TREES_H

#include "graph/ir/op.h"

enum zt_tree_mode {
    ZT_TREE_LEQ,
    ZT_TREE_LT,
    ZT_TREE_GTE,
    ZT_TREE_GT,
    ZT_TREE_EQ,
    ZT_TREE_NEQ,
    ZT_TREE_MEMBER,
    ZT_TREE_MODES
};

struct zt_tree_node {
    enum zt_tree_mode mode;
    bool leaf[2]; /* whether the child is a leaf */
    bool missing; /* NaN goes to the true branch */
    int64_t feature;
    double split;
    int64_t child[2];              /* false branch, true branch: a node or a leaf */
    int64_t members, member_count; /* ZT_TREE_MEMBER: in zt_trees.members */
};

struct zt_trees {
    int64_t count, leaves, roots, targets;
    int64_t features; /* columns of the input */
    struct zt_tree_node *node;
    const int64_t *root, *target; /* of the node's attributes */
    double *weight, *members;
};

/* Reads the node; free with zt_trees_finish(), also on failure. */
bool zt_trees_read(const struct zt_graph *g, int node, struct zt_trees *to, struct zt_err *err);
void zt_trees_finish(struct zt_trees *t);
/* The leaf that a row of `features` numbers reaches from a root. */
int64_t zt_trees_leaf(const struct zt_trees *t, int64_t root, const double *row);

#endif
