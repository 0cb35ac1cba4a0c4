/* Trust ratios of tensors whose slices belong to several ranks. */
#ifndef ZT_RUN_RANK_NORMS_H
#define ZT_RUN_RANK_NORMS_H

#include "run/rank/blocks.h"

/* Each data-parallel rank writes the norms of its slices of every tensor, [tensor][2], to the memory that
 * zt_rank_own_norms() returns; the other ranks' parts are 0. zt_rank_share_norms() adds the norms in rank order
 * (collective) and sets r->ratios with the optimizer's function. */
double *zt_rank_own_norms(struct zt_rank *r);
bool zt_rank_share_norms(struct zt_rank *r, const struct zt_update *u, struct zt_err *err);

#endif
