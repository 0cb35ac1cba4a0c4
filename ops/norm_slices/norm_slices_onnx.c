/* ONNX function bodies of the gradients of LpNormalization, LRN and MeanVarianceNormalization (formulas in
 * norm_slices.c). */
#include "ops/norm_slices/kernels.h"
#include "ops/norm_slices/norm_slices.h"

#include <string.h>

ZT_FUNCTION_BODY(zt_lp_normalization_grad_function_body) {
    int axis;
    if (!zt_axis(g, node, zt_attr_int(g->nodes[node], "axis", -1), zt_in(g, node, 1)->shape.rank, &axis, err))
        return false;
    bool first = zt_attr_int(g->nodes[node], "p", 2) == 1;
    zt_function_body_names(b, "dy, x -> dx");
    zt_function_body_add(b, first ? "n = ReduceSum(Abs(x), [%d])" : "n = Sqrt(ReduceSum(x * x, [%d]))", axis);
    zt_function_body_add(b, "zero = Equal(n, 0); n = Where(zero, 1, n); d = %s", first ? "Sign(x)" : "x / n");
    zt_function_body_add(b, "dx = Where(zero, 0, (dy - d * ReduceSum(dy * x / n, [%d])) / n)", axis);
    return true;
}

/* The sum over neighbouring channels is a product with a matrix of ones about the diagonal. */
ZT_FUNCTION_BODY(zt_lrn_grad_function_body) {
    (void)err;
    const struct zt_node *n = g->nodes[node];
    const struct zt_shape *x = &zt_in(g, node, 1)->shape;
    int64_t channels = x->dim[1], size = zt_attr_int(n, "size", 1);
    struct zt_shape square = { 2, { channels, channels } };
    double *band = ZT_NEW_N(b->arena, double, channels *channels);
    for (int64_t c = 0; c < channels; c++)
        for (int64_t j = 0; j < channels; j++)
            band[c * channels + j] = j >= c - (size - 1) / 2 && j <= c + size / 2;
    zt_function_body_names(b, "dy, x -> dx");
    zt_function_body_doubles(b, "band", &square, band);
    zt_function_body_number(b, "alpha", (double)zt_attr_float(n, "alpha", 1e-4f) / (double)size);
    zt_function_body_number(b, "beta", (double)zt_attr_float(n, "beta", 0.75f));
    zt_function_body_number(b, "bias", (double)zt_attr_float(n, "bias", 1));
    zt_function_body_add(b, "planes = [%lld, %lld, %lld]; dy = Reshape(dy, planes); x = Reshape(x, planes)",
                         (long long)x->dim[0], (long long)channels, (long long)zt_dims(x, 2, x->rank));
    zt_function_body_add(b, "s = bias + alpha * MatMul(band, x * x); inner = dy * x * Pow(s, -beta - 1)");
    zt_function_body_add(b, "dx = dy * Pow(s, -beta) - 2 * alpha * beta * x * MatMul(Transpose(band), inner)");
    zt_function_body_add(b, "dx = Reshape(dx, %s)", zt_body_out(b, 0));
    return true;
}

ZT_FUNCTION_BODY(zt_mean_variance_normalization_grad_function_body) {
    const int64_t usual[] = { 0, 2, 3 };
    struct zt_axis_set distinct;
    int count;
    const struct zt_shape *x = &zt_in(g, node, 1)->shape;
    const int64_t *axes = zt_attr_ints(g->nodes[node], "axes", &count);
    if (!zt_ops_axes(g, node, (struct zt_int_source){ -1, "axes" }, x->rank, &distinct, err))
        return false;
    int64_t elements = 1;
    for (int i = 0; i < (axes ? count : 3); i++) {
        int64_t axis = axes ? axes[i] : usual[i];
        elements *= x->dim[axis < 0 ? axis + x->rank : axis];
    }
    zt_function_body_names(b, "dy, x -> dx");
    zt_function_body_add(
        b, "axes = %s; x = x - ReduceMean(x, axes); std = Sqrt(ReduceMean(x * x, axes)); d = std + 0.000000001",
        zt_function_body_list(b, axes ? axes : usual, axes ? count : 3));
    zt_function_body_add(b, "dx = (dy - ReduceMean(dy, axes)) / d - x * ReduceSum(dy * x, axes) / (%lld * std * d * d)",
                         (long long)elements);
    return true;
}
