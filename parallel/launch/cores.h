/* Which cores a rank computes on: ranks of one host share what their processes may use. */
#ifndef ZT_PARALLEL_LAUNCH_CORES_H
#define ZT_PARALLEL_LAUNCH_CORES_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

/* The cores of the `index`-th of `ranks` ranks that may all use `whole`: an equal, contiguous share of them. Cores that
 * do not divide go to none. False, and nothing in *share, where a rank would have fewer cores than `threads`. */
bool zt_cores_share(const cpu_set_t *whole, int index, int ranks, int threads, cpu_set_t *share);
/* "0-3,8", cut off where there is no room. */
void zt_cores_print(const cpu_set_t *cores, char *to, size_t room);

#endif
