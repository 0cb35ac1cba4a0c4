/* Shared by the losses. */
#ifndef ZT_OPS_LOSS_LOSS_H
#define ZT_OPS_LOSS_LOSS_H

#include "graph/ir/op.h"

/* A loss weighs samples, or what a sample holds: the weight's shape is that of the target's first axes ([N] or [N, T]
 * for targets [N, T]; one number for all has rank 0). So weight k is that of the targets k * each to k * each + each -
 * 1, where each is the number of targets over that of weights. NULL, no weight, fits. */
bool zt_loss_weight_fits(const struct zt_graph *g, int node, const struct zt_value *weight,
                         const struct zt_shape *target, struct zt_err *err);

/* Whether the CUDA kernels take the node: float or half types, targets int32 or int64. */
bool zt_loss_takes_cuda(const struct zt_graph *g, int node);

/* A loss type of the config as an op: node (logits, target[, weight[, class weight]]) -> scalar, domain "ztrain"; the
 * fourth input where targets are integers (ops/loss/loss.h, ops/loss/class_loss.c). Rows in ops/loss/loss.c. */
struct zt_loss_row {
    const char *type;         /* "cross_entropy" */
    const char *op_type;      /* "CrossEntropy" */
    bool integer_target;      /* target holds class indices, else the dtype and shape of the logits */
    const char *soft_op_type; /* the op for targets of class probabilities, of the logits' shape; NULL: none */
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

#endif
