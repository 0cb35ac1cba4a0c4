#include "parallel/schedule/tied_weights.h"
#include "parallel/schedule/collectives.h"

#include "base/vec.h"

#include <stdlib.h>

struct maker {
    const struct zt_grid *grid;
    const struct zt_sharding *sharding;
    struct zt_flat *const *flats;
    ZT_VEC(struct zt_tie_run) runs;
};

/* The ranges of data rank `rank` of a stage in the tensor's bucket, ascending. Free with free(). */
static struct zt_range *ranges_of(const struct maker *m, int stage, int tensor, int rank, int *count) {
    const struct zt_flat *flat = m->flats[stage];
    struct zt_range *to = zt_malloc(((size_t)flat->ranks + 1) * sizeof *to);
    int bucket = flat->tensors[tensor].bucket;
    *count = zt_collectives_slices(flat, m->sharding, rank, bucket, bucket + 1, to);
    return to;
}

/* Clips a range to the tensor that starts at flat index `start`: sets [first, last) relative to the tensor. Returns
 * whether it is not empty. */
static bool clip(const struct zt_range *range, int64_t start, int64_t count, int64_t *first, int64_t *last) {
    *first = range->first > start ? range->first - start : 0;
    *last = range->last - start < count ? range->last - start : count;
    return *first < *last;
}

/* The ranges that two ranks exchange: the overlaps of their parts of the weight. */
static void pair_ranks(struct maker *m, const struct zt_tie_pair *p, int home_rank, int copy_rank) {
    bool home = m->grid->stage == p->home_stage;
    const struct zt_flat_tensor *own = &m->flats[p->home_stage]->tensors[p->home_tensor],
                                *copy = &m->flats[p->copy_stage]->tensors[p->copy_tensor];
    int own_count, copy_count;
    struct zt_range *own_ranges = ranges_of(m, p->home_stage, p->home_tensor, home_rank, &own_count),
                    *copy_ranges = ranges_of(m, p->copy_stage, p->copy_tensor, copy_rank, &copy_count);
    for (int i = 0; i < own_count; i++) {
        for (int k = 0; k < copy_count; k++) {
            int64_t first, last, from, to;
            if (!clip(&own_ranges[i], own->offset, own->count, &first, &last) ||
                !clip(&copy_ranges[k], copy->offset, copy->count, &from, &to))
                continue;
            first = from > first ? from : first;
            last = to < last ? to : last;
            const struct zt_range *here = home ? &own_ranges[i] : &copy_ranges[k];
            int64_t in_range = (home ? own->offset : copy->offset) + first - here->first;
            if (first < last)
                zt_vec_push(&m->runs, (struct zt_tie_run){
                                          .peer = zt_grid_rank(m->grid, home ? p->copy_stage : p->home_stage,
                                                               home ? copy_rank : home_rank),
                                          .home = home,
                                          .param_at = here->param_at + in_range,
                                          .grad_at = here->grad_at + in_range,
                                          .count = last - first,
                                      });
        }
    }
    free(copy_ranges);
    free(own_ranges);
}

int zt_tie_runs(struct zt_arena *arena, const struct zt_grid *grid, const struct zt_ties *ties,
                struct zt_tie_run **to) {
    struct maker m = { .grid = grid, .sharding = ties->sharding, .flats = ties->flats };
    for (int i = 0; i < ties->pair_count; i++) {
        const struct zt_tie_pair *p = &ties->pairs[i];
        for (int h = 0; h < grid->data; h++)
            for (int c = 0; c < grid->data; c++)
                if ((zt_sharding_splits_update(ties->sharding) || h == c) &&
                    ((grid->stage == p->home_stage && grid->data_rank == h) ||
                     (grid->stage == p->copy_stage && grid->data_rank == c)))
                    pair_ranks(&m, p, h, c);
    }
    int count = m.runs.count;
    *to = zt_vec_copy(arena, &m.runs);
    zt_vec_finish(&m.runs);
    return count;
}
