#include "ops/norm/norm_plan_cuda.h"

#include <string.h>

const struct zt_dnn_place zt_norm_grad_places[ZT_NORM_PLACES] = {
    ZT_DNN_IN(ZT_NORM_DY, 0),          ZT_DNN_IN(ZT_NORM_X, 1),          ZT_DNN_IN(ZT_NORM_SCALE, 2),
    ZT_DNN_IN(ZT_NORM_MEAN, 3),        ZT_DNN_IN(ZT_NORM_INV_STD, 4),    ZT_DNN_GRAD(ZT_NORM_DX, 0, 1),
    ZT_DNN_GRAD(ZT_NORM_DSCALE, 1, 2), ZT_DNN_GRAD(ZT_NORM_DBIAS, 2, 2),
};

bool zt_norm_grad_fits(const struct zt_prepare *q, bool centred) {
    const struct zt_graph *g = q->graph;
    return (zt_in(g, q->node, 3) != NULL) == centred && !zt_in(g, q->node, 5) && !zt_in(g, q->node, 6) &&
           zt_out(g, q->node, 0) && zt_out(g, q->node, 1) && (zt_out(g, q->node, 2) != NULL) == centred;
}

static enum zt_dtype dtype_of(const struct zt_prepare *q, const struct zt_dnn_place *places, int tensor) {
    while (places->tensor != tensor)
        places++;
    return zt_in(q->graph, q->node, places->in)->dtype;
}

void zt_norm_plan(struct zt_prepare *q, struct zt_norm_dnn *n, const struct zt_dnn_place *places, int count,
                  struct zt_norm_plan *to) {
    struct zt_dnn_graph graph;
    n->x = dtype_of(q, places, ZT_NORM_X);
    n->scale = dtype_of(q, places, ZT_NORM_SCALE);
    q->path = zt_path_own(zt_norm_dnn_refusal(n));
    if (q->path.note)
        return;
    zt_norm_dnn(n, &graph);
    to->dnn = zt_path_dnn(q, &graph);
    if (!to->dnn)
        return;
    const struct zt_dnn_tensor *inv_std = &graph.tensor[ZT_NORM_INV_STD];
    const size_t bytes = (size_t)(inv_std->dim[0] * inv_std->dim[1]) * sizeof(float);
    size_t at = 0;
    to->places = count;
    memcpy(to->place, places, (size_t)count * sizeof *places);
    to->makes_inv_std = !n->grad;
    to->makes_mean = !n->grad && n->norm != ZT_DNN_RMS_NORM;
    to->mean_at = zt_dnn_room(&at, to->makes_mean ? bytes : 0);
    to->inv_std_at = zt_dnn_room(&at, to->makes_inv_std ? bytes : 0);
    zt_dnn_rooms(q, to->place, count, &at);
    to->scratch_at = at;
    q->workspace_bytes = at + zt_dnn_workspace_bytes(to->dnn);
}

bool zt_norm_plan_run(const struct zt_call *call, const struct zt_norm_plan *plan, void **data, struct zt_err *err) {
    char *workspace = call->workspace;
    if (plan->makes_mean)
        data[ZT_NORM_MEAN] = workspace + plan->mean_at;
    if (plan->makes_inv_std)
        data[ZT_NORM_INV_STD] = workspace + plan->inv_std_at;
    return zt_dnn_gather(call, plan->place, plan->places, data, err) &&
           zt_dnn_run(plan->dnn, data, workspace + plan->scratch_at, call->node->name, err) &&
           zt_dnn_scatter(call, plan->place, plan->places, data, err);
}
