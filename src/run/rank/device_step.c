/* The optimizer step of a rank on a device. No function waits for the device.
 *
 * On the host, several numbers are computed between the backward phase and the optimizer: loss, norm, whether both are
 * finite, the clipping factor, and the number of updates. On a device they are in struct zt_step_state in device memory
 * (optim/step.h). A table in device memory holds the coefficients of the optimizer, one row per update; the host writes
 * ROWS updates in advance:
 *
 *     host      begin 1         begin 2    end 1      begin 3    end 2
 *     device      forward backward clip update copy 1 | forward backward clip update copy 2 | ...
 *
 * At the end of every step the state is copied to the host, which reads it after it has queued the next step. The
 * number of the update is therefore unknown when a step is queued: up to ZT_RANK_AHEAD earlier steps may skip their
 * update. The table has rows for all possible numbers. With several ranks the host adds losses and squares and waits
 * for the other ranks (zt_rank_clip). */
#include "run/rank/device_step.h"

#include "base/align.h"
#include "device/module.h"
#include "optim/step.h"
#include "optim/types/types.h"
#include "plan/matrices.h"
#include "run/rank/captured.h"
#include "run/rank/device_memory.h"
#include "run/rank/before_update.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 256 };

struct zt_rank_stepping {
    enum zt_optimizer_id optimizer;
    struct zt_step_call call;
    struct zt_step_state *state; /* same as in the call, writable */
    struct zt_step_norm norm;    /* complete except for the loss and its samples; counts this rank's slices: */
    int whole_count;             /* with those of the other ranks, which follow in its list */
    const struct zt_slot
        *last; /* slot of the last micro-batch after its loss is computed; NULL: the loss is not on this rank */
    const float *last_loss;
    char *block, *host; /* device memory of all these; pinned memory to fill it from */
    size_t block_bytes, host_bytes;
    union zt_coefficients *table; /* pinned; its rows start at table_at on the device */
    char *table_at;
    struct zt_step_state *said;            /* pinned; state that the host writes */
    struct zt_step_state *copy;            /* pinned: [ZT_RANK_AHEAD] state at the end of a step */
    struct zt_event *event[ZT_RANK_AHEAD]; /* passes when the copy is complete */
    int64_t first;                         /* update number of the table's first row; -1: not written */
    bool stale;                            /* the rates of the table are not valid any more */
    int64_t begun, ended;                  /* steps */
    double *group_lr, *group_decay;        /* by group: learning rate factor; weight decay */
    int *group_rate;                       /* by group: that of zt_rate_at() */
    struct zt_matrix *group_matrix;        /* by group: the shape of its matrices */
};

static bool tell(struct zt_rank *r, void *to, const void *from, size_t bytes, struct zt_err *err) {
    return r->device->api->to_device(r->device, to, from, bytes, err);
}

/* ---- creation ---- */

static bool is_in_group(const struct zt_rank *r, int t, int g) {
    const struct zt_rank_stepping *s = r->stepping;
    const struct zt_matrix *a = &s->group_matrix[g], *b = &r->plan->tensors.matrices[t];
    return s->group_lr[g] == r->tensor_lr[t] && s->group_decay[g] == r->tensor_decay[t] &&
           s->group_rate[g] == r->tensor_group[t] && a->rows == b->rows && a->columns == b->columns &&
           a->inputs_first == b->inputs_first;
}

/* Returns the group of tensor t. Tensors with the same learning rate and weight decay are a group, and matrices of one
 * shape. */
static int group_of(struct zt_rank *r, int t) {
    struct zt_rank_stepping *s = r->stepping;
    int g = 0;
    while (g < s->call.groups && !is_in_group(r, t, g))
        g++;
    if (g == s->call.groups) {
        s->group_matrix[g] = r->plan->tensors.matrices[t];
        s->group_lr[g] = r->tensor_lr[t];
        s->group_decay[g] = r->tensor_decay[t];
        s->group_rate[g] = r->tensor_group[t];
        s->call.groups++;
    }
    return g;
}

