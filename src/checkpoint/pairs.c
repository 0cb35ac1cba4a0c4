#include "checkpoint/pairs.h"

#include "plan/job/qat.h"

#include <string.h>

/* The collected contents of a state or a learned scale, or those it starts with; NULL: none. */
static const float *stored(const struct zt_qat_pair *p, const struct zt_collected *weights) {
    for (int i = 0; i < weights->count; i++)
        if (strcmp(weights->payloads[i].name, p->store) == 0)
            return weights->payloads[i].data;
    return p->initial;
}

/* The contents of an initializer in the written model. */
static const float *written(const struct zt_graph *g, const struct zt_onnx_changes *changes, const char *name) {
    for (int i = 0; i < changes->payload_count; i++)
        if (strcmp(changes->payloads[i].name, name) == 0)
            return changes->payloads[i].data;
    return g->values[zt_graph_find(g, name)]->data;
}

/* The numbers of a weight. */
static void of_weight(const struct zt_job *job, const struct zt_graph *g, const struct zt_qat_pair *p,
                      const struct zt_onnx_changes *changes, const float *learned, struct zt_qat_numbers *to) {
    const struct zt_value *v = g->values[zt_graph_find(g, p->initializer)];
    zt_qat_numbers_of_weight(job, p, &v->shape, written(g, changes, p->initializer), to);
    if (!learned)
        return;
    memcpy(to->scales, learned, (size_t)to->count * sizeof *to->scales);
    for (int64_t i = 0; i < to->count; i++)
        to->zeros[i] = zt_qat_learned_zero(job, p);
}

static bool add_pair(const struct zt_job *job, struct zt_graph *g, const struct zt_qat_pair *p,
                     const struct zt_collected *weights, struct zt_onnx_changes *changes, struct zt_onnx_pair *to) {
    const float *store = stored(p, weights);
    const struct zt_value *w = p->initializer ? g->values[zt_graph_find(g, p->initializer)] : NULL;
    const struct zt_shape shape = w ? zt_qat_store_shape(p) : (struct zt_shape){ 0 };
    const int64_t count = zt_shape_count(&shape);
    struct zt_qat_numbers numbers = { .scales = ZT_NEW_N(g->arena, float, count),
                                      .zeros = ZT_NEW_N(g->arena, float, count) };
    bool symmetric;
    const enum zt_dtype type = zt_qat_type(job, p, &symmetric);
    if (w)
        of_weight(job, g, p, changes, zt_qat_learns(job, p) ? store : NULL, &numbers);
    else if (!store || !zt_qat_numbers_of_state(job, p, store, &numbers))
        return false;
    void *zeros = zt_arena_alloc(g->arena, (size_t)count * zt_dtype_bytes(type));
    for (int64_t i = 0; i < count; i++)
        zt_store_double(type, zeros, i, (double)numbers.zeros[i]);
    *to = (struct zt_onnx_pair){ .value = p->value,
                                 .scale = { ZT_FLOAT, shape, numbers.scales },
                                 .zero = { type, shape, zeros },
                                 .axis = p->axis,
                                 .readers = p->readers,
                                 .reader_count = p->reader_count };
    return true;
}

void zt_pairs_add(const struct zt_session *s, struct zt_graph *g, const struct zt_collected *weights,
                  struct zt_onnx_changes *changes) {
    struct zt_onnx_pair *pairs = ZT_NEW_N(g->arena, struct zt_onnx_pair, s->job->pair_count + 1);
    for (int i = 0; i < s->job->pair_count; i++)
        changes->pair_count += add_pair(s->job, g, &s->job->pairs[i], weights, changes, &pairs[changes->pair_count]);
    changes->pairs = pairs;
}
