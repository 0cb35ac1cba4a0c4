#include "run/rank/passes.h"

#include "device/threads.h"

static bool takes(const struct zt_rank *r, const struct zt_piece_pass *pass, int i) {
    return i >= pass->first && i < pass->first + pass->count &&
           !(pass->leaves_matrices && r->plan->tensors.matrices[r->pieces[i].tensor].rows);
}

/* Whether the pass has pieces in sub-group `g`. */
static bool enters(const struct zt_rank *r, const struct zt_piece_pass *pass, int g) {
    if (g >= r->sub_group_count || (r->device_memory && !r->sub_groups[g].states_away))
        return false;
    const struct zt_sub_group *group = &r->sub_groups[g];
    bool found = false;
    for (int i = group->first; !found && i < group->first + group->count; i++)
        found = takes(r, pass, i);
    return found;
}

struct running {
    const struct zt_rank *r;
    const struct zt_piece_pass *pass;
    int first;
};

static void run_piece(void *arg, int64_t i) {
    const struct running *in = arg;
    if (takes(in->r, in->pass, in->first + (int)i))
        in->pass->body(in->pass->arg, in->first + i);
}

bool zt_rank_pass(struct zt_rank *r, const struct zt_piece_pass *pass, struct zt_err *err) {
    for (int g = 0; g < r->sub_group_count; g++) {
        struct running in = { r, pass, r->sub_groups[g].first };
        if (!enters(r, pass, g))
            continue;
        if (!zt_rank_sub_group_open(r, g, pass->use, enters(r, pass, g + 1), err))
            return false;
        zt_parallel_for(r->device->threads, r->sub_groups[g].count, run_piece, &in);
        if (!zt_rank_sub_group_close(r, g, pass->use, err))
            return false;
    }
    return true;
}

struct visiting {
    unsigned use;
    int tensor; /* -1: all */
    bool (*visit)(void *with, const struct zt_piece *piece, struct zt_err *err);
    void *with;
};

static bool visit_group(struct zt_rank *r, int g, const struct visiting *v, struct zt_err *err) {
    const struct zt_sub_group *group = &r->sub_groups[g];
    bool opened = false, ok = true;
    for (int i = group->first; ok && i < group->first + group->count; i++) {
        if (v->tensor >= 0 && r->pieces[i].tensor != v->tensor)
            continue;
        ok = (opened || zt_rank_sub_group_open(r, g, v->use, v->tensor < 0, err)) &&
             v->visit(v->with, &r->pieces[i], err);
        opened = true;
    }
    return ok && (!opened || zt_rank_sub_group_close(r, g, v->use, err));
}

static bool visit_all(struct zt_rank *r, const struct visiting *v, struct zt_err *err) {
    for (int g = 0; g < r->sub_group_count; g++)
        if (!visit_group(r, g, v, err))
            return false;
    return zt_rank_sub_groups_finish(r, err) && r->device->api->synchronize(r->device, err);
}

bool zt_rank_each_piece(struct zt_rank *r, unsigned use,
                        bool (*visit)(void *with, const struct zt_piece *piece, struct zt_err *err), void *with,
                        struct zt_err *err) {
    return visit_all(r, &(struct visiting){ use, -1, visit, with }, err);
}

bool zt_rank_each_piece_of(struct zt_rank *r, int tensor,
                           bool (*visit)(void *with, const struct zt_piece *piece, struct zt_err *err), void *with,
                           struct zt_err *err) {
    return visit_all(r, &(struct visiting){ ZT_READS_PARAMS, tensor, visit, with }, err);
}
