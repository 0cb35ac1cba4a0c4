#include "run/rank/offload.h"

#include "base/file.h"
#include "base/map.h"
#include "base/text.h"
#include "parallel/offload/aio.h"
#include "parallel/offload/swap_file.h"
#include "plan/rank_bytes.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = ZT_AIO_ALIGN / sizeof(float) }; /* elements */

struct zt_rank_offload {
    struct zt_aio *aio;
    struct zt_swap_folder *folder;
    struct zt_swap_file file;
    int64_t *at;         /* by piece: its first element in each array of the file */
    int64_t room, total; /* elements of one array in a buffer, and in the file */
    void *block;
    size_t block_bytes;
    float *buffers;                    /* [depth][array][room], aligned to ZT_AIO_ALIGN */
    struct zt_aio_transfer *transfers; /* [depth][array] */
    int *holds;                        /* by buffer: the sub-group that is or will be in it; -1: none */
};

static int depth_of(const struct zt_rank *r) {
    return r->plan->offload.depth;
}

static int64_t round_up(int64_t elems) {
    return (elems + BLOCK - 1) / BLOCK * BLOCK;
}

/* ---- sub-groups ---- */

/* Lays out the pieces that are offloaded: a range begins in a block of its own, at the place in the block that its flat
 * index has, so that pieces begin at blocks where they are cut. Returns the number of these pieces. */
static int lay_out(struct zt_rank *r, int64_t *at) {
    int64_t away = zt_offload_away(&r->plan->offload, zt_rank_plan_stepped(r->plan, r->plan->grid.data_rank)), end = 0;
    int count = 0, range = -1;
    for (; count < r->piece_count; count++) {
        const struct zt_piece *piece = &r->pieces[count];
        const struct zt_range *owned = &r->owned[piece->range];
        if (owned->state_at + (piece->first - owned->first) + piece->count > away)
            break;
        at[count] = piece->range == range ? end : round_up(end) + piece->first % BLOCK;
        end = at[count] + piece->count;
        range = piece->range;
    }
    return count;
}

static void add_sub_group(struct zt_rank *r, struct zt_sub_group group) {
    r->sub_groups[r->sub_group_count++] = group;
}

/* A sub-group ends before a piece that begins a block. */
static void divide(struct zt_rank *r, const int64_t *at, int count) {
    for (int first = 0, end; first < count; first = end) {
        const int64_t begin = at[first] / BLOCK * BLOCK;
        for (end = first + 1; end < count; end++) {
            bool cuts = at[end] % BLOCK == 0 || r->pieces[end].range != r->pieces[end - 1].range;
            if (cuts && at[end] + r->pieces[end].count - begin > r->plan->offload.group_elems)
                break;
        }
        add_sub_group(r, (struct zt_sub_group){ .first = first,
                                                .count = end - first,
                                                .at = begin,
                                                .last = round_up(at[end - 1] + r->pieces[end - 1].count) });
    }
}

static void make_sub_groups(struct zt_rank *r, int64_t *at) {
    const int away = lay_out(r, at);
    r->sub_groups = ZT_NEW_N(r->arena, struct zt_sub_group, r->piece_count + 1);
    divide(r, at, away);
    if (away < r->piece_count || !r->piece_count)
        add_sub_group(r, (struct zt_sub_group){ .first = away, .count = r->piece_count - away, .resident = true });
}

/* ---- creation ---- */

/* Names the run by its output folder: the last part of the path, and a hash of the whole. */
static char *run_name(struct zt_arena *arena, const char *folder) {
    char whole[PATH_MAX], name[41];
    const char *path = folder && realpath(folder, whole) ? whole : folder ? folder : "run";
    snprintf(name, sizeof name, "%s", zt_path_name(path));
    for (char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '-' && *c != '_')
            *c = '_';
    return zt_arena_printf(arena, "%s-%016llx", name, (unsigned long long)zt_hash(ZT_HASH_START, path, strlen(path)));
}

static bool open_files(struct zt_rank *r, struct zt_err *err) {
    const struct zt_config *c = r->plan->job->config;
    struct zt_rank_offload *o = r->offload;
    const struct zt_swap_place place = { c->zero.offload_optimizer.nvme_path, run_name(r->arena, r->plan->folder),
                                         r->plan->grid.rank };
    const struct zt_aio_options options = { c->aio.block_size, c->aio.queue_depth, c->aio.threads, c->aio.single_submit,
                                            c->aio.overlap_events };
    const int64_t bytes = o->total * r->plan->optimizer_states * (int64_t)sizeof(float);
    return (o->folder = zt_swap_folder_open(&place, err)) &&
           zt_swap_file_create(&o->file, o->folder, "optimizer.swp", bytes, err) &&
           (o->aio = zt_aio_create(&options, NULL, err));
}

static bool make_buffers(struct zt_rank *r, struct zt_err *err) {
    struct zt_rank_offload *o = r->offload;
    const int arrays = r->plan->optimizer_states;
    o->transfers = ZT_NEW_N(r->arena, struct zt_aio_transfer, depth_of(r) * arrays);
    o->holds = ZT_NEW_N(r->arena, int, depth_of(r));
    for (int i = 0; i < depth_of(r); i++)
        o->holds[i] = -1;
    o->block_bytes = (size_t)(depth_of(r) * arrays * o->room) * sizeof(float) + ZT_AIO_ALIGN;
    if (!(o->block = zt_block_create(o->block_bytes, "buffers of the optimizer states", err)))
        return false;
    o->buffers = (float *)(((uintptr_t)o->block + ZT_AIO_ALIGN - 1) / ZT_AIO_ALIGN * ZT_AIO_ALIGN);
    return true;
}

