/* The range of a tensor, for its quantization. ztrain.qat inserts these nodes (src/plan/job/qat.h).
 *
 * ztrain.MovingRange: the moving average of a lowest and a highest element. The state has sums that start at 0:
 *
 *     state = m state + (1 - m) [low, high, 1]        low = state[0] / state[2]        high = state[1] / state[2]
 *
 * The quotient takes out the weight of the zeros in the beginning: after the first step it is the first range (Kingma
 * and Ba's correction, "Adam", 2015). Without inputs low and high, in evaluation, the state stays as it is; a state
 * that has seen nothing has the range [0, 0]. A step of which no row counts has low above high, and leaves it as well.
 *
 * ztrain.RangeOverRanks: the lowest and highest element of all data-parallel ranks, so that all ranks have the state of
 * one rank with the whole batch.
 *
 * ztrain.RangeScale: scale and zero point of each range (range_scale.h).
 *
 * None of them has a gradient: to the nodes that quantize, scales are constants. */
#include "ops/quantize/kernels.h"
#include "ops/quantize/launch_range.h"
#include "ops/quantize/range_over_ranks.h"
#include "ops/quantize/range_scale.h"

#include "ops/kernel/shape.h"

static bool is_scalar(const struct zt_value *v) {
    return v->shape.rank == 0;
}

/* ---- ztrain.MovingRange ---- */

static bool moving_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *state = zt_in(g, node, 0), *low = zt_in(g, node, 1), *high = zt_in(g, node, 2);
    const float momentum = zt_attr_float(g->nodes[node], "momentum", 0.99f);
    const struct zt_shape scalar = { 0 };
    if (state->shape.rank != 1 || state->shape.dim[0] != 3)
        return zt_node_fail(g, node, err, "\"%s\" is no state of three numbers", state->name);
    if (!low != !high || (low && (!is_scalar(low) || !is_scalar(high))))
        return zt_node_fail(g, node, err, "wants two scalars, low and high, or none");
    if (!(momentum >= 0 && momentum < 1))
        return zt_node_fail(g, node, err, "attribute \"momentum\" is %g, wants 0 <= momentum < 1", (double)momentum);
    zt_set_out(g, node, 0, ZT_FLOAT, &scalar);
    zt_set_out(g, node, 1, ZT_FLOAT, &scalar);
    zt_set_out(g, node, 2, ZT_FLOAT, &state->shape);
    return true;
}

static bool moving_ref(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const float *from = call->in[0].data, momentum = zt_attr_float(call->node, "momentum", 0.99f);
    float state[3] = { from[0], from[1], from[2] };
    if (call->in_count > 2 && call->in[1].data && call->in[2].data)
        zt_moving_range(state, momentum, *(const float *)call->in[1].data, *(const float *)call->in[2].data);
    for (int i = 0; i < 2; i++)
        if (call->out[i].data)
            *(float *)call->out[i].data = zt_moving_range_end(state, i);
    for (int i = 0; call->out_count > 2 && call->out[2].data && i < 3; i++)
        ((float *)call->out[2].data)[i] = state[i];
    return true;
}

static bool moving_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    (void)err;
    *(struct zt_launch_moving_range *)to =
        (struct zt_launch_moving_range){ .momentum = zt_attr_float(g->nodes[node], "momentum", 0.99f) };
    return true;
}

/* ---- ztrain.RangeOverRanks ---- */

static bool ranks_infer(struct zt_graph *g, int node, struct zt_err *err) {
    for (int i = 0; i < 2; i++) {
        if (!is_scalar(zt_in(g, node, i)))
            return zt_node_fail(g, node, err, "\"%s\" is no scalar", zt_in(g, node, i)->name);
        zt_set_out(g, node, i, ZT_FLOAT, &zt_in(g, node, i)->shape);
    }
    return true;
}

static bool ranks_ref(const struct zt_call *call, struct zt_err *err) {
    float ends[2] = { *(const float *)call->in[0].data, *(const float *)call->in[1].data };
    if (!zt_range_over_ranks(call->group, ends, err))
        return false;
    for (int i = 0; i < 2; i++)
        if (call->out[i].data)
            *(float *)call->out[i].data = ends[i];
    return true;
}

/* ---- ztrain.RangeScale ---- */

enum {
    TYPES =
        ZT_BIT(ZT_INT8) | ZT_BIT(ZT_UINT8) | ZT_BIT(ZT_INT16) | ZT_BIT(ZT_UINT16) | ZT_BIT(ZT_INT4) | ZT_BIT(ZT_UINT4)
};

static enum zt_dtype type_of(const struct zt_node *n) {
    const int64_t type = zt_attr_int(n, "type", ZT_INT8);
    return type > 0 && type < ZT_DTYPES && zt_dtype_in((enum zt_dtype)type, TYPES) ? (enum zt_dtype)type : ZT_UNDEFINED;
}

