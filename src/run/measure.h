/* Measures the speed of this machine within a few milliseconds after the first step of a run. The cost model uses the
 * figures if the config names no cluster. All ranks measure at the same time, so that they share cores and memory as in
 * the run, and all get the mean. The figures are written only into the files of the run; they do not select algorithms.
 */
#ifndef ZT_RUN_MEASURE_H
#define ZT_RUN_MEASURE_H

#include "parallel/comm/comm.h"
#include "parallel/partition/machine.h"

/* Measures this machine. Collective over `world`. `threads`: compute threads of each rank. `sends`: messages between
 * two ranks too, which pipelines alone have; each takes memory that is new to the process. */
bool zt_measure(struct zt_comm *world, int threads, bool sends, struct zt_machine *machine, struct zt_err *err);

#endif
