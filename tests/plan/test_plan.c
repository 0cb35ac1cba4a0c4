/* The plan of all ranks: bytes by the formulas, equal hashes, and the step that is played with known times. */
#include "tests/suite.h"
#include "tests/run/tiny.h"

#include "plan/plan.h"

#include "device/threads.h"
#include "plan/rank_bytes.h"
#include "plan/resolve.h"
#include "plan/rank_plan.h"
#include "run/rank/times.h"

#include <math.h>
#include <string.h>

struct wants {
    int ranks, stages, zero;
    const char *more;     /* of the ztrain block, begins with a comma; NULL: nothing */
    const char *sharding; /* of zero_optimization, likewise */
};

static struct zt_plan *make(struct tiny *t, struct zt_graph *graph, struct wants w, struct zt_err *err) {
    static const struct zt_machine machine = { .name = "test",
                                               .per_host = 4,
                                               .product_flops = 1e9,
                                               .conv_flops = 1e9,
                                               .half_flops = 1e9,
                                               .element_flops = 1e9,
                                               .memory_rate = 1e9,
                                               .link_rate = 1e9,
                                               .net_rate = 1e8,
                                               .efficiency = 1 };
    char config[500];
    snprintf(config, sizeof config,
             "'train_batch_size': 16, 'train_micro_batch_size_per_gpu': 2, 'zero_optimization': {'stage': %d%s}, "
             "'pipeline': {'stages': %d}, 'optimizer': {'type': 'Adam'}, 'ztrain': {'parallel': {'communicator': "
             "'thread'}, 'data': {'samples': 32}%s}",
             w.zero, w.sharding ? w.sharding : "", w.stages, w.more ? w.more : "");
    bool ok = tiny_open(t, graph, config, w.ranks, err);
    ck_assert_msg(ok, "%s", err->text[0]);
    struct zt_plan_options o = { .source = t->source, .threads = 1, .machine = &machine, .elsewhere = true };
    return zt_plan_create(t->job, &o, err);
}

static struct zt_plan *must_make(struct tiny *t, struct zt_graph *graph, struct wants w) {
    struct zt_err err = { 0 };
    struct zt_plan *plan = make(t, graph, w, &err);
    ck_assert_msg(plan != NULL, "%s", err.text[0]);
    return plan;
}

static void finish(struct tiny *t, struct zt_plan *plan) {
    zt_plan_destroy(plan);
    tiny_finish(t);
}

/* The memory formulas of ZeRO (Rajbhandari et al., SC 2020) in fp32, where the weights are their own master copy and
 * Adam's states take 8 bytes per weight. */
START_TEST(weights_gradients_and_states_follow_the_formulas) {
    enum { N = 4 };
    static const struct {
        int zero;
        double whole, shared; /* bytes a weight: whole + shared / N */
    } rows[] = { { 0, 16, 0 }, { 1, 8, 8 }, { 2, 4, 12 }, { 3, 0, 16 } };
    for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
        const bool small = i % 2; /* rank 0 owns nothing of it */
        const double whole = rows[i / 2].whole, shared = rows[i / 2].shared;
        struct tiny t;
        struct zt_plan *plan =
            must_make(&t, small ? tiny_mlp() : tiny_wide(), (struct wants){ N, 1, rows[i / 2].zero, NULL, NULL });
        int64_t all = 0, count = plan->stage[0]->tensors.flat->count;
        for (int r = 0; r < N; r++) {
            struct zt_rank_bytes b = zt_plan_bytes(plan, 0, r);
            all += b.parameters + b.gradients + b.optimizer;
        }
        ck_assert_int_eq(plan->stage[0]->tensors.flat->owned[0] == 0, small);
        ck_assert_int_eq(all, (int64_t)(count * (N * whole + shared)));
        finish(&t, plan);
    }
}
END_TEST

