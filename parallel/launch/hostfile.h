/* DeepSpeed's hostfile: the hosts of a job, their slots, and the filters --include and --exclude.
 *
 *     worker-1 slots=4        # four ranks            --include worker-0@worker-1:0,2    all of one, two slots of the
 *     worker-2 slots=2                                --exclude worker-1:0               other; or all but these
 *
 * Any other text is an error that names file and line. */
#ifndef ZT_PARALLEL_LAUNCH_HOSTFILE_H
#define ZT_PARALLEL_LAUNCH_HOSTFILE_H

#include "base/arena.h"
#include "base/err.h"

enum { ZT_HOST_SLOTS = 4096 };

struct zt_host {
    const char *name;
    int slots;   /* in the file */
    int ranks;   /* slots that the filters leave */
    bool *taken; /* by slot: the filters leave it; only used while parsing */
};

struct zt_hosts {
    struct zt_host *at; /* hosts with ranks, in the order of the file */
    int count, ranks;   /* ranks: of all hosts */
};

/* Reads the file `path`. `include` and `exclude` may be NULL; giving both is an error. Results are in `arena`. */
bool zt_hostfile_read(struct zt_arena *arena, const char *path, const char *include, const char *exclude,
                      struct zt_hosts *hosts, struct zt_err *err);
/* A hostfile in memory. */
struct zt_hostfile_text {
    const char *at;
    size_t bytes;
    const char *name; /* for errors */
};
/* zt_hostfile_read() for a hostfile in memory. */
bool zt_hostfile_parse(struct zt_arena *arena, const struct zt_hostfile_text *file, const char *include,
                       const char *exclude, struct zt_hosts *hosts, struct zt_err *err);
/* The value of mpirun's --host, such as "a:2,b:1", in `arena`. */
const char *zt_hosts_list(struct zt_arena *arena, const struct zt_hosts *hosts);

#endif
