/* CenterCropPad (opset 18 on): every axis is cut or padded with zeros to the wanted length, about its middle; an odd
 * element is left off or added at the end. Elements that stay keep their distance from the middle, rounded down either
 * way, so the gradient is the same op to the shape of x. */
#include "ops/movement/kernels.h"
#include "ops/kernel/strided_copies.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"

#include <string.h>

static bool lengths_of(const struct zt_graph *g, int node, struct zt_shape *to, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0);
    int64_t wanted[ZT_MAX_RANK], axes[ZT_MAX_RANK];
    struct zt_axis_set distinct;
    int count, axis_count;
    *to = x->shape;
    if (!zt_known_ints(g, node, 1, &(struct zt_int_list){ wanted, ZT_MAX_RANK, &count }, err) ||
        !zt_ops_axes(g, node, (struct zt_int_source){ -1, "axes" }, to->rank, &distinct, err) ||
        !zt_ops_ints(g, node, (struct zt_int_source){ -1, "axes" },
                     &(struct zt_int_list){ axes, ZT_MAX_RANK, &axis_count }, err))
        return false;
    if (count != (axis_count < 0 ? to->rank : axis_count))
        return zt_node_fail(g, node, err, "%d lengths are given for %d axes", count,
                            axis_count < 0 ? to->rank : axis_count);
    for (int i = 0; i < count; i++) {
        int axis = i;
        if (axis_count >= 0 && !zt_axis(g, node, axes[i], to->rank, &axis, err))
            return false;
        if (wanted[i] < 0)
            return zt_node_fail(g, node, err, "axis %d is to have %lld elements", axis, (long long)wanted[i]);
        to->dim[axis] = wanted[i];
    }
    return true;
}

static bool crop_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_shape shape;
    if (!lengths_of(g, node, &shape, err))
        return false;
    zt_set_out(g, node, 0, zt_in(g, node, 0)->dtype, &shape);
    return true;
}

static bool crop_moves(const struct zt_graph *g, int node, zt_strided_copy_take *take, void *arg, struct zt_err *err) {
    (void)err;
    const struct zt_shape *x = &zt_in(g, node, 0)->shape, *y = &zt_out(g, node, 0)->shape;
    struct zt_strided_copy move = { .shape = *x };
    zt_shape_strides(x, move.from_step);
    zt_shape_strides(y, move.to_step);
    for (int k = 0; k < x->rank; k++) {
        int64_t more = x->dim[k] - y->dim[k];
        move.shape.dim[k] = zt_min_int(x->dim[k], y->dim[k]);
        move.from += more > 0 ? more / 2 * move.from_step[k] : 0;
        move.to += more < 0 ? -more / 2 * move.to_step[k] : 0;
    }
    take(arg, &move);
    return true;
}
ZT_MOVES_DESCRIBE(crop, true)

static bool crop_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_view *y = &call->out[0];
    memset(y->data, 0, zt_dtype_bytes(y->dtype) * (size_t)zt_shape_count(&y->shape));
    return zt_strided_copies_run(call, crop_moves, err);
}

static bool crop_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    struct zt_shape x = *zt_grad_in_shape(b, node, 0);
    zt_grad_give(b, node, 0, ZT_EMIT(b, "CenterCropPad", zt_grad_out(b, node, 0), zt_emit_ints(b, x.dim, x.rank)));
    return true;
}

static const struct zt_attr_spec attrs[] = { { "axes", ZT_ATTR_INTS }, { 0 } };

const struct zt_op zt_op_center_crop_pad = {
    .name = "CenterCropPad",
    .domain = "",
    .since = 18,
    ZT_ONE_OUT(2, 2),
    .flags = ZT_OP_LIGHT,
    .in_types = { ZT_ANY_TYPE, 1 << ZT_INT32 | 1 << ZT_INT64 },
    .attrs = attrs,
    .infer = crop_infer,
    .grad = crop_grad,
    .no_grad_in = 1 << 1,
    .kernel = { [ZT_REF] = { .run = crop_run }, [ZT_CUDA] = ZT_CUDA_AS(strided_copies, zt_cuda_any, crop_describe) },
};
