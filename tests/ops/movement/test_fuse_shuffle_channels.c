/* A Transpose of two parts of the channels between two Reshapes becomes one node on the CPU, and its gradient another:
 * which do, and that weights stay the same to the last bit. */
#include "tests/parallel/small_program.h"
#include "tests/suite.h"

#include <check.h>

static int reshaped(struct zt_graph *g, const char *name, int x, const int64_t *dims, int rank) {
    return NET(g, "Reshape", name, x, zt_graph_add_ints(g, NULL, dims, rank));
}

/* Channels of [N, 8, 2, 2] in 2 groups, exchanged by `perm`, between two products. */
static struct zt_graph *graph_of(const int64_t perm[5]) {
    static const int64_t whole[] = { 0, 8, 2, 2 }, parts[] = { 0, 2, 4, 2, 2 }, rows[] = { 0, 32 };
    struct zt_graph *g = zt_graph_create("shuffle");
    const int x = net_input(g, "x", ZT_FLOAT, SHAPE(-1, 12));
    g->values[x]->dim_param[0] = "N";
    const int a = net_param(g, "a.weight", SHAPE(12, 32)), b = net_param(g, "b.weight", SHAPE(32, 5));
    const int channels = reshaped(g, "channels", NET(g, "MatMul", "first", x, a), whole, 4);
    const int turned = NET(g, "Transpose", "turned", reshaped(g, "parts", channels, parts, 5));
    zt_node_set_ints(g, g->node_count - 1, "perm", perm, 5);
    const int y = reshaped(g, "rows", reshaped(g, "back", turned, whole, 4), rows, 2);
    return tiny_output(g, NET(g, "MatMul", "second", y, b));
}

static const int64_t exchanged[] = { 0, 2, 1, 3, 4 }, others[] = { 0, 2, 1, 4, 3 };

static int shuffles_of(struct zt_graph *graph) {
    struct small_program m;
    small_program_create(&m, graph, &(struct wish){ .ranks = 1, .stages = 1, .fast = true });
    const int found = small_program_nodes(&m, "ShuffleChannels");
    small_program_finish(&m);
    return found;
}

START_TEST(the_exchange_and_its_gradient_are_a_node_each) {
    ck_assert_int_eq(shuffles_of(graph_of(exchanged)), 2);
    ck_assert_int_eq(shuffles_of(graph_of(others)), 0);
}
END_TEST

START_TEST(weights_stay_the_same) {
    ck_assert_uint_eq(learn_fused(graph_of(exchanged), "'shuffle_channels'", "", 1).hash,
                      learn_fused(graph_of(exchanged), "", "", 1).hash);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("shuffle channels");
    tcase_add_test(cases, the_exchange_and_its_gradient_are_a_node_each);
    tcase_add_test(cases, weights_stay_the_same);
    return run_suite("shuffle channels", cases, CK_NOFORK);
}
