/* The layout of a stage: its tensors, their order, and the gathers of ZeRO stage 3. */
#ifndef ZT_PLAN_RANK_LAYOUT_H
#define ZT_PLAN_RANK_LAYOUT_H

struct zt_rank_plan;
struct zt_training_graph;

/* Lays out the stage's parameters and statistics from the first training graph, and sets prefetching and reuse of ZeRO
 * stage 3 (plan->traffic). */
void zt_rank_plan_lay_out(struct zt_rank_plan *p, const struct zt_training_graph *training_graph);

#endif
