/* The equivalence matrix in one process: whatever the number of ranks, ZeRO stage, pipeline stages and schedule, a
 * model learns the same. */
#include "tests/suite.h"
#include "tiny.h"

#include "device/threads.h"
#include "forecast.h"
#include "parallel/cost.h"

#include <math.h>
#include <string.h>

enum { STEPS = 6 };

/* 22 samples in steps of 8: the third step of an epoch has 6, which four ranks must fill up. */
struct layout {
    int ranks, stages, zero, micro;
    const char *schedule, *more; /* NULL: 1f1b; NULL: nothing */
    int samples;                 /* 0: 22 */
    const char *optimizer;       /* NULL: AdamW */
    const char *mode, *loss;     /* NULL: ddp; NULL: plain cross entropy */
    bool sync;                   /* sync_batch_norm */
    const char *partition;       /* NULL: best */
};

static struct tiny_run train(struct zt_graph *(*make)(void), struct layout l) {
    struct tiny t;
    struct tiny_run run = { 0 };
    struct zt_err err = { 0 };
    char config[800];
    snprintf(config, sizeof config,
             "'train_batch_size': 8, 'train_micro_batch_size_per_gpu': %d, 'zero_optimization': {'stage': %d%s}, "
             "'pipeline': {'stages': %d, 'partition': '%s'}, 'ztrain': {'parallel': {'communicator': 'thread', "
             "'schedule': '%s', 'mode': "
             "'%s', 'sync_batch_norm': %s}, 'loss': {'label_smoothing': 0.1%s}, "
             "'data': {'samples': %d}}, 'gradient_clipping': 0.7, "
             "'optimizer': {'type': '%s', 'params': {'lr': 0.01, 'weight_decay': 0.01}}",
             l.micro, l.zero, l.more ? l.more : "", l.stages, l.partition ? l.partition : "best",
             l.schedule ? l.schedule : "1f1b", l.mode ? l.mode : "ddp", l.sync ? "true" : "false", l.loss ? l.loss : "",
             l.samples ? l.samples : 22, l.optimizer ? l.optimizer : "AdamW");
    bool ok = tiny_open(&t, make(), config, l.ranks, &err);
    ck_assert_msg(ok, "%s", err.text[0]);
    tiny_train(&t, STEPS, &run);
    ck_assert_msg(run.ok, "%d ranks, %d stages, zero %d, %s: %s", l.ranks, l.stages, l.zero, l.schedule,
                  run.err.text[0]);
    tiny_finish(&t);
    return run;
}

static void check_close(const struct tiny_run *a, const struct tiny_run *b, double tolerance, struct layout l) {
    for (int i = 0; i < STEPS; i++) {
        ck_assert_msg(fabs(a->loss[i] - b->loss[i]) <= tolerance * fabs(b->loss[i]),
                      "%d ranks, %d stages, zero %d, %s: loss %d is %.9g, wants %.9g", l.ranks, l.stages, l.zero,
                      l.schedule, i, a->loss[i], b->loss[i]);
        ck_assert_msg(fabs(a->norm[i] - b->norm[i]) <= 10 * tolerance * fabs(b->norm[i]),
                      "%d ranks, %d stages, zero %d, %s: norm %d is %.9g, wants %.9g", l.ranks, l.stages, l.zero,
                      l.schedule, i, a->norm[i], b->norm[i]);
    }
    ck_assert_msg(fabs(a->eval_loss - b->eval_loss) <= tolerance * fabs(b->eval_loss),
                  "%d ranks, %d stages, zero %d: evaluation %.9g, wants %.9g", l.ranks, l.stages, l.zero, a->eval_loss,
                  b->eval_loss);
}

