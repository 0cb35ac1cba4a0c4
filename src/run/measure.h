/* What this machine does in a second, measured in a few milliseconds behind the first step of a run: the cost model's
 * input where no cluster is named. All ranks measure at the same time, so that what they share (cores, memory) is
 * shared as in the run, and all get the mean. Kept nowhere but in what the run writes of itself; no algorithm is chosen
 * by it. */
#ifndef ZT_RUN_MEASURE_H
#define ZT_RUN_MEASURE_H

#include "parallel/comm/comm.h"
#include "parallel/partition/machine.h"

/* Collective over `world`. `threads`: compute threads of a rank. */
bool zt_measure(struct zt_comm *world, int threads, struct zt_machine *machine, struct zt_err *err);

#endif
