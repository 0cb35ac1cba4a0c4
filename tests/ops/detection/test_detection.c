/* Tests that the cases of the family cannot express: errors, NaN, sizes that depend on data, and the same bits at any
 * thread count. */
#include "device/threads.h"
#include "graph/passes/eval.h"
#include "tests/ops/machine.h"
#include "tests/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- running a case ---- */

/* Runs the case on a back end; the outputs are in the graph, which the caller destroys. False with an error. */
static bool run_case(const struct zt_case *c, enum zt_backend backend, int threads, struct zt_case_graph *made,
                     struct zt_tensor *out, struct zt_err *err) {
    struct zt_device *host = zt_device_host_create(threads);
    const struct options o = { .backend = backend, .threads = threads, .device = host };
    struct machine m = { 0 };
    bool good = zt_case_make(c, false, made, err) && machine_infer(made, err);
    struct zt_graph *g = made->graph;
    const bool started = good;
    good = good && machine_start(&m, g, g->outputs, g->output_count, &o, err);
    ck_assert(!good || g->nodes[0]->backend == backend);
    for (int i = 0; good && i < made->in_count; i++)
        good = made->in[i] < 0 || made->constant[i] || machine_feed(&m, made->in[i], &made->feed[i], err);
    good = good && machine_run_node(&m, 0, err);
    for (int i = 0; good && i < g->output_count; i++)
        good = machine_fetch(&m, g->outputs[i], &out[i], err);
    if (started)
        machine_finish(&m);
    host->api->destroy(host);
    return good;
}

/* ---- threads ---- */

START_TEST(bits_of_cpu_kernels_do_not_depend_on_the_number_of_threads) {
    static const struct zt_case cases[] = {
        { "DeformConv", "float[3,6,40,19] float[8,3,3,3] float[3,36,40,19]:-3..3 float[8] float[3,18,40,19]",
          .attrs = "group=2 offset_group=2 pads=[1,1,1,1]" },
        { "DeformConvGradInput",
          "float[5,6,12,11] float[8,3,3,3] float[5,36,12,11]:-3..3 float[5,8,12,11] float[5,18,12,11]",
          .attrs = "group=2 offset_group=2 pads=[1,1,1,1]", .domain = "ztrain", .opset = 1, .outs = 3 },
        { "DeformConvGradWeight", "float[5,6,12,11] float[5,8,12,11] float[5,36,12,11]:-3..3",
          .attrs = "group=2 offset_group=2 pads=[1,1,1,1] kernel_shape=[3,3]", .domain = "ztrain", .opset = 1 },
        { "RoiAlign", "float[2,7,30,25] float[19,4]:-3..28 int64[19]:0..1", .attrs = "output_height=7 output_width=5" },
        { "RoiAlignGrad", "float[19,7,7,5] float[19,4]:-3..28 int64[19]:0..1",
          .attrs = "output_height=7 output_width=5 input_shape=[2,7,30,25]", .domain = "ztrain", .opset = 1 },
        { "RoiAlignGrad", "float[19,7,7,5] float[19,4]:-3..28 int64[19]:0..1 float[2,7,30,25]",
          .attrs = "output_height=7 output_width=5 input_shape=[2,7,30,25] mode=max", .domain = "ztrain", .opset = 1 },
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct zt_case_graph one;
        struct zt_tensor first[3];
        struct zt_err err = { 0 };
        ck_assert_msg(run_case(&cases[k], ZT_CPU, 1, &one, first, &err), "%s", err.text[0]);
        for (int threads = 2; threads < 6; threads++) {
            struct zt_case_graph more;
            struct zt_tensor out[3];
            ck_assert_msg(run_case(&cases[k], ZT_CPU, threads, &more, out, &err), "%s", err.text[0]);
            for (int i = 0; i < one.graph->output_count; i++)
                ck_assert_msg(
                    memcmp(first[i].data, out[i].data, (size_t)zt_shape_count(&out[i].shape) * sizeof(float)) == 0,
                    "%s: output %d with %d threads", cases[k].op, i, threads);
            zt_graph_destroy(more.graph);
        }
        zt_graph_destroy(one.graph);
    }
}
END_TEST

