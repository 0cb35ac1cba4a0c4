/* Chains of elementwise nodes in whole programs: on a device of CUDA's back end (far_device.h) they take nothing that
 * the backward phase, a parameter's gradient or another stage reads, and training with and without them leaves the same
 * bits. */
#include "tests/gpu/far_device.h"
#include "tests/parallel/made.h"
#include "tests/parallel/walk.h"
#include "tests/suite.h"

#include "device/threads.h"

#include <stdlib.h>
#include <string.h>

/* ---- graphs: x [N, 8] -> ... -> y [N, 5] ---- */

static int layer(struct zt_graph *g, const char *name, int x, int64_t out) {
    const int w = net_param(g, zt_arena_printf(g->arena, "%s.weight", name), SHAPE(8, out));
    return NET(g, "MatMul", name, x, w);
}

static int start(struct zt_graph *g) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(-1, 8));
    g->values[x].dim_param[0] = "N";
    return layer(g, "fc1", x, 8);
}

static struct zt_graph *finish(struct zt_graph *g, int h) {
    const int y = layer(g, "y", h, 5);
    g->values[y].dtype = ZT_FLOAT; /* as a file declares its outputs */
    return tiny_output(g, y);
}

/* SinGrad reads the sum, ExpGrad what Exp makes. */
static struct zt_graph *bent(void) {
    struct zt_graph *g = zt_graph_create("bent");
    int sum = NET(g, "Add", "sum", start(g), zt_graph_add_float(g, "half", ZT_FLOAT, 0.5));
    return finish(g, NET(g, "Exp", "exp", NET(g, "Sin", "sin", sum)));
}

/* The gradient of the sum is that of `shift` as well, where it trains. */
static struct zt_graph *shifted(bool trains) {
    struct zt_graph *g = zt_graph_create("shifted");
    int shift = net_param(g, "shift", SHAPE(4, 8));
    if (!trains)
        shift = zt_graph_add_constant(g, "fixed", ZT_FLOAT, SHAPE(4, 8), g->values[shift].data);
    return finish(g, NET(g, "Exp", "exp", NET(g, "Add", "sum", NET(g, "Neg", "neg", start(g)), shift)));
}

/* What Neg makes is read by Exp and, over a layer, by the last sum: of two stages, on the second one. */
static struct zt_graph *skipping(void) {
    struct zt_graph *g = zt_graph_create("skipping");
    int neg = NET(g, "Neg", "neg", start(g));
    int h = layer(g, "fc2", NET(g, "Exp", "exp", neg), 8);
    h = layer(g, "fc4", layer(g, "fc3", h, 8), 8);
    return finish(g, NET(g, "Add", "skip", h, neg));
}

/* ---- what is merged ---- */

/* "Add Sin; ExpGrad SinGrad": the steps of all chains. */
static void list_steps(const struct zt_graph *g, struct zt_text *to) {
    for (int n = 0; n < g->node_count; n++) {
        if (strcmp(g->nodes[n].op_type, "Chain") != 0)
            continue;
        const struct zt_graph *steps = zt_node_attr(&g->nodes[n], "steps")->graph;
        for (int k = 0; k < steps->node_count; k++)
            zt_text_add(to, "%s%s", k ? " " : to->at ? "; " : "", steps->nodes[k].op_type);
    }
}

static void expect(const struct made *m, const struct wish *wish, const char *wanted) {
    struct zt_text steps = { 0 };
    list_steps(m->program->joint.graph, &steps);
    ck_assert_str_eq(steps.at ? steps.at : "", wanted);
    zt_text_finish(&steps);
    walk_program(m->program, m->flat, zt_sharding_of(wish->zero));
}

static void expect_program(struct zt_graph *graph, struct wish wish, const char *wanted) {
    struct made m;
    wish.device = far_device_create();
    wish.ranks = 1;
    wish.stages = 1;
    made_program(&m, graph, &wish);
    expect(&m, &wish, wanted);
    made_finish(&m);
    wish.device->api->destroy(wish.device);
}

START_TEST(what_the_backward_phase_reads_is_made) {
    expect_program(bent(), (struct wish){ .evaluation = true }, "Add Sin Exp");
    expect_program(bent(), (struct wish){ 0 }, "Sin Exp; ExpGrad SinGrad");
}
END_TEST

