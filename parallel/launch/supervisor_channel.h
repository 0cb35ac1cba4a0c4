/* Supervisor channel: a rank's connection to its parent process. The rank sends its status, notes, errors and exit
 * code; the parent sends signals and the order to quit. A separate thread serves the channel, so that a rank inside a
 * long kernel is monitored and can be ended.
 *
 * While the channel is open, standard output and standard error are sockets to the parent. They need no thread of this
 * process to forward data, so the parent receives the last output of a rank that dies. */
#ifndef ZT_PARALLEL_LAUNCH_SUPERVISOR_CHANNEL_H
#define ZT_PARALLEL_LAUNCH_SUPERVISOR_CHANNEL_H

#include "base/err.h"
#include "parallel/comm/rank_status.h"

struct zt_supervisor_channel;

/* Connects to the parent and removes ZT_CONTROL_VARIABLE from the environment. *channel NULL without an error: the
 * variable is not set, there is no parent. */
bool zt_supervisor_channel_open(struct zt_supervisor_channel **channel, struct zt_err *err);
/* Sets the status to report (borrowed); NULL: none. */
void zt_supervisor_channel_status(struct zt_supervisor_channel *channel, const struct zt_rank_status *status);
/* Prints a line for the user through the parent, from any rank. */
void zt_supervisor_channel_note(struct zt_supervisor_channel *channel, const char *text);
/* Width of the parent's terminal; 0: no terminal. */
int zt_supervisor_channel_columns(const struct zt_supervisor_channel *channel);
/* Sends the error if err->count > 0, then the exit code, and frees. With an error or a code other than 0 it waits for
 * the parent's QUIT. NULL is harmless. */
void zt_supervisor_channel_close(struct zt_supervisor_channel *channel, const struct zt_err *err, int code);

#endif
