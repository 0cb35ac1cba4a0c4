/* Products of bfloat16 that are wanted in float, and those that sum up the gradient of a bias, in whole programs on a
 * device of CUDA's back end: which of them are one node with their cast or sum, and that training gives the same losses
 * within rounding. Without arguments the device is
 * far_device.h's, whose kernels are the reference; with the folder of a CUDA module it is the module's. */
#include "tests/gpu/fused_programs.h"
#include "tests/suite.h"

#include "device/threads.h"

#include <string.h>

/* ---- graphs: x [N, 8] -> ... -> y [N, 5] ---- */

static struct zt_graph *plain(void) {
    struct zt_graph *g = zt_graph_create("plain");
    return fused_output(g, NET(g, "Tanh", "tanh", fused_product(g, "fc", fused_input(g), 8, 8)));
}

/* Weights that a Gemm reads the other way round. */
static struct zt_graph *turned(void) {
    struct zt_graph *g = zt_graph_create("turned");
    const int h = NET(g, "Gemm", "fc", fused_input(g), net_param(g, "fc.weight", SHAPE(8, 8)));
    zt_node_set_int(g, g->node_count - 1, "transB", 1);
    zt_node_set_float(g, g->node_count - 1, "beta", 0.5F);
    return fused_output(g, NET(g, "Tanh", "tanh", h));
}

/* A product of batches: heads of one axis. */
static struct zt_graph *batched(void) {
    struct zt_graph *g = zt_graph_create("batched");
    const int64_t apart[] = { -1, 2, 1, 4 }, together[] = { -1, 8 };
    const int h = NET(g, "Reshape", "apart", fused_input(g), zt_graph_add_ints(g, NULL, apart, 4));
    const int y = NET(g, "MatMul", "heads", h, net_param(g, "heads.weight", SHAPE(1, 2, 4, 4)));
    return fused_output(g, NET(g, "Reshape", "together", y, zt_graph_add_ints(g, NULL, together, 2)));
}

/* Softmax reads the product in float, Relu in bfloat16. */
static struct zt_graph *shared(void) {
    struct zt_graph *g = zt_graph_create("shared");
    const int h = fused_product(g, "fc", fused_input(g), 8, 8);
    return fused_output(g, NET(g, "Add", "sum", NET(g, "Softmax", "softmax", h), NET(g, "Relu", "relu", h)));
}

/* Softmax alone reads it. */
static struct zt_graph *read_in_float(void) {
    struct zt_graph *g = zt_graph_create("read_in_float");
    return fused_output(g, NET(g, "Softmax", "softmax", fused_product(g, "fc", fused_input(g), 8, 8)));
}

/* The bias makes it a Gemm with c, which is of the type of the product. */
static struct zt_graph *biased(void) {
    struct zt_graph *g = zt_graph_create("biased");
    const int h =
        NET(g, "Gemm", "fc", fused_input(g), net_param(g, "fc.weight", SHAPE(8, 8)), net_param(g, "fc.bias", SHAPE(8)));
    return fused_output(g, NET(g, "Softmax", "softmax", h));
}

/* One product with a bias; beyond it too. */
static struct zt_graph *with_bias(void) {
    struct zt_graph *g = zt_graph_create("with_bias");
    const int h =
        NET(g, "Add", "fc", fused_product(g, "fc.product", fused_input(g), 8, 8), net_param(g, "fc.bias", SHAPE(8)));
    return fused_output(g, NET(g, "Tanh", "tanh", h));
}

/* Rows of two axes, of which the product makes one. */
static struct zt_graph *rows_with_bias(void) {
    struct zt_graph *g = zt_graph_create("rows_with_bias");
    const int64_t apart[] = { -1, 2, 4 }, together[] = { -1, 16 };
    int h = NET(g, "Reshape", "apart", fused_input(g), zt_graph_add_ints(g, NULL, apart, 3));
    h = NET(g, "Add", "fc", fused_product(g, "fc.product", h, 4, 8), net_param(g, "fc.bias", SHAPE(8)));
    h = NET(g, "Reshape", "together", NET(g, "Tanh", "tanh", h), zt_graph_add_ints(g, NULL, together, 2));
    return fused_output(g, fused_product(g, "fc2", h, 16, 8));
}

/* The bias stands behind an activation: what is summed is no side of the product. */
static struct zt_graph *bias_apart(void) {
    struct zt_graph *g = zt_graph_create("bias_apart");
    const int h = NET(g, "Tanh", "tanh", fused_product(g, "fc", fused_input(g), 8, 8));
    return fused_output(g, NET(g, "Relu", "relu", NET(g, "Add", "add", h, net_param(g, "bias", SHAPE(8)))));
}

/* A number a row of two: not what a product sums over. */
static struct zt_graph *bias_of_rows(void) {
    struct zt_graph *g = zt_graph_create("bias_of_rows");
    const int h = fused_product(g, "fc", fused_input(g), 8, 8);
    return fused_output(g, NET(g, "Relu", "relu", NET(g, "Add", "add", h, net_param(g, "bias", SHAPE(4, 1)))));
}

/* Convolutions, with a bias and without one. */
static struct zt_graph *convolved(void) {
    struct zt_graph *g = zt_graph_create("convolved");
    const int64_t apart[] = { -1, 2, 2, 2 }, together[] = { -1, 8 };
    int h = NET(g, "Reshape", "apart", fused_input(g), zt_graph_add_ints(g, NULL, apart, 4));
    h = NET(g, "Conv", "conv1", h, net_param(g, "conv1.weight", SHAPE(8, 2, 1, 1)),
            net_param(g, "conv1.bias", SHAPE(8)));
    h = NET(g, "Conv", "conv2", NET(g, "Tanh", "tanh", h), net_param(g, "conv2.weight", SHAPE(8, 8, 2, 2)));
    return fused_output(g, NET(g, "Reshape", "together", h, zt_graph_add_ints(g, NULL, together, 2)));
}

