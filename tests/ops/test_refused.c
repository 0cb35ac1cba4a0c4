/* Nodes whose attributes, shapes or contents are wrong are refused with one message, which names the node and the
 * fault. */
#include "tests/ops/cases.h"
#include "graph/passes/eval.h"
#include "ops/ml/kernels.h"
#include "tests/suite.h"

#include <stdlib.h>
#include <string.h>

struct refused {
    struct zt_case node;
    const char *why; /* part of the message */
};

/* Inference and a run with the reference kernel, of which one must fail. */
static void check_refused(const struct refused *r) {
    struct zt_case_graph made;
    struct zt_err err = { 0 };
    bool good = zt_case_make(&r->node, false, &made, &err);
    struct zt_eval *eval = good ? zt_eval_create(made.graph, NULL, 2) : NULL;
    for (int i = 0; good && i < made.in_count; i++)
        if (made.in[i] >= 0)
            zt_eval_feed(eval, made.in[i], &made.feed[i]);
    good = good && zt_eval_run(eval, 0, 1, &err);
    ck_assert_msg(!good, "%s \"%s\" %s is not refused", r->node.op, r->node.in, r->node.attrs ? r->node.attrs : "");
    ck_assert_msg(strncmp(err.text[0], "case (", 6) == 0, "%s", err.text[0]);
    ck_assert_msg(strstr(err.text[0], r->why), "\"%s\" does not say \"%s\"", err.text[0], r->why);
    if (eval)
        zt_eval_destroy(eval);
    zt_graph_destroy(made.graph);
}
static void check_all(const struct refused *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        check_refused(&list[i]);
}
#define CHECK_ALL(list) check_all(list, sizeof list / sizeof *(list))

START_TEST(transforms_of_impossible_lengths_axes_and_parts_are_refused) {
    static const struct refused list[] = {
        { { "DFT", "float[4]" }, "is not [..., 1] (real) or [..., 2] (complex)" },
        { { "DFT", "float[4,3]" }, "is not [..., 1] (real) or [..., 2] (complex)" },
        { { "DFT", "float[2,4,2] - int64(2)" }, "axis 2 holds the real and imaginary parts" },
        { { "DFT", "float[2,4,2] - int64(-1)" }, "axis -1 holds the real and imaginary parts" },
        { { "DFT", "float[2,4,2] - int64(3)" }, "axis 3 is outside" },
        { { "DFT", "float[2,4,2] - int64(-9223372036854775807)" }, "is outside" },
        { { "DFT", "float[2,4,2]", .attrs = "axis=5", .opset = 17 }, "axis 5 is outside" },
        { { "DFT", "float[2,4,2] int64(0)" }, "length 0" },
        { { "DFT", "float[2,4,2] int64(-7)" }, "length -7" },
        { { "DFT", "float[2,4,2] int64(9223372036854775807)" }, "length 9223372036854775807" },
        { { "DFT", "float[2,4,2] int64(1099511627776)" }, "more than 2^40 elements" },
        { { "DFT", "float[2,4,2] int64{4,4}" }, "at most 1 are taken" },
        { { "DFT", "float[2,4,2] int64{}" }, "has no element" },
        { { "DFT", "float[2,1,2]", .attrs = "inverse=1 onesided=1" }, "length 0" },
        { { "DFT", "float[2,4,2]", .attrs = "onesided=1" }, "of complex numbers is not defined" },
        { { "DFT", "float[2,4,1]", .attrs = "inverse=1 onesided=1" }, "of real numbers is not defined" },
        { { "DFT", "float[2,4,2]", .attrs = "inverse=2" }, "\"inverse\" is 2" },
        { { "STFT", "float[9] int64(1)" }, "rank 1, not 2 or 3" },
        { { "STFT", "float[2,9,1] int64(0) - int64(4)" }, "frames are 0 apart" },
        { { "STFT", "float[2,9,1] int64(1) - int64(10)" }, "a frame of 10 in a signal of 9" },
        { { "STFT", "float[2,9,1] int64(1) - int64(0)" }, "a frame of 0" },
        { { "STFT", "float[2,9,1] int64(1) float[4] int64(5)" }, "the window has 4 numbers, a frame 5" },
        { { "STFT", "float[2,9,1] int64(1) float[2,2]" }, "is not a vector" },
        { { "STFT", "float[2,9,1] int64(1) double[4]" }, "has type double" },
        { { "STFT", "float[2,9,2] int64(1) float[4]" }, "of complex numbers is not defined" },
        { { "STFT", "float[2,0,1] int64(1)" }, "a frame of 0 in a signal of 0" },
    };
    CHECK_ALL(list);
}
END_TEST

