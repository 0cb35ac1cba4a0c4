/* Initializers without a mark that are constants by name, contents and reader (graph/passes/trainable/constants.h), and
 * those that are only suspected. */
#include "graph/passes/trainable/trainable.h"
#include "rows.h"
#include "tests/suite.h"

#include <math.h>
#include <string.h>

#define TENSORFLOW "tf2onnx"
#define SCRIPT     "pytorch 2.15.0"
#define DYNAMO     "pytorch"
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
    { TENSORFLOW,
      "m/w/mul_1:0",
      "Mul",
      1,
      { 1, { 3 } },
      { .1F, .2F, .4F },
      "",
      "computed from variables by the exporter" },
    { TENSORFLOW, "m/norm/batchnorm/mul:0", "Mul", 1, { 1, { 3 } }, { .1F, .2F, .4F }, "", "" },
    { TENSORFLOW, "m/w/multiplier:0", "Mul", 1, { 1, { 3 } }, { .1F, .2F, .4F }, "", "" },
    { TENSORFLOW, "m/norm/add_1:0", "Mul", 1, { 1, { 3 } }, { .1F, .2F, .4F }, "", "" },
    { DYNAMO, "val_3", "Mul", 1, { 1, { 1 } }, { 1 }, NUMBER, "" },
    { SCRIPT, "/block/Constant_12_output_0", "Mul", 1, { 1, { 3 } }, { .1F, .2F, .4F }, NAMED, "" },
    { SCRIPT, "c.parametrizations.weight.0._u", "Mul", 1, { 1, { 3 } }, { .1F, .2F, .4F }, SINGULAR, "" },
    { SCRIPT, "m.weight_v", "Mul", 1, { 1, { 3 } }, { .1F, .2F, .4321F }, "", "" }, /* of weight_norm */
    { SCRIPT, "/block/Constants_output_0", "Mul", 1, { 1, { 3 } }, { .1F, .2F, .4321F }, "", "" },
    { "", "p2o.pd_op.full.0.0", "Mul", 1, { 1, { 3 } }, { .1F, .2F, .4F }, NAMED, "" },
    { "", "const.3", "Mul", 1, { 1, { 3 } }, { .1F, .2F, .4F }, NAMED, "" },
    { "", "const_3", "Mul", 1, { 1, { 3 } }, { .1F, .2F, .4F }, "", "" },
    { "", "eager_tmp_0", "Mul", 1, { 1, { 3 } }, { .1F, .2F, .4F }, NAMED, "" },
    { "", "eager_tmp", "Mul", 1, { 1, { 3 } }, { .1F, .2F, .4F }, "", "" },
    { "skl2onnx", "Ge_Gemmcst1", "Mul", 1, { 1, { 3 } }, { .1F, .2F, .4F }, "", "" },
    { "skl2onnx", "Mu_Mulcst", "Mul", 1, { 1, { 3 } }, { .1F, .2F, .4F }, NAMED, "" },
    { "skl2onnx", "transform_matrix", "MatMul", 1, { 2, { 3, 2 } }, { .1F, .2F, .4F, .3F, .6F, .7F }, NAMED, "" },
    { "skl2onnx", "coefficient", "MatMul", 1, { 2, { 3, 2 } }, { .1F, .2F, .4F, .3F, .6F, .7F }, "", "" },
    { "jax2onnx", "scale_c_0", "Mul", 1, { 1, { 3 } }, { 1, 1, 1 }, NAMED, "" },
    { "jax2onnx", "bias_vec_0", "Add", 1, { 1, { 3 } }, { 0 }, "", "" },
    { "jax2onnx", "reduce_window_sum_kernel_3", "Conv", 1, { 3, { 1, 1, 3 } }, { 1, 1, 1 }, NAMED, "" },
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
    { "", "slope", "PRelu", 1, { 0 }, { .3F }, "", "" },
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

static bool never_expands(struct zt_expansion *x, struct zt_err *err) {
    (void)x, (void)err;
    return false;
}

