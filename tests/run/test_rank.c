/* The equivalence matrix in one process: whatever the number of ranks, ZeRO stage, pipeline stages and schedule, a
 * model learns the same. */
#include "tests/run/layouts.h"
#include "tests/suite.h"

#include <math.h>
#include <string.h>

static void check_matrix(struct zt_graph *(*make)(void), int most_stages, int most_ranks) {
    struct tiny_run one = layout_train(make, (struct layout){ .ranks = 1, .stages = 1, .micro = 2 });
    ck_assert(one.loss[LAYOUT_STEPS - 1] < one.loss[0]);
    for (int stages = 1; stages <= most_stages; stages++) {
        for (int data = 1; data * stages <= most_ranks; data *= 2) {
            for (int k = 0; k < 8; k++) {
                struct layout l = { .ranks = data * stages,
                                    .stages = stages,
                                    .zero = k / 2,
                                    .micro = 2,
                                    .schedule = k % 2 ? "gpipe" : NULL };
                if ((k / 2 && data == 1) || (k % 2 && stages == 1))
                    continue;
                struct tiny_run run = layout_train(make, l);
                layout_check_close(&run, &one, 1e-5, l);
            }
        }
    }
}

START_TEST(an_mlp_learns_the_same_in_every_layout) {
    check_matrix(tiny_mlp, 3, 4);
}
END_TEST

START_TEST(cut_slices_change_nothing) {
    check_matrix(tiny_wide, 2, 4);
}
END_TEST

START_TEST(shared_weights_and_relayed_residuals_learn_the_same_in_every_layout) {
    check_matrix(tiny_shared, 3, 3);
}
END_TEST

START_TEST(weights_tied_over_stages_learn_as_one) {
    check_matrix(tiny_tied, 4, 6);
}
END_TEST

/* Nothing overlaps then: model parallelism by layers. */
START_TEST(one_micro_batch_is_a_naive_split_by_layers) {
    static struct zt_graph *(*const models[])(void) = { tiny_mlp, tiny_shared, tiny_tied, tiny_drop };
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        struct tiny_run one = layout_train(models[m], (struct layout){ .ranks = 1, .stages = 1, .micro = 8 });
        struct layout l = { .ranks = 2, .stages = 2, .micro = 8 };
        struct tiny_run run = layout_train(models[m], l);
        layout_check_close(&run, &one, 1e-5, l);
    }
}
END_TEST

/* Lamb's trust ratios are sums over a tensor, which another cut would add up in another order: the copies must be the
 * home's bits, and the ZeRO stages one another's. */
START_TEST(copies_of_a_weight_have_its_bits_under_every_zero_stage) {
    struct layout l = { .ranks = 6, .stages = 3, .micro = 4, .optimizer = "Lamb" };
    struct tiny_run one =
        layout_train(tiny_tied, (struct layout){ .ranks = 1, .stages = 1, .micro = 8, .optimizer = "Lamb" });
    struct tiny_run ddp = layout_train(tiny_tied, l);
    ck_assert_int_gt(ddp.ties, 1);
    layout_check_close(&ddp, &one, 1e-5, l);
    for (l.zero = 1; l.zero < 4; l.zero++) {
        struct tiny_run run = layout_train(tiny_tied, l);
        ck_assert_msg(run.hash == ddp.hash, "zero %d", l.zero);
        for (int i = 0; i < LAYOUT_STEPS; i++)
            ck_assert(run.loss[i] == ddp.loss[i] && run.norm[i] == ddp.norm[i]);
    }
}
END_TEST

START_TEST(ddp_and_the_zero_stages_leave_the_same_bits) {
    static struct zt_graph *(*const models[])(void) = { tiny_mlp, tiny_wide, tiny_norm, tiny_drop };
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        struct tiny_run ddp = layout_train(models[m], (struct layout){ .ranks = 2, .stages = 1, .micro = 4 });
        for (int zero = 1; zero < 4; zero++) {
            struct tiny_run run =
                layout_train(models[m], (struct layout){ .ranks = 2, .stages = 1, .zero = zero, .micro = 4 });
            ck_assert_msg(run.hash == ddp.hash, "model %d, zero %d", (int)m, zero);
            for (int i = 0; i < LAYOUT_STEPS; i++)
                ck_assert(run.loss[i] == ddp.loss[i] && run.norm[i] == ddp.norm[i]);
        }
    }
}
END_TEST

