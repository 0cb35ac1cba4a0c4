/* A rank's line to the parent that started it: signs of life, what the rank says and how it ended go there; signals and
 * the order to quit come back. A thread of its own serves it, so that a rank deep in a kernel is heard and can be
 * ended.
 *
 * While the line is open, standard output and error are sockets to the parent, not pipes that somebody in this process
 * would have to empty: the last words of a rank that dies arrive. */
#ifndef ZT_PARALLEL_LAUNCH_SUPERVISOR_CHANNEL_H
#define ZT_PARALLEL_LAUNCH_SUPERVISOR_CHANNEL_H

#include "base/err.h"
#include "parallel/comm/rank_status.h"

struct zt_supervisor_channel;

/* *line NULL without an error: no parent asked for one (the environment has no ZT_CONTROL_VARIABLE, which is taken out
 * of it). */
bool zt_supervisor_channel_open(struct zt_supervisor_channel **line, struct zt_err *err);
/* From now on signs of life say what `where` says. NULL: nothing again. */
void zt_supervisor_channel_status(struct zt_supervisor_channel *line, const struct zt_rank_status *where);
/* A line for the user, whichever rank says it. */
void zt_supervisor_channel_note(struct zt_supervisor_channel *line, const char *text);
/* Width of the parent's terminal; 0: it has none. */
int zt_supervisor_channel_columns(const struct zt_supervisor_channel *line);
/* Says goodbye with the exit code that will follow, before it the error where err->count, and frees. With an error or
 * another code than 0 it waits until the parent has decided what to make of it. NULL is harmless. */
void zt_supervisor_channel_close(struct zt_supervisor_channel *line, const struct zt_err *err, int code);

#endif
