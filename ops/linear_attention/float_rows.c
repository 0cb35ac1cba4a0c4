#include "ops/linear_attention/float_rows.h"

#include "ops/kernel/tile.h"

#include <string.h>

enum { CACHE_LINE = 16 /* floats */ };

bool zt_float_rows_only(const struct zt_graph *g, int node) {
    for (int i = 0; i < g->nodes[node]->in_count; i++)
        if (zt_in(g, node, i) && !zt_dtype_in(zt_in(g, node, i)->dtype, ZT_BIT(ZT_FLOAT) | ZT_ANY_HALF))
            return false;
    return true;
}

const struct zt_view *zt_float_row_in(const struct zt_call *call, int i) {
    return i < call->in_count && call->in[i].data ? &call->in[i] : NULL;
}

const struct zt_view *zt_float_row_out(const struct zt_call *call, int i) {
    const struct zt_view *v = i < call->out_count ? &call->out[i] : NULL;
    return v && v->data && zt_shape_count(&v->shape) > 0 ? v : NULL;
}

void zt_float_row_load(const struct zt_view *from, int64_t offset, int64_t count, float *to) {
    const uint16_t *half = from ? (const uint16_t *)from->data + offset : NULL;
    if (!from)
        memset(to, 0, (size_t)count * sizeof *to);
    else if (from->dtype == ZT_FLOAT)
        memcpy(to, (const float *)from->data + offset, (size_t)count * sizeof *to);
    else if (from->dtype == ZT_BFLOAT16)
        for (int64_t i = 0; i < count; i++)
            to[i] = zt_bfloat_to_float(half[i]);
    else
        for (int64_t i = 0; i < count; i++)
            to[i] = zt_half_to_float(half[i]);
}

void zt_float_row_store(const struct zt_view *to, int64_t offset, int64_t count, const float *from) {
    uint16_t *half = to ? (uint16_t *)to->data + offset : NULL;
    if (!to)
        return;
    if (to->dtype == ZT_FLOAT)
        memcpy((float *)to->data + offset, from, (size_t)count * sizeof *from);
    else if (to->dtype == ZT_BFLOAT16)
        for (int64_t i = 0; i < count; i++)
            half[i] = zt_float_to_bfloat(from[i]);
    else
        for (int64_t i = 0; i < count; i++)
            half[i] = zt_float_to_half(from[i]);
}

float *zt_float_row_take(float *base, int64_t *used, int64_t count) {
    float *taken = base ? base + *used : NULL;
    *used += zt_ceil_div(count, CACHE_LINE) * CACHE_LINE;
    return taken;
}
