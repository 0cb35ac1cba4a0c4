/* What ranks settle before they start: whether those that are processes run the same thing, and who has which cores. */
#ifndef ZT_RUN_PREFLIGHT_H
#define ZT_RUN_PREFLIGHT_H

#include "plan/rank_plan.h"
#include "session/session.h"

#include <sched.h>

/* Collective over `world`. An error where model file, its external data, resolved config or version differ, the same on
 * every rank. Then gives this rank its share of the host's cores, before anything starts a thread, and says so in
 * session->cores. */
bool zt_preflight_start(struct zt_session *session, struct zt_comm *world, struct zt_err *err);
/* The same shares for ranks that are threads of this process, shares[rank], each the whole where there are too few
 * cores; every rank takes its own. Before the ranks start. */
void zt_preflight_threads(struct zt_session *session, int ranks, cpu_set_t *shares);
/* Collective. Whether all ranks, threads or processes, compute on one kind of device: "auto" may have found a GPU on
 * some hosts only. */
bool zt_preflight_device(const struct zt_device *device, struct zt_comm *world, struct zt_err *err);
/* Collective. Whether all ranks made the same plan: the same cuts, and on one stage the same slices and commands. */
bool zt_preflight_plan(const struct zt_rank_plan *plan, struct zt_comm *world, struct zt_err *err);

#endif
