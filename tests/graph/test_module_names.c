/* What dynamo's and TorchScript's files say of parameters: their names in the modules of PyTorch, the modules of nodes,
 * and the traced calls. */
#include "build.h"
#include "graph/passes/trainable/trainable.h"

#include <check.h>
#include <string.h>

/* A node of a file and one initializer that it reads behind the network's input. */
struct read {
    const char *node, *op, *namespace, *initializer, *folded_from;
    int in; /* its input of the node */
};

static struct zt_onnx make(const char *signature, const struct read *reads, int count) {
    struct zt_graph *g = zt_graph_create("by hand");
    const int x = zt_graph_add_value(g, "x", ZT_FLOAT, NULL);
    for (int i = 0; i < count; i++) {
        int w = zt_graph_find(g, reads[i].initializer);
        if (w < 0)
            w = zt_graph_add_value(g, reads[i].initializer, ZT_FLOAT, NULL);
        g->values[w]->origin = ZT_FROM_INITIALIZER;
        g->values[w]->torch_folded_from = reads[i].folded_from;
        const int y = zt_graph_add_value(g, zt_arena_printf(g->arena, "y%d", i), ZT_FLOAT, NULL);
        int in[4] = { x, x, x, x };
        in[reads[i].in] = w;
        const int n = zt_graph_add_node(
            g, &(struct zt_node_spec){ reads[i].node, reads[i].op, "", 17, in, reads[i].in + 1, &y, 1 });
        g->nodes[n]->torch_namespace = reads[i].namespace;
    }
    return (struct zt_onnx){ .graph = g, .producer = "pytorch 2.15.0", .torch_signature = signature };
}

static bool fits(const struct zt_onnx *model, const char *name, const char *glob) {
    return zt_parameter_fits(model->graph->values[zt_graph_find(model->graph, name)], &glob, 1);
}

START_TEST(a_rearranged_parameter_has_its_name_in_the_module) {
    static const struct read reads[] = { { "a", "MatMul", NULL, "val_1", "['val_0', 'a.w']", 1 },
                                         { "b", "Add", NULL, "cat", "['a.w', 'b.w', 'a.w']", 1 },
                                         { "c", "Add", NULL, "exp", "['a.w']", 1 } };
    struct zt_onnx model = make("p_a: PARAMETER target='a.w'\np_b: PARAMETER target='b.w'\n", reads, 3);
    zt_pass_find_sources(&model);
    ck_assert(fits(&model, "val_1", "a.*") && fits(&model, "val_1", "val_?") && !fits(&model, "val_1", "b.*"));
    ck_assert(fits(&model, "cat", "*.w") && !fits(&model, "cat", "a.*")); /* every part must match */
    ck_assert(fits(&model, "exp", "exp") && !fits(&model, "exp", "a.*")); /* computed, not moved */
    zt_graph_destroy(model.graph);
}
END_TEST

START_TEST(a_numbered_weight_of_torchscript_has_the_module_of_its_reader) {
    static const struct read reads[] = { { "/h/h.0/attn/MatMul", "MatMul", NULL, "onnx::MatMul_7", NULL, 1 },
                                         { "/h/h.0/attn/Gemm", "Gemm", NULL, "onnx::Gemm_8", NULL, 2 },
                                         { "/h/h.0/Mul", "Mul", NULL, "onnx::Mul_9", NULL, 1 },
                                         { "/rnn/LSTM", "LSTM", NULL, "onnx::LSTM_10", NULL, 3 },
                                         { "MatMul_3", "MatMul", NULL, "onnx::MatMul_11", NULL, 1 } };
    struct zt_onnx model = make(NULL, reads, 5);
    zt_pass_find_sources(&model);
    ck_assert(fits(&model, "onnx::MatMul_7", "h.0.attn.weight") && fits(&model, "onnx::Gemm_8", "h.0.attn.bias"));
    ck_assert(fits(&model, "onnx::Mul_9", "h.0.*") && !fits(&model, "onnx::Mul_9", "*.weight"));
    ck_assert(fits(&model, "onnx::LSTM_10", "rnn.bias") && !fits(&model, "onnx::MatMul_11", "*.weight"));
    zt_graph_destroy(model.graph);
}
END_TEST

/* Whether the first of two parameters, which nodes of one module read, is doubted; `other` NULL: there is none. */
static bool is_unscoped(const char *namespace, const char *parameter, const char *other) {
    const struct read reads[] = { { "a", "Mul", namespace, parameter, NULL, 1 },
                                  { "b", "Mul", namespace, other, NULL, 1 } };
    struct zt_onnx model = make("x: USER_INPUT\n", reads, other ? 2 : 1);
    const bool unscoped = zt_trainable_is_unscoped(&model, model.graph, model.graph->values[1]);
    zt_graph_destroy(model.graph);
    return unscoped;
}

