/* Weights of several stages, clipping, the optimizer step and bringing the weights home. */
#include "run/device_memory.h"
#include "run/times.h"

#include "base/clock.h"
#include "device/threads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- weights of several stages ---- */

/* Both ends list their runs in one order, and a rank that waits for a run has sent all before it. */
bool zt_rank_tie_gradients(struct zt_rank *r, struct zt_err *err) {
    for (int i = 0; i < r->plan->tie_count; i++) {
        const struct zt_tie_run *t = &r->plan->ties[i];
        float *grad = (float *)r->gradients + t->grad_at, *copy = (float *)r->workspace;
        size_t bytes = (size_t)t->count * sizeof *grad;
        if (t->home ? !r->bulk_world->api->recv(r->bulk_world, copy, bytes, t->peer, err)
                    : !r->bulk_world->api->send(r->bulk_world, grad, bytes, t->peer, err))
            return false;
        if (t->home && !zt_rank_add(r, grad, copy, t->count, err))
            return false;
    }
    return true;
}

bool zt_rank_tie_weights(struct zt_rank *r, struct zt_err *err) {
    for (int i = 0; i < r->plan->tie_count; i++) {
        const struct zt_tie_run *t = &r->plan->ties[i];
        float *param = (float *)r->parameters + t->param_at;
        size_t bytes = (size_t)t->count * sizeof *param;
        if (t->home ? !r->bulk_world->api->send(r->bulk_world, param, bytes, t->peer, err)
                    : !r->bulk_world->api->recv(r->bulk_world, param, bytes, t->peer, err))
            return false;
    }
    return true;
}

/* ---- norm ---- */

static void piece_squares(void *arg, int64_t i) {
    struct zt_rank *r = arg;
    struct zt_piece *piece = &r->pieces[i];
    bool mine = r->owned[piece->range].rank == r->plan->grid.data_rank;
    piece->norms[0] = mine ? zt_sum_squares(piece->grad, piece->count) : 0;
}

/* Each data rank sums the squares of its own slices; the partial sums are added in rank order, so that every mode adds
 * the same numbers in the same order. The loss travels in the same reduction, and what signals ask for. */
bool zt_rank_clip(struct zt_rank *r, struct zt_err *err) {
    int world = r->world->size;
    memset(r->scalars, 0, (size_t)(world + 1 + ZT_REQUESTS) * sizeof *r->scalars);
    zt_stop_take(r->stop, r->scalars + 1 + world);
    double began = zt_rank_times_begin(r);
    if (r->stepping) {
        bool ok = zt_rank_stepping_clip(r, err);
        zt_rank_times_part(r, ZT_PART_NORM, began);
        return ok;
    }
    zt_parallel_for(r->device->threads, r->piece_count, piece_squares, r);
    for (int i = 0; i < r->piece_count; i++)
        r->scalars[1 + r->plan->grid.rank] += r->pieces[i].norms[0];
    zt_rank_times_part(r, ZT_PART_NORM, began);
    r->scalars[0] = r->loss;
    if (!r->world->api->sum(r->world, r->scalars, world + 1 + ZT_REQUESTS, err))
        return false;
    r->loss = r->scalars[0];
    double squares = 0;
    for (int i = 0; i < world; i++)
        squares += r->scalars[1 + i];
    r->norm = sqrt(squares) / r->scaling.scale;
    r->finite = isfinite(r->norm) && isfinite(r->loss);
    r->grad_scale = zt_clip_factor(r->norm, r->plan->job->config->gradient_clipping) / r->scaling.scale;
    return true;
}

/* ---- optimizer ---- */

struct update {
    struct zt_rank *r;
    struct zt_update base;
};

static struct zt_update update_of(const void *arg, const struct zt_piece *piece) {
    const struct update *u = arg;
    struct zt_update one = u->base;
    one.lr *= u->r->tensor_lr[piece->tensor];
    one.weight_decay = u->r->tensor_decay[piece->tensor];
    one.tensor_ratio = &u->r->ratios[piece->tensor];
    return one;
}

static void update_piece(void *arg, int64_t i) {
    const struct update *u = arg;
    struct zt_piece *piece = &u->r->pieces[i];
    struct zt_update one = update_of(u, piece);
    u->r->row->update(&one, piece->param, piece->grad, piece->state, piece->count);
}

static void piece_norms(void *arg, int64_t i) {
    const struct update *u = arg;
    struct zt_piece *piece = &u->r->pieces[i];
    struct zt_update one = update_of(u, piece);
    piece->norms[0] = piece->norms[1] = 0;
    u->r->row->norms(&one, piece->param, piece->grad, piece->state, piece->count, piece->norms);
}

