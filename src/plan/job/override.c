#include "plan/job/override.h"

#include "base/crc.h"
#include "base/map.h"

#include <string.h>

/* Whether a node updates the initializer in training, or reads it as a statistic. */
static bool is_statistic(const struct zt_node *n, int in) {
    return n->op && in < 32 && n->op->statistic_in >> in & 1;
}

bool *zt_job_holds(const struct zt_graph *g) {
    bool *holds = zt_calloc((size_t)g->value_count + 1, sizeof *holds);
    for (int n = 0; n < g->node_count; n++)
        for (int i = 0; i < g->nodes[n]->in_count; i++) {
            const struct zt_value *v = zt_in(g, n, i);
            if (v && v->origin == ZT_FROM_INITIALIZER && zt_dtype_in(v->dtype, ZT_ANY_FLOAT))
                holds[v->id] |= v->may_train || is_statistic(g->nodes[n], i);
        }
    return holds;
}

static const void *as_stored(struct zt_arena *arena, const struct zt_value *v, const float *from) {
    const int64_t count = zt_shape_count(&v->shape);
    if (v->dtype == ZT_FLOAT)
        return from;
    void *to = zt_arena_alloc(arena, (size_t)count * zt_dtype_bytes(v->dtype));
    for (int64_t i = 0; i < count; i++)
        zt_store_double(v->dtype, to, i, (double)from[i]);
    return to;
}

/* The list doubles at powers of two. */
static void add(struct zt_job *job, struct zt_override o) {
    const int count = job->override_count;
    if ((count & (count - 1)) == 0) {
        struct zt_override *all = ZT_NEW_N(job->arena, struct zt_override, 2 * count + 1);
        if (count)
            memcpy(all, job->overrides, (size_t)count * sizeof *all);
        job->overrides = all;
    }
    job->overrides[job->override_count++] = o;
}

void zt_job_override(struct zt_job *job, const struct zt_value *v, const float *from) {
    const void *data = as_stored(job->arena, v, from);
    add(job, (struct zt_override){ .name = zt_arena_strdup(job->arena, v->name),
                                   .data = data,
                                   .as_float = from,
                                   .elements = zt_shape_count(&v->shape),
                                   .frozen = !v->trainable && !v->statistic });
    if (v->id < job->float_count && job->floats[v->id])
        job->floats[v->id] = from;
    for (int i = 0; i < job->derived_count; i++)
        if (job->derived[i].made && strcmp(job->derived[i].parameter, v->name) == 0)
            job->derived[i].made = data;
}

void zt_job_override_factor(struct zt_adapter *adapter, int which, const float *from) {
    adapter->initial[which] = from;
}

void zt_job_apply_overrides(const struct zt_job *job, struct zt_graph *g) {
    for (int i = 0; i < job->override_count; i++) {
        const int id = zt_graph_find(g, job->overrides[i].name);
        if (id >= 0)
            g->values[id]->data = job->overrides[i].data;
    }
}

uint32_t zt_job_frozen_checksum(const struct zt_job *job) {
    uint32_t crc = 0;
    for (int i = 0; i < job->override_count; i++) {
        const struct zt_override *o = &job->overrides[i];
        if (!o->frozen)
            continue;
        crc = zt_crc32c(crc, o->name, strlen(o->name));
        crc = zt_crc32c(crc, o->as_float, (size_t)o->elements * sizeof(float));
    }
    return crc;
}
