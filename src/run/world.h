/* The world communicators of the ranks of this process. */
#ifndef ZT_RUN_WORLD_H
#define ZT_RUN_WORLD_H

#include "parallel/comm/comm.h"
#include "session/session.h"

/* Opens one communicator for each of the `held` ranks of this process. The status of the first one is `status`. */
bool zt_world_open(const struct zt_session *s, int held, struct zt_rank_status *status, struct zt_comm **comms,
                   struct zt_err *err);

#endif
