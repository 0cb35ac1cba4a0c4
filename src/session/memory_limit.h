/* The memory that the processes of this host may use: that of the machine, or of the control group of the process where
 * that is less. A control group also counts the page cache of the files that its processes read and write. */
#ifndef ZT_SESSION_MEMORY_LIMIT_H
#define ZT_SESSION_MEMORY_LIMIT_H

#include <stdint.h>

/* Files with the limits of the system. */
struct zt_memory_files {
    const char *meminfo; /* "/proc/meminfo" */
    const char *cgroup;  /* "/proc/self/cgroup": the groups of the process */
    const char *mounts;  /* "/sys/fs/cgroup": version 2, and the folders of version 1 */
};
extern const struct zt_memory_files zt_memory_files;

struct zt_host_memory {
    int64_t bytes;    /* 0: unknown */
    char source[512]; /* "the machine", or the file that states the limit */
};

/* Reads the limits: memory.max of version 2 and memory.limit_in_bytes of version 1, of the group and of all groups
 * around it. Files that are absent or state no limit are skipped. */
struct zt_host_memory zt_host_memory(const struct zt_memory_files *files);

#endif
