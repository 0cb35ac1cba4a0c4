/* Starting of ranks as processes. */
#ifndef ZT_CLI_LAUNCH_H
#define ZT_CLI_LAUNCH_H

#include "session/options.h"

/* If the config asks for ranks as processes and no launcher has started them, starts them with the same arguments and
 * waits for their end. `folder` is the run's folder. *launched says whether it did. */
bool zt_launch(const struct zt_options *options, const char *folder, bool *launched, struct zt_err *err);

#endif
