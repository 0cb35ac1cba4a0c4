/* The ONNX function body of BatchMatMul, MatMul with transposed operands. */
#include "ops/matmul/kernels.h"

static int last_axis(int rank, int64_t perm[ZT_MAX_RANK]) {
    for (int k = 0; k < rank; k++)
        perm[k] = k;
    return rank - 1;
}

static void write_transposed(struct zt_function_body *b, const char *name, const char *flag, int rank) {
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
    write_transposed(b, "x", "transA", zt_in(g, node, 0)->shape.rank);
    write_transposed(b, "z", "transB", zt_in(g, node, 1)->shape.rank);
    zt_function_body_add(b, "y = MatMul(x, z)");
    return true;
}
