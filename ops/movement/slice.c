/* Slice: per axis the elements start, start + step, ... before end. The gradient puts dy back among zeros. */
#include "ops/movement/kernels.h"
#include "ops/cpu/blocked_layout.h"
#include "ops/kernel/strided_copies.h"
#include "ops/movement/simd/gather_lanes.h"
#include "ops/kernel/shape.h"
#include "ops/movement/slice.h"

#include <string.h>

static int64_t clamp(int64_t v, int64_t low, int64_t high) {
    return v < low ? low : v > high ? high : v;
}

/* One axis of `size` elements, numpy's rules: negative bounds count from the end, bounds outside are cut. */
static void cut_axis(struct zt_slice_bounds *c, int axis, int64_t start, int64_t end, int64_t step) {
    const int64_t size = c->shape.dim[axis], far = INT64_C(1) << 62;
    const int64_t low = step < 0 ? -1 : 0, high = step < 0 ? size - 1 : size;
    step = clamp(step, -far, far);
    start = clamp(start < 0 ? start + size : start, low, high);
    end = clamp(end < 0 ? end + size : end, low, high);
    int64_t span = step < 0 ? start - end : end - start, stride = step < 0 ? -step : step;
    c->start[axis] = start;
    c->step[axis] = step;
    c->shape.dim[axis] = span > 0 ? (span - 1) / stride + 1 : 0;
}

/* The longest cut of an axis, whose bounds are not known; `less`: one element less. */
static void cut_unknown(struct zt_slice_bounds *c, int axis, int64_t step, bool less) {
    const int64_t far = INT64_C(1) << 62, size = c->shape.dim[axis];
    c->step[axis] = step = clamp(step, -far, far);
    c->start[axis] = step < 0 && size ? size - 1 : 0;
    c->shape.dim[axis] = size ? (size - 1) / (step < 0 ? -step : step) + !less : 0;
}

/* Numbers that the step may compute, where `open` is not NULL: it is set where they are not known. */
static bool read_limits(const struct zt_graph *g, int node, struct zt_int_source from, const struct zt_int_list *to,
                        bool *open, struct zt_err *err) {
    const struct zt_value *v = zt_in(g, node, from.in);
    const int64_t count = v ? zt_shape_count(&v->shape) : 0;
    if (!open || !v || v->data || !count || count > to->room)
        return zt_ops_ints(g, node, from, to, err);
    *to->count = (int)count;
    return *open = true;
}

/* `less`: NULL where all numbers must be known; otherwise the longest cuts, or one element less. */
static bool read_cut(const struct zt_graph *g, int node, const bool *less, struct zt_slice_bounds *c,
                     struct zt_err *err) {
    int64_t starts[ZT_MAX_RANK], ends[ZT_MAX_RANK], axes[ZT_MAX_RANK], steps[ZT_MAX_RANK];
    int count, end_count, axis_count, step_count;
    bool open = false, *may_open = less ? &open : NULL;
    struct zt_axis_set distinct;
    c->shape = zt_in(g, node, 0)->shape;
    for (int k = 0; k < c->shape.rank; k++) {
        c->start[k] = 0;
        c->step[k] = 1;
    }
    if (!read_limits(g, node, (struct zt_int_source){ 1, "starts" },
                     &(struct zt_int_list){ starts, ZT_MAX_RANK, &count }, may_open, err) ||
        !read_limits(g, node, (struct zt_int_source){ 2, "ends" },
                     &(struct zt_int_list){ ends, ZT_MAX_RANK, &end_count }, may_open, err) ||
        !zt_ops_ints(g, node, (struct zt_int_source){ 3, "axes" },
                     &(struct zt_int_list){ axes, ZT_MAX_RANK, &axis_count }, err) ||
        !zt_ops_ints(g, node, (struct zt_int_source){ 4, NULL },
                     &(struct zt_int_list){ steps, ZT_MAX_RANK, &step_count }, err) ||
        !zt_ops_axes(g, node, (struct zt_int_source){ 3, "axes" }, c->shape.rank, &distinct, err))
        return false;
    if (end_count != count || (axis_count >= 0 && axis_count != count) || (step_count >= 0 && step_count != count) ||
        count > c->shape.rank)
        return zt_node_fail(g, node, err, "has %d starts, %d ends, %d axes and %d steps for %d axes", count, end_count,
                            axis_count, step_count, c->shape.rank);
    for (int i = 0; i < count; i++) {
        int64_t axis = axis_count < 0 ? i : axes[i], step = step_count < 0 ? 1 : steps[i];
        if (step == 0)
            return zt_node_fail(g, node, err, "step %d is 0", i);
        axis = axis < 0 ? axis + c->shape.rank : axis;
        if (open)
            cut_unknown(c, (int)axis, step, *less);
        else
            cut_axis(c, (int)axis, starts[i], ends[i], step);
    }
    return true;
}

