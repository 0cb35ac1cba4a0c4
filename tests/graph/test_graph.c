#include "net.h"
#include "tests/suite.h"

#include "base/rng.h"

#include <string.h>

#include "tests/graph/fixture.h"

/* Names of the nodes in their order, with blanks between. */
static const char *order(void) {
    char *text = zt_arena_strdup(g->arena, "");
    for (int i = 0; i < g->node_count; i++)
        text = zt_arena_printf(g->arena, "%s%s%s", text, i ? " " : "", g->nodes[i]->name);
    return text;
}

START_TEST(names_are_unique_and_found) {
    int a = zt_graph_add_value(g, "x", ZT_FLOAT, SCALAR), b = zt_graph_add_value(g, "x", ZT_FLOAT, NULL);
    int c = zt_graph_add_value(g, NULL, ZT_FLOAT, NULL), d = zt_graph_add_value(g, NULL, ZT_FLOAT, NULL);
    ck_assert_int_eq(zt_graph_find(g, "x"), a);
    ck_assert_str_ne(g->values[b]->name, "x");
    ck_assert_str_ne(g->values[c]->name, g->values[d]->name);
    ck_assert_int_eq(zt_graph_find(g, g->values[b]->name), b);
    ck_assert_int_eq(zt_graph_find(g, "nothing"), -1);
    ck_assert_int_eq(g->values[b]->shape.rank, -1);
}
END_TEST

START_TEST(values_and_nodes_stay_where_they_are) {
    const int x = net_input(g, "x", ZT_FLOAT, SHAPE(2));
    NET(g, "Relu", "y", x);
    const struct zt_value *value = g->values[x];
    const struct zt_node *node = g->nodes[0];
    for (int i = 0; i < 1000; i++) {
        const int v = zt_graph_add_value(g, NULL, ZT_FLOAT, SCALAR);
        zt_graph_add_node(g, &(struct zt_node_spec){ "n", "Relu", "", 1, &x, 1, &v, 1 });
    }
    ck_assert_ptr_eq(g->values[x], value);
    ck_assert_ptr_eq(g->nodes[0], node);
    g->nodes[0]->place = INT64_MAX;
    ck_assert(zt_graph_sort(g, &err));
    ck_assert_ptr_eq(g->nodes[1000], node);
    ck_assert_int_eq(node->index, 1000);
    for (int i = 0; i < g->value_count; i++)
        ck_assert_int_eq(g->values[i]->id, i);
}
END_TEST

START_TEST(nodes_stand_behind_what_they_read_and_else_as_in_the_file) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(2));
    int c = zt_graph_add_value(g, "c", ZT_FLOAT, NULL);
    NET(g, "Add", "d", x, c); /* stands before c's producer */
    NET(g, "Relu", "a", x);
    NET(g, "Relu", "c", x);
    NET(g, "Relu", "b", c);
    ck_assert(zt_graph_sort(g, &err));
    ck_assert_str_eq(order(), "a c d b"); /* d has the lowest place, so it follows c at once */
    ck_assert_int_eq(g->values[c]->producer, 1);
}
END_TEST

START_TEST(backward_nodes_stand_behind_all_forward_ones) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(2));
    NET(g, "Relu", "late", x);
    net_last(g)->phase = ZT_BACKWARD;
    net_last(g)->place = -5;
    NET(g, "Relu", "early", x);
    ck_assert(zt_graph_sort(g, &err));
    ck_assert_str_eq(order(), "early late");
}
END_TEST