START_TEST(overlap_and_bucket_sizes_leave_the_same_bits) {
    static const char *const traffic[] = {
        ", 'overlap_comm': true",
        ", 'overlap_comm': false, 'reduce_bucket_size': 5000",
        ", 'overlap_comm': true, 'reduce_bucket_size': 5000, 'allgather_bucket_size': 4096",
        ", 'overlap_comm': true, 'reduce_bucket_size': 500000000",
        ", 'overlap_comm': true, 'reduce_bucket_size': 1",
        ", 'overlap_comm': true, 'reduce_bucket_size': 5000, 'reduce_scatter': false",
    };
    struct layout l = { .ranks = 4, .stages = 1, .micro = 2 };
    struct tiny_run plain = layout_train(tiny_wide, l);
    for (l.zero = 0; l.zero < 4; l.zero++) {
        for (size_t i = 0; i < sizeof traffic / sizeof *traffic; i++) {
            l.more = traffic[i];
            struct tiny_run run = layout_train(tiny_wide, l);
            ck_assert_msg(run.hash == plain.hash, "zero %d%s", l.zero, l.more);
        }
    }
}
END_TEST

START_TEST(what_zero3_keeps_and_fetches_ahead_leaves_the_same_bits) {
    static const char *const traffic[] = {
        ", 'stage3_param_persistence_threshold': 0, 'stage3_prefetch_bucket_size': 0",
        ", 'stage3_param_persistence_threshold': 100, 'stage3_prefetch_bucket_size': 20000, 'reduce_bucket_size': 100",
        ", 'stage3_param_persistence_threshold': 1000000, 'stage3_model_persistence_threshold': 13000",
        ", 'stage3_param_persistence_threshold': 1000000",
        ", 'stage3_max_reuse_distance': 13000, 'stage3_max_live_parameters': 13000, 'reduce_bucket_size': 100",
        ", 'stage3_max_reuse_distance': 1000000000, 'stage3_prefetch_bucket_size': 1000000",
    };
    static struct zt_graph *(*const models[])(void) = { tiny_wide, tiny_shared, tiny_norm };
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        struct layout l = { .ranks = 2, .stages = 1, .micro = 4 };
        struct tiny_run ddp = layout_train(models[m], l);
        l.zero = 3;
        for (size_t i = 0; i < sizeof traffic / sizeof *traffic; i++) {
            l.more = traffic[i];
            struct tiny_run run = layout_train(models[m], l);
            ck_assert_msg(run.hash == ddp.hash && run.eval_loss == ddp.eval_loss, "model %d%s", (int)m, l.more);
        }
    }
}
END_TEST

START_TEST(schedules_leave_the_same_bits) {
    struct tiny_run first = layout_train(tiny_wide, (struct layout){ .ranks = 2, .stages = 2, .micro = 2 });
    struct tiny_run other =
        layout_train(tiny_wide, (struct layout){ .ranks = 2, .stages = 2, .micro = 2, .schedule = "gpipe" });
    ck_assert(first.hash == other.hash);
}
END_TEST

/* ---- batch norm ---- */

/* Over all ranks it is the batch norm of one rank that has the whole micro-batch: losses, gradients, and (in the
 * evaluation) running statistics. 22 samples leave four ranks with padding in the third step, which must count in no
 * statistic. Without it ranks see other statistics. (SGD: the gradient of the bias before the norm is rounding alone,
 * which Adam would make as large as any other.) */
