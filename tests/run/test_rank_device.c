/* A rank on a device with memory of its own trains as one on the host does (far_device.h). Cases of
 * tests/reference: one whose nodes all have kernels there, and some with nodes that run on the host, with
 * statistics, with a loss inside the graph. */
#include "tests/gpu/far_device.h"
#include "tests/gpu/reference_case.h"
#include "tests/suite.h"

#include "device/threads.h"
#include "plan/rank_plan.h"
#include "run/collect.h"
#include "run/rank/rank.h"
#include "run/rank_data.h"
#include "run/step.h"

#include <math.h>

enum { STEPS = 6 };

/* Results of a run. */
struct outcome {
    double loss[STEPS], norm[STEPS];
    double weights; /* sum of |w| over all trained tensors */
    int tensors;
};

#define ADAMW "optimizer={\"type\": \"AdamW\", \"params\": {\"lr\": 0.001, \"weight_decay\": 0.01}}"
#define SGD   "optimizer={\"type\": \"SGD\", \"params\": {\"lr\": 0.01, \"momentum\": 0.9}}"

/* Adam makes steps of gradients that are nothing but rounding, as those of a bias before BatchNormalization: SGD there.
 */
static const struct {
    const char *name, *optimizer;
} cases[] = { { "mlp-wine-sklearn", ADAMW }, { "autoencoder-loss-output", ADAMW },
              { "paddle-cnn", SGD },         { "jax-mlp", ADAMW },
              { "convnet-dynamo", SGD },     { "gpt-tiny-dynamo", SGD } };
enum { CASES = sizeof cases / sizeof *cases };

static void collect(struct zt_rank *rank, struct outcome *to, struct zt_err *err) {
    struct zt_arena *arena = zt_arena_create();
    struct zt_collected weights;
    ck_assert_msg(zt_rank_collect(rank, arena, &weights, err), "%s", err->text[0]);
    to->tensors = weights.count;
    for (int i = 0; i < to->tensors; i++)
        for (int64_t k = 0; k < weights.elements[i]; k++)
            to->weights += fabs((double)((const float *)weights.payloads[i].data)[k]);
    zt_arena_destroy(arena);
}

static void train(struct zt_session *s, struct zt_device *device, struct outcome *to) {
    struct zt_err err = { 0 };
    struct zt_comm *comm = zt_comm_self_create();
    struct zt_rank_options options = { .source = s->source, .device = device, .threads = 1 };
    struct zt_rank_plan *plan = zt_rank_plan_create(s->job, &options, &err);
    ck_assert_msg(plan != NULL, "%s", err.text[0]);
    struct zt_rank *rank = zt_rank_create(plan, device, comm, comm, NULL, &err);
    ck_assert_msg(rank != NULL, "%s", err.text[0]);
    struct zt_loader *loader;
    ck_assert_msg(zt_rank_loader(rank, true, 0, STEPS, &loader, &err), "%s", err.text[0]);
    for (int step = 0; step < STEPS; step++) {
        struct zt_step_result result;
        ck_assert_msg(zt_rank_step(rank, loader, step, &result, &err), "step %d: %s", step, err.text[0]);
        to->loss[step] = result.loss;
        to->norm[step] = result.grad_norm;
    }
    collect(rank, to, &err);
    zt_loader_destroy(loader);
    zt_rank_destroy(rank);
    zt_rank_plan_destroy(plan);
    comm->api->destroy(comm);
    device->api->destroy(device);
}

static void compare(const char *name, const char *const *set, int set_count) {
    struct reference_case opened;
    struct outcome near = { 0 }, far = { 0 };
    open_reference_case(&opened, name, STEPS, set, set_count);
    train(&opened.session, zt_device_host_create(1), &near);
    train(&opened.session, far_device_create(), &far);
    for (int i = 0; i < STEPS; i++) {
        ck_assert_msg(fabs(near.loss[i] - far.loss[i]) <= 2e-5 * fabs(near.loss[i]),
                      "%s: loss %d: %.9g on the host, %.9g away", name, i, near.loss[i], far.loss[i]);
        ck_assert_msg(fabs(near.norm[i] - far.norm[i]) <= 2e-4 * near.norm[i],
                      "%s: norm %d: %.9g on the host, %.9g away", name, i, near.norm[i], far.norm[i]);
    }
    ck_assert_int_eq(near.tensors, far.tensors);
    ck_assert_msg(fabs(near.weights - far.weights) <= 1e-5 * near.weights, "%s: weights", name);
    zt_open_finish(&opened.session);
}

START_TEST(a_rank_away_from_the_host_trains_as_on_it) {
    compare(cases[_i].name, &cases[_i].optimizer, 1);
}
END_TEST

START_TEST(gradients_accumulate_away_from_the_host_too) {
    const char *const set[] = { "train_micro_batch_size_per_gpu=4", "gradient_accumulation_steps=2",
                                "train_batch_size=8", cases[_i].optimizer };
    compare(cases[_i].name, set, 4);
}
END_TEST

START_TEST(groups_have_the_rates_of_a_list_away_from_the_host_too) {
    const char *const set[] = { ADAMW,
                                "scheduler={\"type\": \"OneCycle\", \"params\": {\"cycle_min_lr\": 0.001, "
                                "\"cycle_max_lr\": [0.01, 0.05], \"cycle_min_mom\": [0.8, 0.5], "
                                "\"cycle_first_step_size\": 3}}",
                                "ztrain.param_groups=[{\"match\": \"intercepts*\", \"weight_decay\": 0}]" };
    compare("mlp-wine-sklearn", set, 3);
}
END_TEST

int main(void) {
    zt_parallel_enter();
    TCase *test = tcase_create("away");
    tcase_add_loop_test(test, a_rank_away_from_the_host_trains_as_on_it, 0, CASES);
    tcase_add_loop_test(test, gradients_accumulate_away_from_the_host_too, 0, 3);
    tcase_add_test(test, groups_have_the_rates_of_a_list_away_from_the_host_too);
    return run_suite("rank_device", test, CK_NOFORK);
}
