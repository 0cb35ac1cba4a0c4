/* If with a condition that is known only when the node runs, in training:
 *
 *     ztrain.IfRun(c, a.., b..) -> (y..)                  y.. = c ? then(a..) : else(b..)
 *     ztrain.IfRunGrad(c, a.., b.., dy..) -> (da.., db..)  of the branch that ran, by its gradient; zeros of the other
 *
 * a and b are what the branches capture. Both branches are inferred graphs with outputs of the same dtypes and shapes;
 * one runs. The gradient of a branch computes the branch again and then back, as one graph. */
#ifndef ZT_OPS_CONTROL_IF_H
#define ZT_OPS_CONTROL_IF_H

#include "graph/passes/lower.h"

enum { ZT_THEN, ZT_ELSE, ZT_BRANCHES };

/* Appends the node x->node as an IfRun, or, in a trial of sizes, takes a branch where the two give other sizes. Fails,
 * naming the branch and the reason, where a branch cannot run so. */
bool zt_if_run(struct zt_expansion *x, struct zt_err *err);
/* Replaces the node x->node by the nodes of its branch `name`. */
bool zt_if_take(struct zt_expansion *x, const char *name, struct zt_err *err);
/* The gradient rule of IfRun; adds an IfRunGrad. */
bool zt_if_gradient(struct zt_grad *b, int node, struct zt_err *err);

/* Graphs of an IfRun or, with `gradient`, of an IfRunGrad, by branch. */
static inline void zt_if_graphs(const struct zt_node *n, bool gradient, const struct zt_graph *to[ZT_BRANCHES]) {
    to[ZT_THEN] = zt_node_attr(n, gradient ? "then_gradient" : "then_branch")->graph;
    to[ZT_ELSE] = zt_node_attr(n, gradient ? "else_gradient" : "else_branch")->graph;
}

#endif