bool zt_rank_offload_create(struct zt_rank *r, struct zt_err *err) {
    int64_t *at = ZT_NEW_N(r->arena, int64_t, r->piece_count + 1);
    make_sub_groups(r, at);
    if (r->plan->offload.optimizer != ZT_HOME_NVME || !r->plan->optimizer_states || r->sub_groups[0].resident)
        return true;
    struct zt_rank_offload *o = r->offload = ZT_NEW(r->arena, struct zt_rank_offload);
    o->file.file = -1;
    o->at = at;
    for (int g = 0; g < r->sub_group_count && !r->sub_groups[g].resident; g++) {
        const int64_t elems = r->sub_groups[g].last - r->sub_groups[g].at;
        o->room = elems > o->room ? elems : o->room;
        o->total = r->sub_groups[g].last;
    }
    return open_files(r, err) && make_buffers(r, err);
}

void zt_rank_offload_destroy(struct zt_rank *r) {
    struct zt_rank_offload *o = r->offload;
    if (!o)
        return;
    zt_aio_destroy(o->aio);
    zt_swap_file_close(&o->file);
    zt_swap_folder_close(o->folder);
    zt_block_destroy(o->block, o->block_bytes);
}

/* ---- transfers ---- */

static float *buffer(const struct zt_rank *r, int g, int array) {
    const struct zt_rank_offload *o = r->offload;
    return o->buffers + (g % depth_of(r) * r->plan->optimizer_states + array) * o->room;
}

static struct zt_aio_transfer *transfer(const struct zt_rank *r, int g, int array) {
    return &r->offload->transfers[g % depth_of(r) * r->plan->optimizer_states + array];
}

/* Waits for the transfers of the buffer of sub-group `g`. */
static bool wait_for(struct zt_rank *r, int g, struct zt_err *err) {
    bool ok = true;
    for (int s = 0; s < r->plan->optimizer_states; s++)
        ok = zt_aio_wait(r->offload->aio, transfer(r, g, s), ok ? err : &(struct zt_err){ 0 }) && ok;
    return ok;
}

/* Starts to read or write the states of sub-group `g`. */
static bool start(struct zt_rank *r, int g, bool writes, struct zt_err *err) {
    struct zt_rank_offload *o = r->offload;
    const struct zt_sub_group *group = &r->sub_groups[g];
    if (!wait_for(r, g, err))
        return false;
    o->holds[g % depth_of(r)] = g;
    for (int s = 0; s < r->plan->optimizer_states; s++) {
        *transfer(r, g, s) = (struct zt_aio_transfer){ .path = o->file.path,
                                                       .file = o->file.file,
                                                       .writes = writes,
                                                       .at = (char *)buffer(r, g, s),
                                                       .offset = (s * o->total + group->at) * (int64_t)sizeof(float),
                                                       .bytes = (group->last - group->at) * (int64_t)sizeof(float) };
        zt_aio_start(o->aio, transfer(r, g, s));
    }
    return true;
}

static bool is_away(const struct zt_rank *r, int g) {
    return r->offload && g < r->sub_group_count && !r->sub_groups[g].resident;
}

static void point(struct zt_rank *r, int g) {
    const struct zt_sub_group *group = &r->sub_groups[g];
    for (int i = group->first; i < group->first + group->count; i++)
        for (int s = 0; s < r->plan->optimizer_states; s++)
            r->pieces[i].state[s] = buffer(r, g, s) + (r->offload->at[i] - group->at);
}

/* Reads ahead where there is another buffer. */
static bool read_ahead(struct zt_rank *r, int g, struct zt_err *err) {
    const bool asked = r->plan->job->config->zero.offload_optimizer.pipeline_read && depth_of(r) > 1;
    return !asked || !is_away(r, g) || start(r, g, false, err);
}

bool zt_rank_sub_group_open(struct zt_rank *r, int g, enum zt_sub_group_use use, struct zt_err *err) {
    if (!is_away(r, g))
        return true;
    const bool reads = use != ZT_STATES_FILLED, ahead = r->offload->holds[g % depth_of(r)] == g;
    if ((reads && !ahead && !start(r, g, false, err)) || !wait_for(r, g, err) || (reads && !read_ahead(r, g + 1, err)))
        return false;
    point(r, g);
    return true;
}

bool zt_rank_sub_group_close(struct zt_rank *r, int g, enum zt_sub_group_use use, struct zt_err *err) {
    if (!is_away(r, g))
        return true;
    const bool writes = use != ZT_STATES_READ;
    if (writes && !start(r, g, true, err))
        return false;
    r->offload->holds[g % depth_of(r)] = -1;
    return !writes || r->plan->job->config->zero.offload_optimizer.pipeline_write || wait_for(r, g, err);
}

bool zt_rank_sub_groups_finish(struct zt_rank *r, struct zt_err *err) {
    bool ok = true;
    for (int i = 0; r->offload && i < depth_of(r); i++)
        ok = wait_for(r, i, ok ? err : &(struct zt_err){ 0 }) && ok;
    return ok;
}

void zt_rank_offload_say(const struct zt_rank *r, const struct zt_log *log) {
    const struct zt_rank_offload *o = r->offload;
    char t[2][32];
    int away = 0;
    if (!o)
        return;
    while (is_away(r, away))
        away++;
    zt_say(log, ZT_LOG_INFO, "  %-15s optimizer states %s in %s, in %d sub-groups through buffers of %s; %s, %s",
           "offload", zt_format_bytes(t[0], (double)o->total * (double)sizeof(float) * r->plan->optimizer_states),
           zt_swap_folder_path(o->folder), away, zt_format_bytes(t[1], (double)o->block_bytes), zt_aio_name(o->aio),
           o->file.direct ? "O_DIRECT" : "through the page cache");
}
