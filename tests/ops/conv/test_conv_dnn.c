/* Checks of convolutions against the real cuDNN without a GPU: tensors, convolutions and operations of every case in
 * tests/ops/cases/conv.c, in the three directions, alone and with a bias; and the engines for given GPU properties. */
#include "ops/conv/conv_dnn.h"
#include "tests/gpu/gpus.h"
#include "tests/suite.h"
#include "tests/ops/cases.h"

#include <string.h>

extern const struct zt_case zt_cases_conv[];

static struct zt_dnn *describe(const struct zt_case *c, const struct zt_conv *conv, enum zt_conv_direction direction,
                               const struct zt_conv_dnn_form *form) {
    struct zt_dnn_graph graph;
    struct zt_err err = { 0 };
    zt_conv_dnn(conv, direction, form, &graph);
    struct zt_dnn *dnn = zt_dnn_describe(&graph, &err);
    ck_assert_msg(dnn != NULL, "%s (%s %s), direction %d: %s", c->op, c->in, c->attrs ? c->attrs : "", direction,
                  err.text[0]);
    return dnn;
}

static void plan(const struct zt_case *c, struct zt_dnn *dnn, enum zt_conv_direction direction, const char *gpu) {
    struct zt_err err = { 0 };
    ck_assert_msg(zt_dnn_plan_for(dnn, gpu, &err), "%s (%s %s), direction %d: %s", c->op, c->in,
                  c->attrs ? c->attrs : "", direction, err.text[0]);
    ck_assert_uint_le(zt_dnn_workspace_bytes(dnn), ZT_DNN_WORKSPACE);
}

/* Describes it in both orders of the tensors and every type, and plans it on one of the GPUs after the other. */
static void check_graph(const struct zt_case *c, const struct zt_conv *conv, enum zt_conv_direction direction,
                        bool bias) {
    static size_t gpu;
    static const enum zt_dtype types[] = { ZT_FLOAT, ZT_BFLOAT16, ZT_FLOAT16 };
    for (int form = 0; form < 6; form++, gpu++) {
        const struct zt_conv_dnn_form of = { types[form % 3], form / 3, bias };
        struct zt_dnn *dnn = describe(c, conv, direction, &of);
        if (zt_is_planned(gpu))
            plan(c, dnn, direction, zt_gpus[gpu % ZT_GPUS]);
        zt_dnn_destroy(dnn);
    }
}

/* A convolution that cuDNN knows: of something, and its windows reach as far as x goes but for a rest of less than a
 * stride, which output_padding may exceed. */
static bool is_known(const struct zt_conv *c) {
    const struct zt_window *w = &c->window;
    bool known = c->n > 0;
    for (int a = 0; a < w->axes; a++)
        known &=
            w->in[a] > 0 && w->in[a] + w->pad[a] - (w->kernel[a] - 1) * w->dilation[a] - 1 < w->out[a] * w->stride[a];
    return known;
}

START_TEST(cudnn_takes_what_is_described_and_has_engines_for_it) {
    int count = 0;
    for (const struct zt_case *c = zt_cases_conv; c->op; c++) {
        struct zt_case_graph made;
        struct zt_err err = { 0 };
        struct zt_conv conv;
        ck_assert_msg(zt_case_make(c, false, &made, &err), "%s", err.text[0]);
        const struct zt_conv_directions *roles = zt_conv_directions(made.graph->nodes[0]);
        if (roles && roles->read(made.graph, 0, &conv, &err) && is_known(&conv)) {
            for (int direction = ZT_CONV_TO_Y; direction <= ZT_CONV_TO_W; direction++, count++)
                check_graph(c, &conv, (enum zt_conv_direction)direction, false);
            check_graph(c, &conv, ZT_CONV_TO_Y, true);
        }
        zt_graph_destroy(made.graph);
    }
    ck_assert_int_gt(count, 100);
}
END_TEST

static size_t workspace_of(const struct zt_conv *conv, enum zt_conv_direction direction, bool last, const char *gpu) {
    const struct zt_conv_dnn_form form = { .dtype = ZT_BFLOAT16, .last = last };
    struct zt_dnn_graph graph;
    struct zt_err err = { 0 };
    zt_conv_dnn(conv, direction, &form, &graph);
    struct zt_dnn *dnn = zt_dnn_describe(&graph, &err);
    ck_assert_msg(dnn && zt_dnn_plan_for(dnn, gpu, &err), "direction %d: %s", direction, err.text[0]);
    const size_t bytes = zt_dnn_workspace_bytes(dnn);
    zt_dnn_destroy(dnn);
    return bytes;
}

/* The reason for channels last: with planes cuDNN transposes x and y in its workspace in each call. The convolution is
 * one of ResNet-50. */
START_TEST(cudnn_turns_no_activation_whose_channels_are_last) {
    struct zt_conv conv = { .n = 128, .c = 64, .m = 64, .groups = 1 };
    conv.window = (struct zt_window){ .axes = 2,
                                      .in = { 56, 56 },
                                      .out = { 56, 56 },
                                      .kernel = { 3, 3 },
                                      .stride = { 1, 1 },
                                      .dilation = { 1, 1 },
                                      .pad = { 1, 1 },
                                      .pad_end = { 1, 1 } };
    const size_t x_bytes = (size_t)conv.n * 64 * 56 * 56 * 2;
    for (size_t i = 0; i < ZT_GPUS; i++)
        for (int direction = ZT_CONV_TO_Y; direction <= ZT_CONV_TO_W; direction++) {
            ck_assert_uint_lt(workspace_of(&conv, (enum zt_conv_direction)direction, true, zt_gpus[i]), x_bytes / 4);
            ck_assert_uint_ge(workspace_of(&conv, (enum zt_conv_direction)direction, false, zt_gpus[i]), x_bytes);
        }
}
END_TEST

START_TEST(a_shape_that_is_no_convolution_is_refused_with_cudnns_words) {
    struct zt_conv conv = { .n = 1, .c = 2, .m = 3, .groups = 1 };
    struct zt_dnn_graph graph;
    struct zt_err err = { 0 };
    conv.window = (struct zt_window){
        .axes = 2, .in = { 5, 5 }, .out = { 3, 3 }, .kernel = { 3, 3 }, .stride = { 1, 1 }, .dilation = { 1, 1 }
    };
    zt_conv_dnn(&conv, ZT_CONV_TO_Y, &(struct zt_conv_dnn_form){ .dtype = ZT_FLOAT }, &graph);
    graph.tensor[ZT_DNN_Y].dim[3] = 4;
    ck_assert_ptr_null(zt_dnn_describe(&graph, &err));
    ck_assert_ptr_nonnull(strstr(err.text[0], "cuDNN, describing a convolution of tensors: CUDNN_STATUS_"));
}
END_TEST

int main(int count, char **args) {
    zt_every_plan = count > 1 && strcmp(args[1], "all") == 0;
    TCase *tests = tcase_create("descriptors");
    tcase_add_test(tests, cudnn_takes_what_is_described_and_has_engines_for_it);
    tcase_add_test(tests, cudnn_turns_no_activation_whose_channels_are_last);
    tcase_add_test(tests, a_shape_that_is_no_convolution_is_refused_with_cudnns_words);
    return run_suite("gpu-dnn", tests, CK_NOFORK); /* cuDNN does not survive a fork */
}
