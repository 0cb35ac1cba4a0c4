#include "checkpoint/storage.h"

#include "base/file.h"
#include "checkpoint/folder.h"
#include "checkpoint/rank_states.h"
#include "checkpoint/run_files.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether the folder does not lie in the folder of checkpoints of a run that is running. */
static bool is_outside(const char *folder, struct zt_err *err) {
    char *path = realpath(folder, NULL);
    bool ok = true;
    for (char *at = path; ok && at && (at = strstr(at, "/" ZT_CHECKPOINTS));) {
        const char end = at[sizeof ZT_CHECKPOINTS];
        *at = 0;
        ok = (end && end != '/') || zt_folder_is_free(path, err);
        *at++ = '/';
    }
    free(path);
    return ok;
}

bool zt_storage_take(const struct zt_session *s, const char *folder, struct zt_folder_lock **lock, struct zt_err *err) {
    return zt_file_make_folder(folder, err) && is_outside(folder, err) && (*lock = zt_folder_lock(folder, err)) &&
           zt_run_files_absent(s->options, folder, err) && zt_run_files_writable(s, folder, err);
}

bool zt_storage_agree(struct zt_comm *world, bool ok, struct zt_err *err) {
    int32_t *failed = zt_calloc((size_t)world->size, sizeof *failed);
    int first = 0;
    failed[world->rank] = !ok;
    const bool exchanged = zt_comm_exchange(world, failed, sizeof *failed, ok ? err : &(struct zt_err){ 0 });
    while (exchanged && first < world->size && !failed[first])
        first++;
    free(failed);
    if (!exchanged || first == world->size)
        return ok && exchanged;
    if (first != world->rank) {
        err->count = 0;
        zt_fail(err, ZT_EXIT_RANK, "rank %d: it cannot load the checkpoint", first);
    }
    return false;
}

static bool take_folder(struct zt_checkpoint_storage *s, const struct zt_checkpoints_options *o, struct zt_err *err) {
    if (zt_storage_take(o->session, o->folder, &s->lock, err))
        return true;
    zt_err_within(err, 0, "%s", s->host[o->world->rank]);
    if (!s->lock)
        zt_hint(err,
                "with checkpoint.use_node_local_storage every host has a folder of its own at this path; a folder that "
                "the hosts share needs no such key");
    return false;
}

/* Whether every host has ranks of all stages. */
static bool has_all_stages(const struct zt_checkpoint_storage *s, const struct zt_grid *grid) {
    for (int i = 0; i < grid->world; i++)
        for (int stage = 0; s->first[i] == i && stage < grid->stages; stage++) {
            bool found = false;
            for (int d = 0; d < grid->data; d++)
                found |= s->first[zt_grid_rank(grid, stage, d)] == i;
            if (!found)
                return false;
        }
    return true;
}

static void count_peers(struct zt_checkpoint_storage *s, const struct zt_grid *grid) {
    s->peers = s->index = 0;
    for (int d = 0; d < grid->data; d++) {
        const int rank = zt_grid_rank(grid, grid->stage, d);
        if (s->first[rank] != s->first[grid->rank])
            continue;
        s->index += rank < grid->rank;
        s->peers++;
    }
}

bool zt_storage_open(struct zt_checkpoint_storage *s, const struct zt_checkpoints_options *o, struct zt_arena *arena,
                     struct zt_err *err) {
    const struct zt_rank_plan *p = o->plan;
    const int size = o->world->size, me = o->world->rank;
    *s = (struct zt_checkpoint_storage){ .here = o->world, .peers = p->grid.data, .index = p->grid.data_rank };
    if (!p->job->config->checkpoint.node_local || !o->session->processes)
        return true;
    s->host = ZT_NEW_N(arena, zt_host_name, size);
    s->first = ZT_NEW_N(arena, int, size);
    gethostname(s->host[me], sizeof *s->host - 1);
    if (!zt_comm_exchange(o->world, s->host, sizeof *s->host, err))
        return false;
    for (int i = 0; i < size; i++) {
        while (memcmp(s->host[s->first[i]], s->host[i], sizeof *s->host) != 0)
            s->first[i]++;
        s->several |= s->first[i] != 0;
    }
    if (!s->several)
        return true;
    s->parts = zt_sharding_splits_update(p->sharding) || zt_rank_states_exist(p) || !has_all_stages(s, &p->grid);
    count_peers(s, &p->grid);
    s->here = o->world->api->split(o->world, s->first[me], err);
    return s->here && (me == 0 || s->first[me] != me || take_folder(s, o, err));
}

void zt_storage_close(struct zt_checkpoint_storage *s) {
    if (s->several && s->here)
        s->here->api->destroy(s->here);
    zt_folder_unlock(s->lock);
}
