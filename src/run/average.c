#include "run/average.h"

#include "device/threads.h"
#include "run/rank/device_step.h"
#include "run/rank/instruct.h"

static void swap_piece(void *arg, int64_t i) {
    const struct zt_rank *r = arg;
    const struct zt_piece *piece = &r->pieces[i];
    for (int64_t k = 0; k < piece->count; k++) {
        float weight = piece->param[k];
        piece->param[k] = piece->average[k];
        piece->average[k] = weight;
    }
}

bool zt_rank_swap_average(struct zt_rank *r, struct zt_err *err) {
    if (!r->plan->averages)
        return true;
    if (r->stepping && !zt_rank_stepping_swap(r, err))
        return false;
    if (!r->stepping)
        zt_parallel_for(r->device->threads, r->piece_count, swap_piece, r);
    r->derived_for = NULL;
    return zt_rank_share_weights(r, err);
}
