/* The step: a list of instructions, each a few lines here. Nothing is allocated. */
#include "run/device_memory.h"
#include "run/captured.h"
#include "run/node_hashes.h"
#include "run/times.h"
#include "run/trace.h"

#include <math.h>
#include <string.h>

static bool run_kernel(struct zt_rank *r, const struct zt_action *a, struct zt_err *err) {
    struct zt_ready *ready = &a->program->ready[a->command->node];
    int total = ready->call.in_count + ready->call.out_count;
    for (int i = 0; i < total; i++)
        if (ready->place[i])
            ready->views[i].data = zt_rank_at(r, a->slot, ready->place[i], ready->constant[i]);
    ready->call.accumulate = a->accumulate;
    const int before = err->count;
    if (ready->on_host ? zt_rank_device_run(r, a->slot, ready, err) : ready->run(&ready->call, err))
        return true;
    if (err->count == before)
        zt_fail(err, ZT_EXIT_RUN, "%s: the kernel failed", ready->name);
    /* a lost rank is not the model's */
    return err->code != ZT_EXIT_RANK && zt_err_within(err, before, "%s", r->plan->job->model->path);
}

static bool run_node(struct zt_rank *r, const struct zt_action *a, struct zt_err *err) {
    const struct zt_ready *ready = &a->program->ready[a->command->node];
    bool apart = ready->on_host || ready->call.node->op->flags & ZT_OP_PEERS; /* needs the host each time */
    zt_where_node(r->world->where, ready->name);
    double began = zt_rank_times_begin(r);
    if (!(apart ? zt_rank_flush(r, err) && run_kernel(r, a, err) : zt_rank_do(r, a, err)))
        return false;
    zt_rank_times_node(r, a->program, a->command->node, began);
    if (r->tracing && !zt_rank_trace_node(r, a->program, a->slot, a->command->node, err))
        return false;
    return !r->hashing || zt_rank_hashes_node(r, a->program, a->command->node, err);
}

static bool zero(struct zt_rank *r, const struct zt_action *a, struct zt_err *err) {
    return r->device->api->zero(r->device, a->to, a->bytes, err);
}

static bool copy(struct zt_rank *r, const struct zt_action *a, struct zt_err *err) {
    return r->device->api->copy(r->device, a->to, a->from, a->bytes, err);
}

static bool add(struct zt_rank *r, const struct zt_action *a, struct zt_err *err) {
    return zt_rank_add(r, a->to, a->from, (int64_t)(a->bytes / sizeof(float)), err);
}

/* Copies within the rank's memory, or to it from a constant of the graph. */
static bool copy_value(struct zt_rank *r, void *to, const struct zt_place *place, const void *from, size_t bytes,
                       struct zt_err *err) {
    struct zt_action a = { .run = copy, .to = to, .from = from, .bytes = bytes };
    return place->in == ZT_CONSTANT
               ? zt_rank_flush(r, err) && r->device->api->to_device(r->device, to, from, bytes, err)
               : zt_rank_do(r, &a, err);
}

static bool add_gradient(struct zt_rank *r, const struct zt_program *p, const struct zt_slot *slot,
                         const struct zt_command *c, bool accumulate, struct zt_err *err) {
    int64_t count = r->plan->flat->tensors[c->tensor].count;
    struct zt_action a = { .run = zero,
                           .to = zt_rank_at(r, slot, &c->at, NULL),
                           .bytes = (size_t)count * sizeof(float) };
    if (c->kind == ZT_ZERO_GRAD)
        return accumulate || zt_rank_do(r, &a, err);
    const struct zt_place *place = &p->place[ZT_BACKWARD][c->value];
    a.from = zt_rank_at(r, slot, place, p->joint.graph->values[c->value]->data);
    if (!accumulate)
        return copy_value(r, a.to, place, a.from, a.bytes, err);
    a.run = add;
    return zt_rank_do(r, &a, err);
}

