/* One flat layout for parameters, gradients and optimizer state: the tensors of a stage in model order, without
 * padding, cut into buckets (what one collective moves) and each bucket into one slice a data-parallel rank. The same
 * in every mode.
 *
 *     tensors   |---- w1 ----|- b1 -|------- w2 -------|b2|        flat index 0 .. count
 *     buckets   |-------- 0 --------|-------- 1 ----------|        a bucket ends where a tensor ends
 *     slices    | r0   |  r1        | r0       | r1       |        bounds at multiples of 4,096 (ZT_SLICE_BLOCK) of the
 * flat index
 *
 * Bounds at multiples of the block, over which squares are summed, are what makes ddp, zero1, zero2 and zero3 agree bit
 * for bit. */
#ifndef ZT_PARALLEL_SHARD_H
#define ZT_PARALLEL_SHARD_H

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

enum { ZT_SLICE_BLOCK = 4096 };

struct zt_flat_tensor {
    const char *name;
    int64_t offset, count; /* elements; offset is set by zt_flat_make */
    bool copy;             /* of a parameter whose home is another stage (tie.h); copies stand last */
    int bucket;            /* set by zt_flat_make */
};

struct zt_flat {
    struct zt_flat_tensor *tensors;
    int tensor_count;
    int64_t count; /* all elements */
    int ranks;
    int own_tensors, own_buckets; /* those before the copies, which have buckets of their own */
    int bucket_count;
    int64_t *bucket; /* bucket_count + 1 ascending offsets */
    int64_t *bound;  /* [bucket_count][ranks + 1]: flat offsets of the slices */
    int64_t *shard;  /* [bucket_count][ranks]: where rank r's slice starts in its compact shard (its slices, one after
                        the other) */
    int64_t *owned;  /* [ranks + 1] elements that rank r owns over all buckets; owned[ranks] unused */
};

/* Lays out `tensors` (names and counts; copied). bucket_elems 0: the larger of the largest tensor and a sixteenth of
 * the model. */
struct zt_flat *zt_flat_make(struct zt_arena *arena, const struct zt_flat_tensor *tensors, int tensor_count, int ranks,
                             int64_t bucket_elems);

/* Rank 0 owns everything (mode dp). */
void zt_flat_give_to_first(struct zt_flat *f);

/* Slice of bucket b that rank r owns, as flat offsets. */
static inline int64_t zt_slice_first(const struct zt_flat *f, int b, int r) {
    return f->bound[b * (f->ranks + 1) + r];
}
/* Elements that have optimizer state, all but copies; and those of them that rank r owns. */
static inline int64_t zt_flat_stepped(const struct zt_flat *f) {
    return f->bucket[f->own_buckets];
}
static inline int64_t zt_flat_stepped_by(const struct zt_flat *f, int r) {
    return f->own_buckets < f->bucket_count ? f->shard[f->own_buckets * f->ranks + r] : f->owned[r];
}
static inline int64_t zt_shard_offset(const struct zt_flat *f, int b, int r) {
    return f->shard[b * f->ranks + r];
}

#endif
