/* Values moved, backwards: what was read from a place is added up there. And products of matrices. */
#include "ops/movement/kernels.h"
#include "ops/movement/gather.h"
#include "ops/kernel/shape.h"

#include <string.h>

ZT_FUNCTION_BODY(zt_detach_function_body) {
    (void)g, (void)node, (void)err;
    zt_function_body_names(b, "x -> y");
    zt_function_body_add(b, "y = Identity(x)");
    return true;
}

/* ---- gathers ---- */

ZT_FUNCTION_BODY(zt_gather_grad_function_body) {
    (void)err;
    const struct zt_shape *x = &zt_out(g, node, 0)->shape;
    int axis = zt_gather_axis(g->nodes[node], x->rank);
    long long outer = zt_dims(x, 0, axis), inner = zt_dims(x, axis + 1, x->rank), size = x->dim[axis];
    long long count = zt_shape_count(&zt_in(g, node, 1)->shape);
    zt_function_body_names(b, "dy, indices -> dx");
    zt_function_body_add(
        b, "taken = [%lld, %lld, %lld]; at = Expand(Reshape(Cast<to=int64>(indices), [1, %lld, 1]), taken)", outer,
        count, inner, count);
    zt_function_body_add(
        b, "dx = ScatterElements<axis=1, reduction=\"add\">(Expand(0, [%lld, %lld, %lld]), at, Reshape(dy, taken))",
        outer, size, inner);
    zt_function_body_add(b, "dx = Reshape(dx, %s)", zt_body_out(b, 0));
    return true;
}

ZT_FUNCTION_BODY(zt_gather_elements_grad_function_body) {
    (void)err;
    int axis = zt_gather_axis(g->nodes[node], zt_out(g, node, 0)->shape.rank);
    zt_function_body_names(b, "dy, indices -> dx");
    zt_function_body_add(b, "dx = ScatterElements<axis=%d, reduction=\"add\">(Expand(0, %s), indices, dy)", axis,
                         zt_body_out(b, 0));
    return true;
}

/* Batch axes are written out as the first indices of every tuple. */
ZT_FUNCTION_BODY(zt_gather_nd_grad_function_body) {
    (void)err;
    struct zt_shape tuples = zt_in(g, node, 1)->shape;
    int64_t batch_dims = zt_attr_int(g->nodes[node], "batch_dims", 0), index[ZT_MAX_RANK] = { 0 };
    zt_function_body_names(b, "dy, indices -> dx");
    zt_function_body_add(b, "at = Cast<to=int64>(indices)");
    if (batch_dims) {
        struct zt_shape each = { tuples.rank - 1, { 0 } };
        memcpy(each.dim, tuples.dim, sizeof each.dim);
        tuples.dim[tuples.rank - 1] = batch_dims;
        int64_t *place = ZT_NEW_N(b->arena, int64_t, zt_shape_count(&tuples)), count = zt_shape_count(&each);
        for (int64_t i = 0; i < count; i++, zt_next_index(&each, index))
            memcpy(place + i * batch_dims, index, (size_t)batch_dims * sizeof *place);
        zt_function_body_int64s(b, "batch", &tuples, place);
        zt_function_body_add(b, "at = Concat<axis=%d>(batch, at)", tuples.rank - 1);
    }
    zt_function_body_add(b, "dx = ScatterND<reduction=\"add\">(Expand(0, %s), at, dy)", zt_body_out(b, 0));
    return true;
}

/* ---- slices, paddings, repetitions: an axis at a time ---- */

/* Adds dx up along `axis`, now of length `from`, at the places in `at` of an axis of `size`. `shape` follows. */
static void say_scatter(struct zt_function_body *b, struct zt_shape *shape, int axis, int64_t size) {
    struct zt_shape along = { shape->rank, { 0 } };
    for (int k = 0; k < shape->rank; k++)
        along.dim[k] = k == axis ? shape->dim[k] : 1;
    zt_function_body_add(b, "at = Expand(Reshape(at, %s), %s)", zt_function_body_dims(b, &along),
                         zt_function_body_dims(b, shape));
    shape->dim[axis] = size;
    zt_function_body_add(b, "dx = ScatterElements<axis=%d, reduction=\"add\">(Expand(0, %s), at, dx)", axis,
                         zt_function_body_dims(b, shape));
}

