/* How long what a rank runs takes, in some steps of a run: the kernel times that its prediction is made of
 * (forecast.h). Only on the host, whose kernels are done when they return. */
#ifndef ZT_RANK_TIMES_H
#define ZT_RANK_TIMES_H

#include "parallel/cost.h"
#include "rank_run.h"

/* A node of the program, or another part, has just run, since `began` (base/clock.h). Harmless without r->times. */
void zt_rank_times_node(struct zt_rank *r, const struct zt_run_program *rp, int node, double began);
void zt_rank_times_part(struct zt_rank *r, enum zt_part part, double began);
void zt_rank_times_end(struct zt_rank *r); /* of a step */

#endif
