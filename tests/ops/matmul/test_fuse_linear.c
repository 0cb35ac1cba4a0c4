/* Matrix products that take in what stands behind them (a bias, another summand, ReLU and its gradient), in whole
 * programs on a device of CUDA's back end: which of them do, that nothing is lost that others read, and that training
 * gives the same losses within rounding. Without arguments the device is far_device.h's, whose kernels are the
 * reference; with the folder of a CUDA module it is the module's. */
#include "tests/gpu/fused_programs.h"
#include "tests/suite.h"

#include "device/threads.h"

#include <string.h>

/* ---- graphs: x [N, 8] -> ... -> y [N, 5] ---- */

static int param(struct zt_graph *g, const char *layer, const char *what, const struct zt_shape *shape) {
    return net_param(g, zt_arena_printf(g->arena, "%s.%s", layer, what), shape);
}

/* The bias first in the sum, as some exporters write it. */
static int linear(struct zt_graph *g, const char *name, int x, int64_t in, int64_t out) {
    const int h = fused_product(g, zt_arena_printf(g->arena, "%s.product", name), x, in, out);
    return NET(g, "Add", name, param(g, name, "bias", SHAPE(out)), h);
}

static int reshape(struct zt_graph *g, const char *name, int x, const int64_t *to, int rank) {
    return NET(g, "Reshape", name, x, zt_graph_add_ints(g, NULL, to, rank));
}

static struct zt_graph *biased(void) {
    struct zt_graph *g = zt_graph_create("biased");
    return fused_output(g, NET(g, "Tanh", "tanh", linear(g, "fc", fused_input(g), 8, 8)));
}

/* Two readers of the sum, one of the product. */
static struct zt_graph *read_twice(void) {
    struct zt_graph *g = zt_graph_create("read_twice");
    const int h = linear(g, "fc", fused_input(g), 8, 8);
    return fused_output(g, NET(g, "Mul", "both", NET(g, "Tanh", "tanh", h), h));
}

/* The product is read beside its bias. */
static struct zt_graph *read_early(void) {
    struct zt_graph *g = zt_graph_create("read_early");
    const int h = linear(g, "fc", fused_input(g), 8, 8), product = zt_graph_find(g, "fc.product");
    return fused_output(g, NET(g, "Mul", "both", NET(g, "Tanh", "tanh", h), product));
}

/* A number a row, which is no bias; one for all. */
static struct zt_graph *shifted(void) {
    struct zt_graph *g = zt_graph_create("shifted");
    const int h = fused_product(g, "fc", fused_input(g), 8, 8);
    const int s = NET(g, "Add", "add", h, net_param(g, "shift", SHAPE(4, 1)));
    const int t = fused_product(g, "fc2", NET(g, "Tanh", "tanh", s), 8, 8);
    return fused_output(g, NET(g, "Tanh", "tanh2", NET(g, "Add", "add2", t, net_param(g, "one", SHAPE(1)))));
}

/* As a transformer adds what a block makes: x + tanh(x w1 + b1) w2 + b2, of which the last sum is read twice. */
static struct zt_graph *residual(void) {
    struct zt_graph *g = zt_graph_create("residual");
    const int x = NET(g, "Tanh", "first", fused_product(g, "fc0", fused_input(g), 8, 8));
    const int y = linear(g, "fc2", NET(g, "Tanh", "tanh", linear(g, "fc1", x, 8, 16)), 16, 8);
    const int s = NET(g, "Add", "sum", x, y);
    return fused_output(g, NET(g, "Mul", "both", NET(g, "Sigmoid", "gate", s), s));
}

/* Rows of two axes, written as Gemms over one. */
static struct zt_graph *folded(void) {
    struct zt_graph *g = zt_graph_create("folded");
    const int64_t apart[] = { -1, 2, 4 }, flat[] = { -1, 4 }, together[] = { -1, 8 };
    const int x = NET(g, "Tanh", "first", reshape(g, "apart", fused_input(g), apart, 3));
    int h = NET(g, "Gemm", "fc", reshape(g, "flat", x, flat, 2), param(g, "fc", "weight", SHAPE(4, 4)),
                param(g, "fc", "bias", SHAPE(4)));
    h = NET(g, "Tanh", "tanh", NET(g, "Add", "sum", reshape(g, "rows", h, apart, 3), x));
    return fused_output(g, reshape(g, "together", h, together, 2));
}

/* A sum of two products, the later of which takes the other; their input's gradient is one too. */
static struct zt_graph *two(void) {
    struct zt_graph *g = zt_graph_create("two");
    const int x = NET(g, "Tanh", "first", fused_product(g, "fc0", fused_input(g), 8, 8));
    const int s = NET(g, "Add", "sum", fused_product(g, "fc1", x, 8, 8), fused_product(g, "fc2", x, 8, 8));
    return fused_output(g, NET(g, "Tanh", "tanh", s));
}

