/* Tied weights across pipeline stages: weights that several stages read.
 *
 * The lowest of these stages is the weight's home. It alone has optimizer state, counts the weight in the gradient
 * norm, updates it and exports it. The other stages hold copies, which come last in their flat layouts (shard.h). After
 * the gradients are reduced over the data-parallel ranks, the copies' gradients are sent to the home and added in the
 * order of stages; after the optimizer step the home sends the new weights back. All copies therefore have the same
 * bits under every optimizer.
 *
 * Stages have different slice bounds, so a slice of the home may overlap slices of several ranks of a copy:
 *
 *     home   | rank 0        | rank 1        |        rank 0 exchanges with ranks 0 and 1 of the copy's stage,
 *     copy   | rank 0  | rank 1              |        rank 1 with rank 1
 *
 * With ddp, where every rank holds everything, ranks of the same data rank exchange the whole tensor. */
#ifndef ZT_PARALLEL_SCHEDULE_TIED_WEIGHTS_H
#define ZT_PARALLEL_SCHEDULE_TIED_WEIGHTS_H

#include "parallel/partition/grid.h"
#include "parallel/schedule/program.h"

/* A contiguous range of elements that this rank and `peer` (a rank of the world) exchange. */
struct zt_tie_run {
    int peer;
    bool home;                 /* this rank is on the home stage; false: on the copy's stage */
    int64_t param_at, grad_at; /* start in this rank's parameter and gradient blocks, in elements */
    int64_t count;             /* elements */
};

/* A tied weight: tensor numbers in the flat layouts of two stages. */
struct zt_tie_pair {
    int home_stage, home_tensor, copy_stage, copy_tensor;
};

struct zt_ties {
    const struct zt_sharding *sharding;
    struct zt_flat *const *flats; /* by stage */
    const struct zt_tie_pair *pairs;
    int pair_count;
};
/* Lists the exchanges of the rank `grid`, in the same order on both sides. *to is allocated in `arena`. Returns the
 * count. */
int zt_tie_runs(struct zt_arena *arena, const struct zt_grid *grid, const struct zt_ties *ties, struct zt_tie_run **to);

#endif