static bool scale_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *low = zt_in(g, node, 0), *high = zt_in(g, node, 1);
    const enum zt_dtype type = type_of(g->nodes[node]);
    if (!type)
        return zt_node_fail(g, node, err, "attribute \"type\" is no integer type of 4, 8 or 16 bits");
    if (!zt_shape_equal(&low->shape, &high->shape))
        return zt_node_fail(g, node, err, "\"%s\" and \"%s\" differ in shape", low->name, high->name);
    zt_set_out(g, node, 0, ZT_FLOAT, &low->shape);
    zt_set_out(g, node, 1, type, &low->shape);
    return true;
}

static struct zt_range_scale rule_of(const struct zt_node *n) {
    return zt_range_scale_for(type_of(n), zt_attr_int(n, "symmetric", 0) != 0);
}

static bool scale_ref(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct zt_range_scale rule = rule_of(call->node);
    const enum zt_dtype type = type_of(call->node);
    const float *low = call->in[0].data, *high = call->in[1].data;
    for (int64_t i = 0; i < zt_shape_count(&call->in[0].shape); i++) {
        float zero;
        const float scale = zt_range_scale_of(&rule, low[i], high[i], &zero);
        if (call->out[0].data)
            ((float *)call->out[0].data)[i] = scale;
        if (call->out_count > 1 && call->out[1].data)
            zt_store_double(type, call->out[1].data, i, (double)zero);
    }
    return true;
}

static bool scale_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    (void)err;
    *(struct zt_launch_range_scale *)to =
        (struct zt_launch_range_scale){ .count = zt_shape_count(&zt_in(g, node, 0)->shape),
                                        .type = type_of(g->nodes[node]),
                                        .rule = rule_of(g->nodes[node]) };
    return true;
}

/* ---- rows ---- */

#define FLOATS                                                                                                         \
    { ZT_BIT(ZT_FLOAT), ZT_BIT(ZT_FLOAT), ZT_BIT(ZT_FLOAT) }
static const struct zt_attr_spec moving_attrs[] = { { "momentum", ZT_ATTR_FLOAT }, { 0 } };
static const struct zt_attr_spec scale_attrs[] = { { "type", ZT_ATTR_INT }, { "symmetric", ZT_ATTR_INT }, { 0 } };

/* (state[, low, high]) -> low, high, new state. Recomputed after the state was written back it would be another one. */
const struct zt_op zt_op_moving_range = {
    .name = "MovingRange",
    .domain = "ztrain",
    .since = 1,
    .min_in = 1,
    .max_in = 3,
    .min_out = 2,
    .max_out = 3,
    .flags = ZT_OP_NO_RECOMPUTE | ZT_OP_LIGHT,
    .in_types = FLOATS,
    .attrs = moving_attrs,
    .no_grad_in = 7,
    .statistic_in = 1 << 0,
    .infer = moving_infer,
    .kernel = { [ZT_REF] = { .run = moving_ref },
                [ZT_CPU] = { .run = moving_ref },
                [ZT_CUDA] = ZT_CUDA_AS(moving_range, zt_cuda_any, moving_describe) },
};
/* (low, high) -> the lowest and highest over the ranks */
const struct zt_op zt_op_range_over_ranks = {
    .name = "RangeOverRanks",
    .domain = "ztrain",
    .since = 1,
    .min_in = 2,
    .max_in = 2,
    .min_out = 2,
    .max_out = 2,
    .flags = ZT_OP_GROUP | ZT_OP_NO_RECOMPUTE | ZT_OP_LIGHT,
    .in_types = FLOATS,
    .no_grad_in = 3,
    .infer = ranks_infer,
    .kernel = { [ZT_REF] = { .run = ranks_ref },
                [ZT_CPU] = { .run = ranks_ref },
                [ZT_CUDA] = ZT_ON_CUDA(range_over_ranks, zt_cuda_any) },
};
/* (low, high) -> scale, zero point */
const struct zt_op zt_op_range_scale = {
    .name = "RangeScale",
    .domain = "ztrain",
    .since = 1,
    .min_in = 2,
    .max_in = 2,
    .min_out = 1,
    .max_out = 2,
    .flags = ZT_OP_LIGHT,
    .in_types = FLOATS,
    .attrs = scale_attrs,
    .no_grad_in = 3,
    .infer = scale_infer,
    .kernel = { [ZT_REF] = { .run = scale_ref },
                [ZT_CPU] = { .run = scale_ref },
                [ZT_CUDA] = ZT_CUDA_AS(range_scale, zt_cuda_any, scale_describe) },
};
