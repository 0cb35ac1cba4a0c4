#include "run/rank/command.h"

#include "run/rank/bucket_collectives.h"
#include "run/rank/captured.h"
#include "run/rank/device_memory.h"
#include "run/rank/node_hashes.h"
#include "run/rank/non_finite_nodes.h"
#include "run/rank/shards.h"
#include "run/rank/times.h"
#include "run/timers/timers.h"

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
    /* the loss of a rank is not an error of the model */
    return err->code != ZT_EXIT_RANK && zt_err_within(err, before, "%s", r->plan->job->model->path);
}

static bool run_node(struct zt_rank *r, const struct zt_action *a, struct zt_err *err) {
    const struct zt_ready *ready = &a->program->ready[a->command->node];
    bool apart = ready->on_host || ready->call.node->op->flags & ZT_OP_GROUP; /* the node needs the host every time */
    zt_rank_status_node(r->world->status, ready->name);
    double began = zt_rank_times_begin(r);
    const int entered = zt_timers_enter_node(r->timers);
    if (!(apart ? zt_rank_flush(r, err) && run_kernel(r, a, err) : zt_rank_do(r, a, err)))
        return false;
    zt_rank_times_node(r, a->program, a->command->node, began);
    zt_timers_leave_node(r->timers, entered, ready->name, ready->call.node->op_type);
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

/* Copies within the rank's memory, or from a constant of the graph. */
static bool copy_value(struct zt_rank *r, void *to, const struct zt_place *place, const void *from, size_t bytes,
                       struct zt_err *err) {
    struct zt_action a = { .run = copy, .to = to, .from = from, .bytes = bytes };
    return place->in == ZT_CONSTANT
               ? zt_rank_flush(r, err) && r->device->api->to_device(r->device, to, from, bytes, err)
               : zt_rank_do(r, &a, err);
}

static bool add_gradient(struct zt_rank *r, const struct zt_program *p, const struct zt_slot *slot,
                         const struct zt_command *c, bool accumulate, struct zt_err *err) {
    int64_t count = r->plan->tensors.flat->tensors[c->tensor].count;
    struct zt_action a = { .run = zero,
                           .to = zt_rank_at(r, slot, &c->at, NULL),
                           .bytes = (size_t)count * sizeof(float) };
    if (c->kind == ZT_ZERO_GRAD)
        return accumulate || zt_rank_do(r, &a, err);
    const struct zt_place *place = &p->place[ZT_BACKWARD][c->value];
    a.from = zt_rank_at(r, slot, place, p->training_graph.graph->values[c->value]->data);
    const bool rounded = zt_rank_rounds_gradients(r) && c->accumulate;
    if (!accumulate && !copy_value(r, a.to, place, a.from, a.bytes, err))
        return false;
    a.run = rounded ? zt_rank_add_rounded : add;
    a.from = accumulate ? a.from : NULL;
    return (!accumulate && !rounded) || zt_rank_do(r, &a, err);
}

/* Advances pending transfers, which also copies received data to the device. */
static bool help_on(struct zt_rank *r, struct zt_err *err) {
    return !r->underway || zt_rank_capturing(r) || r->bulk_data->api->poll(r->bulk_data, err);
}

/* Reads the slices of the next gathers while kernels run: those of the phase, then those of the backward phase. */
static bool read_ahead(struct zt_rank *r, const struct zt_command_context *at, const struct zt_command *c,
                       struct zt_err *err) {
    const struct zt_program *p = at->program ? at->program->program : NULL;
    if (!r->shards || !p)
        return true;
    const bool forward = c >= p->forward && c < p->forward + p->forward_count;
    const struct zt_command *list = forward ? p->forward : p->backward;
    return zt_rank_shards_ahead(r, list, (int)(c - list) + 1, forward ? p->forward_count : p->backward_count, err);
}

static bool gathered(struct zt_rank *r, int bucket, struct zt_err *err) {
    const int entered = zt_timers_enter(r->timers);
    bool ok = zt_rank_wait_for_bucket(r, bucket, err);
    zt_timers_leave(r->timers, entered, ZT_TIMER_GATHER);
    return ok;
}

static bool reduce_timed(struct zt_rank *r, const struct zt_command_context *at, const struct zt_command *c,
                         struct zt_err *err) {
    const int entered = zt_timers_enter(r->timers);
    bool ok = c->kind == ZT_REDUCE ? zt_rank_reduce(r, at->slot, c, err)
                                   : zt_rank_reduced(r, at->slot, c, at->accumulate, err);
    zt_timers_leave(r->timers, entered, ZT_TIMER_REDUCE);
    return ok;
}

bool zt_rank_command(struct zt_rank *r, const struct zt_command_context *at, const struct zt_command *c,
                     struct zt_err *err) {
    struct zt_slot *slot = at->slot;
    struct zt_action a = { run_kernel, at->program, slot, c, at->accumulate && c->accumulate };
    bool shares = c->kind != ZT_RUN_NODE && c->kind != ZT_ADD_GRAD && c->kind != ZT_ZERO_GRAD && c->kind != ZT_RELEASE;
    if (shares && !zt_rank_flush(r, err))
        return false;
    switch (c->kind) {
    case ZT_RUN_NODE:
        return run_node(r, &a, err) && help_on(r, err);
    case ZT_ADD_GRAD:
    case ZT_ZERO_GRAD:
        return add_gradient(r, at->program->program, slot, c, a.accumulate, err);
    case ZT_GATHER:
        return zt_rank_gather(r, slot, c, err) && read_ahead(r, at, c, err);
    case ZT_GATHERED:
        return gathered(r, c->bucket, err);
    case ZT_REDUCE:
    case ZT_REDUCED:
        return !r->sharing.reduced || (c->last_only && !at->last) || reduce_timed(r, at, c, err);
    case ZT_GATHER_PERSISTENT:
        return zt_rank_gather_persistent(r, err);
    case ZT_RELEASE:
        break;
    }
    return true;
}
