#include "run/rank/shards.h"

#include "run/rank/offload.h"
#include "run/timers/timers.h"

#include <string.h>

/* A buffer of one slice. */
struct shelf {
    int bucket; /* -1: none */
    struct zt_aio_transfer transfer;
    struct zt_event *taken; /* passes when the device has read the buffer */
    float *at;
    int64_t skip; /* elements before the slice */
    int64_t used; /* when it was used last */
};

struct zt_rank_shards {
    int *piece; /* by bucket: the first piece of the slice, if it is in the file; -1: in the block, or empty */
    struct shelf *shelves;
    int count;
    int64_t clock;
    void *block;
    size_t block_bytes;
};

static int64_t slice_elems(const struct zt_rank *r, int bucket) {
    const int64_t *bound = r->bound + bucket * (r->plan->flat->ranks + 1);
    return bound[r->plan->grid.data_rank + 1] - bound[r->plan->grid.data_rank];
}

/* ---- creation ---- */

/* Finds the slices that are in the file. Returns the elements of the largest one. */
static int64_t find_slices(struct zt_rank *r, int *piece) {
    const struct zt_flat *flat = r->plan->flat;
    int64_t largest = 0;
    for (int b = 0; b < flat->bucket_count; b++)
        piece[b] = -1;
    for (int g = 0; g < r->sub_group_count; g++) {
        const struct zt_sub_group *group = &r->sub_groups[g];
        for (int i = group->first; group->params_filed && i < group->first + group->count; i++) {
            const int bucket = flat->tensors[r->pieces[i].tensor].bucket;
            if (piece[bucket] >= 0)
                continue;
            piece[bucket] = i;
            largest = slice_elems(r, bucket) > largest ? slice_elems(r, bucket) : largest;
        }
    }
    return largest;
}

bool zt_rank_shards_create(struct zt_rank *r, struct zt_err *err) {
    const struct zt_device_api *api = r->device->api;
    int *piece = ZT_NEW_N(r->arena, int, r->plan->flat->bucket_count + 1);
    const int64_t largest = r->plan->offload.parameters == ZT_HOME_NVME ? find_slices(r, piece) : 0;
    if (!largest)
        return true;
    struct zt_rank_shards *s = r->shards = ZT_NEW(r->arena, struct zt_rank_shards);
    const int64_t room = zt_offload_shelf_elems(largest);
    s->piece = piece;
    s->count = r->plan->offload.shelves;
    s->shelves = ZT_NEW_N(r->arena, struct shelf, s->count);
    s->block_bytes = (size_t)(s->count * room) * sizeof(float) + ZT_AIO_ALIGN;
    if (!(s->block = zt_device_allocate_host(r->device, s->block_bytes, "buffers of the parameters", err)))
        return false;
    float *first = (float *)(((uintptr_t)s->block + ZT_AIO_ALIGN - 1) / ZT_AIO_ALIGN * ZT_AIO_ALIGN);
    for (int i = 0; i < s->count; i++) {
        s->shelves[i] = (struct shelf){ .bucket = -1, .at = first + i * room };
        if (!(s->shelves[i].taken = api->event_create(r->device, err)))
            return false;
    }
    return true;
}

void zt_rank_shards_destroy(struct zt_rank *r) {
    struct zt_rank_shards *s = r->shards;
    struct zt_err ignored = { 0 };
    if (!s)
        return;
    for (int i = 0; i < s->count; i++) {
        zt_aio_wait(zt_rank_aio(r), &s->shelves[i].transfer, &ignored);
        if (s->shelves[i].taken)
            r->device->api->event_destroy(r->device, s->shelves[i].taken);
    }
    zt_device_free_host(r->device, s->block, s->block_bytes);
}

/* ---- reading ---- */

static struct shelf *find(struct zt_rank_shards *s, int bucket) {
    for (int i = 0; i < s->count; i++)
        if (s->shelves[i].bucket == bucket)
            return &s->shelves[i];
    return NULL;
}

/* The shelf that was not used for the longest time. */
static struct shelf *oldest(struct zt_rank_shards *s) {
    struct shelf *best = &s->shelves[0];
    for (int i = 1; i < s->count; i++)
        if (s->shelves[i].used < best->used)
            best = &s->shelves[i];
    return best;
}

/* Starts to read a slice, if no shelf has it. */
static struct shelf *fetch(struct zt_rank *r, int bucket, struct zt_err *err) {
    struct zt_rank_shards *s = r->shards;
    struct shelf *shelf = find(s, bucket);
    if (!shelf) {
        shelf = oldest(s);
        if (!zt_aio_wait(zt_rank_aio(r), &shelf->transfer, err) || !r->device->api->wait(r->device, shelf->taken, err))
            return NULL;
        shelf->bucket = bucket;
        shelf->transfer = zt_rank_param_transfer(r, s->piece[bucket], slice_elems(r, bucket), shelf->at, &shelf->skip);
        zt_aio_start(zt_rank_aio(r), &shelf->transfer);
    }
    shelf->used = ++s->clock;
    return shelf;
}

bool zt_rank_shard_copy(struct zt_rank *r, struct zt_shard_part part, float *to, struct zt_err *err) {
    const struct zt_device_api *api = r->device->api;
    const size_t bytes = (size_t)part.count * sizeof *to;
    if (!r->shards || r->shards->piece[part.bucket] < 0) {
        const int64_t at = zt_shard_offset(r->plan->flat, part.bucket, r->plan->grid.data_rank) + part.first;
        return r->plan->offload.parameters == ZT_HOME_DEVICE ? api->copy(r->device, to, r->shard + at, bytes, err)
                                                             : api->to_device(r->device, to, r->shard + at, bytes, err);
    }
    const int entered = zt_timers_enter_host(r->timers);
    struct shelf *shelf = fetch(r, part.bucket, err);
    const bool ok = shelf && zt_aio_wait(zt_rank_aio(r), &shelf->transfer, err);
    zt_timers_leave_host(r->timers, entered, ZT_TIMER_PARAMS_IN);
    return ok && api->to_device(r->device, to, shelf->at + shelf->skip + part.first, bytes, err) &&
           api->record(r->device, shelf->taken, err);
}

bool zt_rank_shards_ahead(struct zt_rank *r, const struct zt_command *list, int at, int count, struct zt_err *err) {
    struct zt_rank_shards *s = r->shards;
    int ahead = 1;
    for (int i = at; s && i < count && ahead < s->count; i++) {
        if (list[i].kind != ZT_GATHER || !list[i].shard || s->piece[list[i].bucket] < 0)
            continue;
        if (!fetch(r, list[i].bucket, err))
            return false;
        ahead++;
    }
    return true;
}

bool zt_rank_shards_changed(struct zt_rank *r, struct zt_err *err) {
    struct zt_rank_shards *s = r->shards;
    for (int i = 0; s && i < s->count; i++) {
        if (!zt_aio_wait(zt_rank_aio(r), &s->shelves[i].transfer, err))
            return false;
        s->shelves[i].bucket = -1;
        s->shelves[i].used = 0;
    }
    return true;
}

int zt_rank_shard_bucket(const struct zt_rank *r, int64_t param_at) {
    const struct zt_flat *flat = r->plan->flat;
    int b = 0;
    while (b + 1 < flat->bucket_count && zt_shard_offset(flat, b + 1, r->plan->grid.data_rank) <= param_at)
        b++;
    return b;
}
