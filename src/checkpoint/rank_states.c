#include "checkpoint/rank_states.h"

#include "optim/types/types.h"
#include "plan/rank_bytes.h"
#include "run/rank/blocks.h"

static const struct zt_optimizer *optimizer_of(const struct zt_rank_plan *p) {
    const char *type = p->job->config->optimizer.type;
    return type ? zt_optimizer_find(type) : NULL;
}

bool zt_rank_states_exist(const struct zt_rank_plan *p) {
    return p->memory.compressed != NULL;
}

bool zt_rank_states_apart(const struct zt_rank_plan *p, int64_t updates) {
    const struct zt_one_bit *one_bit = optimizer_of(p)->one_bit;
    return updates > 0 && one_bit->sharing(&p->job->config->optimizer, updates).apart;
}

/* Errors by side, then weights and states. */
enum { ERRORS = ZT_COMPRESSED_SIDES };

int zt_rank_states_count(const struct zt_rank_plan *p, bool apart) {
    return ERRORS + (apart ? 1 + p->memory.optimizer_states : 0);
}

static const char *name_of(const struct zt_rank_plan *p, int i) {
    static const char *const names[ERRORS + 1] = { "worker_error", "server_error", "weights" };
    const int state = i - ERRORS - 1;
    return i <= ERRORS                                               ? names[i]
           : state < p->memory.optimizer_states - p->memory.averages ? optimizer_of(p)->state_names[state]
                                                                     : "ema";
}

void zt_rank_states_list(const struct zt_rank_plan *p, struct zt_arena *arena, bool apart,
                         struct zt_stored_file *file) {
    const int each = zt_rank_states_count(p, apart);
    file->count = p->grid.data * each;
    file->tensors = ZT_NEW_N(arena, struct zt_stored_tensor, file->count + 1);
    for (int i = 0; i < file->count; i++) {
        const int64_t elems = i % each < ERRORS ? p->memory.compressed->errors[i % each] : p->tensors.flat->count;
        file->tensors[i] = (struct zt_stored_tensor){
            .name = zt_arena_printf(arena, "rank.%d.%s", i / each, name_of(p, i % each)),
            .shape = { .rank = 1, .dim = { elems } },
        };
    }
}

void *zt_rank_states_at(const struct zt_rank *r, int i) {
    const struct zt_rank_plan *p = r->plan;
    if (i < ERRORS)
        return r->compressed.error[i];
    return i == ERRORS ? (float *)(void *)r->parameters
                       : (float *)(void *)r->optimizer + (i - ERRORS - 1) * zt_rank_plan_stepped(p, p->grid.data_rank);
}
