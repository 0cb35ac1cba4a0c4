/* Matrix products that take GELU in, in whole programs on a device of CUDA's back end: which of them do, that nothing
 * is lost that others read, and that training gives the same losses within rounding. Without arguments the device is
 * far_device.h's, whose kernels are the reference; with the folder of a CUDA module it is the module's. */
#include "tests/gpu/fused_programs.h"
#include "tests/suite.h"

#include "device/threads.h"

#include <string.h>

/* ---- graphs: x [N, 8] -> ... -> y [N, 5] ---- */

static int param(struct zt_graph *g, const char *layer, const char *what, const struct zt_shape *shape) {
    return net_param(g, zt_arena_printf(g->arena, "%s.%s", layer, what), shape);
}

static int linear(struct zt_graph *g, const char *name, int x, int64_t in, int64_t out) {
    const int h = fused_product(g, zt_arena_printf(g->arena, "%s.product", name), x, in, out);
    return NET(g, "Add", name, param(g, name, "bias", SHAPE(out)), h);
}

static int gelu(struct zt_graph *g, const char *name, int x) {
    const int y = NET(g, "Gelu", name, x);
    zt_node_set_text(g, g->node_count - 1, "approximate", "tanh");
    return y;
}

static struct zt_graph *flat(void) {
    struct zt_graph *g = zt_graph_create("flat");
    return fused_output(g, gelu(g, "gelu", linear(g, "fc", fused_input(g), 8, 8)));
}

/* Rows of two axes: gradients of products are reshaped there. */
static struct zt_graph *rows(void) {
    struct zt_graph *g = zt_graph_create("rows");
    const int64_t apart[] = { -1, 2, 4 }, together[] = { -1, 8 };
    int h = NET(g, "Reshape", "apart", fused_input(g), zt_graph_add_ints(g, NULL, apart, 3));
    h = fused_product(g, "fc2", gelu(g, "gelu", linear(g, "fc1", h, 4, 16)), 16, 4);
    return fused_output(g, NET(g, "Reshape", "together", h, zt_graph_add_ints(g, NULL, together, 2)));
}

static int gemm(struct zt_graph *g, const char *name, int x, bool bias) {
    const int h =
        NET(g, "Gemm", name, x, param(g, name, "weight", SHAPE(8, 8)), bias ? param(g, name, "bias", SHAPE(8)) : -1);
    zt_node_set_int(g, g->node_count - 1, "transB", 1);
    return h;
}

static struct zt_graph *gemms(void) {
    struct zt_graph *g = zt_graph_create("gemms");
    const int h = gelu(g, "gelu1", gemm(g, "fc1", fused_input(g), true));
    return fused_output(g, gelu(g, "gelu2", gemm(g, "fc2", h, false)));
}

/* As some exporters write rows of two axes. */
static struct zt_graph *folded(void) {
    struct zt_graph *g = zt_graph_create("folded");
    const int64_t apart[] = { -1, 2, 4 }, flat[] = { -1, 4 }, wide[] = { -1, 2, 16 }, together[] = { -1, 32 };
    int h = NET(g, "Reshape", "apart", fused_input(g), zt_graph_add_ints(g, NULL, apart, 3));
    h = NET(g, "Reshape", "flat", h, zt_graph_add_ints(g, NULL, flat, 2));
    h = NET(g, "Gemm", "fc", h, param(g, "fc", "weight", SHAPE(4, 16)), param(g, "fc", "bias", SHAPE(16)));
    h = gelu(g, "gelu", NET(g, "Reshape", "wide", h, zt_graph_add_ints(g, NULL, wide, 3)));
    h = NET(g, "Reshape", "together", h, zt_graph_add_ints(g, NULL, together, 2));
    return fused_output(g, fused_product(g, "fc2", h, 32, 8));
}

/* c counts half. */
static struct zt_graph *halved(void) {
    struct zt_graph *g = zt_graph_create("halved");
    const int h = gemm(g, "fc", fused_input(g), true);
    zt_node_set_float(g, g->node_count - 1, "beta", 0.5F);
    return fused_output(g, gelu(g, "gelu", h));
}

static struct zt_graph *exact(void) {
    struct zt_graph *g = zt_graph_create("exact");
    return fused_output(g, NET(g, "Gelu", "gelu", linear(g, "fc", fused_input(g), 8, 8)));
}

/* A number a row, which is no bias. */
static struct zt_graph *shifted(void) {
    struct zt_graph *g = zt_graph_create("shifted");
    const int h = fused_product(g, "fc", fused_input(g), 8, 8);
    return fused_output(g, gelu(g, "gelu", NET(g, "Add", "add", h, net_param(g, "shift", SHAPE(4, 1)))));
}

/* The product has another reader besides the addition of its bias. */
static struct zt_graph *read_early(void) {
    struct zt_graph *g = zt_graph_create("read_early");
    const int z = linear(g, "fc", fused_input(g), 8, 8), product = zt_graph_find(g, "fc.product");
    return fused_output(g, NET(g, "Mul", "both", gelu(g, "gelu", z), product));
}

