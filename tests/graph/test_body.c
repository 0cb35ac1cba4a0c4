/* The notation of bodies: which nodes a statement becomes, and that a wrong one is told. */
#include "net.h"
#include "tests/suite.h"

#include "graph/export/function_body.h"
#include "graph/onnx/onnx.h"
#include "ops/table.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct zt_graph *g;
static struct zt_arena *arena;
static struct zt_function_body b;
static struct zt_err err;
static bool *read_by_value;

static void setup(void) {
    g = zt_graph_create("test");
    arena = zt_arena_create();
    err = (struct zt_err){ 0 };
}

static void teardown(void) {
    zt_function_body_finish(&b);
    zt_arena_destroy(arena);
    zt_graph_destroy(g);
}

/* A body for Add(x, z) -> y of a type, whose output is read. */
static void start(enum zt_dtype dtype) {
    int x = net_input(g, "x", dtype, SHAPE(2)), z = net_input(g, "z", dtype, SHAPE(2));
    NET(g, "Add", "y", x, z);
    net_infer(g, &zt_ops);
    read_by_value = ZT_NEW_N(arena, bool, g->value_count);
    read_by_value[zt_graph_find(g, "y")] = true;
    zt_function_body_start(&b, arena, g, 0, read_by_value);
}

/* The nodes as "out = Op(in, in); ..." */
static const char *nodes(void) {
    const char *text = "";
    for (int i = 0; i < b.nodes.count; i++) {
        const struct zt_function_body_node *n = &b.nodes.at[i];
        for (int k = 0; k < n->out_count; k++)
            text = zt_arena_printf(arena, "%s%s%s", text, k ? ", " : i ? "; " : "", n->out[k]);
        text = zt_arena_printf(arena, "%s = %s(", text, n->op_type);
        for (int k = 0; k < n->in_count; k++)
            text = zt_arena_printf(arena, "%s%s%s", text, k ? ", " : "", n->in[k]);
        text = zt_arena_printf(arena, "%s)", text);
    }
    return text;
}

START_TEST(products_bind_before_sums_and_names_can_be_given_again) {
    start(ZT_FLOAT);
    zt_function_body_names(&b, "x, z -> y");
    zt_function_body_add(&b, "y = x - z * x; y = -(y + z) / x");
    ck_assert(zt_function_body_close(&b, &err));
    ck_assert_str_eq(nodes(),
                     "t_0 = Mul(z, x); t_1 = Sub(x, t_0); t_2 = Add(t_1, z); t_3 = Neg(t_2); "
                     "t_4 = Div(t_3, x); y_out = Identity(t_4)");
    ck_assert_int_eq(b.in_count, 2);
    ck_assert_str_eq(b.out[0], "y_out");
}
END_TEST

START_TEST(calls_take_attributes_omitted_inputs_and_lists) {
    start(ZT_FLOAT);
    zt_function_body_names(&b, "x, z -> y");
    zt_function_body_add(&b, "y, z = TopK<axis=-1, p=0.5, mode=\"edge\", pads=[1, -2], to=T>(x, _, [3, 4])");
    ck_assert(zt_function_body_close(&b, &err));
    ck_assert_str_eq(nodes(), "c_0 = Constant(); t_1, t_2 = TopK(x, , c_0); y_out = Identity(t_1)");
    const struct zt_attr *a = b.nodes.at[1].attr, *list = b.nodes.at[0].attr;
    ck_assert_int_eq(a[0].i, -1);
    ck_assert_float_eq(a[1].f, 0.5F);
    ck_assert_str_eq(a[2].s, "edge");
    ck_assert_int_eq(a[3].ints[1], -2);
    ck_assert_int_eq(a[4].i, ZT_FLOAT);
    ck_assert_int_eq(list->tensor.dtype, ZT_INT64);
    ck_assert_int_eq(list->tensor.shape.dim[0], 2);
    ck_assert_int_eq(((const int64_t *)list->tensor.data)[1], 4);
}
END_TEST

START_TEST(numbers_have_the_type_of_the_body_and_whole_ones_int64) {
    start(ZT_DOUBLE);
    zt_function_body_names(&b, "x, z -> y");
    zt_function_body_add(&b, "y = x * 1e-3 + 7i");
    ck_assert(zt_function_body_close(&b, &err));
    const struct zt_tensor *number = &b.nodes.at[0].attr->tensor, *whole = &b.nodes.at[2].attr->tensor;
    ck_assert_int_eq(number->dtype, ZT_DOUBLE);
    ck_assert_double_eq(*(const double *)number->data, 1e-3);
    ck_assert_int_eq(whole->dtype, ZT_INT64);
    ck_assert_int_eq(whole->shape.rank, 0);
    ck_assert_int_eq(*(const int64_t *)whole->data, 7);
}
END_TEST

START_TEST(halves_are_cast_at_the_edges) {
    start(ZT_FLOAT16);
    zt_function_body_names(&b, "x, z -> y");
    zt_function_body_add(&b, "y = x * z");
    ck_assert(zt_function_body_close(&b, &err));
    ck_assert_str_eq(nodes(), "x0 = Cast(x); z1 = Cast(z); t_0 = Mul(x0, z1); y_out = Cast(t_0)");
    ck_assert_int_eq(b.nodes.at[0].attr->i, ZT_FLOAT);
    ck_assert_int_eq(b.nodes.at[3].attr->i, ZT_FLOAT16);
}
END_TEST