START_TEST(windows_and_weights_of_impossible_sizes_are_refused) {
    static const struct refused list[] = {
        { { "HannWindow", "int64(-1)" }, "a window of -1 numbers" },
        { { "HannWindow", "int64(2199023255552)" }, "more than 2^40 elements" },
        { { "HammingWindow", "int64{3,4}" }, "at most 1 are taken" },
        { { "BlackmanWindow", "int64(4)", .attrs = "output_datatype=8" }, "\"output_datatype\" is 8" },
        { { "BlackmanWindow", "int64(4)", .attrs = "output_datatype=-3" }, "\"output_datatype\" is -3" },
        { { "MelWeightMatrix", "int64(-2) int64(8) int64(8000) float(0.0) float(9.0)" }, "is not a number from 0 on" },
        { { "MelWeightMatrix", "int64(2) int64(-8) int64(8000) float(0.0) float(9.0)" }, "is not a number from 0 on" },
        { { "MelWeightMatrix", "int64(2) int64(8) int64(0) float(0.0) float(9.0)" }, "sample rate 0" },
        { { "MelWeightMatrix", "int64(2) int64(8) int64(8000) float(9.0) float(0.5)" }, "edges 9 and 0.5" },
        { { "MelWeightMatrix", "int64(2) int64(8) int64(8000) float{1.0,2.0} float(9.0)" }, "is not a scalar" },
        { { "Det", "float[3]" }, "is not [..., M, M]" },
        { { "Det", "float[2,3]" }, "is not [..., M, M]" },
    };
    CHECK_ALL(list);
}
END_TEST

#define ML .domain = "ai.onnx.ml", .opset = ZT_ML_OPSET
/* A tree of two nodes; the texts are what a case gets wrong. */
#define TREE(FEATURES, TRUE_IDS, TRUE_LEAFS, MORE)                                                                     \
    {                                                                                                                  \
        "TreeEnsemble", "float[2,2]", ML,                                                                              \
            .attrs = "nodes_splits=float{0.5,0.25} nodes_featureids=" FEATURES " nodes_truenodeids=" TRUE_IDS          \
                     " nodes_falsenodeids=[0,1] nodes_trueleafs=" TRUE_LEAFS                                           \
                     " nodes_falseleafs=[1,1] leaf_weights=float{1.0,2.0,3.0} leaf_targetids=[0,1,1] " MORE            \
    }
#define MODES "nodes_modes=uint8{0,1} "

START_TEST(trees_whose_indices_lead_nowhere_are_refused) {
    static const struct refused list[] = {
        { TREE("[0,2]", "[1,2]", "[0,1]", MODES "tree_roots=[0]"), "\"nodes_featureids\" has 2 at 1" },
        { TREE("[0,-1]", "[1,2]", "[0,1]", MODES "tree_roots=[0]"), "\"nodes_featureids\" has -1 at 1" },
        { TREE("[0]", "[1,2]", "[0,1]", MODES "tree_roots=[0]"), "\"nodes_featureids\" has 1 numbers, not 2" },
        { TREE("[0,1]", "[2,2]", "[0,1]", MODES "tree_roots=[0]"), "\"nodes_truenodeids\" has 2 at 0" },
        { TREE("[0,1]", "[1,3]", "[0,1]", MODES "tree_roots=[0]"), "\"nodes_truenodeids\" has 3 at 1" },
        { TREE("[0,1]", "[1,-1]", "[0,1]", MODES "tree_roots=[0]"), "\"nodes_truenodeids\" has -1 at 1" },
        { TREE("[0,1]", "[1,2]", "[0,2]", MODES "tree_roots=[0]"), "\"nodes_trueleafs\" has 2 at 1" },
        { TREE("[0,1]", "[0,2]", "[0,1]", MODES "tree_roots=[0]"), "the tree from node 0 has a circle" },
        { TREE("[0,1]", "[1,0]", "[0,0]", MODES "tree_roots=[1]"), "the tree from node 1 has a circle" },
        { TREE("[0,1]", "[1,2]", "[0,1]", MODES "tree_roots=[2]"), "\"tree_roots\" has 2 at 0" },
        { TREE("[0,1]", "[1,2]", "[0,1]", MODES "tree_roots=[]"), "\"tree_roots\" names no tree" },
        { TREE("[0,1]", "[1,2]", "[0,1]", MODES "tree_roots=[0] n_targets=1"), "\"leaf_targetids\" has 1 at 1" },
        { TREE("[0,1]", "[1,2]", "[0,1]", MODES "tree_roots=[0] n_targets=0"), "the number of targets is 0" },
        { TREE("[0,1]", "[1,2]", "[0,1]", MODES "tree_roots=[0] aggregate_function=4"), "\"aggregate_function\" is 4" },
        { TREE("[0,1]", "[1,2]", "[0,1]", MODES "tree_roots=[0] post_transform=-1"), "\"post_transform\" is -1" },
        { TREE("[0,1]", "[1,2]", "[0,1]", "nodes_modes=uint8{0,7} tree_roots=[0]"), "\"nodes_modes\" has 7 at 1" },
        { TREE("[0,1]", "[1,2]", "[0,1]", "nodes_modes=uint8{0} tree_roots=[0]"), "\"nodes_modes\" has 1 numbers" },
        { TREE("[0,1]", "[1,2]", "[0,1]", "nodes_modes=uint8{0,6} tree_roots=[0]"), "has no set for node 1" },
        { TREE("[0,1]", "[1,2]", "[0,1]", MODES "tree_roots=[0] membership_values=float{1.0}"), "1 numbers too many" },
        { TREE("[0,1]", "[1,2]", "[0,1]", MODES "tree_roots=[0] nodes_missing_value_tracks_true=[1]"),
          "\"nodes_missing_value_tracks_true\" has 1 numbers" },
        { { "TreeEnsemble", "float[2,2]", ML, .attrs = MODES }, "is missing" },
        { { "TreeEnsemble", "float[2,2]", .domain = "ai.onnx.ml", .opset = ZT_ML_OPSET + 1 },
          "is not supported in opset 6" },
        { { "StatefulPartitionedCall", "float[2]" }, "the exporter left one of its framework" },
        { { "ArrayFeatureExtractor", "float[2,3] int64{1,3}", ML }, "index 3 is outside 0..2" },
        { { "ArrayFeatureExtractor", "float[2,3] int64{-1}", ML }, "index -1 is outside 0..2" },
        { { "ArrayFeatureExtractor", "float(1.0) int64{0}", ML }, "has no axis" },
    };
    CHECK_ALL(list);
}
END_TEST

