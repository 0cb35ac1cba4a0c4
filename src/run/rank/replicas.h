/* Mode dp: transfers between device 0 and the replicas in every micro-batch. */
#ifndef ZT_RUN_RANK_REPLICAS_H
#define ZT_RUN_RANK_REPLICAS_H

#include "run/rank/blocks.h"

/* One function for each instruction. `model` and `loss` are the programs of the micro-batch's two chunks; `loss` is
 * NULL except on rank 0. `piece` is the number of samples of all replicas. */
struct zt_share {
    const struct zt_program *model, *loss;
    int64_t piece;
    bool training;
};
/* Send the input rows to the replicas, gather their outputs on device 0, and scatter the gradients of these outputs. */
bool zt_rank_scatter(struct zt_rank *r, const struct zt_share *share, struct zt_err *err);
bool zt_rank_gather_act(struct zt_rank *r, const struct zt_share *share, struct zt_err *err);
bool zt_rank_scatter_grad(struct zt_rank *r, const struct zt_share *share, struct zt_err *err);

#endif
