/* ArrayFeatureExtractor (ai.onnx.ml 1): y[row, i] = x[row, index[i]] along the last axis of x; the indices count in
 * row-major order, whatever their shape. Of a vector x, y is a matrix of one row. */
#include "ops/ml/kernels.h"

#include "ops/kernel/shape.h"

#include <string.h>

static bool extractor_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0);
    struct zt_shape shape = x->shape;
    if (shape.rank < 1)
        return zt_node_fail(g, node, err, "\"%s\" has no axis", x->name);
    if (shape.rank == 1)
        shape = (struct zt_shape){ 2, { 1 } };
    shape.dim[shape.rank - 1] = zt_shape_count(&zt_in(g, node, 1)->shape);
    zt_set_out(g, node, 0, x->dtype, &shape);
    return true;
}

static bool extractor_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_view *x = &call->in[0], *index = &call->in[1], *y = &call->out[0];
    const int64_t width = x->shape.dim[x->shape.rank - 1], count = zt_shape_count(&index->shape),
                  rows = zt_dims(&x->shape, 0, x->shape.rank - 1);
    const size_t bytes = zt_dtype_bytes(x->dtype);
    const int64_t *at = index->data;
    for (int64_t i = 0; i < count; i++)
        if (at[i] < 0 || at[i] >= width)
            return zt_call_fail(call, err, "index %lld is outside 0..%lld", (long long)at[i], (long long)width - 1);
    for (int64_t row = 0; row < rows; row++)
        for (int64_t i = 0; i < count; i++)
            memcpy(zt_element(y->data, bytes, row * count + i), zt_element(x->data, bytes, row * width + at[i]), bytes);
    return true;
}

const struct zt_op zt_op_array_feature_extractor = {
    .name = "ArrayFeatureExtractor",
    .domain = "ai.onnx.ml",
    .since = 1,
    .until = ZT_ML_OPSET,
    ZT_ONE_OUT(2, 2),
    .in_types = { ZT_BIT(ZT_FLOAT) | ZT_BIT(ZT_DOUBLE) | ZT_BIT(ZT_INT64) | ZT_BIT(ZT_INT32), ZT_BIT(ZT_INT64) },
    .infer = extractor_infer,
    .body = zt_array_feature_extractor_function_body,
    .kernel = { [ZT_REF] = { .run = extractor_run } },
};
