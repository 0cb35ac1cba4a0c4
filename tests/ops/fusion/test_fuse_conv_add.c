/* Sums and pools behind convolutions on the CPU, in whole programs: which become part of a convolution or of its
 * gradients, and that weights stay the same to the last bit. */
#include "tests/parallel/small_program.h"
#include "tests/suite.h"

#include <check.h>

/* ---- graphs: x [N, 12] -> ... -> y [N, 5] ---- */

static int planes(struct zt_graph *g) {
    const int64_t dims[] = { -1, 3, 2, 2 };
    const int x = net_input(g, "x", ZT_FLOAT, SHAPE(-1, 12));
    g->values[x]->dim_param[0] = "N";
    return NET(g, "Reshape", "planes", x, zt_graph_add_ints(g, NULL, dims, 4));
}

static int conv(struct zt_graph *g, const char *name, int x, int64_t channels, int64_t group) {
    static const int64_t pads[] = { 1, 1, 1, 1 };
    const int w = net_param(g, zt_arena_printf(g->arena, "%s.weight", name), SHAPE(6, channels / group, 3, 3));
    const int b = net_param(g, zt_arena_printf(g->arena, "%s.bias", name), SHAPE(6));
    const int y = NET(g, "Conv", name, x, w, b);
    zt_node_set_ints(g, g->node_count - 1, "pads", pads, 4);
    zt_node_set_int(g, g->node_count - 1, "group", group);
    return y;
}

static struct zt_graph *output(struct zt_graph *g, int h) {
    const int64_t dims[] = { -1, 24 };
    const int rows = NET(g, "Reshape", "rows", h, zt_graph_add_ints(g, NULL, dims, 2));
    return tiny_output(g, NET(g, "MatMul", "y", rows, net_param(g, "fc.weight", SHAPE(24, 5))));
}

/* h + conv(h) */
static struct zt_graph *block(int64_t group) {
    struct zt_graph *g = zt_graph_create("block");
    const int h = conv(g, "first", planes(g), 3, 1);
    return output(g, NET(g, "Add", "sum", h, conv(g, "second", h, 6, group)));
}
static struct zt_graph *residual(void) {
    return block(1);
}
static struct zt_graph *grouped(void) {
    return block(2);
}

/* Both sides of the sum are convolutions of one tensor. */
static struct zt_graph *branches(void) {
    struct zt_graph *g = zt_graph_create("branches");
    const int h = NET(g, "Tanh", "tanh", conv(g, "first", planes(g), 3, 1));
    return output(g, NET(g, "Add", "sum", conv(g, "left", h, 6, 1), conv(g, "right", h, 6, 1)));
}

/* The output of the convolution has a second reader, and the summand has one number per row. */
static struct zt_graph *shared(void) {
    struct zt_graph *g = zt_graph_create("shared");
    const int h = conv(g, "first", planes(g), 3, 1), c = conv(g, "second", NET(g, "Tanh", "tanh", h), 6, 1);
    const int sum = NET(g, "Add", "sum", NET(g, "Sigmoid", "sigmoid", c), c);
    return output(g, NET(g, "Add", "scaled", conv(g, "third", sum, 6, 1), net_param(g, "offset", SHAPE(1, 1, 2, 2))));
}

/* ReLU and a max pool behind a convolution of groups. */
static struct zt_graph *pooled(int64_t group) {
    static const int64_t sizes[] = { 2, 2 };
    const int64_t dims[] = { -1, 6 };
    struct zt_graph *g = zt_graph_create("pooled");
    const int h = NET(g, "Relu", "relu", conv(g, "second", conv(g, "first", planes(g), 3, 1), 6, group));
    const int pool = NET(g, "MaxPool", "pool", h);
    zt_node_set_ints(g, g->node_count - 1, "kernel_shape", sizes, 2);
    zt_node_set_ints(g, g->node_count - 1, "strides", sizes, 2);
    const int rows = NET(g, "Reshape", "rows", pool, zt_graph_add_ints(g, NULL, dims, 2));
    return tiny_output(g, NET(g, "MatMul", "y", rows, net_param(g, "fc.weight", SHAPE(6, 5))));
}

/* ---- tests ---- */

static void expect(struct zt_graph *graph, int forward, int backward) {
    struct small_program m;
    small_program_create(&m, graph, &(struct wish){ .ranks = 1, .stages = 1, .fast = true });
    ck_assert_int_eq(small_program_nodes(&m, "ConvAdd"), forward);
    ck_assert_int_eq(small_program_nodes(&m, "ConvGradInputAdd"), backward);
    small_program_finish(&m);
}

START_TEST(sums_become_part_of_convolutions) {
    expect(residual(), 1, 1);
    expect(branches(), 1, 1);
    expect(grouped(), 0, 0);
    expect(shared(), 0, 0);
}
END_TEST

/* A fused convolution of narrow groups would run oneDNN's reference kernel. */
START_TEST(pools_become_part_of_convolutions_of_one_group) {
    for (int64_t group = 1; group <= 2; group++) {
        struct small_program m;
        small_program_create(&m, pooled(group), &(struct wish){ .ranks = 1, .stages = 1, .fast = true });
        ck_assert_int_eq(small_program_nodes(&m, "ConvReluPool"), group == 1);
        ck_assert_int_eq(small_program_nodes(&m, "ConvReluPoolGrad"), group == 1);
        small_program_finish(&m);
    }
}
END_TEST

START_TEST(weights_stay_the_same) {
    static struct zt_graph *(*const graphs[])(void) = { residual, branches, grouped, shared };
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        const uint64_t alone = learn_fused(graphs[i](), "", "", 1).hash;
        ck_assert_uint_eq(learn_fused(graphs[i](), "'conv_add'", "", 1).hash, alone);
        const char *parts = ", 'train_micro_batch_size_per_gpu': 2, 'zero_optimization': {'stage': 2}";
        ck_assert_uint_eq(learn_fused(graphs[i](), "'conv_add'", parts, 2).hash,
                          learn_fused(graphs[i](), "", parts, 2).hash);
    }
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("conv_add");
    tcase_add_test(cases, sums_become_part_of_convolutions);
    tcase_add_test(cases, pools_become_part_of_convolutions_of_one_group);
    tcase_add_test(cases, weights_stay_the_same);
    return run_suite("conv_add", cases, CK_NOFORK);
}