START_TEST(an_input_without_a_use_is_not_handed_in_and_an_unread_output_not_out) {
    start(ZT_FLOAT);
    read_by_value[zt_graph_find(g, "y")] = false;
    zt_function_body_names(&b, "_, z -> y");
    ck_assert(!zt_function_body_wants(&b, 0));
    ck_assert(zt_function_body_close(&b, &err));
    ck_assert_int_eq(b.in_count, 1);
    ck_assert_int_eq(b.in_value[0], zt_graph_find(g, "z"));
    ck_assert_int_eq(b.out_count, 0);
}
END_TEST

START_TEST(the_same_node_again_has_other_attributes_and_inputs) {
    start(ZT_FLOAT);
    zt_node_set_int(g, 0, "axes", 1);
    zt_node_set_int(g, 0, "axis", 2);
    zt_function_body_again(&b, "Sum", "axes mode", "[5]");
    ck_assert(zt_function_body_close(&b, &err));
    ck_assert_str_eq(nodes(), "c_0 = Constant(); y0 = Sum(x0, x1, c_0)");
    ck_assert_int_eq(b.nodes.at[1].attr_count, 1);
    ck_assert_str_eq(b.nodes.at[1].attr[0].name, "axis");
}
END_TEST

static const struct {
    const char *says, *problem;
} wrong[] = {
    { "y = x +", "wants a name" },
    { "y = u", "nothing has this name" },
    { "y = Relu(x", "wants ')'" },
    { "y = x z", "wants ';' or the end" },
    { "y = Cast<to=flaot>(x)", "no type has this name" },
    { "y x", "wants '='" },
    { "y = [1, a]", "wants a whole number" },
};

START_TEST(a_wrong_statement_is_told) {
    start(ZT_FLOAT);
    zt_function_body_names(&b, "x, z -> y");
    zt_function_body_add(&b, "%s", wrong[_i].says);
    ck_assert(!zt_function_body_close(&b, &err));
    ck_assert_msg(strstr(err.text[0], wrong[_i].problem) != NULL, "%s", err.text[0]);
}
END_TEST

/* ---- files ---- */

static struct zt_onnx *emit(const int *inputs, int input_count, const struct zt_emit_output *outputs, int count) {
    char path[] = "/tmp/zt_emit_XXXXXX";
    struct zt_emit what = { inputs, input_count, outputs, count, "a test" };
    int file = mkstemp(path);
    ck_assert_int_ge(file, 0);
    close(file);
    ck_assert_msg(zt_onnx_emit(g, &zt_ops, &what, path, &err), "%s", err.text[0]);
    struct zt_onnx *model = zt_onnx_read(path, ZT_WEIGHTS_MAPPED, &err);
    unlink(path);
    ck_assert_msg(model != NULL, "%s", err.text[0]);
    return model;
}

/* Two Softmax nodes of opset 11 with one shape, one of another, and one of opset 13. */
START_TEST(nodes_with_one_body_share_a_function_and_old_forms_become_one) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(2, 3)), z = net_input(g, "z", ZT_FLOAT, SHAPE(4, 3)), inputs[] = { x, z };
    int a = NET(g, "Softmax", "a", x), c = NET(g, "Softmax", "c", a), d = NET(g, "Softmax", "d", z);
    int e = NET(g, "Softmax", "e", c);
    NET(g, "Relu", "nobody_reads_it", e);
    for (int n = 0; n < 3; n++)
        g->nodes[n]->opset = 11;
    net_infer(g, &zt_ops);
    struct zt_emit_output outputs[] = { { "d", d }, { "copy", e } };
    struct zt_onnx *model = emit(inputs, 2, outputs, 2);
    ck_assert_int_eq(model->graph->node_count, 5); /* three calls, Softmax, Identity */
    ck_assert_str_eq(model->graph->nodes[3]->op_type, "Softmax");
    ck_assert_str_eq(model->graph->nodes[3]->domain, "");
    ck_assert_str_eq(model->graph->nodes[0]->domain, "ztrain");
    ck_assert_str_eq(model->graph->nodes[0]->op_type, model->graph->nodes[1]->op_type);
    ck_assert_str_ne(model->graph->nodes[0]->op_type, model->graph->nodes[2]->op_type);
    ck_assert_str_eq(model->graph->values[model->graph->outputs[1]]->name, "copy");
    zt_onnx_destroy(model);
}
END_TEST

START_TEST(what_has_no_standard_form_is_named) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(2, 3)), t = net_input(g, "t", ZT_INT64, SHAPE(2)), inputs[] = { x, t };
    int loss = NET(g, "ztrain.CrossEntropy", "loss", x, t);
    net_infer(g, &zt_ops);
    struct zt_emit_output output = { "loss", loss };
    struct zt_emit what = { inputs, 2, &output, 1, "a test" };
    ck_assert(!zt_onnx_emit(g, &zt_ops, &what, "/nowhere/file.onnx", &err));
    ck_assert_msg(strstr(err.text[0], "CrossEntropy has no form in standard operators") != NULL, "%s", err.text[0]);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("body");
    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_add_test(cases, products_bind_before_sums_and_names_can_be_given_again);
    tcase_add_test(cases, calls_take_attributes_omitted_inputs_and_lists);
    tcase_add_test(cases, numbers_have_the_type_of_the_body_and_whole_ones_int64);
    tcase_add_test(cases, halves_are_cast_at_the_edges);
    tcase_add_test(cases, an_input_without_a_use_is_not_handed_in_and_an_unread_output_not_out);
    tcase_add_test(cases, the_same_node_again_has_other_attributes_and_inputs);
    tcase_add_loop_test(cases, a_wrong_statement_is_told, 0, sizeof wrong / sizeof *wrong);
    tcase_add_test(cases, nodes_with_one_body_share_a_function_and_old_forms_become_one);
    tcase_add_test(cases, what_has_no_standard_form_is_named);
    return run_suite("body", cases, CK_FORK);
}
