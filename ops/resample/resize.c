/* Resize (opset 10 on) and Upsample (7 and 9): every axis is stretched or shrunk by interpolation (resize_map.c).
 *
 * Coordinates, nearest elements and sizes are those of ONNX's reference: a result's length counts as scale * length
 * where it is not whole. Before opset 11 coordinates are x = o / scale, and "nearest" is the element left of x, or,
 * shrinking, the one right of it (as in Resize 10's own examples).
 *
 * The map is linear, so dx = its transpose applied to dy: ztrain.ResizeGrad(dy, region, scales, sizes) with the shape
 * of x. */
#include "ops/resample/resize.h"
#include "ops/resample/kernels.h"

#include "ops/kernel/shape.h"

#include <string.h>

/* Whether the CUDA kernels take the node: float or half types, sizes whose maps count in 32 bits. */
static bool takes_cuda(const struct zt_graph *g, int node) {
    struct zt_resize r;
    struct zt_err err = { 0 };
    if (!zt_cuda_is_float(zt_in(g, node, 0)) || !zt_resize_read(g, node, &r, &err))
        return false;
    int64_t from = zt_shape_count(&r.x), to = zt_shape_count(&r.y);
    return from > 0 && to > 0 && from <= INT32_MAX / 64 && to <= INT32_MAX / 64;
}

/* ---- rows ---- */

static bool resize_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_resize r;
    if (!zt_resize_read(g, node, &r, err))
        return false;
    zt_set_out(g, node, 0, zt_in(g, node, 0)->dtype, &r.y);
    return true;
}

static bool grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_resize r;
    char found[ZT_SHAPE_TEXT], wanted[ZT_SHAPE_TEXT];
    const struct zt_value *dy = zt_in(g, node, 0);
    if (!zt_resize_read(g, node, &r, err))
        return false;
    if (!zt_shape_equal(&r.y, &dy->shape))
        return zt_node_fail(g, node, err, "\"%s\" has shape %s, not %s", dy->name, zt_shape_text(&dy->shape, found),
                            zt_shape_text(&r.y, wanted));
    zt_set_out(g, node, 0, dy->dtype, &r.x);
    return true;
}

/* Scales given as an attribute, made a constant. */
static int scales_of(struct zt_graph *g, const struct zt_node *n) {
    int count;
    const float *scales = zt_attr_floats(n, "scales", &count);
    struct zt_shape shape = { 1, { count } };
    return scales ? zt_graph_add_constant(g, "scales", ZT_FLOAT, &shape, scales) : n->in[1];
}

static bool resize_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    struct zt_graph *g = zt_grad_graph(b);
    const struct zt_node *n = g->nodes[node];
    struct zt_shape x = *zt_grad_in_shape(b, node, 0);
    int64_t *dims = zt_arena_copy(g->arena, x.dim, sizeof x.dim);
    struct zt_attr attrs[] = {
        { .name = "input_shape", .type = ZT_ATTR_INTS, .count = x.rank, .ints = dims },
        { .name = "mode", .type = ZT_ATTR_STRING, .s = zt_attr_text(n, "mode", "nearest") },
        { .name = "coordinate_transformation_mode", .type = ZT_ATTR_STRING, .s = "asymmetric" },
        { .name = "nearest_mode", .type = ZT_ATTR_STRING, .s = "by_direction" },
    };
    bool old = zt_resize_is_old(n);
    int in[4] = { zt_grad_out(b, node, 0), -1, -1, -1 }, out;
    if (old)
        in[2] = scales_of(g, n);
    for (int i = 1; !old && i < n->in_count; i++)
        in[i] = n->in[i];
    zt_emit_node(b, &(struct zt_emission){ "ResizeGrad", "ztrain", in, 4, old ? NULL : n, attrs, old ? 4 : 1 }, &out,
                 1);
    zt_grad_give(b, node, 0, out);
    return true;
}

#define ATTRS_10                                                                                                       \
    { "mode", ZT_ATTR_STRING }
