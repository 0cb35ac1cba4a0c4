/* Products of bfloat16 that are wanted in float, in whole programs on a device of CUDA's back end: which of them are
 * one node with their cast, and that training gives the same losses within rounding. Without arguments the device is
 * far_device.h's, whose kernels are the reference; with the folder of a CUDA module it is the module's. */
#include "tests/gpu/fused.h"
#include "tests/suite.h"

#include "device/threads.h"

#include <string.h>

/* ---- graphs: x [N, 8] -> ... -> y [N, 5] ---- */

static struct zt_graph *plain(void) {
    struct zt_graph *g = zt_graph_create("plain");
    return fused_output(g, NET(g, "Relu", "relu", fused_product(g, "fc", fused_input(g), 8, 8)));
}

/* Weights that a Gemm reads the other way round. */
static struct zt_graph *turned(void) {
    struct zt_graph *g = zt_graph_create("turned");
    const int h = NET(g, "Gemm", "fc", fused_input(g), net_param(g, "fc.weight", SHAPE(8, 8)));
    zt_node_set_int(g, g->node_count - 1, "transB", 1);
    zt_node_set_float(g, g->node_count - 1, "beta", 0.5F);
    return fused_output(g, NET(g, "Relu", "relu", h));
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

/* ---- what is merged ---- */

/* "MatMul bfloat16; GemmFloat float": products by the type that they give. */
static void list(const struct zt_graph *g, struct zt_text *to) {
    for (int n = 0; n < g->node_count; n++)
        if (strstr(g->nodes[n]->op_type, "MatMul") || strstr(g->nodes[n]->op_type, "Gemm"))
            zt_text_add(to, "%s%s %s", to->at ? "; " : "", g->nodes[n]->op_type, zt_dtype_name(zt_out(g, n, 0)->dtype));
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

/* ---- training ---- */

static struct zt_graph *(*const models[])(void) = { plain, turned, batched, shared, read_in_float, biased };
enum { MODELS = sizeof models / sizeof *models };
#define BF16 ", 'bf16': {'enabled': true}"
static const struct fused_layout layouts[] = {
    { 1, true, BF16 },
    { 1, true, BF16 ", 'train_micro_batch_size_per_gpu': 2" },
    { 2, true, BF16 ", 'zero_optimization': {'stage': 3}" },
    { 2, true, BF16 ", 'pipeline': {'stages': 2}, 'train_micro_batch_size_per_gpu': 4" },
    { 0 },
};

/* On one side the product is rounded to bfloat16. */
START_TEST(training_gives_the_same_losses) {
    for (const struct fused_layout *l = layouts; l->ranks; l++)
        fused_expect_losses(&merged, models[_i], l, "gemm_float", "gelu", 5e-3);
}
END_TEST

int main(int argc, char **argv) {
    zt_parallel_enter();
    fused_folder = argc > 1 ? argv[1] : NULL;
    TCase *test = tcase_create("gemm_float");
    tcase_add_test(test, products_wanted_in_float_give_it);
    tcase_add_test(test, other_products_stay);
    tcase_add_loop_test(test, training_gives_the_same_losses, 0, MODELS);
    return run_suite("gemm_float", test, CK_NOFORK);
}
