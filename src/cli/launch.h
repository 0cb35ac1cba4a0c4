/* Ranks as processes that this one starts. */
#ifndef ZT_CLI_LAUNCH_H
#define ZT_CLI_LAUNCH_H

#include "session/options.h"

/* Where the ranks are to be processes that this one starts (the config says so, and no launcher has started them):
 * starts them with the same words and waits for their end; `folder` is the run's. *launched: it did. */
bool zt_launch(const struct zt_options *options, const char *folder, bool *launched, struct zt_err *err);

#endif
