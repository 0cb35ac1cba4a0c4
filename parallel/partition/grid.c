#include "parallel/partition/grid.h"

#include <stdio.h>

bool zt_grid_make(int world, int stages, int rank, struct zt_grid *grid, struct zt_err *err) {
    *grid = (struct zt_grid){ 0 };
    if (world < 1 || stages < 1)
        return zt_fail(err, ZT_EXIT_CONFIG, "grid: %d ranks and %d pipeline stages, both must be at least 1", world,
                       stages);
    if (world % stages)
        return zt_fail(err, ZT_EXIT_CONFIG, "grid: %d ranks cannot be divided into %d pipeline stages", world, stages);
    if (rank < 0 || rank >= world)
        return zt_fail(err, ZT_EXIT_RUN, "grid: rank %d, wants 0..%d", rank, world - 1);
    int data = world / stages;
    *grid = (struct zt_grid){
        .world = world, .data = data, .stages = stages, .rank = rank, .data_rank = rank % data, .stage = rank / data
    };
    return true;
}

int zt_grid_rank(const struct zt_grid *grid, int stage, int data_rank) {
    if (stage < 0 || stage >= grid->stages || data_rank < 0 || data_rank >= grid->data)
        return -1;
    return stage * grid->data + data_rank;
}

int zt_grid_previous(const struct zt_grid *grid) {
    return zt_grid_rank(grid, grid->stage - 1, grid->data_rank);
}

int zt_grid_next(const struct zt_grid *grid) {
    return zt_grid_rank(grid, grid->stage + 1, grid->data_rank);
}

void zt_grid_place(const struct zt_grid *grid, char *to, size_t room) {
    if (grid->world == 1)
        snprintf(to, room, "%s", "");
    else if (grid->stages == 1)
        snprintf(to, room, "rank %d", grid->rank);
    else if (grid->data == 1)
        snprintf(to, room, "rank %d (stage %d)", grid->rank, grid->stage);
    else
        snprintf(to, room, "rank %d (stage %d, data rank %d)", grid->rank, grid->stage, grid->data_rank);
}
