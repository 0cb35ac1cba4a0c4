/* Heartbeat between ranks without a ztrain parent (supervisor_channel.h): ranks of a separate mpirun or srun, or
 * started one by one. Closed connections reveal dead ranks but not stopped ones.
 *
 * A separate thread of each rank sends one datagram a second to the next rank of the world (the last rank to the
 * first). A datagram has a rising number and a MAC under a key that its receiver has distributed over `world`. The
 * thread also measures the time since the last datagram of the previous rank. After ten seconds it sets `missed` in its
 * zt_rank_status, which ends the rank's waits; if the process still runs five seconds later, the thread prints the
 * error and exits the process.
 *
 * A rank from which no datagram ever arrived is not reported, since firewalls may block datagrams. Time in which this
 * process itself was stopped does not count: then a user has stopped the whole job. */
#ifndef ZT_PARALLEL_LAUNCH_HEARTBEAT_H
#define ZT_PARALLEL_LAUNCH_HEARTBEAT_H

#include "parallel/comm/comm.h"

struct zt_heartbeat;

/* Collective over `world`, whose ranks are at least two processes. `status` is this rank's, borrowed. */
bool zt_heartbeat_start(struct zt_heartbeat **heartbeat, struct zt_comm *world, struct zt_rank_status *status,
                        struct zt_err *err);
/* Sends a goodbye, after which no rank reports this one as missing, and frees. NULL is harmless. */
void zt_heartbeat_stop(struct zt_heartbeat *heartbeat);

#endif
