/* Who is who: ranks as a grid of axes [pipe, data], row-major as in DeepSpeed: rank = stage * data + data_rank.
 *
 *                 data_rank 0   1          6 ranks, 3 stages
 *     stage 0             0   1          a row shares a stage: its ranks reduce gradients and own slices together
 *     stage 1             2   3          a column is one pipeline: activations go down it, gradients up
 *     stage 2             4   5 */
#ifndef ZT_PARALLEL_PARTITION_GRID_H
#define ZT_PARALLEL_PARTITION_GRID_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct zt_grid {
    int world, data, stages; /* world = data * stages */
    int rank, data_rank, stage;
};

/* The place of `rank` in a world of that many ranks. Errors when the stages do not divide the world, and name both. */
bool zt_grid_make(int world, int stages, int rank, struct zt_grid *grid, struct zt_err *err);

/* The rank at a place of the same grid; -1 when there is none. */
int zt_grid_rank(const struct zt_grid *grid, int stage, int data_rank);
/* The peers of this rank's pipeline that it receives activations from and sends them to; -1 at the ends. */
int zt_grid_previous(const struct zt_grid *grid);
int zt_grid_next(const struct zt_grid *grid);

/* "rank 3 (stage 1, data rank 1)" for messages; axes of length 1 are left out, and all of it on one rank. */
void zt_grid_place(const struct zt_grid *grid, char *to, size_t room);

#endif