static void check_matrix(struct zt_graph *(*make)(void), int most_stages, int most_ranks) {
    struct tiny_run one = train(make, (struct layout){ .ranks = 1, .stages = 1, .micro = 2 });
    ck_assert(one.loss[STEPS - 1] < one.loss[0]);
    for (int stages = 1; stages <= most_stages; stages++) {
        for (int data = 1; data * stages <= most_ranks; data *= 2) {
            for (int k = 0; k < 8; k++) {
                struct layout l = { data * stages, stages, k / 2, 2, k % 2 ? "gpipe" : "1f1b", NULL };
                if ((k / 2 && data == 1) || (k % 2 && stages == 1))
                    continue;
                struct tiny_run run = train(make, l);
                check_close(&run, &one, 1e-5, l);
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
        struct tiny_run one = train(models[m], (struct layout){ .ranks = 1, .stages = 1, .micro = 8 });
        struct layout l = { .ranks = 2, .stages = 2, .micro = 8 };
        struct tiny_run run = train(models[m], l);
        check_close(&run, &one, 1e-5, l);
    }
}
END_TEST

/* Lamb's trust ratios are sums over a tensor, which another cut would add up in another order: the copies must be the
 * home's bits, and the ZeRO stages one another's. */
START_TEST(copies_of_a_weight_have_its_bits_under_every_zero_stage) {
    struct layout l = { .ranks = 6, .stages = 3, .micro = 4, .optimizer = "Lamb" };
    struct tiny_run one = train(tiny_tied, (struct layout){ .ranks = 1, .stages = 1, .micro = 8, .optimizer = "Lamb" });
    struct tiny_run ddp = train(tiny_tied, l);
    ck_assert_int_gt(ddp.ties, 1);
    check_close(&ddp, &one, 1e-5, l);
    for (l.zero = 1; l.zero < 4; l.zero++) {
        struct tiny_run run = train(tiny_tied, l);
        ck_assert_msg(run.hash == ddp.hash, "zero %d", l.zero);
        for (int i = 0; i < STEPS; i++)
            ck_assert(run.loss[i] == ddp.loss[i] && run.norm[i] == ddp.norm[i]);
    }
}
END_TEST

START_TEST(ddp_and_the_zero_stages_leave_the_same_bits) {
    static struct zt_graph *(*const models[])(void) = { tiny_mlp, tiny_wide, tiny_norm, tiny_drop };
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        struct tiny_run ddp = train(models[m], (struct layout){ .ranks = 2, .stages = 1, .micro = 4 });
        for (int zero = 1; zero < 4; zero++) {
            struct tiny_run run =
                train(models[m], (struct layout){ .ranks = 2, .stages = 1, .zero = zero, .micro = 4 });
            ck_assert_msg(run.hash == ddp.hash, "model %d, zero %d", (int)m, zero);
            for (int i = 0; i < STEPS; i++)
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
    };
    struct layout l = { .ranks = 4, .stages = 1, .micro = 2 };
    struct tiny_run plain = train(tiny_wide, l);
    for (l.zero = 0; l.zero < 4; l.zero++) {
        for (size_t i = 0; i < sizeof traffic / sizeof *traffic; i++) {
            l.more = traffic[i];
            struct tiny_run run = train(tiny_wide, l);
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
        struct tiny_run ddp = train(models[m], l);
        l.zero = 3;
        for (size_t i = 0; i < sizeof traffic / sizeof *traffic; i++) {
            l.more = traffic[i];
            struct tiny_run run = train(models[m], l);
            ck_assert_msg(run.hash == ddp.hash && run.eval_loss == ddp.eval_loss, "model %d%s", (int)m, l.more);
        }
    }
}
END_TEST

/* fp32 with Adam: 4 bytes of weights, 4 of gradients, 8 of state an element, and what a stage shards divided by the
 * ranks (reference/deepspeed.md, section 4.2, without its separate master slice). */
START_TEST(planned_bytes_are_those_of_the_formulas) {
    int64_t activations[4] = { 0 };
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        for (int zero = 0; zero < 4; zero++) {
            struct tiny t;
            struct zt_err err = { 0 };
            char config[300];
            snprintf(
                config, sizeof config,
                "'train_batch_size': 8, 'zero_optimization': {'stage': %d, 'stage3_param_persistence_threshold': 512},"
                "'optimizer': {'type': 'Adam', 'params': {'lr': 0.01}}",
                zero);
            ck_assert_msg(tiny_open(&t, tiny_deep(), config, ranks, &err), "%s", err.text[0]);
            for (int rank = 0; rank < ranks; rank++) {
                struct zt_rank_options options = { .source = t.source, .rank = rank, .threads = 1 };
                struct zt_rank_plan *p = zt_rank_plan_create(t.job, &options, &err);
                ck_assert_msg(p, "%s", err.text[0]);
                double n = ranks, formula[4] = { 16, 8 + 8 / n, 4 + 12 / n, 16 / n };
                int64_t bytes = p->parameter_bytes - p->statistic_bytes + p->gradient_bytes + p->optimizer_bytes;
                double each = (double)bytes / (double)p->flat->count;
                ck_assert_msg(fabs(each - formula[zero]) <= 0.03 * formula[zero],
                              "zero %d, rank %d of %d: %g, wants %g", zero, rank, ranks, each, formula[zero]);
                /* what comes and goes: two buckets of sums, and of parameters the one in use and the next */
                int64_t bucket = (int64_t)sizeof(float) * (p->flat->bucket[1] - p->flat->bucket[0]);
                activations[zero] = p->activation_bytes;
                ck_assert_int_le(p->activation_bytes, activations[0] + (zero == 3   ? 4
                                                                        : zero == 2 ? 2
                                                                                    : 0) *
                                                                           bucket * 103 / 100);
                ck_assert_int_eq(p->derived_bytes, zero == 3 ? 2 * 4 * (8 * 512 + 5) + 24 : 0);
                zt_rank_plan_destroy(p);
            }
            tiny_finish(&t);
        }
    }
}
END_TEST

START_TEST(schedules_leave_the_same_bits) {
    struct tiny_run first = train(tiny_wide, (struct layout){ .ranks = 2, .stages = 2, .micro = 2 });
    struct tiny_run other =
        train(tiny_wide, (struct layout){ .ranks = 2, .stages = 2, .micro = 2, .schedule = "gpipe" });
    ck_assert(first.hash == other.hash);
}
END_TEST

/* ---- batch norm ---- */

/* Over all ranks it is the batch norm of one rank that has the whole micro-batch: losses, gradients, and (in the
 * evaluation) running statistics. 22 samples leave four ranks with padding in the third step, which must count in no
 * statistic. Without it ranks see other statistics. (SGD: the gradient of the bias before the norm is rounding alone,
 * which Adam would make as large as any other.) */
START_TEST(synchronised_batch_norm_is_that_of_one_rank) {
    struct tiny_run one = train(tiny_norm, (struct layout){ .ranks = 1, .stages = 1, .micro = 8, .optimizer = "SGD" });
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
            struct tiny_run ddp = train(tiny_norm, l);
            check_close(&ddp, &one, 1e-5, l);
            for (l.zero = 1; l.zero < 4; l.zero++) {
                struct tiny_run run = train(tiny_norm, l);
                ck_assert_msg(run.hash == ddp.hash, "zero %d", l.zero);
            }
        }
    }
    struct tiny_run apart =
        train(tiny_norm, (struct layout){ .ranks = 2, .stages = 1, .micro = 4, .optimizer = "SGD" });
    ck_assert(fabs(apart.loss[1] - one.loss[1]) > 1e-4 * one.loss[1]);
}
END_TEST

