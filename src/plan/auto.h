/* ztrain.plan "auto". */
#ifndef ZT_PLAN_AUTO_H
#define ZT_PLAN_AUTO_H

#include "session/session.h"

/* Makes the best plan the config's, and says in s->chosen why. The session has job and data. */
bool zt_auto_choose(struct zt_session *s, struct zt_err *err);

#endif
