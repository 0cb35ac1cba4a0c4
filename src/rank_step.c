/* The step: a list of instructions, each a few lines here. Nothing is allocated. */
#include "rank_device.h"
#include "rank_hashes.h"

#include <math.h>
#include <string.h>

static bool run_node(struct zt_rank *r, const struct zt_run_program *rp, const struct zt_slot *slot, int n,
                     bool accumulate, struct zt_err *err) {
    struct zt_ready *ready = &rp->ready[n];
    int total = ready->call.in_count + ready->call.out_count;
    for (int i = 0; i < total; i++)
        if (ready->place[i])
            ready->views[i].data = zt_rank_at(r, slot, ready->place[i], ready->constant[i]);
    ready->call.accumulate = accumulate;
    zt_where_node(r->world->where, ready->name);
    int before = err->count;
    if (ready->on_host ? zt_rank_device_run(r, slot, ready, err) : ready->run(&ready->call, err))
        return !r->hashing || zt_rank_hashes_node(r, rp, n, err);
    if (err->count == before)
        zt_fail(err, ZT_EXIT_RUN, "%s: the kernel failed", ready->name);
    return false;
}

static bool add_gradient(struct zt_rank *r, const struct zt_program *p, const struct zt_slot *slot,
                         const struct zt_command *c, bool accumulate, struct zt_err *err) {
    float *to = zt_rank_at(r, slot, &c->at, NULL);
    int64_t count = r->plan->flat->tensors[c->tensor].count;
    size_t bytes = (size_t)count * sizeof *to;
    if (c->kind == ZT_ZERO_GRAD)
        return accumulate || r->device->api->zero(r->device, to, bytes, err);
    const struct zt_place *place = &p->place[ZT_BACKWARD][c->value];
    const float *from = zt_rank_at(r, slot, place, p->joint.graph->values[c->value].data);
    if (!accumulate)
        return zt_rank_copy(r, to, place, from, bytes, err);
    if (r->away)
        return zt_rank_device_add(r, to, from, count, err);
    for (int64_t i = 0; i < count; i++)
        to[i] += from[i];
    return true;
}

/* Begins to bring a bucket from its slices to all ranks, in parts of allgather_bucket_size. */
static bool start_gather(struct zt_rank *r, int b, float *to, struct zt_err *err) {
    struct zt_moving *m = &r->moving[b];
    for (int i = 0; i < m->parts; i++) {
        struct zt_transfer *t = &m->at[m->count++];
        *t = (struct zt_transfer){ ZT_ALL_GATHER, to + m->first[i], m->bound + i * (r->plan->flat->ranks + 1),
                                   sizeof *to };
        if (!r->data->api->start(r->data, t, err))
            return false;
    }
    return true;
}

static bool gather(struct zt_rank *r, const struct zt_slot *slot, const struct zt_command *c, struct zt_err *err) {
    const struct zt_flat *flat = r->plan->flat;
    int me = r->plan->grid.data_rank, b = c->bucket;
    float *to = zt_rank_at(r, slot, &c->at, NULL);
    const int64_t *bound = r->bound + b * (flat->ranks + 1);
    if (c->shard)
        memcpy(to + bound[me], (float *)r->parameters + zt_shard_offset(flat, b, me),
               (size_t)(bound[me + 1] - bound[me]) * sizeof(float));
    r->underway++;
    return start_gather(r, b, to, err);
}

static bool reduce(struct zt_rank *r, const struct zt_slot *slot, const struct zt_command *c, struct zt_err *err) {
    struct zt_moving *m = &r->moving[c->bucket];
    float *at = zt_rank_at(r, slot, &c->at, NULL);
    struct zt_transfer *t = &m->at[m->count++];
    *t = (struct zt_transfer){ ZT_REDUCE_SCATTER, at, r->bound + c->bucket * (r->plan->flat->ranks + 1), sizeof *at };
    r->underway++;
    return r->data->api->start(r->data, t, err) && (!c->all || start_gather(r, c->bucket, at, err));
}

static bool wait_for_bucket(struct zt_rank *r, int b, struct zt_err *err) {
    struct zt_moving *m = &r->moving[b];
    for (int i = 0; i < m->count; i++)
        if (!r->data->api->wait(r->data, &m->at[i], err))
            return false;
    m->count = 0;
    r->underway--;
    return true;
}

static bool reduced(struct zt_rank *r, const struct zt_slot *slot, const struct zt_command *c, bool accumulate,
                    struct zt_err *err) {
    const struct zt_flat *flat = r->plan->flat;
    int me = r->plan->grid.data_rank;
    const float *at = zt_rank_at(r, slot, &c->at, NULL);
    const int64_t *bound = r->bound + c->bucket * (flat->ranks + 1);
    if (!wait_for_bucket(r, c->bucket, err))
        return false;
    float *to = (float *)r->gradients + zt_shard_offset(flat, c->bucket, me);
    for (int64_t i = bound[me]; c->shard && i < bound[me + 1]; i++)
        to[i - bound[me]] = accumulate ? to[i - bound[me]] + at[i] : at[i];
    return true;
}

