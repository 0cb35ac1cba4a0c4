/* Hosts and how many ranks each takes: DeepSpeed's hostfile with its filters (reference/deepspeed.md, section 8.1).
 *
 *     worker-1 slots=4        # four ranks            --include worker-0@worker-1:0,2    all of one, two slots of the
 *     worker-2 slots=2                                --exclude worker-1:0               other; or all but these
 *
 * Hostile text: anything that is not as above is an error with its line. */
#ifndef ZT_PARALLEL_LAUNCH_HOSTFILE_H
#define ZT_PARALLEL_LAUNCH_HOSTFILE_H

#include "base/arena.h"
#include "base/err.h"

enum { ZT_HOST_SLOTS = 4096 };

struct zt_host {
    const char *name;
    int slots;   /* as the file says */
    int ranks;   /* of them not filtered out */
    bool *taken; /* by slot; while filters are applied */
};

struct zt_hosts {
    struct zt_host *at; /* in the order of the file; those without ranks are left out */
    int count, ranks;   /* ranks: of all */
};

/* Reads `path`; `include` and `exclude` may be NULL, and are not both given. Everything is in `arena`. */
bool zt_hostfile_read(struct zt_arena *arena, const char *path, const char *include, const char *exclude,
                      struct zt_hosts *hosts, struct zt_err *err);
/* The same from text; `name` stands in errors. */
struct zt_hostfile_text {
    const char *at;
    size_t bytes;
    const char *name; /* for errors */
};
bool zt_hostfile_parse(struct zt_arena *arena, const struct zt_hostfile_text *file, const char *include,
                       const char *exclude, struct zt_hosts *hosts, struct zt_err *err);
/* "a:2,b:1", as mpirun's --host takes it; in the arena. */
const char *zt_hosts_list(struct zt_arena *arena, const struct zt_hosts *hosts);

#endif
