/* Nodes whose attributes, shapes, types or contents the standard does not allow, each refused in words that say so. */
#include "graph/passes/eval.h"
#include "ops/table.h"
#include "tests/ops/cases.h"
#include "tests/suite.h"

#include <string.h>

struct bad {
    struct zt_case c;
    const char *says;
};

/* The first error of resolving, inferring or running the node; "" without one. */
static const char *problem(const struct zt_case *c, struct zt_case_graph *made, struct zt_err *err) {
    if (!zt_case_make(c, false, made, err) || !zt_op_infer(made->graph, 0, err))
        return err->text[0];
    struct zt_eval *eval = zt_eval_create(made->graph, NULL, 2);
    for (int i = 0; i < made->in_count; i++)
        if (made->in[i] >= 0)
            zt_eval_feed(eval, made->in[i], &made->feed[i]);
    const bool ran = zt_eval_run(eval, 0, made->graph->node_count, err);
    zt_eval_destroy(eval);
    return ran ? "" : err->text[0];
}

static void refuse(const struct bad *bad, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct zt_case_graph made = { 0 };
        struct zt_err err = { 0 };
        const char *text = problem(&bad[i].c, &made, &err);
        ck_assert_msg(strstr(text, bad[i].says) && strstr(text, bad[i].c.op), "%s %s: \"%s\" instead of \"%s\"",
                      bad[i].c.op, bad[i].c.in, text, bad[i].says);
        zt_graph_destroy(made.graph);
    }
}
#define REFUSE(bad) refuse(bad, sizeof bad / sizeof *bad)

#define QKV   "float[2,3,8] float[2,3,4] float[2,3,6]"
#define HEADS "q_num_heads=4 kv_num_heads=2 "

START_TEST(linear_attention_names_what_does_not_fit) {
#define LINEAR(ins, attrs_, says_)                                                                                     \
    { { "LinearAttention", ins, .attrs = attrs_, .opset = 27, .outs = 2 }, says_ }
    static const struct bad bad[] = {
        LINEAR(QKV, HEADS "update_rule=quadratic", "update_rule is \"quadratic\""),
        LINEAR(QKV, HEADS, "needs input decay"),
        LINEAR(QKV " - float[2,3,2]", HEADS "update_rule=linear", "has no input decay"),
        LINEAR(QKV " - float[2,3,2]", HEADS "update_rule=gated_delta", "needs input beta"),
        LINEAR(QKV " - - float[2,3,2]", HEADS "update_rule=linear", "has no input beta"),
        LINEAR(QKV, "q_num_heads=3 kv_num_heads=2 update_rule=linear", "wants a multiple"),
        LINEAR(QKV, "q_num_heads=0 kv_num_heads=0 update_rule=linear", "wants a multiple"),
        LINEAR(QKV, "q_num_heads=-4 kv_num_heads=-2 update_rule=linear", "wants a multiple"),
        LINEAR(QKV, "kv_num_heads=2 update_rule=linear", "q_num_heads"),
        LINEAR("float[2,3,7] float[2,3,4] float[2,3,6]", HEADS "update_rule=linear",
               "[batch, steps, q_num_heads * size]"),
        LINEAR("float[2,3,8] float[2,3,6] float[2,3,6]", HEADS "update_rule=linear", "kv_num_heads * size"),
        LINEAR("float[2,3,8] float[2,4,4] float[2,3,6]", HEADS "update_rule=linear", "kv_num_heads * size"),
        LINEAR("float[2,3,8] float[2,3,4] float[2,3,7]", HEADS "update_rule=linear", "kv_num_heads * columns"),
        LINEAR("float[2,8] float[2,3,4] float[2,3,6]", HEADS "update_rule=linear", "[batch, steps"),
        LINEAR(QKV " float[2,2,3,2]", HEADS "update_rule=linear", "[batch, kv_num_heads, size, columns]"),
        LINEAR(QKV " - float[2,3,3]", HEADS "update_rule=gated", "[batch, steps, kv_num_heads * size]"),
        LINEAR(QKV " - - float[2,3,4]", HEADS "update_rule=delta", "[batch, steps, 1]"),
        LINEAR("float[2,3,8] float16[2,3,4] float[2,3,6]", HEADS "update_rule=linear", "float16"),
        LINEAR("int64[2,3,8] int64[2,3,4] int64[2,3,6]", HEADS "update_rule=linear", "int64"),
        LINEAR("float[1,0,1073741824] float[1,0,1073741824] float[1,0,1073741824]",
               "q_num_heads=1 kv_num_heads=1 update_rule=linear", "an axis of its result would be"),
    };
    REFUSE(bad);
}
END_TEST

