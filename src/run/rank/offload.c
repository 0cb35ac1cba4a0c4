#include "run/rank/offload.h"

#include "base/file.h"
#include "base/map.h"
#include "base/text.h"
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
    struct zt_swap_file params, states;
    int64_t *at;          /* by piece: its first element in each array */
    int64_t room;         /* elements of one array in a buffer */
    int64_t first_param;  /* the parameter file begins with this element */
    int64_t states_total; /* elements of each state array of the file */
    int arrays;           /* of a buffer: the parameters, if some are away, then the states, likewise */
    int state_arrays;
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

/* Lays out the pieces: a range begins in a block of its own, at the place in the block that its flat index has, so that
 * pieces begin at blocks where they are cut. */
static void lay_out(const struct zt_rank *r, int64_t *at) {
    int64_t end = 0;
    for (int i = 0, range = -1; i < r->piece_count; i++) {
        const struct zt_piece *piece = &r->pieces[i];
        at[i] = piece->range == range ? end : round_up(end) + piece->first % BLOCK;
        end = at[i] + piece->count;
        range = piece->range;
    }
}

/* Whether a sub-group may end before the piece. */
static bool cuts(const struct zt_rank *r, const int64_t *at, int piece) {
    return piece == r->piece_count || piece == 0 || at[piece] % BLOCK == 0 ||
           r->pieces[piece].range != r->pieces[piece - 1].range;
}

/* Returns the number of pieces whose states are away: the first ones. */
static int count_states_away(const struct zt_rank *r, const int64_t *at) {
    const int64_t away = zt_offload_away(&r->plan->offload, zt_rank_plan_stepped(r->plan, r->plan->grid.data_rank));
    int count = 0;
    for (; count < r->piece_count; count++) {
        const struct zt_piece *piece = &r->pieces[count];
        const struct zt_range *owned = &r->owned[piece->range];
        if (owned->state_at + (piece->first - owned->first) + piece->count > away)
            break;
    }
    while (!cuts(r, at, count))
        count--;
    return count;
}

/* Returns the number of pieces whose parameters stay in the block: those of the first ranges. */
static int count_params_kept(const struct zt_rank *r) {
    const int64_t kept = zt_offload_kept(&r->plan->offload, r->plan->flat->owned[r->plan->grid.data_rank]);
    int count = 0;
    while (count < r->piece_count) {
        const struct zt_range *owned = &r->owned[r->pieces[count].range];
        if (owned->param_at + (owned->last - owned->first) > kept)
            break;
        count++;
    }
    return count;
}

/* Adds sub-groups for the pieces from `first` to `end`, which are alike. */
static void divide(struct zt_rank *r, const int64_t *at, struct zt_sub_group like, int end) {
    const int64_t most = like.states_away || like.params_away ? r->plan->offload.group_elems : INT64_MAX;
    for (int next; like.first < end; like.first = next) {
        like.at = at[like.first] / BLOCK * BLOCK;
        for (next = like.first + 1; next < end; next++)
            if (cuts(r, at, next) && at[next] + r->pieces[next].count - like.at > most)
                break;
        like.count = next - like.first;
        like.last = round_up(at[next - 1] + r->pieces[next - 1].count);
        r->sub_groups[r->sub_group_count++] = like;
    }
}

static void make_sub_groups(struct zt_rank *r, int64_t *at) {
    const bool params = r->plan->offload.parameters == ZT_HOME_NVME;
    lay_out(r, at);
    const int states = r->plan->optimizer_states ? count_states_away(r, at) : 0,
              kept = params ? count_params_kept(r) : r->piece_count;
    const int first = states < kept ? states : kept, second = states < kept ? kept : states;
    r->sub_groups = ZT_NEW_N(r->arena, struct zt_sub_group, r->piece_count + 1);
    divide(r, at, (struct zt_sub_group){ .first = 0, .states_away = states > 0 }, first);
    divide(r, at, (struct zt_sub_group){ .first = first, .states_away = states > first, .params_away = kept <= first },
           second);
    divide(r, at, (struct zt_sub_group){ .first = second, .params_away = params }, r->piece_count);
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
    const struct zt_offload_config *config = o->state_arrays ? &c->zero.offload_optimizer : &c->zero.offload_param;
    const struct zt_swap_place place = { config->nvme_path, run_name(r->arena, r->plan->folder), r->plan->grid.rank };
    const struct zt_aio_options options = { c->aio.block_size, c->aio.queue_depth, c->aio.threads, c->aio.single_submit,
                                            c->aio.overlap_events };
    const int64_t elems = r->sub_group_count ? r->sub_groups[r->sub_group_count - 1].last : 0,
                  params = o->arrays > o->state_arrays ? elems - o->first_param : 0;
    return (o->folder = zt_swap_folder_open(&place, err)) &&
           zt_swap_file_create(&o->params, o->folder, "parameters.swp", params * (int64_t)sizeof(float), err) &&
           zt_swap_file_create(&o->states, o->folder, "optimizer.swp",
                               o->states_total * o->state_arrays * (int64_t)sizeof(float), err) &&
           (o->aio = zt_aio_create(&options, NULL, err));
}

