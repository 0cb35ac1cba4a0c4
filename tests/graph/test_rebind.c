/* Graphs exported with a fixed batch, inferred at another. Whole models: check_fixed_batch.py. */
#include "net.h"
#include "tests/suite.h"

#include "graph/passes/infer.h"
#include "graph/passes/rebind.h"
#include "ops/table.h"

#include <string.h>

#include "tests/graph/fixture.h"

enum { LIMIT = 1 << 20 };

static struct zt_graph *exported, *reference;

static void make(void) {
    make_graph();
    exported = reference = NULL;
}

static void destroy(void) {
    zt_graph_destroy(reference);
    zt_graph_destroy(exported);
    destroy_graph();
}

static int ints(const int64_t *values, int count) {
    return zt_graph_add_ints(g, NULL, values, count);
}
#define INTS(...) ints((int64_t[]){ __VA_ARGS__ }, (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)))

static int with_axis(int node_value, int64_t axis) {
    zt_node_set_int(g, g->node_count - 1, "axis", axis);
    return node_value;
}

/* Infers at the batch of the inputs, then at `to`. */
static bool rebind(int64_t to) {
    int64_t from = g->values[zt_graph_find(g, "x")]->shape.dim[0];
    for (int n = 0; n < g->node_count; n++)
        ck_assert_msg(zt_op_resolve(&zt_ops, g, n, &err), "%s", err.text[0]);
    exported = zt_graph_clone(g);
    reference = zt_graph_clone(exported);
    ck_assert_msg(zt_pass_infer(reference, LIMIT, &err), "%s", err.text[0]);
    g->values[zt_graph_find(g, "x")]->shape.dim[0] = to;
    return zt_pass_rebind(g, &(struct zt_rebinding){ exported, reference, from, to, NULL, LIMIT }, &err);
}

static void shape_is(const char *value, const struct zt_shape *wanted) {
    char have[ZT_SHAPE_TEXT];
    const struct zt_shape *shape = &g->values[zt_graph_find(g, value)]->shape;
    ck_assert_msg(zt_shape_equal(shape, wanted), "%s is %s", value, zt_shape_text(shape, have));
}

#define REBINDS(to) ck_assert_msg(rebind(to), "%s", err.text[0])

static void refused(int64_t to, const char *node, const char *words) {
    ck_assert(!rebind(to));
    ck_assert_msg(strstr(err.text[0], node) && strstr(err.text[0], words), "%s", err.text[0]);
}

START_TEST(the_batch_is_merged_and_taken_apart_again) {
    for (int64_t from = 1; from <= 8; from += 7) {
        destroy();
        make();
        int x = net_input(g, "x", ZT_FLOAT, SHAPE(from, 3, 4));
        int flat = NET(g, "Reshape", "flat", x, INTS(3 * from, 4));
        NET(g, "Reshape", "back", NET(g, "Relu", "relu", flat), INTS(from, 12));
        REBINDS(5);
        shape_is("flat", SHAPE(15, 4));
        shape_is("back", SHAPE(5, 12));
    }
}
END_TEST

START_TEST(the_batch_may_stand_behind_the_time) {
    for (int64_t from = 1; from <= 8; from += 7) {
        destroy();
        make();
        int x = net_input(g, "x", ZT_FLOAT, SHAPE(from, 3, 4)), first = NET(g, "Transpose", "first", x);
        zt_node_set_ints(g, g->node_count - 1, "perm", (int64_t[]){ 1, 0, 2 }, 3);
        int flat = NET(g, "Reshape", "flat", first, INTS(-1, 4));
        NET(g, "Reshape", "back", NET(g, "Relu", "relu", flat), INTS(3, from, 2, 2));
        REBINDS(5);
        shape_is("flat", SHAPE(15, 4));
        shape_is("back", SHAPE(3, 5, 2, 2));
    }
}
END_TEST

START_TEST(an_axis_as_large_as_the_batch_is_left_alone) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(8, 8, 4)), w = net_param(g, "w", SHAPE(8, 8));
    NET(g, "Reshape", "y", x, INTS(8, 8, 2, 2));
    NET(g, "Reshape", "v", w, INTS(8, 4, 2));
    REBINDS(16);
    shape_is("y", SHAPE(16, 8, 2, 2));
    shape_is("v", SHAPE(8, 4, 2));
}
END_TEST

START_TEST(what_the_shape_says_itself_is_not_touched) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(4, 6, 4)), size = NET(g, "Shape", "size", x);
    int n = NET(g, "Gather", "n", size, INTS(0)),
        wanted = with_axis(NET(g, "Concat", "wanted", INTS(6), n, INTS(4)), 0);
    NET(g, "Reshape", "y", x, wanted);
    REBINDS(6);
    shape_is("y", SHAPE(6, 6, 4));
}
END_TEST

START_TEST(a_token_is_expanded_to_the_new_batch) {
    for (int64_t from = 1; from <= 8; from += 7) {
        destroy();
        make();
        int x = net_input(g, "x", ZT_FLOAT, SHAPE(from, 3, 4)), token = net_param(g, "token", SHAPE(1, 1, 4));
        int many = NET(g, "Expand", "many", token, INTS(from, 1, 4));
        with_axis(NET(g, "Concat", "y", NET(g, "Relu", "relu", many), x), 1);
        REBINDS(5);
        shape_is("many", SHAPE(5, 1, 4));
        shape_is("y", SHAPE(5, 4, 4));
    }
}
END_TEST