static void fill_piece(struct zt_rank *r, const struct zt_piece *from, struct zt_step_piece *to) {
    *to = (struct zt_step_piece){ .param = from->param,
                                  .grad = from->grad,
                                  .count = from->count,
                                  .group = group_of(r, from->tensor),
                                  .tensor = from->tensor,
                                  .matrix = r->plan->tensors.matrices[from->tensor].rows > 0,
                                  .at = from->first - r->plan->tensors.flat->tensors[from->tensor].offset,
                                  .measured = r->owned[from->range].rank == r->plan->grid.data_rank };
    to->average = zt_piece_average(r, from);
    for (int i = 0; i < r->plan->memory.optimizer_states - r->plan->memory.averages; i++)
        to->state[i] = from->state[i];
}

static void list_ranges(struct zt_rank *r, bool own, struct zt_floats *to, int *count) {
    for (int i = 0; i < r->owned_count; i++) {
        const struct zt_range *o = &r->owned[i];
        if ((o->rank == r->plan->grid.data_rank) == own)
            to[(*count)++] = (struct zt_floats){ (const float *)r->gradients + o->grad_at, o->last - o->first };
    }
}

/* Lists the ranges that this rank owns, then the others that it updates. */
static void list_squares(struct zt_rank *r) {
    struct zt_step_norm *n = &r->stepping->norm;
    struct zt_floats *x = ZT_NEW_N(r->arena, struct zt_floats, r->owned_count + 1);
    n->x = x;
    n->clip = r->plan->job->config->gradient_clipping;
    n->whole = r->world->size == 1;
    list_ranges(r, true, x, &n->count);
    r->stepping->whole_count = n->count;
    list_ranges(r, false, x, &r->stepping->whole_count);
}

/* Returns the next part of a block; NULL while the block is only measured. */
static void *take(char *block, size_t *at, size_t bytes) {
    size_t first = *at;
    *at += zt_align_64(bytes);
    return block ? block + first : NULL;
}

static void lay_out_device(struct zt_rank *r) {
    struct zt_rank_stepping *s = r->stepping;
    struct zt_step_call *c = &s->call;
    size_t norms = r->row->norms != NULL, parts = norms ? 2 : r->trust ? ZT_STEP_NORMS : 0, at = 0;
    c->state = s->state = take(s->block, &at, sizeof *s->state);
    c->table = (void *)(s->table_at = take(s->block, &at, (size_t)(ROWS * c->groups) * sizeof *s->table));
    c->pieces = take(s->block, &at, (size_t)c->piece_count * sizeof *c->pieces);
    c->parts = take(s->block, &at, parts * ZT_STEP_PARTS * (size_t)c->piece_count * sizeof *c->parts);
    c->norms = take(s->block, &at, norms * 2 * (size_t)c->tensor_count * sizeof *c->norms);
    c->ratios = take(s->block, &at, norms * (size_t)c->tensor_count * sizeof *c->ratios);
    s->block_bytes = at;
}

static void lay_out_host(struct zt_rank *r) {
    struct zt_rank_stepping *s = r->stepping;
    size_t at = 0;
    s->said = take(s->host, &at, sizeof *s->said);
    s->copy = take(s->host, &at, ZT_RANK_AHEAD * sizeof *s->copy);
    s->table = take(s->host, &at, (size_t)(ROWS * s->call.groups) * sizeof *s->table);
    s->host_bytes = at;
}

static bool send_pieces(struct zt_rank *r, const struct zt_step_piece *pieces, struct zt_err *err) {
    struct zt_rank_stepping *s = r->stepping;
    return tell(r, (void *)s->call.pieces, pieces, (size_t)s->call.piece_count * sizeof *pieces, err) &&
           r->device->api->synchronize(r->device, err);
}

