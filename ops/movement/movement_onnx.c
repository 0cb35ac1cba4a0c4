/* Values moved, backwards: what was read from a place is added up there. And products of matrices. */
#include "ops/kernel/function_bodies.h"
#include "ops/movement/gather.h"
#include "ops/kernel/shape.h"

#include <string.h>

static const char *out_shape(struct zt_function_body *b) {
    return zt_function_body_dims(b, &zt_out(b->g, b->node, 0)->shape);
}

static int last_axis(int rank, int64_t perm[ZT_MAX_RANK]) {
    for (int k = 0; k < rank; k++)
        perm[k] = k;
    return rank - 1;
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
    zt_function_body_add(b, "dx = Reshape(dx, %s)", out_shape(b));
    return true;
}

ZT_FUNCTION_BODY(zt_gather_elements_grad_function_body) {
    (void)err;
    int axis = zt_gather_axis(g->nodes[node], zt_out(g, node, 0)->shape.rank);
    zt_function_body_names(b, "dy, indices -> dx");
    zt_function_body_add(b, "dx = ScatterElements<axis=%d, reduction=\"add\">(Expand(0, %s), indices, dy)", axis,
                         out_shape(b));
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
    zt_function_body_add(b, "dx = ScatterND<reduction=\"add\">(Expand(0, %s), at, dy)", out_shape(b));
    return true;
}

/* ---- slices, paddings, repetitions: an axis at a time ---- */

/* Adds dx up along `axis`, now of length `from`, at the places in `at` of an axis of `size`. `shape` follows. */
static void say_scatter(struct zt_function_body *b, struct zt_shape *shape, int axis, int64_t size) {
    struct zt_shape line = { shape->rank, { 0 } };
    for (int k = 0; k < shape->rank; k++)
        line.dim[k] = k == axis ? shape->dim[k] : 1;
    zt_function_body_add(b, "at = Expand(Reshape(at, %s), %s)", zt_function_body_dims(b, &line),
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

/* ---- windows ---- */

/* Each place of a block is a filter with a single one. */
ZT_FUNCTION_BODY(zt_im2col_function_body) {
    int64_t kernel[ZT_MAX_RANK];
    int axes, count;
    if (!zt_known_ints(g, node, 2, &(struct zt_int_list){ kernel, ZT_MAX_RANK, &axes }, err))
        return false;
    struct zt_shape x = zt_in(g, node, 0)->shape, filters = { axes + 2, { 1, 1 } };
    for (int a = 0; a < axes; a++)
        filters.dim[0] *= filters.dim[a + 2] = kernel[a];
    int64_t places = filters.dim[0];
    double *ones = ZT_NEW_N(b->arena, double, places *places);
    for (int64_t k = 0; k < places; k++)
        ones[k * places + k] = 1;
    const char *attrs = "";
    static const char *const names[] = { "dilations", "pads", "strides" };
    for (int i = 0; i < 3; i++) {
        const int64_t *list = zt_attr_ints(g->nodes[node], names[i], &count);
        if (list)
            attrs = zt_function_body_text(b, "%s%s=%s, ", attrs, names[i], zt_function_body_list(b, list, count));
    }
    zt_function_body_names(b, "x, image, block -> y");
    zt_function_body_doubles(b, "filters", &filters, ones);
    x.dim[0] *= x.dim[1];
    x.dim[1] = 1;
    zt_function_body_add(b, "y = Reshape(Conv<%s group=1>(Reshape(x, %s), filters), %s)", attrs,
                         zt_function_body_dims(b, &x), out_shape(b));
    return true;
}

/* Places count in the plane that a pool with these windows had, which lies in a corner of dy's. */
ZT_FUNCTION_BODY(zt_max_unpool_grad_function_body) {
    (void)err;
    struct zt_shape inner = zt_out(g, node, 0)->shape;
    int axes, strides, pads;
    const int64_t *kernel = zt_attr_ints(g->nodes[node], "kernel_shape", &axes);
    const int64_t *stride = zt_attr_ints(g->nodes[node], "strides", &strides);
    const int64_t *pad = zt_attr_ints(g->nodes[node], "pads", &pads);
    int64_t zeros[ZT_MAX_RANK] = { 0 };
    for (int a = 0; a < axes; a++)
        inner.dim[2 + a] =
            (inner.dim[2 + a] - 1) * (stride ? stride[a] : 1) + kernel[a] - (pad ? pad[a] + pad[axes + a] : 0);
    zt_function_body_names(b, "dy, index -> dx");
    zt_function_body_add(b, "dx = Gather(Reshape(Slice(dy, %s, %s), [-1]), index)",
                         zt_function_body_list(b, zeros, inner.rank), zt_function_body_dims(b, &inner));
    return true;
}

/* ---- products ---- */

static void say_turned(struct zt_function_body *b, const char *name, const char *flag, int rank) {
    int64_t perm[ZT_MAX_RANK];
    int last = last_axis(rank, perm);
    if (!zt_attr_int(b->g->nodes[b->node], flag, 0))
        return;
    perm[last] = last - 1;
    perm[last - 1] = last;
    zt_function_body_add(b, "%s = Transpose<perm=%s>(%s)", name, zt_function_body_list(b, perm, rank), name);
}

ZT_FUNCTION_BODY(zt_batch_matmul_function_body) {
    (void)err;
    zt_function_body_names(b, "x, z -> y");
    say_turned(b, "x", "transA", zt_in(g, node, 0)->shape.rank);
    say_turned(b, "z", "transB", zt_in(g, node, 1)->shape.rank);
    zt_function_body_add(b, "y = MatMul(x, z)");
    return true;
}

/* ---- powers, whose exponent may be of another type ---- */

static void say_power(struct zt_function_body *b, const char *formula) {
    const char *type = zt_dtype_name(zt_out(b->g, b->node, 0)->dtype);
    bool is_float = zt_dtype_in(zt_out(b->g, b->node, 0)->dtype, ZT_ANY_FLOAT);
    zt_function_body_names(b, "x, e -> y");
    zt_function_body_add(b, "x = Cast<to=T>(x); e = Cast<to=T>(e); %s", formula);
    if (!is_float)
        zt_function_body_add(b, "y = Cast<to=%s>(y)", type);
}

ZT_FUNCTION_BODY(zt_pow_slope_function_body) {
    (void)g, (void)node, (void)err;
    say_power(b, "y = Where(Equal(e, 0), 0, e * Pow(x, e - 1))");
    return true;
}

ZT_FUNCTION_BODY(zt_pow_log_function_body) {
    (void)g, (void)node, (void)err;
    say_power(b, "y = Where(And(Equal(x, 0), GreaterOrEqual(e, 0)), 0, Pow(x, e) * Log(x))");
    return true;
}
