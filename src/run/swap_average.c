#include "run/swap_average.h"

#include "run/rank/device_step.h"
#include "run/rank/instruct.h"
#include "run/rank/offload.h"
#include "run/rank/passes.h"
#include "run/rank/shards.h"

static void swap_piece(void *arg, int64_t i) {
    const struct zt_rank *r = arg;
    const struct zt_piece *piece = &r->pieces[i];
    float *average = zt_piece_average(r, piece);
    for (int64_t k = 0; k < piece->count; k++) {
        float weight = piece->param[k];
        piece->param[k] = average[k];
        average[k] = weight;
    }
}

bool zt_rank_swap_average(struct zt_rank *r, struct zt_err *err) {
    if (!r->plan->memory.averages)
        return true;
    const struct zt_piece_pass pass = {
        .use = ZT_READS_ALL | ZT_WRITES_ALL, .count = r->piece_count, .body = swap_piece, .arg = r
    };
    if ((r->stepping && !zt_rank_stepping_swap(r, err)) || !zt_rank_pass(r, &pass, err) ||
        !zt_rank_sub_groups_finish(r, err) || !zt_rank_shards_changed(r, err))
        return false;
    r->derived_for = NULL;
    return zt_rank_share_weights(r, err);
}