START_TEST(synchronised_batch_norm_is_that_of_one_rank) {
    struct tiny_run one =
        layout_train(tiny_norm, (struct layout){ .ranks = 1, .stages = 1, .micro = 8, .optimizer = "SGD" });
    for (int stages = 1; stages <= 2; stages++) {
        for (int data = 2; data <= 4; data *= 2) {
            struct layout l = {
                .ranks = data * stages,
                .stages = stages,
                .micro = 8 / data,
                .sync = true,
                .optimizer = "SGD",
                .partition = "uniform", /* the norm on the first stage, which has no loss */
            };
            struct tiny_run ddp = layout_train(tiny_norm, l);
            layout_check_close(&ddp, &one, 1e-5, l);
            for (l.zero = 1; l.zero < 4; l.zero++) {
                struct tiny_run run = layout_train(tiny_norm, l);
                ck_assert_msg(run.hash == ddp.hash, "zero %d", l.zero);
            }
        }
    }
    struct tiny_run apart =
        layout_train(tiny_norm, (struct layout){ .ranks = 2, .stages = 1, .micro = 4, .optimizer = "SGD" });
    ck_assert(fabs(apart.loss[1] - one.loss[1]) > 1e-4 * one.loss[1]);
}
END_TEST

/* Without synchronisation two ranks normalise as one rank does in micro-batches of a rank's size. Of 11 samples the
 * last step's 3 leave the second rank one sample and one row of padding, which must not be in its statistics. */
START_TEST(padding_is_in_no_rank_s_own_statistics) {
    struct tiny_run one = layout_train(
        tiny_norm, (struct layout){ .ranks = 1, .stages = 1, .micro = 2, .samples = 11, .optimizer = "SGD" });
    for (int stages = 1; stages <= 2; stages++) {
        struct layout l = { .ranks = 2 * stages,
                            .stages = stages,
                            .micro = 2,
                            .samples = 11,
                            .optimizer = "SGD",
                            .partition = "uniform" };
        struct tiny_run run = layout_train(tiny_norm, l);
        run.eval_loss = one.eval_loss; /* rank 0's statistics have seen half of the samples */
        layout_check_close(&run, &one, 1e-5, l);
    }
}
END_TEST

/* ---- mode dp ---- */

/* One loss over the whole micro-batch: of weighted classes or ignored targets every rank of ddp has another share, and
 * takes another mean. 22 samples on 3 and 4 replicas leave some with padding in the last step, one with nothing else.
 */
START_TEST(replicas_have_the_loss_of_one_rank) {
    static const char *const losses[] = { "", ", 'class_weights': [0.1, 3, 1, 0.5, 7]", ", 'ignore_index': 2" };
    for (int k = 0; k < 3; k++) {
        struct tiny_run one =
            layout_train(tiny_mlp, (struct layout){ .ranks = 1, .stages = 1, .micro = 4, .loss = losses[k] });
        for (int ranks = 2; ranks <= 4; ranks += 2) {
            struct layout l = { .ranks = ranks, .stages = 1, .micro = 4 / ranks, .mode = "dp", .loss = losses[k] };
            struct tiny_run dp = layout_train(tiny_mlp, l);
            layout_check_close(&dp, &one, 1e-5, l);
            l.mode = "ddp";
            struct tiny_run ddp = layout_train(tiny_mlp, l);
            ck_assert(k == 0 || fabs(ddp.loss[0] - one.loss[0]) > 1e-4 * one.loss[0]);
        }
    }
}
END_TEST

START_TEST(replicas_without_samples_weigh_nothing) {
    static struct zt_graph *(*const models[])(void) = { tiny_mlp, tiny_wide, tiny_drop };
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        struct tiny_run one =
            layout_train(models[m], (struct layout){ .ranks = 1, .stages = 1, .micro = 8, .samples = 9 });
        struct layout l = { .ranks = 4, .stages = 1, .micro = 2, .samples = 9, .mode = "dp" };
        struct tiny_run run = layout_train(models[m], l);
        layout_check_close(&run, &one, 1e-5, l);
    }
}
END_TEST

/* DataParallel keeps what replica 0 counted, and so does ddp's rank 0, which sees the same rows. */
START_TEST(running_statistics_are_those_of_replica_0) {
    struct layout l = { .ranks = 2, .stages = 1, .micro = 4, .samples = 24 };
    struct tiny_run ddp = layout_train(tiny_norm, l);
    l.mode = "dp";
    struct tiny_run dp = layout_train(tiny_norm, l);
    layout_check_close(&dp, &ddp, 1e-5, l);
}
END_TEST

