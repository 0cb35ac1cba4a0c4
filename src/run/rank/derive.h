/* What is made of the parameters once after every update: cast and packed weights. */
#ifndef ZT_RUN_RANK_DERIVE_H
#define ZT_RUN_RANK_DERIVE_H

#include "run/rank/blocks.h"

/* Once, when programs are made: finds the nodes that cast a parameter. */
void zt_rank_derive_create(struct zt_run_program *rp);
/* Makes these values anew where the parameters have changed since. */
bool zt_rank_derive(struct zt_rank *r, const struct zt_run_program *rp, struct zt_err *err);

#endif