#define GRAMS(LENGTHS, COUNTS, INDEXES, MORE)                                                                          \
    {                                                                                                                  \
        "TfIdfVectorizer", "int64[5]",                                                                                 \
            .attrs = LENGTHS " ngram_counts=" COUNTS " ngram_indexes=" INDEXES " pool_int64s=[1,2,3,4,5,6] " MORE      \
    }
#define ONE_TWO "min_gram_length=1 max_gram_length=2 max_skip_count=0"

START_TEST(pools_that_contradict_themselves_are_refused) {
    static const struct refused list[] = {
        { GRAMS(ONE_TWO, "[0,3]", "[0,1,2,3]", "mode=TF"), "3 items of 2-grams" },
        { GRAMS(ONE_TWO, "[0,8]", "[0,1,2,3]", "mode=TF"), "does not divide a pool of 6" },
        { GRAMS(ONE_TWO, "[0,-2]", "[0,1,2,3]", "mode=TF"), "does not divide a pool of 6" },
        { GRAMS(ONE_TWO, "[2,4]", "[0,1,2,3]", "mode=TF"), "does not divide a pool of 6" },
        { GRAMS(ONE_TWO, "[0,2]", "[0,1,2]", "mode=TF"), "the pool has 4 n-grams and ngram_indexes 3" },
        { GRAMS(ONE_TWO, "[0,2]", "[0,1,2,-3]", "mode=TF"), "ngram_indexes[3] = -3" },
        { GRAMS(ONE_TWO, "[0,2]", "[0,1,2,9223372036854775807]", "mode=TF"), "ngram_indexes[3]" },
        { GRAMS(ONE_TWO, "[0,2]", "[0,1,2,3]", "mode=IDFTF"), "is not TF, IDF or TFIDF" },
        { GRAMS(ONE_TWO, "[0,2]", "[0,1,2,3]", "mode=IDF weights=[1.0]"), "1 weights for 4 n-grams" },
        { GRAMS("min_gram_length=0 max_gram_length=2 max_skip_count=0", "[0,2]", "[0,1,2,3]", "mode=TF"),
          "n-grams of 0" },
        { GRAMS("min_gram_length=2 max_gram_length=1 max_skip_count=0", "[0,2]", "[0,1,2,3]", "mode=TF"),
          "n-grams of 2" },
        { GRAMS("min_gram_length=1 max_gram_length=3 max_skip_count=0", "[0,2]", "[0,1,2,3]", "mode=TF"), "of 1 to 3" },
        { GRAMS("min_gram_length=1 max_gram_length=2 max_skip_count=-1", "[0,2]", "[0,1,2,3]", "mode=TF"),
          "-1 skipped" },
        { { "TfIdfVectorizer", "int64[5]",
            .attrs = ONE_TWO " ngram_counts=[0] ngram_indexes=[0] pool_strings=[a] mode=TF" },
          "pools of strings are not supported" },
        { { "TfIdfVectorizer", "int64[1,2,2]",
            .attrs = ONE_TWO " ngram_counts=[0,1] ngram_indexes=[0] pool_int64s=[1] mode=TF" },
          "rank 3, not 1 or 2" },
    };
    CHECK_ALL(list);
}
END_TEST

