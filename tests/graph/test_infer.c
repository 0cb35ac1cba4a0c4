#include "net.h"
#include "tests/suite.h"

#include "graph/passes/eval.h"
#include "graph/passes/infer.h"
#include "ops/table.h"

#include <string.h>

#include "tests/graph/fixture.h"

enum { LIMIT = 1 << 20 };

static bool resolve(void) {
    bool ok = true;
    for (int n = 0; n < g->node_count; n++)
        ok &= zt_op_resolve(&zt_ops, g, n, &err);
    return ok;
}

static int symbolic(const char *name, const char *symbol, int64_t width) {
    int x = net_input(g, name, ZT_FLOAT, SHAPE(-1, width));
    g->values[x]->dim_param[0] = symbol;
    return x;
}

/* ---- binding ---- */

START_TEST(a_symbol_is_one_number_everywhere) {
    int x = symbolic("x", "N", 3), y = symbolic("y", "N", 5), z = symbolic("z", "M", 5);
    ck_assert(zt_pass_bind(g, x, SHAPE(4, 3), ZT_EXIT_DATA, &err));
    ck_assert_int_eq(g->values[y]->shape.dim[0], 4);
    ck_assert_int_eq(g->values[z]->shape.dim[0], -1);
    ck_assert(zt_pass_bind(g, y, SHAPE(4, 5), ZT_EXIT_DATA, &err));
    ck_assert(!zt_pass_bind(g, y, SHAPE(6, 5), ZT_EXIT_DATA, &err));
    ck_assert_int_eq(err.code, ZT_EXIT_DATA);
    ck_assert(says("\"y\"") && says("4") && says("6"));
}
END_TEST

START_TEST(a_symbol_inside_one_input_must_agree_too) {
    int x = symbolic("square", "N", -1);
    g->values[x]->dim_param[1] = "N";
    ck_assert(!zt_pass_bind(g, x, SHAPE(4, 5), ZT_EXIT_MODEL, &err));
    ck_assert_msg(says("\"square\"") && says("4") && says("5"), "%s", err.text[0]);
}
END_TEST

START_TEST(fixed_dims_and_ranks_must_be_those_of_the_data) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(2, 3)), y = net_input(g, "y", ZT_FLOAT, NULL);
    ck_assert(!zt_pass_bind(g, x, SHAPE(2, 4), ZT_EXIT_DATA, &err));
    ck_assert(says("dim 1 is 4, not 3"));
    err = (struct zt_err){ 0 };
    ck_assert(!zt_pass_bind(g, x, SHAPE(2, 3, 1), ZT_EXIT_DATA, &err));
    ck_assert(says("[2, 3]") && says("[2, 3, 1]"));
    ck_assert(zt_pass_bind(g, y, SHAPE(7), ZT_EXIT_DATA, &err));
    ck_assert_int_eq(g->values[y]->shape.dim[0], 7);
}
END_TEST

/* ---- folding ---- */

START_TEST(arithmetic_on_shapes_folds_into_the_reshape_that_reads_it) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(4, 2, 3)), zero = zt_graph_add_ints(g, "zero", (int64_t[]){ 0 }, 1);
    int rest = zt_graph_add_ints(g, "rest", (int64_t[]){ -1 }, 1);
    int size = NET(g, "Shape", "size", NET(g, "Relu", "relu", x)), batch = NET(g, "Gather", "batch", size, zero);
    int wanted = NET(g, "Concat", "wanted", batch, rest);
    zt_node_set_int(g, g->node_count - 1, "axis", 0);
    int y = NET(g, "Reshape", "y", zt_graph_find(g, "relu"), wanted);
    ck_assert(resolve());
    ck_assert_msg(zt_pass_infer(g, LIMIT, &err), "%s", err.text[0]);
    ck_assert(zt_shape_equal(&g->values[y]->shape, SHAPE(4, 6)));
    ck_assert_int_eq(g->node_count, 2);
    ck_assert_int_eq(g->values[wanted]->origin, ZT_FROM_CONSTANT);
    ck_assert_int_eq(((const int64_t *)g->values[wanted]->data)[0], 4);
}
END_TEST