/* Without synchronisation two ranks normalise as one rank does in micro-batches of a rank's size. Of 11 samples the
 * last step's 3 leave the second rank one sample and one row of padding, which must not be in its statistics. */
START_TEST(padding_is_in_no_rank_s_own_statistics) {
    struct tiny_run one =
        train(tiny_norm, (struct layout){ .ranks = 1, .stages = 1, .micro = 2, .samples = 11, .optimizer = "SGD" });
    for (int stages = 1; stages <= 2; stages++) {
        struct layout l = { .ranks = 2 * stages,
                            .stages = stages,
                            .micro = 2,
                            .samples = 11,
                            .optimizer = "SGD",
                            .partition = "uniform" };
        struct tiny_run run = train(tiny_norm, l);
        run.eval_loss = one.eval_loss; /* rank 0's statistics have seen half of the samples */
        check_close(&run, &one, 1e-5, l);
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
            train(tiny_mlp, (struct layout){ .ranks = 1, .stages = 1, .micro = 4, .loss = losses[k] });
        for (int ranks = 2; ranks <= 4; ranks += 2) {
            struct layout l = { .ranks = ranks, .stages = 1, .micro = 4 / ranks, .mode = "dp", .loss = losses[k] };
            struct tiny_run dp = train(tiny_mlp, l);
            check_close(&dp, &one, 1e-5, l);
            l.mode = "ddp";
            struct tiny_run ddp = train(tiny_mlp, l);
            ck_assert(k == 0 || fabs(ddp.loss[0] - one.loss[0]) > 1e-4 * one.loss[0]);
        }
    }
}
END_TEST