static bool open_blocks(struct zt_rank *r, struct zt_err *err) {
    struct zt_rank_stepping *s = r->stepping;
    const struct zt_device_api *api = r->device->api;
    lay_out_device(r);
    lay_out_host(r);
    if (!(s->block = zt_device_allocate(r->device, s->block_bytes, "the state of the step", err)) ||
        !(s->host = api->allocate_host(r->device, s->host_bytes, "the state of the step", err)))
        return false;
    lay_out_device(r);
    lay_out_host(r);
    for (int i = 0; i < ZT_RANK_AHEAD; i++)
        if (!(s->event[i] = api->event_create(r->device, err)))
            return false;
    return true;
}

bool zt_rank_stepping_create(struct zt_rank *r, struct zt_err *err) {
    struct zt_rank_stepping *s = r->stepping = ZT_NEW(r->arena, struct zt_rank_stepping);
    s->optimizer = zt_optimizer_id(r->row);
    struct zt_step_piece *pieces = ZT_NEW_N(r->arena, struct zt_step_piece, r->piece_count + 1);
    s->first = -1;
    s->group_lr = ZT_NEW_N(r->arena, double, r->plan->tensors.flat->tensor_count + 1);
    s->group_decay = ZT_NEW_N(r->arena, double, r->plan->tensors.flat->tensor_count + 1);
    s->group_rate = ZT_NEW_N(r->arena, int, r->plan->tensors.flat->tensor_count + 1);
    s->group_matrix = ZT_NEW_N(r->arena, struct zt_matrix, r->plan->tensors.flat->tensor_count + 1);
    s->call.trust = r->trust;
    s->call.tensor_count = r->plan->tensors.flat->tensor_count;
    group_of(r, 0); /* at least one group exists, even if this rank owns nothing */
    for (int i = 0; i < r->piece_count; i++)
        if (!r->pieces[i].on_host)
            fill_piece(r, &r->pieces[i], &pieces[s->call.piece_count++]);
    list_squares(r);
    if (!open_blocks(r, err))
        return false;
    s->norm.state = s->state;
    return send_pieces(r, pieces, err);
}

void zt_rank_stepping_destroy(struct zt_rank *r) {
    struct zt_rank_stepping *s = r->stepping;
    for (int i = 0; s && i < ZT_RANK_AHEAD; i++)
        if (s->event[i])
            r->device->api->event_destroy(r->device, s->event[i]);
    if (s && s->host)
        r->device->api->free_host(r->device, s->host, s->host_bytes);
    if (s && s->block)
        zt_device_free(r->device, s->block, s->block_bytes);
}

/* ---- a step ---- */

/* Writes the rows of the updates from `first` on. */
static bool write_table(struct zt_rank *r, int64_t first, struct zt_err *err) {
    struct zt_rank_stepping *s = r->stepping;
    const struct zt_config *c = r->plan->job->config;
    for (int64_t i = 0; i < ROWS; i++) {
        for (int g = 0; g < s->call.groups; g++) {
            const struct zt_rate rate = zt_rate_at(c, &r->lr_state, s->group_rate[g], first + i);
            struct zt_update u = { .config = &c->optimizer,
                                   .lr = rate.lr * s->group_lr[g],
                                   .weight_decay = s->group_decay[g],
                                   .beta1 = rate.beta1,
                                   .beta2 = rate.beta2,
                                   .momentum = rate.momentum,
                                   .step = first + i + 1,
                                   .matrix = s->group_matrix[g],
                                   .grad_scale = 1,
                                   .lr_sum = zt_rank_lr_sum(r, s->group_rate[g], first + i + 1) * s->group_lr[g],
                                   .ranks = r->data->size };
            r->row->prepare(&u, &s->table[i * s->call.groups + g]);
        }
    }
    s->said->first = first;
    return tell(r, s->table_at, s->table, (size_t)(ROWS * s->call.groups) * sizeof *s->table, err) &&
           tell(r, &s->state->first, &s->said->first, sizeof s->said->first, err);
}