/* Begins to bring a bucket from its slices to all ranks, in parts of allgather_bucket_size. */
static bool start_gather(struct zt_rank *r, int b, float *to, struct zt_err *err) {
    struct zt_moving *m = &r->moving[b];
    for (int i = 0; i < m->parts; i++) {
        struct zt_transfer *t = &m->at[m->count++];
        *t = (struct zt_transfer){ ZT_ALL_GATHER, to + m->first[i], m->bound + i * (r->plan->flat->ranks + 1),
                                   sizeof *to };
        if (!r->bulk_data->api->start(r->bulk_data, t, err))
            return false;
    }
    return true;
}

static bool gather(struct zt_rank *r, const struct zt_slot *slot, const struct zt_command *c, struct zt_err *err) {
    const struct zt_flat *flat = r->plan->flat;
    int me = r->plan->grid.data_rank, b = c->bucket;
    float *to = zt_rank_at(r, slot, &c->at, NULL);
    const int64_t *bound = r->bound + b * (flat->ranks + 1);
    if (c->shard &&
        !r->device->api->copy(r->device, to + bound[me], (float *)r->parameters + zt_shard_offset(flat, b, me),
                              (size_t)(bound[me + 1] - bound[me]) * sizeof *to, err))
        return false;
    r->underway++;
    return start_gather(r, b, to, err);
}

static bool reduce(struct zt_rank *r, const struct zt_slot *slot, const struct zt_command *c, struct zt_err *err) {
    struct zt_moving *m = &r->moving[c->bucket];
    float *at = zt_rank_at(r, slot, &c->at, NULL);
    struct zt_transfer *t = &m->at[m->count++];
    *t = (struct zt_transfer){ ZT_REDUCE_SCATTER, at, r->bound + c->bucket * (r->plan->flat->ranks + 1), sizeof *at };
    r->underway++;
    return r->bulk_data->api->start(r->bulk_data, t, err) && (!c->all || start_gather(r, c->bucket, at, err));
}

static bool wait_for_bucket(struct zt_rank *r, int b, struct zt_err *err) {
    struct zt_moving *m = &r->moving[b];
    for (int i = 0; i < m->count; i++)
        if (!r->bulk_data->api->wait(r->bulk_data, &m->at[i], err))
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
    int64_t count = bound[me + 1] - bound[me];
    if (c->shard && !accumulate)
        return r->device->api->copy(r->device, to, at + bound[me], (size_t)count * sizeof *to, err);
    return !c->shard || zt_rank_add(r, to, at + bound[me], count, err);
}

/* What is under way between ranks goes on, which copies to the device what has come. */
static bool help_on(struct zt_rank *r, struct zt_err *err) {
    return !r->underway || zt_rank_capturing(r) || r->bulk_data->api->poll(r->bulk_data, err);
}

/* One all_gather for all of them: they are many and small. */
static bool keep(struct zt_rank *r, struct zt_err *err) {
    const struct zt_flat *flat = r->plan->flat;
    const struct zt_device_api *api = r->device->api;
    float *kept = (float *)r->derived, *packed = kept + flat->kept;
    for (int i = 0; i < flat->kept_piece_count; i++) {
        const struct zt_kept_piece *piece = &flat->kept_pieces[i];
        if (piece->rank == r->plan->grid.data_rank &&
            !api->copy(r->device, packed + piece->packed_at, (float *)r->parameters + piece->shard_at,
                       (size_t)piece->count * sizeof *packed, err))
            return false;
    }
    if (!r->bulk_data->api->all_gather(r->bulk_data, packed, flat->kept_bound, sizeof *packed, err))
        return false;
    for (int i = 0; i < flat->kept_piece_count; i++) {
        const struct zt_kept_piece *piece = &flat->kept_pieces[i];
        if (!api->copy(r->device, kept + piece->at, packed + piece->packed_at, (size_t)piece->count * sizeof *packed,
                       err))
            return false;
    }
    return true;
}