bool zt_slice_read(const struct zt_graph *g, int node, struct zt_slice_bounds *c, struct zt_err *err) {
    return read_cut(g, node, NULL, c, err);
}

static bool slice_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_slice_bounds c;
    if (!zt_slice_read(g, node, &c, err))
        return false;
    zt_set_out(g, node, 0, zt_in(g, node, 0)->dtype, &c.shape);
    return true;
}

static bool slice_bound(struct zt_graph *g, int node, bool less, struct zt_err *err) {
    struct zt_slice_bounds c;
    if (!read_cut(g, node, &less, &c, err))
        return false;
    zt_set_out(g, node, 0, zt_in(g, node, 0)->dtype, &c.shape);
    return true;
}

/* Offset of the first element of the cut in the whole, and the steps between its elements there. */
static int64_t steps_in(const struct zt_shape *whole, const int64_t *start, const int64_t *step, int64_t *to) {
    int64_t stride[ZT_MAX_RANK], first = 0;
    zt_shape_strides(whole, stride);
    for (int k = 0; k < whole->rank; k++) {
        first += start[k] * stride[k];
        to[k] = step[k] * stride[k];
    }
    return first;
}

static bool slice_moves(const struct zt_graph *g, int node, zt_strided_copy_take *take, void *arg, struct zt_err *err) {
    struct zt_slice_bounds c;
    if (!zt_slice_read(g, node, &c, err))
        return false;
    struct zt_strided_copy move = { .shape = c.shape };
    if (zt_shape_count(&c.shape) == 0)
        return true;
    for (int k = 0; k < c.shape.rank; k++) /* a single element is never stepped from */
        c.step[k] = c.shape.dim[k] > 1 ? c.step[k] : 1;
    move.from = steps_in(&zt_in(g, node, 0)->shape, c.start, c.step, move.from_step);
    zt_shape_strides(&c.shape, move.to_step);
    take(arg, &move);
    return true;
}
ZT_MOVES_DESCRIBE(slice, false)

/* A cut of neighbouring channels alone may be of blocked tensors, of any channels where it may be `within` blocks. */
static void choose_layouts(struct zt_prepare *p, const int64_t *start, const int64_t *step, bool within) {
    const struct zt_shape *in = &zt_in(p->graph, p->node, 0)->shape, *out = &zt_out(p->graph, p->node, 0)->shape;
    bool whole = in->rank > 2 && step[1] == 1;
    for (int k = 0; whole && k < in->rank; k++)
        whole = k == 1 || (in->dim[k] == out->dim[k] && step[k] == 1);
    if (whole)
        zt_layout_ranges(p, 1, start[1], within);
    else
        zt_layout_plain(p);
}

static bool slice_prepare(struct zt_prepare *p, struct zt_err *err) {
    struct zt_slice_bounds c;
    if (!zt_slice_read(p->graph, p->node, &c, err))
        return false;
    choose_layouts(p, c.start, c.step, zt_joins_within_blocks(zt_in(p->graph, p->node, 0)->dtype));
    return true;
}

static bool slice_run(const struct zt_call *call, struct zt_err *err) {
    struct zt_slice_bounds c;
    if (!call->in[0].layout)
        return zt_strided_copies_run(call, slice_moves, err);
    if (!zt_slice_read(call->graph, zt_call_node(call), &c, err))
        return false;
    if (!zt_is_within_block(&call->in[0], 0) && !zt_is_within_block(&call->out[0], c.start[1]))
        return zt_strided_copies_run(call, slice_moves, err);
    zt_join_channels(call->threads, &call->out[0], &call->in[0], c.start[1]);
    return true;
}

/* Also of the longest cuts, for their memory. */
static bool slice_grad(struct zt_grad *b, int node, struct zt_err *err) {
    struct zt_shape x = *zt_grad_in_shape(b, node, 0);
    struct zt_slice_bounds c;
    if (!read_cut(zt_grad_graph(b), node, &(bool){ false }, &c, err))
        return false;
    int dy = zt_grad_out(b, node, 0);
    struct zt_ints lists[] = {
        { "shape", x.dim, x.rank }, { "starts", c.start, x.rank }, { "steps", c.step, x.rank }, { 0 }
    };
    zt_grad_give(b, node, 0, zt_emit_own_ints(b, "SliceGrad", &dy, 1, NULL, lists));
    return true;
}

