/* The table of operators: one line a row in table.c. */
#ifndef ZT_OPS_TABLE_H
#define ZT_OPS_TABLE_H

#include "graph/ir/op.h"
#include "graph/passes/fusion/apply_patterns.h"

extern const struct zt_op_table zt_ops;

/* Fusion patterns, NULL-terminated; ops/fuse_*.c. */
extern const struct zt_pattern *const zt_patterns[];

/* A loss type of the config as an op: node (logits, target[, weight[, class weight]]) -> scalar, domain "ztrain"; the
 * fourth input where targets are integers (ops/loss/loss.h, ops/loss/class_loss.c). Rows in ops/loss/loss.c. */
struct zt_loss_row {
    const char *type;    /* "cross_entropy" */
    const char *op_type; /* "CrossEntropy" */
    bool integer_target; /* target holds class indices, else the dtype and shape of the logits */
    const char
        *numbers[2]; /* float attributes of the op, named as the config's keys under ztrain.loss; NULL: no more */
};
extern const struct zt_loss_row zt_losses[]; /* ends with a NULL type */
const struct zt_loss_row *zt_loss_find(const char *type);

/* An activation at the end of the graph, behind which only views and casts stand: Softmax and LogSoftmax count where
 * they run along the classes. `axis` is that of the classes in `root`, of shape `logits`; -1: the loss has none. *node
 * is the activation, *reader the node that reads it on the way to `root`, -1: it makes `root`. */
enum zt_loss_end { ZT_END_PLAIN, ZT_END_SOFTMAX, ZT_END_LOG_SOFTMAX, ZT_END_SIGMOID };
enum zt_loss_end zt_loss_end_of(const struct zt_graph *g, int root, const struct zt_shape *logits, int axis, int *node,
                                int *reader);

/* The value whose rows node `node`, a Gather along axis 0, looks up; -1: it is none. */
int zt_gather_table(const struct zt_graph *g, int node);
/* Attribute of such a node in a training graph: the row of the table that gets no gradient from it. */
#define ZT_GATHER_PADDING "padding_idx"

/* What the CPU kernels of this build are made of: the widest instruction set their own vector loops use on this machine
 * ("AVX2"), and the version of oneDNN, "" where the build has none. Static text. */
const char *zt_cpu_instructions(void); /* simd_elementwise.c */
const char *zt_cpu_onednn(void);

#endif
