/* Gradients in 16 bits: summed over ranks (communication_data_type) and over micro-batches
 * (data_types.grad_accum_dtype).
 *
 * Over ranks. A bucket of fp32 gradients is cast into its own first half, the collective sums it there, and the sums
 * are cast back to their places:
 *
 *     fp32       g0 g1 g2 g3 g4 g5 g6 g7           bucket of 8 elements
 *     narrowed   h0 .. h7    | unspecified         the collective runs on these
 *     widened    s0 s1 s2 s3 s4 s5 s6 s7           all of it (ddp), or the own slice
 *
 * The gradients here are already divided by the number of samples of the step. DeepSpeed divides the gradient of a
 * rank's own mean in the type that is communicated, with N ranks and gradient_predivide_factor f:
 *
 *     default                     h = round(g N), h = round(h / f), sum, s = round(sum f / N)
 *     prescale_gradients          h = round(g N), h = round(h / N), sum
 *     gradient_allreduce_op sum   h = round(g), sum      g of the sum of the ranks' means
 *
 * Over micro-batches. Each gradient is rounded and added to the sum, which is rounded: numbers of 16 bits in the fp32
 * gradient block. Stages 2 and 3 do so with the slice that was reduced. */
#include "run/rank/command.h"

#include "device/half_arrays.h"
#include "plan/rank_bytes.h"
#include "run/rank/captured.h"
#include "run/rank/device_memory.h"
#include "run/rank/node_hashes.h"
#include "run/rank/node_trace.h"
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

static bool rounds(const struct zt_rank *r) {
    return r->plan->job->config->accumulation_type != ZT_GRADIENTS_FP32;
}

static bool add_rounded(struct zt_rank *r, const struct zt_action *a, struct zt_err *err) {
    return zt_half_accumulate(r->device, a->to, a->from, (int64_t)(a->bytes / sizeof(float)),
                              r->plan->job->config->accumulation_type == ZT_GRADIENTS_FP16, err);
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
    int64_t count = r->plan->flat->tensors[c->tensor].count;
    struct zt_action a = { .run = zero,
                           .to = zt_rank_at(r, slot, &c->at, NULL),
                           .bytes = (size_t)count * sizeof(float) };
    if (c->kind == ZT_ZERO_GRAD)
        return accumulate || zt_rank_do(r, &a, err);
    const struct zt_place *place = &p->place[ZT_BACKWARD][c->value];
    a.from = zt_rank_at(r, slot, place, p->training_graph.graph->values[c->value]->data);
    const bool rounded = rounds(r) && !r->plan->sharding->gradients;
    if (!accumulate && !copy_value(r, a.to, place, a.from, a.bytes, err))
        return false;
    a.run = rounded ? add_rounded : add;
    a.from = accumulate ? a.from : NULL;
    return (!accumulate && !rounded) || zt_rank_do(r, &a, err);
}

/* Starts to gather a bucket of elements of `width` bytes from its slices on all ranks, in parts of
 * allgather_bucket_size. */
