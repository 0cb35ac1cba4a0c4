/* Recomputation changes what is kept, never a bit of what is learnt. */
#include "device/device.h"
#include "tests/suite.h"
#include "tests/run/tiny.h"

#include "device/threads.h"
#include "plan/rank_plan.h"

#include <string.h>

enum { STEPS = 5 };

struct layout {
    int ranks, stages, zero, micro;
    bool layers; /* a segment for every two layers */
};

struct config {
    char text[600];
};

static struct config config_of(struct layout l, const char *more) {
    struct config config;
    snprintf(config.text, sizeof config.text,
             "'train_batch_size': 8, 'train_micro_batch_size_per_gpu': %d, 'zero_optimization': {'stage': %d}, "
             "'pipeline': {'stages': %d%s}, 'optimizer': {'type': 'Adam', 'params': {'lr': 0.01}}, %s "
             "'ztrain': {'parallel': {'communicator': 'thread'}, 'data': {'samples': 22}%s}",
             l.micro, l.zero, l.stages, l.layers ? ", 'activation_checkpoint_interval': 2" : "",
             more[0] == ',' ? "" : more, more[0] == ',' ? more : "");
    return config;
}

static struct tiny_run train(struct zt_graph *graph, struct layout l, const char *more) {
    const struct config config = config_of(l, more);
    return tiny_learn(graph, config.text, l.ranks, STEPS, NULL);
}

/* The recomputation of rank 0's first training program, and its activation bytes. */
struct cost {
    int segments, nodes;
    int64_t bytes;
    double flops;
    char first[64];
};

static struct cost plan(struct zt_graph *graph, struct layout l, const char *more) {
    struct tiny t;
    struct zt_err err = { 0 };
    struct cost cost = { 0 };
    const struct config config = config_of(l, more);
    ck_assert_msg(tiny_open(&t, graph, config.text, l.ranks, &err), "%s", err.text[0]);
    struct zt_device *device = zt_device_host_create(1);
    struct zt_rank_options options = { .source = t.source, .device = device, .threads = 1 };
    struct zt_rank_plan *p = zt_rank_plan_create(t.job, &options, &err);
    ck_assert_msg(p != NULL, "%s", err.text[0]);
    const struct zt_program *program = p->programs.train.at[0];
    cost.segments = program->recomputed.count;
    for (int i = 0; i < cost.segments; i++)
        cost.nodes += program->recomputed.at[i].nodes;
    if (cost.segments)
        snprintf(cost.first, sizeof cost.first, "%s", program->recomputed.at[0].first);
    cost.bytes = program->activation_bytes;
    cost.flops = program->recomputed.flops;
    zt_rank_plan_destroy(p);
    device->api->destroy(device);
    tiny_finish(&t);
    return cost;
}

static struct zt_graph *long_chain(void) {
    return tiny_chain(25);
}

START_TEST(every_layout_learns_the_same_bits_with_and_without) {
    struct zt_graph *(*const graphs[])(void) = { tiny_mlp, tiny_shared, tiny_norm, tiny_drop, long_chain };
    static const struct layout layouts[] = { { 1, 1, 0, 8 }, { 1, 1, 0, 2 }, { 2, 1, 3, 2 }, { 2, 2, 0, 2 } };
    static const char *const ways[] = { ", 'recompute': ['*']", ", 'recompute': ['relu*', 'bn', 'drop', 'fc2']",
                                        "'activation_checkpointing': {'number_checkpoints': 3}," };
    for (size_t g = 0; g < sizeof graphs / sizeof *graphs; g++) {
        for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++) {
            struct tiny_run plain = train(graphs[g](), layouts[l], "");
            for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
                struct tiny_run again = train(graphs[g](), layouts[l], ways[w]);
                ck_assert_msg(again.hash == plain.hash, "graph %zu, layout %zu, %s: other weights", g, l, ways[w]);
                for (int i = 0; i < STEPS; i++)
                    ck_assert_msg(again.loss[i] == plain.loss[i], "graph %zu, layout %zu, %s: other losses", g, l,
                                  ways[w]);
                ck_assert_msg(again.eval_loss == plain.eval_loss, "graph %zu, layout %zu, %s: other statistics", g, l,
                              ways[w]);
            }
        }
    }
}
END_TEST

START_TEST(named_nodes_run_again_and_no_others) {
    struct layout one = { 1, 1, 0, 8 };
    ck_assert_int_eq(plan(tiny_norm(), one, "").segments, 0);
    ck_assert_int_eq(plan(tiny_norm(), one, ", 'recompute': ['nobody']").segments, 0);
    struct cost norm = plan(tiny_norm(), one, ", 'fuse': [], 'recompute': ['bn']");
    ck_assert_int_eq(norm.segments, 1);
    ck_assert_int_eq(norm.nodes, 1);
    ck_assert_str_eq(norm.first, "bn");
}
END_TEST

START_TEST(a_chain_in_segments_takes_less_at_no_more_than_one_forward_pass) {
    struct layout one = { 1, 1, 0, 8 };
    struct cost plain = plan(long_chain(), one, ""),
                even = plan(long_chain(), one, "'activation_checkpointing': {'enabled': true},"),
                five = plan(long_chain(), one, "'activation_checkpointing': {'number_checkpoints': 5},"),
                pairs = plan(long_chain(), (struct layout){ 1, 1, 0, 8, true }, "");
    ck_assert_int_ge(even.segments, 4); /* ceil(sqrt(26)), of which the last is kept */
    ck_assert_int_le(even.segments, 5);
    ck_assert_int_eq(five.segments, 4);
    ck_assert_int_ge(pairs.segments, 10);
    ck_assert_int_lt(even.bytes, plain.bytes * 2 / 3);
    ck_assert_double_gt(even.flops, 0);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("recompute");
    tcase_add_test(cases, every_layout_learns_the_same_bits_with_and_without);
    tcase_add_test(cases, named_nodes_run_again_and_no_others);
    tcase_add_test(cases, a_chain_in_segments_takes_less_at_no_more_than_one_forward_pass);
    return run_suite("recompute", cases, CK_NOFORK);
}
