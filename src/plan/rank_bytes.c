/* Memory of a rank by lifetime. */
#include "plan/rank_bytes.h"

#include "base/align.h"
#include "optim/optim.h"

int64_t zt_rank_bytes_total(const struct zt_rank_bytes *b) {
    return b->parameters + b->gradients + b->optimizer + b->activations + b->workspace;
}

static void widen(int64_t *to, int64_t value) {
    if (value > *to)
        *to = value;
}

static int64_t held(const struct zt_rank_plan *p, bool sharded, int data_rank) {
    return (sharded ? p->flat->owned[data_rank] : p->flat->count) * (int64_t)sizeof(float);
}

int64_t zt_rank_plan_stepped(const struct zt_rank_plan *p, int data_rank) {
    return p->sharding->optimizer ? zt_flat_stepped_by(p->flat, data_rank) : zt_flat_stepped(p->flat);
}

struct zt_rank_bytes zt_rank_plan_bytes(const struct zt_rank_plan *p, int data_rank) {
    bool training = p->gradient_bytes > 0;
    return (struct zt_rank_bytes){
        .parameters = held(p, p->sharding->parameters, data_rank) + p->statistic_bytes + p->derived_bytes,
        .gradients = training ? held(p, p->sharding->gradients, data_rank) : 0,
        .optimizer = training ? zt_rank_plan_stepped(p, data_rank) * (int64_t)sizeof(float) * p->optimizer_states : 0,
        .activations = p->activation_bytes - (data_rank == 0 ? 0 : p->loss_activation_bytes),
        .workspace = p->workspace_bytes,
    };
}

int zt_rank_plan_largest(const struct zt_rank_plan *p) {
    int largest = 0;
    for (int r = 1; r < p->flat->ranks; r++)
        if (p->flat->owned[r] > p->flat->owned[largest])
            largest = r;
    return largest;
}

enum zt_dtype zt_rank_plan_wire(const struct zt_rank_plan *p) {
    static const enum zt_dtype types[] = {
        [ZT_GRADIENTS_FP32] = ZT_FLOAT, [ZT_GRADIENTS_FP16] = ZT_FLOAT16, [ZT_GRADIENTS_BF16] = ZT_BFLOAT16
    };
    return p->grid.data > 1 ? types[p->job->config->communication_type] : ZT_FLOAT;
}

void zt_rank_plan_count(struct zt_rank_plan *p, const struct zt_config *c, bool training) {
    const struct zt_optimizer *optimizer = zt_optimizer_find(c->optimizer.type);
    int me = p->grid.data_rank;
    p->optimizer_states = optimizer->states_used ? optimizer->states_used(&c->optimizer) : optimizer->states;
    p->parameter_bytes = held(p, p->sharding->parameters, me) + p->statistic_bytes;
    if (training) {
        p->gradient_bytes = held(p, p->sharding->gradients, me);
        p->optimizer_bytes = zt_rank_plan_stepped(p, me) * (int64_t)sizeof(float) * p->optimizer_states;
        for (int b = 0; b < p->flat->bucket_count && zt_dtype_is_half(zt_rank_plan_wire(p)); b++)
            widen(&p->workspace_bytes, (p->flat->bucket[b + 1] - p->flat->bucket[b]) * (int64_t)sizeof(uint16_t));
        for (int i = 0; i < p->tie_count; i++)
            widen(&p->workspace_bytes, p->ties[i].home ? p->ties[i].count * (int64_t)sizeof(float) : 0);
    }
    const struct zt_program_set *sets[2] = { &p->train, &p->evaluation };
    int in_flight = p->replicas ? 1 : p->slots;
    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < sets[s]->count; i++) {
            widen(&p->derived_bytes, sets[s]->at[i]->derived_bytes);
            widen(&p->activation_bytes, sets[s]->at[i]->activation_bytes * (s == 0 ? in_flight : 1));
            widen(&p->workspace_bytes, sets[s]->at[i]->workspace_bytes);
        }
    }
    const struct zt_program_set *loss[2] = { &p->loss_train, &p->loss_evaluation };
    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < loss[s]->count; i++) {
            widen(&p->loss_activation_bytes, loss[s]->at[i]->activation_bytes);
            widen(&p->workspace_bytes, loss[s]->at[i]->workspace_bytes);
        }
    }
    p->activation_bytes = zt_align_64(p->activation_bytes) + p->loss_activation_bytes;
    const struct zt_graph *g = p->train.count ? p->train.at[0]->joint.graph : NULL;
    for (int n = 0; g && n < g->node_count; n++)
        p->flops += zt_op_flops(g, n);
}
