/* --ranks N, --hostfile F: this process becomes the supervisor of rank processes. */
#include "cli/launch.h"

#include "base/file.h"
#include "checkpoint/folder.h"
#include "parallel/launch/hostfile.h"
#include "parallel/launch/supervise.h"
#include "session/session.h"

#include <stdlib.h>

/* Lists the hosts to run on; none if all ranks are on this host. */
static bool find_hosts(const struct zt_options *o, struct zt_arena *arena, struct zt_hosts *hosts, struct zt_err *err) {
    *hosts = (struct zt_hosts){ .ranks = o->over.ranks };
    return !o->hostfile || zt_hostfile_read(arena, o->hostfile, o->include, o->exclude, hosts, err);
}

static bool is_wanted(const struct zt_options *o, const struct zt_hosts *hosts, bool *wanted, struct zt_err *err) {
    struct zt_config_overrides over = o->over;
    over.ranks = hosts->ranks;
    struct zt_config *config = zt_session_config(&o->configs, &over, err);
    if (!config)
        return false;
    bool threaded = zt_session_threaded(config);
    *wanted = !threaded;
    zt_config_destroy(config);
    return !threaded || !o->hostfile ||
           zt_fail(err, ZT_EXIT_CONFIG,
                   "--hostfile: ranks that are threads of one process cannot run on several hosts");
}

bool zt_launch(const struct zt_options *options, const char *folder, bool *launched, struct zt_err *err) {
    struct zt_launched found;
    struct zt_hosts hosts;
    *launched = false;
    if (options->supervisor) /* this process is one of the ranks */
        return true;
    if (!zt_launched_find(&found, err) || found.size > 1)
        return !err->count;
    struct zt_arena *arena = zt_arena_create();
    bool ok = find_hosts(options, arena, &hosts, err);
    if (ok && (hosts.ranks > 1 || hosts.count))
        ok = is_wanted(options, &hosts, launched, err);
    if (ok && *launched) {
        char *checkpoints = zt_path_join(folder, ZT_CHECKPOINTS);
        const char *const clean[] = { folder, checkpoints, NULL };
        struct zt_supervise job = { .ranks = hosts.ranks,
                                    .hosts = hosts.count ? zt_hosts_list(arena, &hosts) : NULL,
                                    .argv = options->argv,
                                    .clean = clean };
        ok = zt_supervise(&job, err);
        free(checkpoints);
    }
    zt_arena_destroy(arena);
    return ok;
}
