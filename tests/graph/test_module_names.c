/* The names that parameters have in the modules of PyTorch, and what the modules of nodes say. */
#include "build.h"
#include "graph/passes/trainable/trainable.h"

#include <check.h>

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
    const bool unscoped = zt_trainable_is_unscoped(&model, model.graph->values[1]);
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

START_TEST(a_parameter_that_is_read_inside_of_its_module_too_trains) {
    static const struct read reads[] = { { "a", "Mul", ": Net/mul: aten.mul", "body.0.weight", NULL, 1 },
                                         { "b", "Mul", ": Net/body.0: Linear/mul: aten.mul", "body.0.weight", NULL,
                                           1 } };
    struct zt_onnx model = make("x: USER_INPUT\n", reads, 2);
    ck_assert(!zt_trainable_is_unscoped(&model, model.graph->values[1]));
    zt_graph_destroy(model.graph);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("module_names");
    tcase_add_test(cases, a_rearranged_parameter_has_its_name_in_the_module);
    tcase_add_test(cases, a_numbered_weight_of_torchscript_has_the_module_of_its_reader);
    tcase_add_test(cases, a_parameter_read_outside_of_its_module_is_that_of_a_block_without_gradients);
    tcase_add_test(cases, a_module_that_reads_weights_of_a_child_itself_has_no_such_block);
    tcase_add_test(cases, a_parameter_that_is_read_inside_of_its_module_too_trains);
    return run_cases("module_names", cases);
}
