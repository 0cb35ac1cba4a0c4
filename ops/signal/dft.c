/* DFT (opset 17: `axis` is an attribute; opset 20: an input), formulas in dft_plan.h.
 *
 * The transform is linear and its gradient is the transposed transform. With D[k, n] = e^(-2 pi i k n / N), seen as a
 * map of pairs of real numbers, the transpose of D is its conjugate: N times the inverse transform.
 *
 *     forward             dx = N inverse(dy)
 *     forward, onesided   dx[n] = sum over k <= N / 2 of Re(dy[k] e^(2 pi i k n / N)): onesided inverse of N dy[k] /
 * w[k] inverse             dx = 1 / N forward(dy) inverse, onesided   dx[k] = w[k] / N times the onesided forward
 * transform of dy
 *
 * Of real x the gradient is the real part. Elements that the transform does not read have gradient 0, and those it adds
 * as zeros have none. */
#include "ops/signal/dft.h"
#include "ops/signal/dft_gradient.h"
#include "ops/signal/kernels.h"

#include "ops/kernel/shape.h"

#include <math.h>
#include <stdlib.h>

static bool dft_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0);
    struct zt_shape shape = x->shape;
    struct zt_dft d;
    int axis;
    if (!zt_dft_read(g, node, &d, err) || !zt_dft_axis(g, node, &axis, err))
        return false;
    shape.dim[axis] = d.writes;
    shape.dim[shape.rank - 1] = d.out.real ? 1 : 2;
    zt_set_out(g, node, 0, x->dtype, &shape);
    return true;
}

/* 5 N log2 N, as for a transform of complex numbers; real numbers on one side need half of it. */
double zt_dft_flops(const struct zt_graph *g, int node) {
    struct zt_dft d;
    struct zt_err err = { 0 };
    if (!zt_dft_of(g, node, &d, &err))
        return 0;
    const double n = (double)d.length, parts = d.in.real || d.out.real ? 1 : 2;
    return 2.5 * parts * n * log2(n > 1 ? n : 2) * (double)d.slices;
}

bool zt_dft_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    return zt_dft_of(g, node, to, err);
}

static int emit_scalar(struct zt_grad *b, int64_t value) {
    return zt_graph_add_constant(zt_grad_graph(b), NULL, ZT_INT64, &(struct zt_shape){ .rank = 0 }, &value);
}

/* `value` with `size` elements along `axis`: the first ones, or zeros behind. */
static int emit_sized(struct zt_grad *b, int value, int axis, int64_t size) {
    const struct zt_shape shape = zt_grad_graph(b)->values[value]->shape;
    int64_t pads[2 * ZT_MAX_RANK] = { 0 };
    if (shape.dim[axis] == size)
        return value;
    if (shape.dim[axis] > size)
        return ZT_EMIT(b, "Slice", value, zt_emit_ints(b, &(int64_t){ 0 }, 1), zt_emit_ints(b, &size, 1),
                       zt_emit_ints(b, &(int64_t){ axis }, 1));
    pads[shape.rank + axis] = size - shape.dim[axis];
    return ZT_EMIT(b, "Pad", value, zt_emit_ints(b, pads, 2 * shape.rank));
}

/* What multiplies element k of the side with w[k]: N / w[k] or w[k] / N; without w N or 1 / N. The spectrum's shape is
 * that of the factors but for other axes than `axis`, of length 1, and, so that equal factors are adjacent, the last
 * one. */
static int emit_factors(struct zt_grad *b, const struct zt_dft *d, const struct zt_value *dy, int axis) {
    struct zt_graph *g = zt_grad_graph(b);
    const double n = (double)d->length;
    const int rank = dy->shape.rank;
    if (!d->onesided)
        return zt_emit_float(b, dy->dtype, d->inverse ? 1 / n : n);
    struct zt_shape shape = { .rank = rank };
    for (int i = 0; i < rank; i++)
        shape.dim[i] = 1;
    const int64_t count = shape.dim[axis] = d->length / 2 + 1, parts = axis == rank - 2 ? 2 : 1;
    shape.dim[rank - 1] = parts;
    void *factors = zt_arena_alloc(g->arena, (size_t)(count * parts) * zt_dtype_bytes(dy->dtype));
    for (int64_t k = 0; k < count * parts; k++) {
        const double w = zt_dft_weight(d->length, k / parts);
        zt_store_double(dy->dtype, factors, k, d->inverse ? w / n : n / w);
    }
    return zt_graph_add_constant(g, NULL, dy->dtype, &shape, factors);
}