/* Called before the first step; a checkpoint may have been loaded. */
static bool write_state(struct zt_rank *r, struct zt_err *err) {
    struct zt_rank_stepping *s = r->stepping;
    *s->said = (struct zt_step_state){
        .loss_scale = r->scaling.scale, .scale = 1, .updates = r->updates, .scaling = r->scaling
    };
    return tell(r, s->state, s->said, sizeof *s->said, err) && r->device->api->synchronize(r->device, err);
}

/* r->updates counts every pending step as an update; the device's count is equal or slightly lower. */
bool zt_rank_stepping_begin(struct zt_rank *r, enum zt_step_kind kind, struct zt_err *err) {
    struct zt_rank_stepping *s = r->stepping;
    bool fresh = s->first < 0;
    if (fresh && !write_state(r, err))
        return false;
    if (s->stale && !r->device->api->synchronize(r->device, err)) /* the pinned table may be being copied */
        return false;
    if (fresh || s->stale || r->updates >= s->first + ROWS) {
        s->stale = false;
        s->first = r->updates > ZT_RANK_AHEAD ? r->updates - ZT_RANK_AHEAD : 0;
        if (!write_table(r, s->first, err))
            return false;
    }
    int side;
    s->last = NULL;
    s->last_loss = NULL;
    if (!zt_rank_device_align(r, &side, err))
        return false;
    zt_rank_graphs_begin(r, kind, side);
    return true;
}

static bool add_loss(struct zt_rank *r, const struct zt_action *a, struct zt_err *err) {
    const double *samples = &zt_rank_device_fed(r, a->slot)->samples;
    return r->device->module->add_loss(r->device, r->stepping->state, a->from, samples, err);
}

static bool scale_seed(struct zt_rank *r, const struct zt_action *a, struct zt_err *err) {
    return r->device->module->scale_seed(r->device, r->stepping->state, zt_rank_device_fed(r, a->slot), err);
}

bool zt_rank_stepping_seed(struct zt_rank *r, const struct zt_slot *slot, struct zt_err *err) {
    struct zt_action a = { .run = scale_seed, .slot = slot };
    return !r->plan->job->config->fp16.enabled || zt_rank_do(r, &a, err);
}

bool zt_rank_stepping_loss(struct zt_rank *r, const struct zt_slot *slot, const float *loss, bool last,
                           struct zt_err *err) {
    struct zt_action a = { .run = add_loss, .slot = slot, .from = loss };
    if (!last)
        return zt_rank_do(r, &a, err);
    r->stepping->last = slot; /* the slot keeps both until it is loaded again */
    r->stepping->last_loss = loss;
    return true;
}

/* Adds loss and squares of all ranks on the host. */
static bool share(struct zt_rank *r, struct zt_err *err) {
    struct zt_rank_stepping *s = r->stepping;
    int world = r->world->size;
    _Static_assert(offsetof(struct zt_step_state, squares) == sizeof(double), "loss and squares stand first");
    if (!zt_rank_fetch(r, s->said, s->state, 2 * sizeof(double), err))
        return false;
    r->scalars[0] = s->said->loss;
    r->scalars[1 + r->plan->grid.rank] = s->said->squares;
    if (!r->world->api->sum(r->world, r->scalars, world + 1 + ZT_REQUESTS, err))
        return false;
    s->said->loss = r->scalars[0];
    s->said->squares = zt_rank_squares(r);
    r->finite = isfinite(s->said->loss) && isfinite(s->said->squares);
    return tell(r, s->state, s->said, 2 * sizeof(double), err);
}

