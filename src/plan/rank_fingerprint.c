/* The hash of a rank plan: everything that must be equal on all ranks. */
#include "plan/rank_fingerprint.h"

#include "base/map.h"
#include "plan/rank_plan.h"

#include <string.h>

static void stir(uint64_t *hash, const void *data, size_t bytes) {
    *hash = zt_hash(*hash, data, bytes);
}

static void stir_int(uint64_t *hash, int64_t number) {
    stir(hash, &number, sizeof number);
}

static void stir_text(uint64_t *hash, const char *text) {
    stir(hash, text, strlen(text) + 1);
}

void zt_rank_plan_stir_graph(struct zt_rank_plan *p, int64_t rows, const struct zt_graph *g) {
    uint64_t *hash = &p->hash;
    stir_int(hash, rows);
    for (int n = 0; n < g->node_count; n++) {
        const struct zt_node *node = g->nodes[n];
        stir_text(hash, node->op_type);
        stir_int(hash, node->phase);
        stir_int(hash, node->stage);
        stir(hash, node->in, (size_t)node->in_count * sizeof *node->in);
        for (int i = 0; i < node->out_count; i++) {
            const struct zt_value *v = zt_out(g, n, i);
            stir_int(hash, node->out[i]);
            stir_int(hash, v ? (int)v->dtype : -1);
            stir(hash, v ? v->shape.dim : NULL,
                 v && v->shape.rank > 0 ? (size_t)v->shape.rank * sizeof v->shape.dim[0] : 0);
        }
    }
}

void zt_rank_plan_stir_config(struct zt_rank_plan *p, const struct zt_config *c) {
    uint64_t *hash = &p->hash;
    const struct zt_step_shape *shapes[2] = { &p->steps.full, &p->steps.tail };
    stir_int(hash, p->grid.world);
    stir_int(hash, p->grid.stages);
    stir_text(hash, zt_sharding_name(p->sharding));
    stir_text(hash, c->parallel.schedule);
    stir_int(hash, c->zero.reduce_bucket_size);
    stir_int(hash, c->memory_limit);
    if (c->communication_type != ZT_GRADIENTS_FP32 || c->accumulation_type != ZT_GRADIENTS_FP32) {
        stir_int(hash, c->communication_type);
        stir_int(hash, c->accumulation_type);
    }
    for (int i = 0; i < 2; i++) {
        stir_int(hash, shapes[i]->samples);
        stir_int(hash, shapes[i]->micro_batches);
        stir_int(hash, shapes[i]->rows);
        stir_int(hash, shapes[i]->last_rows);
    }
    if (p->steps.short_rows)
        stir_int(hash, p->steps.short_rows);
    for (int i = 0; i < c->recompute.names.count; i++)
        stir_text(hash, c->recompute.names.at[i]);
    stir_int(hash, c->recompute.enabled ? c->recompute.segments : -1);
    stir_int(hash, c->recompute.layers);
}
