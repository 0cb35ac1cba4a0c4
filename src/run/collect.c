/* Collection of the weights on rank 0. */
#include "run/collect.h"

#include "run/rank/blocks.h"
#include "run/rank/passes.h"

#include <string.h>

/* `with`: the flat parameters. */
static bool fetch_piece(void *with, const struct zt_piece *piece, struct zt_err *err) {
    float *to = with;
    (void)err;
    memcpy(to + piece->first, piece->param, (size_t)piece->count * sizeof *to);
    return true;
}

/* Fetches the parameters that this rank holds. */
static bool own_parameters(struct zt_rank *r, float *to, struct zt_err *err) {
    if (r->plan->offload.parameters != ZT_HOME_DEVICE)
        return zt_rank_each_piece(r, ZT_READS_PARAMS, fetch_piece, to, err);
    for (int i = 0; i < r->held_count; i++)
        if (!zt_rank_fetch(r, to + r->held[i].first, r->shard + r->held[i].param_at,
                           (size_t)(r->held[i].last - r->held[i].first) * sizeof(float), err))
            return false;
    return true;
}

/* Fetches the whole flat parameters of this stage, gathering shards if necessary. Collective over the data-parallel
 * ranks. */
static bool whole_parameters(struct zt_rank *r, float *to, struct zt_err *err) {
    const struct zt_flat *flat = r->plan->tensors.flat;
    if (!own_parameters(r, to, err))
        return false;
    bool whole = !zt_sharding_gathers_for_use(r->plan->sharding); /* a small model may lie whole in one rank's shard */
    for (int b = 0; !whole && b < flat->bucket_count; b++)
        if (!r->data->api->all_gather(r->data, to + flat->bucket[b], r->bound + b * (flat->ranks + 1), sizeof(float),
                                      err))
            return false;
    return true;
}

/* The flat parameters where this rank has all of them in one piece of host memory; else NULL. They need no copy, which
 * would be the peak of the process. */
static const float *in_place(const struct zt_rank *r) {
    const bool here = !r->device->module && r->plan->offload.parameters == ZT_HOME_DEVICE &&
                      !zt_sharding_gathers_for_use(r->plan->sharding);
    const bool whole = r->held_count == 1 && r->held[0].first == 0 && r->held[0].last == r->plan->tensors.flat->count;
    return here && whole ? r->shard + r->held[0].param_at : NULL;
}

/* Sends the tensors of a stage to rank 0, preceded by the number of tensors and the length of their names. */
static bool send_stage(struct zt_rank *r, const float *params, struct zt_err *err) {
    const struct zt_rank_plan *p = r->plan;
    const struct zt_comm_api *api = r->world->api;
    int64_t head[3] = { p->tensors.flat->own_tensors, p->tensors.statistic_total, p->tensors.flat->count };
    bool ok = api->send(r->world, head, sizeof head, 0, err);
    for (int i = 0; ok && i < p->tensors.flat->own_tensors + p->tensors.statistic_total; i++) {
        bool statistic = i >= p->tensors.flat->own_tensors;
        const char *name =
            statistic ? p->tensors.statistic_name[i - p->tensors.flat->own_tensors] : p->tensors.flat->tensors[i].name;
        int64_t size[2] = { (int64_t)strlen(name) + 1,
                            statistic ? p->tensors.statistic_count[i - p->tensors.flat->own_tensors]
                                      : p->tensors.flat->tensors[i].count };
        struct zt_place place = { ZT_STATISTICS,
                                  statistic ? p->tensors.statistic_offset[i - p->tensors.flat->own_tensors] : 0 };
        size_t bytes = (size_t)size[1] * sizeof(float);
        ok = api->send(r->world, size, sizeof size, 0, err) && api->send(r->world, name, (size_t)size[0], 0, err) &&
             (statistic ? r->bulk_world->api->send(r->bulk_world, zt_rank_at(r, NULL, &place, NULL), bytes, 0, err)
                        : api->send(r->world, params + p->tensors.flat->tensors[i].offset, bytes, 0, err));
    }
    return ok;
}