/* One all_gather for all of them: they are many and small. */
static bool keep(struct zt_rank *r, struct zt_err *err) {
    const struct zt_flat *flat = r->plan->flat;
    float *kept = (float *)r->derived, *packed = kept + flat->kept;
    for (int i = 0; i < flat->kept_piece_count; i++) {
        const struct zt_kept_piece *piece = &flat->kept_pieces[i];
        if (piece->rank == r->plan->grid.data_rank)
            memcpy(packed + piece->packed_at, (float *)r->parameters + piece->shard_at,
                   (size_t)piece->count * sizeof *packed);
    }
    if (!r->data->api->all_gather(r->data, packed, flat->kept_bound, sizeof *packed, err))
        return false;
    for (int i = 0; i < flat->kept_piece_count; i++) {
        const struct zt_kept_piece *piece = &flat->kept_pieces[i];
        memcpy(kept + piece->at, packed + piece->packed_at, (size_t)piece->count * sizeof *packed);
    }
    return true;
}

bool zt_rank_command(struct zt_rank *r, const struct zt_run_program *rp, struct zt_slot *slot,
                     const struct zt_command *c, bool accumulate, bool last, struct zt_err *err) {
    switch (c->kind) {
    case ZT_RUN_NODE:
        return run_node(r, rp, slot, c->node, accumulate && c->accumulate, err) &&
               (!r->underway || r->data->api->poll(r->data, err));
    case ZT_ADD_GRAD:
    case ZT_ZERO_GRAD:
        return add_gradient(r, rp->program, slot, c, accumulate && c->accumulate, err);
    case ZT_GATHER:
        return gather(r, slot, c, err);
    case ZT_GATHERED:
        return wait_for_bucket(r, c->bucket, err);
    case ZT_REDUCE:
        return (c->last_only && !last) || reduce(r, slot, c, err);
    case ZT_REDUCED:
        return (c->last_only && !last) || reduced(r, slot, c, accumulate, err);
    case ZT_KEEP:
        return keep(r, err);
    case ZT_RELEASE:
        break;
    }
    return true;
}

static bool derive(struct zt_rank *r, const struct zt_run_program *rp, struct zt_err *err) {
    const struct zt_program *p = rp->program;
    if (!p->derive_count) /* what another program derived may still be read */
        return true;
    for (int i = 0; i < p->derive_count && r->derived_for != p; i++)
        if (!zt_rank_command(r, rp, NULL, &p->derive[i], false, true, err))
            return false;
    r->derived_for = p;
    return true;
}

bool zt_rank_forward(struct zt_rank *r, const struct zt_run_program *rp, struct zt_slot *slot, struct zt_err *err) {
    const struct zt_program *p = rp->program;
    const struct zt_graph *g = p->joint.graph;
    if (!derive(r, rp, err))
        return false;
    for (int i = 0; i < p->forward_count; i++)
        if (!zt_rank_command(r, rp, slot, &p->forward[i], false, false, err))
            return false;
    for (int i = 0; i < g->write_back_count; i++) {
        const struct zt_write_back *w = &g->write_backs[i];
        const struct zt_value *v = &g->values[w->value];
        const struct zt_place *place = &p->place[0][w->value];
        if (!zt_rank_copy(r, zt_rank_at(r, slot, &p->place[0][w->initializer], NULL), place,
                          zt_rank_at(r, slot, place, v->data),
                          (size_t)zt_shape_count(&v->shape) * zt_dtype_bytes(v->dtype), err))
            return false;
    }
    return true;
}

static bool backward(struct zt_rank *r, const struct zt_run_program *rp, struct zt_slot *slot, bool accumulate,
                     bool last, struct zt_err *err) {
    for (int i = 0; i < rp->program->backward_count; i++)
        if (!zt_rank_command(r, rp, slot, &rp->program->backward[i], accumulate, last, err))
            return false;
    return true;
}

/* ---- one instruction each ---- */

static bool load(struct zt_rank *r, struct zt_loader *loader, struct zt_slot *slot, const struct zt_source *source,
                 struct zt_err *err) {
    const struct zt_batch *batch = NULL;
    if (!zt_loader_next(loader, &batch, err))
        return false;
    if (!batch)
        return zt_fail(err, ZT_EXIT_DATA, "the data ended before the step did");
    slot->samples = batch->samples;
    slot->seed = (float)((double)batch->samples / (double)batch->step_samples);
    for (int64_t i = 0; i < batch->rows; i++)
        slot->row_weight[i] = i < batch->samples;
    char *feed = slot->feed;
    for (int i = 0; i < source->column_count; i++) {
        size_t bytes = source->column[i].sample_bytes * (size_t)batch->rows;
        slot->fed[i] = feed ? feed : batch->column[i];
        if (feed && !r->device->api->to_device(r->device, feed, batch->column[i], bytes, err))
            return false;
        if (feed)
            feed += (bytes + 63) / 64 * 64;
    }
    return !r->away || zt_rank_device_feed(r, slot, batch->rows, err);
}

