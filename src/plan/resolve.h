/* What a plan chose where the config left it open. */
#ifndef ZT_PLAN_RESOLVE_H
#define ZT_PLAN_RESOLVE_H

#include "plan/rank_plan.h"

/* Returns the config of the plan's job, for config.resolved.json, with the loss that was inferred and the numbers of
 * elements that were "auto" or left out. Numbers that hold for one stage of a pipeline, or not for frozen weights, stay
 * as they are. Texts are borrowed from the job. */
struct zt_config zt_rank_plan_resolve(const struct zt_rank_plan *plan);

#endif
