/* Gradients of ReduceMax and ReduceMin as one node on the CPU, in whole programs: which are, and that weights stay the
 * same to the last bit. */
#include "tests/parallel/small_program.h"
#include "tests/suite.h"

#include <check.h>

/* x [N, 12] -> planes [N, 3, 2, 2] -> convolution with `channels`, whose ReLU makes ties -> the reduction -> y [N, 5]
 */
struct form {
    const char *op;
    int64_t channels, axes[3];
    int count;     /* of axes */
    int keeps;     /* keepdims */
    int64_t width; /* results of a sample */
    int fused;
};

static struct zt_graph *graph_of(const struct form *f) {
    static const int64_t pads[] = { 1, 1, 1, 1 }, planes[] = { -1, 3, 2, 2 };
    struct zt_graph *g = zt_graph_create("extreme");
    const int x = net_input(g, "x", ZT_FLOAT, SHAPE(-1, 12));
    g->values[x]->dim_param[0] = "N";
    const int image = NET(g, "Reshape", "planes", x, zt_graph_add_ints(g, NULL, planes, 4));
    const int w = net_param(g, "conv.weight", SHAPE(f->channels, 3, 3, 3));
    const int b = net_param(g, "conv.bias", SHAPE(f->channels));
    const int y = NET(g, "Conv", "conv", image, w, b);
    zt_node_set_ints(g, g->node_count - 1, "pads", pads, 4);
    const int axes = zt_graph_add_ints(g, NULL, f->axes, f->count);
    const int most = NET(g, f->op, "most", NET(g, "Relu", "relu", y), axes);
    zt_node_set_int(g, g->node_count - 1, "keepdims", f->keeps);
    const int64_t dims[] = { -1, f->width };
    const int rows = NET(g, "Reshape", "rows", most, zt_graph_add_ints(g, NULL, dims, 2));
    return tiny_output(g, NET(g, "MatMul", "y", rows, net_param(g, "fc.weight", SHAPE(f->width, 5))));
}

static const struct form forms[] = {
    { "ReduceMax", 16, { 2, 3 }, 2, 0, 16, 1 },   /* whole blocks */
    { "ReduceMax", 21, { 2, 3 }, 2, 0, 21, 1 },   /* a block of which 5 channels are used */
    { "ReduceMin", 21, { -1, -2 }, 2, 1, 21, 1 }, /* all ties where a channel is never positive */
    { "ReduceMax", 6, { 3 }, 1, 0, 12, 1 },       /* rows */
    { "ReduceMax", 6, { 1 }, 1, 0, 4, 1 },        /* side by side */
    { "ReduceMax", 6, { 1, 2, 3 }, 3, 0, 1, 1 },  { "ReduceMax", 6, { 1, 3 }, 2, 0, 2, 0 },
};

START_TEST(gradients_of_adjacent_axes_become_one_node) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct small_program m;
        small_program_create(&m, graph_of(&forms[i]), &(struct wish){ .ranks = 1, .stages = 1, .fast = true });
        ck_assert_int_eq(small_program_nodes(&m, "ReduceExtremeGrad"), forms[i].fused);
        ck_assert_int_eq(small_program_nodes(&m, "Equal"), !forms[i].fused);
        small_program_finish(&m);
    }
}
END_TEST

START_TEST(weights_stay_the_same) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        ck_assert_uint_eq(learn_fused(graph_of(&forms[i]), "'extreme_grad'", "", 1).hash,
                          learn_fused(graph_of(&forms[i]), "", "", 1).hash);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("extreme_grad");
    tcase_add_test(cases, gradients_of_adjacent_axes_become_one_node);
    tcase_add_test(cases, weights_stay_the_same);
    return run_suite("extreme_grad", cases, CK_NOFORK);
}