/* ---- what is merged ---- */

/* "MatMul bfloat16; GemmFloat float": products, and convolutions' with weights, by the type that they give, with the
 * side that they sum up, and sums to vectors. */
static void list(const struct zt_graph *g, struct zt_text *to) {
    for (int n = 0; n < g->node_count; n++) {
        const struct zt_node *node = g->nodes[n];
        const bool sum = strcmp(node->op_type, "ReduceSum") == 0 && zt_out(g, n, 0)->shape.rank == 1;
        if (sum || strstr(node->op_type, "MatMul") || strstr(node->op_type, "Gemm") ||
            strcmp(node->op_type, "Linear") == 0 || strcmp(node->op_type, "ConvGradWeight") == 0)
            zt_text_add(to, "%s%s %s%s", to->at ? "; " : "", node->op_type, zt_dtype_name(zt_out(g, n, 0)->dtype),
                        zt_attr_text(node, "sums", ""));
    }
}
static const struct fused merged = { fused_device, list, "'AdamW', 'params': {'lr': 0.01}" };

START_TEST(products_wanted_in_float_give_it) {
    const struct wish train = { .bf16 = true }, evaluate = { .bf16 = true, .evaluation = true };
    fused_expect(&merged, plain(), evaluate, "MatMul bfloat16; MatMul bfloat16");
    fused_expect(&merged, plain(), train,
                 "MatMul bfloat16; MatMul bfloat16; Gemm bfloat16; GemmFloat float; GemmFloat float");
    fused_expect(&merged, turned(), train,
                 "Gemm bfloat16; MatMul bfloat16; Gemm bfloat16; GemmFloat float; GemmFloat float");
    fused_expect(&merged, batched(), train,
                 "MatMul bfloat16; MatMul bfloat16; Gemm bfloat16; GemmFloat float; GemmFloat float");
    fused_expect(&merged, convolved(), train,
                 "MatMul bfloat16; Gemm bfloat16; GemmFloat float; ConvGradWeight float; ConvGradWeight float");
    fused_expect(&merged, read_in_float(), evaluate, "GemmFloat float; MatMul bfloat16");
}
END_TEST

START_TEST(other_products_stay) {
    const struct wish evaluate = { .bf16 = true, .evaluation = true };
    fused_expect(&merged, shared(), evaluate, "MatMul bfloat16; MatMul bfloat16");
    fused_expect(&merged, biased(), evaluate, "Gemm bfloat16; MatMul bfloat16");
    fused_expect(&merged, plain(), (struct wish){ 0 },
                 "MatMul float; MatMul float; Gemm float; Gemm float; Gemm float");
}
END_TEST

START_TEST(products_sum_up_gradients_of_biases) {
    const struct wish half = { .bf16 = true }, whole = { 0 };
    fused_expect(&merged, with_bias(), half,
                 "Linear bfloat16; MatMul bfloat16; Gemm bfloat16; GemmFloat float; GemmFloat floatb");
    fused_expect(&merged, with_bias(), whole, "Linear float; MatMul float; Gemm float; Gemm float; GemmFloat floatb");
    fused_expect(&merged, rows_with_bias(), half,
                 "Linear bfloat16; MatMul bfloat16; MatMul bfloat16; Gemm bfloat16; GemmFloat float; Gemm bfloat16; "
                 "GemmFloat float; GemmFloat floatb");
    fused_expect(&merged, biased(), whole, "Gemm float; MatMul float; Gemm float; Gemm float; GemmFloat floatb");
}
END_TEST

START_TEST(other_sums_stay) {
    const struct wish half = { .bf16 = true }, whole = { 0 };
    fused_expect(&merged, bias_apart(), half,
                 "MatMul bfloat16; MatMul bfloat16; Gemm bfloat16; GemmFloat float; ReduceSum float; GemmFloat float");
    fused_expect(&merged, bias_apart(), whole,
                 "MatMul float; MatMul float; Gemm float; Gemm float; ReduceSum float; Gemm float");
    fused_expect(&merged, bias_of_rows(), whole,
                 "MatMul float; MatMul float; Gemm float; Gemm float; ReduceSum float; Gemm float");
}
END_TEST

/* ---- training ---- */

static struct zt_graph *(*const models[])(void) = { plain,  turned,    batched,        shared,     read_in_float,
                                                    biased, with_bias, rows_with_bias, bias_apart, convolved };
enum { MODELS = sizeof models / sizeof *models };
/* On one side the product is rounded to bfloat16. */
START_TEST(training_gives_the_same_losses) {
    for (const struct fused_layout *l = fused_half_layouts; l->ranks; l++)
        fused_expect_losses(&merged, models[_i], l, "gemm_float', 'bias_grad', 'conv_float", "gelu", 5e-3);
}
END_TEST

int main(int argc, char **argv) {
    zt_parallel_enter();
    fused_folder = argc > 1 ? argv[1] : NULL;
    TCase *test = tcase_create("gemm_float");
    tcase_add_test(test, products_wanted_in_float_give_it);
    tcase_add_test(test, other_products_stay);
    tcase_add_test(test, products_sum_up_gradients_of_biases);
    tcase_add_test(test, other_sums_stay);
    tcase_add_loop_test(test, training_gives_the_same_losses, 0, MODELS);
    return run_suite("gemm_float", test, CK_NOFORK);
}