static bool make_buffers(struct zt_rank *r, struct zt_err *err) {
    struct zt_rank_offload *o = r->offload;
    o->transfers = ZT_NEW_N(r->arena, struct zt_aio_transfer, depth_of(r) * o->arrays);
    o->holds = ZT_NEW_N(r->arena, int, depth_of(r));
    for (int i = 0; i < depth_of(r); i++)
        o->holds[i] = -1;
    o->block_bytes = (size_t)(depth_of(r) * o->arrays * o->room) * sizeof(float) + ZT_AIO_ALIGN;
    if (!(o->block = zt_block_create(o->block_bytes, "buffers of what is offloaded", err)))
        return false;
    o->buffers = (float *)(((uintptr_t)o->block + ZT_AIO_ALIGN - 1) / ZT_AIO_ALIGN * ZT_AIO_ALIGN);
    return true;
}

/* Counts what the sub-groups say. */
static void measure(struct zt_rank *r) {
    struct zt_rank_offload *o = r->offload;
    bool params = false;
    for (int g = 0; g < r->sub_group_count; g++) {
        const struct zt_sub_group *group = &r->sub_groups[g];
        const bool away = group->states_away || group->params_away;
        if (away && group->last - group->at > o->room)
            o->room = group->last - group->at;
        if (group->params_away && !params)
            o->first_param = group->at;
        params |= group->params_away;
        if (group->states_away) {
            o->state_arrays = r->plan->optimizer_states;
            o->states_total = group->last;
        }
    }
    o->arrays = o->state_arrays + params;
}

bool zt_rank_offload_create(struct zt_rank *r, struct zt_err *err) {
    int64_t *at = ZT_NEW_N(r->arena, int64_t, r->piece_count + 1);
    struct zt_rank_offload *o = ZT_NEW(r->arena, struct zt_rank_offload);
    make_sub_groups(r, at);
    r->offload = o;
    o->params.file = o->states.file = -1;
    o->at = at;
    measure(r);
    if (o->arrays)
        return open_files(r, err) && make_buffers(r, err);
    r->offload = NULL;
    return true;
}

void zt_rank_offload_destroy(struct zt_rank *r) {
    struct zt_rank_offload *o = r->offload;
    if (!o)
        return;
    zt_aio_destroy(o->aio);
    zt_swap_file_close(&o->params);
    zt_swap_file_close(&o->states);
    zt_swap_folder_close(o->folder);
    zt_block_destroy(o->block, o->block_bytes);
}

/* ---- transfers ---- */

static bool is_param(const struct zt_rank *r, int array) {
    return array == 0 && r->offload->arrays > r->offload->state_arrays;
}

static float *buffer(const struct zt_rank *r, int g, int array) {
    const struct zt_rank_offload *o = r->offload;
    return o->buffers + (g % depth_of(r) * o->arrays + array) * o->room;
}

static struct zt_aio_transfer *transfer(const struct zt_rank *r, int g, int array) {
    return &r->offload->transfers[g % depth_of(r) * r->offload->arrays + array];
}

/* Waits for the transfers of the buffer of sub-group `g`. */
static bool wait_for(struct zt_rank *r, int g, struct zt_err *err) {
    bool ok = true;
    for (int a = 0; a < r->offload->arrays; a++)
        ok = zt_aio_wait(r->offload->aio, transfer(r, g, a), ok ? err : &(struct zt_err){ 0 }) && ok;
    return ok;
}

/* A transfer of elements `at` to `last` of an array; state arrays follow one another. */
static struct zt_aio_transfer make_transfer(const struct zt_rank *r, int array, int64_t at, int64_t last) {
    const struct zt_rank_offload *o = r->offload;
    const bool param = is_param(r, array);
    const int64_t state = array - (o->arrays - o->state_arrays),
                  before = param ? -o->first_param : state * o->states_total;
    return (struct zt_aio_transfer){ .path = param ? o->params.path : o->states.path,
                                     .file = param ? o->params.file : o->states.file,
                                     .offset = (before + at) * (int64_t)sizeof(float),
                                     .bytes = (last - at) * (int64_t)sizeof(float) };
}

