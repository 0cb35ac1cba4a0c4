/* The hash of a rank plan. Ranks compare it before they start. */
#ifndef ZT_PLAN_RANK_FINGERPRINT_H
#define ZT_PLAN_RANK_FINGERPRINT_H

#include <stdint.h>

struct zt_rank_plan;
struct zt_config;
struct zt_graph;

/* Add to plan->hash what must be equal on all ranks: the training graph of a program, and the config keys about ranks.
 */
void zt_rank_plan_stir_graph(struct zt_rank_plan *p, int64_t rows, const struct zt_graph *g);
void zt_rank_plan_stir_config(struct zt_rank_plan *p, const struct zt_config *c);

#endif
