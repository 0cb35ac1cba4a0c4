/* Memory usage of a process on this host, from /proc. Shared memory of other ranks that the process only reads
 * (parallel/comm/mpi/shared_block.h) does not count. */
#ifndef ZT_BASE_PROCESS_MEMORY_H
#define ZT_BASE_PROCESS_MEMORY_H

#include <stdint.h>

/* Current and peak bytes; 0 if the process has ended or the system does not report them. */
struct zt_process_memory {
    int64_t now, peak;
};
struct zt_process_memory zt_process_memory_of(int pid);
/* Returns the peak in bytes, including shared memory of other ranks. This call is cheap; zt_process_memory_of() is not.
 */
int64_t zt_process_memory_high(int pid);

/* Name of the memory that ranks share, a part of its path in /proc. */
#define ZT_SHARED_NAME "ztrain-rank"

#endif
