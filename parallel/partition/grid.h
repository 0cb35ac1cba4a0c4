/* The rank grid: axes [pipe, data], row-major as in DeepSpeed, so rank = stage * data + data_rank.
 *
 *                 data_rank 0   1          6 ranks, 3 stages
 *     stage 0             0   1          the ranks of a row run one stage: they reduce gradients and share slices
 *     stage 1             2   3          a column is one pipeline: activations go down, gradients up
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

/* The position of `rank` in a world of `world` ranks. Fails if `stages` does not divide `world`. */
bool zt_grid_make(int world, int stages, int rank, struct zt_grid *grid, struct zt_err *err);

/* The rank at a position of the same grid; -1: none. */
int zt_grid_rank(const struct zt_grid *grid, int stage, int data_rank);
/* The ranks from which this rank receives activations and to which it sends them; -1: none. */
int zt_grid_previous(const struct zt_grid *grid);
int zt_grid_next(const struct zt_grid *grid);

/* Writes "rank 3 (stage 1, data rank 1)" for messages. Axes of length 1 are omitted; with one rank the text is empty.
 */
void zt_grid_place(const struct zt_grid *grid, char *to, size_t room);

#endif
