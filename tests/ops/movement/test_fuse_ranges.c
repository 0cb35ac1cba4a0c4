/* Ranges of parameters that Concat joins are copied once on the CPU, in whole programs: which are, and that weights
 * stay the same to the last bit. */
#include "tests/parallel/small_program.h"
#include "tests/suite.h"

#include <check.h>

static int part(struct zt_graph *g, const char *name, int x, const int64_t bounds[3]) {
    const int from = zt_graph_add_ints(g, NULL, &bounds[0], 1), to = zt_graph_add_ints(g, NULL, &bounds[1], 1);
    return NET(g, "Slice", name, x, from, to, zt_graph_add_ints(g, NULL, &bounds[2], 1));
}

static int joined(struct zt_graph *g, int y, int axis) {
    zt_node_set_int(g, g->node_count - 1, "axis", axis);
    return y;
}

static int reshaped(struct zt_graph *g, const char *name, int x, int64_t rows, int64_t columns) {
    const int64_t dims[] = { rows, columns };
    return NET(g, "Reshape", name, x, zt_graph_add_ints(g, NULL, dims, 2));
}

/* x w, w [12, 5] of the parameters a and b as exporters write recurrent weights: parts of a in another order, then b.
 * `axis` 0: of a [8, 5] and b [4, 5]; 1, where no range is adjacent: of a [12, 3] and b [12, 2]. `again`: a part is
 * read by another node too. */
static struct zt_graph *graph_of(int axis, bool again) {
    struct zt_graph *g = zt_graph_create("ranges");
    const int x = net_input(g, "x", ZT_FLOAT, SHAPE(-1, 12));
    g->values[x]->dim_param[0] = "N";
    const int a = net_param(g, "a.weight", axis ? SHAPE(12, 3) : SHAPE(8, 5));
    const int b = net_param(g, "b.weight", axis ? SHAPE(12, 2) : SHAPE(4, 5));
    const int64_t first = axis ? 1 : 3, second = axis ? 2 : 4, end = axis ? 3 : 8;
    const int head = part(g, "head", a, (int64_t[]){ 0, first, axis });
    const int middle = part(g, "middle", a, (int64_t[]){ first, second, axis });
    const int tail = part(g, "tail", a, (int64_t[]){ second, end, axis });
    const int turned = joined(g, NET(g, "Concat", "turned", tail, head, middle), axis);
    const int view = reshaped(g, "view", turned, axis ? 12 : 8, axis ? 3 : 5);
    const int y = NET(g, "MatMul", "product", x, joined(g, NET(g, "Concat", "whole", view, b), axis));
    return tiny_output(g, again ? NET(g, "Add", "y", y, NET(g, "ReduceMean", "mean", head)) : y);
}

static void expect(struct zt_graph *graph, int ranges, int concats, int splits) {
    struct small_program m;
    small_program_create(&m, graph, &(struct wish){ .ranks = 1, .stages = 1, .fast = true });
    ck_assert_int_eq(small_program_nodes(&m, "JoinRanges"), ranges);
    ck_assert_int_eq(small_program_nodes(&m, "Concat"), concats);
    ck_assert_int_eq(small_program_nodes(&m, "Split"), splits);
    small_program_finish(&m);
}

START_TEST(adjacent_elements_of_parameters_and_their_gradients_are_copied_once) {
    expect(graph_of(0, false), 2, 0, 0); /* w, and the gradient of a */
    expect(graph_of(0, true), 2, 0, 1);
    expect(graph_of(1, false), 0, 3, 1);
}
END_TEST

START_TEST(weights_stay_the_same) {
    for (int form = 0; form < 4; form++)
        ck_assert_uint_eq(learn_fused(graph_of(form / 2, form % 2), "'ranges'", "", 1).hash,
                          learn_fused(graph_of(form / 2, form % 2), "", "", 1).hash);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("ranges");
    tcase_add_test(cases, adjacent_elements_of_parameters_and_their_gradients_are_copied_once);
    tcase_add_test(cases, weights_stay_the_same);
    return run_suite("ranges", cases, CK_NOFORK);
}