#define ATTRS_11                                                                                                       \
    ATTRS_10, { "coordinate_transformation_mode", ZT_ATTR_STRING }, { "cubic_coeff_a", ZT_ATTR_FLOAT },                \
        { "exclude_outside", ZT_ATTR_INT }, { "extrapolation_value", ZT_ATTR_FLOAT }, {                                \
        "nearest_mode", ZT_ATTR_STRING                                                                                 \
    }
#define ATTRS_18                                                                                                       \
    ATTRS_11, { "antialias", ZT_ATTR_INT }, { "axes", ZT_ATTR_INTS }, {                                                \
        "keep_aspect_ratio_policy", ZT_ATTR_STRING                                                                     \
    }

static const struct zt_attr_spec attrs_7[] = { ATTRS_10, { "scales", ZT_ATTR_FLOATS, true }, { 0 } };
static const struct zt_attr_spec attrs_10[] = { ATTRS_10, { 0 } };
static const struct zt_attr_spec attrs_11[] = { ATTRS_11, { 0 } };
static const struct zt_attr_spec attrs_18[] = { ATTRS_18, { 0 } };
static const struct zt_attr_spec grad_attrs[] = { ATTRS_18, { "input_shape", ZT_ATTR_INTS, true }, { 0 } };

enum {
    REGION = ZT_ANY_FLOAT & ~(1 << ZT_BFLOAT16),
    SCALES = 1 << ZT_FLOAT | 1 << ZT_DOUBLE, /* double: in tests that hold float against double */
    SIZES = 1 << ZT_INT64
};

#define KERNEL(prepare_function, id, cuda)                                                                             \
    .kernel = { [ZT_REF] = { .prepare = prepare_function, .run = zt_resize_run, .release = zt_resize_release },        \
                [ZT_CPU] = ZT_IF_DNNL(id),                                                                             \
                [ZT_CUDA] = ZT_ON_CUDA(cuda, takes_cuda) }
#define FORWARD(id, NAME, SINCE, UNTIL, LEAST, MOST, BODY, SPEC, ...)                                                  \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = NAME,                                                                                                  \
        .domain = "",                                                                                                  \
        .since = SINCE,                                                                                                \
        .until = UNTIL,                                                                                                \
        ZT_ONE_OUT(LEAST, MOST),                                                                                       \
        .in_types = { ZT_ANY_TYPE, __VA_ARGS__ },                                                                      \
        .attrs = SPEC,                                                                                                 \
        .infer = resize_infer,                                                                                         \
        .grad = resize_grad,                                                                                           \
        .no_grad_in = 0xe,                                                                                             \
        .body = BODY,                                                                                                  \
        .shape_in = 1 << 3,                                                                                            \
        KERNEL(zt_resize_prepare, zt_resize_cpu, resize),                                                              \
    }

FORWARD(upsample_7, "Upsample", 7, 8, 1, 1, zt_resize_old_function_body, attrs_7, 0);
FORWARD(upsample, "Upsample", 9, 9, 2, 2, zt_resize_old_function_body, attrs_10, SCALES);
FORWARD(resize_10, "Resize", 10, 10, 2, 2, zt_resize_old_function_body, attrs_10, SCALES);
FORWARD(resize_11, "Resize", 11, 17, 1, 4, zt_same_opset_form_body, attrs_11, REGION, SCALES, SIZES);
FORWARD(resize, "Resize", 18, 0, 1, 4, zt_same_opset_form_body, attrs_18, REGION, SCALES, SIZES);

/* (dy, region, scales, sizes) -> dx */
const struct zt_op zt_op_resize_grad = {
    .name = "ResizeGrad",
    .domain = "ztrain",
    .since = 1,
    ZT_ONE_OUT(1, 4),
    .in_types = { ZT_ANY_FLOAT, REGION, SCALES, SIZES },
    .attrs = grad_attrs,
    .infer = grad_infer,
    .body = zt_resize_grad_function_body,
    KERNEL(zt_resize_grad_prepare, zt_resize_grad_cpu, resize_grad),
};
