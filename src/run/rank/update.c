/* Tied weights of several stages, clipping and the optimizer step. */
#include "run/rank/update.h"

#include "device/threads.h"
#include "optim/step.h"
#include "run/rank/captured.h"
#include "run/rank/device_step.h"
#include "run/rank/before_update.h"
#include "run/rank/offload.h"
#include "run/rank/passes.h"
#include "run/rank/shards.h"
#include "run/rank/times.h"

#include <math.h>
#include <string.h>

/* ---- tied weights of several stages ---- */

/* Both ends list their exchanges in the same order, and a rank that waits for one has sent all before it. */
bool zt_rank_tie_gradients(struct zt_rank *r, struct zt_err *err) {
    for (int i = 0; i < r->plan->tensors.tie_count; i++) {
        const struct zt_tie_run *t = &r->plan->tensors.ties[i];
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
    for (int i = 0; i < r->plan->tensors.tie_count; i++) {
        const struct zt_tie_run *t = &r->plan->tensors.ties[i];
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
    bool counts = !r->sharing.reduced || r->owned[piece->range].rank == r->plan->grid.data_rank;
    piece->norms[0] = counts ? zt_sum_squares(piece->grad, piece->count) : 0;
}

/* Each data-parallel rank sums the squares of its own slices, and the partial sums are added in rank order. Every mode
 * therefore adds the same numbers in the same order. The same reduction carries the loss and the requests of signals.
 */
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
    r->norm = sqrt(zt_rank_squares(r)) / r->scaling.scale;
    r->finite = isfinite(r->norm) && isfinite(r->loss);
    r->grad_scale = zt_clip_factor(r->norm, r->plan->job->config->gradient_clipping) / r->scaling.scale;
    return true;
}

/* ---- optimizer ---- */

struct update {
    struct zt_rank *r;
    struct zt_update base;
    const struct zt_rank_matrix *matrix; /* the one that is updated, and its update */
    const float *direction;
};

static void average_piece(const struct zt_rank *r, const struct zt_piece *piece) {
    float *average = zt_piece_average(r, piece);
    if (average)
        zt_average(r->plan->job->config->ema, piece->param, average, piece->count);
}

static void update_piece(void *arg, int64_t i) {
    const struct update *u = arg;
    struct zt_piece *piece = &u->r->pieces[i];
    union zt_coefficients c = zt_rank_coefficients(u->r, &u->base, piece->tensor);
    u->r->row->update(&c, u->r->ratios[piece->tensor], piece->param, piece->grad, piece->state, piece->count);
    average_piece(u->r, piece);
}

static void piece_norms(void *arg, int64_t i) {
    const struct update *u = arg;
    struct zt_piece *piece = &u->r->pieces[i];
    union zt_coefficients c = zt_rank_coefficients(u->r, &u->base, piece->tensor);
    piece->norms[0] = piece->norms[1] = 0;
    u->r->row->norms(&c, piece->param, piece->grad, piece->state, piece->count, piece->norms);
}

/* Runs `body` for every piece that is updated element by element. */
static bool each_piece(struct update *u, void (*body)(void *arg, int64_t i), struct zt_err *err) {
    const struct zt_piece_pass pass = { .use = ZT_READS_ALL | ZT_READS_GRADIENTS | ZT_WRITES_ALL,
                                        .count = u->r->piece_count,
                                        .leaves_matrices = true,
                                        .body = body,
                                        .arg = u };
    return zt_rank_pass(u->r, &pass, err);
}

static bool find_ratios(struct update *u, struct zt_err *err) {
    struct zt_rank *r = u->r;
    double *own = zt_rank_own_norms(r);
    if (!each_piece(u, piece_norms, err))
        return false;
    for (int i = 0; i < r->piece_count; i++) {
        const struct zt_piece *piece = &r->pieces[i];
        for (int k = 0; k < 2 && r->owned[piece->range].rank == r->plan->grid.data_rank; k++)
            own[2 * piece->tensor + k] += piece->norms[k];
    }
    return zt_rank_share_norms(r, &u->base, err);
}

/* The place of a piece in its tensor. */
static int64_t place_of(const struct zt_rank *r, const struct zt_piece *piece) {
    return piece->first - r->plan->tensors.flat->tensors[piece->tensor].offset;
}

static void direct_piece(void *arg, int64_t i) {
    const struct update *u = arg;
    const struct zt_piece *piece = &u->r->pieces[i];
    union zt_coefficients c = zt_rank_coefficients(u->r, &u->base, piece->tensor);
    u->r->row->matrix->direct(&c, piece->grad, piece->state, u->matrix->direction + place_of(u->r, piece),
                              piece->count);
}

static void apply_piece(void *arg, int64_t i) {
    const struct update *u = arg;
    const struct zt_piece *piece = &u->r->pieces[i];
    union zt_coefficients c = zt_rank_coefficients(u->r, &u->base, piece->tensor);
    u->r->row->matrix->apply(&c, piece->param, u->direction + place_of(u->r, piece), piece->count);
    average_piece(u->r, piece);
}

/* The pieces of the matrix twice: states before the direction of the whole is known, weights and average behind it. */
static bool update_matrix(struct update *u, struct zt_err *err) {
    struct zt_rank *r = u->r;
    const unsigned states = ZT_READS_STATES | ZT_WRITES_STATES, params = ZT_READS_PARAMS | ZT_WRITES_PARAMS;
    struct zt_piece_pass pass = { .use = states | ZT_READS_GRADIENTS,
                                  .first = u->matrix->first_piece,
                                  .count = u->matrix->piece_count,
                                  .body = direct_piece,
                                  .arg = u };
    if (!zt_rank_pass(r, &pass, err) || !zt_rank_gather_matrix(r, u->matrix, err))
        return false;
    if (u->matrix->piece_count == 0)
        return true;
    u->direction = zt_rank_orthogonalise(r, u->matrix);
    pass.use = params | (r->plan->memory.averages ? states : 0);
    pass.body = apply_piece;
    return zt_rank_pass(r, &pass, err);
}

static bool update_matrices(struct update *u, struct zt_err *err) {
    bool ok = true;
    for (int i = 0; ok && i < u->r->matrix_count; i++) {
        u->matrix = &u->r->matrices[i];
        ok = update_matrix(u, err);
    }
    return ok;
}

/* Update number `number`, counted from 0. */
static bool update_on_host(struct zt_rank *r, int64_t number, double grad_scale, struct zt_err *err) {
    const struct zt_config *c = r->plan->job->config;
    struct zt_rate rate = zt_rate_at(c, &r->lr_state, 0, number);
    struct update u = { .r = r,
                        .base = { .config = &c->optimizer,
                                  .lr = rate.lr,
                                  .beta1 = rate.beta1,
                                  .beta2 = rate.beta2,
                                  .momentum = rate.momentum,
                                  .step = number + 1,
                                  .grad_scale = grad_scale,
                                  .lr_sum = zt_rank_lr_sum(r, 0, number + 1),
                                  .ranks = r->data->size } };
    if (r->row->one_bit && !zt_rank_one_bit_prepare(r, &u.base, err))
        return false;
    return (!r->row->norms || find_ratios(&u, err)) && update_matrices(&u, err) && each_piece(&u, update_piece, err) &&
           zt_rank_sub_groups_finish(r, err);
}

/* The host updates what is offloaded from a device, which has computed norm and scale of the step. */
static bool update_offloaded(struct zt_rank *r, struct zt_err *err) {
    struct zt_step_state state;
    if (!r->offload)
        return true;
    return zt_rank_flush(r, err) && zt_rank_stepping_state(r, &state, err) &&
           (!state.finite || update_on_host(r, state.updates, (double)state.scale, err));
}

bool zt_rank_update(struct zt_rank *r, struct zt_err *err) {
    double began = zt_rank_times_begin(r);
    if (!(r->stepping ? zt_rank_stepping_update(r, err) && update_offloaded(r, err)
                      : update_on_host(r, r->updates, r->grad_scale, err)) ||
        !zt_rank_shards_changed(r, err))
        return false;
    zt_rank_times_part(r, ZT_PART_UPDATE, began);
    r->updates++;
    r->derived_for = NULL;
    return true;
}