START_TEST(folding_stops_at_what_training_changes) {
    int w = net_param(g, "w", SHAPE(3)), mean = net_param(g, "mean", SHAPE(3)), fixed = net_param(g, "fixed", SHAPE(3));
    g->values[fixed]->trainable = g->values[mean]->trainable = false;
    g->values[mean]->statistic = true;
    NET(g, "Neg", "of w", w);
    NET(g, "Neg", "of mean", mean);
    int folded = NET(g, "Neg", "of fixed", fixed);
    ck_assert(resolve() && zt_pass_infer(g, LIMIT, &err));
    ck_assert_int_eq(g->node_count, 2);
    ck_assert_str_eq(g->nodes[0]->name, "of w");
    ck_assert_str_eq(g->nodes[1]->name, "of mean");
    ck_assert(((const float *)g->values[folded]->data)[1] == -((const float *)g->values[fixed]->data)[1]);
}
END_TEST

START_TEST(random_and_large_values_are_not_folded) {
    int big = zt_graph_add_ints(g, "big", (int64_t[]){ LIMIT }, 1),
        small = zt_graph_add_ints(g, "small", (int64_t[]){ 8 }, 1);
    NET(g, "Dropout", "noise", zt_graph_add_float(g, "one", ZT_FLOAT, 1));
    NET(g, "ConstantOfShape", "large", big);
    NET(g, "ConstantOfShape", "little", small);
    ck_assert_msg(resolve() && zt_pass_infer(g, LIMIT, &err), "%s", err.text[0]);
    ck_assert_int_eq(g->node_count, 2);
    ck_assert_str_eq(g->nodes[0]->name, "noise");
    ck_assert_str_eq(g->nodes[1]->name, "large");
}
END_TEST

START_TEST(what_folding_takes_in_all_is_bounded) {
    for (int i = 0; i < 40; i++) {
        int size = zt_graph_add_ints(g, NULL, (int64_t[]){ 1000 - i }, 1);
        NET(g, "ConstantOfShape", zt_arena_printf(g->arena, "c%d", i), size);
    }
    ck_assert(resolve() && zt_pass_infer(g, 4000, &err));
    ck_assert_int_eq(g->node_count, 40 - 2);
}
END_TEST

/* The causal mask of every layer: each made anew from constants of its own. */
START_TEST(what_is_computed_alike_is_folded_once) {
    int made[40];
    for (int i = 0; i < 40; i++) {
        int size = zt_graph_add_ints(g, NULL, (int64_t[]){ 10, 100 }, 2);
        int zeros = NET(g, "ConstantOfShape", zt_arena_printf(g->arena, "zeros%d", i), size);
        made[i] = NET(g, "Neg", zt_arena_printf(g->arena, "mask%d", i), zeros);
    }
    ck_assert_msg(resolve() && zt_pass_infer(g, 4000, &err), "%s", err.text[0]);
    ck_assert_int_eq(g->node_count, 0);
    for (int i = 0; i < 40; i++)
        ck_assert(g->values[made[i]]->data && g->values[made[i]]->data == g->values[made[0]]->data);
}
END_TEST

/* Equal but for what is given: an input, an attribute, the operator. */
START_TEST(what_differs_is_folded_each_for_itself) {
    int size = zt_graph_add_ints(g, "size", (int64_t[]){ 100 }, 1),
        other = zt_graph_add_ints(g, "other", (int64_t[]){ 101 }, 1);
    int x = NET(g, "ConstantOfShape", "x", size), y = NET(g, "ConstantOfShape", "y", other);
    int all[] = { x,
                  y,
                  NET(g, "Neg", "neg", x),
                  NET(g, "Abs", "abs", x),
                  NET(g, "Relu", "relu", y),
                  NET(g, "Elu", "elu", x),
                  NET(g, "Elu", "half", x) };
    zt_node_set_float(g, g->values[all[6]]->producer, "alpha", 0.5F);
    ck_assert_msg(resolve() && zt_pass_infer(g, LIMIT, &err), "%s", err.text[0]);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (size_t k = 0; k < i; k++)
            ck_assert_ptr_ne(g->values[all[i]]->data, g->values[all[k]]->data);
}
END_TEST

START_TEST(an_unknown_dim_is_an_error_that_names_the_first_reader) {
    NET(g, "Relu", "reader", symbolic("x", "N", 3));
    ck_assert(resolve() && !zt_pass_infer(g, LIMIT, &err));
    ck_assert_int_eq(err.code, ZT_EXIT_MODEL);
    ck_assert(says("reader (Relu)") && says("\"x\""));
}
END_TEST