static bool list_own(struct zt_rank *r, struct zt_arena *arena, const float *params, struct zt_collected *to,
                     struct zt_err *err) {
    const struct zt_rank_plan *p = r->plan;
    int total = p->tensors.flat->own_tensors + p->tensors.statistic_total;
    to->payloads = ZT_NEW_N(arena, struct zt_onnx_payload, total + 1);
    to->elements = ZT_NEW_N(arena, int64_t, total + 1);
    to->statistic = ZT_NEW_N(arena, bool, total + 1);
    for (int i = 0; i < p->tensors.flat->own_tensors; i++) {
        to->payloads[to->count] =
            (struct zt_onnx_payload){ p->tensors.flat->tensors[i].name, params + p->tensors.flat->tensors[i].offset };
        to->elements[to->count++] = p->tensors.flat->tensors[i].count;
    }
    for (int i = 0; i < p->tensors.statistic_total; i++) {
        struct zt_place place = { ZT_STATISTICS, p->tensors.statistic_offset[i] };
        size_t bytes = (size_t)p->tensors.statistic_count[i] * sizeof(float);
        void *contents = zt_arena_alloc(arena, bytes);
        if (!zt_rank_fetch(r, contents, zt_rank_at(r, NULL, &place, NULL), bytes, err))
            return false;
        to->payloads[to->count] = (struct zt_onnx_payload){ p->tensors.statistic_name[i], contents };
        to->statistic[to->count] = true;
        to->elements[to->count++] = p->tensors.statistic_count[i];
    }
    return true;
}

static bool receive_stage(struct zt_rank *r, struct zt_arena *arena, int from, struct zt_collected *to,
                          struct zt_err *err) {
    const struct zt_comm_api *api = r->world->api;
    int64_t head[3];
    if (!api->recv(r->world, head, sizeof head, from, err))
        return false;
    struct zt_onnx_payload *payloads = ZT_NEW_N(arena, struct zt_onnx_payload, to->count + head[0] + head[1] + 1);
    int64_t *elements = ZT_NEW_N(arena, int64_t, to->count + head[0] + head[1] + 1);
    bool *statistic = ZT_NEW_N(arena, bool, to->count + head[0] + head[1] + 1);
    memcpy(payloads, to->payloads, (size_t)to->count * sizeof *payloads);
    memcpy(elements, to->elements, (size_t)to->count * sizeof *elements);
    memcpy(statistic, to->statistic, (size_t)to->count * sizeof *statistic);
    to->payloads = payloads;
    to->statistic = statistic;
    to->elements = elements;
    for (int64_t i = 0; i < head[0] + head[1]; i++) {
        int64_t size[2];
        if (!api->recv(r->world, size, sizeof size, from, err))
            return false;
        char *name = zt_arena_alloc(arena, (size_t)size[0]);
        void *data = zt_arena_alloc(arena, (size_t)size[1] * sizeof(float));
        if (!api->recv(r->world, name, (size_t)size[0], from, err) ||
            !api->recv(r->world, data, (size_t)size[1] * sizeof(float), from, err))
            return false;
        to->payloads[to->count] = (struct zt_onnx_payload){ name, data };
        to->statistic[to->count] = i >= head[0];
        to->elements[to->count++] = size[1];
    }
    return true;
}

bool zt_rank_collect(struct zt_rank *r, struct zt_arena *arena, struct zt_collected *to, struct zt_err *err) {
    const struct zt_grid *grid = &r->plan->grid;
    const float *params = in_place(r);
    *to = (struct zt_collected){ 0 };
    if (!params) {
        float *copy = zt_arena_alloc(arena, (size_t)r->plan->tensors.flat->count * sizeof *copy);
        if (!whole_parameters(r, copy, err))
            return false;
        params = copy;
    }
    if (grid->data_rank != 0)
        return true;
    if (grid->rank != 0)
        return send_stage(r, params, err);
    if (!list_own(r, arena, params, to, err))
        return false;
    for (int s = 1; s < grid->stages; s++)
        if (!receive_stage(r, arena, zt_grid_rank(grid, s, 0), to, err))
            return false;
    return true;
}
