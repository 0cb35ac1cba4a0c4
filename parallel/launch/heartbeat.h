/* Signs of life between ranks that have no parent of ours (supervisor_channel.h): below a foreign mpirun or srun, or
 * started one by one. Launchers and the ends of lines tell of ranks that died, nobody of one that is stopped.
 *
 * From a thread of its own each rank sends the next one of the world, the last one the first, a datagram a second, with
 * a rising number and a MAC under a key that the receiver gave out over `world`, and counts how long it has not heard
 * the one before it. After ten seconds it says so in its zt_rank_status, which ends what it waits for; where it is
 * still there five seconds later, it prints that error and ends the process.
 *
 * A rank that was never heard is not missed: datagrams may be barred between hosts. Nor does time count in which this
 * process stood still itself: what stops all is a user's doing. */
#ifndef ZT_PARALLEL_LAUNCH_HEARTBEAT_H
#define ZT_PARALLEL_LAUNCH_HEARTBEAT_H

#include "parallel/comm/comm.h"

struct zt_heartbeat;

/* Collective over `world`, of processes, two at least. `where` is this rank's, borrowed. */
bool zt_heartbeat_start(struct zt_heartbeat **pulse, struct zt_comm *world, struct zt_rank_status *where,
                        struct zt_err *err);
/* Says goodbye: from here on nobody misses this rank. NULL is harmless. */
void zt_heartbeat_stop(struct zt_heartbeat *pulse);

#endif
