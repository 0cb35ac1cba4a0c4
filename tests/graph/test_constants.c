/* Which initializers without a mark are constants, by name, contents and reader (graph/passes/trainable/constants.h);
 * which are only doubted. */
#include "graph/passes/trainable/trainable.h"
#include "rows.h"
#include "tests/suite.h"

#include <math.h>
#include <string.h>

#define TENSORFLOW "tf2onnx"
#define SCRIPT     "pytorch 2.15.0"
#define NAMED      "named as a constant by the exporter"
#define SINGULAR   "a singular vector of spectral_norm, a buffer in PyTorch"
#define NUMBER     "one number: epsilon, factor or exponent"

/* One initializer of a file, read by `op` at input `place`, whose other inputs are products. */
struct one {
    const char *producer, *name, *op;
    int place;
    struct zt_shape shape;
    float element[6];
    const char *constant, *doubt; /* "": none */
};

static const struct one ones[] = {
    /* names */
    { TENSORFLOW, "m/rescaling/Cast_1/x:0", "Mul", 1, { 1, { 3 } }, { .1F, .2F, .4F }, NAMED, "" },
    { TENSORFLOW, "m/sub/Const_12:0", "Mul", 1, { 1, { 3 } }, { .1F, .2F, .4F }, NAMED, "" },
    { TENSORFLOW, "p2__126", "Mul", 1, { 1, { 3 } }, { .1F, .2F, .4F }, NAMED, "" },
    { TENSORFLOW, "m/x_ray/kernel:0", "Mul", 1, { 1, { 3 } }, { .1F, .2F, .4F }, "", "" },
    { TENSORFLOW,
      "m/norm/truediv:0",
      "Mul",
      1,
      { 1, { 3 } },
      { .1F, .2F, .4F },
      "",
      "computed from variables by the exporter" },
    { TENSORFLOW, "m/attention/Mul/ReadVariableOp:0", "Mul", 1, { 0 }, { .5F }, "", "" },
    { SCRIPT, "/block/Constant_12_output_0", "Mul", 1, { 1, { 3 } }, { .1F, .2F, .4F }, NAMED, "" },
    { SCRIPT, "c.parametrizations.weight.0._u", "Mul", 1, { 1, { 3 } }, { .1F, .2F, .4F }, SINGULAR, "" },
    { SCRIPT, "m.weight_v", "Mul", 1, { 1, { 3 } }, { .1F, .2F, .4F }, "", "" }, /* of weight_norm */
    { SCRIPT, "/block/Constants_output_0", "Mul", 1, { 1, { 3 } }, { .1F, .2F, .4F }, "", "" },
    { "", "p2o.pd_op.full.0.0", "Mul", 1, { 1, { 3 } }, { .1F, .2F, .4F }, NAMED, "" },
    { "", "const.3", "Mul", 1, { 1, { 3 } }, { .1F, .2F, .4F }, NAMED, "" },
    { "", "const_3", "Mul", 1, { 1, { 3 } }, { .1F, .2F, .4F }, "", "" },
    { "skl2onnx", "Ge_Gemmcst1", "Mul", 1, { 1, { 3 } }, { .1F, .2F, .4F }, "", "" },
    /* contents */
    { SCRIPT, "m.mask", "Add", 1, { 1, { 3 } }, { 0, -INFINITY, 0 }, "nothing but infinities, NaN and zeros", "" },
    { "", "undefined", "Add", 1, { 1, { 2 } }, { NAN, NAN }, "nothing but infinities, NaN and zeros", "" },
    { "", "broken", "Add", 1, { 1, { 3 } }, { .1F, NAN, .3F }, "", "" },
    { "", "ends", "Add", 1, { 1, { 2 } }, { 1e9F, -1e9F }, "numbers too large for weights", "" },
    { "", "large", "Add", 1, { 1, { 2 } }, { 1e9F, .5F }, "", "" },
    /* readers */
    { "", "values", "OneHot", 2, { 1, { 2 } }, { 0, 1 }, "the values of a OneHot", "" },
    { "", "ceiling", "Clip", 2, { 1, { 1 } }, { 6 }, "a bound of a Clip", "" },
    { SCRIPT, "act.alpha", "Clip", 2, { 0 }, { 6 }, "", "" },
    { "", "state", "LSTM", 5, { 3, { 1, 2, 3 } }, { 0 }, "zeros from which a recurrent node starts", "" },
    { "", "learned state", "LSTM", 5, { 3, { 1, 2, 3 } }, { 0, .1F, 0, 0, 0, 0 }, "", "" },
    { "", "window", "Conv", 1, { 3, { 1, 1, 3 } }, { .5F, .5F, .5F }, "", "one number in every place of a kernel" },
    { "", "zero kernel", "Conv", 1, { 3, { 1, 1, 3 } }, { 0 }, "", "" },
    { "", "plain matrix", "MatMul", 1, { 2, { 3, 2 } }, { 1, 1, 1, 1, 1, 1 }, "", "" },
    { SCRIPT, "conv.weight", "Conv", 1, { 3, { 1, 1, 3 } }, { .5F, .5F, .5F }, "", "" },
    /* one number */
    { TENSORFLOW, "const_fold_opt__4118", "Mul", 1, { 4, { 1, 1, 1, 1 } }, { .001F }, NUMBER, "" },
    { TENSORFLOW, "m/dense/Squeeze:0", "Add", 1, { 1, { 1 } }, { .3F }, "", "" },
    { "jax2onnx", "const_8", "Mul", 1, { 2, { 1, 1 } }, { .3F }, "", "one number" },
    { "jax2onnx", "const_8", "Add", 1, { 1, { 1 } }, { .3F }, "", "" },
    { SCRIPT, "logit_scale", "Mul", 1, { 1, { 1 } }, { .3F }, "", "" },
    { SCRIPT, "val_58", "Mul", 1, { 1, { 1 } }, { .3F }, "", "one number" },
};