/* Buckets as large as the model, in a model below one slice: one rank owns everything, the other nothing. */
START_TEST(a_model_that_one_rank_owns_alone_is_collected) {
    struct tiny_run ddp = layout_train(
        tiny_mlp, (struct layout){ .ranks = 2, .stages = 1, .micro = 4, .more = ", 'reduce_bucket_size': 500000000" });
    for (int zero = 1; zero < 4; zero++) {
        struct tiny_run run = layout_train(
            tiny_mlp,
            (struct layout){
                .ranks = 2, .stages = 1, .micro = 4, .zero = zero, .more = ", 'reduce_bucket_size': 500000000" });
        ck_assert(run.hash == ddp.hash);
    }
}
END_TEST

START_TEST(many_small_buckets_change_no_bit) {
    struct tiny_run all = layout_train(tiny_wide, (struct layout){ .ranks = 2, .stages = 1, .micro = 4, .zero = 2 });
    struct tiny_run few = layout_train(
        tiny_wide,
        (struct layout){ .ranks = 2, .stages = 1, .micro = 4, .zero = 3, .more = ", 'reduce_bucket_size': 1" });
    for (int i = 0; i < LAYOUT_STEPS; i++)
        ck_assert(fabs(all.loss[i] - few.loss[i]) <= 1e-6 * all.loss[i]);
}
END_TEST

/* Dropout is a function of the sample's index in the epoch, not of the rank that sees it. */
START_TEST(ranks_drop_what_one_rank_would) {
    struct tiny_run one = layout_train(tiny_drop, (struct layout){ .ranks = 1, .stages = 1, .micro = 8 });
    struct layout two = { .ranks = 2, .stages = 1, .micro = 4 }, pipe = { .ranks = 2, .stages = 2, .micro = 8 };
    struct tiny_run run = layout_train(tiny_drop, two);
    layout_check_close(&run, &one, 1e-5, two);
    run = layout_train(tiny_drop, pipe);
    layout_check_close(&run, &one, 1e-5, pipe);
}
END_TEST

/* With it a run has the bits of seed 1234, except for the order of the data. */
START_TEST(layers_have_a_seed_of_their_own) {
    for (int ranks = 1; ranks <= 2; ranks++) {
        struct layout l = { .ranks = ranks, .stages = ranks, .micro = 8, .seed = 1234 };
        const uint64_t of_run = layout_train(tiny_drop, l).hash;
        l.seed_layers = true;
        ck_assert(layout_train(tiny_drop, l).hash == of_run);
        l.seed = 5;
        const uint64_t other = layout_train(tiny_drop, l).hash;
        l.seed_layers = false;
        ck_assert(layout_train(tiny_drop, l).hash != other);
    }
}
END_TEST

START_TEST(running_statistics_are_the_same_on_a_pipeline) {
    struct tiny_run one = layout_train(tiny_norm, (struct layout){ .ranks = 1, .stages = 1, .micro = 4 });
    struct layout pipe = { .ranks = 2, .stages = 2, .micro = 4 };
    struct tiny_run run = layout_train(tiny_norm, pipe);
    layout_check_close(&run, &one, 1e-5, pipe);
}
END_TEST

/* Programs of other sizes are cut where the first one is, or a layer's weights would be on another stage in the last
 * step of an epoch. */
START_TEST(a_short_last_step_is_cut_like_the_others) {
    struct tiny_run one =
        layout_train(tiny_uneven, (struct layout){ .ranks = 1, .stages = 1, .micro = 8, .samples = 9 });
    struct layout pipe = { .ranks = 2, .stages = 2, .micro = 8, .samples = 9 };
    struct tiny_run run = layout_train(tiny_uneven, pipe);
    layout_check_close(&run, &one, 1e-5, pipe);
}
END_TEST

/* Of 22 samples the last of six micro-batches has 2, and steps of two hold it in either place; of 20 the last of three
 * has 4, and a step may be that alone. */
