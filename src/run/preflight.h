/* Preflight checks between ranks: equal inputs, devices and plans; and the assignment of cores to ranks. */
#ifndef ZT_RUN_PREFLIGHT_H
#define ZT_RUN_PREFLIGHT_H

#include "session/session.h"

#include <sched.h>

struct zt_rank_plan;

/* Checks that model file, external data, resolved config and version are equal on all ranks; otherwise all ranks report
 * the same error. Collective over `world`. Then assigns this rank its share of the host's cores, before any thread
 * starts, and describes the shares in session->cores. */
bool zt_preflight_start(struct zt_session *session, struct zt_comm *world, struct zt_err *err);
/* Assigns cores to ranks that are threads of this process: shares[rank], or all cores for each rank if there are too
 * few. Every rank applies its own share. Must be called before the ranks start. */
void zt_preflight_threads(struct zt_session *session, int ranks, cpu_set_t *shares);
/* Checks that all ranks, threads or processes, use the same kind of device, because "auto" may find a GPU on some hosts
 * only. Collective. */
bool zt_preflight_device(const struct zt_device *device, struct zt_comm *world, struct zt_err *err);
/* Checks that all ranks have the same plan: equal stage bounds, and equal slices and commands on each stage.
 * Collective. */
bool zt_preflight_plan(const struct zt_rank_plan *plan, struct zt_comm *world, struct zt_err *err);

/* Checks that the ranks of each host fit into its memory, as the plan counts them. Collective. */
bool zt_preflight_memory(const struct zt_rank_plan *plan, struct zt_comm *world, struct zt_err *err);

#endif
