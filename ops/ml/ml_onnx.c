/* Operators of ai.onnx.ml in standard operators. */
#include "ops/ml/kernels.h"

/* y = Gather(x, index), of a vector x as a matrix of one row */
ZT_FUNCTION_BODY(zt_array_feature_extractor_function_body) {
    (void)err;
    zt_function_body_names(b, "x, index -> y");
    zt_function_body_add(b, "y = Gather<axis=-1>(x, Reshape(index, [-1]))");
    if (zt_in(g, node, 0)->shape.rank == 1)
        zt_function_body_add(b, "y = Unsqueeze(y, [0])");
    return true;
}