double *zt_rank_own_norms(struct zt_rank *r) {
    int tensors = r->plan->flat->tensor_count;
    memset(r->tensor_norms, 0, 2 * (size_t)tensors * (size_t)r->data->size * sizeof *r->tensor_norms);
    return r->tensor_norms + 2 * tensors * r->data->rank;
}

bool zt_rank_share_norms(struct zt_rank *r, const struct zt_update *u, struct zt_err *err) {
    int tensors = r->plan->flat->tensor_count, ranks = r->data->size;
    if (!r->data->api->sum(r->data, r->tensor_norms, 2 * tensors * ranks, err))
        return false;
    for (int t = 0; t < tensors; t++) {
        double norms[2] = { 0 };
        for (int k = 0; k < ranks; k++)
            for (int i = 0; i < 2; i++)
                norms[i] += r->tensor_norms[2 * (k * tensors + t) + i];
        r->ratios[t] = r->row->ratio(u, norms);
    }
    return true;
}

static bool find_ratios(struct update *u, struct zt_err *err) {
    struct zt_rank *r = u->r;
    double *own = zt_rank_own_norms(r);
    zt_parallel_for(r->device->threads, r->piece_count, piece_norms, u);
    for (int i = 0; i < r->piece_count; i++) {
        const struct zt_piece *piece = &r->pieces[i];
        for (int k = 0; k < 2 && r->owned[piece->range].rank == r->plan->grid.data_rank; k++)
            own[2 * piece->tensor + k] += piece->norms[k];
    }
    return zt_rank_share_norms(r, &u->base, err);
}

static bool update_here(struct zt_rank *r, struct zt_err *err) {
    const struct zt_config *c = r->plan->job->config;
    struct zt_rate rate = zt_rate_at(c, r->updates);
    struct update u = { r,
                        { .config = &c->optimizer,
                          .lr = rate.lr,
                          .beta1 = rate.beta1,
                          .beta2 = rate.beta2,
                          .step = r->updates + 1,
                          .grad_scale = r->grad_scale } };
    if (r->row->norms && !find_ratios(&u, err))
        return false;
    zt_parallel_for(r->device->threads, r->piece_count, update_piece, &u);
    return true;
}

bool zt_rank_update(struct zt_rank *r, struct zt_err *err) {
    double began = zt_rank_times_begin(r);
    if (!(r->stepping ? zt_rank_stepping_update(r, err) : update_here(r, err)))
        return false;
    zt_rank_times_part(r, ZT_PART_UPDATE, began);
    r->updates++;
    r->derived_for = NULL;
    return true;
}

/* ---- collection ---- */

/* The whole flat parameters of this stage, gathered from shards where they lie in shards. Collective over the data
 * ranks. */
static bool whole_parameters(struct zt_rank *r, float *to, struct zt_err *err) {
    const struct zt_flat *flat = r->plan->flat;
    for (int i = 0; i < r->held_count; i++)
        if (!zt_rank_fetch(r, to + r->held[i].first, (float *)r->parameters + r->held[i].param_at,
                           (size_t)(r->held[i].last - r->held[i].first) * sizeof(float), err))
            return false;
    bool whole =
        !r->plan->sharding->parameters; /* not: this rank has all; in a small model one rank may own everything */
    for (int b = 0; !whole && b < flat->bucket_count; b++)
        if (!r->data->api->all_gather(r->data, to + flat->bucket[b], r->bound + b * (flat->ranks + 1), sizeof(float),
                                      err))
            return false;
    return true;
}

/* Lists a stage's tensors with contents at `params` and `statistics`. */
struct listing {
    struct zt_onnx_payload *payloads;
    int64_t *elements;
    int count;
};

