/* Checks of normalisations against the real cuDNN without a GPU: for given GPU properties it has a deterministic engine
 * and compiles its kernels. */
#include "ops/norm/norm_dnn.h"

#include "graph/ir/op.h"
#include "tests/gpu/cache_folder.h"
#include "tests/gpu/gpus.h"
#include "tests/ops/cases.h"
#include "tests/suite.h"

#include <string.h>

static const struct zt_norm_dnn forms[] = {
    { ZT_DNN_LAYER_NORM, 128, 768, 1, true, .x = ZT_BFLOAT16, .scale = ZT_BFLOAT16 },
    { ZT_DNN_LAYER_NORM, 5, 37, 1, true, .x = ZT_BFLOAT16, .scale = ZT_BFLOAT16 },
    { ZT_DNN_RMS_NORM, 128, 512, 1, true, .x = ZT_BFLOAT16, .scale = ZT_FLOAT },
    { ZT_DNN_INSTANCE_NORM, 2, 24, 63, true, .x = ZT_BFLOAT16, .scale = ZT_BFLOAT16 },
    { ZT_DNN_INSTANCE_NORM, 2, 24, 63, false, .x = ZT_BFLOAT16, .scale = ZT_BFLOAT16 },
    { ZT_DNN_BATCH_NORM, 8, 64, 784, true, .x = ZT_BFLOAT16, .scale = ZT_BFLOAT16 },
    { ZT_DNN_BATCH_NORM, 8, 64, 784, false, .x = ZT_BFLOAT16, .scale = ZT_FLOAT },
};
enum { FORMS = sizeof forms / sizeof *forms };

static void expect_plan(const struct zt_norm_dnn *form, int number) {
    struct zt_err err = { 0 };
    struct zt_dnn_graph graph;
    ck_assert_ptr_null(zt_norm_dnn_refusal(form));
    zt_norm_dnn(form, &graph);
    struct zt_dnn *dnn = zt_dnn_describe(&graph, &err);
    ck_assert_msg(dnn && zt_dnn_plan_for(dnn, zt_gpus[0], &err), "form %d, %s: %s", number,
                  form->grad ? "gradient" : "forward", err.text[0]);
    ck_assert_uint_le(zt_dnn_workspace_bytes(dnn), ZT_DNN_WORKSPACE);
    zt_dnn_destroy(dnn);
}

/* A form is planned in one of the two types, with the argument "all" in both. */
START_TEST(cudnn_has_engines_both_ways) {
    for (int i = 0; i < 2 * FORMS; i++) {
        if (!zt_every_plan && i / 2 % 2 != _i)
            continue;
        struct zt_norm_dnn form = forms[i / 2];
        form.grad = i % 2;
        form.x = _i ? ZT_FLOAT16 : ZT_BFLOAT16;
        form.scale = form.scale == ZT_FLOAT ? ZT_FLOAT : form.x;
        expect_plan(&form, i / 2);
    }
}
END_TEST

/* Of form 0; `wanted`: whether its plan comes from disk. */
static void plan_again(bool grad, bool wanted) {
    struct zt_norm_dnn form = forms[0];
    struct zt_dnn_graph graph;
    struct zt_err err = { 0 };
    form.grad = grad;
    zt_norm_dnn(&form, &graph);
    struct zt_dnn *dnn = zt_dnn_describe(&graph, &err);
    ck_assert_msg(dnn && zt_dnn_plan_for(dnn, zt_gpus[0], &err), "%s", err.text[0]);
    ck_assert_int_eq(zt_dnn_was_cached(dnn), wanted);
    ck_assert_int_eq(zt_dnn_workspace_bytes(dnn) > 0, grad);
    zt_dnn_destroy(dnn);
}

START_TEST(plans_are_kept_by_graph_and_made_anew_where_the_file_is_damaged) {
    ck_assert(cache_begin());
    plan_again(false, false);
    plan_again(false, true);
    plan_again(true, false);
    plan_again(true, true);
    ck_assert(cache_cut());
    plan_again(true, false);
    plan_again(true, true);
    cache_end();
}
END_TEST

static bool read_case(const char *op, const char *in, const char *attrs, struct zt_norm_dnn *to) {
    const struct zt_case c = { op, in, .attrs = attrs };
    struct zt_case_graph made;
    struct zt_err err = { 0 };
    struct zt_launch_norm n;
    ck_assert_msg(zt_case_make(&c, false, &made, &err), "%s", err.text[0]);
    ck_assert_msg(made.graph->nodes[0]->op->kernel[ZT_CUDA].describe(made.graph, 0, &n, &err), "%s", err.text[0]);
    zt_graph_destroy(made.graph);
    return zt_norm_dnn_of(&n, to);
}

START_TEST(geometry_is_read_from_the_node) {
    struct zt_norm_dnn n;
    ck_assert(read_case("LayerNormalization", "float[2,64,768] float[768] float[768]", NULL, &n));
    ck_assert(n.norm == ZT_DNN_LAYER_NORM && n.samples == 128 && n.channels == 768 && n.places == 1 && n.last);
    ck_assert(read_case("RMSNormalization", "float[4,3,5] float[3,5]", "axis=1", &n));
    ck_assert(n.norm == ZT_DNN_RMS_NORM && n.samples == 4 && n.channels == 15 && n.places == 1);
    ck_assert(read_case("InstanceNormalization", "float[2,24,7,9] float[24] float[24]", NULL, &n));
    ck_assert(n.norm == ZT_DNN_INSTANCE_NORM && n.samples == 2 && n.channels == 24 && n.places == 63 && !n.last);
    ck_assert(!read_case("GroupNormalization", "float[2,6,4,5] float[6] float[6]", "num_groups=3", &n));
}
END_TEST

START_TEST(other_types_and_nothing_are_left_to_our_own_kernels) {
    struct zt_norm_dnn form = forms[0];
    form.x = ZT_FLOAT;
    ck_assert_ptr_nonnull(zt_norm_dnn_refusal(&form));
    form = forms[0];
    form.scale = ZT_FLOAT16;
    ck_assert_ptr_nonnull(zt_norm_dnn_refusal(&form));
    form = forms[0];
    form.samples = 0;
    ck_assert_ptr_nonnull(zt_norm_dnn_refusal(&form));
}
END_TEST

START_TEST(statistics_of_another_number_of_rows_are_refused_with_cudnns_words) {
    struct zt_dnn_graph graph;
    struct zt_err err = { 0 };
    zt_norm_dnn(&forms[0], &graph);
    graph.tensor[ZT_NORM_INV_STD].dim[0]++;
    struct zt_dnn *dnn = zt_dnn_describe(&graph, &err);
    ck_assert(!dnn || !zt_dnn_plan_for(dnn, zt_gpus[0], &err));
    ck_assert_ptr_nonnull(strstr(err.text[0], "cuDNN"));
    zt_dnn_destroy(dnn);
}
END_TEST

int main(int count, char **args) {
    zt_every_plan = count > 1 && strcmp(args[1], "all") == 0;
    TCase *tests = tcase_create("normalisation");
    tcase_add_loop_test(tests, cudnn_has_engines_both_ways, 0, 2);
    tcase_add_test(tests, plans_are_kept_by_graph_and_made_anew_where_the_file_is_damaged);
    tcase_add_test(tests, geometry_is_read_from_the_node);
    tcase_add_test(tests, other_types_and_nothing_are_left_to_our_own_kernels);
    tcase_add_test(tests, statistics_of_another_number_of_rows_are_refused_with_cudnns_words);
    return run_suite("gpu-norm-dnn", tests, CK_NOFORK); /* cuDNN does not survive a fork */
}