START_TEST(replicas_without_samples_weigh_nothing) {
    static struct zt_graph *(*const models[])(void) = { tiny_mlp, tiny_wide, tiny_drop };
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        struct tiny_run one = train(models[m], (struct layout){ .ranks = 1, .stages = 1, .micro = 8, .samples = 9 });
        struct layout l = { .ranks = 4, .stages = 1, .micro = 2, .samples = 9, .mode = "dp" };
        struct tiny_run run = train(models[m], l);
        check_close(&run, &one, 1e-5, l);
    }
}
END_TEST

/* DataParallel keeps what replica 0 counted, and so does ddp's rank 0, which sees the same rows. */
START_TEST(running_statistics_are_those_of_replica_0) {
    struct layout l = { .ranks = 2, .stages = 1, .micro = 4, .samples = 24 };
    struct tiny_run ddp = train(tiny_norm, l);
    l.mode = "dp";
    struct tiny_run dp = train(tiny_norm, l);
    check_close(&dp, &ddp, 1e-5, l);
}
END_TEST

START_TEST(only_device_0_has_optimizer_state_and_the_loss) {
    struct tiny t;
    struct zt_err err = { 0 };
    ck_assert_msg(tiny_open(&t, tiny_wide(),
                            "'train_batch_size': 8, 'ztrain': {'parallel': {'mode': 'dp'}}, "
                            "'optimizer': {'type': 'Adam', 'params': {'lr': 0.001}}",
                            4, &err),
                  "%s", err.text[0]);
    struct zt_device *device = zt_device_host_create(1);
    for (int rank = 0; rank < 4; rank++) {
        struct zt_rank_options options = { .source = t.source, .rank = rank, .device = device, .threads = 1 };
        struct zt_rank_plan *plan = zt_rank_plan_create(t.job, &options, &err);
        ck_assert_msg(plan != NULL, "%s", err.text[0]);
        ck_assert_int_eq(plan->optimizer_bytes, rank == 0 ? 2 * 4 * plan->flat->count : 0);
        ck_assert_int_eq(plan->gradient_bytes, 4 * plan->flat->count);
        ck_assert_int_eq(plan->loss_activation_bytes > 0, rank == 0);
        zt_rank_plan_destroy(plan);
    }
    device->api->destroy(device);
    tiny_finish(&t);
}
END_TEST

static void refuse(struct zt_graph *graph, const char *parallel, const char *why) {
    struct tiny t;
    struct zt_err err = { 0 };
    char config[400];
    snprintf(config, sizeof config,
             "'train_batch_size': 8, 'optimizer': {'type': 'Adam', 'params': {'lr': 0.001}}, "
             "'ztrain': {'parallel': {'mode': 'dp'%s}}",
             parallel);
    bool ok = tiny_open(&t, graph, config, 2, &err);
    if (ok) {
        struct zt_device *device = zt_device_host_create(1);
        struct zt_rank_options options = { .source = t.source, .device = device, .threads = 1 };
        struct zt_rank_plan *plan = zt_rank_plan_create(t.job, &options, &err);
        ok = plan != NULL;
        zt_rank_plan_destroy(plan);
        device->api->destroy(device);
    }
    ck_assert_msg(!ok && strstr(err.text[0], why), "%s", err.text[0]);
    tiny_finish(&t);
}

START_TEST(what_replicas_cannot_do_is_refused_by_name) {
    struct zt_graph *g = tiny_mlp();
    tiny_output(g, NET(g, "ReduceMean", "own", g->outputs[0]));
    g->values[g->outputs[1]].dtype = ZT_FLOAT;
    refuse(g, "}, 'loss': {'type': 'output', 'output': 'own'", "the loss is output \"own\" of the graph itself");
    refuse(tiny_mlp(), ", 'communicator': 'mpi'", "mode \"dp\" is always threads");
    refuse(tiny_mlp(), ", 'sync_batch_norm': true", "statistics of replica 0");
}
END_TEST

/* Buckets as large as the model, in a model below one slice: one rank owns everything, the other nothing. */
START_TEST(a_model_that_one_rank_owns_alone_is_collected) {
    struct tiny_run ddp = train(
        tiny_mlp, (struct layout){ .ranks = 2, .stages = 1, .micro = 4, .more = ", 'reduce_bucket_size': 500000000" });
    for (int zero = 1; zero < 4; zero++) {
        struct tiny_run run =
            train(tiny_mlp,
                  (struct layout){
                      .ranks = 2, .stages = 1, .micro = 4, .zero = zero, .more = ", 'reduce_bucket_size': 500000000" });
        ck_assert(run.hash == ddp.hash);
    }
}
END_TEST

