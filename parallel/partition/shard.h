/* One flat layout for parameters, gradients and optimizer state: the tensors of a stage in model order, without
 * padding, cut into buckets (what one collective moves) and each bucket into one slice a data-parallel rank. The same
 * in every mode.
 *
 *     tensors   |---- w1 ----|- b1 -|------- w2 -------|b2|        flat index 0 .. count
 *     buckets   |-------- 0 --------|-------- 1 ----------|        a bucket ends where a tensor ends
 *     slices    | r0   |  r1        | r0       | r1       |        bounds at multiples of 4,096 (ZT_SLICE_BLOCK)
 *
 * Bounds at multiples of the block, over which squares are summed, are what makes ddp, zero1, zero2 and zero3 agree bit
 * for bit. */
#ifndef ZT_PARALLEL_PARTITION_SHARD_H
#define ZT_PARALLEL_PARTITION_SHARD_H

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

enum { ZT_SLICE_BLOCK = 4096 };

struct zt_flat_tensor {
    const char *name;
    int64_t offset, count; /* elements; offset is set by zt_flat_make */
    bool copy;             /* of a parameter whose home is another stage (tied_weights.h); copies stand last */
    int bucket;            /* set by zt_flat_make */
    int64_t kept; /* where it starts among the kept tensors (zt_flat_persistent), elements; -1: it is not kept */
};

/* A part of a kept tensor that one rank owns; elements. */
struct zt_persistent_piece {
    int rank;
    int64_t at, packed_at, shard_at, count; /* among the kept tensors; as it travels; in the shard of its owner */
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
    int64_t kept;    /* elements of all kept tensors */
    struct zt_persistent_piece
        *kept_pieces; /* by rank, so that one all_gather with the slice bounds kept_bound brings them */
    int kept_piece_count;
    int64_t *kept_bound; /* [ranks + 1] */
};

/* Lays out `tensors` (names and counts; copied). bucket_elems 0: the larger of the largest tensor and a sixteenth of
 * the model. */
struct zt_flat *zt_flat_make(struct zt_arena *arena, const struct zt_flat_tensor *tensors, int tensor_count, int ranks,
                             int64_t bucket_elems);

/* Rank 0 owns everything (mode dp). */
void zt_flat_give_to_first(struct zt_flat *f);

/* Chooses the tensors that every rank keeps whole where parameters lie in shards (stage3_param_persistence_threshold
 * and stage3_model_persistence_threshold): those of at most `most_elems`, in model order while all together have at
 * most `most_together`. They stay in their buckets and shards, where the optimizer steps; copies of them are made anew
 * after every update. */
void zt_flat_persistent(struct zt_arena *arena, struct zt_flat *flat, int64_t most_elems, int64_t most_together);

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