ZT_FUNCTION_BODY(zt_slice_grad_function_body) {
    (void)err;
    struct zt_shape shape = zt_in(g, node, 0)->shape;
    const struct zt_shape *whole = &zt_out(g, node, 0)->shape;
    int count;
    const int64_t *start = zt_attr_ints(g->nodes[node], "starts", &count);
    const int64_t *step = zt_attr_ints(g->nodes[node], "steps", &count);
    zt_function_body_names(b, "dy -> dx");
    zt_function_body_add(b, "dx = dy");
    for (int k = 0; k < whole->rank; k++) {
        if (shape.dim[k] == whole->dim[k] && (step[k] == 1 || shape.dim[k] < 2))
            continue;
        int64_t *at = ZT_NEW_N(b->arena, int64_t, shape.dim[k]);
        for (int64_t i = 0; i < shape.dim[k]; i++)
            at[i] = start[k] + i * step[k];
        zt_function_body_int64s(b, "at", &(struct zt_shape){ 1, { shape.dim[k] } }, at);
        say_scatter(b, &shape, k, whole->dim[k]);
    }
    return true;
}

/* The constant's gradient is cut away. In the other modes the places that an axis was filled from are those that
 * padding the row of its indices gives. */
ZT_FUNCTION_BODY(zt_pad_grad_function_body) {
    (void)err;
    struct zt_shape shape = zt_in(g, node, 0)->shape;
    const struct zt_shape *x = &zt_out(g, node, 0)->shape;
    int count;
    const int64_t *front = zt_attr_ints(g->nodes[node], "front", &count);
    const char *mode = zt_attr_text(g->nodes[node], "mode", "constant");
    int64_t cut[2 * ZT_MAX_RANK];
    zt_function_body_names(b, "dy -> dx");
    zt_function_body_add(b, "dx = dy");
    for (int k = 0; k < x->rank; k++) {
        int64_t behind = shape.dim[k] - front[k] - x->dim[k];
        cut[k] = -front[k];
        cut[x->rank + k] = -behind;
        if (strcmp(mode, "constant") == 0 || (front[k] == 0 && behind == 0))
            continue;
        zt_function_body_add(b, "at = Pad<mode=\"%s\">(%s, [%lld, %lld])", mode, zt_function_body_range(b, x->dim[k]),
                             (long long)front[k], (long long)behind);
        say_scatter(b, &shape, k, x->dim[k]);
    }
    if (strcmp(mode, "constant") == 0)
        zt_function_body_add(b, "dx = Pad(dy, %s)", zt_function_body_list(b, cut, 2 * x->rank));
    return true;
}

/* Every axis as repetitions times length, the repetitions summed. */
ZT_FUNCTION_BODY(zt_tile_grad_function_body) {
    (void)err;
    const struct zt_shape *dy = &zt_in(g, node, 0)->shape, *x = &zt_out(g, node, 0)->shape;
    int64_t pairs[2 * ZT_MAX_RANK], axes[ZT_MAX_RANK];
    for (int k = 0; k < x->rank; k++) {
        pairs[2 * k] = x->dim[k] ? dy->dim[k] / x->dim[k] : 0;
        pairs[2 * k + 1] = x->dim[k];
        axes[k] = 2 * k;
    }
    zt_function_body_names(b, "dy -> dx");
    zt_function_body_add(b, "dx = ReduceSum<keepdims=0>(Reshape<allowzero=1>(dy, %s), %s)",
                         zt_function_body_list(b, pairs, 2 * x->rank), zt_function_body_list(b, axes, x->rank));
    return true;
}

/* ---- forms of earlier opsets ---- */

/* Since opset 18 either the lengths or their number must be said. */
ZT_FUNCTION_BODY(zt_split_old_function_body) {
    (void)err;
    const struct zt_node *n = g->nodes[node];
    const struct zt_shape *x = &zt_in(g, node, 0)->shape;
    int64_t axis = zt_attr_int(n, "axis", 0), *length = ZT_NEW_N(b->arena, int64_t, n->out_count);
    for (int i = 0; i < n->out_count; i++)
        length[i] = zt_out(g, node, i)->shape.dim[axis < 0 ? axis + x->rank : axis];
    zt_function_body_again(b, "Split", "split",
                           zt_in(g, node, 1) ? "" : zt_function_body_list(b, length, n->out_count));
    return true;
}

ZT_FUNCTION_BODY(zt_slice_old_function_body) {
    (void)g, (void)node, (void)err;
    const char *axes = zt_body_attr_list(b, "axes");
    zt_function_body_again(b, "Slice", "starts ends axes",
                           zt_function_body_text(b, "%s, %s%s%s", zt_body_attr_list(b, "starts"),
                                                 zt_body_attr_list(b, "ends"), *axes ? ", " : "", axes));
    return true;
}

ZT_FUNCTION_BODY(zt_pad_old_function_body) {
    (void)err;
    const struct zt_node *n = g->nodes[node];
    if (!zt_node_attr(n, "pads"))
        return zt_same_opset_form_body(b, g, node, err);
    zt_function_body_names(b, "x -> y");
    zt_function_body_number(b, "value", (double)zt_attr_float(n, "value", 0));
    zt_function_body_add(b, "y = Pad<mode=\"%s\">(x, %s, value)", zt_attr_text(n, "mode", "constant"),
                         zt_body_attr_list(b, "pads"));
    return true;
}
