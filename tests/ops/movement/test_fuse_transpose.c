/* Transposes that meet: how many are left, and the same bits as without the pattern. */
#include "graph/passes/eval.h"
#include "graph/passes/fusion/apply_patterns.h"
#include "ops/table.h"
#include "tests/graph/net.h"
#include "tests/suite.h"

#include <string.h>

#include "tests/graph/fixture.h"

static int transposed(const char *name, int value, const int64_t *perm) {
    int y = NET(g, "Transpose", name, value);
    zt_node_set_ints(g, g->node_count - 1, "perm", perm, 4);
    return y;
}
static const int64_t to_first[4] = { 0, 3, 1, 2 }, to_last[4] = { 0, 2, 3, 1 };

static int conv(const char *name, int x, const char *w, int64_t out, int64_t in) {
    return NET(g, "Conv", name, x, net_param(g, w, SHAPE(out, in, 1, 1)));
}

static int output(int value) {
    g->outputs = zt_arena_copy(g->arena, &value, sizeof value);
    g->output_count = 1;
    return value;
}

/* A copy of what the graph computes for inputs that are a function of the index. */
static float *compute(struct zt_graph *of, int value, int64_t *count) {
    struct zt_eval *eval = zt_eval_create(of, NULL, 1);
    for (int v = 0; v < of->value_count; v++) {
        if (of->values[v]->origin != ZT_FROM_INPUT)
            continue;
        int64_t n = zt_shape_count(&of->values[v]->shape);
        float *data = ZT_NEW_N(of->arena, float, n);
        for (int64_t i = 0; i < n; i++)
            data[i] = (float)((i * 37 + 11) % 101 - 50) / 23;
        zt_eval_feed(eval, v, &(struct zt_tensor){ ZT_FLOAT, of->values[v]->shape, data });
    }
    ck_assert_msg(zt_eval_run(eval, 0, of->node_count, &err), "%s", err.text[0]);
    *count = zt_shape_count(&of->values[value]->shape);
    float *copy = zt_arena_copy(of->arena, of->values[value]->data, (size_t)*count * sizeof *copy);
    zt_eval_destroy(eval);
    return copy;
}

/* Applies the pattern: so many Transposes are left, and the output has the same bits as before. */
static void leaves(int y, int transposes) {
    const char *name = "transpose";
    const struct zt_fusion only = { zt_patterns, &name, 1 };
    output(y);
    net_infer(g, &zt_ops);
    struct zt_graph *plain = zt_graph_clone(g);
    ck_assert_msg(zt_pass_fuse(g, &zt_ops, &(struct zt_fuse_options){ &only, ZT_FUSE_FORWARD, NULL, NULL }, &err), "%s",
                  err.text[0]);
    ck_assert(zt_graph_prune(g, g->outputs, 1, &err));
    int count = 0;
    for (int n = 0; n < g->node_count; n++)
        count += strcmp(g->nodes[n]->op_type, "Transpose") == 0;
    ck_assert_int_eq(count, transposes);
    int64_t have, wanted;
    const float *a = compute(g, g->outputs[0], &have), *b = compute(plain, y, &wanted);
    ck_assert_int_eq(have, wanted);
    ck_assert(zt_shape_equal(&g->values[g->outputs[0]]->shape, &plain->values[y]->shape));
    ck_assert_mem_eq(a, b, (size_t)have * sizeof *a);
    zt_graph_destroy(plain);
}

/* tf2onnx: Transpose, Conv, Transpose, then bias and ReLU in NHWC, and again. */
static int layer(const char *const name[6], int x, int64_t out, int64_t in) {
    int y = transposed(name[2], conv(name[1], transposed(name[0], x, to_first), name[3], out, in), to_last);
    return NET(g, "Relu", name[5],
               NET(g, "Add", name[4], y, net_param(g, zt_arena_printf(g->arena, "%s bias", name[1]), SHAPE(out))));
}

START_TEST(layers_in_nhwc_keep_the_two_at_the_ends) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(2, 5, 6, 3));
    int a = layer((const char *const[6]){ "a1", "a2", "a3", "a4", "a5", "a6" }, x, 4, 3);
    int b = layer((const char *const[6]){ "b1", "b2", "b3", "b4", "b5", "b6" }, a, 5, 4);
    leaves(layer((const char *const[6]){ "c1", "c2", "c3", "c4", "c5", "c6" }, b, 2, 5), 2);
}
END_TEST

START_TEST(a_residual_sum_lets_them_through) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(2, 5, 6, 3));
    int a = layer((const char *const[6]){ "a1", "a2", "a3", "a4", "a5", "a6" }, x, 3, 3);
    int b = layer((const char *const[6]){ "b1", "b2", "b3", "b4", "b5", "b6" }, a, 3, 3);
    int sum = NET(g, "Add", "sum", a, b);
    leaves(layer((const char *const[6]){ "c1", "c2", "c3", "c4", "c5", "c6" }, sum, 2, 3), 2);
}
END_TEST

