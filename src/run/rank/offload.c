#include "run/rank/offload.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/map.h"
#include "base/text.h"
#include "parallel/offload/swap_file.h"
#include "plan/rank_bytes.h"
#include "run/timers/timers.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = ZT_AIO_ALIGN / sizeof(float) }; /* elements */

/* Host memory, page-locked beside a GPU. */
struct block {
    void *memory;
    size_t bytes;
};

struct zt_rank_offload {
    struct zt_aio *aio; /* NULL: no files */
    struct zt_swap_folder *folder;
    struct zt_swap_file params, states;
    int64_t *at;          /* by piece: its first element in each array */
    int64_t room;         /* elements of one array in a buffer */
    int64_t first_param;  /* the parameter file begins with this element */
    int64_t states_total; /* elements of each state array */
    int param_arrays;     /* of a buffer: 1 if parameters are in a file, or are copied from the device */
    int state_arrays;     /* of a buffer: the states if they are in a file */
    struct block buffers_block;
    float *buffers;                    /* [depth][array][room], aligned to ZT_AIO_ALIGN */
    struct zt_aio_transfer *transfers; /* [depth][array] */
    int *reads;                        /* by buffer: the sub-group that was or is being read into it; -1: none */
    /* Beside a GPU: */
    struct block shard, matrices;      /* r->shard, r->matrix_space */
    struct block masters, host_states; /* ZT_HOME_HOST: weights; states, one array after the other */
    struct block gradients;            /* [depth][room] */
    struct zt_event **brought, **sent; /* by buffer: pass when it is copied from the device; to the device */
    int *brings;                       /* by buffer: the sub-group whose copy from the device has begun; -1: none */
};

static bool on_gpu(const struct zt_rank *r) {
    return r->plan->offload.beside_gpu && r->device->module;
}

static bool allocate(struct zt_rank *r, struct block *to, int64_t elems, const char *what, struct zt_err *err) {
    to->bytes = (size_t)elems * sizeof(float) + ZT_AIO_ALIGN;
    to->memory = zt_device_allocate_host(r->device, to->bytes, what, err);
    return to->memory != NULL;
}

static void release(struct zt_rank *r, struct block *block) {
    zt_device_free_host(r->device, block->memory, block->bytes);
}

static float *aligned(const struct block *block) {
    return (float *)(((uintptr_t)block->memory + ZT_AIO_ALIGN - 1) / ZT_AIO_ALIGN * ZT_AIO_ALIGN);
}

static int arrays_of(const struct zt_rank *r) {
    return r->offload->param_arrays + r->offload->state_arrays;
}