START_TEST(a_parameter_read_outside_of_its_module_is_that_of_a_block_without_gradients) {
    static const char own[] = ": Net/body: Sequential/body.0: torch.nn.modules.linear.Linear/linear: aten.linear";
    static const char block[] = ": Net/linear: aten.linear", deeper[] = ": Net/enc: Enc/mul: aten.mul";
    ck_assert(!is_unscoped(own, "body.0.weight", NULL) && is_unscoped(block, "body.0.weight", NULL));
    ck_assert(is_unscoped(deeper, "enc.body.0.weight", NULL) && !is_unscoped(deeper, "encoder.body.0.weight", NULL));
    ck_assert(!is_unscoped(block, "scale", NULL) && !is_unscoped(deeper, "enc.scale", NULL));
    ck_assert(!is_unscoped(NULL, "body.0.weight", NULL));
}
END_TEST

START_TEST(a_module_that_reads_weights_of_a_child_itself_has_no_such_block) {
    static const char block[] = ": Net/linear: aten.linear";
    static const char own[] = ": Net/t: torch.nn.modules.activation.MultiheadAttention/linear: aten.linear";
    ck_assert(!is_unscoped(block, "body.weight", NULL) && !is_unscoped(block, "body.weight", "head.weight"));
    ck_assert(is_unscoped(block, "body.weight", "body.norm.0.weight")); /* something deeper is read so too */
    ck_assert(!is_unscoped(own, "t.out.0.weight", NULL));
}
END_TEST

START_TEST(a_parameter_that_a_method_reads_outside_of_its_module_trains) {
    static const struct read reads[] = { { "a", "Mul", ": Net/enc: Enc/mul: aten.mul", "enc.body.0.beta", NULL, 1 },
                                         { "b", "Mul", ": Net/enc: Enc/enc.body.0: Streams/mul: aten.mul",
                                           "enc.body.0.alpha", NULL, 1 } };
    struct zt_onnx model = make("x: USER_INPUT\n", reads, 1);
    ck_assert(zt_trainable_is_unscoped(&model, model.graph, model.graph->values[1]));
    zt_graph_destroy(model.graph);
    model = make("x: USER_INPUT\n", reads, 2); /* forward() reads alpha */
    ck_assert(!zt_trainable_is_unscoped(&model, model.graph, model.graph->values[1]));
    zt_graph_destroy(model.graph);
}
END_TEST

START_TEST(a_node_with_a_trace_of_source_lines_is_in_no_block) {
    static const struct read reads[] = { { "a", "Mul", ": Net/mul: aten.mul", "body.0.weight", NULL, 1 } };
    struct zt_onnx model = make("x: USER_INPUT\n", reads, 1);
    ck_assert(zt_trainable_is_unscoped(&model, model.graph, model.graph->values[1]));
    model.graph->nodes[0]->torch_in_source = true; /* body[0].forward(x) */
    ck_assert(!zt_trainable_is_unscoped(&model, model.graph, model.graph->values[1]));
    zt_graph_destroy(model.graph);
}
END_TEST

START_TEST(a_parameter_that_is_read_inside_of_its_module_too_trains) {
    static const struct read reads[] = { { "a", "Mul", ": Net/mul: aten.mul", "body.0.weight", NULL, 1 },
                                         { "b", "Mul", ": Net/body.0: Linear/mul: aten.mul", "body.0.weight", NULL,
                                           1 } };
    struct zt_onnx model = make("x: USER_INPUT\n", reads, 2);
    ck_assert(!zt_trainable_is_unscoped(&model, model.graph, model.graph->values[1]));
    zt_graph_destroy(model.graph);
}
END_TEST

/* The number of nodes that read again what another node reads inside of its module, where the second node of three is
 * of this operator and a gradient reaches `reached`. */
static int reads_again(const char *op, const char *namespace, const char *signature, const char *reached) {
    const struct read reads[] = { { "a", "Gemm", ": Net/net: Sequential/net.0: Linear/linear", "net.0.weight", NULL,
                                    1 },
                                  { "b", op, namespace, "net.0.weight", NULL, 1 },
                                  { "c", "Gemm", ": Net/head: Linear/linear", "head.weight", NULL, 1 } };
    struct zt_onnx model = make(signature, reads, 3);
    const char **names;
    model.graph->values[zt_graph_find(model.graph, reached)]->reached = true;
    const int count = zt_trainable_read_again(&model, model.graph, &names);
    ck_assert(!count || strcmp(names[0], "b") == 0);
    zt_graph_destroy(model.graph);
    return count;
}

