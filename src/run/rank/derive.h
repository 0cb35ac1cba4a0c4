/* What is made of the parameters once after every update: cast and packed weights. */
#ifndef ZT_RUN_RANK_DERIVE_H
#define ZT_RUN_RANK_DERIVE_H

#include "run/rank/blocks.h"

/* Once, when what runs is made: which of what is made of the parameters are casts. */
void zt_rank_derive_create(struct zt_run_program *rp);
/* What is made of the parameters, where they are newer than it. */
bool zt_rank_derive(struct zt_rank *r, const struct zt_run_program *rp, struct zt_err *err);

#endif