START_TEST(a_random_graph_sorts_to_the_lowest_place_that_is_ready) {
    enum { NODES = 60 };
    struct zt_rng rng = zt_rng_start(11, 0);
    for (int round = 0; round < 50; round++) {
        struct zt_graph *r = zt_graph_create("random");
        int out[NODES], name[NODES], count = NODES;
        for (int i = 0; i < NODES; i++) {
            out[i] = zt_graph_add_value(r, NULL, ZT_FLOAT, SCALAR);
            name[i] = i;
        }
        for (int i = NODES - 1; i > 0; i--) { /* nodes are listed in a random order */
            int k = (int)zt_rng_below(&rng, (uint64_t)i + 1), t = name[i];
            name[i] = name[k];
            name[k] = t;
        }
        for (int i = 0; i < NODES; i++) {
            int in[3], in_count = 0;
            for (int k = 0; name[i] > 0 && k < 3; k++)
                in[in_count++] = zt_rng_below(&rng, 4) ? out[zt_rng_below(&rng, (uint64_t)name[i])] : -1;
            zt_graph_add_node(r, &(struct zt_node_spec){ "n", "Any", "", 1, in, in_count, &out[name[i]], 1 });
        }
        ck_assert(zt_graph_index(r, &err));
        struct zt_node **list = zt_arena_copy(r->arena, r->nodes, sizeof *list * NODES); /* the definition, slowly */
        bool done[NODES] = { false };
        int64_t wanted[NODES];
        for (int at = 0; at < count; at++) {
            int best = -1;
            for (int n = 0; n < NODES; n++) {
                bool ready = !done[n];
                for (int i = 0; i < list[n]->in_count; i++)
                    ready &= list[n]->in[i] < 0 || done[r->values[list[n]->in[i]]->producer];
                if (ready && (best < 0 || list[n]->place < list[best]->place))
                    best = n;
            }
            done[best] = true;
            wanted[at] = list[best]->place;
        }
        ck_assert(zt_graph_sort(r, &err));
        ck_assert_int_eq(r->node_count, NODES);
        for (int n = 0; n < NODES; n++)
            ck_assert_int_eq(r->nodes[n]->place, wanted[n]);
        zt_graph_destroy(r);
    }
}
END_TEST

START_TEST(a_cycle_names_a_node_on_it_not_one_behind) {
    int loop = zt_graph_add_value(g, "loop", ZT_FLOAT, NULL), x = net_input(g, "x", ZT_FLOAT, SHAPE(2));
    NET(g, "Relu", "behind", loop);
    int a = NET(g, "Add", "first", loop, x);
    NET(g, "Relu", "loop", a);
    ck_assert(!zt_graph_sort(g, &err));
    ck_assert_int_eq(err.code, ZT_EXIT_MODEL);
    ck_assert_msg(says("first (Add)") || says("loop (Relu)"), "%s", err.text[0]);
    ck_assert(says("cycle"));
    ck_assert_int_eq(g->node_count, 3);
}
END_TEST

START_TEST(a_node_that_reads_itself_is_a_cycle) {
    int own = zt_graph_add_value(g, "own", ZT_FLOAT, NULL);
    NET(g, "Relu", "own", own);
    ck_assert(!zt_graph_sort(g, &err));
    ck_assert(says("own (Relu)"));
}
END_TEST

START_TEST(a_value_that_nothing_makes_is_named_with_its_reader) {
    int ghost = zt_graph_add_value(g, "ghost", ZT_FLOAT, NULL);
    NET(g, "Relu", "y", ghost);
    ck_assert(!zt_graph_sort(g, &err));
    ck_assert(says("y (Relu)") && says("\"ghost\""));
}
END_TEST

START_TEST(two_writers_of_a_value_are_both_named) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(2)), y = NET(g, "Relu", "y", x);
    zt_graph_add_node(g, &(struct zt_node_spec){ "again", "Abs", "", 13, &x, 1, &y, 1 });
    ck_assert(!zt_graph_index(g, &err));
    ck_assert(says("again (Abs)") && says("\"y\"") && says("written by y"));
    err = (struct zt_err){ 0 };
    g->nodes[1]->dead = true;
    ck_assert(zt_graph_index(g, &err));
}
END_TEST