/* As the row of an empty bag of nn.EmbeddingBag; what is not 0 may be a parameter. */
START_TEST(zeros_that_a_branch_hands_out_do_not_train) {
    struct zt_graph *g = zt_graph_create("by hand");
    const struct zt_onnx model = { .graph = g, .producer = DYNAMO, .torch_signature = "" };
    const float element[4] = { 0, 0, 0, (float)_i };
    const struct zt_attr_spec graphs[] = { { "then_branch", ZT_ATTR_GRAPH, true }, { 0 } };
    const struct zt_op row = { .name = "If", .attrs = graphs, .expand = never_expands };
    const int condition = zt_graph_add_value(g, "condition", ZT_BOOL, &(struct zt_shape){ 0 });
    const int v = zt_graph_add_value(g, "row_result", ZT_FLOAT, &(struct zt_shape){ 2, { 1, 4 } });
    g->values[v]->origin = ZT_FROM_INITIALIZER;
    g->values[v]->data = element;
    const int loss = zt_graph_add_value(g, "loss", ZT_UNDEFINED, NULL);
    zt_graph_add_node(g, &(struct zt_node_spec){ "bag", "If", "", 17, (const int[]){ condition, v }, 2, &loss, 1 });
    g->nodes[0]->captured = 1;
    g->nodes[0]->op = &row;
    zt_pass_trainable(g, &model, loss);
    ck_assert_int_eq(g->values[v]->trainable, _i != 0);
    zt_graph_destroy(g);
}
END_TEST

