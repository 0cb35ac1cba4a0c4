/* Ranks whose memory the host cannot touch (far_device.h) learn what ranks on the host learn, in every layout: their
 * data travel through stages (parallel/comm/staged.c). */
#include "tests/gpu/far_device.h"
#include "tests/run/layouts.h"
#include "tests/suite.h"

#include "device/threads.h"

static void compare(struct zt_graph *(*make)(void), struct layout l) {
    struct tiny_run near = layout_train(make, l);
    l.device = far_device_create;
    struct tiny_run far = layout_train(make, l);
    layout_check_close(&far, &near, 1e-5, l);
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

START_TEST(short_micro_batches_of_a_stream_away_learn_as_on_the_host) {
    const char *const optimizer = optimizer_of(_i);
    compare(models[_i],
            (struct layout){ .ranks = 2, .stages = 1, .zero = 2, .micro = 2, .stream = true, .optimizer = optimizer });
    compare(models[_i], (struct layout){ .ranks = 2, .stages = 2, .micro = 4, .stream = true, .optimizer = optimizer });
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
    struct layout l = { .ranks = 2, .stages = 1, .micro = 4, .device = far_device_create };
    struct tiny_run ddp = layout_train(tiny_wide, l);
    for (l.zero = 1; l.zero < 4; l.zero++)
        ck_assert_msg(layout_train(tiny_wide, l).hash == ddp.hash, "zero %d", l.zero);
}
END_TEST

int main(void) {
    zt_parallel_enter();
    TCase *test = tcase_create("away");
    tcase_add_loop_test(test, data_parallel_ranks_away_learn_as_on_the_host, 0, MODELS);
    tcase_add_loop_test(test, pipelines_away_learn_as_on_the_host, 0, MODELS);
    tcase_add_loop_test(test, replicas_away_learn_as_on_the_host, 0, MODELS);
    tcase_add_loop_test(test, short_micro_batches_of_a_stream_away_learn_as_on_the_host, 0, MODELS);
    tcase_add_test(test, overlapped_and_cut_transfers_away_learn_as_on_the_host);
    tcase_add_test(test, batch_norm_over_ranks_away_learns_as_on_the_host);
    tcase_add_test(test, ddp_and_the_zero_stages_leave_the_same_bits_away);
    return run_suite("ranks_away", test, CK_NOFORK);
}