START_TEST(a_concatenation_lets_them_through) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(2, 3, 5, 6));
    int a = transposed("a", conv("ca", x, "wa", 2, 3), to_last),
        b = transposed("b", conv("cb", x, "wb", 4, 3), to_last);
    int both = NET(g, "Concat", "both", a, b);
    zt_node_set_int(g, g->node_count - 1, "axis", -1);
    leaves(conv("y", transposed("back", both, to_first), "wy", 2, 6), 0);
}
END_TEST

START_TEST(scalars_and_vectors_of_any_rank_go_along) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(2, 3, 5, 6));
    int a = NET(g, "Mul", "a", zt_graph_add_float(g, "two", ZT_FLOAT, 2), transposed("t", x, to_last));
    int b = NET(g, "Sub", "b", net_param(g, "rows", SHAPE(5, 1, 1)), a);
    int c = NET(g, "Max", "c", b, net_param(g, "batch", SHAPE(2, 1, 1, 1)), net_param(g, "last", SHAPE(3)));
    leaves(transposed("back", c, to_first), 0);
}
END_TEST

START_TEST(two_become_one) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(2, 3, 5, 6));
    leaves(transposed("b", NET(g, "Relu", "r", transposed("a", x, to_last)), to_last), 1);
}
END_TEST

/* The node over `axes` of a Transpose's result. */
static int reduced(const char *op, int x, const int64_t *perm, const int64_t *axes, int count) {
    return NET(g, op, "y", transposed("t", x, perm), zt_graph_add_ints(g, NULL, axes, count));
}

START_TEST(reductions_take_their_axes_from_the_input) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(2, 3, 5, 6));
    int y = reduced("ReduceMax", x, to_last, (const int64_t[]){ 1, -2 }, 2); /* to 2, 3 */
    zt_node_set_int(g, g->node_count - 1, "keepdims", 0);
    leaves(y, 0);
}
END_TEST

START_TEST(other_axes_of_a_reduction_keep_their_order) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(2, 3, 5, 6));
    int y = reduced("ReduceMin", x, to_last, (const int64_t[]){ 0 }, 1); /* to 5, 6, 3 */
    zt_node_set_int(g, g->node_count - 1, "keepdims", 0);
    leaves(y, 1);
}
END_TEST

START_TEST(axes_of_1_are_transposed) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(2, 3, 5, 6));
    leaves(reduced("ReduceMax", x, to_first, (const int64_t[]){ 1 }, 1), 1);
}
END_TEST

static int gathered(int64_t at, int rank) {
    static const int64_t turn[4] = { 1, 0, 2, 3 };
    const struct zt_shape shape = { .rank = rank, .dim = { 1 } };
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(2, 3, 5, 6));
    int index = zt_graph_add_constant(g, "index", ZT_INT64, &shape, &at);
    int y = NET(g, "Gather", "y", transposed("t", x, turn), index);
    zt_node_set_int(g, g->node_count - 1, "axis", 1);
    return y;
}

START_TEST(one_index_is_gathered_from_the_input) {
    leaves(gathered(-1, 0), 0);
}
END_TEST

START_TEST(a_list_of_indices_is_not) {
    leaves(gathered(-1, 1), 1);
}
END_TEST

START_TEST(what_is_read_elsewhere_or_is_no_vector_stays) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(2, 3, 5, 6)), t = transposed("t", x, to_last);
    int full = NET(g, "Add", "full", t, net_param(g, "w", SHAPE(5, 6, 3)));
    int twice = NET(g, "Mul", "twice", NET(g, "Relu", "r", transposed("u", x, to_last)), full);
    leaves(NET(g, "Softmax", "y", twice), 2);
}
END_TEST

START_TEST(an_output_that_is_an_input_turned_twice_is_still_made) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(2, 3, 5, 6));
    leaves(transposed("b", transposed("a", x, to_last), to_first), 0);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("fuse transpose");
    tcase_add_checked_fixture(cases, make_graph, destroy_graph);
    tcase_add_test(cases, layers_in_nhwc_keep_the_two_at_the_ends);
    tcase_add_test(cases, a_residual_sum_lets_them_through);
    tcase_add_test(cases, a_concatenation_lets_them_through);
    tcase_add_test(cases, scalars_and_vectors_of_any_rank_go_along);
    tcase_add_test(cases, two_become_one);
    tcase_add_test(cases, reductions_take_their_axes_from_the_input);
    tcase_add_test(cases, other_axes_of_a_reduction_keep_their_order);
    tcase_add_test(cases, axes_of_1_are_transposed);
    tcase_add_test(cases, one_index_is_gathered_from_the_input);
    tcase_add_test(cases, a_list_of_indices_is_not);
    tcase_add_test(cases, what_is_read_elsewhere_or_is_no_vector_stays);
    tcase_add_test(cases, an_output_that_is_an_input_turned_twice_is_still_made);
    return run_suite("fuse transpose", cases, CK_NOFORK);
}
