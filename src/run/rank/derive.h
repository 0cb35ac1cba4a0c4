/* Derived values, computed from parameters once after every update: cast and packed weights. */
#ifndef ZT_RUN_RANK_DERIVE_H
#define ZT_RUN_RANK_DERIVE_H

#include "run/rank/blocks.h"

/* Finds the nodes that cast a parameter. Called once when the programs are created. */
void zt_rank_derive_create(struct zt_run_program *rp);
/* Computes the derived values of a program if the parameters have changed. */
bool zt_rank_derive(struct zt_rank *r, const struct zt_run_program *rp, struct zt_err *err);

#endif
