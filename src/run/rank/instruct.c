/* Execution of each instruction of a schedule. Nothing is allocated. */
#include "run/rank/instruct.h"

#include "base/align.h"
#include "run/rank/captured.h"
#include "run/rank/command.h"
#include "run/rank/derive.h"
#include "run/rank/device_memory.h"
#include "run/rank/device_step.h"
#include "run/rank/replicas.h"
#include "run/rank/times.h"
#include "run/rank/update.h"
#include "run/timers/timers.h"

#include <string.h>

static struct zt_copy copy_back(struct zt_rank *r, const struct zt_program *p, const struct zt_slot *slot,
                                const struct zt_write_back *w) {
    const struct zt_value *v = p->training_graph.graph->values[w->value];
    return (struct zt_copy){ zt_rank_at(r, slot, &p->place[0][w->initializer], NULL),
                             zt_rank_at(r, slot, &p->place[0][w->value], v->data), (size_t)zt_value_bytes(v) };
}

static bool is_computed(const struct zt_program *p, const struct zt_write_back *w) {
    return p->place[0][w->value].in != ZT_CONSTANT;
}

/* Copies computed statistics to their initializers, some at a time. */
static bool copy_back_all(struct zt_rank *r, const struct zt_action *a, struct zt_err *err) {
    enum { SOME = 128 };
    const struct zt_program *p = a->program->program;
    const struct zt_graph *g = p->training_graph.graph;
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
    const struct zt_graph *g = p->training_graph.graph;
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

static bool forward(struct zt_rank *r, const struct zt_run_program *rp, struct zt_slot *slot, struct zt_err *err) {
    const struct zt_program *p = rp->program;
    const int entered = zt_timers_enter(r->timers);
    if (!zt_rank_derive(r, rp, err))
        return false;
    zt_timers_leave(r->timers, entered, ZT_TIMER_DERIVE);
    const struct zt_command_context at = { .program = rp, .slot = slot };
    for (int i = 0; i < p->forward_count; i++)
        if (!zt_rank_command(r, &at, &p->forward[i], err))
            return false;
    return write_back(r, rp, slot, err);
}

static bool backward(struct zt_rank *r, const struct zt_command_context *at, struct zt_err *err) {
    const struct zt_program *p = at->program->program;
    for (int i = 0; i < p->backward_count; i++)
        if (!zt_rank_command(r, at, &p->backward[i], err))
            return false;
    return true;
}

/* ---- one instruction each ---- */

static bool load(struct zt_rank *r, struct zt_loader *loader, struct zt_slot *slot, const struct zt_source *source,
                 struct zt_err *err) {
    const struct zt_batch *batch = NULL;
    if ((r->device_memory && !zt_rank_device_next(r, err)) || !zt_loader_next(loader, &batch, err))
        return false;
    if (!batch)
        return zt_fail(err, ZT_EXIT_DATA, "the data ended before the step did");
    slot->samples = batch->samples;
    slot->weight = batch->weight;
    slot->seed = (float)(batch->weight / (double)batch->step_samples);
    if (r->plan->job->config->sum_gradients) /* the gradients of the ranks' own means are added */
        slot->seed *= (float)r->plan->grid.data;
    if (!r->device_memory) /* on a device, the device applies the loss scale */
        slot->seed *= zt_scaling_seed(r->scaling.scale);
    for (int64_t i = 0; i < batch->rows; i++)
        slot->row_weight[i] = i < batch->samples;
    if (r->device_memory)
        return zt_rank_device_feed(r, slot, batch, source, err);
    char *feed = slot->feed;
    for (int i = 0; i < source->column_count; i++) {
        size_t bytes = source->column[i].sample_bytes * (size_t)batch->rows;
        slot->fed[i] = feed ? feed : batch->column[i];
        if (!feed)
            continue;
        memcpy(feed, batch->column[i], bytes);
        feed += zt_align_64(bytes);
    }
    return true;
}

/* The instructions that move stage boundary tensors, and to or from which stage. */
static bool move_boundary(struct zt_rank *r, enum zt_instruction_op op, const struct zt_program *p,
                          const struct zt_slot *slot, struct zt_err *err) {
    const struct zt_boundary_tensors *list = op == ZT_DO_RECV_ACT    ? &p->recv_act
                                             : op == ZT_DO_SEND_ACT  ? &p->send_act
                                             : op == ZT_DO_RECV_GRAD ? &p->recv_grad
                                                                     : &p->send_grad;
    const bool sends = op == ZT_DO_SEND_ACT || op == ZT_DO_SEND_GRAD;
    const int peer =
        op == ZT_DO_RECV_ACT || op == ZT_DO_SEND_GRAD ? zt_grid_previous(&r->plan->grid) : zt_grid_next(&r->plan->grid);
    for (int i = 0; i < list->count; i++) {
        void *at = zt_rank_at(r, slot, &p->place[0][list->at[i].value], NULL);
        if (sends ? !r->bulk_world->api->send(r->bulk_world, at, list->at[i].bytes, peer, err)
                  : !r->bulk_world->api->recv(r->bulk_world, at, list->at[i].bytes, peer, err))
            return false;
    }
    return true;
}

/* A float scalar of the slot, 0 where `value` is -1. */
bool zt_rank_read_scalar(struct zt_rank *r, const struct zt_program *p, const struct zt_slot *slot, int value,
                         double *to, struct zt_err *err) {
    float scalar = 0;
    bool ok =
        value < 0 || zt_rank_fetch(r, &scalar, zt_rank_at(r, slot, &p->place[0][value], NULL), sizeof scalar, err);
    *to = (double)scalar;
    return ok;
}

/* The gradient of the loss starts with the loss scale. A device applies it here; the host has already multiplied the
 * seed by it. */
static bool scale_seed(struct zt_rank *r, const struct zt_program *p, const struct zt_slot *slot, struct zt_err *err) {
    return !r->stepping || !p->training_graph.training || p->training_graph.loss < 0 ||
           zt_rank_stepping_seed(r, slot, err);
}

static bool add_loss(struct zt_rank *r, const struct zt_program *p, const struct zt_slot *slot, bool last,
                     struct zt_err *err) {
    double loss;
    if (r->stepping && p->training_graph.training)
        return p->training_graph.loss < 0 ||
               zt_rank_stepping_loss(r, slot, zt_rank_at(r, slot, &p->place[0][p->training_graph.loss], NULL), last,
                                     err);
    if (!zt_rank_read_scalar(r, p, slot, p->training_graph.loss, &loss, err))
        return false;
    if (slot->samples > 0)
        r->loss += loss * slot->weight;
    return true;
}

const struct zt_program *zt_instruction_program(const struct zt_rank *r, const struct zt_instruction_context *t,
                                                int chunk, int micro_batch) {
    const struct zt_run_program *rp = zt_rank_program(r, t->training, chunk, t->shape, micro_batch);
    return rp ? rp->program : NULL;
}

static void point_random(struct zt_rank *r, const struct zt_instruction_context *t, int micro_batch) {
    const int64_t before = zt_rank_rows_before(&r->plan->steps, t->shape, micro_batch),
                  rows = zt_rank_rows(&r->plan->steps, t->shape, micro_batch);
    r->random.micro_batch = (uint64_t)micro_batch;
    r->random.first_sample = (uint64_t)(r->first_sample + before + r->plan->grid.data_rank * rows);
}

bool zt_rank_share_weights(struct zt_rank *r, struct zt_err *err) {
    bool ok = zt_rank_tie_weights(r, err);
    for (int i = 0; ok && i < r->after_step_count; i++)
        ok = zt_rank_command(r, &(struct zt_command_context){ .last = true }, &r->after_step[i], err);
    return ok;
}

/* Whether the instruction involves only the device: no data and no other ranks. */
static bool is_own(const struct zt_rank *r, enum zt_instruction_op op) {
    bool computes = op == ZT_DO_FORWARD || op == ZT_DO_BACKWARD;
    return computes || (r->world->size == 1 && op != ZT_DO_LOAD);
}

bool zt_rank_instruct(struct zt_rank *r, const struct zt_instruction_context *t, const struct zt_instruction *at,
                      struct zt_err *err) {
    struct zt_slot *slot = at->slot >= 0 ? &r->slots[at->slot] : NULL;
    bool last = at->micro_batch == t->shape->micro_batches - 1, first = at->micro_batch == 0;
    const struct zt_run_program *rp =
        slot ? zt_rank_program(r, t->training, at->chunk, t->shape, at->micro_batch) : NULL;
    const struct zt_program *p = rp ? rp->program : NULL;
    struct zt_share share = { p, NULL, 0, t->training };
    if (slot)
        point_random(r, t, at->micro_batch);
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
        share.piece = zt_rank_loss_rows(&r->plan->steps, t->shape, at->micro_batch);
        share.loss = zt_instruction_program(r, t, 1, at->micro_batch);
        return at->op == ZT_DO_SCATTER      ? zt_rank_scatter(r, &share, err)
               : at->op == ZT_DO_GATHER_ACT ? zt_rank_gather_act(r, &share, err)
                                            : zt_rank_scatter_grad(r, &share, err);
    case ZT_DO_RECV_ACT:
    case ZT_DO_SEND_ACT:
    case ZT_DO_RECV_GRAD:
    case ZT_DO_SEND_GRAD:
        return move_boundary(r, at->op, p, slot, err);
    case ZT_DO_FORWARD:
        return scale_seed(r, p, slot, err) && forward(r, rp, slot, err) && add_loss(r, p, slot, last, err);
    case ZT_DO_BACKWARD:
        return backward(r, &(struct zt_command_context){ rp, slot, !first, last }, err);
    case ZT_DO_BACKWARD_INPUT:
    case ZT_DO_BACKWARD_WEIGHT:
        return zt_fail(err, ZT_EXIT_RUN, "%s: programs do not split backward yet", zt_instruction_name(at->op));
    case ZT_DO_REDUCE: /* collectives.c places the reduction over data-parallel ranks behind the backward phase */
        return zt_rank_tie_gradients(r, err);
    case ZT_DO_CLIP:
        return zt_rank_clip(r, err);
    case ZT_DO_STEP:
        return (!r->stepping && !r->finite) || zt_rank_update(r, err); /* a device skips the update by itself */
    case ZT_DO_GATHER:
        return !r->finite || zt_rank_share_weights(r, err);
    case ZT_INSTRUCTION_OPS:
        break;
    }
    return true;
}
