/* The files that a command reads: it never writes over them. */
#ifndef ZT_SESSION_INPUTS_H
#define ZT_SESSION_INPUTS_H

#include "session/options.h"

/* Returns false with an error (ZT_EXIT_DATA) if `path` is a file that the command reads, or a folder with one: a file
 * that the command line or `config` (NULL: none) names, or one that is mapped, external data of the model among them.
 * A path that does not exist is none. */
bool zt_inputs_spare(const struct zt_options *options, const struct zt_config *config, const char *path,
                     struct zt_err *err);

#endif