START_TEST(a_shape_that_depends_on_data_names_the_value) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(6)), wanted = net_input(g, "wanted", ZT_INT64, SHAPE(2));
    NET(g, "Reshape", "y", x, wanted);
    ck_assert(resolve() && !zt_pass_infer(g, LIMIT, &err));
    ck_assert(says("y (Reshape)") && says("\"wanted\" is not constant"));
}
END_TEST

/* ---- what rows check ---- */

START_TEST(all_missing_operators_are_reported_at_once_and_unneeded_ones_not) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(2)), a = NET(g, "NoSuchOp", "a", x);
    int b = NET(g, "com.example.Own", "b", a);
    NET(g, "NotNeeded", "aside", x);
    ck_assert(!zt_pass_resolve(g, &zt_ops, &b, 1, &err));
    ck_assert_int_eq(err.count, 2);
    ck_assert(says("a (NoSuchOp)") && says("ai.onnx.NoSuchOp"));
    ck_assert_ptr_nonnull(strstr(err.text[1], "b (Own)"));
}
END_TEST

START_TEST(an_opset_without_row_is_named) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(2));
    NET(g, "Mish", "y", x);
    net_last(g)->opset = 3;
    ck_assert(!resolve());
    ck_assert_msg(says("not supported in opset 3"), "%s", err.text[0]);
}
END_TEST

START_TEST(counts_of_inputs_and_outputs_are_checked) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(2)), out = zt_graph_add_value(g, "out", ZT_UNDEFINED, NULL);
    static const struct {
        const char *op;
        int in, out;
        bool omit_in, omit_out;
        const char *words;
    } bad[] = {
        { "Relu", 0, 1, false, false, "has 0 inputs, wants 1 to 1" },
        { "Relu", 2, 1, false, false, "has 2 inputs" },
        { "Relu", 1, 0, false, false, "has 0 outputs, wants 1 to 1" },
        { "Relu", 1, 2, false, false, "has 2 outputs" },
        { "Add", 2, 1, true, false, "input 0 is missing" },
        { "Relu", 1, 1, false, true, "output 0 is missing" },
        { "Concat", 0, 1, false, false, "has 0 inputs, wants 1 or more" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        err = (struct zt_err){ 0 };
        zt_graph_add_node(g,
                          &(struct zt_node_spec){ "bad", bad[i].op, "", ZT_OPSET, (int[]){ bad[i].omit_in ? -1 : x, x },
                                                  bad[i].in, (int[]){ bad[i].omit_out ? -1 : out, out }, bad[i].out });
        ck_assert(!zt_op_resolve(&zt_ops, g, g->node_count - 1, &err));
        ck_assert_msg(says("bad (") && says(bad[i].words), "%s", err.text[0]);
    }
}
END_TEST

START_TEST(attributes_that_the_row_does_not_know_are_refused) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(2));
    NET(g, "Softmax", "y", x);
    zt_node_set_int(g, 0, "axes", 0);
    ck_assert(!resolve());
    ck_assert(says("\"axes\""));
    NET(g, "Softmax", "z", x);
    zt_node_set_float(g, 1, "axis", 0);
    err = (struct zt_err){ 0 };
    ck_assert(!zt_op_resolve(&zt_ops, g, 1, &err));
    ck_assert(says("attribute \"axis\" is a float, wants an int"));
}
END_TEST

START_TEST(types_that_do_not_fit_are_named) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(2)), i = net_input(g, "i", ZT_INT64, SHAPE(2));
    int s = net_input(g, "s", ZT_STRING, SHAPE(2));
    NET(g, "Add", "mixed", x, i);
    NET(g, "Sigmoid", "of integers", i);
    NET(g, "Identity", "of strings", s);
    ck_assert(resolve());
    for (int n = 0; n < 3; n++) {
        err = (struct zt_err){ 0 };
        ck_assert(!zt_op_infer(g, n, &err));
        ck_assert(says(g->nodes[n]->name) && says(n == 2 ? "string" : "int64"));
    }
}
END_TEST

