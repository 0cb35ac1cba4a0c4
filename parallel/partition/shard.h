/* The flat layout of parameters, gradients and optimizer state: the tensors of a stage in model order without padding,
 * divided into buckets (the unit of a collective), and each bucket into one slice per data-parallel rank. All modes use
 * the same layout.
 *
 *     tensors   |---- w1 ----|- b1 -|------- w2 -------|b2|        flat index 0 .. count
 *     buckets   |-------- 0 --------|-------- 1 ----------|        a bucket ends where a tensor ends
 *     slices    | r0   |  r1        | r0       | r1       |        bounds at multiples of 4,096 (ZT_SLICE_BLOCK)
 *
 * Squares are summed per block of ZT_SLICE_BLOCK elements. Slice bounds at multiples of it make ddp, zero1, zero2 and
 * zero3 agree bit for bit. */
#ifndef ZT_PARALLEL_PARTITION_SHARD_H
#define ZT_PARALLEL_PARTITION_SHARD_H

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

enum { ZT_SLICE_BLOCK = 4096 };

struct zt_flat_tensor {
    const char *name;
    int64_t offset, count; /* in elements; offset is set by zt_flat_make */
    bool copy;             /* copy of a parameter whose home is another stage (tied_weights.h); copies come last */
    int bucket;            /* set by zt_flat_make */
    int64_t persistent; /* start among the persistent tensors (zt_flat_persistent), in elements; -1: not persistent */
};

/* The part of a persistent tensor that one rank owns. All positions are in elements. */
struct zt_persistent_piece {
    int rank;
    int64_t at;        /* among the persistent tensors */
    int64_t packed_at; /* in the buffer of the all_gather */
    int64_t shard_at;  /* in the shard of its owner */
    int64_t count;
};

struct zt_flat {
    struct zt_flat_tensor *tensors;
    int tensor_count;
    int64_t count; /* elements of all tensors */
    int ranks;
    int own_tensors, own_buckets; /* without copies, which have separate buckets */
    int bucket_count;
    int64_t bucket_elems; /* a bucket of several tensors has at most so many */
    int64_t *bucket;      /* bucket_count + 1 ascending offsets */
    int64_t *bound;       /* [bucket_count][ranks + 1]: flat offsets of the slices */
    int64_t *shard;       /* [bucket_count][ranks]: start of rank r's slice in its shard (its slices, concatenated) */
    int64_t *owned;       /* [ranks + 1] elements that rank r owns in all buckets; owned[ranks] is unused */
    int64_t persistent;   /* elements of all persistent tensors */
    struct zt_persistent_piece
        *persistent_pieces; /* ordered by rank: one all_gather with the slice bounds persistent_bound brings them */
    int persistent_piece_count;
    int64_t *persistent_bound; /* [ranks + 1] */
};

/* The layouts of a stage: of the tensors that train, and of frozen weights that ranks share out (frozen NULL: none).
 * Elements of the latter are units of 4 bytes, whatever the type of the weights. Buckets are numbered through, those of
 * frozen weights last. */
struct zt_flats {
    const struct zt_flat *trained, *frozen;
};
static inline int zt_flats_buckets(const struct zt_flats *f) {
    return f->trained->bucket_count + (f->frozen ? f->frozen->bucket_count : 0);
}
/* The layout that has bucket `number`, and its number there. */
static inline const struct zt_flat *zt_flats_of(const struct zt_flats *f, int number, int *bucket) {
    const bool trained = number < f->trained->bucket_count;
    *bucket = trained ? number : number - f->trained->bucket_count;
    return trained ? f->trained : f->frozen;
}
/* Elements of bucket `number`. */
static inline int64_t zt_flats_elems(const struct zt_flats *f, int number) {
    int bucket;
    const struct zt_flat *flat = zt_flats_of(f, number, &bucket);
    return flat->bucket[bucket + 1] - flat->bucket[bucket];
}

/* Creates the layout of `tensors` (names and counts; copied). bucket_elems 0: the larger of the largest tensor and one
 * sixteenth of the model. */
struct zt_flat *zt_flat_make(struct zt_arena *arena, const struct zt_flat_tensor *tensors, int tensor_count, int ranks,
                             int64_t bucket_elems);

/* Makes rank 0 the owner of all elements (mode dp). */
void zt_flat_give_to_first(struct zt_flat *f);

/* Chooses the persistent tensors, of which every rank has a complete copy under ZeRO 3
 * (stage3_param_persistence_threshold, stage3_model_persistence_threshold): tensors of at most `most_elems` elements,
 * in model order, up to `most_together` elements in total. They also stay in their buckets and shards, which the
 * optimizer updates; the copies are refreshed after every update. */
void zt_flat_persistent(struct zt_arena *arena, struct zt_flat *flat, int64_t most_elems, int64_t most_together);

/* Cuts first..last-1, elements of the flat, to those of a tensor. Returns whether there are any. */
static inline bool zt_flat_cut(const struct zt_flat_tensor *t, int64_t *first, int64_t *last) {
    *first = t->offset > *first ? t->offset : *first;
    *last = t->offset + t->count < *last ? t->offset + t->count : *last;
    return *first < *last;
}

/* Flat offset of the slice of bucket b that rank r owns. */
static inline int64_t zt_slice_first(const struct zt_flat *f, int b, int r) {
    return f->bound[b * (f->ranks + 1) + r];
}
/* Elements with optimizer state (all except copies), and the number of them that rank r owns. */
static inline int64_t zt_flat_stepped(const struct zt_flat *f) {
    return f->bucket[f->own_buckets];
}
static inline int64_t zt_flat_stepped_by(const struct zt_flat *f, int r) {
    return f->own_buckets < f->bucket_count ? f->shard[f->own_buckets * f->ranks + r] : f->owned[r];
}
/* Start of the slice of bucket b in the shard of rank r. */
static inline int64_t zt_shard_offset(const struct zt_flat *f, int b, int r) {
    return f->shard[b * f->ranks + r];
}

#endif