START_TEST(causal_conv_names_what_does_not_fit) {
#define CAUSAL(ins, attrs_, says_)                                                                                     \
    { { "CausalConvWithState", ins, .attrs = attrs_, .opset = 27, .outs = 2 }, says_ }
    static const struct bad bad[] = {
        CAUSAL("float[2,3,5] float[3,1,2]", "activation=relu", "activation is \"relu\""),
        CAUSAL("float[2,3] float[3,1,2]", NULL, "[batch, channels, length]"),
        CAUSAL("float[2,3,5] float[4,1,2]", NULL, "[channels, 1, kernel]"),
        CAUSAL("float[2,3,5] float[3,3,2]", NULL, "[channels, 1, kernel]"),
        CAUSAL("float[2,3,5] float[3,1,0]", NULL, "[channels, 1, kernel]"),
        CAUSAL("float[2,3,5] float[3,1,2] float[2]", NULL, "[channels]"),
        CAUSAL("float[2,3,5] float[3,1,2] - float[2,3,2]", NULL, "[batch, channels, kernel - 1]"),
        CAUSAL("float[2,3,5] double[3,1,2]", NULL, "double"),
    };
    REFUSE(bad);
}
END_TEST

START_TEST(tensor_scatter_names_what_does_not_fit) {
#define SCATTER(ins, attrs_, says_)                                                                                    \
    { { "TensorScatter", ins, .attrs = attrs_, .opset = 24 }, says_ }
    static const struct bad bad[] = {
        SCATTER("float[2,4,3] float[2,2,3]", "mode=spiral", "mode is \"spiral\""),
        SCATTER("float[2,4,3] float[2,2,3]", "axis=0", "axis 0 is that of the batch"),
        SCATTER("float[2,4] float[2,2]", NULL, "axis -2 is that of the batch"),
        SCATTER("float[2,4,3] float[2,2,3]", "axis=3", "axis 3"),
        SCATTER("float[] float[]", NULL, "axis"),
        SCATTER("float[2,4,3] float[2,5,3]", NULL, "as many or fewer rows"),
        SCATTER("float[2,4,3] float[2,2,2]", NULL, "as many or fewer rows"),
        SCATTER("float[2,4,3] float[2,2]", NULL, "as many or fewer rows"),
        SCATTER("float[2,4,3] float[2,2,3] int64{0}", NULL, "write_indices has shape [1]"),
        SCATTER("float[2,4,3] float[2,2,3] int64{0,3}", NULL, "write index 3 of sample 1 is outside 0..2"),
        SCATTER("float[2,4,3] float[2,2,3] int64{-1,0}", NULL, "write index -1 of sample 0 is outside 0..2"),
        SCATTER("float[2,4,3] float[2,2,3] int64{0,9223372036854775807}", NULL, "is outside 0..2"),
        SCATTER("float[2,4,3] double[2,2,3]", NULL, "double"),
    };
    REFUSE(bad);
}
END_TEST

START_TEST(optimizers_name_what_does_not_fit) {
#define STEP(op, outs_, ins, attrs_, says_)                                                                            \
    { { op, ins, .attrs = attrs_, .domain = "ai.onnx.preview.training", .opset = 1, .outs = outs_ }, says_ }
#define MOMENTUM "alpha=0.9 beta=0.8 norm_coefficient=0.1 "
    static const struct bad bad[] = {
        STEP("Adam", 3, "float(0.1) int64(3) float[2] float[2] float[2]", NULL, "wants 6 or more"),
        STEP("Adam", 3, "float(0.1) int64(3) float[2] float[2] float[2] float[2] float[2]", NULL, "2 and 4 a tensor"),
        STEP("Adam", 4, "float(0.1) int64(3) float[2] float[2] float[2] float[2]", NULL, "3 outputs a tensor"),
        STEP("Adam", 3, "float(0.1) int64(3) float[2] float[3] float[2] float[2]", NULL, "has shape [3]"),
        STEP("Adam", 3, "float(0.1) int64(3) float[2] double[2] float[2] float[2]", NULL, "wants one type"),
        STEP("Adam", 3, "float(0.1) int64(3) float[2] - float[2] float[2]", NULL, "input 3 is missing"),
        STEP("Adam", 3, "float{0.1,0.2} int64(3) float[2] float[2] float[2] float[2]", NULL, "wants one number"),
        STEP("Adagrad", 2, "float(0.1) int64[0] float[2] float[2] float[2]", NULL, "wants one number"),
        STEP("Adagrad", 2, "float(0.1) float(3) float[2] float[2] float[2]", NULL, "float"),
        STEP("Momentum", 2, "float(0.1) int64(3) float[2] float[2] float[2]", MOMENTUM "mode=heavy",
             "mode is \"heavy\""),
        STEP("Momentum", 2, "float(0.1) int64(3) float[2] float[2] float[2]", "alpha=0.9 mode=standard", "beta"),
        STEP("Momentum", 2, "float(0.1) int64(3) float16[2] float16[2] float16[2]", MOMENTUM "mode=standard",
             "float16"),
    };
    REFUSE(bad);
}
END_TEST

int main(void) {
    TCase *t = tcase_create("bad_nodes");
    tcase_add_test(t, linear_attention_names_what_does_not_fit);
    tcase_add_test(t, causal_conv_names_what_does_not_fit);
    tcase_add_test(t, tensor_scatter_names_what_does_not_fit);
    tcase_add_test(t, optimizers_name_what_does_not_fit);
    return run_suite("bad_nodes", t, CK_NOFORK); /* libgomp does not survive a fork */
}