bool zt_rank_command(struct zt_rank *r, const struct zt_run_program *rp, struct zt_slot *slot,
                     const struct zt_command *c, bool accumulate, bool last, struct zt_err *err) {
    struct zt_action a = { run_kernel, rp, slot, c, accumulate && c->accumulate };
    bool shares = c->kind != ZT_RUN_NODE && c->kind != ZT_ADD_GRAD && c->kind != ZT_ZERO_GRAD && c->kind != ZT_RELEASE;
    if (shares && !zt_rank_flush(r, err))
        return false;
    switch (c->kind) {
    case ZT_RUN_NODE:
        return run_node(r, &a, err) && help_on(r, err);
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

static struct zt_copy copy_back(struct zt_rank *r, const struct zt_program *p, const struct zt_slot *slot,
                                const struct zt_write_back *w) {
    const struct zt_value *v = p->joint.graph->values[w->value];
    return (struct zt_copy){ zt_rank_at(r, slot, &p->place[0][w->initializer], NULL),
                             zt_rank_at(r, slot, &p->place[0][w->value], v->data), (size_t)zt_value_bytes(v) };
}

static bool is_computed(const struct zt_program *p, const struct zt_write_back *w) {
    return p->place[0][w->value].in != ZT_CONSTANT;
}

/* Statistics that were computed to their places, some at a time. */
static bool copy_back_all(struct zt_rank *r, const struct zt_action *a, struct zt_err *err) {
    enum { SOME = 128 };
    const struct zt_program *p = a->program->program;
    const struct zt_graph *g = p->joint.graph;
    struct zt_copy copies[SOME];
    int count = 0;
    for (int i = 0; i < g->write_back_count; i++) {
        if (is_computed(p, &g->write_backs[i]))
            copies[count++] = copy_back(r, p, a->slot, &g->write_backs[i]);
        if (count == SOME || (count && i == g->write_back_count - 1)) {
            if (!zt_rank_copy_all(r, copies, count, err))
                return false;
            count = 0;
        }
    }
    return true;
}

static bool write_back(struct zt_rank *r, const struct zt_run_program *rp, struct zt_slot *slot, struct zt_err *err) {
    const struct zt_program *p = rp->program;
    const struct zt_graph *g = p->joint.graph;
    const struct zt_action computed = { .run = copy_back_all, .program = rp, .slot = slot };
    int constants = 0;
    for (int i = 0; i < g->write_back_count; i++) {
        if (is_computed(p, &g->write_backs[i]))
            continue;
        const struct zt_copy c = copy_back(r, p, slot, &g->write_backs[i]);
        constants++;
        if (!zt_rank_flush(r, err) || !r->device->api->to_device(r->device, c.to, c.from, c.bytes, err))
            return false;
    }
    return constants == g->write_back_count || zt_rank_do(r, &computed, err);
}

bool zt_rank_forward(struct zt_rank *r, const struct zt_run_program *rp, struct zt_slot *slot, struct zt_err *err) {
    const struct zt_program *p = rp->program;
    if (!zt_rank_derive(r, rp, err))
        return false;
    for (int i = 0; i < p->forward_count; i++)
        if (!zt_rank_command(r, rp, slot, &p->forward[i], false, false, err))
            return false;
    return write_back(r, rp, slot, err);
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
    if ((r->away && !zt_rank_device_next(r, err)) || !zt_loader_next(loader, &batch, err))
        return false;
    if (!batch)
        return zt_fail(err, ZT_EXIT_DATA, "the data ended before the step did");
    slot->samples = batch->samples;
    slot->seed = (float)((double)batch->samples / (double)batch->step_samples);
    if (!r->away) /* there it is known on the device */
        slot->seed *= zt_scaling_seed(r->scaling.scale);
    for (int64_t i = 0; i < batch->rows; i++)
        slot->row_weight[i] = i < batch->samples;
    if (r->away)
        return zt_rank_device_feed(r, slot, batch, source, err);
    char *feed = slot->feed;
    for (int i = 0; i < source->column_count; i++) {
        size_t bytes = source->column[i].sample_bytes * (size_t)batch->rows;
        slot->fed[i] = feed ? feed : batch->column[i];
        if (!feed)
            continue;
        memcpy(feed, batch->column[i], bytes);
        feed += (bytes + 63) / 64 * 64;
    }
    return true;
}

static bool cross(struct zt_rank *r, const struct zt_program *p, const struct zt_slot *slot,
                  const struct zt_crossings *list, int peer, bool sends, struct zt_err *err) {
    for (int i = 0; i < list->count; i++) {
        const struct zt_place *place = &p->place[0][list->at[i].value];
        void *at = zt_rank_at(r, slot, place, NULL);
        if (sends ? !r->bulk_world->api->send(r->bulk_world, at, list->at[i].bytes, peer, err)
                  : !r->bulk_world->api->recv(r->bulk_world, at, list->at[i].bytes, peer, err))
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

/* The gradient of the loss begins with the loss scale, which a device knows; the host has put it into the seed. */
static bool scale_seed(struct zt_rank *r, const struct zt_program *p, const struct zt_slot *slot, struct zt_err *err) {
    return !r->stepping || !p->joint.training || p->joint.loss < 0 || zt_rank_stepping_seed(r, slot, err);
}

static bool add_loss(struct zt_rank *r, const struct zt_program *p, const struct zt_slot *slot, bool last,
                     struct zt_err *err) {
    double loss;
    if (r->stepping && p->joint.training)
        return p->joint.loss < 0 ||
               zt_rank_stepping_loss(r, slot, zt_rank_at(r, slot, &p->place[0][p->joint.loss], NULL), last, err);
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

/* Whether the instruction is the device's alone: neither data nor other ranks. */
static bool is_own(const struct zt_rank *r, enum zt_instruction_op op) {
    bool computes = op == ZT_DO_FORWARD || op == ZT_DO_BACKWARD;
    return computes || (r->world->size == 1 && op != ZT_DO_LOAD);
}

static bool instruct(struct zt_rank *r, const struct turn *t, const struct zt_instruction *at, struct zt_err *err) {
    struct zt_slot *slot = at->slot >= 0 ? &r->slots[at->slot] : NULL;
    bool last = at->micro_batch == t->shape->micro_batches - 1, first = at->micro_batch == 0;
    const struct zt_run_program *rp = slot ? zt_rank_program(r, t->training, at->chunk, t->shape, last) : NULL;
    const struct zt_program *p = rp ? rp->program : NULL;
    struct zt_share share = { p, NULL, 0, t->training };
    if (slot)
        point_random(r, t, at->micro_batch, last);
    if (!zt_rank_device_point(r, err))
        return false;
    if (!is_own(r, at->op) && !zt_rank_flush(r, err))
        return false;
    double began;
    switch (at->op) {
    case ZT_DO_LOAD:
        began = zt_rank_times_begin(r);
        if (!load(r, t->loader, slot, t->source, err))
            return false;
        if (t->training)
            zt_rank_times_part(r, ZT_PART_LOAD, began);
        return true;
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
        return scale_seed(r, p, slot, err) && zt_rank_forward(r, rp, slot, err) && add_loss(r, p, slot, last, err);
    case ZT_DO_SEND_ACT:
        return cross(r, p, slot, &p->send_act, zt_grid_next(&r->plan->grid), true, err);
    case ZT_DO_RECV_GRAD:
        return cross(r, p, slot, &p->recv_grad, zt_grid_next(&r->plan->grid), false, err);
    case ZT_DO_BACKWARD:
        return backward(r, rp, slot, !first, last, err);
    case ZT_DO_BACKWARD_INPUT:
    case ZT_DO_BACKWARD_WEIGHT:
        return zt_fail(err, ZT_EXIT_RUN, "%s: programs do not split backward yet", zt_instruction_name(at->op));
    case ZT_DO_SEND_GRAD:
        return cross(r, p, slot, &p->send_grad, zt_grid_previous(&r->plan->grid), true, err);
    case ZT_DO_REDUCE: /* over data ranks it is done behind backward, where the hooks put it */
        return zt_rank_tie_gradients(r, err);
    case ZT_DO_CLIP:
        return zt_rank_clip(r, err);
    case ZT_DO_STEP:
        return (!r->stepping && !r->finite) || zt_rank_update(r, err); /* a device leaves it out by itself */
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

bool zt_rank_begin(struct zt_rank *r, struct zt_loader *loader, int64_t step, struct zt_err *err) {
    const struct zt_rank_plan *p = r->plan;
    int64_t per_epoch = p->tail.samples ? p->whole_steps + 1 : p->whole_steps;
    bool tail = p->tail.samples && step % per_epoch == per_epoch - 1;
    const struct zt_step_shape *shape = tail ? &p->tail : &p->full;
    const struct zt_schedule *schedule = tail ? &p->tail_schedule : &p->full_schedule;
    r->random.step = (uint64_t)step;
    r->first_sample = step % per_epoch * p->job->config->train_batch;
    r->loss = 0;
    r->finite = true;
    struct zt_step_result *result = &r->begun[r->begun_count++];
    *result =
        (struct zt_step_result){ .samples = shape->samples, .epoch = step / per_epoch, .batch = step % per_epoch };
    result->lr = zt_rate_at(p->job->config, r->updates).lr;
    if (!zt_rank_hashes_step(r, step, true, err) || (r->stepping && !zt_rank_stepping_begin(r, tail, err)))
        return false;
    struct turn turn = { loader, p->source, shape, true };
    for (int i = 0; i < schedule->count; i++)
        if (!instruct(r, &turn, &schedule->at[i], err))
            return false;
    result->loss = r->loss / (double)shape->samples;
    result->grad_norm = r->norm;
    result->finite = r->finite;
    result->loss_scale = r->scaling.scale;
    if (!r->stepping)
        zt_scaling_step(&r->scaling, !r->finite);
    result->scaling = r->scaling;
    const double *requests = r->scalars + 1 + r->world->size;
    result->stop = zt_stop_signal(requests);
    result->save = result->stop || requests[ZT_REQUEST_SAVE] > 0;
    return zt_rank_times_end(r, err) && (!r->stepping || zt_rank_stepping_end(r, err)) &&
           zt_rank_hashes_step(r, step, false, err);
}

bool zt_rank_end(struct zt_rank *r, struct zt_step_result *result, struct zt_err *err) {
    *result = r->begun[0];
    r->begun[0] = r->begun[1];
    r->begun_count--;
    return !r->stepping || zt_rank_stepping_read(r, result, err);
}

bool zt_rank_step(struct zt_rank *r, struct zt_loader *loader, int64_t step, struct zt_step_result *result,
                  struct zt_err *err) {
    return zt_rank_begin(r, loader, step, err) && zt_rank_end(r, result, err);
}

bool zt_rank_runs_ahead(const struct zt_rank *r) {
    return r->stepping != NULL;
}

bool zt_rank_asked(const struct zt_rank *r) {
    return r->begun_count > 0 && r->begun[r->begun_count - 1].save;
}

/* Running statistics are those of data rank 0, which a model file and a checkpoint hold too; on the other ranks they
 * are of other samples. */
static bool share_statistics(struct zt_rank *r, struct zt_err *err) {
    struct zt_place place = { ZT_STATISTICS, 0 };
    int64_t bytes = r->plan->statistic_bytes;
    return bytes == 0 || r->data->size == 1 ||
           r->bulk_data->api->broadcast(r->bulk_data, zt_rank_at(r, NULL, &place, NULL), (size_t)bytes, 0, err);
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