START_TEST(many_small_buckets_change_no_bit) {
    struct tiny_run all = train(tiny_wide, (struct layout){ .ranks = 2, .stages = 1, .micro = 4, .zero = 2 });
    struct tiny_run few =
        train(tiny_wide,
              (struct layout){ .ranks = 2, .stages = 1, .micro = 4, .zero = 3, .more = ", 'reduce_bucket_size': 1" });
    for (int i = 0; i < STEPS; i++)
        ck_assert(fabs(all.loss[i] - few.loss[i]) <= 1e-6 * all.loss[i]);
}
END_TEST

/* Dropout is a function of the sample's index in the epoch, not of the rank that sees it. */
START_TEST(ranks_drop_what_one_rank_would) {
    struct tiny_run one = train(tiny_drop, (struct layout){ .ranks = 1, .stages = 1, .micro = 8 });
    struct layout two = { .ranks = 2, .stages = 1, .micro = 4 }, pipe = { .ranks = 2, .stages = 2, .micro = 8 };
    struct tiny_run run = train(tiny_drop, two);
    check_close(&run, &one, 1e-5, two);
    run = train(tiny_drop, pipe);
    check_close(&run, &one, 1e-5, pipe);
}
END_TEST

START_TEST(running_statistics_are_the_same_on_a_pipeline) {
    struct tiny_run one = train(tiny_norm, (struct layout){ .ranks = 1, .stages = 1, .micro = 4 });
    struct layout pipe = { .ranks = 2, .stages = 2, .micro = 4 };
    struct tiny_run run = train(tiny_norm, pipe);
    check_close(&run, &one, 1e-5, pipe);
}
END_TEST

/* Programs of other sizes are cut where the first one is, or a layer's weights would be on another stage in the last
 * step of an epoch. */
START_TEST(a_short_last_step_is_cut_like_the_others) {
    struct tiny_run one = train(tiny_uneven, (struct layout){ .ranks = 1, .stages = 1, .micro = 8, .samples = 9 });
    struct layout pipe = { .ranks = 2, .stages = 2, .micro = 8, .samples = 9 };
    struct tiny_run run = train(tiny_uneven, pipe);
    check_close(&run, &one, 1e-5, pipe);
}
END_TEST

START_TEST(a_run_repeats_bit_for_bit) {
    struct layout l = { .ranks = 4, .stages = 2, .zero = 1, .micro = 2 };
    struct tiny_run a = train(tiny_wide, l), b = train(tiny_wide, l);
    ck_assert(a.hash == b.hash && memcmp(a.loss, b.loss, sizeof a.loss) == 0);
}
END_TEST

START_TEST(steps_are_cut_as_the_loader_cuts_them) {
    for (int64_t samples = 0; samples < 40; samples++) {
        for (int64_t micro = 1; micro < 6; micro++) {
            for (int ranks = 1; ranks < 5; ranks++) {
                struct zt_step_shape s = zt_step_shape(samples, micro, ranks);
                int64_t whole = micro * ranks * (s.micro_batches - 1), last = samples - whole;
                ck_assert_int_eq(s.micro_batches, (samples + micro * ranks - 1) / (micro * ranks));
                if (!samples)
                    continue;
                ck_assert(last > 0 && last <= micro * ranks);
                ck_assert_int_eq(s.last_rows, (last + ranks - 1) / ranks);
                ck_assert_int_eq(s.padded, last % ranks != 0);
                ck_assert_int_le(s.last_rows, s.rows);
            }
        }
    }
}
END_TEST

static void check_list(const struct zt_command *at, int count, int runs, const double *times, double *all) {
    for (int i = 0; i < count; i++) {
        if (at[i].kind != ZT_RUN_NODE)
            continue;
        ck_assert_double_gt(times[ZT_PARTS + at[i].node], 0);
        *all += runs * times[ZT_PARTS + at[i].node];
    }
}