/* Starts to read or write sub-group `g`. */
static bool start(struct zt_rank *r, int g, bool writes, unsigned use, struct zt_err *err) {
    struct zt_rank_offload *o = r->offload;
    const struct zt_sub_group *group = &r->sub_groups[g];
    const unsigned states = writes ? ZT_WRITES_STATES : ZT_READS_STATES,
                   params = writes ? ZT_WRITES_PARAMS : ZT_READS_PARAMS;
    if (!wait_for(r, g, err))
        return false;
    o->holds[g % depth_of(r)] = g;
    for (int a = 0; a < o->arrays; a++) {
        if (is_param(r, a) ? !group->params_away || !(use & params) : !group->states_away || !(use & states))
            continue;
        struct zt_aio_transfer *t = transfer(r, g, a);
        *t = make_transfer(r, a, group->at, group->last);
        t->writes = writes;
        t->at = (char *)buffer(r, g, a);
        zt_aio_start(o->aio, t);
    }
    return true;
}

static bool is_away(const struct zt_rank *r, int g) {
    return r->offload && g < r->sub_group_count && (r->sub_groups[g].states_away || r->sub_groups[g].params_away);
}

static void point(struct zt_rank *r, int g) {
    const struct zt_rank_offload *o = r->offload;
    const struct zt_sub_group *group = &r->sub_groups[g];
    const int first_state = o->arrays - o->state_arrays;
    for (int i = group->first; i < group->first + group->count; i++) {
        struct zt_piece *piece = &r->pieces[i];
        const int64_t at = o->at[i] - group->at;
        if (group->params_away)
            piece->param = buffer(r, g, 0) + at;
        for (int s = 0; s < o->state_arrays && group->states_away; s++)
            piece->state[s] = buffer(r, g, first_state + s) + at;
    }
}

/* Reads ahead where there is another buffer. */
static bool read_ahead(struct zt_rank *r, int g, unsigned use, struct zt_err *err) {
    const bool asked = r->plan->job->config->zero.offload_optimizer.pipeline_read && depth_of(r) > 1;
    return !asked || !is_away(r, g) || start(r, g, false, use, err);
}

bool zt_rank_sub_group_open(struct zt_rank *r, int g, unsigned use, struct zt_err *err) {
    if (!is_away(r, g))
        return true;
    const bool reads = use & ZT_READS_ALL, ahead = r->offload->holds[g % depth_of(r)] == g;
    if ((reads && !ahead && !start(r, g, false, use, err)) || !wait_for(r, g, err) ||
        (reads && !read_ahead(r, g + 1, use, err)))
        return false;
    point(r, g);
    return true;
}

bool zt_rank_sub_group_close(struct zt_rank *r, int g, unsigned use, struct zt_err *err) {
    if (!is_away(r, g))
        return true;
    const bool writes = use & ZT_WRITES_ALL;
    if (writes && !start(r, g, true, use, err))
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

bool zt_rank_each_piece(struct zt_rank *r, unsigned use,
                        bool (*visit)(void *with, const struct zt_piece *piece, struct zt_err *err), void *with,
                        struct zt_err *err) {
    for (int g = 0; g < r->sub_group_count; g++) {
        const struct zt_sub_group *group = &r->sub_groups[g];
        if (!zt_rank_sub_group_open(r, g, use, err))
            return false;
        for (int i = group->first; i < group->first + group->count; i++)
            if (!visit(with, &r->pieces[i], err))
                return false;
        if (!zt_rank_sub_group_close(r, g, use, err))
            return false;
    }
    return zt_rank_sub_groups_finish(r, err);
}

struct zt_aio_transfer zt_rank_param_transfer(const struct zt_rank *r, int piece, int64_t elems, float *to,
                                              int64_t *skip) {
    const int64_t first = r->offload->at[piece], at = first / BLOCK * BLOCK;
    struct zt_aio_transfer t = make_transfer(r, 0, at, round_up(first + elems));
    t.at = (char *)to;
    *skip = first - at;
    return t;
}

struct zt_aio *zt_rank_aio(const struct zt_rank *r) {
    return r->offload->aio;
}

void zt_rank_offload_say(const struct zt_rank *r, const struct zt_log *log) {
    const struct zt_rank_offload *o = r->offload;
    char t[3][32];
    int away = 0;
    if (!o)
        return;
    for (int g = 0; g < r->sub_group_count; g++)
        away += is_away(r, g);
    const int64_t params =
        o->arrays > o->state_arrays ? r->sub_groups[r->sub_group_count - 1].last - o->first_param : 0;
    zt_say(log, ZT_LOG_INFO,
           "  %-15s optimizer states %s and parameters %s in %s, in %d sub-groups through buffers of %s; %s, %s",
           "offload", zt_format_bytes(t[0], (double)(o->states_total * o->state_arrays) * (double)sizeof(float)),
           zt_format_bytes(t[1], (double)params * (double)sizeof(float)), zt_swap_folder_path(o->folder), away,
           zt_format_bytes(t[2], (double)o->block_bytes), zt_aio_name(o->aio),
           (o->state_arrays ? o->states : o->params).direct ? "O_DIRECT" : "through the page cache");
}