/* ---- numbers that are none ---- */

/* Runs on the reference and the CPU kernel and says whether every element of output 0 from `first` on is NaN, and the
 * others are not. */
static void check_nan_from(const struct zt_case *c, int64_t first) {
    for (enum zt_backend backend = ZT_REF; backend <= ZT_CPU; backend++) {
        struct zt_case_graph made;
        struct zt_tensor y;
        struct zt_err err = { 0 };
        ck_assert_msg(run_case(c, backend, 2, &made, &y, &err), "%s", err.text[0]);
        for (int64_t i = 0; i < zt_shape_count(&y.shape); i++)
            ck_assert_msg(isnan(((const float *)y.data)[i]) == (i >= first), "%s: element %lld is %g", c->in,
                          (long long)i, (double)((const float *)y.data)[i]);
        zt_graph_destroy(made.graph);
    }
}

START_TEST(a_position_that_is_no_number_gives_nan_and_an_infinite_one_zero) {
    check_nan_from(&(struct zt_case){ "RoiAlign", "float[1,1,3,3] float[2,4]:nan..nan int64[2]:0..0" }, 0);
    check_nan_from(&(struct zt_case){ "RoiAlign", "float[1,1,3,3] float[2,4]:nan..nan int64[2]:0..0",
                                      .attrs = "mode=max output_width=2" },
                   0);
    check_nan_from(&(struct zt_case){ "DeformConv", "float[1,1,3,3] float[1,1,2,2] float[1,8,2,2]:nan..nan" }, 0);
    check_nan_from(&(struct zt_case){ "DeformConv", "float[1,1,3,3] float[1,1,2,2] float[1,8,2,2]:1e38..1e38" }, 4);
    check_nan_from(&(struct zt_case){ "RoiAlign", "float[1,1,3,3] float[2,4]:1e38..1e38 int64[2]:0..0" }, 2);
}
END_TEST

/* ---- errors ---- */

