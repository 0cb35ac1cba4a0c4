/* Trust ratios of tensors that several ranks hold slices of. */
#ifndef ZT_RUN_RANK_NORMS_H
#define ZT_RUN_RANK_NORMS_H

#include "run/rank/blocks.h"

/* Trust ratios: each data rank puts the norms of its slices of every tensor, [tensor][2], at its own place, all others
 * being 0; then, collectively, they are added in rank order and r->ratios is what the optimizer's row makes of them. */
double *zt_rank_own_norms(struct zt_rank *r);
bool zt_rank_share_norms(struct zt_rank *r, const struct zt_update *u, struct zt_err *err);

#endif