START_TEST(a_node_that_writes_a_value_twice_or_an_input_is_refused) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(2)), y = zt_graph_add_value(g, "y", ZT_FLOAT, NULL);
    zt_graph_add_node(g, &(struct zt_node_spec){ "twice", "Split", "", 18, &x, 1, (int[]){ y, y }, 2 });
    ck_assert(!zt_graph_index(g, &err));
    ck_assert(says("twice (Split)"));
    err = (struct zt_err){ 0 };
    g->nodes[0]->dead = true;
    int w = net_param(g, "w", SHAPE(2));
    zt_graph_add_node(g, &(struct zt_node_spec){ "onto input", "Relu", "", 14, &y, 1, &x, 1 });
    zt_graph_add_node(g, &(struct zt_node_spec){ "onto weight", "Relu", "", 14, &y, 1, &w, 1 });
    ck_assert(!zt_graph_index(g, &err));
    ck_assert_int_eq(err.count, 2);
    ck_assert(says("an input of the graph"));
    ck_assert_ptr_nonnull(strstr(err.text[1], "an initializer"));
}
END_TEST

START_TEST(pruning_keeps_what_roots_and_write_backs_need) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(2)), mean = net_param(g, "mean", SHAPE(2));
    int a = NET(g, "Relu", "a", x), b = NET(g, "Relu", "b", a), c = NET(g, "Abs", "c", x), d = NET(g, "Neg", "d", c);
    NET(g, "Exp", "e", a);
    zt_graph_add_write_back(g, mean, d);
    ck_assert(zt_graph_prune(g, (int[]){ b, -1 }, 2, &err));
    ck_assert_str_eq(order(), "a b c d");
    ck_assert(g->values[mean]->statistic);
    ck_assert_int_eq(zt_graph_users(g, a, NULL), 1);
    int reader = -1;
    ck_assert_int_eq(zt_graph_users(g, x, &reader), 2);
    ck_assert(reader == 0 || reader == 2);
    ck_assert_int_eq(zt_graph_users(g, b, NULL), 0);
}
END_TEST

START_TEST(many_write_backs_are_kept_in_order) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(2));
    for (int i = 0; i < 3000; i++)
        zt_graph_add_write_back(g, x, i);
    ck_assert_int_eq(g->write_back_count, 3000);
    for (int i = 0; i < 3000; i++)
        ck_assert_int_eq(g->write_backs[i].value, i);
}
END_TEST

START_TEST(a_graph_without_nodes_is_in_order) {
    ck_assert(zt_graph_sort(g, &err));
    ck_assert(zt_graph_prune(g, NULL, 0, &err));
    ck_assert_int_eq(g->node_count, 0);
}
END_TEST

START_TEST(a_clone_says_the_same_and_changes_alone) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(2)), y = NET(g, "Softmax", "y", x);
    zt_node_set_int(g, 0, "axis", 0);
    NET(g, "Relu", "z", y);
    g->outputs = zt_arena_copy(g->arena, &y, sizeof y);
    g->output_count = 1;
    zt_graph_add_write_back(g, x, y);
    struct zt_graph *copy = zt_graph_clone(g);
    char *before = net_text(g), *cloned = net_text(copy);
    ck_assert_str_eq(before, cloned);
    ck_assert_int_eq(copy->outputs[0], y);
    ck_assert_int_eq(copy->write_backs[0].value, y);
    zt_node_set_int(copy, 0, "axis", 1);
    copy->nodes[1]->in[0] = x;
    copy->values[x]->shape.dim[0] = 7;
    zt_graph_add_value(copy, "new", ZT_FLOAT, NULL);
    char *after = net_text(g);
    ck_assert_str_eq(before, after);
    ck_assert_int_eq(zt_attr_int(g->nodes[0], "axis", -9), 0);
    ck_assert_int_eq(zt_graph_find(g, "new"), -1);
    free(before);
    free(cloned);
    free(after);
    zt_graph_destroy(copy);
}
END_TEST

START_TEST(attributes_are_set_once_and_read_with_their_default) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(2)), count;
    NET(g, "Any", "y", x);
    zt_node_set_int(g, 0, "a", 1);
    zt_node_set_int(g, 0, "a", 2);
    zt_node_set_float(g, 0, "f", 0.5f);
    zt_node_set_text(g, 0, "t", "SAME_UPPER");
    zt_node_set_ints(g, 0, "list", (int64_t[]){ 3, 4 }, 2);
    const struct zt_node *n = g->nodes[0];
    ck_assert_int_eq(n->attr_count, 4);
    ck_assert_int_eq(zt_attr_int(n, "a", 9), 2);
    ck_assert_int_eq(zt_attr_int(n, "b", 9), 9);
    ck_assert(zt_attr_float(n, "f", 1) == 0.5f && zt_attr_float(n, "none", 1) == 1);
    ck_assert_str_eq(zt_attr_text(n, "t", ""), "SAME_UPPER");
    ck_assert_int_eq(zt_attr_ints(n, "list", &count)[1], 4);
    ck_assert_int_eq(count, 2);
    ck_assert_ptr_null(zt_attr_floats(n, "none", &count));
    ck_assert_int_eq(count, 0);
}
END_TEST