START_TEST(a_stream_with_short_micro_batches_learns_the_same_in_every_layout) {
    static struct zt_graph *(*const models[])(void) = { tiny_mlp, tiny_shared, tiny_tied, tiny_drop };
    static const struct layout layouts[] = {
        { .ranks = 2, .stages = 1, .micro = 2, .zero = 0 },
        { .ranks = 2, .stages = 1, .micro = 2, .zero = 1 },
        { .ranks = 2, .stages = 1, .micro = 2, .zero = 2 },
        { .ranks = 2, .stages = 1, .micro = 2, .zero = 3 },
        { .ranks = 2, .stages = 1, .micro = 2, .mode = "dp" },
        { .ranks = 2, .stages = 2, .micro = 4 },
        { .ranks = 4, .stages = 2, .micro = 2, .zero = 1 },
        { .ranks = 2, .stages = 2, .micro = 4, .schedule = "gpipe" },
    };
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        struct layout l = { .ranks = 1, .stages = 1, .micro = 4, .stream = true };
        struct tiny_run one = layout_train(models[m], l);
        for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
            l = layouts[i];
            l.stream = true;
            struct tiny_run run = layout_train(models[m], l);
            layout_check_close(&run, &one, 1e-5, l);
        }
        one = layout_train(models[m],
                           (struct layout){ .ranks = 1, .stages = 1, .micro = 8, .samples = 20, .stream = true });
        l = (struct layout){ .ranks = 4, .stages = 1, .micro = 2, .zero = 3, .samples = 20, .stream = true };
        struct tiny_run run = layout_train(models[m], l);
        layout_check_close(&run, &one, 1e-5, l);
    }
}
END_TEST

START_TEST(a_run_repeats_bit_for_bit) {
    struct layout l = { .ranks = 4, .stages = 2, .zero = 1, .micro = 2 };
    struct tiny_run a = layout_train(tiny_wide, l), b = layout_train(tiny_wide, l);
    ck_assert(a.hash == b.hash && memcmp(a.loss, b.loss, sizeof a.loss) == 0);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("rank");
    tcase_add_test(cases, an_mlp_learns_the_same_in_every_layout);
    tcase_add_test(cases, cut_slices_change_nothing);
    tcase_add_test(cases, shared_weights_and_relayed_residuals_learn_the_same_in_every_layout);
    tcase_add_test(cases, weights_tied_over_stages_learn_as_one);
    tcase_add_test(cases, one_micro_batch_is_a_naive_split_by_layers);
    tcase_add_test(cases, copies_of_a_weight_have_its_bits_under_every_zero_stage);
    tcase_add_test(cases, ddp_and_the_zero_stages_leave_the_same_bits);
    tcase_add_test(cases, overlap_and_bucket_sizes_leave_the_same_bits);
    tcase_add_test(cases, what_zero3_keeps_and_fetches_ahead_leaves_the_same_bits);
    tcase_add_test(cases, schedules_leave_the_same_bits);
    tcase_add_test(cases, padding_is_in_no_rank_s_own_statistics);
    tcase_add_test(cases, synchronised_batch_norm_is_that_of_one_rank);
    tcase_add_test(cases, replicas_have_the_loss_of_one_rank);
    tcase_add_test(cases, replicas_without_samples_weigh_nothing);
    tcase_add_test(cases, running_statistics_are_those_of_replica_0);
    tcase_add_test(cases, a_model_that_one_rank_owns_alone_is_collected);
    tcase_add_test(cases, many_small_buckets_change_no_bit);
    tcase_add_test(cases, ranks_drop_what_one_rank_would);
    tcase_add_test(cases, layers_have_a_seed_of_their_own);
    tcase_add_test(cases, running_statistics_are_the_same_on_a_pipeline);
    tcase_add_test(cases, a_short_last_step_is_cut_like_the_others);
    tcase_add_test(cases, a_stream_with_short_micro_batches_learns_the_same_in_every_layout);
    tcase_add_test(cases, a_run_repeats_bit_for_bit);
    return run_suite("rank", cases, CK_NOFORK);
}