START_TEST(a_batch_index_outside_is_named_by_every_kernel) {
    static const struct zt_case cases[] = {
        { "RoiAlign", "float[2,3,5,5] float[3,4] int64{0,1,2}" },
        { "RoiAlignGrad", "float[3,3,1,1] float[3,4] int64{0,1,2}", .attrs = "input_shape=[2,3,5,5]",
          .domain = "ztrain", .opset = 1 },
        { "RoiAlign", "float[2,3,5,5] float[3,4] int64{0,1,-1}", .attrs = "mode=max" },
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (enum zt_backend backend = ZT_REF; backend <= ZT_CPU; backend++) {
            struct zt_case_graph made;
            struct zt_tensor y;
            struct zt_err err = { 0 };
            ck_assert(!run_case(&cases[k], backend, 2, &made, &y, &err));
            ck_assert_msg(strstr(err.text[0], "of roi 2 is outside of 0..1"), "%s", err.text[0]);
            zt_graph_destroy(made.graph);
        }
}
END_TEST

/* ---- MaxRoiPool ---- */

/* Output 0 for these rois, on the reference kernel; free(). */
static float *pooled(const struct zt_case *c, const float *rois, int64_t count) {
    struct zt_case_graph made;
    struct zt_err err = { 0 };
    ck_assert_msg(zt_case_make(c, false, &made, &err), "%s", err.text[0]);
    float *x = (float *)made.feed[0].data, *to = zt_calloc((size_t)count, sizeof *to);
    for (int64_t i = 0; i < zt_shape_count(&made.feed[0].shape); i++)
        x[i] = (float)i;
    memcpy((void *)made.feed[1].data, rois, (size_t)zt_shape_count(&made.feed[1].shape) * sizeof *rois);
    struct zt_eval *eval = zt_eval_create(made.graph, NULL, 2);
    for (int i = 0; i < made.in_count; i++)
        zt_eval_feed(eval, made.in[i], &made.feed[i]);
    if (zt_eval_run(eval, 0, 1, &err))
        memcpy(to, made.graph->values[made.graph->outputs[0]]->data, (size_t)count * sizeof *to);
    else
        snprintf((char *)to, (size_t)count * sizeof *to, "%s", strstr(err.text[0], "): ") + 3);
    zt_eval_destroy(eval);
    zt_graph_destroy(made.graph);
    return to;
}

/* Planes of 4 x 5 pixels numbered on: a roi of 3 x 3 whose bins overlap in their middle, a pixel of sample 1, one
 * outside. */
START_TEST(bins_of_whole_pixels_share_those_between_them) {
    static const float rois[] = { 0, 1, 1, 3, 3, 1, 4, 3, 2, 2, 0, 9, 9, 12, 12 };
    static const float maxima[] = { 12, 13, 17, 18, 39, 39, 39, 39, 0, 0, 0, 0 };
    float *y =
        pooled(&(struct zt_case){ "MaxRoiPool", "float[2,1,4,5] float[3,5]", .attrs = "pooled_shape=[2,2]" }, rois, 12);
    for (int i = 0; i < 12; i++)
        ck_assert_msg(y[i] == maxima[i], "element %d is %g", i, (double)y[i]);
    free(y);
}
END_TEST

START_TEST(the_first_maximum_of_a_bin_has_its_gradient) {
    static const float rois[] = { 0, 1, 1, 3, 3, 1, 4, 3, 2, 2 };
    float *dx = pooled(&(struct zt_case){ "MaxRoiPoolGrad", "float[2,1,4,5] float[2,5] float[2,1,2,2]:1..1",
                                          .attrs = "pooled_shape=[2,2]", .domain = "ztrain", .opset = 1 },
                       rois, 40);
    for (int i = 0; i < 40; i++)
        ck_assert_msg(dx[i] == (i == 39 ? 4 : i == 12 || i == 13 || i == 17 || i == 18), "element %d is %g", i,
                      (double)dx[i]);
    free(dx);
}
END_TEST

START_TEST(a_roi_of_no_sample_is_named) {
    static const float outside[] = { 2, 1, 1, 3, 3 }, half[] = { 0.5F, 1, 1, 3, 3 }, unknown[] = { 0, 1, NAN, 3, 3 };
    const struct zt_case c = { "MaxRoiPool", "float[2,1,4,5] float[1,5]", .attrs = "pooled_shape=[2,2]" };
    const float *all[] = { outside, half, unknown };
    static const char *const says[] = { "batch index 2 of roi 0", "batch index 0.5 of roi 0",
                                        "roi 0 has a coordinate" };
    for (int i = 0; i < 3; i++) {
        float *text = pooled(&c, all[i], 40);
        ck_assert_msg(strstr((char *)text, says[i]) != NULL, "%s", (char *)text);
        free(text);
    }
}
END_TEST

/* ---- NonMaxSuppression ---- */

/* The selected boxes of `count` boxes with these scores, as a text of [sample class box] rows. */
static const char *selected(const struct zt_case *c, const float *boxes, const float *scores) {
    static char text[200];
    struct zt_case_graph made;
    struct zt_tensor rows;
    struct zt_err err = { 0 };
    ck_assert_msg(zt_case_make(c, false, &made, &err), "%s", err.text[0]);
    memcpy((void *)made.feed[0].data, boxes, (size_t)zt_shape_count(&made.feed[0].shape) * sizeof *boxes);
    memcpy((void *)made.feed[1].data, scores, (size_t)zt_shape_count(&made.feed[1].shape) * sizeof *scores);
    struct zt_eval *eval = zt_eval_create(made.graph, NULL, 1);
    for (int i = 0; i < made.in_count; i++)
        if (made.in[i] >= 0)
            zt_eval_feed(eval, made.in[i], &made.feed[i]);
    ck_assert_msg(zt_eval_run(eval, 0, 1, &err), "%s", err.text[0]);
    rows = (struct zt_tensor){ .shape = made.graph->values[made.graph->outputs[0]]->shape,
                               .data = made.graph->values[made.graph->outputs[0]]->data };
    text[0] = 0;
    for (int64_t i = 0; i < rows.shape.dim[0] * 3; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%lld%s", (long long)((const int64_t *)rows.data)[i],
                 i % 3 == 2 ? ";" : " ");
    zt_eval_destroy(eval);
    zt_graph_destroy(made.graph);
    return text;
}

START_TEST(suppression_takes_better_boxes_first_and_of_equal_ones_the_first) {
    static const float boxes[] = { 0, 0, 1, 1, 0, 0.1F, 1, 1.1F, 5, 5, 4, 4, 0, 0, 0, 0 };
    static const float equal[] = { 0.5F, 0.5F, 0.5F, 0.5F }, rising[] = { 0.1F, 0.2F, 0.3F, 0.05F },
                       unknown[] = { NAN, 0.2F, NAN, -1 };
#define BOXES "float[1,4,4] float[1,1,4] int64{9} "
    ck_assert_str_eq(selected(&(struct zt_case){ "NonMaxSuppression", BOXES "float{0.5}" }, boxes, equal),
                     "0 0 0;0 0 2;0 0 3;");
    ck_assert_str_eq(selected(&(struct zt_case){ "NonMaxSuppression", BOXES "float{0.5} float{0.07}" }, boxes, rising),
                     "0 0 2;0 0 1;");
    ck_assert_str_eq(selected(&(struct zt_case){ "NonMaxSuppression", BOXES "float{0.9}" }, boxes, rising),
                     "0 0 2;0 0 1;0 0 0;0 0 3;");
    ck_assert_str_eq(selected(&(struct zt_case){ "NonMaxSuppression", BOXES "float{0.5}" }, boxes, unknown),
                     "0 0 1;0 0 3;");
    ck_assert_str_eq(
        selected(&(struct zt_case){ "NonMaxSuppression", "float[1,4,4] float[1,1,4] int64{-3}" }, boxes, equal), "");
    ck_assert_str_eq(selected(&(struct zt_case){ "NonMaxSuppression", "float[1,4,4] float[1,1,4]" }, boxes, equal), "");
    ck_assert_str_eq(
        selected(&(struct zt_case){ "NonMaxSuppression", "float[1,4,4] float[1,1,4] int64{2}" }, boxes, rising),
        "0 0 2;0 0 1;");
}
END_TEST

START_TEST(boxes_by_their_centres_are_the_same_boxes) {
    static const float centres[] = { 0.5F, 0.5F, 1, 1, 0.5F, 0.6F, 1, 1, 0.5F, 10.5F, 1, 1 };
    static const float scores[] = { 0.9F, 0.75F, 0.6F, 0.1F, 0.8F, 0.3F };
    ck_assert_str_eq(selected(&(struct zt_case){ "NonMaxSuppression", "float[1,3,4] float[1,2,3] int64{3} float{0.5}",
                                                 .attrs = "center_point_box=1" },
                              centres, scores),
                     "0 0 0;0 0 2;0 1 1;0 1 2;");
}
END_TEST

int main(void) {
    TCase *t = tcase_create("detection");
    tcase_add_test(t, bits_of_cpu_kernels_do_not_depend_on_the_number_of_threads);
    tcase_add_test(t, a_position_that_is_no_number_gives_nan_and_an_infinite_one_zero);
    tcase_add_test(t, a_batch_index_outside_is_named_by_every_kernel);
    tcase_add_test(t, bins_of_whole_pixels_share_those_between_them);
    tcase_add_test(t, the_first_maximum_of_a_bin_has_its_gradient);
    tcase_add_test(t, a_roi_of_no_sample_is_named);
    tcase_add_test(t, suppression_takes_better_boxes_first_and_of_equal_ones_the_first);
    tcase_add_test(t, boxes_by_their_centres_are_the_same_boxes);
    return run_suite("detection", t, CK_NOFORK); /* libgomp does not survive a fork */
}
