/* The parameters of which every rank keeps a complete copy under ZeRO 3. */
#include "parallel/partition/shard.h"

/* The slices of a tensor: which rank owns which of its elements. */
static void add_pieces(struct zt_flat *f, int t, int rank, int64_t *packed) {
    const struct zt_flat_tensor *tensor = &f->tensors[t];
    int64_t first = zt_slice_first(f, tensor->bucket, rank), last = zt_slice_first(f, tensor->bucket, rank + 1);
    int64_t from = first, to = last;
    if (!zt_flat_cut(tensor, &from, &to))
        return;
    f->persistent_pieces[f->persistent_piece_count++] =
        (struct zt_persistent_piece){ .rank = rank,
                                      .at = tensor->persistent + (from - tensor->offset),
                                      .packed_at = *packed,
                                      .shard_at = zt_shard_offset(f, tensor->bucket, rank) + (from - first),
                                      .count = to - from };
    *packed += to - from;
}

void zt_flat_persistent(struct zt_arena *arena, struct zt_flat *f, int64_t most_elems, int64_t most_together) {
    int tensors = 0;
    for (int t = 0; t < f->tensor_count; t++) {
        if (f->tensors[t].count > most_elems || f->persistent + f->tensors[t].count > most_together)
            continue;
        f->tensors[t].persistent = f->persistent;
        f->persistent += f->tensors[t].count;
        tensors++;
    }
    f->persistent_pieces = ZT_NEW_N(arena, struct zt_persistent_piece, tensors * f->ranks + 1);
    f->persistent_bound = ZT_NEW_N(arena, int64_t, f->ranks + 1);
    int64_t packed = 0;
    for (int r = 0; r < f->ranks; r++) {
        for (int t = 0; t < f->tensor_count; t++)
            if (f->tensors[t].persistent >= 0)
                add_pieces(f, t, r, &packed);
        f->persistent_bound[r + 1] = packed;
    }
}
