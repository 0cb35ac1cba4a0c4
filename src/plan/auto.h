/* Automatic planning (ztrain.plan "auto"). */
#ifndef ZT_PLAN_AUTO_H
#define ZT_PLAN_AUTO_H

#include "session/session.h"

/* Writes the fastest plan that fits into the session's config and describes the choice in job->chosen. The session must
 * have job and data. */
bool zt_auto_choose(struct zt_session *s, struct zt_err *err);

#endif