START_TEST(a_node_is_a_standard_operator_only_in_the_standard_domain) {
    static const char *const products[] = { "Gemm", "MatMul", NULL }, *const none[] = { NULL };
    const int x = net_input(g, "x", ZT_FLOAT, SHAPE(2, 2)), y = NET(g, "MatMul", "y", x, x);
    const int z = zt_graph_add_value(g, "z", ZT_FLOAT, SHAPE(2, 2));
    zt_graph_add_node(g, &(struct zt_node_spec){ "other", "MatMul", "com.microsoft", 1, &y, 1, &z, 1 });
    ck_assert(zt_node_is(g->nodes[0], "MatMul") && zt_node_is_any(g->nodes[0], products));
    ck_assert(!zt_node_is(g->nodes[0], "Mat") && !zt_node_is_any(g->nodes[0], none));
    ck_assert(!zt_node_is(g->nodes[1], "MatMul") && !zt_node_is_any(g->nodes[1], products));
    ck_assert(!zt_node_is(NULL, "MatMul") && !zt_node_is_any(NULL, products));
}
END_TEST

START_TEST(constants_on_odd_addresses_are_moved_where_nodes_read_them) {
    unsigned char *raw = zt_arena_alloc(g->arena, 64);
    int64_t two[2] = { 5, 6 };
    memcpy(raw + 1, two, sizeof two);
    int shape = zt_graph_add_value(g, "shape", ZT_INT64, SHAPE(2)), x = net_input(g, "x", ZT_FLOAT, SHAPE(30));
    g->values[shape]->origin = ZT_FROM_INITIALIZER;
    g->values[shape]->data = raw + 1;
    NET(g, "Reshape", "y", x, shape);
    zt_graph_align_constants(g);
    ck_assert_uint_eq((uintptr_t)g->values[shape]->data % 8, 0);
    ck_assert_int_eq(((const int64_t *)g->values[shape]->data)[1], 6);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("graph");
    tcase_add_checked_fixture(cases, make_graph, destroy_graph);
    tcase_add_test(cases, names_are_unique_and_found);
    tcase_add_test(cases, values_and_nodes_stay_where_they_are);
    tcase_add_test(cases, nodes_stand_behind_what_they_read_and_else_as_in_the_file);
    tcase_add_test(cases, backward_nodes_stand_behind_all_forward_ones);
    tcase_add_test(cases, a_random_graph_sorts_to_the_lowest_place_that_is_ready);
    tcase_add_test(cases, a_cycle_names_a_node_on_it_not_one_behind);
    tcase_add_test(cases, a_node_that_reads_itself_is_a_cycle);
    tcase_add_test(cases, a_value_that_nothing_makes_is_named_with_its_reader);
    tcase_add_test(cases, two_writers_of_a_value_are_both_named);
    tcase_add_test(cases, a_node_that_writes_a_value_twice_or_an_input_is_refused);
    tcase_add_test(cases, pruning_keeps_what_roots_and_write_backs_need);
    tcase_add_test(cases, many_write_backs_are_kept_in_order);
    tcase_add_test(cases, a_graph_without_nodes_is_in_order);
    tcase_add_test(cases, a_clone_says_the_same_and_changes_alone);
    tcase_add_test(cases, attributes_are_set_once_and_read_with_their_default);
    tcase_add_test(cases, a_node_is_a_standard_operator_only_in_the_standard_domain);
    tcase_add_test(cases, constants_on_odd_addresses_are_moved_where_nodes_read_them);
    return run_suite("graph", cases, CK_FORK);
}
