/* gemm_master on the CPU: products of bfloat16 read weights in float, and which casts stay. */
#include "tests/graph/net.h"
#include "tests/suite.h"

#include "graph/passes/fusion/apply_patterns.h"
#include "graph/passes/precision/half_precision.h"
#include "ops/cpu/isa.h"
#include "ops/table.h"

#include <stdio.h>
#include <string.h>

#include "tests/graph/fixture.h"

/* The name of what a Cast reads; "" for what is computed in half precision. */
static const char *cast_of(const struct zt_node *cast) {
    const struct zt_value *from = g->values[cast->in[0]];
    return from->dtype == ZT_FLOAT ? from->name : "";
}

/* "MatMul bfloat16; GemmMaster(relu) bfloat16": products, and casts as "Cast w". */
static void expect_nodes(const char *wanted) {
    char text[400] = "";
    for (int n = 0; n < g->node_count; n++) {
        const struct zt_node *node = g->nodes[n];
        const bool cast = strcmp(node->op_type, "Cast") == 0, product = node->op->flags & ZT_OP_PRODUCT;
        const char *relu = zt_attr_int(node, "relu", 0) ? "(relu)" : "";
        const size_t at = strlen(text);
        if (cast || product)
            snprintf(text + at, sizeof text - at, "%s%s%s %s", at ? "; " : "", node->op_type, relu,
                     cast ? cast_of(node) : zt_dtype_name(g->values[node->out[0]]->dtype));
    }
    ck_assert_str_eq(text, wanted);
}

/* Casts to the type, and fuses. */
static void fuse(enum zt_dtype dtype, const int *roots, int count) {
    static const char *const names[] = { "gemm_relu", "gemm_master" };
    const struct zt_fusion fusion = { zt_patterns, names, 2 };
    int counts[64] = { 0 };
    const struct zt_half_options half = { dtype, roots, count, NULL, NULL, ZT_CPU };
    net_infer(g, &zt_ops);
    ck_assert_msg(
        zt_pass_half_propagation(g, &zt_ops, &half, &err) &&
            zt_pass_fuse(g, &zt_ops, &(struct zt_fuse_options){ &fusion, 1u << ZT_CPU, NULL, counts }, &err) &&
            zt_graph_prune(g, roots, count, &err),
        "%s", err.text[0]);
}

static bool can_fuse(void) {
    return zt_isa_has(ZT_ISA_AVX512_BF16);
}

START_TEST(weights_and_biases_are_read_in_float) {
    const int x = net_input(g, "x", ZT_FLOAT, SHAPE(8, 16)), w = net_param(g, "w", SHAPE(16, 24)),
              v = net_param(g, "v", SHAPE(4, 24)), b = net_param(g, "b", SHAPE(4));
    const int h = NET(g, "MatMul", "h", x, w), p = NET(g, "Gemm", "p", h, v, b);
    zt_node_set_int(g, g->node_count - 1, "transB", 1);
    const int y = NET(g, "MatMul", "y", NET(g, "Relu", "relu", p), net_param(g, "u", SHAPE(4, 4)));
    fuse(ZT_BFLOAT16, &y, 1);
    if (can_fuse())
        expect_nodes("Cast x; GemmMaster bfloat16; GemmMaster(relu) bfloat16; GemmMaster bfloat16; Cast ");
}
END_TEST

/* A weight on the left is no b, an activation is no weight, and a batch of matrices is not one. */
START_TEST(other_factors_stay_casts) {
    const int x = net_input(g, "x", ZT_FLOAT, SHAPE(16, 16)), w = net_param(g, "w", SHAPE(16, 16)),
              many = net_param(g, "many", SHAPE(3, 16, 16));
    const int y[3] = { NET(g, "MatMul", "y", x, w), NET(g, "MatMul", "z", w, x), NET(g, "MatMul", "m", x, many) };
    fuse(ZT_BFLOAT16, y, 3);
    if (can_fuse())
        expect_nodes(
            "Cast x; Cast w; GemmMaster bfloat16; Cast ; MatMul bfloat16; Cast ; Cast many; MatMul bfloat16; Cast ");
}
END_TEST

START_TEST(products_of_fp16_stay) {
    const int x = net_input(g, "x", ZT_FLOAT, SHAPE(8, 16)), w = net_param(g, "w", SHAPE(16, 24));
    const int y = NET(g, "MatMul", "y", x, w);
    fuse(ZT_FLOAT16, &y, 1);
    expect_nodes("Cast x; Cast w; MatMul float16; Cast ");
}
END_TEST

int main(void) {
    TCase *test = tcase_create("gemm_master");
    tcase_add_checked_fixture(test, make_graph, destroy_graph);
    tcase_add_test(test, weights_and_biases_are_read_in_float);
    tcase_add_test(test, other_factors_stay_casts);
    tcase_add_test(test, products_of_fp16_stay);
    return run_suite("gemm_master", test, CK_NOFORK);
}
