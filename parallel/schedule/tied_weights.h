/* Weights that several pipeline stages read. The lowest of them is the weight's home: it alone has optimizer state,
 * counts it in the norm, updates and exports it. The others hold copies, which stand behind all else in their flat
 * layout (shard.h). Once gradients are reduced over the data-parallel ranks the copies' gradients travel home and are
 * added there in the order of stages; after the optimizer step the new weights travel back. So all copies have the same
 * bits, under every optimizer.
 *
 * The stages cut their flat layouts differently, so what an owner at one end has may belong to several at the other:
 *
 *     home   | rank 0        | rank 1        |        rank 0 exchanges with ranks 0 and 1 of the copy's stage,
 *     copy   | rank 0  | rank 1              |        rank 1 with rank 1
 *
 * Where every rank holds everything (ddp) those with the same data rank exchange the whole tensor. */
#ifndef ZT_PARALLEL_SCHEDULE_TIED_WEIGHTS_H
#define ZT_PARALLEL_SCHEDULE_TIED_WEIGHTS_H

#include "parallel/partition/grid.h"
#include "parallel/schedule/program.h"

/* One run of elements between this rank and `peer` (a rank of the world). */
struct zt_tie_run {
    int peer;
    bool home;                        /* this rank is the home's; else the copy's */
    int64_t param_at, grad_at, count; /* elements, where it lies in this rank's blocks */
};

/* A tied weight: tensor numbers in the flat layouts of two stages. */
struct zt_tie_pair {
    int home_stage, home_tensor, copy_stage, copy_tensor;
};

/* What rank `grid` exchanges, in an order that is the same at both ends. flats[s] is stage s's layout. The list is held
 * by `arena`; the count is returned. */
int zt_tie_runs(struct zt_arena *arena, const struct zt_grid *grid, const struct zt_sharding *sharding,
                struct zt_flat *const *flats, const struct zt_tie_pair *pairs, int pair_count, struct zt_tie_run **to);

#endif