static bool cross(struct zt_rank *r, const struct zt_program *p, const struct zt_slot *slot,
                  const struct zt_crossings *list, int peer, bool sends, struct zt_err *err) {
    for (int i = 0; i < list->count; i++) {
        const struct zt_place *place = &p->place[0][list->at[i].value];
        void *at = zt_rank_at(r, slot, place, NULL);
        if (sends ? !r->world->api->send(r->world, at, list->at[i].bytes, peer, err)
                  : !r->world->api->recv(r->world, at, list->at[i].bytes, peer, err))
            return false;
    }
    return true;
}

/* A float scalar of the slot, 0 where `value` is -1. */
static bool read_scalar(struct zt_rank *r, const struct zt_program *p, const struct zt_slot *slot, int value,
                        double *to, struct zt_err *err) {
    float scalar = 0;
    bool ok =
        value < 0 || zt_rank_fetch(r, &scalar, zt_rank_at(r, slot, &p->place[0][value], NULL), sizeof scalar, err);
    *to = (double)scalar;
    return ok;
}

static bool add_loss(struct zt_rank *r, const struct zt_program *p, const struct zt_slot *slot, struct zt_err *err) {
    double loss;
    if (!read_scalar(r, p, slot, p->joint.loss, &loss, err))
        return false;
    if (slot->samples > 0)
        r->loss += loss * (double)slot->samples;
    return true;
}

/* What instructions run on: the micro-batches of a step, or one of an evaluation. */
struct turn {
    struct zt_loader *loader;
    const struct zt_source *source;
    const struct zt_step_shape *shape;
    bool training;
};

static const struct zt_program *program_of(struct zt_rank *r, const struct turn *t, int chunk, bool last) {
    const struct zt_run_program *rp = zt_rank_program(r, t->training, chunk, t->shape, last);
    return rp ? rp->program : NULL;
}

static void point_random(struct zt_rank *r, const struct turn *t, int micro_batch, bool last) {
    int64_t together = r->plan->job->config->micro_batch * r->plan->grid.data,
            rows = last ? t->shape->last_rows : t->shape->rows;
    r->random.micro_batch = (uint64_t)micro_batch;
    r->random.first_sample = (uint64_t)(r->first_sample + micro_batch * together + r->plan->grid.data_rank * rows);
}

static bool instruct(struct zt_rank *r, const struct turn *t, const struct zt_instruction *at, struct zt_err *err) {
    struct zt_slot *slot = at->slot >= 0 ? &r->slots[at->slot] : NULL;
    bool last = at->micro_batch == t->shape->micro_batches - 1, first = at->micro_batch == 0;
    const struct zt_run_program *rp = slot ? zt_rank_program(r, t->training, at->chunk, t->shape, last) : NULL;
    const struct zt_program *p = rp ? rp->program : NULL;
    struct zt_share share = { p, NULL, 0, t->training };
    if (slot)
        point_random(r, t, at->micro_batch, last);
    switch (at->op) {
    case ZT_DO_LOAD:
        return load(r, t->loader, slot, t->source, err);
    case ZT_DO_SCATTER:
    case ZT_DO_GATHER_ACT:
    case ZT_DO_SCATTER_GRAD:
        share.piece = zt_rank_loss_rows(r->plan, t->shape, last);
        share.loss = program_of(r, t, 1, last);
        return at->op == ZT_DO_SCATTER      ? zt_rank_scatter(r, &share, err)
               : at->op == ZT_DO_GATHER_ACT ? zt_rank_gather_act(r, &share, err)
                                            : zt_rank_scatter_grad(r, &share, err);
    case ZT_DO_RECV_ACT:
        return cross(r, p, slot, &p->recv_act, zt_grid_previous(&r->plan->grid), false, err);
    case ZT_DO_FORWARD:
        return zt_rank_forward(r, rp, slot, err) && add_loss(r, p, slot, err);
    case ZT_DO_SEND_ACT:
        return cross(r, p, slot, &p->send_act, zt_grid_next(&r->plan->grid), true, err);
    case ZT_DO_RECV_GRAD:
        return cross(r, p, slot, &p->recv_grad, zt_grid_next(&r->plan->grid), false, err);
    case ZT_DO_BACKWARD:
        return backward(r, rp, slot, !first, last, err);
    case ZT_DO_SEND_GRAD:
        return cross(r, p, slot, &p->send_grad, zt_grid_previous(&r->plan->grid), true, err);
    case ZT_DO_REDUCE: /* over data ranks it is done behind backward, where the hooks put it */
        return zt_rank_tie_gradients(r, err);
    case ZT_DO_CLIP:
        return zt_rank_clip(r, err);
    case ZT_DO_STEP:
        return !r->finite || zt_rank_update(r, err);
    case ZT_DO_GATHER:
        if (r->finite && !zt_rank_tie_weights(r, err))
            return false;
        for (int i = 0; r->finite && i < r->after_step_count; i++)
            if (!zt_rank_command(r, NULL, NULL, &r->after_step[i], false, true, err))
                return false;
        return true;
    case ZT_INSTRUCTION_OPS:
        break;
    }
    return true;
}