#define QKV   "float[2,3,8] float[2,3,4] float[2,3,6]"
#define HEADS "q_num_heads=4 kv_num_heads=2 "

START_TEST(linear_attentions_that_do_not_fit_are_refused) {
#define LINEAR(ins, attrs_, says_)                                                                                     \
    { { "LinearAttention", ins, .attrs = attrs_, .opset = 27, .outs = 2 }, says_ }
    static const struct refused list[] = {
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
    CHECK_ALL(list);
}
END_TEST

START_TEST(causal_convolutions_that_do_not_fit_are_refused) {
#define CAUSAL(ins, attrs_, says_)                                                                                     \
    { { "CausalConvWithState", ins, .attrs = attrs_, .opset = 27, .outs = 2 }, says_ }
    static const struct refused list[] = {
        CAUSAL("float[2,3,5] float[3,1,2]", "activation=relu", "activation is \"relu\""),
        CAUSAL("float[2,3] float[3,1,2]", NULL, "[batch, channels, length]"),
        CAUSAL("float[2,3,5] float[4,1,2]", NULL, "[channels, 1, kernel]"),
        CAUSAL("float[2,3,5] float[3,3,2]", NULL, "[channels, 1, kernel]"),
        CAUSAL("float[2,3,5] float[3,1,0]", NULL, "[channels, 1, kernel]"),
        CAUSAL("float[2,3,5] float[3,1,2] float[2]", NULL, "[channels]"),
        CAUSAL("float[2,3,5] float[3,1,2] - float[2,3,2]", NULL, "[batch, channels, kernel - 1]"),
        CAUSAL("float[2,3,5] double[3,1,2]", NULL, "double"),
    };
    CHECK_ALL(list);
}
END_TEST

START_TEST(scattered_tensors_that_do_not_fit_are_refused) {
#define SCATTER(ins, attrs_, says_)                                                                                    \
    { { "TensorScatter", ins, .attrs = attrs_, .opset = 24 }, says_ }
    static const struct refused list[] = {
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
    CHECK_ALL(list);
}
END_TEST

START_TEST(steps_of_optimizers_that_do_not_fit_are_refused) {
#define STEP(op, outs_, ins, attrs_, says_)                                                                            \
    { { op, ins, .attrs = attrs_, .domain = "ai.onnx.preview.training", .opset = 1, .outs = outs_ }, says_ }
#define MOMENTUM "alpha=0.9 beta=0.8 norm_coefficient=0.1 "
    static const struct refused list[] = {
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
    CHECK_ALL(list);
}
END_TEST

START_TEST(what_detection_reads_and_does_not_fit_is_refused) {
#define IMAGE "float[1,4,6,6] float[2,4,3,3] "
#define ROIS  "float[1,2,6,6] float[2,4] int64[2]:0..0"
    static const struct refused list[] = {
        { { "DeformConv", IMAGE "float[1,18,4,5]" }, "has shape [1, 18, 4, 5], wants [1, 18, 4, 4]" },
        { { "DeformConv", IMAGE "float[1,18,4,4] - float[1,8,4,4]" }, "has shape [1, 8, 4, 4], wants [1, 9, 4, 4]" },
        { { "DeformConv", IMAGE "float[1,18,4,4] float[3]" }, "wants [2]" },
        { { "DeformConv", IMAGE "float[1,18,4,4]", .attrs = "offset_group=3" }, "offset_group = 3 does not divide" },
        { { "DeformConv", IMAGE "float[1,18,4,4]", .attrs = "offset_group=0" }, "offset_group = 0 does not divide" },
        { { "DeformConv", IMAGE "float[1,18,4,4]", .attrs = "group=3" }, "4 channels in 3 groups" },
        { { "DeformConv", IMAGE "float[1,18,4,4]", .attrs = "pads=[-1,0,0,0]" }, "\"pads\" holds -1" },
        { { "DeformConv", IMAGE "float[1,18,4,4]", .attrs = "strides=[0,1]" }, "\"strides\" holds 0" },
        { { "DeformConv", IMAGE "float[1,18,4,4]", .attrs = "kernel_shape=[3,2]" }, "kernel_shape[1] = 2" },
        { { "DeformConv", "float[1,4] float[2,4] float[1,2]" }, "rank, 3 or more" },
        { { "RoiAlign", "float[1,2,6] float[2,4] int64[2]:0..0" }, "wants rank 4" },
        { { "RoiAlign", "float[1,2,6,6] float[2,5] int64[2]:0..0" }, "wants [R,4] and [R]" },
        { { "RoiAlign", "float[1,2,6,6] float[2,4] int64[3]:0..0" }, "wants [R,4] and [R]" },
        { { "RoiAlign", ROIS, .attrs = "mode=min" }, "mode = \"min\"" },
        { { "RoiAlign", ROIS, .attrs = "coordinate_transformation_mode=pixel" }, "\"pixel\", allowed half_pixel" },
        { { "RoiAlign", ROIS, .attrs = "coordinate_transformation_mode=half_pixel", .opset = 10 }, "coordinate" },
        { { "RoiAlign", ROIS, .attrs = "output_height=0" }, "output_height = 0" },
        { { "RoiAlign", ROIS, .attrs = "output_width=4294967296" }, "output_width = 4294967296" },
        { { "RoiAlign", ROIS, .attrs = "sampling_ratio=-1" }, "sampling_ratio = -1" },
        { { "RoiAlign", ROIS, .attrs = "sampling_ratio=1000000000000" }, "sampling_ratio = 1000000000000" },
        { { "RoiAlign", ROIS, .attrs = "spatial_scale=-1.0" }, "spatial_scale = -1" },
        { { "MaxPool", "float[2,6,6]", .attrs = "kernel_shape=[3,3]" },
          "has 2 entries, wants 1 for an input of 3 axes" },
        { { "Split", "float[4,2] int64{3,3}", .outs = 2 }, "its sizes add up to 6, but its axis has 4 elements" },
        { { "Split", "float[4,2] int64{5,-1}", .outs = 2 }, "size 1 is -1" },
        { { "MaxRoiPool", "float[1,2,6,6] float[2,4]", .attrs = "pooled_shape=[2,2]" }, "wants rank 4 and [R,5]" },
        { { "MaxRoiPool", "float[1,2,6,6] float[2,5]", .attrs = "pooled_shape=[2]" }, "has 1 entries, wants 2" },
        { { "MaxRoiPool", "float[1,2,6,6] float[2,5]", .attrs = "pooled_shape=[2,0]" }, "pooled_shape[1] = 0" },
        { { "MaxRoiPool", "float[1,2,6,6] float[2,5]" }, "\"pooled_shape\" is missing" },
        { { "NonMaxSuppression", "float[1,3,4] float[1,1,4]" }, "wants [N,B,4] and [N,C,B]" },
        { { "NonMaxSuppression", "float[1,3,5] float[1,1,3]" }, "wants [N,B,4] and [N,C,B]" },
        { { "NonMaxSuppression", "float[1,3,4] float[1,1,3] int64{1,2}" }, "is not a scalar" },
        { { "NonMaxSuppression", "float[1,3,4] float[1,1,3] int64{1} float{1.5}" }, "iou_threshold = 1.5" },
        { { "NonMaxSuppression", "float[1,3,4] float[1,1,3] int64{1} float{nan}" }, "iou_threshold" },
        { { "NonMaxSuppression", "float[1,3,4] float[1,1,3] int64{1}", .attrs = "center_point_box=2" },
          "center_point_box = 2" },
    };
    CHECK_ALL(list);
}
END_TEST

int main(void) {
    TCase *t = tcase_create("refused");
    tcase_add_test(t, transforms_of_impossible_lengths_axes_and_parts_are_refused);
    tcase_add_test(t, windows_and_weights_of_impossible_sizes_are_refused);
    tcase_add_test(t, trees_whose_indices_lead_nowhere_are_refused);
    tcase_add_test(t, pools_that_contradict_themselves_are_refused);
    tcase_add_test(t, linear_attentions_that_do_not_fit_are_refused);
    tcase_add_test(t, causal_convolutions_that_do_not_fit_are_refused);
    tcase_add_test(t, scattered_tensors_that_do_not_fit_are_refused);
    tcase_add_test(t, steps_of_optimizers_that_do_not_fit_are_refused);
    tcase_add_test(t, what_detection_reads_and_does_not_fit_is_refused);
    return run_suite("refused", t, CK_NOFORK); /* libgomp does not survive a fork */
}
