/* Core affinity: the cores of each rank when several ranks share a host. */
#ifndef ZT_PARALLEL_LAUNCH_CORES_H
#define ZT_PARALLEL_LAUNCH_CORES_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

/* Divides the cores `whole` into `ranks` equal contiguous shares and returns share `index`; a remainder stays unused.
 * False, with *share empty: a share has fewer cores than `threads`. */
bool zt_cores_share(const cpu_set_t *whole, int index, int ranks, int threads, cpu_set_t *share);
/* Writes a list such as "0-3,8", truncated to `room` bytes. */
void zt_cores_print(const cpu_set_t *cores, char *to, size_t room);

#endif