bool zt_rank_step(struct zt_rank *r, struct zt_loader *loader, int64_t step, struct zt_step_result *result,
                  struct zt_err *err) {
    const struct zt_rank_plan *p = r->plan;
    int64_t per_epoch = p->tail.samples ? p->whole_steps + 1 : p->whole_steps;
    bool tail = p->tail.samples && step % per_epoch == per_epoch - 1;
    const struct zt_step_shape *shape = tail ? &p->tail : &p->full;
    const struct zt_schedule *schedule = tail ? &p->tail_schedule : &p->full_schedule;
    r->random.step = (uint64_t)step;
    r->first_sample = step % per_epoch * p->job->config->train_batch;
    r->loss = 0;
    if (!zt_rank_hashes_step(r, step, true, err))
        return false;
    *result =
        (struct zt_step_result){ .samples = shape->samples, .epoch = step / per_epoch, .batch = step % per_epoch };
    result->lr = zt_rate_at(p->job->config, r->updates).lr;
    struct turn turn = { loader, p->source, shape, true };
    for (int i = 0; i < schedule->count; i++)
        if (!instruct(r, &turn, &schedule->at[i], err))
            return false;
    result->loss = r->loss / (double)shape->samples;
    result->grad_norm = r->norm;
    result->finite = r->finite;
    const double *requests = r->scalars + 1 + r->world->size;
    result->stop = zt_stop_signal(requests);
    result->save = result->stop || requests[ZT_REQUEST_SAVE] > 0;
    return zt_rank_hashes_step(r, step, false, err);
}

/* Running statistics are those of data rank 0, which a model file and a checkpoint hold too; on the other ranks they
 * are of other samples. */
static bool share_statistics(struct zt_rank *r, struct zt_err *err) {
    struct zt_place place = { ZT_STATISTICS, 0 };
    int64_t bytes = r->plan->statistic_bytes;
    return bytes == 0 || r->data->size == 1 ||
           r->data->api->broadcast(r->data, zt_rank_at(r, NULL, &place, NULL), (size_t)bytes, 0, err);
}

/* Correct and counted targets of the micro-batch just run. */
static bool add_counts(struct zt_rank *r, const struct turn *t, double *sums, struct zt_err *err) {
    int chunk = r->plan->loss_evaluation.count > 0;
    const struct zt_program *p = program_of(r, t, chunk, true);
    const struct zt_slot *slot = &r->slots[chunk];
    double correct, counted;
    if (!read_scalar(r, p, slot, p->joint.correct, &correct, err) ||
        !read_scalar(r, p, slot, p->joint.correct >= 0 ? p->joint.counted : -1, &counted, err))
        return false;
    if (slot->samples > 0) {
        sums[0] += correct;
        sums[1] += counted;
    }
    return true;
}

bool zt_rank_evaluate(struct zt_rank *r, struct zt_loader *loader, struct zt_eval_result *result, struct zt_err *err) {
    const struct zt_rank_plan *p = r->plan;
    int64_t together = p->eval_rows * p->grid.data, samples = p->eval_samples;
    double sums[3] = { 0 }; /* correct, counted, loss times samples */
    r->loss = 0;
    if (!share_statistics(r, err))
        return false;
    for (int64_t done = 0; done < samples; done += together) {
        int64_t now = samples - done < together ? samples - done : together;
        struct zt_step_shape shape = zt_step_shape(now, p->eval_rows, p->grid.data);
        struct turn turn = { loader, p->eval_source, &shape, false };
        for (int i = 0; i < p->eval_schedule.count; i++)
            if (!instruct(r, &turn, &p->eval_schedule.at[i], err))
                return false;
        if (!add_counts(r, &turn, sums, err))
            return false;
    }
    sums[2] = r->loss;
    if (!r->world->api->sum(r->world, sums, 3, err))
        return false;
    result->loss = sums[2] / (double)samples;
    result->accuracy = sums[1] > 0 ? sums[0] / sums[1] : NAN;
    return true;
}
