/* Ranks of a run: what each holds, what is refused, what a step is cut into and timed as, and what a rank says that
 * fails. */
#include "tests/suite.h"
#include "tests/run/tiny.h"

#include "parallel/schedule/cost.h"
#include "plan/rank_plan.h"
#include "run/rank/rank.h"
#include "run/rank/times.h"

#include <math.h>
#include <string.h>

/* fp32 with Adam takes 4 bytes of weights, 4 of gradients and 8 of states per element. Sharded parts are divided by the
 * ranks (the memory formulas of ZeRO, Rajbhandari et al., SC 2020, without a separate master copy). */
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
                int64_t bytes = p->memory.parameter_bytes - p->tensors.statistic_bytes + p->memory.gradient_bytes +
                                p->memory.optimizer_bytes;
                double each = (double)bytes / (double)p->tensors.flat->count;
                ck_assert_msg(fabs(each - formula[zero]) <= 0.03 * formula[zero],
                              "zero %d, rank %d of %d: %g, wants %g", zero, rank, ranks, each, formula[zero]);
                /* what comes and goes: two buckets of sums, and of parameters the one in use and the next */
                int64_t bucket = (int64_t)sizeof(float) * (p->tensors.flat->bucket[1] - p->tensors.flat->bucket[0]);
                activations[zero] = p->memory.activation_bytes;
                ck_assert_int_le(p->memory.activation_bytes, activations[0] + (zero == 3   ? 4
                                                                               : zero == 2 ? 2
                                                                                           : 0) *
                                                                                  bucket * 103 / 100);
                ck_assert_int_eq(p->memory.derived_bytes, zero == 3 ? 2 * 4 * (8 * 512 + 5) + 24 : 0);
                zt_rank_plan_destroy(p);
            }
            tiny_finish(&t);
        }
    }
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
        ck_assert_int_eq(plan->memory.optimizer_bytes, rank == 0 ? 2 * 4 * plan->tensors.flat->count : 0);
        ck_assert_int_eq(plan->memory.gradient_bytes, 4 * plan->tensors.flat->count);
        ck_assert_int_eq(plan->memory.loss_activation_bytes > 0, rank == 0);
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
    g->values[g->outputs[1]]->dtype = ZT_FLOAT;
    refuse(g, "}, 'loss': {'type': 'output', 'output': 'own'", "the loss is output \"own\" of the graph itself");
    refuse(tiny_mlp(), ", 'communicator': 'mpi'", "mode \"dp\" is always threads");
    refuse(tiny_mlp(), ", 'sync_batch_norm': true", "statistics of replica 0");
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

enum { TIMED = 9 };

static void check_times(struct zt_rank *run, const struct zt_rank_plan *plan, int step) {
    if (step == 0)
        zt_rank_time(run, TIMED);
    if (step != TIMED)
        return;
    const struct zt_program *p = plan->programs.train.at[0];
    double *times = zt_calloc((size_t)zt_rank_plan_times(plan), sizeof *times);
    for (int k = 0; k < TIMED; k++) {
        int runs = plan->steps.full.micro_batches;
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
        tiny_train(&t, TIMED + 2, &run);
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

/* The rates of the groups are the same constants in both: 0.1, and 0.05 for what the group matches. */
START_TEST(a_schedule_gives_each_parameter_group_its_own_rates) {
    static const char lists[] =
        "'train_batch_size': 8, 'optimizer': {'type': 'Adam', 'params': {'lr': 7}}, 'scheduler': {'type': 'WarmupLR', "
        "'params': {'warmup_min_lr': [0.1, 0.05], 'warmup_max_lr': [0.1, 0.05]}}, "
        "'ztrain': {'param_groups': [{'match': '*.bias', 'lr': 3}]}";
    static const char constant[] =
        "'train_batch_size': 8, 'optimizer': {'type': 'Adam', 'params': {'lr': 0.1}}, "
        "'ztrain': {'param_groups': [{'match': '*.bias', 'lr': 0.05}]}";
    struct tiny_run run = train_plainly(lists, 1, 3, NULL), same = train_plainly(constant, 1, 3, NULL);
    ck_assert(run.ok && same.ok && run.hash == same.hash);
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
    static const struct zt_format failing = { .type.name = "failing", .read = fail_at_13, .close = close_nothing };
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
    static const char *const blocks[] = { "parameters", "gradients", "activations", "workspace", "optimizer state" };
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
        ck_assert_ptr_null(zt_rank_create(plan, device, comm, comm, NULL, &err));
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
    TCase *cases = tcase_create("rank_run");
    tcase_add_test(cases, planned_bytes_are_those_of_the_formulas);
    tcase_add_test(cases, only_device_0_has_optimizer_state_and_the_loss);
    tcase_add_test(cases, what_replicas_cannot_do_is_refused_by_name);
    tcase_add_test(cases, steps_are_cut_as_the_loader_cuts_them);
    tcase_add_test(cases, every_part_and_node_of_a_step_is_timed);
    tcase_add_test(cases, a_step_that_is_not_finite_leaves_the_weights_alone);
    tcase_add_test(cases, a_schedule_gives_each_parameter_group_its_own_rates);
    tcase_add_test(cases, a_rank_that_fails_ends_all_with_its_reason);
    tcase_add_test(cases, a_device_without_room_names_the_block_and_keeps_none);
    return run_suite("rank_run", cases, CK_NOFORK);
}
