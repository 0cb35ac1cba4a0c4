/* Models in half or double precision: they are computed in fp32, with fp32 copies of their weights. */
#include "plan/job/float.h"

#include "graph/passes/precision/to_float.h"
#include "plan/job/training_graph.h"

/* Doubles remain if they are an island between floats, such as the angles of a position encoding. They are converted if
 * weights or the output are double. */
void zt_job_find_floats(struct zt_job *job, const struct zt_graph *g, const bool *used, int root) {
    job->to_float = ZT_ANY_HALF | (g->values[root]->dtype == ZT_DOUBLE ? ZT_BIT(ZT_DOUBLE) : 0);
    for (int v = 0; v < g->value_count; v++)
        if (g->values[v]->trainable && used[v] && g->values[v]->dtype == ZT_DOUBLE)
            job->to_float |= ZT_BIT(ZT_DOUBLE);
    job->floats = ZT_NEW_N(job->arena, const float *, g->value_count + 1);
    job->float_count = g->value_count;
    for (int i = 0; i < g->value_count; i++) {
        const struct zt_value *v = g->values[i];
        if (v->origin == ZT_FROM_INITIALIZER && used[i] && v->data && zt_dtype_in(v->dtype, job->to_float) &&
            !zt_stays_half(v))
            job->floats[i] = zt_to_float(job->arena, &(struct zt_tensor){ v->dtype, v->shape, v->data });
    }
}

enum zt_dtype zt_job_type(const struct zt_job *job, enum zt_dtype stored) {
    return zt_dtype_in(stored, job->to_float) ? ZT_FLOAT : stored;
}

bool zt_job_to_float(const struct zt_job *job, struct zt_training_graph *training_graph, int *root,
                     struct zt_err *err) {
    struct zt_graph *g = training_graph->graph;
    int weights[ZT_DTYPES] = { 0 };
    bool any = false;
    for (int v = 0; v < g->value_count; v++) {
        any |= zt_dtype_in(g->values[v]->dtype, job->to_float);
        weights[g->values[v]->dtype] += g->values[v]->trainable && zt_dtype_in(g->values[v]->dtype, job->to_float);
    }
    for (int type = 0; type < ZT_DTYPES; type++)
        if (weights[type])
            zt_job_note(training_graph, "%d parameters have type %s: they train in fp32 and are exported in their type",
                        weights[type], zt_dtype_name((enum zt_dtype)type));
    return !any || zt_pass_to_float(g, job->to_float, job->floats, job->float_count, root, err);
}
