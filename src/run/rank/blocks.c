#include "run/rank/blocks.h"

#include "device/module.h"

#include <string.h>

void *zt_rank_at(const struct zt_rank *r, const struct zt_slot *slot, const struct zt_place *place,
                 const void *constant) {
    switch (place->in) {
    case ZT_CONSTANT:
        return (void *)constant;
    case ZT_FED:
        return slot->fed[place->offset];
    case ZT_PARAMETERS:
        return r->parameters + place->offset;
    case ZT_STATISTICS:
        return r->parameters + (r->plan->memory.parameter_bytes - r->plan->tensors.statistic_bytes) + place->offset;
    case ZT_DERIVED:
        return r->derived + place->offset;
    case ZT_GRADIENTS:
        return r->gradients + place->offset;
    case ZT_ACTIVATIONS:
        return slot->activations + place->offset;
    case ZT_NOWHERE:
    case ZT_STORAGES:
        break;
    }
    return NULL;
}

const struct zt_run_program *zt_rank_program(const struct zt_rank *r, bool training, int chunk,
                                             const struct zt_step_shape *shape, int micro_batch) {
    int64_t rows = chunk ? zt_rank_loss_rows(&r->plan->steps, shape, micro_batch)
                         : zt_rank_rows(&r->plan->steps, shape, micro_batch);
    bool padded = micro_batch == shape->micro_batches - 1 && shape->padded && !r->plan->replicas;
    for (int i = 0; i < r->program_count; i++) {
        const struct zt_training_graph *j = &r->programs[i].program->training_graph;
        if (r->programs[i].chunk == chunk && j->training == training &&
            zt_program_fits(j, rows, padded, r->plan->job->statistic_count > 0))
            return &r->programs[i];
    }
    return NULL;
}

float *zt_piece_average(const struct zt_rank *r, const struct zt_piece *piece) {
    return r->plan->memory.averages ? piece->state[r->plan->memory.optimizer_states - 1] : NULL;
}

bool zt_rank_fetch(const struct zt_rank *r, void *to, const void *from, size_t bytes, struct zt_err *err) {
    return r->device->api->to_host(r->device, to, from, bytes, err) && r->device->api->synchronize(r->device, err);
}

bool zt_piece_fetch_gradient(const struct zt_rank *r, const struct zt_piece *piece, float *to, struct zt_err *err) {
    const float *from = piece->on_host ? piece->device_grad : piece->grad;
    return zt_rank_fetch(r, to, from, (size_t)piece->count * sizeof *to, err);
}

bool zt_rank_copy_all(struct zt_rank *r, const struct zt_copy *copies, int count, struct zt_err *err) {
    if (r->device_memory)
        return r->device->module->copy_all(r->device, copies, count, err);
    for (int i = 0; i < count; i++)
        memcpy(copies[i].to, copies[i].from, copies[i].bytes);
    return true;
}

bool zt_rank_add(struct zt_rank *r, float *to, const float *from, int64_t count, struct zt_err *err) {
    if (r->device_memory)
        return r->device->module->add(r->device, to, from, count, err);
    zt_comm_add_in_rank_order(to, (const void *const[]){ to, from }, 2, 0, count);
    return true;
}
