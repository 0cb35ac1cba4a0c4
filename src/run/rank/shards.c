#include "run/rank/shards.h"

#include "base/mapped.h"
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
    const int64_t *bound = r->bound + bucket * (r->plan->tensors.flat->ranks + 1);
    return bound[r->plan->grid.data_rank + 1] - bound[r->plan->grid.data_rank];
}

/* ---- creation ---- */

/* Finds the slices that are in the file. Returns the elements of the largest one. */
static int64_t find_slices(struct zt_rank *r, int *piece) {
    const struct zt_flat *flat = r->plan->tensors.flat;
    int64_t largest = 0;
    const struct zt_flats flats = zt_rank_flats(&r->plan->tensors);
    for (int b = 0; b < zt_flats_buckets(&flats); b++)
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
    const struct zt_flats flats = zt_rank_flats(&r->plan->tensors);
    int *piece = ZT_NEW_N(r->arena, int, zt_flats_buckets(&flats) + 1);
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

/* Slices of frozen weights are between the parameters of the block and the statistics. */
static char *frozen_shard(const struct zt_rank *r) {
    const struct zt_rank_plan *p = r->plan;
    return r->parameters + (p->memory.parameter_bytes - p->tensors.statistic_bytes - p->memory.frozen_shard_bytes);
}

bool zt_rank_shard_copy(struct zt_rank *r, struct zt_shard_part part, float *to, struct zt_err *err) {
    const struct zt_device_api *api = r->device->api;
    const size_t bytes = (size_t)part.count * sizeof *to;
    const struct zt_flats flats = zt_rank_flats(&r->plan->tensors);
    int own;
    const struct zt_flat *flat = zt_flats_of(&flats, part.bucket, &own);
    if (flat == flats.frozen) {
        const int64_t at = zt_shard_offset(flat, own, r->plan->grid.data_rank) + part.first;
        return api->copy(r->device, to, frozen_shard(r) + at * (int64_t)sizeof *to, bytes, err);
    }
    if (!r->shards || r->shards->piece[part.bucket] < 0) {
        const int64_t at = zt_shard_offset(flat, own, r->plan->grid.data_rank) + part.first;
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
    const struct zt_flat *flat = r->plan->tensors.flat;
    int b = 0;
    while (b + 1 < flat->bucket_count && zt_shard_offset(flat, b + 1, r->plan->grid.data_rank) <= param_at)
        b++;
    return b;
}

/* ---- frozen weights ---- */

enum { SOME = 1 << 14 }; /* units that are converted together */

/* Units first .. last - 1 of a tensor, at most SOME. Behind its elements they are 0. */
static void convert(const struct zt_rank_plan *p, int tensor, int64_t first, int64_t last, void *to) {
    const enum zt_dtype dtype = p->tensors.frozen->weights[tensor].dtype;
    const struct zt_frozen_source *source = &p->tensors.frozen_source[tensor];
    const int64_t width = (int64_t)zt_dtype_bytes(dtype), unit = (int64_t)sizeof(float),
                  elems = p->tensors.frozen_elems[tensor], from = first * unit / width;
    int64_t until = last * unit / width;
    until = until < elems ? until : elems;
    memset(to, 0, (size_t)((last - first) * unit));
    if (from >= until || !source->data)
        return;
    const size_t stored = zt_dtype_bytes(source->dtype);
    zt_frozen_convert(source, from, until - from, dtype, to);
    zt_mapped_give_back((const char *)source->data + (size_t)from * stored, (size_t)(until - from) * stored);
}

/* Units first .. last - 1 of the layout, which are this rank's, at `to`. */
static bool place_slice(struct zt_rank *r, int64_t first, int64_t last, char *to, struct zt_err *err) {
    const struct zt_flat *f = r->plan->tensors.frozen->flat;
    float some[SOME];
    for (int t = 0; t < f->tensor_count; t++) {
        const struct zt_flat_tensor *tensor = &f->tensors[t];
        int64_t at = first, end = last, next;
        for (zt_flat_cut(tensor, &at, &end); at < end; at = next) {
            next = at + SOME < end ? at + SOME : end;
            convert(r->plan, t, at - tensor->offset, next - tensor->offset, some);
            if (!r->device->api->to_device(r->device, to + (at - first) * (int64_t)sizeof(float), some,
                                           (size_t)(next - at) * sizeof(float), err))
                return false;
        }
    }
    return true;
}

bool zt_rank_place_frozen(struct zt_rank *r, struct zt_err *err) {
    const struct zt_flat *f = r->plan->tensors.frozen ? r->plan->tensors.frozen->flat : NULL;
    const int me = r->plan->grid.data_rank;
    for (int b = 0; f && b < f->bucket_count; b++)
        if (!place_slice(r, zt_slice_first(f, b, me), zt_slice_first(f, b, me + 1),
                         frozen_shard(r) + zt_shard_offset(f, b, me) * (int64_t)sizeof(float), err))
            return false;
    return true;
}
