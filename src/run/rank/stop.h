/* SIGINT, SIGTERM, SIGHUP and SIGUSR1 as requests that all ranks agree on (contract.md, "Failure").
 *
 * The signals are blocked in every thread and taken by one of its own, which needs no handler: the first of SIGINT,
 * SIGTERM and SIGHUP of a run that has begun its steps is a request to save and stop, the second ends the process at
 * once, and so does the first one before the steps and after them, when there is nothing to save. SIGUSR1 is a request
 * to save and go on, kept from the start of the process until there is something to save. Requests travel in the scalar
 * reduction of the next step, so that all ranks act at the same one. A signal that the process was started to ignore
 * stays ignored. */
#ifndef ZT_RUN_RANK_STOP_H
#define ZT_RUN_RANK_STOP_H

#include "base/err.h"

struct zt_stop;

enum { ZT_REQUEST_TERM, ZT_REQUEST_INT, ZT_REQUEST_HUP, ZT_REQUEST_SAVE, ZT_REQUESTS };

/* First of all in the process, before libraries start: SIGUSR1 is blocked, so that it waits for zt_stop_create() (also
 * across exec), and never ends a process; SIGPIPE is ignored, so that a closed standard error ends none either. */
void zt_stop_prepare(void);
/* Starts to watch. Before any other thread is made: threads inherit which signals are blocked. One a process.
 * `supervised`: the process has a parent of ours, whose signals come through the lifeline, from this process to itself.
 * Then only those count: a launcher that ends the others when one rank is lost asks for nothing. */
struct zt_stop *zt_stop_create(bool supervised, struct zt_err *err);
/* Ends it; signals mean again what they did before. NULL is harmless. */
void zt_stop_destroy(struct zt_stop *stop);

/* From now on there is something to save (true), or no more (false). NULL is harmless. */
void zt_stop_arm(struct zt_stop *stop, bool armed);
/* Adds this process's requests to `requests`, for one rank of it alone to pass on; SIGUSR1 is forgotten then. NULL has
 * none. */
void zt_stop_take(struct zt_stop *stop, double requests[ZT_REQUESTS]);
/* The signal to stop for, by the sums over all ranks; 0: go on. */
int zt_stop_signal(const double requests[ZT_REQUESTS]);

#endif
