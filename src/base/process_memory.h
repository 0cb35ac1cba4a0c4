/* Memory that a process of this machine has in use, as /proc tells it. What other ranks hold and the process only reads
 * where it lies (parallel/comm/mpi/shared_block.h) does not count. */
#ifndef ZT_BASE_PROCESS_MEMORY_H
#define ZT_BASE_PROCESS_MEMORY_H

#include <stdint.h>

/* Bytes now and the most so far; 0 where the process is gone or the system does not say. */
struct zt_process_memory {
    int64_t now, peak;
};
struct zt_process_memory zt_process_memory_of(int pid);
/* The most so far with what the process only reads of others: cheap, where the above is not. */
int64_t zt_process_memory_high(int pid);

/* The name under which ranks share memory: a part of its path in /proc. */
#define ZT_SHARED_NAME "ztrain-rank"

#endif