START_TEST(repeats_follow_the_batch) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(8, 3, 4)), token = net_param(g, "token", SHAPE(1, 8, 4));
    with_axis(NET(g, "Concat", "y", NET(g, "Tile", "many", token, INTS(8, 1, 1)), x), 1);
    REBINDS(5);
    shape_is("y", SHAPE(5, 11, 4));
}
END_TEST

static int constant(const char *name, bool equal) {
    float data[8][4];
    for (int i = 0; i < 32; i++)
        data[i / 4][i % 4] = (float)(equal ? i % 4 : i);
    return zt_graph_add_constant(g, name, ZT_FLOAT, SHAPE(8, 1, 4), data);
}

START_TEST(constants_of_equal_slices_are_stretched) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(8, 3, 4));
    with_axis(NET(g, "Concat", "y", constant("c", true), x, constant("d", true)), 1);
    REBINDS(9);
    shape_is("y", SHAPE(9, 5, 4));
    const struct zt_value *c = zt_in(g, 0, 0);
    for (int i = 0; i < 36; i++)
        ck_assert(((const float *)c->data)[i] == (float)(i % 4));
}
END_TEST

/* Sums that are started from constants of zeros with a row for every step of every sample. */
START_TEST(equal_constants_of_a_multiple_of_the_batch_are_stretched_together) {
    const float zeros[24][4] = { { 0 } };
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(8, 3, 4)), flat = NET(g, "Reshape", "flat", x, INTS(-1, 4));
    int first = zt_graph_add_constant(g, "first", ZT_FLOAT, SHAPE(24, 4), zeros);
    int second = zt_graph_add_constant(g, "second", ZT_FLOAT, SHAPE(24, 4), zeros);
    int sum = NET(g, "Add", "sum", NET(g, "Add", "start", first, second), flat);
    NET(g, "Reshape", "y", sum, INTS(8, 3, 4));
    REBINDS(5);
    shape_is("start", SHAPE(15, 4));
    shape_is("y", SHAPE(5, 3, 4));
}
END_TEST

/* The mean over the positive ones of the steps' sums, taken off each step: NonZero's size is known in a step only. */
START_TEST(sizes_that_depend_on_data_are_compared_at_their_largest) {
    const float zero = 0;
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(8, 3, 4)), flat = NET(g, "Reshape", "flat", x, INTS(24, 4));
    int sums = NET(g, "ReduceSum", "sums", flat, INTS(1));
    int at = NET(g, "NonZero", "at",
                 NET(g, "Greater", "positive", sums,
                     zt_graph_add_constant(g, "zero", ZT_FLOAT, &(struct zt_shape){ 0 }, &zero)));
    int rows = NET(g, "GatherND", "rows", sums, NET(g, "Transpose", "places", at));
    int mean = NET(g, "ReduceMean", "mean", NET(g, "Reshape", "column", rows, INTS(-1, 1)));
    NET(g, "Reshape", "y", NET(g, "Sub", "centred", flat, mean), INTS(8, 3, 4));
    REBINDS(5);
    shape_is("flat", SHAPE(15, 4));
    shape_is("mean", SHAPE(1, 1));
    shape_is("y", SHAPE(5, 3, 4));
}
END_TEST

START_TEST(constants_of_unlike_slices_fix_the_batch) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(8, 3, 4));
    with_axis(NET(g, "Concat", "y", constant("c", false), x), 1);
    refused(9, "y (Concat)", "\"c\"");
}
END_TEST

START_TEST(indices_of_the_exported_batch_fix_it) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(4, 3));
    with_axis(NET(g, "Gather", "y", x, INTS(3, 2, 1, 0)), 0);
    refused(9, "y (Gather)", "fixes the batch");
}
END_TEST

START_TEST(a_constant_that_broadcasts_over_one_sample_fixes_the_batch) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(8, 1, 4));
    NET(g, "Add", "y", x, constant("c", false));
    refused(1, "y (Add)", "fixes the batch");
}
END_TEST

START_TEST(a_squeeze_of_one_sample_fixes_the_batch) {
    NET(g, "Squeeze", "y", net_input(g, "x", ZT_FLOAT, SHAPE(1, 3, 4)));
    refused(2, "y (Squeeze)", "fixes the batch");
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("rebind");
    tcase_add_checked_fixture(cases, make, destroy);
    tcase_add_test(cases, the_batch_is_merged_and_taken_apart_again);
    tcase_add_test(cases, the_batch_may_stand_behind_the_time);
    tcase_add_test(cases, an_axis_as_large_as_the_batch_is_left_alone);
    tcase_add_test(cases, what_the_shape_says_itself_is_not_touched);
    tcase_add_test(cases, a_token_is_expanded_to_the_new_batch);
    tcase_add_test(cases, repeats_follow_the_batch);
    tcase_add_test(cases, constants_of_equal_slices_are_stretched);
    tcase_add_test(cases, equal_constants_of_a_multiple_of_the_batch_are_stretched_together);
    tcase_add_test(cases, sizes_that_depend_on_data_are_compared_at_their_largest);
    tcase_add_test(cases, constants_of_unlike_slices_fix_the_batch);
    tcase_add_test(cases, indices_of_the_exported_batch_fix_it);
    tcase_add_test(cases, a_constant_that_broadcasts_over_one_sample_fixes_the_batch);
    tcase_add_test(cases, a_squeeze_of_one_sample_fixes_the_batch);
    return run_suite("rebind", cases, CK_FORK);
}