static void check_times(struct zt_rank *run, const struct zt_rank_plan *plan, int step) {
    if (step == 0)
        zt_rank_time(run);
    if (step != ZT_RANK_TIMED_STEPS)
        return;
    const struct zt_program *p = plan->train.at[0];
    double *times = zt_calloc((size_t)zt_rank_plan_times(plan), sizeof *times);
    for (int k = 0; k < ZT_RANK_TIMED_STEPS; k++) {
        int runs = plan->full.micro_batches;
        zt_rank_timed(run, k, times);
        ck_assert(times[ZT_PART_LOAD] > 0 && times[ZT_PART_NORM] > 0 && times[ZT_PART_UPDATE] > 0);
        double all = 0;
        check_list(p->forward, p->forward_count, runs, times, &all);
        check_list(p->backward, p->backward_count, runs, times, &all);
        check_list(p->derive, p->derive_count, 1, times, &all);
        ck_assert_double_eq_tol(zt_rank_timed_step(run, k), all, 1e-9 * all);
    }
    free(times);
    zt_rank_time_end(run);
}

START_TEST(every_part_and_node_of_a_step_is_timed) {
    static const char config[] =
        "'train_batch_size': 12, 'train_micro_batch_size_per_gpu': 2, 'optimizer': {'type': "
        "'Adam'}, 'ztrain': {'parallel': {'communicator': 'thread'}}";
    for (int ranks = 1; ranks <= 3; ranks++) {
        struct tiny t;
        struct tiny_run run = { 0 };
        struct zt_err err = { 0 };
        bool ok = tiny_open(&t, tiny_mlp(), config, ranks, &err);
        ck_assert_msg(ok, "%s", err.text[0]);
        t.after = check_times;
        tiny_train(&t, ZT_RANK_TIMED_STEPS + 2, &run);
        ck_assert_msg(run.ok, "%s", run.err.text[0]);
        tiny_finish(&t);
    }
}
END_TEST

/* ---- when it goes wrong ---- */

static struct tiny_run train_plainly(const char *config, int ranks, int steps, const struct zt_format *format) {
    struct tiny t;
    struct tiny_run run = { 0 };
    struct zt_err err = { 0 };
    bool ok = tiny_open(&t, tiny_mlp(), config, ranks, &err);
    ck_assert_msg(ok, "%s", err.text[0]);
    if (format)
        t.source->format = format;
    tiny_train(&t, steps, &run);
    tiny_finish(&t);
    return run;
}

START_TEST(a_step_that_is_not_finite_leaves_the_weights_alone) {
    static const char config[] =
        "'train_batch_size': 8, 'zero_optimization': {'stage': 2}, "
        "'ztrain': {'parallel': {'communicator': 'thread'}}, "
        "'optimizer': {'type': 'SGD', 'params': {'lr': 1e30}}";
    for (int ranks = 1; ranks < 3; ranks++) {
        struct tiny_run one = train_plainly(config, ranks, 1, NULL), more = train_plainly(config, ranks, 3, NULL);
        ck_assert(one.ok && more.ok && isfinite(one.loss[0]) && !isfinite(more.loss[1]));
        ck_assert(one.hash == more.hash);
    }
}
END_TEST

static bool fail_at_13(const struct zt_source *source, int column, int64_t index, void *to, struct zt_err *err) {
    if (index == 13)
        return zt_fail(err, ZT_EXIT_DATA, "row 13 cannot be read");
    memset(to, 0, source->column[column].sample_bytes);
    return true;
}
static void close_nothing(struct zt_source *source) {
    free(source->state);
}

START_TEST(a_rank_that_fails_ends_all_with_its_reason) {
    static const struct zt_format failing = { .name = "failing", .read = fail_at_13, .close = close_nothing };
    static const char *const configs[] = {
        "'train_batch_size': 8, 'zero_optimization': {'stage': 3}, 'ztrain': {'parallel': {'communicator': 'thread'}}, "
        "'optimizer': {'type': 'Adam', 'params': {'lr': 0.001}}",
        "'train_batch_size': 8, 'train_micro_batch_size_per_gpu': 2, 'pipeline': {'stages': 2}, "
        "'ztrain': {'parallel': {'communicator': 'thread'}}, 'optimizer': {'type': 'Adam', 'params': {'lr': 0.001}}",
    };
    for (int i = 0; i < 2; i++) {
        struct tiny_run run = train_plainly(configs[i], 2, 5, &failing);
        ck_assert(!run.ok);
        ck_assert_int_eq(run.err.code, ZT_EXIT_DATA);
        ck_assert_ptr_nonnull(strstr(run.err.text[0], "row 13"));
    }
}
END_TEST