START_TEST(a_plan_resolves_what_the_config_leaves_open) {
    struct tiny t;
    struct zt_plan *plan =
        must_make(&t, tiny_wide(), (struct wants){ 2, 1, 3, NULL, ", 'reduce_bucket_size': 'auto'" });
    const struct zt_rank_plan *stage = plan->stage[0];
    const struct zt_config resolved = zt_rank_plan_resolve(stage);
    const int64_t square = stage->traffic.hidden * stage->traffic.hidden;
    ck_assert_int_gt(square, 2 * ZT_SLICE_BLOCK);
    ck_assert_int_eq(resolved.zero.reduce_bucket_size,
                     square < stage->tensors.flat->count ? square : stage->tensors.flat->count);
    ck_assert_int_ge(resolved.zero.allgather_bucket_size, stage->traffic.largest_bucket);
    ck_assert_int_eq(resolved.zero.prefetch_bucket_size, stage->traffic.limits.prefetch);
    ck_assert_int_eq(resolved.zero.param_persistence_threshold, 10 * stage->traffic.hidden);
    ck_assert_str_eq(resolved.loss.type, "cross_entropy");
    ck_assert_str_eq(resolved.loss.logits, stage->job->logits);
    finish(&t, plan);
}
END_TEST

START_TEST(a_rank_sends_what_the_formulas_say) {
    enum { N = 4 };
    static const struct {
        int zero;
        int gathers, reduces; /* of all weights a step, 2 micro-batches */
        const char *sharding;
    } rows[] = { { 0, 0, 2, NULL },
                 { 1, 1, 1, NULL },
                 { 2, 1, 2, NULL },
                 { 3, 4, 2, NULL },
                 { 3, 1, 2, ", 'stage3_param_persistence_threshold': 1000000" } }; /* all kept, once an update */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tiny t;
        struct zt_plan *plan = must_make(&t, tiny_wide(), (struct wants){ N, 1, rows[i].zero, NULL, rows[i].sharding });
        double once = 4.0 * (double)plan->stage[0]->tensors.flat->count * (N - 1) / N;
        double gathered = (double)plan->cost[0].gather_bytes; /* backward does without the first layer's weights */
        ck_assert_double_le(gathered, 1.01 * rows[i].gathers * once);
        ck_assert_double_ge(gathered, (rows[i].gathers > 1 ? 0.8 : 0.99) * rows[i].gathers * once);
        ck_assert_double_eq_tol((double)plan->cost[0].reduce_bytes, rows[i].reduces * once, 0.01 * once);
        finish(&t, plan);
    }
}
END_TEST

START_TEST(every_rank_has_the_same_hash_and_other_plans_have_others) {
    struct tiny t;
    struct zt_plan *plan = must_make(&t, tiny_shared(), (struct wants){ 4, 2, 1, NULL, NULL });
    uint64_t hash = plan->hash;
    ck_assert(plan->stage[0]->hash == plan->stage[1]->hash);
    for (int rank = 0; rank < 4; rank++) {
        struct zt_err err = { 0 };
        struct zt_rank_options o = { .source = t.source, .rank = rank, .threads = 1, .elsewhere = true };
        struct zt_rank_plan *p = zt_rank_plan_create(t.job, &o, &err);
        ck_assert(p && p->hash == hash);
        zt_rank_plan_destroy(p);
    }
    finish(&t, plan);
    static const struct wants others[] = { { 4, 2, 2, NULL, NULL },
                                           { 4, 1, 1, NULL, NULL },
                                           { 2, 2, 1, NULL, NULL },
                                           { 4, 2, 1, ", 'recompute': ['relu*']", NULL } };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        plan = must_make(&t, tiny_shared(), others[i]);
        ck_assert_msg(plan->hash != hash, "layout %zu", i);
        finish(&t, plan);
    }
    plan = must_make(&t, tiny_mlp(), (struct wants){ 4, 2, 1, NULL, NULL });
    ck_assert(plan->hash != hash);
    finish(&t, plan);
}
END_TEST