START_TEST(sizes_that_no_machine_holds_are_refused_also_beside_a_zero) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(1, 1)),
        empty = net_input(g, "empty", ZT_FLOAT, SHAPE(0, INT64_C(1) << 62, 4));
    int huge = zt_graph_add_ints(g, "huge", (int64_t[]){ INT64_C(1) << 30, INT64_C(1) << 30 }, 2);
    NET(g, "Expand", "wide", x, huge);
    NET(g, "Relu", "none", empty);
    ck_assert(resolve());
    for (int n = 0; n < 2; n++) {
        err = (struct zt_err){ 0 };
        ck_assert(!zt_op_infer(g, n, &err));
        ck_assert(says(g->nodes[n]->name) && says("more than 2^40 elements"));
    }
}
END_TEST

START_TEST(a_value_larger_than_the_machine_is_an_error_of_the_eager_run) {
    int size = zt_graph_add_ints(g, "size", (int64_t[]){ INT64_C(1) << 40 }, 1);
    NET(g, "ConstantOfShape", "large", size);
    ck_assert(resolve());
    struct zt_eval *eval = zt_eval_create(g, NULL, 1);
    ck_assert(!zt_eval_run(eval, 0, 1, &err));
    ck_assert_msg(says("large (ConstantOfShape)") && says("too large for this machine"), "%s", err.text[0]);
    zt_eval_destroy(eval);
    zt_eval_destroy(NULL);
}
END_TEST

START_TEST(broadcasting_and_axes_say_what_does_not_fit) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(2, 3)), y = net_input(g, "y", ZT_FLOAT, SHAPE(4, 3)), axis;
    struct zt_shape to;
    NET(g, "Add", "sum", x, y);
    ck_assert(!zt_broadcast(g, 0, SHAPE(2, 3), SHAPE(4, 3), &to, &err));
    ck_assert(says("[2, 3]") && says("[4, 3]"));
    ck_assert(zt_broadcast(g, 0, SHAPE(5, 1, 3), SHAPE(2, 1), &to, &err) && zt_shape_equal(&to, SHAPE(5, 2, 3)));
    ck_assert(zt_broadcast(g, 0, SHAPE(0, 3), SHAPE(1, 1), &to, &err) && zt_shape_equal(&to, SHAPE(0, 3)));
    ck_assert(zt_broadcast(g, 0, SCALAR, SHAPE(2), &to, &err) && zt_shape_equal(&to, SHAPE(2)));
    err = (struct zt_err){ 0 };
    ck_assert(zt_axis(g, 0, -2, 2, &axis, &err) && axis == 0);
    ck_assert(!zt_axis(g, 0, 2, 2, &axis, &err) && !zt_axis(g, 0, INT64_MIN, 2, &axis, &err));
    ck_assert(says("axis 2 is outside -2..1"));
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("infer");
    tcase_add_checked_fixture(cases, make_graph, destroy_graph);
    tcase_add_test(cases, a_symbol_is_one_number_everywhere);
    tcase_add_test(cases, a_symbol_inside_one_input_must_agree_too);
    tcase_add_test(cases, fixed_dims_and_ranks_must_be_those_of_the_data);
    tcase_add_test(cases, arithmetic_on_shapes_folds_into_the_reshape_that_reads_it);
    tcase_add_test(cases, folding_stops_at_what_training_changes);
    tcase_add_test(cases, random_and_large_values_are_not_folded);
    tcase_add_test(cases, what_folding_takes_in_all_is_bounded);
    tcase_add_test(cases, what_is_computed_alike_is_folded_once);
    tcase_add_test(cases, what_differs_is_folded_each_for_itself);
    tcase_add_test(cases, an_unknown_dim_is_an_error_that_names_the_first_reader);
    tcase_add_test(cases, a_shape_that_depends_on_data_names_the_value);
    tcase_add_test(cases, all_missing_operators_are_reported_at_once_and_unneeded_ones_not);
    tcase_add_test(cases, an_opset_without_row_is_named);
    tcase_add_test(cases, counts_of_inputs_and_outputs_are_checked);
    tcase_add_test(cases, attributes_that_the_row_does_not_know_are_refused);
    tcase_add_test(cases, types_that_do_not_fit_are_named);
    tcase_add_test(cases, sizes_that_no_machine_holds_are_refused_also_beside_a_zero);
    tcase_add_test(cases, a_value_larger_than_the_machine_is_an_error_of_the_eager_run);
    tcase_add_test(cases, broadcasting_and_axes_say_what_does_not_fit);
    return run_suite("infer", cases, CK_NOFORK);
}