static bool norm(struct zt_rank *r, const struct zt_action *a, struct zt_err *err) {
    struct zt_step_norm n = r->stepping->norm;
    n.count = r->sharing.reduced ? n.count : r->stepping->whole_count;
    n.loss = a->from;
    n.samples = a->slot ? &zt_rank_device_fed(r, a->slot)->samples : NULL;
    return r->device->module->norm(r->device, &n, err);
}

static bool clip(struct zt_rank *r, const struct zt_action *a, struct zt_err *err) {
    (void)a;
    return r->device->module->clip(r->device, r->stepping->state, r->stepping->norm.clip, err);
}

bool zt_rank_stepping_clip(struct zt_rank *r, struct zt_err *err) {
    const struct zt_rank_stepping *s = r->stepping;
    struct zt_action sum = { .run = norm, .slot = s->last, .from = s->last_loss }, find = { .run = clip };
    return zt_rank_do(r, &sum, err) &&
           (s->norm.whole || (zt_rank_flush(r, err) && share(r, err) && zt_rank_do(r, &find, err)));
}

/* Trust ratios of tensors whose slices several ranks own, computed on the host in rank order. */
static bool share_norms(struct zt_rank *r, const struct zt_update *u, struct zt_err *err) {
    const struct zt_step_call *c = &r->stepping->call;
    size_t bytes = (size_t)c->tensor_count * sizeof *c->norms;
    return zt_rank_fetch(r, zt_rank_own_norms(r), c->norms, 2 * bytes, err) && zt_rank_share_norms(r, u, err) &&
           tell(r, c->ratios, r->ratios, bytes, err) && r->device->api->synchronize(r->device, err);
}

static bool find_norms(struct zt_rank *r, const struct zt_action *a, struct zt_err *err) {
    (void)a;
    return r->device->module->update_norms(r->device, r->stepping->optimizer, &r->stepping->call, err);
}

static bool update(struct zt_rank *r, const struct zt_action *a, struct zt_err *err) {
    const struct zt_rank_stepping *s = r->stepping;
    (void)a;
    return s->call.piece_count == 0 || r->device->module->update(r->device, s->optimizer, &s->call, err);
}

bool zt_rank_stepping_state(struct zt_rank *r, struct zt_step_state *to, struct zt_err *err) {
    struct zt_rank_stepping *s = r->stepping;
    bool ok = zt_rank_fetch(r, s->said, s->state, sizeof *s->said, err);
    *to = *s->said;
    return ok;
}

static struct zt_step_matrix matrix_of(const struct zt_rank *r, const struct zt_rank_matrix *m) {
    return (struct zt_step_matrix){ .shape = m->shape,
                                    .method = r->row->matrix->method(&r->plan->job->config->optimizer),
                                    .first_piece = m->first_piece,
                                    .piece_count = m->piece_count,
                                    .direction = m->direction,
                                    .room = m->room };
}

static bool direct_matrix(struct zt_rank *r, const struct zt_action *a, struct zt_err *err) {
    const struct zt_step_matrix m = matrix_of(r, a->from);
    return r->device->module->direct_matrix(r->device, r->stepping->optimizer, &r->stepping->call, &m, err);
}

static bool update_matrix(struct zt_rank *r, const struct zt_action *a, struct zt_err *err) {
    const struct zt_step_matrix m = matrix_of(r, a->from);
    return r->device->module->update_matrix(r->device, r->stepping->optimizer, &r->stepping->call, &m, err);
}

static bool update_matrices(struct zt_rank *r, struct zt_err *err) {
    for (int i = 0; i < r->matrix_count; i++) {
        const struct zt_rank_matrix *m = &r->matrices[i];
        const struct zt_action direct = { .run = direct_matrix, .from = m }, last = { .run = update_matrix, .from = m };
        if ((m->piece_count && !zt_rank_do(r, &direct, err)) || (m->split && !zt_rank_flush(r, err)) ||
            !zt_rank_gather_matrix(r, m, err) || (m->piece_count && !zt_rank_do(r, &last, err)))
            return false;
    }
    return true;
}