static int depth_of(const struct zt_rank *r) {
    return r->plan->offload.depth;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
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
    const int64_t kept = zt_offload_kept(&r->plan->offload, r->plan->tensors.flat->owned[r->plan->grid.data_rank]);
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
    const int64_t most = like.states_away || like.params_filed ? r->plan->offload.group_elems : INT64_MAX;
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
    const int states = r->plan->memory.optimizer_states || on_gpu(r) ? count_states_away(r, at) : 0,
              kept = params ? count_params_kept(r) : r->piece_count;
    const int first = states < kept ? states : kept, second = states < kept ? kept : states;
    r->sub_groups = ZT_NEW_N(r->arena, struct zt_sub_group, r->piece_count + 1);
    divide(r, at, (struct zt_sub_group){ .first = 0, .states_away = states > 0 }, first);
    divide(r, at, (struct zt_sub_group){ .first = first, .states_away = states > first, .params_filed = kept <= first },
           second);
    divide(r, at, (struct zt_sub_group){ .first = second, .params_filed = params }, r->piece_count);
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

/* Returns the elements of the file of parameters. */
static int64_t filed_params(const struct zt_rank *r) {
    const struct zt_sub_group *last = &r->sub_groups[r->sub_group_count - 1];
    return last->params_filed ? last->last - r->offload->first_param : 0;
}

static bool open_files(struct zt_rank *r, struct zt_err *err) {
    const struct zt_config *c = r->plan->job->config;
    struct zt_rank_offload *o = r->offload;
    const bool params = filed_params(r) > 0;
    const struct zt_offload_config *config = o->state_arrays ? &c->zero.offload_optimizer : &c->zero.offload_param;
    const struct zt_swap_place place = { config->nvme_path, run_name(r->arena, r->plan->folder), r->plan->grid.rank };
    const struct zt_aio_options options = zt_offload_aio(c);
    const int64_t elems = filed_params(r);
    if (!o->state_arrays && !params)
        return true;
    return zt_file_make_folder(place.path, err) && (o->folder = zt_swap_folder_open(&place, err)) &&
           zt_swap_file_init(&o->params, o->folder, "parameters.swp", elems * (int64_t)sizeof(float), err) &&
           zt_swap_file_init(&o->states, o->folder, "optimizer.swp",
                             o->states_total * o->state_arrays * (int64_t)sizeof(float), err) &&
           (o->aio = zt_aio_create(&options, NULL, err));
}

static bool make_buffers(struct zt_rank *r, struct zt_err *err) {
    struct zt_rank_offload *o = r->offload;
    const int depth = depth_of(r);
    o->transfers = ZT_NEW_N(r->arena, struct zt_aio_transfer, depth * arrays_of(r) + 1);
    o->reads = ZT_NEW_N(r->arena, int, depth);
    o->brings = ZT_NEW_N(r->arena, int, depth);
    for (int i = 0; i < depth; i++)
        o->reads[i] = o->brings[i] = -1;
    if (!allocate(r, &o->buffers_block, depth * arrays_of(r) * o->room, "buffers of what is offloaded", err))
        return false;
    o->buffers = aligned(&o->buffers_block);
    return true;
}

/* The pieces that are updated on the host get their places there; update.c updates the others on the device. */
static void move_pieces(struct zt_rank *r) {
    struct zt_rank_offload *o = r->offload;
    const bool params = r->plan->offload.parameters == ZT_HOME_DEVICE;
    for (int g = 0; g < r->sub_group_count && r->sub_groups[g].states_away; g++)
        for (int i = r->sub_groups[g].first; i < r->sub_groups[g].first + r->sub_groups[g].count; i++) {
            struct zt_piece *piece = &r->pieces[i];
            piece->on_host = true;
            piece->device_grad = piece->grad;
            piece->device_param = params ? piece->param : NULL;
            if (o->masters.memory)
                piece->param = aligned(&o->masters) + o->at[i];
            for (int s = 0; o->host_states.memory && s < r->plan->memory.optimizer_states; s++)
                piece->state[s] = aligned(&o->host_states) + s * o->states_total + o->at[i];
        }
}

static bool open_host(struct zt_rank *r, struct zt_err *err) {
    struct zt_rank_offload *o = r->offload;
    const struct zt_device_api *api = r->device->api;
    const bool host = r->plan->offload.optimizer == ZT_HOME_HOST;
    const bool masters = host && r->plan->offload.parameters == ZT_HOME_DEVICE;
    if (!on_gpu(r))
        return true;
    if ((masters && !allocate(r, &o->masters, o->states_total, "the master weights", err)) ||
        (host && !allocate(r, &o->host_states, o->states_total * r->plan->memory.optimizer_states,
                           "the optimizer states", err)) ||
        !allocate(r, &o->gradients, depth_of(r) * o->room, "buffers of the gradients", err))
        return false;
    if (host)
        memset(o->host_states.memory, 0, o->host_states.bytes);
    o->brought = ZT_NEW_N(r->arena, struct zt_event *, depth_of(r));
    o->sent = ZT_NEW_N(r->arena, struct zt_event *, depth_of(r));
    for (int i = 0; i < depth_of(r); i++)
        if (!(o->brought[i] = api->event_create(r->device, err)) || !(o->sent[i] = api->event_create(r->device, err)))
            return false;
    move_pieces(r);
    return true;
}

/* Counts what the sub-groups say. Returns whether anything is offloaded. */
static bool measure(struct zt_rank *r) {
    struct zt_rank_offload *o = r->offload;
    bool params = false;
    for (int g = 0; g < r->sub_group_count; g++) {
        const struct zt_sub_group *group = &r->sub_groups[g];
        const bool away = group->states_away || group->params_filed;
        if (away && group->last - group->at > o->room)
            o->room = group->last - group->at;
        if (group->params_filed && !params)
            o->first_param = group->at;
        params |= group->params_filed;
        if (group->states_away)
            o->states_total = group->last;
    }
    const bool states = o->states_total && r->plan->offload.optimizer == ZT_HOME_NVME;
    o->state_arrays = states ? r->plan->memory.optimizer_states : 0;
    o->param_arrays = params || (states && on_gpu(r) && r->plan->offload.parameters == ZT_HOME_DEVICE);
    return o->room > 0;
}

bool zt_rank_offload_shard(struct zt_rank *r, struct zt_err *err) {
    r->offload = ZT_NEW(r->arena, struct zt_rank_offload);
    r->offload->params.file = r->offload->states.file = -1;
    if (on_gpu(r) && r->plan->memory.matrix_bytes) {
        if (!allocate(r, &r->offload->matrices, r->plan->memory.matrix_bytes / (int64_t)sizeof(float), "a matrix", err))
            return false;
        r->matrix_space = (char *)aligned(&r->offload->matrices);
    }
    if (!on_gpu(r) || r->plan->offload.parameters == ZT_HOME_DEVICE)
        return true;
    if (!allocate(r, &r->offload->shard, r->plan->memory.shard_elems, "the parameters", err))
        return false;
    r->shard = aligned(&r->offload->shard);
    return true;
}

bool zt_rank_offload_create(struct zt_rank *r, struct zt_err *err) {
    int64_t *at = ZT_NEW_N(r->arena, int64_t, r->piece_count + 1);
    make_sub_groups(r, at);
    r->offload->at = at;
    if (measure(r))
        return open_files(r, err) && make_buffers(r, err) && open_host(r, err);
    if (!r->offload->shard.memory && !r->offload->matrices.memory)
        r->offload = NULL;
    return true;
}

void zt_rank_offload_destroy(struct zt_rank *r) {
    struct zt_rank_offload *o = r->offload;
    if (!o)
        return;
    struct block *const blocks[] = { &o->buffers_block, &o->shard,       &o->matrices,
                                     &o->masters,       &o->host_states, &o->gradients };
    zt_aio_destroy(o->aio);
    zt_swap_file_finish(&o->params);
    zt_swap_file_finish(&o->states);
    zt_swap_folder_close(o->folder);
    for (int i = 0; i < depth_of(r) && o->brought; i++) {
        if (o->brought[i])
            r->device->api->event_destroy(r->device, o->brought[i]);
        if (o->sent[i])
            r->device->api->event_destroy(r->device, o->sent[i]);
    }
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        release(r, blocks[i]);
}

/* ---- transfers ---- */

static bool is_param(const struct zt_rank *r, int array) {
    return array < r->offload->param_arrays;
}

static float *buffer(const struct zt_rank *r, int g, int array) {
    return r->offload->buffers + (g % depth_of(r) * arrays_of(r) + array) * r->offload->room;
}

static float *gradient_buffer(const struct zt_rank *r, int g) {
    return aligned(&r->offload->gradients) + g % depth_of(r) * r->offload->room;
}

static struct zt_aio_transfer *transfer(const struct zt_rank *r, int g, int array) {
    return &r->offload->transfers[g % depth_of(r) * arrays_of(r) + array];
}

static int timer_of(const struct zt_rank *r, int array, bool writes) {
    return is_param(r, array) ? (writes ? ZT_TIMER_PARAMS_OUT : ZT_TIMER_PARAMS_IN)
                              : (writes ? ZT_TIMER_STATES_OUT : ZT_TIMER_STATES_IN);
}

/* Waits for the transfers of the buffer of sub-group `g`. */
static bool wait_for(struct zt_rank *r, int g, struct zt_err *err) {
    bool ok = true;
    for (int a = 0; r->offload->aio && a < arrays_of(r); a++) {
        struct zt_aio_transfer *t = transfer(r, g, a);
        if (!t->bytes)
            continue;
        const int entered = zt_timers_enter_host(r->timers);
        const bool moved = zt_aio_wait(r->offload->aio, t, ok ? err : &(struct zt_err){ 0 });
        zt_timers_leave_host(r->timers, entered, timer_of(r, a, t->writes));
        t->bytes = moved ? 0 : t->bytes; /* a failure is reported again */
        ok = ok && moved;
    }
    return ok;
}

/* Waits for the copies of sub-group `g` from a GPU. */
static bool wait_brought(struct zt_rank *r, int g, struct zt_err *err) {
    if (!on_gpu(r))
        return true;
    const int entered = zt_timers_enter_host(r->timers);
    const bool ok = r->device->api->wait(r->device, r->offload->brought[g % depth_of(r)], err);
    zt_timers_leave_host(r->timers, entered, ZT_TIMER_GRADIENTS_IN);
    return ok;
}

/* A transfer of elements `at` to `last` of an array; state arrays follow one another. */
static struct zt_aio_transfer make_transfer(const struct zt_rank *r, int array, int64_t at, int64_t last) {
    const struct zt_rank_offload *o = r->offload;
    const bool param = is_param(r, array);
    const int64_t before = param ? -o->first_param : (array - o->param_arrays) * o->states_total;
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
    const int entered = zt_timers_enter_host(r->timers);
    o->reads[g % depth_of(r)] = writes ? -1 : g;
    for (int a = 0; a < arrays_of(r); a++) {
        if (is_param(r, a) ? !group->params_filed || !(use & params) : !group->states_away || !(use & states))
            continue;
        struct zt_aio_transfer *t = transfer(r, g, a);
        *t = make_transfer(r, a, group->at, group->last);
        t->writes = writes;
        t->at = (char *)buffer(r, g, a);
        zt_aio_start(o->aio, t);
    }
    zt_timers_leave_host(r->timers, entered, writes ? ZT_TIMER_START_OUT : ZT_TIMER_START_IN);
    return true;
}

static bool is_away(const struct zt_rank *r, int g) {
    return r->offload && g < r->sub_group_count && (r->sub_groups[g].states_away || r->sub_groups[g].params_filed);
}

/* Whether the parameters of the sub-group pass through the buffer. */
static bool buffers_params(const struct zt_rank *r, const struct zt_sub_group *group) {
    return group->params_filed || (r->offload->param_arrays && on_gpu(r) && group->states_away &&
                                   r->plan->offload.parameters == ZT_HOME_DEVICE);
}

static void point(struct zt_rank *r, int g) {
    const struct zt_rank_offload *o = r->offload;
    const struct zt_sub_group *group = &r->sub_groups[g];
    for (int i = group->first; i < group->first + group->count; i++) {
        struct zt_piece *piece = &r->pieces[i];
        const int64_t at = o->at[i] - group->at;
        if (buffers_params(r, group))
            piece->param = buffer(r, g, 0) + at;
        for (int s = 0; s < o->state_arrays && group->states_away; s++)
            piece->state[s] = buffer(r, g, o->param_arrays + s) + at;
        if (piece->on_host)
            piece->grad = gradient_buffer(r, g) + at;
    }
}

/* ---- copies from and to a GPU ---- */

/* The number of pieces from `piece` on that are neighbours on the device and in the buffer, and their elements. */
static int run_of(const struct zt_rank *r, const struct zt_sub_group *group, int piece, int64_t *elems) {
    int end = piece;
    for (*elems = 0; end < group->first + group->count && r->pieces[end].range == r->pieces[piece].range; end++)
        *elems += r->pieces[end].count;
    return end - piece;
}

/* Queues the copies of gradients and parameters from the device. The buffer has been sent. */
static bool bring(struct zt_rank *r, int g, unsigned use, struct zt_err *err) {
    const struct zt_device_api *api = r->device->api;
    const struct zt_rank_offload *o = r->offload;
    const struct zt_sub_group *group = &r->sub_groups[g];
    const bool params = use & ZT_READS_PARAMS && buffers_params(r, group) && !group->params_filed;
    if (!api->wait(r->device, o->sent[g % depth_of(r)], err))
        return false;
    int64_t elems;
    for (int i = group->first; i < group->first + group->count; i += run_of(r, group, i, &elems)) {
        const int64_t at = o->at[i] - group->at;
        run_of(r, group, i, &elems);
        const size_t bytes = (size_t)elems * sizeof(float);
        if ((use & ZT_READS_GRADIENTS &&
             !api->to_host(r->device, gradient_buffer(r, g) + at, r->pieces[i].device_grad, bytes, err)) ||
            (params && !api->to_host(r->device, buffer(r, g, 0) + at, r->pieces[i].device_param, bytes, err)))
            return false;
    }
    o->brings[g % depth_of(r)] = g;
    return api->record(r->device, o->brought[g % depth_of(r)], err);
}

/* Queues the copies of updated parameters to the device. */
static bool send(struct zt_rank *r, int g, struct zt_err *err) {
    const struct zt_device_api *api = r->device->api;
    const struct zt_sub_group *group = &r->sub_groups[g];
    int64_t elems;
    for (int i = group->first; i < group->first + group->count; i += run_of(r, group, i, &elems)) {
        run_of(r, group, i, &elems);
        if (r->pieces[i].device_param && !api->to_device(r->device, r->pieces[i].device_param, r->pieces[i].param,
                                                         (size_t)elems * sizeof(float), err))
            return false;
    }
    return api->record(r->device, r->offload->sent[g % depth_of(r)], err);
}

/* ---- opening and closing ---- */

static bool updates_on_host(const struct zt_rank *r, int g) {
    return on_gpu(r) && is_away(r, g) && r->sub_groups[g].states_away;
}

/* Begins what brings sub-group `g` into memory, unless it has begun. */
static bool begin(struct zt_rank *r, int g, unsigned use, bool files, struct zt_err *err) {
    const struct zt_rank_offload *o = r->offload;
    const int slot = g % depth_of(r);
    const bool brings = updates_on_host(r, g) && use & (ZT_READS_GRADIENTS | ZT_READS_PARAMS);
    return (!brings || o->brings[slot] == g || bring(r, g, use, err)) &&
           (!files || !(use & ZT_READS_ALL) || o->reads[slot] == g || start(r, g, false, use, err));
}

bool zt_rank_sub_group_open(struct zt_rank *r, int g, unsigned use, bool ahead, struct zt_err *err) {
    if (!is_away(r, g))
        return true;
    const bool next = ahead && depth_of(r) > 1 && is_away(r, g + 1);
    const int entered = zt_timers_enter_host(r->timers);
    if (!begin(r, g, use, true, err) || !wait_for(r, g, err) || !wait_brought(r, g, err) ||
        (next && !begin(r, g + 1, use, r->plan->job->config->zero.offload_optimizer.pipeline_read, err)))
        return false;
    point(r, g);
    zt_timers_leave_host(r->timers, entered, ZT_TIMER_SWAP_IN);
    return true;
}

bool zt_rank_sub_group_close(struct zt_rank *r, int g, unsigned use, struct zt_err *err) {
    if (!is_away(r, g))
        return true;
    const bool writes = use & ZT_WRITES_ALL, sends = updates_on_host(r, g) && use & ZT_WRITES_PARAMS;
    const int entered = zt_timers_enter_host(r->timers);
    if ((writes && !start(r, g, true, use, err)) || (sends && !send(r, g, err)))
        return false;
    r->offload->reads[g % depth_of(r)] = r->offload->brings[g % depth_of(r)] = -1;
    bool ok = !writes || r->plan->job->config->zero.offload_optimizer.pipeline_write || wait_for(r, g, err);
    zt_timers_leave_host(r->timers, entered, ZT_TIMER_SWAP_OUT);
    return ok;
}

bool zt_rank_sub_groups_finish(struct zt_rank *r, struct zt_err *err) {
    bool ok = true;
    if (!r->offload)
        return true;
    const int entered = zt_timers_enter_host(r->timers);
    for (int i = 0; i < depth_of(r); i++)
        ok = wait_for(r, i, ok ? err : &(struct zt_err){ 0 }) && ok;
    zt_timers_leave_host(r->timers, entered, ZT_TIMER_SWAP_OUT);
    return ok;
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

/* Moves the first part of a file in one direction, through the first buffer. */
static bool probe(struct zt_rank *r, bool writes, int64_t bytes, double *rate, struct zt_err *err) {
    const struct zt_rank_offload *o = r->offload;
    const struct zt_swap_file *file = o->state_arrays ? &o->states : &o->params;
    struct zt_aio_transfer t = {
        .path = file->path, .file = file->file, .writes = writes, .at = (char *)o->buffers, .bytes = bytes
    };
    const double began = zt_now();
    zt_aio_start(o->aio, &t);
    const bool ok = zt_aio_wait(o->aio, &t, err);
    *rate = (double)bytes / (zt_now() - began);
    return ok;
}

bool zt_rank_measure_files(struct zt_rank *r, struct zt_file_rates *to, struct zt_err *err) {
    enum { MOST = 16 << 20, TIMES = 3 };
    const struct zt_rank_offload *o = r->offload;
    *to = (struct zt_file_rates){ 0 };
    if (!o || !o->aio)
        return true;
    const int64_t room = o->room * (int64_t)sizeof(float), elems = o->state_arrays ? o->states_total : filed_params(r);
    const int64_t bytes = least(MOST, least(room, elems * (int64_t)sizeof(float)));
    bool ok = zt_rank_sub_groups_finish(r, err) && (!on_gpu(r) || r->device->api->wait(r->device, o->sent[0], err));
    o->reads[0] = o->brings[0] = -1;
    for (int i = 0; ok && i < TIMES; i++) {
        struct zt_file_rates rates;
        ok = probe(r, false, bytes, &rates.read, err) && probe(r, true, bytes, &rates.write, err);
        to->read = rates.read > to->read ? rates.read : to->read;
        to->write = rates.write > to->write ? rates.write : to->write;
    }
    return ok;
}

static double filed_bytes(const struct zt_rank *r) {
    const struct zt_rank_offload *o = r->offload;
    return (double)(o->states_total * o->state_arrays + filed_params(r)) * (double)sizeof(float);
}

void zt_rank_offload_say(const struct zt_rank *r, const struct zt_log *log) {
    const struct zt_rank_offload *o = r->offload;
    char t[2][32];
    int away = 0;
    for (int g = 0; o && g < r->sub_group_count; g++)
        away += is_away(r, g);
    if (o && on_gpu(r))
        zt_say(log, ZT_LOG_INFO, "  %-15s the host updates %d sub-group%s through buffers of %s, %d at a time",
               "offload", away, zt_plural(away),
               zt_format_bytes(t[0], (double)(o->buffers_block.bytes + o->gradients.bytes)), depth_of(r));
    if (o && o->aio)
        zt_say(log, ZT_LOG_INFO, "  %-15s %s in %s, in %d sub-group%s through buffers of %s; %s, %s", "offload",
               zt_format_bytes(t[0], filed_bytes(r)), zt_swap_folder_path(o->folder), away, zt_plural(away),
               zt_format_bytes(t[1], (double)o->buffers_block.bytes), zt_aio_name(o->aio),
               (o->state_arrays ? o->states : o->params).direct ? "O_DIRECT" : "through the page cache");
}
