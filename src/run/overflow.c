#include "run/overflow.h"

#include "run/rank/blocks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Whether the piece has an element that is not finite; `chunk`: ZT_PIECE elements on the host. */
static bool look(const struct zt_rank *r, const struct zt_piece *p, float *chunk, bool *finite, struct zt_err *err) {
    *finite = true;
    if (!zt_piece_fetch_gradient(r, p, chunk, err))
        return false;
    for (int64_t i = 0; *finite && i < p->count; i++)
        *finite = isfinite(chunk[i]);
    return true;
}

/* The last tensor of this rank with a gradient that is not finite, in the model's order; -1: none. */
static bool last_tensor(const struct zt_rank *r, int *tensor, struct zt_err *err) {
    float *chunk = zt_malloc(ZT_PIECE * sizeof *chunk);
    bool ok = true, finite;
    *tensor = -1;
    for (int i = 0; ok && i < r->piece_count; i++) {
        const struct zt_piece *p = &r->pieces[i];
        if (p->tensor <= *tensor || (r->sharing.reduced && r->owned[p->range].rank != r->plan->grid.data_rank))
            continue;
        ok = look(r, p, chunk, &finite, err);
        *tensor = ok && !finite ? p->tensor : *tensor;
    }
    free(chunk);
    return ok;
}

bool zt_rank_overflow(struct zt_rank *r, struct zt_overflow *to, struct zt_err *err) {
    const struct zt_flat *flat = r->plan->tensors.flat;
    struct zt_comm *world = r->world;
    /* by rank: 0: none, else a number that grows against the order of the backward pass */
    double *place = zt_calloc((size_t)world->size, sizeof *place);
    int tensor;
    bool ok = last_tensor(r, &tensor, err);
    *to = (struct zt_overflow){ 0 };
    if (ok && tensor >= 0)
        place[world->rank] = (double)r->plan->grid.stage * INT32_MAX + tensor + 1;
    ok = ok && world->api->sum(world, place, world->size, err);
    for (int i = 1; ok && i < world->size; i++)
        to->rank = place[i] > place[to->rank] ? i : to->rank;
    if (ok && to->rank == world->rank && tensor >= 0)
        snprintf(to->tensor, sizeof to->tensor, "%s", flat->tensors[tensor].name);
    ok = ok && world->api->broadcast(world, to, sizeof *to, to->rank, err);
    free(place);
    return ok;
}
