/* Between rank_plan.c and the files that do one thing each for it: rank_layout.c, rank_bytes.c, rank_fingerprint.c. */
#ifndef ZT_PLAN_RANK_PLAN_PARTS_H
#define ZT_PLAN_RANK_PLAN_PARTS_H

#include "run/rank.h"

/* A plan in the making. */
struct zt_planner {
    struct zt_rank_plan *plan;
    const struct zt_job *job;
    const struct zt_rank_options *o;
    int64_t room; /* > 0: bytes that the activations of a micro-batch should take at most */
    struct zt_err *err;
};

/* The layout of the stage's parameters and statistics, from the first joint graph built, and what stage 3 fetches ahead
 * and keeps (plan->traffic). */
void zt_rank_plan_lay_out(struct zt_planner *q, const struct zt_joint *joint);

/* The bytes of the rank's five blocks and the FLOPs of a micro-batch, once all programs are there. */
void zt_rank_plan_count(struct zt_rank_plan *p, const struct zt_config *c, bool training);

/* Stir into plan->hash what all ranks must agree on: a program's joint graph, and what the config says of ranks. */
void zt_rank_plan_stir_graph(struct zt_rank_plan *p, int64_t rows, const struct zt_graph *g);
void zt_rank_plan_stir_config(struct zt_rank_plan *p, const struct zt_config *c);

static inline void zt_widen(int64_t *to, int64_t value) {
    if (value > *to)
        *to = value;
}

#endif