static bool average(struct zt_rank *r, const struct zt_action *a, struct zt_err *err) {
    const struct zt_rank_stepping *s = r->stepping;
    (void)a;
    return s->call.piece_count == 0 || r->device->module->average(r->device, &s->call, r->plan->job->config->ema, err);
}

bool zt_rank_stepping_swap(struct zt_rank *r, struct zt_err *err) {
    const struct zt_step_call *call = &r->stepping->call;
    return call->piece_count == 0 || r->device->module->swap_average(r->device, call, err);
}

static bool pack(struct zt_rank *r, const struct zt_action *a, struct zt_err *err) {
    const struct zt_rank_stepping *s = r->stepping;
    (void)a;
    return s->call.piece_count == 0 || r->device->module->pack(r->device, s->optimizer, &s->call, err);
}

/* 1-bit optimizers. Alone, this rank does not know which update it queues, and the kernels pack where it is due. With
 * other ranks it does, and so that all steps without reduced gradients queue alike, they pack and end the segment. */
static bool prepare(struct zt_rank *r, struct zt_err *err) {
    const struct zt_action packs = { .run = pack }, norms = { .run = find_norms };
    const bool alone = r->data->size == 1;
    if ((alone || !r->sharing.reduced) && !zt_rank_do(r, &packs, err))
        return false;
    if (!alone && !r->sharing.reduced && !(zt_rank_flush(r, err) && (!r->finite || zt_rank_one_bit_average(r, err))))
        return false;
    return !r->trust || zt_rank_do(r, &norms, err);
}

bool zt_rank_stepping_update(struct zt_rank *r, struct zt_err *err) {
    struct zt_update u = { .config = &r->plan->job->config->optimizer,
                           .step = 1 }; /* ratio() reads only the limits from it */
    struct zt_action norms = { .run = find_norms }, last = { .run = update }, mean = { .run = average };
    bool ok = !r->row->one_bit || prepare(r, err);
    if (ok && r->row->norms && !r->offload) /* plan/offload.c excludes norms of both sides */
        ok = zt_rank_do(r, &norms, err) && (r->data->size == 1 || (zt_rank_flush(r, err) && share_norms(r, &u, err)));
    if (ok && !zt_plan_matrices_on_host(r->plan))
        ok = update_matrices(r, err);
    return ok && zt_rank_do(r, &last, err) && (!r->plan->memory.averages || zt_rank_do(r, &mean, err));
}

void zt_rank_stepping_rates(struct zt_rank *r) {
    r->stepping->stale = true;
}

bool zt_rank_stepping_end(struct zt_rank *r, struct zt_err *err) {
    struct zt_rank_stepping *s = r->stepping;
    const struct zt_device_api *api = r->device->api;
    int at = (int)(s->begun++ % ZT_RANK_AHEAD);
    return zt_rank_graphs_end(r, err) && api->to_host(r->device, &s->copy[at], s->state, sizeof *s->copy, err) &&
           api->record(r->device, s->event[at], err);
}

bool zt_rank_stepping_read(struct zt_rank *r, struct zt_step_result *result, struct zt_err *err) {
    struct zt_rank_stepping *s = r->stepping;
    int at = (int)(s->ended++ % ZT_RANK_AHEAD);
    const struct zt_step_state *state = &s->copy[at];
    if (!r->device->api->wait(r->device, s->event[at], err))
        return false;
    result->loss = state->total / (double)result->samples;
    result->grad_norm = state->norm;
    result->finite = state->finite;
    result->loss_scale = state->scaled;
    result->scaling = r->scaling = state->scaling;
    result->lr = zt_rate_at(r->plan->job->config, &r->lr_state, 0, state->updates).lr;
    result->next = zt_rate_at(r->plan->job->config, &r->lr_state, 0, state->updates + state->finite);
    r->updates = state->updates + state->finite + (s->begun - s->ended);
    return true;
}