/* Equal stages and nothing to send: what is left idle is (S - 1) / (M + S - 1). */
START_TEST(the_bubble_of_equal_stages_is_that_of_the_formula) {
    static const char *const names[] = { "1f1b", "gpipe" };
    for (int n = 0; n < 2; n++) {
        for (int stages = 1; stages <= 4; stages++) {
            for (int m = 1; m <= 8; m *= 2) {
                struct zt_arena *arena = zt_arena_create();
                struct zt_err err = { 0 };
                struct zt_span one = { .kind = ZT_SPAN_COMPUTE, .seconds = 1 };
                struct zt_stage_cost cost[4];
                memset(cost, 0, sizeof cost);
                struct zt_schedule schedule[4];
                struct zt_timeline line;
                for (int s = 0; s < stages; s++) {
                    struct zt_schedule_shape shape = { m, stages, 1, s };
                    cost[s].forward = cost[s].backward = (struct zt_spans){ &one, 1 };
                    cost[s].update_seconds = 0.5;
                    ck_assert(zt_schedule_make(arena, names[n], &shape, &schedule[s], &err));
                }
                ck_assert(zt_simulate(arena, &(struct zt_simulation){ stages, schedule, cost, m }, &line, &err));
                ck_assert_double_eq_tol(line.bubble, (stages - 1.0) / (m + stages - 1.0), 1e-9);
                ck_assert_double_eq_tol(line.seconds, 2.0 * (m + stages - 1.0) + 0.5, 1e-9);
                zt_arena_destroy(arena);
            }
        }
    }
}
END_TEST

/* GATHER (1 s), kernels (2 s), the wait, kernels (1 s): 3 s where collectives move by themselves, 4 where the thread
 * moves them. */
START_TEST(a_collective_hides_behind_kernels_where_it_moves_by_itself) {
    struct zt_span spans[] = { { .kind = ZT_SPAN_GATHER, .seconds = 1 },
                               { .kind = ZT_SPAN_COMPUTE, .seconds = 2 },
                               { .kind = ZT_SPAN_GATHERED },
                               { .kind = ZT_SPAN_COMPUTE, .seconds = 1 } };
    for (int own = 0; own < 2; own++) {
        struct zt_arena *arena = zt_arena_create();
        struct zt_err err = { 0 };
        struct zt_stage_cost cost = { .forward = { spans, 4 }, .own_channel = own, .buckets = 1 };
        struct zt_schedule_shape shape = { 1, 1, 1, 0 };
        struct zt_schedule schedule;
        struct zt_timeline line;
        ck_assert(zt_schedule_make(arena, "1f1b", &shape, &schedule, &err));
        ck_assert(zt_simulate(arena, &(struct zt_simulation){ 1, &schedule, &cost, 1 }, &line, &err));
        ck_assert_double_eq_tol(line.seconds, own ? 3 : 4, 1e-9);
        spans[0].seconds = 5; /* more than the kernels hide */
        ck_assert(zt_simulate(arena, &(struct zt_simulation){ 1, &schedule, &cost, 1 }, &line, &err));
        ck_assert_double_eq_tol(line.seconds, own ? 6 : 8, 1e-9);
        spans[0].seconds = 1;
        zt_arena_destroy(arena);
    }
}
END_TEST

/* Kernels of 1 s and messages of 2 s, half of which each end is busy with where nothing else moves them. */
START_TEST(messages_hold_up_who_moves_them) {
    for (int own = 0; own < 2; own++)
        for (int m = 1; m <= 2; m++) {
            struct zt_arena *arena = zt_arena_create();
            struct zt_err err = { 0 };
            struct zt_span one = { .kind = ZT_SPAN_COMPUTE, .seconds = 1 };
            struct zt_stage_cost cost[2];
            struct zt_schedule schedule[2];
            struct zt_timeline line;
            for (int s = 0; s < 2; s++) {
                struct zt_schedule_shape shape = { m, 2, 1, s };
                cost[s] = (struct zt_stage_cost){ .forward = { &one, 1 },
                                                  .backward = { &one, 1 },
                                                  .send_act_seconds = s == 0 ? 2 : 0,
                                                  .send_grad_seconds = s == 1 ? 2 : 0,
                                                  .own_channel = own };
                ck_assert(zt_schedule_make(arena, "gpipe", &shape, &schedule[s], &err));
            }
            ck_assert(zt_simulate(arena, &(struct zt_simulation){ 2, schedule, cost, m }, &line, &err));
            ck_assert_double_eq_tol(line.seconds, m == 1 ? 8 : own ? 10 : 12, 1e-9);
            zt_arena_destroy(arena);
        }
}
END_TEST

