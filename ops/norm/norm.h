/* Normalisations with a learned scale: the geometry of a node, read from its shapes and attributes. The rows and the
 * kernels of all back ends use it. */
#ifndef ZT_OPS_NORM_NORM_H
#define ZT_OPS_NORM_NORM_H

#include "graph/ir/op.h"

/* Batch normalisation: x is [n, channels, spatial]; statistics of a channel run over n and spatial. */
struct zt_batch_norm {
    int64_t n, channels, spatial;
    double epsilon, momentum; /* new running = old * momentum + batch * (1 - momentum) */
};
/* BatchNormalization, ztrain.BatchNormTrain: x is input 0. ztrain.BatchNormGrad and BatchNormFixedGrad: input 1. The
 * inputs after x, up to input `end` in the second function, hold one number a channel: their sizes are checked. */
bool zt_batch_norm_read(const struct zt_graph *g, int node, int x, struct zt_batch_norm *to, struct zt_err *err);
bool zt_batch_norm_read_to(const struct zt_graph *g, int node, int x, int end, struct zt_batch_norm *to,
                           struct zt_err *err);
/* Types and shapes of the outputs: of a training form (x, scale, b, mean, var, ...) -> y, new mean, new var, mean,
 * inv_std; of its gradient (dy, x, scale, ...) -> dx, dscale, db. */
void zt_batch_norm_train_outs(struct zt_graph *g, int node);
void zt_batch_norm_grad_outs(struct zt_graph *g, int node);

/* ztrain.BatchNormSync and BatchNormSyncGrad sum over the ranks (batch_norm_sync.c). Ranks may run different kernels,
 * so the message has one format: ZT_BATCH_NORM_TOGETHER channels at a time, two sums a channel, then the number of
 * elements of a channel. Forward sums are of x - s and (x - s)^2, with s the running mean; backward sums of dy and dy
 * (x - mean) inv_std. */
enum { ZT_BATCH_NORM_TOGETHER = 256, ZT_BATCH_NORM_SUMS = 2 * ZT_BATCH_NORM_TOGETHER + 1 };
bool zt_batch_norm_is_sync(const struct zt_node *n);
/* Sums such a message over the ranks, in rank order. */
bool zt_batch_norm_add_ranks(const struct zt_call *call, double *sums, int64_t channels, struct zt_err *err);

/* Layer, RMS, instance and group normalisation: x is `rows` rows of `length` elements, each with its own statistics.
 * Element i of row r is scaled by scale[(r % period) * per_row + i / per_scale]; length = per_row * per_scale. */
struct zt_norm {
    int64_t rows, length, period, per_row, per_scale;
    bool centred; /* the mean is subtracted: all but RMSNormalization */
    double epsilon;
};
/* Any of the four forward ops, or one of our own as below: x is input 0. */
bool zt_norm_read(const struct zt_graph *g, int node, struct zt_norm *to, struct zt_err *err);
/* ztrain.NormStats(x), NormSwish(x, ...) and, with x = 1, ztrain.NormGrad(dy, x, scale, mean, inv_std) and
 * NormSwishGrad: from attributes rows, period and per_row. zt_norm_attrs writes them, and epsilon. */
enum { ZT_NORM_ATTRS = 5 };
void zt_norm_attrs(const struct zt_norm *n, struct zt_attr to[ZT_NORM_ATTRS]);
bool zt_norm_read_rows(const struct zt_graph *g, int node, int x, struct zt_norm *to, struct zt_err *err);

#endif