static bool start_gather(struct zt_rank *r, int b, void *to, size_t width, struct zt_err *err) {
    struct zt_moving *m = &r->moving[b];
    for (int i = 0; i < m->parts; i++) {
        struct zt_transfer *t = &m->at[m->count++];
        *t = (struct zt_transfer){ ZT_ALL_GATHER, (char *)to + (size_t)m->first[i] * width,
                                   m->bound + i * (r->plan->flat->ranks + 1), width };
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
    const struct zt_shard_part own = { b, 0, bound[me + 1] - bound[me] };
    if (c->shard && own.count && !zt_rank_shard_copy(r, own, to + bound[me], err))
        return false;
    r->underway++;
    return start_gather(r, b, to, sizeof *to, err);
}

/* Factors of gradients that are divided by the samples of the step. Mode dp has one loss for all replicas. */
static void scale(const struct zt_rank *r, struct zt_half_cast *narrow, struct zt_half_cast *widen) {
    const struct zt_config *c = r->plan->job->config;
    const float ranks = (float)r->data->size, divided = (float)c->gradient_predivide_factor;
    *narrow = *widen = (struct zt_half_cast){ zt_rank_plan_wire(r->plan) == ZT_FLOAT16, 1, 1 };
    if (c->sum_gradients || r->plan->replicas)
        return;
    narrow->exact = ranks;
    narrow->factor = 1 / (c->prescale_gradients ? ranks : divided);
    widen->factor = c->prescale_gradients ? 1 : divided / ranks;
}

/* Both go through the workspace, which has room for the largest bucket in 16 bits (zt_rank_plan_count). */
static bool narrow_bucket(struct zt_rank *r, float *bucket, int64_t count, struct zt_err *err) {
    struct zt_half_cast narrow, widen;
    uint16_t *halves = (uint16_t *)(void *)r->workspace;
    scale(r, &narrow, &widen);
    return zt_half_narrow(r->device, halves, bucket, count, &narrow, err) &&
           r->device->api->copy(r->device, bucket, halves, (size_t)count * sizeof *halves, err);
}

/* Elements first..last-1. */
static bool widen_bucket(struct zt_rank *r, float *bucket, int64_t first, int64_t last, struct zt_err *err) {
    struct zt_half_cast narrow, widen;
    uint16_t *halves = (uint16_t *)(void *)r->workspace;
    const size_t bytes = (size_t)(last - first) * sizeof *halves;
    scale(r, &narrow, &widen);
    return r->device->api->copy(r->device, halves, (uint16_t *)(void *)bucket + first, bytes, err) &&
           zt_half_widen(r->device, bucket + first, halves, last - first, &widen, err);
}

static bool reduce(struct zt_rank *r, const struct zt_slot *slot, const struct zt_command *c, struct zt_err *err) {
    const struct zt_flat *flat = r->plan->flat;
    const enum zt_dtype dtype = zt_rank_plan_wire(r->plan);
    const size_t width = zt_dtype_bytes(dtype);
    struct zt_moving *m = &r->moving[c->bucket];
    float *at = zt_rank_at(r, slot, &c->at, NULL);
    if (zt_dtype_is_half(dtype) && !narrow_bucket(r, at, flat->bucket[c->bucket + 1] - flat->bucket[c->bucket], err))
        return false;
    struct zt_transfer *t = &m->at[m->count++];
    *t = (struct zt_transfer){ ZT_REDUCE_SCATTER, at, r->bound + c->bucket * (flat->ranks + 1), width, dtype };
    r->underway++;
    return r->bulk_data->api->start(r->bulk_data, t, err) && (!c->all || start_gather(r, c->bucket, at, width, err));
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

/* Adds the own slice of a bucket to the shard of the gradients. */
static bool add_to_shard(struct zt_rank *r, int bucket, const float *slice, bool accumulate, struct zt_err *err) {
    const struct zt_flat *flat = r->plan->flat;
    const int me = r->plan->grid.data_rank;
    const int64_t *bound = r->bound + bucket * (flat->ranks + 1), count = bound[me + 1] - bound[me];
    float *to = (float *)r->gradients + zt_shard_offset(flat, bucket, me);
    if (!accumulate && !r->device->api->copy(r->device, to, slice, (size_t)count * sizeof *to, err))
        return false;
    if (rounds(r))
        return add_rounded(
            r, &(struct zt_action){ .to = to, .from = accumulate ? slice : NULL, .bytes = (size_t)count * sizeof *to },
            err);
    return !accumulate || zt_rank_add(r, to, slice, count, err);
}

static bool reduced(struct zt_rank *r, const struct zt_slot *slot, const struct zt_command *c, bool accumulate,
                    struct zt_err *err) {
    const struct zt_flat *flat = r->plan->flat;
    int me = r->plan->grid.data_rank;
    float *at = zt_rank_at(r, slot, &c->at, NULL);
    const int64_t *bound = r->bound + c->bucket * (flat->ranks + 1);
    const int64_t first = c->all ? 0 : bound[me], last = c->all ? bound[flat->ranks] : bound[me + 1];
    if (!wait_for_bucket(r, c->bucket, err) ||
        (zt_dtype_is_half(zt_rank_plan_wire(r->plan)) && !widen_bucket(r, at, first, last, err)))
        return false;
    return !c->shard || add_to_shard(r, c->bucket, at + first, accumulate, err);
}

/* Advances pending transfers, which also copies received data to the device. */
static bool help_on(struct zt_rank *r, struct zt_err *err) {
    return !r->underway || zt_rank_capturing(r) || r->bulk_data->api->poll(r->bulk_data, err);
}

/* Copies this rank's part of the persistent tensors. */
static bool pack_persistent(struct zt_rank *r, float *packed, struct zt_err *err) {
    const struct zt_flat *flat = r->plan->flat;
    for (int i = 0; i < flat->persistent_piece_count; i++) {
        const struct zt_persistent_piece *piece = &flat->persistent_pieces[i];
        if (piece->rank != r->plan->grid.data_rank)
            continue;
        const int bucket = zt_rank_shard_bucket(r, piece->shard_at);
        const struct zt_shard_part part = { bucket, piece->shard_at - zt_shard_offset(flat, bucket, piece->rank),
                                            piece->count };
        if (!zt_rank_shard_copy(r, part, packed + piece->packed_at, err))
            return false;
    }
    return true;
}

/* Gathers all small persistent tensors with one all_gather. */
static bool gather_persistent(struct zt_rank *r, struct zt_err *err) {
    const struct zt_flat *flat = r->plan->flat;
    float *persistent = (float *)r->derived, *packed = persistent + flat->persistent;
    if (!pack_persistent(r, packed, err) ||
        !r->bulk_data->api->all_gather(r->bulk_data, packed, flat->persistent_bound, sizeof *packed, err))
        return false;
    for (int i = 0; i < flat->persistent_piece_count; i++) {
        const struct zt_persistent_piece *piece = &flat->persistent_pieces[i];
        if (!r->device->api->copy(r->device, persistent + piece->at, packed + piece->packed_at,
                                  (size_t)piece->count * sizeof *packed, err))
            return false;
    }
    return true;
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
    bool ok = wait_for_bucket(r, bucket, err);
    zt_timers_leave(r->timers, entered, ZT_TIMER_GATHER);
    return ok;
}

static bool reduce_timed(struct zt_rank *r, const struct zt_command_context *at, const struct zt_command *c,
                         struct zt_err *err) {
    const int entered = zt_timers_enter(r->timers);
    bool ok = c->kind == ZT_REDUCE ? reduce(r, at->slot, c, err) : reduced(r, at->slot, c, at->accumulate, err);
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
        return gather(r, slot, c, err) && read_ahead(r, at, c, err);
    case ZT_GATHERED:
        return gathered(r, c->bucket, err);
    case ZT_REDUCE:
    case ZT_REDUCED:
        return !r->sharing.reduced || (c->last_only && !at->last) || reduce_timed(r, at, c, err);
    case ZT_GATHER_PERSISTENT:
        return gather_persistent(r, err);
    case ZT_RELEASE:
        break;
    }
    return true;
}