/* Whole seconds for each: load 1, scatter 2, forward 3, gather 4, the loss 5 and 6, scatter 7, backward 8, norm 9,
 * optimizer 10. */
START_TEST(replicas_wait_for_what_rank_0_does_alone) {
    struct zt_arena *arena = zt_arena_create();
    struct zt_err err = { 0 };
    struct zt_span forward = { .kind = ZT_SPAN_COMPUTE, .seconds = 3 }, backward = { .seconds = 8 };
    struct zt_stage_cost cost = { .forward = { &forward, 1 },
                                  .backward = { &backward, 1 },
                                  .load_seconds = 1,
                                  .scatter_seconds = 2,
                                  .gather_act_seconds = 4,
                                  .loss_forward_seconds = 5,
                                  .loss_backward_seconds = 6,
                                  .scatter_grad_seconds = 7,
                                  .norm_seconds = 9,
                                  .update_seconds = 10 };
    struct zt_schedule schedule;
    struct zt_timeline line;
    ck_assert(zt_schedule_make_replicas(arena, 2, true, true, &schedule, &err));
    ck_assert(zt_simulate(arena, &(struct zt_simulation){ 1, &schedule, &cost, 2 }, &line, &err));
    ck_assert_double_eq_tol(line.seconds, 2 * 36 + 19, 1e-9);
    ck_assert_double_eq_tol(line.bubble, 1 - (3 + 5 + 6 + 8) / 36.0, 1e-9);
    zt_arena_destroy(arena);
}
END_TEST

static int count_nodes(const struct zt_command *at, int count) {
    int nodes = 0;
    for (int i = 0; i < count; i++)
        nodes += at[i].kind == ZT_RUN_NODE;
    return nodes;
}

/* One rank, eight micro-batches, a second for each part and node. */
START_TEST(measured_times_stand_for_estimates) {
    struct tiny t;
    struct zt_err err = { 0 };
    struct zt_plan *plan = must_make(&t, tiny_mlp(), (struct wants){ 1, 1, 0, NULL, NULL });
    const struct zt_program *p = plan->stage[0]->programs.train.at[0];
    int count = zt_rank_plan_times(plan->stage[0]);
    double estimated = plan->timeline.seconds, times[200];
    const double *by_stage[] = { times };
    struct zt_machine machine = plan->machine;
    ck_assert_int_le(count, 200);
    for (int i = 0; i < count; i++)
        times[i] = -1; /* none is known */
    ck_assert(zt_plan_predict(plan, &machine, by_stage, &err));
    ck_assert_double_eq(plan->timeline.seconds, estimated);
    for (int i = 0; i < count; i++)
        times[i] = 1;
    ck_assert(zt_plan_predict(plan, &machine, by_stage, &err));
    int nodes = count_nodes(p->forward, p->forward_count) + count_nodes(p->backward, p->backward_count);
    ck_assert_int_gt(nodes, 6);
    ck_assert_double_eq_tol(plan->timeline.seconds, 8 * (1 + nodes) + count_nodes(p->derive, p->derive_count) + 2,
                            0.01);
    finish(&t, plan);
}
END_TEST

START_TEST(a_node_costs_the_dearer_of_arithmetic_and_memory) {
    static const struct zt_machine m = {
        .product_flops = 1e9, .element_flops = 1e9, .memory_rate = 1e9, .efficiency = 1
    };
    struct zt_graph *g = zt_graph_create("costs");
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(50, 40)), w = net_input(g, "w", ZT_FLOAT, SHAPE(40, 30));
    int v = net_input(g, "v", ZT_FLOAT, SHAPE(40, 1)), at = net_input(g, "at", ZT_INT64, SHAPE(3));
    NET(g, "MatMul", "deep", x, w);
    NET(g, "MatMul", "flat", x, v);
    NET(g, "Add", "sum", x, x);
    NET(g, "Gather", "rows", x, at);
    net_infer(g, &zt_ops);
    ck_assert_double_eq_tol(zt_cost_node(&m, g, 0), 2e-9 * 50 * 40 * 30, 1e-12);
    ck_assert_double_eq_tol(zt_cost_node(&m, g, 1), 4e-9 * (50 * 40 + 40 + 50), 1e-12);
    ck_assert_double_eq_tol(zt_cost_node(&m, g, 2), 4e-9 * 3 * 50 * 40, 1e-12);
    ck_assert_double_eq_tol(zt_cost_node(&m, g, 3), 1e-9 * (2 * 4 * 3 * 40 + 8 * 3), 1e-12); /* of x three rows alone */
    zt_graph_destroy(g);
}
END_TEST

