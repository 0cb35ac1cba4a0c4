/* The ratio of a Dropout, for the kernels of all back ends (random.h). */
#include "ops/kernel/tile.h"
#include "ops/random/random.h"

double zt_dropout_ratio_of(const struct zt_call *call, int in) {
    const struct zt_view *v = in < call->in_count && call->in[in].data ? &call->in[in] : NULL;
    return v ? zt_load_double(v->dtype, v->data, 0) : (double)zt_attr_float(call->node, "ratio", 0.5f);
}

bool zt_dropout_ratio(const struct zt_graph *g, int node, int in, double *ratio) {
    const struct zt_value *v = zt_in(g, node, in);
    if (v && !v->data)
        return false;
    *ratio = v ? zt_load_double(v->dtype, v->data, 0) : (double)zt_attr_float(g->nodes[node], "ratio", 0.5f);
    return true;
}

double zt_dropout_scale(double ratio) {
    return ratio < 1 ? 1 / (1 - ratio) : 0;
}