/* What a stage tells rank 0 before its contents: how many tensors and how long their names are. */
static bool send_stage(struct zt_rank *r, const float *params, struct zt_err *err) {
    const struct zt_rank_plan *p = r->plan;
    const struct zt_comm_api *api = r->world->api;
    int64_t head[3] = { p->flat->own_tensors, p->statistic_total, p->flat->count };
    bool ok = api->send(r->world, head, sizeof head, 0, err);
    for (int i = 0; ok && i < p->flat->own_tensors + p->statistic_total; i++) {
        bool statistic = i >= p->flat->own_tensors;
        const char *name = statistic ? p->statistic_name[i - p->flat->own_tensors] : p->flat->tensors[i].name;
        int64_t size[2] = { (int64_t)strlen(name) + 1,
                            statistic ? p->statistic_count[i - p->flat->own_tensors] : p->flat->tensors[i].count };
        struct zt_place place = { ZT_STATISTICS, statistic ? p->statistic_offset[i - p->flat->own_tensors] : 0 };
        size_t bytes = (size_t)size[1] * sizeof(float);
        ok = api->send(r->world, size, sizeof size, 0, err) && api->send(r->world, name, (size_t)size[0], 0, err) &&
             (statistic ? r->bulk_world->api->send(r->bulk_world, zt_rank_at(r, NULL, &place, NULL), bytes, 0, err)
                        : api->send(r->world, params + p->flat->tensors[i].offset, bytes, 0, err));
    }
    return ok;
}

static bool list_own(struct zt_rank *r, struct zt_arena *arena, const float *params, struct listing *to,
                     struct zt_err *err) {
    const struct zt_rank_plan *p = r->plan;
    int total = p->flat->own_tensors + p->statistic_total;
    to->payloads = ZT_NEW_N(arena, struct zt_onnx_payload, total + 1);
    to->elements = ZT_NEW_N(arena, int64_t, total + 1);
    for (int i = 0; i < p->flat->own_tensors; i++) {
        to->payloads[to->count] =
            (struct zt_onnx_payload){ p->flat->tensors[i].name, params + p->flat->tensors[i].offset };
        to->elements[to->count++] = p->flat->tensors[i].count;
    }
    for (int i = 0; i < p->statistic_total; i++) {
        struct zt_place place = { ZT_STATISTICS, p->statistic_offset[i] };
        size_t bytes = (size_t)p->statistic_count[i] * sizeof(float);
        void *contents = zt_arena_alloc(arena, bytes);
        if (!zt_rank_fetch(r, contents, zt_rank_at(r, NULL, &place, NULL), bytes, err))
            return false;
        to->payloads[to->count] = (struct zt_onnx_payload){ p->statistic_name[i], contents };
        to->elements[to->count++] = p->statistic_count[i];
    }
    return true;
}

static bool receive_stage(struct zt_rank *r, struct zt_arena *arena, int from, struct listing *to, struct zt_err *err) {
    const struct zt_comm_api *api = r->world->api;
    int64_t head[3];
    if (!api->recv(r->world, head, sizeof head, from, err))
        return false;
    struct zt_onnx_payload *payloads = ZT_NEW_N(arena, struct zt_onnx_payload, to->count + head[0] + head[1] + 1);
    int64_t *elements = ZT_NEW_N(arena, int64_t, to->count + head[0] + head[1] + 1);
    memcpy(payloads, to->payloads, (size_t)to->count * sizeof *payloads);
    memcpy(elements, to->elements, (size_t)to->count * sizeof *elements);
    to->payloads = payloads;
    to->elements = elements;
    for (int64_t i = 0; i < head[0] + head[1]; i++) {
        int64_t size[2];
        if (!api->recv(r->world, size, sizeof size, from, err))
            return false;
        char *name = zt_arena_alloc(arena, (size_t)size[0]);
        void *data = zt_arena_alloc(arena, (size_t)size[1] * sizeof(float));
        if (!api->recv(r->world, name, (size_t)size[0], from, err) ||
            !api->recv(r->world, data, (size_t)size[1] * sizeof(float), from, err))
            return false;
        to->payloads[to->count] = (struct zt_onnx_payload){ name, data };
        to->elements[to->count++] = size[1];
    }
    return true;
}

bool zt_rank_collect(struct zt_rank *r, struct zt_arena *arena, struct zt_onnx_payload **payloads, int64_t **elements,
                     int *count, struct zt_err *err) {
    const struct zt_grid *grid = &r->plan->grid;
    float *params = zt_arena_alloc(arena, (size_t)r->plan->flat->count * sizeof *params);
    struct listing list = { 0 };
    *count = 0;
    if (!whole_parameters(r, params, err))
        return false;
    if (grid->data_rank != 0)
        return true;
    if (grid->rank != 0)
        return send_stage(r, params, err);
    if (!list_own(r, arena, params, &list, err))
        return false;
    for (int s = 1; s < grid->stages; s++)
        if (!receive_stage(r, arena, zt_grid_rank(grid, s, 0), &list, err))
            return false;
    *payloads = list.payloads;
    *elements = list.elements;
    *count = list.count;
    return true;
}
