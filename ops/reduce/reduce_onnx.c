/* The ONNX function body of TopK before opset 10, which has k as an attribute. */
#include "ops/reduce/kernels.h"

ZT_FUNCTION_BODY(zt_top_k_old_function_body) {
    (void)err;
    const struct zt_attr *k = zt_node_attr(g->nodes[node], "k");
    zt_function_body_again(b, "TopK", "k", k ? zt_function_body_text(b, "[%lld]", (long long)k->i) : "");
    return true;
}