/* A device that refuses its n-th block. */
static int blocks_left;
static const struct zt_device_api *host_api;
static void *allocate_some(struct zt_device *device, size_t bytes, const char *what, struct zt_err *err) {
    if (blocks_left-- > 0)
        return host_api->allocate(device, bytes, what, err);
    zt_fail(err, ZT_EXIT_RUN, "%s: refused", what);
    return NULL;
}

START_TEST(a_device_without_room_names_the_block_and_keeps_none) {
    static const char *const blocks[] = { "parameters", "gradients", "optimizer state", "activations", "workspace" };
    struct tiny t;
    struct zt_err err = { 0 };
    ck_assert(tiny_open(&t, tiny_mlp(), "'train_batch_size': 8, 'optimizer': {'type': 'Adam', 'params': {'lr': 0.001}}",
                        1, &err));
    struct zt_device *device = zt_device_host_create(1);
    struct zt_comm *comm = zt_comm_self_create();
    struct zt_device_api api = *device->api;
    struct zt_rank_options options = { .source = t.source, .device = device, .threads = 1 };
    struct zt_rank_plan *plan = zt_rank_plan_create(t.job, &options, &err);
    host_api = device->api;
    api.allocate = allocate_some;
    device->api = &api;
    for (int n = 0; n < 5; n++) {
        blocks_left = n;
        err = (struct zt_err){ 0 };
        ck_assert_ptr_null(zt_rank_create(plan, device, comm, comm, &err));
        ck_assert_ptr_nonnull(strstr(err.text[0], blocks[n]));
    }
    device->api = host_api;
    zt_rank_plan_destroy(plan);
    comm->api->destroy(comm);
    device->api->destroy(device);
    tiny_finish(&t);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("rank");
    tcase_add_test(cases, an_mlp_learns_the_same_in_every_layout);
    tcase_add_test(cases, every_part_and_node_of_a_step_is_timed);
    tcase_add_test(cases, cut_slices_change_nothing);
    tcase_add_test(cases, shared_weights_and_relayed_residuals_learn_the_same_in_every_layout);
    tcase_add_test(cases, weights_tied_over_stages_learn_as_one);
    tcase_add_test(cases, one_micro_batch_is_a_naive_split_by_layers);
    tcase_add_test(cases, copies_of_a_weight_have_its_bits_under_every_zero_stage);
    tcase_add_test(cases, ddp_and_the_zero_stages_leave_the_same_bits);
    tcase_add_test(cases, overlap_and_bucket_sizes_leave_the_same_bits);
    tcase_add_test(cases, what_zero3_keeps_and_fetches_ahead_leaves_the_same_bits);
    tcase_add_test(cases, planned_bytes_are_those_of_the_formulas);
    tcase_add_test(cases, schedules_leave_the_same_bits);
    tcase_add_test(cases, padding_is_in_no_rank_s_own_statistics);
    tcase_add_test(cases, synchronised_batch_norm_is_that_of_one_rank);
    tcase_add_test(cases, replicas_have_the_loss_of_one_rank);
    tcase_add_test(cases, replicas_without_samples_weigh_nothing);
    tcase_add_test(cases, running_statistics_are_those_of_replica_0);
    tcase_add_test(cases, only_device_0_has_optimizer_state_and_the_loss);
    tcase_add_test(cases, what_replicas_cannot_do_is_refused_by_name);
    tcase_add_test(cases, a_model_that_one_rank_owns_alone_is_collected);
    tcase_add_test(cases, many_small_buckets_change_no_bit);
    tcase_add_test(cases, ranks_drop_what_one_rank_would);
    tcase_add_test(cases, running_statistics_are_the_same_on_a_pipeline);
    tcase_add_test(cases, a_short_last_step_is_cut_like_the_others);
    tcase_add_test(cases, a_run_repeats_bit_for_bit);
    tcase_add_test(cases, steps_are_cut_as_the_loader_cuts_them);
    tcase_add_test(cases, a_step_that_is_not_finite_leaves_the_weights_alone);
    tcase_add_test(cases, a_rank_that_fails_ends_all_with_its_reason);
    tcase_add_test(cases, a_device_without_room_names_the_block_and_keeps_none);
    return run_suite("rank", cases, CK_NOFORK);
}