START_TEST(layers_that_are_called_again_without_gradients_are_found) {
    static const char block[] = ": Net/linear_1: aten.linear", signature[] = "x: USER_INPUT\n";
    ck_assert_int_eq(reads_again("Gemm", block, signature, "y1"), 1);
    ck_assert_int_eq(reads_again("Gather", block, signature, "y1"), 0); /* a table that is the head's weight */
    ck_assert_int_eq(reads_again("Gemm", ": Net/net: Sequential/net.0: Linear/linear_1", signature, "y1"), 0);
    ck_assert_int_eq(reads_again("Gemm", block, NULL, "y1"), 0);
    ck_assert_int_eq(reads_again("Gemm", block, signature, "y0"), 0); /* detached, too */
}
END_TEST

/* ---- traced calls ---- */

/* The node of a file with its traced call, which makes the value of the same name from `a` and `b` (NULL: none). */
static void add_call(struct zt_graph *g, const char *op, const char *call, const char *a, const char *b) {
    const char *names[2] = { a, b };
    int in[2], count = 0;
    for (int i = 0; i < 2 && names[i]; i++) {
        in[count] = zt_graph_find(g, names[i]);
        if (in[count] < 0)
            in[count] = zt_graph_add_value(g, names[i], ZT_FLOAT, NULL);
        count++;
    }
    const char *name = zt_arena_strndup(g->arena, call + 1, strcspn(call + 1, " "));
    const int y = zt_graph_add_value(g, name, ZT_FLOAT, NULL);
    const int n = zt_graph_add_node(g, &(struct zt_node_spec){ name, op, "", 17, in, count, &y, 1 });
    g->nodes[n]->torch_fx_node = call;
    g->values[y]->producer = n;
}

static int count_missing(const char *read, const char *gap) {
    struct zt_onnx model = make("p_a: PARAMETER target='a'\np_b: PARAMETER target='b'\nx: USER_INPUT\n", NULL, 0);
    const char **names;
    add_call(model.graph, "Mul", "%mul : call_function[target=mul](args = (%x, %p_a), kwargs = {})", "renamed", NULL);
    add_call(model.graph, "Add",
             zt_arena_printf(model.graph->arena, "%%add : call_function[target=add](args = (%%%s, %%%s))", read, gap),
             "mul", NULL);
    const int count = zt_trainable_missing(&model, &names);
    ck_assert(count == 0 || strcmp(names[count - 1], count == 2 ? "b" : "a") == 0);
    zt_graph_destroy(model.graph);
    return count;
}

START_TEST(a_parameter_that_no_traced_call_reads_is_not_missing) {
    ck_assert_int_eq(count_missing("mul", "x"), 1);   /* a, which a call reads; b is not used */
    ck_assert_int_eq(count_missing("mul", "p_b"), 2); /* both are read */
    ck_assert_int_eq(count_missing("mul", "exp"), 2); /* exp is gone, and may have read b */
}
END_TEST

/* The number of missing parameters of two modules, of which a call reads those of `read`, and `gone`. */
static int count_below(const char *signature, const char *read, const char *gone) {
    struct zt_onnx model = make(signature, NULL, 0);
    const char **names;
    const char *call = zt_arena_printf(
        model.graph->arena, "%%add : call_function[target=add](args = (%%%s, %%p_%s_w, %%p_%s_b))", gone, read, read);
    add_call(model.graph, "Add", call, "x", NULL);
    const int count = zt_trainable_missing(&model, &names);
    zt_graph_destroy(model.graph);
    return count;
}