START_TEST(the_gradient_of_a_parameter_is_made) {
    expect_program(shifted(false), (struct wish){ 0 }, "Neg Add Exp; ExpGrad NegGrad");
    expect_program(shifted(true), (struct wish){ 0 }, "Neg Add Exp");
}
END_TEST

START_TEST(programs_in_bfloat16_have_the_same_chains) {
    expect_program(bent(), (struct wish){ .evaluation = true, .bf16 = true }, "Add Sin Exp");
}
END_TEST

START_TEST(what_another_stage_reads_is_made) {
    static const char *const wanted[] = { "ExpGrad Add NegGrad", "" };
    struct wish wish = { .ranks = 1, .stages = 2, .device = far_device_create() };
    for (; wish.stage < 2; wish.stage++) {
        struct made m;
        made_program(&m, skipping(), &wish);
        const struct zt_program *p = m.program;
        const int neg = zt_graph_find(p->joint.graph, "neg");
        const struct zt_crossings *crossing = wish.stage ? &p->recv_act : &p->send_act;
        bool crosses = false;
        for (int i = 0; i < crossing->count; i++)
            crosses |= crossing->at[i].value == neg;
        ck_assert(crosses);
        expect(&m, &wish, wanted[wish.stage]);
        made_finish(&m);
    }
    wish.device->api->destroy(wish.device);
}
END_TEST

/* ---- training ---- */

static struct tiny_run train(struct zt_graph *(*make)(void), const char *more, int ranks, const char *fuse) {
    struct tiny t;
    struct tiny_run run = { 0 };
    struct zt_err err = { 0 };
    char config[1000];
    snprintf(config, sizeof config,
             "'train_batch_size': 8, 'optimizer': {'type': 'AdamW', 'params': {'lr': 0.01}}, "
             "'ztrain': {'parallel': {'communicator': 'thread'}, 'data': {'samples': 22}, 'fuse': ['%s']}%s",
             fuse, more);
    ck_assert_msg(tiny_open(&t, make(), config, ranks, &err), "%s", err.text[0]);
    t.device = far_device_create;
    tiny_train(&t, 6, &run);
    ck_assert_msg(run.ok, "%s: %s", more, run.err.text[0]);
    tiny_finish(&t);
    return run;
}

static struct zt_graph *(*const models[])(void) = { bent, skipping, tiny_shared, tiny_tied, tiny_norm, tiny_drop };
enum { MODELS = sizeof models / sizeof *models };

START_TEST(chains_leave_the_same_bits) {
    static const struct {
        int ranks;
        const char *more;
    } layouts[] = {
        { 1, "" },
        { 1, ", 'train_micro_batch_size_per_gpu': 2" },
        { 1, ", 'bf16': {'enabled': true}" },
        { 2, ", 'zero_optimization': {'stage': 3}" },
        { 2, ", 'pipeline': {'stages': 2}, 'train_micro_batch_size_per_gpu': 4" },
    };
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        struct tiny_run with = train(models[_i], layouts[i].more, layouts[i].ranks, "chain"),
                        without = train(models[_i], layouts[i].more, layouts[i].ranks, "gelu");
        ck_assert_msg(with.hash == without.hash, "%d ranks%s: other weights", layouts[i].ranks, layouts[i].more);
        ck_assert_msg(memcmp(with.loss, without.loss, sizeof with.loss) == 0 && with.eval_loss == without.eval_loss,
                      "%d ranks%s: other losses", layouts[i].ranks, layouts[i].more);
    }
}
END_TEST

int main(void) {
    zt_parallel_enter();
    TCase *test = tcase_create("chain");
    tcase_add_test(test, what_the_backward_phase_reads_is_made);
    tcase_add_test(test, the_gradient_of_a_parameter_is_made);
    tcase_add_test(test, programs_in_bfloat16_have_the_same_chains);
    tcase_add_test(test, what_another_stage_reads_is_made);
    tcase_add_loop_test(test, chains_leave_the_same_bits, 0, MODELS);
    return run_suite("chain", test, CK_NOFORK);
}
