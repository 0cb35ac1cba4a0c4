/* Signals as requests: SIGINT, SIGTERM, SIGHUP and SIGUSR1, on which all ranks agree.
 *
 * The signals are blocked in all threads, and a separate thread waits for them, so that no handler is needed. During
 * the steps, the first SIGINT, SIGTERM or SIGHUP asks to save and stop, and the second one ends the process at once.
 * Before and after the steps, when there is nothing to save, the first one ends the process. SIGUSR1 asks to save and
 * continue; it is remembered from the start of the process until there is something to save. Requests are part of the
 * scalar reduction of the next step, so that all ranks act in the same step. A signal that was ignored when the process
 * started remains ignored. */
#ifndef ZT_RUN_STOP_STOP_H
#define ZT_RUN_STOP_STOP_H

#include "base/err.h"

struct zt_stop;

enum { ZT_REQUEST_TERM, ZT_REQUEST_INT, ZT_REQUEST_HUP, ZT_REQUEST_SAVE, ZT_REQUESTS };

/* Must be called before libraries start. Blocks SIGUSR1, so that it waits for zt_stop_create() (also across exec) and
 * never ends a process. Ignores SIGPIPE, so that a closed standard error ends no process, and SIGXFSZ, so that a
 * limit of file sizes is an error of the write. */
void zt_stop_prepare(void);
/* Starts to wait for signals. Must be called before any other thread starts, because threads inherit the mask of
 * blocked signals. One object per process. `supervised`: the process has a supervisor, which forwards its own signals
 * through the supervisor channel as signals from this process to itself. Signals of the launcher, the parent of this
 * process, do not count then: launchers end the other ranks when one is lost, and that must not ask for a checkpoint.
 * Signals of the supervisor and of others are counted apart, so that one signal to all processes is a first one. */
struct zt_stop *zt_stop_create(bool supervised, struct zt_err *err);
/* Stops waiting and restores the previous effect of the signals. Accepts NULL. */
void zt_stop_destroy(struct zt_stop *stop);

/* Tells whether there is something to save. Accepts NULL. */
void zt_stop_arm(struct zt_stop *stop, bool armed);
/* Adds the requests of this process to `requests`, and clears SIGUSR1. Only one rank of the process may call it. If
 * `stop` is NULL, adds nothing. */
void zt_stop_take(struct zt_stop *stop, double requests[ZT_REQUESTS]);
/* Returns the signal for which the run stops, from the sums over all ranks; 0: continue. */
int zt_stop_signal(const double requests[ZT_REQUESTS]);

#endif
