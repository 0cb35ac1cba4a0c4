/* Ranks whose memory the host cannot touch (far_device.h) learn what ranks on the host learn, in every layout: their
 * data travel through stages (parallel/comm_staged.c). */
#include "tests/gpu/far_device.h"
#include "tests/src/tiny.h"
#include "tests/suite.h"

#include "device/threads.h"

#include <math.h>

enum { STEPS = 6 };

/* 22 samples in steps of 8: the third step of an epoch has 6, which four ranks must fill up. */
struct layout {
    int ranks, stages, zero, micro;
    const char *mode, *more, *optimizer;
    bool sync; /* sync_batch_norm */
};

static struct tiny_run train(struct zt_graph *(*make)(void), const struct layout *l,
                             struct zt_device *(*device)(void)) {
    struct tiny t;
    struct tiny_run run = { 0 };
    struct zt_err err = { 0 };
    char config[800];
    snprintf(config, sizeof config,
             "'train_batch_size': 8, 'train_micro_batch_size_per_gpu': %d, 'zero_optimization': {'stage': %d%s}, "
             "'pipeline': {'stages': %d}, "
             "'ztrain': {'parallel': {'communicator': 'thread', 'mode': '%s', 'sync_batch_norm': %s}, "
             "'data': {'samples': 22}}, 'gradient_clipping': 0.7, "
             "'optimizer': {'type': '%s', 'params': {'lr': 0.01, 'weight_decay': 0.01}}",
             l->micro, l->zero, l->more, l->stages, l->mode, l->sync ? "true" : "false", l->optimizer);
    ck_assert_msg(tiny_open(&t, make(), config, l->ranks, &err), "%s", err.text[0]);
    t.device = device;
    tiny_train(&t, STEPS, &run);
    ck_assert_msg(run.ok, "%d ranks, %d stages, zero %d, %s: %s", l->ranks, l->stages, l->zero, l->mode,
                  run.err.text[0]);
    tiny_finish(&t);
    return run;
}

static void check(const char *what, const struct layout *l, int step, double far, double near, double tolerance) {
    ck_assert_msg(fabs(far - near) <= tolerance * fabs(near),
                  "%d ranks, %d stages, zero %d, %s%s: %s %d is %.9g, %.9g on the host", l->ranks, l->stages, l->zero,
                  l->mode, l->more, what, step, far, near);
}

static void compare(struct zt_graph *(*make)(void), struct layout l) {
    l.more = l.more ? l.more : "";
    l.mode = l.mode ? l.mode : "ddp";
    l.optimizer = l.optimizer ? l.optimizer : "AdamW";
    struct tiny_run near = train(make, &l, NULL), far = train(make, &l, far_device_create);
    for (int i = 0; i < STEPS; i++) {
        check("loss", &l, i, far.loss[i], near.loss[i], 1e-5);
        check("norm", &l, i, far.norm[i], near.norm[i], 1e-4);
    }
    check("evaluation", &l, 0, far.eval_loss, near.eval_loss, 1e-5);
}

static struct zt_graph *(*const models[])(void) = { tiny_mlp, tiny_wide, tiny_shared, tiny_tied, tiny_norm, tiny_drop };
enum { MODELS = sizeof models / sizeof *models };

static const char *optimizer_of(int model) {
    return models[model] == tiny_norm ? "SGD" : "AdamW"; /* gradients that are rounding alone */
}

START_TEST(data_parallel_ranks_away_learn_as_on_the_host) {
    for (int zero = 0; zero < 4; zero++)
        compare(models[_i],
                (struct layout){ .ranks = 2, .stages = 1, .zero = zero, .micro = 2, .optimizer = optimizer_of(_i) });
    compare(models[_i],
            (struct layout){ .ranks = 4, .stages = 1, .zero = 3, .micro = 2, .optimizer = optimizer_of(_i) });
}
END_TEST

START_TEST(pipelines_away_learn_as_on_the_host) {
    compare(models[_i], (struct layout){ .ranks = 2, .stages = 2, .micro = 2, .optimizer = optimizer_of(_i) });
    compare(models[_i],
            (struct layout){ .ranks = 4, .stages = 2, .zero = 1, .micro = 2, .optimizer = optimizer_of(_i) });
}
END_TEST

START_TEST(replicas_away_learn_as_on_the_host) {
    compare(models[_i],
            (struct layout){ .ranks = 2, .stages = 1, .micro = 4, .mode = "dp", .optimizer = optimizer_of(_i) });
    compare(models[_i],
            (struct layout){ .ranks = 4, .stages = 1, .micro = 2, .mode = "dp", .optimizer = optimizer_of(_i) });
}
END_TEST

START_TEST(overlapped_and_cut_transfers_away_learn_as_on_the_host) {
    static const char *const traffic[] = {
        ", 'overlap_comm': true, 'reduce_bucket_size': 5000, 'allgather_bucket_size': 4096",
        ", 'overlap_comm': true, 'reduce_bucket_size': 1",
        ", 'stage3_param_persistence_threshold': 100, 'stage3_prefetch_bucket_size': 20000, 'reduce_bucket_size': 100",
    };
    for (int zero = 0; zero < 4; zero++)
        for (size_t i = 0; i < sizeof traffic / sizeof *traffic; i++)
            compare(tiny_wide,
                    (struct layout){ .ranks = 2, .stages = 1, .zero = zero, .micro = 2, .more = traffic[i] });
}
END_TEST

START_TEST(batch_norm_over_ranks_away_learns_as_on_the_host) {
    for (int micro = 2; micro <= 4; micro += 2)
        compare(tiny_norm,
                (struct layout){ .ranks = 2, .stages = 1, .micro = micro, .optimizer = "SGD", .sync = true });
}
END_TEST

START_TEST(ddp_and_the_zero_stages_leave_the_same_bits_away) {
    struct layout l = { .ranks = 2, .stages = 1, .micro = 4, .mode = "ddp", .more = "", .optimizer = "AdamW" };
    struct tiny_run ddp = train(tiny_wide, &l, far_device_create);
    for (l.zero = 1; l.zero < 4; l.zero++)
        ck_assert_msg(train(tiny_wide, &l, far_device_create).hash == ddp.hash, "zero %d", l.zero);
}
END_TEST

int main(void) {
    zt_parallel_enter();
    TCase *test = tcase_create("away");
    tcase_add_loop_test(test, data_parallel_ranks_away_learn_as_on_the_host, 0, MODELS);
    tcase_add_loop_test(test, pipelines_away_learn_as_on_the_host, 0, MODELS);
    tcase_add_loop_test(test, replicas_away_learn_as_on_the_host, 0, MODELS);
    tcase_add_test(test, overlapped_and_cut_transfers_away_learn_as_on_the_host);
    tcase_add_test(test, batch_norm_over_ranks_away_learns_as_on_the_host);
    tcase_add_test(test, ddp_and_the_zero_stages_leave_the_same_bits_away);
    return run_suite("ranks_away", test, CK_NOFORK);
}
