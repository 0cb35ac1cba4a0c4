/* Collectives over buckets of parameters and gradients; and gradients in 16 bits: summed over ranks
 * (communication_data_type) and over micro-batches (data_types.grad_accum_dtype).
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
#include "run/rank/bucket_collectives.h"

#include "device/half_arrays.h"
#include "plan/rank_bytes.h"
#include "run/rank/device_memory.h"
#include "run/rank/shards.h"

bool zt_rank_rounds_gradients(const struct zt_rank *r) {
    return r->plan->job->config->accumulation_type != ZT_GRADIENTS_FP32;
}

bool zt_rank_add_rounded(struct zt_rank *r, const struct zt_action *a, struct zt_err *err) {
    return zt_half_accumulate(r->device, a->to, a->from, (int64_t)(a->bytes / sizeof(float)),
                              r->plan->job->config->accumulation_type == ZT_GRADIENTS_FP16, err);
}

/* Starts to gather a bucket of elements of `width` bytes from its slices on all ranks, in parts of
 * allgather_bucket_size. */
static bool start_gather(struct zt_rank *r, int b, void *to, size_t width, struct zt_err *err) {
    struct zt_moving *m = &r->moving[b];
    for (int i = 0; i < m->parts; i++) {
        struct zt_transfer *t = &m->at[m->count++];
        *t = (struct zt_transfer){ ZT_ALL_GATHER, (char *)to + (size_t)m->first[i] * width,
                                   m->bound + i * (r->plan->tensors.flat->ranks + 1), width };
        if (!r->bulk_data->api->start(r->bulk_data, t, err))
            return false;
    }
    return true;
}

bool zt_rank_gather(struct zt_rank *r, const struct zt_slot *slot, const struct zt_command *c, struct zt_err *err) {
    const struct zt_flat *flat = r->plan->tensors.flat;
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

bool zt_rank_reduce(struct zt_rank *r, const struct zt_slot *slot, const struct zt_command *c, struct zt_err *err) {
    const struct zt_flat *flat = r->plan->tensors.flat;
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

bool zt_rank_wait_for_bucket(struct zt_rank *r, int b, struct zt_err *err) {
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
    const struct zt_flat *flat = r->plan->tensors.flat;
    const int me = r->plan->grid.data_rank;
    const int64_t *bound = r->bound + bucket * (flat->ranks + 1), count = bound[me + 1] - bound[me];
    float *to = (float *)r->gradients + zt_shard_offset(flat, bucket, me);
    if (!accumulate && !r->device->api->copy(r->device, to, slice, (size_t)count * sizeof *to, err))
        return false;
    if (zt_rank_rounds_gradients(r))
        return zt_rank_add_rounded(
            r, &(struct zt_action){ .to = to, .from = accumulate ? slice : NULL, .bytes = (size_t)count * sizeof *to },
            err);
    return !accumulate || zt_rank_add(r, to, slice, count, err);
}

bool zt_rank_reduced(struct zt_rank *r, const struct zt_slot *slot, const struct zt_command *c, bool accumulate,
                     struct zt_err *err) {
    const struct zt_flat *flat = r->plan->tensors.flat;
    int me = r->plan->grid.data_rank;
    float *at = zt_rank_at(r, slot, &c->at, NULL);
    const int64_t *bound = r->bound + c->bucket * (flat->ranks + 1);
    const int64_t first = c->all ? 0 : bound[me], last = c->all ? bound[flat->ranks] : bound[me + 1];
    if (!zt_rank_wait_for_bucket(r, c->bucket, err) ||
        (zt_dtype_is_half(zt_rank_plan_wire(r->plan)) && !widen_bucket(r, at, first, last, err)))
        return false;
    return !c->shard || add_to_shard(r, c->bucket, at + bound[me], accumulate, err);
}

/* Copies this rank's part of the persistent tensors. */
static bool pack_persistent(struct zt_rank *r, float *packed, struct zt_err *err) {
    const struct zt_flat *flat = r->plan->tensors.flat;
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
bool zt_rank_gather_persistent(struct zt_rank *r, struct zt_err *err) {
    const struct zt_flat *flat = r->plan->tensors.flat;
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
