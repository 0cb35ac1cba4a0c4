/* Description of a node for the CUDA kernels (launch_quantize.h). */
#include "ops/quantize/kernels.h"
#include "ops/quantize/launch_quantize.h"
#include "ops/quantize/quantize.h"

#include <string.h>

static enum zt_launch_quantize_rule rule_of(const struct zt_node *n) {
    return strcmp(n->op_type, "QuantizeLinear") == 0     ? ZT_LAUNCH_QUANTIZE
           : strcmp(n->op_type, "DequantizeLinear") == 0 ? ZT_LAUNCH_DEQUANTIZE
                                                         : ZT_LAUNCH_FAKE_QUANTIZE;
}

bool zt_quantize_takes_cuda(const struct zt_graph *g, int node) {
    const struct zt_node *n = g->nodes[node];
    const int first = zt_quantize_first(n);
    const enum zt_launch_quantize_rule rule = rule_of(n);
    struct zt_quantize q;
    struct zt_err none = { 0 };
    if (!zt_quantize_read(g, node, first, &q, &none) || !zt_cuda_is_float(zt_in(g, node, first + 1)) || q.scales < 1)
        return false;
    if (rule != ZT_LAUNCH_DEQUANTIZE &&
        (!zt_cuda_is_float(zt_in(g, node, first)) || !zt_dtype_in(q.precision, ZT_CUDA_FLOATS)))
        return false;
    if (first && !zt_cuda_is_float(zt_in(g, node, 0)))
        return false;
    return rule == ZT_LAUNCH_QUANTIZE || zt_cuda_is_float(zt_out(g, node, 0));
}

bool zt_quantize_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    struct zt_quantize q;
    if (!zt_quantize_read(g, node, zt_quantize_first(n), &q, err))
        return false;
    *(struct zt_launch_quantize *)to = (struct zt_launch_quantize){
        .rule = rule_of(n),
        .count = q.outer * q.length * q.inner,
        .length = q.length,
        .inner = q.inner,
        .block = q.block,
        .outer_step = q.outer_step,
        .step = q.step,
        .inner_step = q.inner_step,
        .scales = q.scales,
        .type = q.type,
        .precision = q.precision,
        .saturate = q.saturate,
        .integer = q.integer,
        .format = q.integer ? (struct zt_narrow){ 0 } : zt_narrow_format(q.type),
        .low = (float)q.low,
        .high = (float)q.high,
        .factor = (float)zt_quantize_scale_factor(&q),
    };
    return true;
}