/* The summand or the product is broadcast, so that their shapes differ. */
static struct zt_graph *stretched(void) {
    struct zt_graph *g = zt_graph_create("stretched");
    const int64_t apart[] = { -1, 2, 4 }, together[] = { -1, 8 };
    const int x = NET(g, "Tanh", "first", reshape(g, "apart", fused_input(g), apart, 3));
    const int p =
        fused_product(g, "fc", NET(g, "ReduceMax", "most", x, zt_graph_add_ints(g, NULL, (int64_t[]){ 1 }, 1)), 4, 4);
    const int h = NET(g, "Tanh", "tanh", NET(g, "Add", "sum", p, x));
    return fused_output(g, reshape(g, "together", h, together, 2));
}

/* Of two stages the product's sum is read on the second one too, over a layer. */
static struct zt_graph *skipping(void) {
    struct zt_graph *g = zt_graph_create("skipping");
    const int z = linear(g, "fc1", fused_input(g), 8, 8);
    int h = fused_product(g, "fc2", NET(g, "Tanh", "tanh", z), 8, 8);
    h = fused_product(g, "fc4", fused_product(g, "fc3", h, 8, 8), 8, 8);
    return fused_output(g, NET(g, "Add", "skip", h, z));
}

/* ---- the same with ReLU ---- */

static struct zt_graph *relu(void) {
    struct zt_graph *g = zt_graph_create("relu");
    const int h = NET(g, "Relu", "relu1", linear(g, "fc1", fused_input(g), 8, 16));
    return fused_output(g, NET(g, "Relu", "relu2", fused_product(g, "fc2", h, 16, 8)));
}

/* Columns that are no multiple of eight; a Gemm's bias. */
static struct zt_graph *relu_odd(void) {
    struct zt_graph *g = zt_graph_create("relu_odd");
    const int h = NET(g, "Relu", "relu",
                      NET(g, "Gemm", "fc1", fused_input(g), net_param(g, "fc1.weight", SHAPE(8, 13)),
                          net_param(g, "fc1.bias", SHAPE(13))));
    return fused_output(g, fused_product(g, "fc2", h, 13, 8));
}

/* Rows of two axes: gradients of products are reshaped there. */
static struct zt_graph *relu_rows(void) {
    struct zt_graph *g = zt_graph_create("relu_rows");
    const int64_t apart[] = { -1, 2, 4 }, together[] = { -1, 8 };
    int h = NET(g, "Relu", "relu", linear(g, "fc1", reshape(g, "apart", fused_input(g), apart, 3), 4, 16));
    h = fused_product(g, "fc2", h, 16, 4);
    return fused_output(g, reshape(g, "together", h, together, 2));
}

/* ReLU's argument is read beside it. */
static struct zt_graph *relu_early(void) {
    struct zt_graph *g = zt_graph_create("relu_early");
    const int z = linear(g, "fc1", fused_input(g), 8, 8);
    return fused_output(g, NET(g, "Mul", "both", fused_product(g, "fc2", NET(g, "Relu", "relu", z), 8, 8), z));
}

/* Its gradient is a sum. */
static struct zt_graph *relu_twice(void) {
    struct zt_graph *g = zt_graph_create("relu_twice");
    const int y = NET(g, "Relu", "relu", linear(g, "fc1", fused_input(g), 8, 8));
    return fused_output(g, NET(g, "Mul", "both", fused_product(g, "fc2", y, 8, 8), y));
}

/* ---- what is merged ---- */

/* "MatMul Linear+bias Linear+bias+c Add": products and sums in order; what chains took in, too. */
static void list_nodes(const struct zt_graph *g, struct zt_text *to) {
    for (int n = 0; n < g->node_count; n++) {
        const struct zt_node *node = g->nodes[n];
        const struct zt_attr *steps = zt_node_attr(node, "steps");
        if (steps)
            list_nodes(steps->graph, to);
        else if (strcmp(node->op_type, "Linear") == 0)
            zt_text_add(to, "%sLinear%s%s", to->at ? " " : "", zt_in(g, n, 2) ? "+bias" : "",
                        zt_in(g, n, 3) ? "+c" : "");
        else if (strcmp(node->op_type, "MatMul") == 0 || strcmp(node->op_type, "Gemm") == 0 ||
                 strcmp(node->op_type, "Add") == 0)
            zt_text_add(to, "%s%s", to->at ? " " : "", node->op_type);
    }
}

static void list_relu(const struct zt_graph *g, struct zt_text *to) {
    for (int n = 0; n < g->node_count; n++) {
        const struct zt_attr *steps = zt_node_attr(g->nodes[n], "steps");
        if (steps)
            list_relu(steps->graph, to);
        else if (strstr(g->nodes[n]->op_type, "Relu"))
            zt_text_add(to, "%s%s%s", to->at ? " " : "", g->nodes[n]->op_type, zt_out(g, n, 1) ? "+bits" : "");
    }
}

