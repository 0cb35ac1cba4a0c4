#include "parallel/partition/shard.h"

static int64_t bucket_size(const struct zt_flat_tensor *tensors, int count, int64_t wanted) {
    int64_t largest = 0, total = 0;
    for (int i = 0; i < count; i++) {
        total += tensors[i].count;
        if (tensors[i].count > largest)
            largest = tensors[i].count;
    }
    if (wanted > 0)
        return wanted < total ? wanted : total; /* never more than the model */
    return largest > total / 16 ? largest : total / 16;
}

/* A tensor is added to the bucket while its size stays within bucket_elems; a tensor larger than that has a separate
 * bucket. */
static void fill_buckets(struct zt_flat *f) {
    int64_t at = 0;
    f->bucket_count = f->own_buckets = f->own_tensors = 0;
    while (f->own_tensors < f->tensor_count && !f->tensors[f->own_tensors].copy)
        f->own_tensors++;
    for (int i = 0; i < f->tensor_count; i++) {
        struct zt_flat_tensor *t = &f->tensors[i];
        bool first_copy = t->copy && i == f->own_tensors;
        if (f->bucket_count == 0 || first_copy || at + t->count - f->bucket[f->bucket_count - 1] > f->bucket_elems)
            f->bucket[f->bucket_count++] = at;
        if (!t->copy)
            f->own_buckets = f->bucket_count;
        t->offset = at;
        t->persistent = -1;
        t->bucket = f->bucket_count - 1;
        at += t->count;
    }
    f->count = at;
    f->bucket[f->bucket_count] = at;
}

static void cut_slices(struct zt_flat *f) {
    for (int b = 0; b < f->bucket_count; b++) {
        int64_t first = f->bucket[b], last = f->bucket[b + 1], *bound = f->bound + b * (f->ranks + 1);
        bound[0] = first;
        for (int r = 1; r < f->ranks; r++) {
            int64_t even = first + (last - first) * r / f->ranks;
            int64_t cut = (even + ZT_SLICE_BLOCK / 2) / ZT_SLICE_BLOCK * ZT_SLICE_BLOCK;
            bound[r] = cut < bound[r - 1] ? bound[r - 1] : cut > last ? last : cut;
        }
        bound[f->ranks] = last;
        for (int r = 0; r < f->ranks; r++) {
            f->shard[b * f->ranks + r] = f->owned[r];
            f->owned[r] += bound[r + 1] - bound[r];
        }
    }
}

struct zt_flat *zt_flat_make(struct zt_arena *arena, const struct zt_flat_tensor *tensors, int tensor_count, int ranks,
                             int64_t bucket_elems) {
    struct zt_flat *f = ZT_NEW(arena, struct zt_flat);
    f->tensors = zt_arena_copy(arena, tensors, (size_t)tensor_count * sizeof *tensors);
    f->tensor_count = tensor_count;
    f->ranks = ranks;
    f->bucket = ZT_NEW_N(arena, int64_t, tensor_count + 1);
    f->bucket_elems = bucket_size(tensors, tensor_count, bucket_elems);
    fill_buckets(f);
    f->bound = ZT_NEW_N(arena, int64_t, (f->bucket_count + 1) * (ranks + 1));
    f->shard = ZT_NEW_N(arena, int64_t, (f->bucket_count + 1) * ranks);
    f->owned = ZT_NEW_N(arena, int64_t, ranks + 1);
    cut_slices(f);
    return f;
}

void zt_flat_give_to_first(struct zt_flat *f) {
    f->owned[0] = f->count;
    for (int r = 1; r < f->ranks; r++)
        f->owned[r] = 0;
    for (int b = 0; b < f->bucket_count; b++) {
        for (int r = 1; r <= f->ranks; r++)
            f->bound[b * (f->ranks + 1) + r] = f->bucket[b + 1];
        for (int r = 0; r < f->ranks; r++)
            f->shard[b * f->ranks + r] = r == 0 ? f->bucket[b] : 0;
    }
}
