/* Gradients of reductions. dy is first reshaped to the shape of x with reduced axes of size 1, which broadcasts to x.
 */
#include "ops/reduce/reduce.h"

/* Shape of x with the reduced axes of size 1, and the number of elements of a result. */
static struct zt_shape kept_shape(struct zt_grad *b, int node, int64_t *count) {
    struct zt_err ignored = { 0 }; /* infer has accepted the axes */
    bool marked[ZT_MAX_RANK];
    struct zt_shape shape = *zt_grad_in_shape(b, node, 0);
    zt_reduce_axes(zt_grad_graph(b), node, marked, &ignored);
    *count = 1;
    for (int k = 0; k < shape.rank; k++)
        if (marked[k]) {
            *count *= shape.dim[k];
            shape.dim[k] = 1;
        }
    return shape;
}

/* `value`, of the shape of the output, reshaped to broadcast against x. */
static int widened(struct zt_grad *b, int node, int value) {
    int64_t count;
    struct zt_shape shape = kept_shape(b, node, &count);
    if (value < 0 || zt_shape_equal(&zt_grad_graph(b)->values[value]->shape, &shape))
        return value;
    struct zt_attr allow_zero = { .name = "allowzero", .type = ZT_ATTR_INT, .i = 1 };
    int in[2] = { value, zt_emit_ints(b, shape.dim, shape.rank) }, out;
    return zt_emit_node(b, &(struct zt_emission){ "Reshape", "", in, 2, NULL, &allow_zero, 1 }, &out, 1) ? out : -1;
}

static int x_of(struct zt_grad *b, int node) {
    return zt_grad_graph(b)->nodes[node]->in[0];
}

static int y_of(struct zt_grad *b, int node) {
    return widened(b, node, zt_grad_graph(b)->nodes[node]->out[0]);
}

static int dy_of(struct zt_grad *b, int node) {
    return widened(b, node, zt_grad_out(b, node, 0));
}

/* Broadcasts `value` to the shape of x and gives it as the gradient. */
static bool give_broadcast(struct zt_grad *b, int node, int value) {
    struct zt_shape shape = *zt_grad_in_shape(b, node, 0);
    zt_grad_give(b, node, 0, ZT_EMIT(b, "Expand", value, zt_emit_ints(b, shape.dim, shape.rank)));
    return true;
}

/* dx = dy */
bool zt_reduce_sum_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    return give_broadcast(b, node, dy_of(b, node));
}

/* dx = dy / n */
bool zt_reduce_mean_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    int64_t count;
    kept_shape(b, node, &count);
    int n = zt_emit_float(b, zt_grad_dtype(b, node), (double)count);
    return give_broadcast(b, node, ZT_EMIT(b, "Div", dy_of(b, node), n));
}

/* The axes over which the node reduces. */
static bool list_axes(struct zt_grad *b, int node, int64_t axes[ZT_MAX_RANK], int *count, struct zt_err *err) {
    bool marked[ZT_MAX_RANK];
    *count = 0;
    if (!zt_reduce_axes(zt_grad_graph(b), node, marked, err))
        return false;
    for (int k = 0; k < zt_grad_in_shape(b, node, 0)->rank; k++)
        if (marked[k])
            axes[(*count)++] = k;
    return true;
}

/* dx = dy m / sum m with m = [x = y]: ties share the gradient */
bool zt_reduce_extreme_grad(struct zt_grad *b, int node, struct zt_err *err) {
    int64_t axes[ZT_MAX_RANK];
    int count, x = x_of(b, node);
    if (!list_axes(b, node, axes, &count, err))
        return false;
    int mask = zt_emit_cast_like(b, ZT_EMIT(b, "Equal", x, y_of(b, node)), x), total = mask;
    if (count)
        total = ZT_EMIT(b, "ReduceSum", mask, zt_emit_ints(b, axes, count));
    zt_grad_give(b, node, 0, ZT_EMIT(b, "Mul", mask, ZT_EMIT(b, "Div", dy_of(b, node), total)));
    return true;
}

/* dx = dy sign x */
bool zt_reduce_l1_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    zt_grad_give(b, node, 0, ZT_EMIT(b, "Mul", ZT_EMIT(b, "Sign", x_of(b, node)), dy_of(b, node)));
    return true;
}

/* dx = dy x / y, 0 where y is */
bool zt_reduce_l2_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    int y = y_of(b, node), zero = zt_emit_float(b, zt_grad_dtype(b, node), 0);
    int slope = ZT_EMIT(b, "Div", dy_of(b, node), y);
    int safe = ZT_EMIT(b, "Where", ZT_EMIT(b, "Equal", y, zero), zero, slope);
    zt_grad_give(b, node, 0, ZT_EMIT(b, "Mul", x_of(b, node), safe));
    return true;
}

/* y = log sum x    dx = dy / exp y */
bool zt_reduce_log_sum_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    return give_broadcast(b, node, ZT_EMIT(b, "Div", dy_of(b, node), ZT_EMIT(b, "Exp", y_of(b, node))));
}

/* y = log sum exp x    dx = dy exp(x - y) */
bool zt_reduce_log_sum_exp_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    int weight = ZT_EMIT(b, "Exp", ZT_EMIT(b, "Sub", x_of(b, node), y_of(b, node)));
    zt_grad_give(b, node, 0, ZT_EMIT(b, "Mul", weight, dy_of(b, node)));
    return true;
}

/* dx = 2 dy x */
bool zt_reduce_sum_square_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    int two = zt_emit_float(b, zt_grad_dtype(b, node), 2);
    zt_grad_give(b, node, 0, ZT_EMIT(b, "Mul", x_of(b, node), ZT_EMIT(b, "Mul", dy_of(b, node), two)));
    return true;
}

/* ---- ReduceProd: dx_i = dy * product of the others, with zeros counted apart so that one zero is no division by it
 * ---- */

/* With z = [x = 0] and p the product of the elements that are not zero:
 *     no zero       dx = dy p / x
 *     one zero      dx = dy p at the zero, 0 elsewhere
 *     more          0 */
bool zt_reduce_prod_grad(struct zt_grad *b, int node, struct zt_err *err) {
    int64_t axes[ZT_MAX_RANK];
    int count, x = x_of(b, node);
    if (!list_axes(b, node, axes, &count, err))
        return false;
    enum zt_dtype dtype = zt_grad_dtype(b, node);
    int zero = zt_emit_float(b, dtype, 0), one = zt_emit_float(b, dtype, 1);
    int is_zero = ZT_EMIT(b, "Equal", x, zero), zeros = zt_emit_cast_like(b, is_zero, x);
    int filled = ZT_EMIT(b, "Where", is_zero, one, x), product = filled, number = zeros;
    if (count) {
        product = ZT_EMIT(b, "ReduceProd", filled, zt_emit_ints(b, axes, count));
        number = ZT_EMIT(b, "ReduceSum", zeros, zt_emit_ints(b, axes, count));
    }
    /* zeros among the others: none means the product of the others is p / x, or p at a zero */
    int others = ZT_EMIT(b, "Sub", number, zeros);
    int rest = ZT_EMIT(b, "Where", ZT_EMIT(b, "Equal", others, zero), ZT_EMIT(b, "Div", product, filled), zero);
    zt_grad_give(b, node, 0, ZT_EMIT(b, "Mul", rest, dy_of(b, node)));
    return true;
}