int zt_dft_emit_gradient(struct zt_grad *b, const struct zt_dft *d, int dy, int axis) {
    struct zt_graph *g = zt_grad_graph(b);
    const struct zt_shape shape = g->values[dy]->shape;
    const int factors = emit_factors(b, d, g->values[dy], axis);
    const struct zt_attr attrs[] = { { .name = "inverse", .type = ZT_ATTR_INT, .i = !d->inverse },
                                     { .name = "onesided", .type = ZT_ATTR_INT, .i = d->onesided } };
    int out,
        in[] = { d->inverse ? dy : ZT_EMIT(b, "Mul", dy, factors), emit_scalar(b, d->length), emit_scalar(b, axis) };
    zt_emit_node(b, &(struct zt_emission){ "DFT", "", in, 3, NULL, attrs, 2 }, &out, 1);
    if (d->inverse)
        out = ZT_EMIT(b, "Mul", out, factors);
    return out < 0 || !d->in.real ? out : emit_sized(b, out, shape.rank - 1, 1);
}

static bool dft_grad(struct zt_grad *b, int node, struct zt_err *err) {
    const struct zt_graph *g = zt_grad_graph(b);
    struct zt_dft d;
    int axis;
    if (!zt_dft_read(g, node, &d, err) || !zt_dft_axis(g, node, &axis, err))
        return false;
    const int64_t size = zt_in(g, node, 0)->shape.dim[axis];
    const int dx = zt_dft_emit_gradient(b, &d, zt_grad_out(b, node, 0), axis);
    zt_grad_give(b, node, 0, dx < 0 ? dx : emit_sized(b, dx, axis, size));
    return true;
}

/* The form of opset 20 with the axis as an input. */
static ZT_FUNCTION_BODY(axis_attribute_function_body) {
    int axis;
    if (!zt_dft_axis(g, node, &axis, err))
        return false;
    zt_function_body_again(b, "DFT", "axis",
                           zt_function_body_text(b, "%s%di", g->nodes[node]->in_count < 2 ? "_, " : "", axis));
    return true;
}

static const struct zt_dft_row detail = { zt_dft_read };
static const struct zt_attr_spec attrs[] = { { "inverse", ZT_ATTR_INT }, { "onesided", ZT_ATTR_INT }, { 0 } };
static const struct zt_attr_spec axis_attrs[] = {
    { "axis", ZT_ATTR_INT }, { "inverse", ZT_ATTR_INT }, { "onesided", ZT_ATTR_INT }, { 0 }
};
#define LENGTH (ZT_BIT(ZT_INT32) | ZT_BIT(ZT_INT64))
#define ROW                                                                                                            \
    .name = "DFT", .domain = "", .infer = dft_infer, .grad = dft_grad, .no_grad_in = 0x6, .shape_in = 0x6,             \
    .flops = zt_dft_flops, .detail = &detail,                                                                          \
    .kernel = { [ZT_REF] = { .prepare = zt_dft_ref_prepare, .run = zt_dft_ref, .release = free },                      \
                [ZT_CPU] = ZT_ON_CPU(zt_dft_cpu),                                                                      \
                [ZT_CUDA] = ZT_CUDA_AS(dft, zt_cuda_float_data, zt_dft_describe) }

const struct zt_op zt_op_dft = {
    ROW, .since = 20, ZT_ONE_OUT(1, 3), .in_types = { ZT_ANY_FLOAT, LENGTH, ZT_BIT(ZT_INT64) }, .attrs = attrs,
};
const struct zt_op zt_op_dft_axis_attribute = {
    ROW,
    .since = 17,
    .until = 19,
    ZT_ONE_OUT(1, 2),
    .in_types = { ZT_ANY_FLOAT, LENGTH },
    .attrs = axis_attrs,
    .body = axis_attribute_function_body,
};