static bool slice_grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *dy = zt_in(g, node, 0);
    struct zt_shape shape;
    int starts, steps;
    int64_t ignored[ZT_MAX_RANK];
    if (!zt_ops_ints(g, node, (struct zt_int_source){ -1, "shape" },
                     &(struct zt_int_list){ shape.dim, ZT_MAX_RANK, &shape.rank }, err) ||
        !zt_ops_ints(g, node, (struct zt_int_source){ -1, "starts" },
                     &(struct zt_int_list){ ignored, ZT_MAX_RANK, &starts }, err) ||
        !zt_ops_ints(g, node, (struct zt_int_source){ -1, "steps" },
                     &(struct zt_int_list){ ignored, ZT_MAX_RANK, &steps }, err))
        return false;
    if (shape.rank != dy->shape.rank || starts != shape.rank || steps != shape.rank)
        return zt_node_fail(g, node, err, "its lists do not have %d numbers", dy->shape.rank);
    zt_set_out(g, node, 0, dy->dtype, &shape);
    return true;
}

static bool slice_grad_moves(const struct zt_graph *g, int node, zt_strided_copy_take *take, void *arg,
                             struct zt_err *err) {
    (void)err;
    struct zt_strided_copy move = { .shape = zt_in(g, node, 0)->shape };
    int64_t step[ZT_MAX_RANK];
    int count;
    if (zt_shape_count(&move.shape) == 0)
        return true;
    const int64_t *start = zt_attr_ints(g->nodes[node], "starts", &count);
    memcpy(step, zt_attr_ints(g->nodes[node], "steps", &count), (size_t)count * sizeof *step);
    for (int k = 0; k < count; k++)
        step[k] = move.shape.dim[k] > 1 ? step[k] : 1;
    move.to = steps_in(&zt_out(g, node, 0)->shape, start, step, move.to_step);
    zt_shape_strides(&move.shape, move.from_step);
    take(arg, &move);
    return true;
}
ZT_MOVES_DESCRIBE(slice_grad, true)

static bool slice_grad_prepare(struct zt_prepare *p, struct zt_err *err) {
    (void)err;
    const struct zt_node *n = p->graph->nodes[p->node];
    int count;
    choose_layouts(p, zt_attr_ints(n, "starts", &count), zt_attr_ints(n, "steps", &count), false);
    return true;
}

static bool slice_grad_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_view *dx = &call->out[0];
    memset(dx->data, 0, zt_dtype_bytes(dx->dtype) * (size_t)zt_shape_count(&dx->shape));
    return zt_strided_copies_run(call, slice_grad_moves, err);
}

static const struct zt_attr_spec slice_attrs_1[] = {
    { "starts", ZT_ATTR_INTS, true }, { "ends", ZT_ATTR_INTS, true }, { "axes", ZT_ATTR_INTS }, { 0 }
};
static const struct zt_attr_spec slice_grad_attrs[] = {
    { "shape", ZT_ATTR_INTS, true }, { "starts", ZT_ATTR_INTS, true }, { "steps", ZT_ATTR_INTS, true }, { 0 }
};
enum { INDEX = 1 << ZT_INT32 | 1 << ZT_INT64 };

const struct zt_op zt_op_slice_1 = {
    .name = "Slice",
    .domain = "",
    .since = 1,
    .until = 9,
    ZT_ONE_OUT(1, 1),
    .flags = ZT_OP_LIGHT | ZT_OP_PASSES_HALF,
    .attrs = slice_attrs_1,
    .infer = slice_infer,
    .grad = slice_grad,
    .body = zt_slice_old_function_body,
    .kernel = { [ZT_REF] = { .run = slice_run },
                [ZT_CPU] = { .prepare = slice_prepare, .run = slice_run },
                [ZT_CUDA] = ZT_CUDA_AS(strided_copies, zt_cuda_any, slice_describe) },
};

const struct zt_op zt_op_slice = {
    .name = "Slice",
    .domain = "",
    .since = 10,
    ZT_ONE_OUT(3, 5),
    .flags = ZT_OP_LIGHT | ZT_OP_PASSES_HALF,
    .in_types = { 0, INDEX, INDEX, INDEX, INDEX },
    .infer = slice_infer,
    .bound = slice_bound,
    .grad = slice_grad,
    .no_grad_in = 0x1e,
    .kernel = { [ZT_REF] = { .run = slice_run },
                [ZT_CPU] = { .prepare = slice_prepare, .run = slice_run },
                [ZT_CUDA] = ZT_CUDA_AS(strided_copies, zt_cuda_any, slice_describe) },
};

const struct zt_op zt_op_slice_grad = {
    .name = "SliceGrad",
    .domain = "ztrain",
    .since = 1,
    ZT_ONE_OUT(1, 1),
    .flags = ZT_OP_LIGHT | ZT_OP_PASSES_HALF,
    .attrs = slice_grad_attrs,
    .infer = slice_grad_infer,
    .body = zt_slice_grad_function_body,
    .kernel = { [ZT_REF] = { .run = slice_grad_run },
                [ZT_CPU] = { .prepare = slice_grad_prepare, .run = slice_grad_run },
                [ZT_CUDA] = ZT_CUDA_AS(strided_copies, zt_cuda_any, slice_grad_describe) },
};
