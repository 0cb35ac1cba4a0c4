/* The communicators that the ranks of this process meet the others in. */
#ifndef ZT_RUN_WORLD_H
#define ZT_RUN_WORLD_H

#include "parallel/comm/comm.h"
#include "session/session.h"

/* One communicator for each of the `held` ranks of this process, the first of which is at `where`. */
bool zt_world_open(const struct zt_session *s, int held, struct zt_rank_status *where, struct zt_comm **comms,
                   struct zt_err *err);

#endif