/* z is read beside Gelu, y by two layers. */
static struct zt_graph *read_late(void) {
    struct zt_graph *g = zt_graph_create("read_late");
    const int z = linear(g, "fc1", fused_input(g), 8, 8), y = gelu(g, "gelu", z);
    const int h = NET(g, "Add", "sum", fused_product(g, "fc2", y, 8, 8), fused_product(g, "fc3", y, 8, 8));
    return fused_output(g, NET(g, "Add", "skip", h, z));
}

/* Of two stages z is read on the second one too, over a layer. */
static struct zt_graph *skipping(void) {
    struct zt_graph *g = zt_graph_create("skipping");
    const int z = linear(g, "fc1", fused_input(g), 8, 8);
    int h = fused_product(g, "fc2", gelu(g, "gelu", z), 8, 8);
    h = fused_product(g, "fc4", fused_product(g, "fc3", h, 8, 8), 8, 8);
    return fused_output(g, NET(g, "Add", "skip", h, z));
}

/* ---- what is merged ---- */

/* "LinearGelu+z GeluGrad": what has to do with GELU, in order; what chains took in, too. */
static void list_nodes(const struct zt_graph *g, struct zt_text *to) {
    for (int n = 0; n < g->node_count; n++) {
        const struct zt_node *node = g->nodes[n];
        const struct zt_attr *steps = zt_node_attr(node, "steps");
        if (steps)
            list_nodes(steps->graph, to);
        else if (strstr(node->op_type, "Gelu"))
            zt_text_add(to, "%s%s%s", to->at ? " " : "", node->op_type, zt_out(g, n, 1) ? "+z" : "");
    }
}

static const struct fused merged = { fused_device, list_nodes, "'SGD', 'params': {'lr': 0.1}" };

START_TEST(products_take_gelu_in) {
    for (int bf16 = 0; bf16 < 2; bf16++) {
        const struct wish train = { .bf16 = bf16 }, evaluate = { .bf16 = bf16, .evaluation = true };
        fused_expect(&merged, flat(), train, "LinearGelu+z MatMulGeluGrad");
        fused_expect(&merged, flat(), evaluate, "LinearGelu");
        fused_expect(&merged, rows(), train, "LinearGelu+z MatMulGeluGrad");
        fused_expect(&merged, rows(), evaluate, "LinearGelu");
        fused_expect(&merged, folded(), train, "LinearGelu+z MatMulGeluGrad");
        fused_expect(&merged, folded(), evaluate, "LinearGelu");
        fused_expect(&merged, gemms(), train, "LinearGelu+z LinearGelu+z MatMulGeluGrad MatMulGeluGrad");
        fused_expect(&merged, gemms(), evaluate, "LinearGelu LinearGelu");
    }
}
END_TEST

START_TEST(gelu_by_erf_stays) {
    fused_expect(&merged, exact(), (struct wish){ 0 }, "Gelu GeluGrad");
    fused_expect(&merged, exact(), (struct wish){ .evaluation = true }, "Gelu");
}
END_TEST

START_TEST(what_is_no_bias_is_added_first) {
    fused_expect(&merged, shifted(), (struct wish){ 0 }, "Gelu MatMulGeluGrad");
    fused_expect(&merged, halved(), (struct wish){ 0 }, "Gelu MatMulGeluGrad");
}
END_TEST

START_TEST(what_others_read_is_made) {
    fused_expect(&merged, read_early(), (struct wish){ .evaluation = true }, "Gelu");
    fused_expect(&merged, read_late(), (struct wish){ .evaluation = true }, "LinearGelu+z");
    fused_expect(&merged, read_late(), (struct wish){ 0 }, "LinearGelu+z GeluGrad");
}
END_TEST

START_TEST(what_another_stage_reads_is_made) {
    static const char *const wanted[] = { "LinearGelu+z MatMulGeluGrad", "" };
    fused_expect_stages(&merged, skipping, "fc1", wanted);
}
END_TEST

/* ---- training ---- */

static struct zt_graph *(*const models[])(void) = { flat, rows, folded, gemms, read_late, skipping };
enum { MODELS = sizeof models / sizeof *models };

START_TEST(training_gives_the_same_losses) {
    for (const struct fused_layout *l = fused_layouts; l->ranks; l++) /* in bfloat16 z is rounded on one side alone */
        fused_expect_losses(&merged, models[_i], l, "linear_gelu*", "fused_elementwise", l->bf16 ? 5e-3 : 2e-6);
}
END_TEST

int main(int argc, char **argv) {
    zt_parallel_enter();
    fused_folder = argc > 1 ? argv[1] : NULL;
    TCase *test = tcase_create("gelu");
    tcase_add_test(test, products_take_gelu_in);
    tcase_add_test(test, gelu_by_erf_stays);
    tcase_add_test(test, what_is_no_bias_is_added_first);
    tcase_add_test(test, what_others_read_is_made);
    tcase_add_test(test, what_another_stage_reads_is_made);
    tcase_add_loop_test(test, training_gives_the_same_losses, 0, MODELS);
    return run_suite("gelu", test, CK_NOFORK);
}
