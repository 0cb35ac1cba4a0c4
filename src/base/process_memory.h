/* Memory usage of a process on this host, and the memory that processes may use, from /proc and control groups. Shared
 * memory of other ranks that the process only reads (parallel/comm/mpi/shared_block.h) does not count. */
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

/* ---- of the host ---- */

/* Files with the limits of the system. */
struct zt_memory_files {
    const char *meminfo; /* "/proc/meminfo" */
    const char *cgroup;  /* "/proc/self/cgroup": the groups of the process */
    const char *mounts;  /* "/sys/fs/cgroup": version 2, and the folders of version 1 */
};
extern const struct zt_memory_files zt_memory_files;

/* The memory that the processes of this host may use: that of the machine, or of the control group of the process where
 * that is less. A control group also counts the page cache of the files that its processes read and write. */
struct zt_host_memory {
    int64_t bytes;    /* 0: unknown */
    char source[512]; /* "the machine", or the file that states the limit */
};

/* Reads the limits: memory.max of version 2 and memory.limit_in_bytes of version 1, of the group and of all groups
 * around it. Files that are absent or state no limit are skipped. */
struct zt_host_memory zt_host_memory(const struct zt_memory_files *files);
/* Its bytes from zt_memory_files, read by the first call: for checks that are made again and again. */
int64_t zt_host_memory_bytes(void);

#endif