static int product(struct zt_graph *g, const char *name) {
    const int x = zt_graph_add_value(g, zt_arena_printf(g->arena, "%s.x", name), ZT_FLOAT, NULL);
    const int y = zt_graph_add_value(g, name, ZT_UNDEFINED, NULL);
    g->values[x]->origin = ZT_FROM_INPUT;
    zt_graph_add_node(g, &(struct zt_node_spec){ name, "MatMul", "", 17, (int[]){ x, x }, 2, &(int){ y }, 1 });
    return y;
}

START_TEST(what_no_file_marks_is_told_by_name_contents_and_reader) {
    const struct one *t = &ones[_i];
    struct zt_graph *g = zt_graph_create("by hand");
    const struct zt_onnx model = { .graph = g, .producer = t->producer };
    int in[8];
    for (int i = 0; i < 8; i++)
        in[i] = product(g, zt_arena_printf(g->arena, "product %d", i));
    const int v = in[t->place] = zt_graph_add_value(g, t->name, ZT_FLOAT, &t->shape);
    g->values[v]->origin = ZT_FROM_INITIALIZER;
    g->values[v]->data = t->element;
    const int loss = zt_graph_add_value(g, "loss", ZT_UNDEFINED, NULL);
    zt_graph_add_node(g, &(struct zt_node_spec){ "reader", t->op, "", 17, in, t->place + 1, &(int){ loss }, 1 });
    zt_test_resolve(g);
    zt_pass_trainable(g, &model, loss);
    ck_assert_int_eq(g->values[v]->trainable, !t->constant[0]);
    if (t->constant[0])
        ck_assert_str_eq(g->values[v]->why, t->constant);
    const char *doubt = zt_trainable_doubt(g, g->values[v], &model);
    ck_assert_str_eq(doubt ? doubt : "", t->doubt);
    zt_graph_destroy(g);
}
END_TEST

/* B [1, 8] of an LSTM, zeros in its second half unless `both`. */
static int read_by_lstm(struct zt_graph *g, const char *producer, bool both) {
    static float one[8] = { .1F, 0, 1, .2F }, two[8] = { .1F, 0, 1, .2F, 0, 0, .3F, 0 };
    const struct zt_onnx model = { .graph = g, .producer = producer };
    int in[4] = { product(g, "x"), product(g, "w"), product(g, "r"), -1 };
    const int bias = in[3] = zt_graph_add_value(g, "B", ZT_FLOAT, &(struct zt_shape){ 2, { 1, 8 } });
    g->values[bias]->origin = ZT_FROM_INITIALIZER;
    g->values[bias]->data = both ? two : one;
    const int y = zt_graph_add_value(g, "y", ZT_UNDEFINED, NULL);
    zt_graph_add_node(g, &(struct zt_node_spec){ "lstm", "LSTM", "", 17, in, 4, &(int){ y }, 1 });
    zt_pass_keep_one_bias(g, &model);
    return g->nodes[g->values[y]->producer]->in[3];
}

START_TEST(an_lstm_of_tf2onnx_trains_one_bias) {
    static const float half[8] = { 1, 1, 1, 1 };
    struct zt_graph *g = zt_graph_create("by hand");
    const int read = read_by_lstm(g, TENSORFLOW, false), bias = zt_graph_find(g, "B");
    const struct zt_node *n = g->nodes[g->values[read]->producer];
    ck_assert_str_eq(n->op_type, "Mul");
    ck_assert_int_eq(n->in[0], bias);
    ck_assert_mem_eq(g->values[n->in[1]]->data, half, sizeof half);
    zt_test_resolve(g);
    zt_pass_trainable(g, NULL, zt_graph_find(g, "y"));
    ck_assert(g->values[bias]->trainable);
    zt_graph_destroy(g);
    for (int i = 0; i < 2; i++) {
        g = zt_graph_create("by hand");
        ck_assert_int_eq(read_by_lstm(g, i ? TENSORFLOW : SCRIPT, i), zt_graph_find(g, "B"));
        zt_graph_destroy(g);
    }
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("constants");
    tcase_add_test(cases, an_lstm_of_tf2onnx_trains_one_bias);
    tcase_add_loop_test(cases, what_no_file_marks_is_told_by_name_contents_and_reader, 0,
                        (int)(sizeof ones / sizeof *ones));
    return run_suite("constants among initializers", cases, CK_NOFORK);
}