START_TEST(a_module_of_two_names_misses_nothing) {
    static const char two[] =
        "p_a_w: PARAMETER target='a.w'\np_a_b: PARAMETER target='a.b'\n"
        "p_b_w: PARAMETER target='b.w'\np_b_b: PARAMETER target='b.b'\n";
    static const char statistics[] =
        "p_a_w: PARAMETER target='a.w'\np_a_b: PARAMETER target='a.b'\n"
        "b_a_m: BUFFER target='a.running_mean'\n"
        "p_b_w: PARAMETER target='b.w'\np_b_b: PARAMETER target='b.b'\n"
        "b_b_m: BUFFER target='b.running_mean'\n";
    static const char other[] =
        "p_a_w: PARAMETER target='a.w'\np_a_b: PARAMETER target='a.b'\n"
        "p_b_w: PARAMETER target='b.w'\np_b_b: PARAMETER target='b.b'\n"
        "p_b_c: PARAMETER target='b.c'\n";
    ck_assert_int_eq(count_below(two, "b", "exp_1"), 2); /* those of b, which a call reads and the file lacks */
    ck_assert_int_eq(count_below(two, "a", "exp_1"), 4); /* equal ones are merged with the first */
    ck_assert_int_eq(count_below(two, "b", "add_1"), 4); /* a copy of another call, which may have read a */
    ck_assert_int_eq(count_below(statistics, "b", "exp_1"), 4);
    ck_assert_int_eq(count_below(other, "b", "exp_1"), 5);
}
END_TEST

static int count_removed(const char *call, const char *op, const char *a, const char *b) {
    struct zt_onnx model = make("x: USER_INPUT\n", NULL, 0);
    const char **names;
    add_call(model.graph, "ReduceSum", "%sum_1 : call_function[target=sum](args = (%x, [1]))", "x", NULL);
    add_call(model.graph, "Add", "%add : call_function[target=add](args = (%sum_1, %x))", "sum_1", "x");
    add_call(model.graph, "Sigmoid", "%sigmoid : call_function[target=sigmoid](args = (%x,))", "x", NULL);
    add_call(model.graph, "GatherElements", "%gather : call_function[target=gather](args = (%sigmoid, 1, %i))",
             "sigmoid", "i");
    add_call(model.graph, "ReduceSum", "%sum_2 : call_function[target=sum](args = (%gather, [1]))", "gather", NULL);
    add_call(model.graph, op, call, a, b);
    const int count = zt_trainable_removed_sums(&model, &names);
    zt_graph_destroy(model.graph);
    return count;
}

START_TEST(a_sum_that_is_gone_before_a_root_or_a_quotient_is_found) {
    ck_assert_int_eq(count_removed("%sqrt : call_function[target=sqrt](args = (%add_1,))", "Sqrt", "sum_1", NULL), 1);
    ck_assert_int_eq(count_removed("%div : call_function[target=div](args = (%x, %add_1))", "Div", "x", "sum_1"), 1);
    ck_assert_int_eq(count_removed("%div : call_function[target=div](args = (%add_1, %x))", "Div", "sum_1", "x"), 0);
    ck_assert_int_eq(count_removed("%sqrt : call_function[target=sqrt](args = (%add,))", "Sqrt", "add", NULL), 0);
    ck_assert_int_eq(count_removed("%sqrt : call_function[target=sqrt](args = (%add_1,))", "Sqrt", "add", NULL),
                     0); /* an equal one */
    ck_assert_int_eq(count_removed("%sqrt : call_function[target=sqrt](args = (%sum_1,))", "Sqrt", "sum_1", NULL), 0);
    ck_assert_int_eq(count_removed("%div : call_function[target=div](args = (%x, %add_1))", "Div", "x", "sum_2"),
                     0); /* a sum of sigmoids */
    ck_assert_int_eq(count_removed("%div : call_function[target=div](args = (%x, %add_1))", "Div", "x", "sigmoid"), 1);
    ck_assert_int_eq(count_removed("%exp : call_function[target=exp](args = (%add_1,))", "Exp", "sum_1", NULL), 0);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("module_names");
    tcase_add_test(cases, a_rearranged_parameter_has_its_name_in_the_module);
    tcase_add_test(cases, a_numbered_weight_of_torchscript_has_the_module_of_its_reader);
    tcase_add_test(cases, a_parameter_read_outside_of_its_module_is_that_of_a_block_without_gradients);
    tcase_add_test(cases, a_module_that_reads_weights_of_a_child_itself_has_no_such_block);
    tcase_add_test(cases, a_parameter_that_a_method_reads_outside_of_its_module_trains);
    tcase_add_test(cases, a_node_with_a_trace_of_source_lines_is_in_no_block);
    tcase_add_test(cases, a_parameter_that_is_read_inside_of_its_module_too_trains);
    tcase_add_test(cases, layers_that_are_called_again_without_gradients_are_found);
    tcase_add_test(cases, a_parameter_that_no_traced_call_reads_is_not_missing);
    tcase_add_test(cases, a_module_of_two_names_misses_nothing);
    tcase_add_test(cases, a_sum_that_is_gone_before_a_root_or_a_quotient_is_found);
    return run_cases("module_names", cases);
}
