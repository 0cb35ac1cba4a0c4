/* cuDNN's own checks of what is described for it, which need no GPU: tensors, convolutions and operations of every case
 * in tests/ops/cases/conv.c, each of the three ways, alone and with bias and ReLU. */
#include "ops/conv_dnn.h"
#include "tests/ops/cases.h"

#include <check.h>
#include <string.h>

extern const struct zt_case zt_cases_conv[];

static bool read_case(const struct zt_graph *g, struct zt_conv *to, struct zt_err *err) {
    return zt_conv_roles(&g->nodes[0])->read(g, 0, to, err);
}

static void check_graph(const struct zt_case *c, const struct zt_conv *conv, enum zt_conv_way way,
                        struct zt_conv_after after) {
    struct zt_dnn_graph graph;
    struct zt_err err = { 0 };
    zt_conv_dnn(conv, way, ZT_FLOAT, after, &graph);
    struct zt_dnn *dnn = zt_dnn_describe(&graph, &err);
    ck_assert_msg(dnn != NULL, "%s (%s %s), way %d: %s", c->op, c->in, c->attrs ? c->attrs : "", way, err.text[0]);
    zt_dnn_destroy(dnn);
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

START_TEST(cudnn_takes_what_is_described) {
    int count = 0;
    for (const struct zt_case *c = zt_cases_conv; c->op; c++) {
        struct zt_case_graph made;
        struct zt_err err = { 0 };
        struct zt_conv conv;
        ck_assert_msg(zt_case_make(c, false, &made, &err), "%s", err.text[0]);
        ck_assert_msg(read_case(made.graph, &conv, &err), "%s", err.text[0]);
        for (int way = ZT_CONV_TO_Y; is_known(&conv) && way <= ZT_CONV_TO_W; way++, count++)
            check_graph(c, &conv, (enum zt_conv_way)way, (struct zt_conv_after){ 0 });
        if (is_known(&conv)) {
            check_graph(c, &conv, ZT_CONV_TO_Y, (struct zt_conv_after){ .bias = true });
            check_graph(c, &conv, ZT_CONV_TO_Y, (struct zt_conv_after){ .bias = true, .relu = true });
            check_graph(c, &conv, ZT_CONV_TO_Y, (struct zt_conv_after){ .relu = true });
        }
        zt_graph_destroy(made.graph);
    }
    ck_assert_int_gt(count, 100);
}
END_TEST

START_TEST(a_shape_that_is_no_convolution_is_refused_with_cudnns_words) {
    struct zt_conv conv = { .n = 1, .c = 2, .m = 3, .groups = 1 };
    struct zt_dnn_graph graph;
    struct zt_err err = { 0 };
    conv.window = (struct zt_window){
        .axes = 2, .in = { 5, 5 }, .out = { 3, 3 }, .kernel = { 3, 3 }, .stride = { 1, 1 }, .dilation = { 1, 1 }
    };
    zt_conv_dnn(&conv, ZT_CONV_TO_Y, ZT_FLOAT, (struct zt_conv_after){ 0 }, &graph);
    graph.tensor[ZT_DNN_Y].dim[3] = 4;
    ck_assert_ptr_null(zt_dnn_describe(&graph, &err));
    ck_assert_ptr_nonnull(strstr(err.text[0], "cuDNN, describing a convolution of tensors: CUDNN_STATUS_"));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("gpu-dnn");
    TCase *tests = tcase_create("descriptors");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, cudnn_takes_what_is_described);
    tcase_add_test(tests, a_shape_that_is_no_convolution_is_refused_with_cudnns_words);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK); /* cuDNN does not survive a fork */
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