START_TEST(clusters_have_the_published_rates) {
    struct zt_err err = { 0 };
    const struct zt_machine *h200 = zt_machine_find("h200", &err);
    ck_assert(h200 && h200->memory_bytes == 141000000000 && h200->per_host == 8);
    ck_assert_double_eq_tol(zt_cost_half_reduce(h200, 1, 900000000), 0, 1e-12);
    ck_assert_double_eq_tol(zt_cost_half_reduce(h200, 2, 900000000), 0.001 + h200->link_seconds, 1e-9);
    ck_assert_double_eq_tol(zt_cost_half_reduce(h200, 16, 3600000000),
                            0.007 + 7 * h200->link_seconds + 0.0045 + h200->net_seconds, 1e-9);
    ck_assert_ptr_null(zt_machine_find("h300", &err));
    ck_assert_ptr_nonnull(strstr(err.text[0], "h200"));
}
END_TEST

START_TEST(a_gpu_is_the_cluster_that_its_product_names) {
    struct zt_err err = { 0 };
    ck_assert_ptr_eq(zt_machine_of_product("NVIDIA H100 80GB HBM3"), zt_machine_find("h100", &err));
    ck_assert_ptr_eq(zt_machine_of_product("NVIDIA H200"), zt_machine_find("h200", &err));
    ck_assert_ptr_eq(zt_machine_of_product("NVIDIA A100-SXM4-80GB"), zt_machine_find("a100", &err));
    ck_assert_ptr_null(zt_machine_of_product("NVIDIA H1000"));
    ck_assert_ptr_null(zt_machine_of_product(""));
}
END_TEST

START_TEST(a_limit_that_nothing_fits_names_what_would_help) {
    struct tiny t;
    struct zt_err err = { 0 };
    ck_assert_ptr_null(make(&t, tiny_wide(), (struct wants){ 2, 1, 1, ", 'memory_limit': 1000", NULL }, &err));
    ck_assert_int_eq(err.code, ZT_EXIT_CONFIG);
    ck_assert_ptr_nonnull(strstr(err.text[0], "ztrain.memory_limit: 1.0 KB per rank, but stage 0 needs"));
    ck_assert_ptr_nonnull(strstr(err.hint[0], "zero_optimization.stage 2 to 3"));
    tiny_finish(&t);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("plan");
    tcase_add_test(cases, weights_gradients_and_states_follow_the_formulas);
    tcase_add_test(cases, a_plan_resolves_what_the_config_leaves_open);
    tcase_add_test(cases, a_rank_sends_what_the_formulas_say);
    tcase_add_test(cases, every_rank_has_the_same_hash_and_other_plans_have_others);
    tcase_add_test(cases, the_bubble_of_equal_stages_is_that_of_the_formula);
    tcase_add_test(cases, a_collective_hides_behind_kernels_where_it_moves_by_itself);
    tcase_add_test(cases, messages_hold_up_who_moves_them);
    tcase_add_test(cases, replicas_wait_for_what_rank_0_does_alone);
    tcase_add_test(cases, measured_times_stand_for_estimates);
    tcase_add_test(cases, a_node_costs_the_dearer_of_arithmetic_and_memory);
    tcase_add_test(cases, clusters_have_the_published_rates);
    tcase_add_test(cases, a_gpu_is_the_cluster_that_its_product_names);
    tcase_add_test(cases, a_limit_that_nothing_fits_names_what_would_help);
    return run_suite("plan", cases, CK_NOFORK);
}