START_TEST(what_no_file_marks_is_told_by_name_contents_and_reader) {
    const struct one *t = &ones[_i];
    struct zt_graph *g = zt_graph_create("by hand");
    const struct zt_onnx model = { .graph = g,
                                   .producer = t->producer,
                                   .torch_signature = strcmp(t->producer, DYNAMO) == 0 ? "" : NULL };
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
static int read_by_lstm(struct zt_graph *g, const char *producer, enum zt_dtype dtype, bool both) {
    static double element[8];
    for (int i = 0; i < 8; i++)
        zt_store_double(dtype, element, i, i == 0 || (both && i == 6) ? 0.5 : i == 2);
    const struct zt_onnx model = { .graph = g, .producer = producer };
    int in[4] = { product(g, "x"), product(g, "w"), product(g, "r"), -1 };
    const int bias = in[3] = zt_graph_add_value(g, "B", dtype, &(struct zt_shape){ 2, { 1, 8 } });
    g->values[bias]->origin = ZT_FROM_INITIALIZER;
    g->values[bias]->data = element;
    const int y = zt_graph_add_value(g, "y", ZT_UNDEFINED, NULL);
    zt_graph_add_node(g, &(struct zt_node_spec){ "lstm", "LSTM", "", 17, in, 4, &(int){ y }, 1 });
    zt_pass_keep_one_bias(g, &model);
    return g->nodes[g->values[y]->producer]->in[3];
}

START_TEST(an_lstm_of_tf2onnx_trains_one_bias) {
    static const enum zt_dtype dtypes[] = { ZT_FLOAT, ZT_DOUBLE };
    for (int t = 0; t < 2; t++) {
        struct zt_graph *g = zt_graph_create("by hand");
        const int read = read_by_lstm(g, TENSORFLOW, dtypes[t], false), bias = zt_graph_find(g, "B");
        const struct zt_node *n = g->nodes[g->values[read]->producer];
        ck_assert_str_eq(n->op_type, "Mul");
        ck_assert_int_eq(n->in[0], bias);
        for (int i = 0; i < 8; i++)
            ck_assert(zt_load_double(dtypes[t], g->values[n->in[1]]->data, i) == (i < 4));
        if (dtypes[t] == ZT_FLOAT) {
            zt_test_resolve(g);
            zt_pass_trainable(g, NULL, zt_graph_find(g, "y"));
            ck_assert(g->values[bias]->trainable);
        }
        zt_graph_destroy(g);
    }
    for (int i = 0; i < 2; i++) {
        struct zt_graph *g = zt_graph_create("by hand");
        ck_assert_int_eq(read_by_lstm(g, i ? TENSORFLOW : SCRIPT, ZT_FLOAT, i), zt_graph_find(g, "B"));
        zt_graph_destroy(g);
    }
}
END_TEST

/* ---- statistics of normalizations, as plain operators ---- */

static int initial(struct zt_graph *g, const char *name, struct zt_shape shape, const float *element) {
    const int v = zt_graph_add_value(g, name, ZT_FLOAT, &shape);
    g->values[v]->origin = ZT_FROM_INITIALIZER;
    g->values[v]->data = element;
    return v;
}

static int op(struct zt_graph *g, const char *type, int a, int b) {
    const int y = zt_graph_add_value(g, NULL, ZT_UNDEFINED, NULL);
    zt_graph_add_node(g, &(struct zt_node_spec){ type, type, "", 17, (int[]){ a, b }, b < 0 ? 1 : 2, &y, 1 });
    return y;
}

static void expect_why(const struct zt_graph *g, int value, const char *why) {
    ck_assert_int_eq(g->values[value]->trainable, !why);
    if (why)
        ck_assert_str_eq(g->values[value]->why, why);
}

/* (x - mean) / sqrt(variance + epsilon) scale, and x f - mean f with f = scale / sqrt(variance + epsilon). */
START_TEST(statistics_of_normalizations_are_fixed) {
    static const float some[3] = { .1F, .2F, .4F }, signs[3] = { .1F, -.2F, .4F }, epsilon = 1e-3F, unity = 1;
    const struct zt_shape vector = { 1, { 3 } }, scalar = { 0 };
    for (int way = 0; way < 3; way++) {
        struct zt_graph *g = zt_graph_create("by hand");
        const int x = product(g, "x"), mean = initial(g, "mean", vector, signs),
                  scale = initial(g, "scale", vector, some);
        const int variance = initial(g, "variance", vector, way == 2 ? signs : some);
        const int added = op(g, "Add", variance, initial(g, "epsilon", scalar, &epsilon));
        const int root = op(g, "Sqrt", added, -1);
        int y;
        if (way == 1) {
            const int f = op(g, "Mul", op(g, "Div", initial(g, "1", scalar, &unity), root), scale);
            y = op(g, "Add", op(g, "Mul", x, f), op(g, "Mul", op(g, "Neg", mean, -1), f));
        } else {
            y = op(g, "Mul", op(g, "Div", op(g, "Sub", x, mean), root), scale);
        }
        zt_test_resolve(g);
        zt_pass_trainable(g, NULL, y);
        expect_why(g, mean, way == 2 ? NULL : "mean of a normalization"); /* no variance is negative */
        expect_why(g, variance, way == 2 ? NULL : "variance of a normalization");
        expect_why(g, scale, NULL);
        zt_graph_destroy(g);
    }
}
END_TEST

/* A root without a small number beside it is no variance's. */
START_TEST(a_root_that_nothing_keeps_from_zero_is_learned) {
    static const float some[3] = { .1F, .2F, .4F };
    struct zt_graph *g = zt_graph_create("by hand");
    const int v = initial(g, "v", (struct zt_shape){ 1, { 3 } }, some);
    const int y = op(g, "Div", product(g, "x"), op(g, "Sqrt", v, -1));
    zt_test_resolve(g);
    zt_pass_trainable(g, NULL, y);
    expect_why(g, v, NULL);
    zt_graph_destroy(g);
}
END_TEST

/* Weights that are subtracted or whose root is taken of more than themselves. */
START_TEST(what_only_looks_like_a_statistic_trains) {
    static const float some[3] = { .1F, .2F, .4F }, epsilon = 1e-3F;
    const struct zt_shape vector = { 1, { 3 } };
    struct zt_graph *g = zt_graph_create("by hand");
    const int x = product(g, "x"), a = initial(g, "a", vector, some), b = initial(g, "b", vector, some);
    const int c = initial(g, "c", vector, some), number = initial(g, "epsilon", (struct zt_shape){ 0 }, &epsilon);
    const int root = op(g, "Sqrt", op(g, "Add", op(g, "Mul", a, x), number), -1);
    int y = op(g, "Div", op(g, "Sub", x, b), root);
    y = op(g, "Mul", op(g, "Sub", y, c), op(g, "Sqrt", op(g, "Add", x, c), -1));
    zt_test_resolve(g);
    zt_pass_trainable(g, NULL, y);
    expect_why(g, a, NULL);
    expect_why(g, b, NULL);
    expect_why(g, c, NULL);
    zt_graph_destroy(g);
}
END_TEST

/* ---- one parameter, written several times ---- */

START_TEST(copies_of_jax2onnx_are_found) {
    static const float some[4] = { .1F, .2F, .4F, .3F };
    static const struct {
        const char *a, *b;
        struct zt_shape of_a, of_b;
        int found;
        bool apart;
    } cases[] = {
        { "const_5", "const_8", { 3, { 1, 1, 4 } }, { 2, { 1, 4 } }, 1, false },
        { "kernel_oih_0", "kernel_oih_1", { 3, { 2, 2, 1 } }, { 3, { 2, 2, 1 } }, 1, false },
        { "const_0", "const_2", { 2, { 2, 2 } }, { 2, { 2, 2 } }, 1, true }, /* copies of a layer */
        { "const_0", "const_2", { 2, { 4, 1 } }, { 2, { 2, 2 } }, 0, false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct zt_graph *g = zt_graph_create("by hand");
        const struct zt_onnx model = { .graph = g, .producer = "jax2onnx" };
        struct zt_trainable_pair *pairs;
        const int a = initial(g, cases[i].a, cases[i].of_a, some), b = initial(g, cases[i].b, cases[i].of_b, some);
        const int y = op(g, "Mul", op(g, "Mul", product(g, "x"), a), b);
        zt_test_resolve(g);
        zt_pass_trainable(g, &model, y);
        ck_assert_int_eq(zt_trainable_copies(&model, g, &pairs), cases[i].found);
        if (cases[i].found) {
            ck_assert(pairs[0].a == a && pairs[0].b == b && !pairs[0].transposed);
            ck_assert_int_eq(pairs[0].apart, cases[i].apart);
        }
        zt_graph_destroy(g);
    }
}
END_TEST

/* ---- where gradients stop ---- */

START_TEST(a_stop_gradient_of_jax2onnx_passes_none) {
    for (int jax = 0; jax < 2; jax++) {
        struct zt_graph *g = zt_graph_create("by hand");
        const struct zt_onnx model = { .graph = g, .producer = jax ? "jax2onnx" : "another" };
        const int x = product(g, "x"), stopped = zt_graph_add_value(g, "stop_out_4", ZT_UNDEFINED, NULL);
        zt_graph_add_node(g, &(struct zt_node_spec){ "stop", "Identity", "", 17, &x, 1, &stopped, 1 });
        zt_pass_detach(g, &model);
        const int read = g->nodes[g->values[stopped]->producer]->in[0];
        ck_assert_int_eq(read != x, jax);
        if (jax)
            ck_assert_str_eq(g->nodes[g->values[read]->producer]->op_type, "Detach");
        zt_graph_destroy(g);
    }
}
END_TEST

/* z + (q - z), and whether the difference passes no gradient then. */
START_TEST(a_straight_through_estimate_of_torchscript_passes_none) {
    static const struct {
        const char *estimate; /* the operator that makes q of z; NULL: q is computed from another input */
        const char *producer;
        bool swapped, stops;
    } cases[] = {
        { "Round", "pytorch", false, true }, { "Sign", "pytorch", true, true },    { "Tanh", "pytorch", false, false },
        { NULL, "pytorch", false, false },   { "Round", "another", false, false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct zt_graph *g = zt_graph_create("by hand");
        const struct zt_onnx model = { .graph = g, .producer = cases[i].producer };
        const int z = product(g, "x"), other = product(g, "y");
        const int q = cases[i].estimate ? op(g, cases[i].estimate, z, -1) : other, difference = op(g, "Sub", q, z);
        const int y = cases[i].swapped ? op(g, "Add", difference, z) : op(g, "Add", z, difference);
        zt_pass_detach(g, &model);
        const int read = g->nodes[g->values[y]->producer]->in[!cases[i].swapped];
        ck_assert_int_eq(read != difference, cases[i].stops);
        if (cases[i].stops)
            ck_assert_str_eq(g->nodes[g->values[read]->producer]->op_type, "Detach");
        zt_graph_destroy(g);
    }
}
END_TEST

/* (q + z) - z */
START_TEST(what_an_estimate_of_torchscript_takes_again_passes_none) {
    static const struct {
        const char *estimate;
        bool swapped, stops;
    } cases[] = { { "Round", false, true }, { "Round", true, true }, { "Tanh", false, false } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct zt_graph *g = zt_graph_create("by hand");
        const struct zt_onnx model = { .graph = g, .producer = "pytorch" };
        const int z = product(g, "x"), q = op(g, cases[i].estimate, z, -1);
        const int sum = cases[i].swapped ? op(g, "Add", z, q) : op(g, "Add", q, z), y = op(g, "Sub", sum, z);
        zt_pass_detach(g, &model);
        const struct zt_node *n = g->nodes[g->values[y]->producer];
        ck_assert_int_eq(n->in[0], sum);
        ck_assert_int_eq(n->in[1] != z, cases[i].stops);
        if (cases[i].stops)
            ck_assert_str_eq(g->nodes[g->values[n->in[1]]->producer]->op_type, "Detach");
        zt_graph_destroy(g);
    }
}
END_TEST

/* x.detach() > 0 and x.detach().argsort(), of which the call names one tensor, and the node has two. */
START_TEST(what_is_compared_or_ranked_lost_no_detach) {
    static const struct {
        const char *op;
        int read, lost; /* the output that is read */
    } cases[] = { { "Mul", 0, 1 }, { "Greater", 0, 0 }, { "TopK", 0, 1 }, { "TopK", 1, 0 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct zt_graph *g = zt_graph_create("by hand");
        const struct zt_onnx model = { .graph = g, .producer = "pytorch", .torch_signature = "{}" };
        const int in[] = { product(g, "x"), product(g, "y") };
        const int out[] = { zt_graph_add_value(g, "first", ZT_UNDEFINED, NULL),
                            zt_graph_add_value(g, "second", ZT_UNDEFINED, NULL) };
        const int node = zt_graph_add_node(g, &(struct zt_node_spec){ "made", cases[i].op, "", 17, in, 2, out, 2 });
        g->nodes[node]->torch_fx_node =
            "%read : [num_users=1] = call_function[target=torch.ops.aten.a](args = (%detach, 0.5), kwargs = {})";
        op(g, "Relu", out[cases[i].read], -1);
        const char **names;
        ck_assert_int_eq(zt_trainable_flows(&model, &names), cases[i].lost);
        zt_graph_destroy(g);
    }
}
END_TEST

/* add(%mul, %mul_1), where the exporter merged the two products. */
START_TEST(a_sum_of_merged_products_may_have_lost_a_detach) {
    static const struct {
        const char *op, *call;
        int lost;
    } cases[] = { { "Add", "%mul, %mul_1", 1 },
                  { "Sub", "%mul_1, %mul", 1 },
                  { "Add", "%mul, %mul", 0 },
                  { "Mul", "%mul, %mul_1", 0 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct zt_graph *g = zt_graph_create("by hand");
        struct zt_onnx model = { .graph = g, .producer = "pytorch", .torch_signature = "{}" };
        const int z = product(g, "x"), y = op(g, cases[i].op, z, z);
        struct zt_node *made = g->nodes[g->values[z]->producer], *read = g->nodes[g->values[y]->producer];
        made->torch_fx_node =
            "%mul : [num_users=2] = call_function[target=torch.ops.aten.mul.Tensor](args = (%x, 0.5), kwargs = {})";
        read->torch_fx_node = zt_arena_printf(
            g->arena,
            "%%sum_1 : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor](args = (%s), kwargs = {})",
            cases[i].call);
        const char **names;
        ck_assert_int_eq(zt_trainable_flows(&model, &names), cases[i].lost);
        if (cases[i].lost)
            ck_assert_str_eq(names[0], "sum_1");
        zt_graph_destroy(g);
    }
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("constants");
    tcase_add_test(cases, what_an_estimate_of_torchscript_takes_again_passes_none);
    tcase_add_test(cases, a_sum_of_merged_products_may_have_lost_a_detach);
    tcase_add_test(cases, what_is_compared_or_ranked_lost_no_detach);
    tcase_add_test(cases, a_straight_through_estimate_of_torchscript_passes_none);
    tcase_add_loop_test(cases, zeros_that_a_branch_hands_out_do_not_train, 0, 2);
    tcase_add_test(cases, an_lstm_of_tf2onnx_trains_one_bias);
    tcase_add_test(cases, statistics_of_normalizations_are_fixed);
    tcase_add_test(cases, what_only_looks_like_a_statistic_trains);
    tcase_add_test(cases, a_root_that_nothing_keeps_from_zero_is_learned);
    tcase_add_test(cases, copies_of_jax2onnx_are_found);
    tcase_add_test(cases, a_stop_gradient_of_jax2onnx_passes_none);
    tcase_add_loop_test(cases, what_no_file_marks_is_told_by_name_contents_and_reader, 0,
                        (int)(sizeof ones / sizeof *ones));
    return run_suite("constants among initializers", cases, CK_NOFORK);
}
