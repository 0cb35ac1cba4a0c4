/* Layouts of the sample models on a CUDA device in bfloat16, planned over the emulated libraries: tensors are channels
 * last from convolution to convolution and change their layout only at the edges. Those are the images, with few
 * channels, what is flattened for the first dense layer, and its gradient on the way back: the kernels there read one
 * order and write the other, so that nothing is reordered by itself. */
#include "tests/suite.h"

#include "device/module.h"
#include "plan/open.h"

#include "graph/ir/op.h"
#include "ops/kernel/layout.h"
#include "plan/rank_plan.h"

#include <stdlib.h>
#include <string.h>

struct counts {
    int reorders, copies, derived, convolutions, last, rectified, relus;
};

static bool is_last(const struct zt_value *v) {
    return v && zt_layout_is_last(v->layout);
}

/* Convolutions that read or write channels last, and what reorders: nodes for that alone, views, and casts of
 * parameters. */
static void count_nodes(const struct zt_program *p, struct counts *to) {
    const struct zt_graph *g = p->training_graph.graph;
    const struct zt_command *list[] = { p->derive, p->forward, p->backward };
    const int count[] = { p->derive_count, p->forward_count, p->backward_count };
    for (int k = 0; k < 3; k++)
        for (int c = 0; c < count[k]; c++) {
            const int node = list[k][c].node;
            if (list[k][c].kind != ZT_RUN_NODE)
                continue;
            const bool reorder = strcmp(g->nodes[node]->op_type, "Reorder") == 0;
            to->reorders += reorder;
            to->copies +=
                g->nodes[node]->op->flags & ZT_OP_VIEW && is_last(zt_in(g, node, 0)) != is_last(zt_out(g, node, 0));
            to->derived += k == 0 && strcmp(g->nodes[node]->op_type, "Cast") == 0 && is_last(zt_out(g, node, 0));
            to->rectified += strcmp(g->nodes[node]->op_type, "ConvRelu") == 0;
            to->relus += strcmp(g->nodes[node]->op_type, "Relu") == 0;
            if (strncmp(g->nodes[node]->op_type, "Conv", 4) == 0) {
                to->convolutions++;
                to->last += is_last(zt_in(g, node, 0)) || is_last(zt_in(g, node, 1)) || is_last(zt_out(g, node, 0));
            }
        }
}

static struct counts plan_sample(const char *model, const char *config) {
    static const char *const set[] = { "bf16={\"enabled\": true}" };
    char model_path[4096], config_path[4096];
    struct zt_err err = { 0 };
    struct zt_session s;
    struct counts counts = { 0 };
    snprintf(model_path, sizeof model_path, "%s/models/%s.onnx", getenv("ZT_ROOT"), model);
    snprintf(config_path, sizeof config_path, "%s/configs/%s.json", getenv("ZT_ROOT"), config);
    struct zt_options options = { .model = model_path, .config = config_path };
    options.configs = (struct zt_texts){ &options.config, 1 };
    options.over = (struct zt_config_overrides){ .set = set, .set_count = 1, .epochs = -1, .steps = 2, .seed = -1 };
    ck_assert_msg(zt_open(&s, &options, ZT_WEIGHTS_MAPPED, ZT_DATA_TRAIN | ZT_DATA_IF_THERE, &err), "%s: %s", model,
                  err.text[0]);
    struct zt_device *device = zt_module_device(getenv("ZT_MODULE"), 0, 1, &err);
    ck_assert_msg(device != NULL, "%s", err.text[0]);
    struct zt_rank_options of = { .source = s.source, .device = device, .threads = 1 };
    struct zt_rank_plan *plan = zt_rank_plan_create(s.job, &of, &err);
    ck_assert_msg(plan != NULL, "%s: %s", model, err.text[0]);
    count_nodes(plan->programs.train.at[0], &counts);
    zt_rank_plan_destroy(plan);
    device->api->destroy(device);
    zt_open_finish(&s);
    return counts;
}

static void check_sample(const char *model, const char *config) {
    const struct counts found = plan_sample(model, config);
    ck_assert_int_gt(found.convolutions, 0);
    ck_assert_msg(found.last == found.convolutions, "%s: %d of %d convolutions have channels last", model, found.last,
                  found.convolutions);
    ck_assert_msg(found.reorders == 0, "%s: %d reorders", model, found.reorders);
    ck_assert_msg(found.copies == 0, "%s: %d views copy", model, found.copies);
    ck_assert_int_gt(found.derived, 0);
}

START_TEST(casts_of_images_and_weights_write_channels_last) {
    check_sample("resnet20", "resnet20");
    check_sample("mobilenet", "mobilenet");
    check_sample("unet", "unet");
}
END_TEST

START_TEST(the_pool_in_front_of_a_dense_layer_turns_what_is_flattened_and_its_gradient) {
    check_sample("convnet", "ds_config");
}
END_TEST

START_TEST(convolutions_take_in_the_relu_behind_their_bias) {
    const struct counts found = plan_sample("convnet", "ds_config");
    ck_assert_int_eq(found.rectified, 2);
    ck_assert_int_eq(found.relus, 0); /* the dense layer has its own too */
}
END_TEST

int main(void) {
    TCase *test = tcase_create("layouts");
    tcase_add_test(test, casts_of_images_and_weights_write_channels_last);
    tcase_add_test(test, the_pool_in_front_of_a_dense_layer_turns_what_is_flattened_and_its_gradient);
    tcase_add_test(test, convolutions_take_in_the_relu_behind_their_bias);
    tcase_set_timeout(test, 200);
    return run_suite("layouts", test, CK_NOFORK); /* libgomp does not survive a fork */
}