static const struct fused with_relu = { fused_device, list_relu, "'SGD', 'params': {'lr': 0.1}" };
static const struct fused merged = { fused_device, list_nodes, "'SGD', 'params': {'lr': 0.1}" };

/* The last product is that of fused_output. */
static void expect(struct zt_graph *(*make)(void), const char *wanted) {
    for (int bf16 = 0; bf16 < 2; bf16++)
        fused_expect(&merged, make(), (struct wish){ .bf16 = bf16, .evaluation = true }, wanted);
}

START_TEST(products_take_a_bias_in_whoever_reads_the_sum) {
    expect(biased, "Linear+bias MatMul");
    expect(read_twice, "Linear+bias MatMul");
}
END_TEST

START_TEST(products_take_a_summand_in) {
    expect(residual, "MatMul Linear+bias Linear+bias+c MatMul");
    expect(folded, "Linear+bias+c MatMul");
    expect(two, "MatMul MatMul Linear+c MatMul");
}
END_TEST

START_TEST(gradients_of_several_products_are_summed_up_in_one) {
    for (int bf16 = 0; bf16 < 2; bf16++)
        fused_expect(&merged, two(), (struct wish){ .bf16 = bf16 },
                     bf16 ? "MatMul MatMul Linear+c MatMul Gemm Gemm Linear+c"
                          : "MatMul MatMul Linear+c MatMul Gemm Gemm Gemm Gemm Linear+c Gemm Gemm");
}
END_TEST

START_TEST(what_others_read_is_made) {
    expect(read_early, "MatMul Add MatMul");
}
END_TEST

START_TEST(sums_of_other_shapes_stay) {
    expect(shifted, "MatMul Add MatMul Add MatMul");
    expect(stretched, "MatMul Add MatMul");
}
END_TEST

START_TEST(what_another_stage_reads_is_made) {
    static const char *const wanted[] = { "Linear+bias MatMul Gemm Gemm Add",
                                          "MatMul Linear+c MatMul Gemm Gemm Gemm Gemm Gemm Gemm" };
    fused_expect_stages(&merged, skipping, "fc1", wanted);
}
END_TEST

START_TEST(a_bit_an_element_is_kept_for_the_gradient_of_relu) {
    for (int bf16 = 0; bf16 < 2; bf16++) {
        const struct wish train = { .bf16 = bf16 };
        fused_expect(&with_relu, relu(), train, "LinearRelu+bits LinearRelu+bits MatMulReluGrad MatMulReluGrad");
        fused_expect(&with_relu, relu_odd(), train, "LinearRelu+bits MatMulReluGrad");
        fused_expect(&with_relu, relu_rows(), train, "LinearRelu+bits MatMulReluGrad");
        fused_expect(&with_relu, relu(), (struct wish){ .bf16 = bf16, .evaluation = true }, "Relu Relu");
    }
}
END_TEST

START_TEST(relu_that_is_not_between_products_stays) {
    fused_expect(&with_relu, relu_early(), (struct wish){ 0 }, "Relu ReluGrad");
    fused_expect(&with_relu, relu_twice(), (struct wish){ 0 }, "Relu ReluGrad");
}
END_TEST

/* ---- training ---- */

static struct zt_graph *(*const models[])(void) = { biased,    read_twice, read_early, residual, folded,
                                                    two,       stretched,  skipping,   relu,     relu_odd,
                                                    relu_rows, relu_early, relu_twice };
enum { MODELS = sizeof models / sizeof *models };

START_TEST(training_gives_the_same_losses) {
    for (const struct fused_layout *l = fused_layouts; l->ranks; l++) /* in bfloat16 sums are rounded once, not twice */
        fused_expect_losses(&merged, models[_i], l, "linear_*", "fused_elementwise", l->bf16 ? 5e-3 : 2e-6);
}
END_TEST

int main(int argc, char **argv) {
    zt_parallel_enter();
    fused_folder = argc > 1 ? argv[1] : NULL;
    TCase *test = tcase_create("linear");
    tcase_add_test(test, products_take_a_bias_in_whoever_reads_the_sum);
    tcase_add_test(test, products_take_a_summand_in);
    tcase_add_test(test, gradients_of_several_products_are_summed_up_in_one);
    tcase_add_test(test, what_others_read_is_made);
    tcase_add_test(test, sums_of_other_shapes_stay);
    tcase_add_test(test, what_another_stage_reads_is_made);
    tcase_add_test(test, a_bit_an_element_is_kept_for_the_gradient_of_relu);
    tcase_add_test(test, relu_that_is_not_between_products_stays);
    tcase_add_loop_test(test, training_gives_the_same_losses, 0, MODELS);
    return run_suite("linear", test, CK_NOFORK);
}
