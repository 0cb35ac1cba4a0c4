/* Slices that cut one tensor into parts: when they become a Split, and that the parts are the same. */
#include "graph/passes/eval.h"
#include "graph/passes/fusion/apply_patterns.h"
#include "ops/table.h"
#include "tests/graph/net.h"
#include "tests/suite.h"

#include <stdlib.h>
#include <string.h>

#include "tests/graph/fixture.h"

enum { MOST = 3000 };

static int x, outputs[MOST], count;

static void make(void) {
    make_graph();
    x = net_input(g, "x", ZT_FLOAT, SHAPE(3, 20));
    count = 0;
}

/* x[:, from:to:step], an output of the graph. */
static void part(int64_t from, int64_t to, int64_t axis, int64_t step) {
    const int64_t numbers[4] = { from, to, axis, step };
    int in[4];
    for (int i = 0; i < 4; i++)
        in[i] = zt_graph_add_ints(g, NULL, &numbers[i], 1);
    outputs[count] = NET(g, "Slice", zt_arena_printf(g->arena, "part %d", count), x, in[0], in[1], in[2], in[3]);
    count++;
}

/* Computes all of a graph; the data live as long as the result. */
static struct zt_eval *compute(struct zt_graph *of) {
    const int64_t n = zt_shape_count(&of->values[x]->shape);
    float *data = ZT_NEW_N(of->arena, float, n);
    for (int64_t i = 0; i < n; i++)
        data[i] = (float)i / 7;
    struct zt_eval *eval = zt_eval_create(of, NULL, 1);
    zt_eval_feed(eval, x, &(struct zt_tensor){ ZT_FLOAT, of->values[x]->shape, data });
    ck_assert_msg(zt_eval_run(eval, 0, of->node_count, &err), "%s", err.text[0]);
    return eval;
}

/* Applies the pattern: so many Splits and Slices are there, and each part is what it was. */
static void becomes(int splits, int slices) {
    const char *name = "slices";
    const struct zt_fusion only = { zt_patterns, &name, 1 };
    g->outputs = zt_arena_copy(g->arena, outputs, (size_t)count * sizeof *outputs);
    g->output_count = count;
    net_infer(g, &zt_ops);
    struct zt_graph *plain = zt_graph_clone(g);
    ck_assert_msg(zt_pass_fuse(g, &zt_ops, &(struct zt_fuse_options){ &only, ZT_FUSE_FORWARD, NULL, NULL }, &err), "%s",
                  err.text[0]);
    ck_assert_int_eq(count_ops("Split", -1), splits);
    ck_assert_int_eq(count_ops("Slice", -1), slices);
    struct zt_eval *have = compute(g), *wanted = compute(plain);
    for (int i = 0; i < count; i++) {
        const struct zt_value *a = g->values[outputs[i]], *b = plain->values[outputs[i]];
        ck_assert(zt_shape_equal(&a->shape, &b->shape));
        ck_assert_mem_eq(a->data, b->data, (size_t)zt_value_bytes(b));
    }
    zt_eval_destroy(have);
    zt_eval_destroy(wanted);
    zt_graph_destroy(plain);
}

START_TEST(equal_parts_become_one_split) {
    for (int k = 9; k >= 0; k--)
        part(k % 2 ? 2 * k : 2 * k - 20, 2 * k + 2, k % 3 ? 1 : -1, 1);
    becomes(1, 0);
}
END_TEST

START_TEST(parts_of_other_sizes_become_one_split) {
    const int64_t ends[9] = { 0, 1, 4, 5, 9, 10, 13, 17, 40 };
    for (int k = 0; k < 8; k++)
        part(ends[k], ends[k + 1], 1, 1);
    becomes(1, 0);
}
END_TEST

/* More than one Split makes: Splits of groups. */
START_TEST(thousands_of_parts_become_splits_of_groups) {
    g->values[x]->shape.dim[0] = 1;
    g->values[x]->shape.dim[1] = 3000;
    for (int k = 0; k < 3000; k++)
        part(k, k + 1, 1, 1);
    becomes(4, 0);
}
END_TEST

START_TEST(two_parts_become_one_split) {
    part(8, 20, 1, 1);
    part(0, 8, 1, 1);
    becomes(1, 0);
}
END_TEST

START_TEST(a_slice_that_is_the_whole_stays) {
    part(0, 20, 1, 1);
    becomes(0, 1);
}
END_TEST

START_TEST(parts_with_a_gap_or_an_overlap_stay) {
    for (int k = 0; k < 10; k++)
        part(2 * k + (k == 4), 2 * k + 2, 1, 1);
    becomes(0, 10);
}
END_TEST

START_TEST(slices_with_steps_stay) {
    for (int k = 0; k < 10; k++)
        part(2 * k, 2 * k + 2, 1, k == 3 ? 2 : 1);
    becomes(0, 10);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("fuse slices");
    tcase_add_checked_fixture(cases, make, destroy_graph);
    tcase_add_test(cases, equal_parts_become_one_split);
    tcase_add_test(cases, parts_of_other_sizes_become_one_split);
    tcase_add_test(cases, thousands_of_parts_become_splits_of_groups);
    tcase_add_test(cases, two_parts_become_one_split);
    tcase_add_test(cases, a_slice_that_is_the_whole_stays);
    tcase_add_test(cases, parts_with_a_gap_or_an_overlap_stay);
    tcase_add_test(cases, slices_with_steps_stay);
    return run_suite("fuse slices", cases, CK_NOFORK);
}
