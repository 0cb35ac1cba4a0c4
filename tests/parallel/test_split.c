#include "tests/graph/net.h"
#include "tests/suite.h"

#include "base/rng.h"
#include "parallel/split.h"

#include <stdlib.h>
#include <string.h>

/* An op that costs what its attribute says. */
static bool infer_first(struct zt_graph *g, int node, struct zt_err *err) {
    (void)err;
    const struct zt_value v = *zt_in(g, node, 0);
    zt_set_out(g, node, 0, v.dtype, &v.shape);
    return true;
}
static double cost_of(const struct zt_graph *g, int node) {
    return (double)zt_attr_int(&g->nodes[node], "cost", 0);
}
static const struct zt_attr_spec cost_attr[] = { { .name = "cost", .type = ZT_ATTR_INT }, { .name = NULL } };
static const struct zt_op work = { .name = "Work",
                                   .domain = "",
                                   .since = 1,
                                   .min_in = 1,
                                   .max_in = 2,
                                   .min_out = 1,
                                   .max_out = 1,
                                   .attrs = cost_attr,
                                   .infer = infer_first,
                                   .flops = cost_of };
static const struct zt_op *const rows[] = { &work, NULL };
static const struct zt_op_table table = { rows };

static struct zt_graph *g;
static struct zt_err err;

static void make(void) {
    g = zt_graph_create("test");
    err = (struct zt_err){ 0 };
}

static void destroy(void) {
    zt_graph_destroy(g);
}

static bool split(struct zt_graph *of, int stages, struct zt_err *e) {
    int first[16];
    return zt_split_choose(of, "best", stages, first, e) && zt_split_apply(of, stages, first, e);
}

static int add(const char *name, int x, int param, int64_t cost) {
    int y = NET(g, "Work", name, x, param);
    zt_node_set_int(g, g->node_count - 1, "cost", cost);
    return y;
}

/* Values hold one float, so that a node costs its attribute and four bytes. */
static double node_cost(int n) {
    return cost_of(g, n) + 4;
}

/* The dearest of `stages` contiguous ranges of layers first.., as cheap as can be: by trying all cuts. */
static double best_cut(const double *layer, int layers, int first, int stages) {
    double own = 0, best = 1e300;
    if (stages == 1) {
        for (int l = first; l < layers; l++)
            own += layer[l];
        return own;
    }
    for (int next = first + 1; next <= layers - stages + 1; next++) {
        own += layer[next - 1];
        double rest = best_cut(layer, layers, next, stages - 1);
        double worst = own > rest ? own : rest;
        best = worst < best ? worst : best;
    }
    return best;
}

START_TEST(cuts_are_the_best_of_all) {
    enum { LAYERS = 8 };
    struct zt_rng rng = zt_rng_start(41, 0);
    for (int round = 0; round < 300; round++) {
        int layers = 1 + (int)zt_rng_below(&rng, LAYERS), stages = 1 + (int)zt_rng_below(&rng, (uint64_t)layers),
            nodes = 0;
        double cost[LAYERS] = { 0 }, stage_cost[LAYERS] = { 0 }, dearest = 0;
        int layer[3 * LAYERS + 2];
        destroy();
        make();
        int x = net_input(g, "x", ZT_FLOAT, SHAPE(1));
        x = add("before the first", x, -1, (int64_t)zt_rng_below(&rng, 20));
        layer[nodes++] = 0;
        for (int l = 0; l < layers; l++) {
            int64_t price = zt_rng_below(&rng, 5) ? (int64_t)zt_rng_below(&rng, 100) : 0;
            x = add("reads", x, net_param(g, zt_arena_printf(g->arena, "w%d", l), SHAPE(1)), price);
            layer[nodes++] = l;
            for (uint64_t k = zt_rng_below(&rng, 3); k > 0; k--) {
                x = add("follows", x, -1, (int64_t)zt_rng_below(&rng, 30));
                layer[nodes++] = l;
            }
        }
        net_infer(g, &table);
        ck_assert_msg(split(g, stages, &err), "%s", err.text[0]);
        for (int n = 0; n < nodes; n++) {
            cost[layer[n]] += node_cost(n);
            stage_cost[g->nodes[n].stage] += node_cost(n);
            if (n > 0) {
                int step = g->nodes[n].stage - g->nodes[n - 1].stage;
                ck_assert(step == 0 || (step == 1 && layer[n] != layer[n - 1]));
            }
        }
        ck_assert_int_eq(g->nodes[0].stage, 0);
        ck_assert_int_eq(g->nodes[nodes - 1].stage, stages - 1); /* so none is empty */
        for (int s = 0; s < stages; s++)
            dearest = stage_cost[s] > dearest ? stage_cost[s] : dearest;
        double best = best_cut(cost, layers, 0, stages);
        ck_assert_msg(dearest == best, "%d layers on %d stages: %g, but %g can be had", layers, stages, dearest, best);
    }
}
END_TEST

START_TEST(more_stages_than_layers_are_refused_with_both_numbers) {
    int x = add("a", net_input(g, "x", ZT_FLOAT, SHAPE(1)), net_param(g, "w", SHAPE(1)), 1);
    add("b", x, net_param(g, "v", SHAPE(1)), 1);
    net_infer(g, &table);
    ck_assert(split(g, 2, &err));
    ck_assert(!split(g, 3, &err));
    ck_assert_int_eq(err.code, ZT_EXIT_CONFIG);
    ck_assert_ptr_nonnull(strstr(err.text[0], "pipeline.stages = 3"));
    ck_assert_ptr_nonnull(strstr(err.text[0], "2 layers"));
}
END_TEST

START_TEST(a_graph_is_cut_where_another_was_unless_its_layers_differ) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(1));
    for (int i = 0; i < 3; i++)
        x = add("layer", x, net_param(g, (const char *[]){ "u", "v", "w" }[i], SHAPE(1)), i == 0 ? 100 : 1);
    net_infer(g, &table);
    ck_assert(zt_split_apply(g, 2, (const int[]){ 0, 2, 3 }, &err)); /* its own costs say { 0, 1, 3 } */
    ck_assert(g->nodes[1].stage == 0 && g->nodes[2].stage == 1);
    ck_assert(!zt_split_apply(g, 2, (const int[]){ 0, 2, 4 }, &err));
    ck_assert_ptr_nonnull(strstr(err.text[0], "4 layers"));
}
END_TEST

START_TEST(a_graph_without_parameters_is_one_stage) {
    add("a", net_input(g, "x", ZT_FLOAT, SHAPE(1)), -1, 1);
    net_infer(g, &table);
    ck_assert(split(g, 1, &err));
    ck_assert(!split(g, 2, &err));
}
END_TEST

static int make_shared(void) {
    int w = net_param(g, "both", SHAPE(1)), x = net_input(g, "x", ZT_FLOAT, SHAPE(1));
    for (int i = 0; i < 2; i++) {
        x = add(i ? "second" : "first", x, net_param(g, i ? "v" : "u", SHAPE(1)), 10);
        x = add(i ? "shared again" : "shared", x, w, 10);
    }
    net_infer(g, &table);
    return w;
}

START_TEST(a_parameter_read_on_two_stages_is_held_on_both) {
    int w = make_shared(), copy = -1;
    ck_assert(split(g, 2, &err));
    for (int v = 0; v < g->value_count; v++)
        if (g->values[v].copy_of)
            copy = v;
    ck_assert_int_eq(copy, g->value_count - 1);
    ck_assert_str_eq(g->values[copy].copy_of, "both");
    ck_assert(g->values[copy].trainable && g->values[copy].data == g->values[w].data);
    for (int n = 0; n < g->node_count; n++)
        for (int i = 0; i < g->nodes[n].in_count; i++)
            if (g->nodes[n].in[i] == w || g->nodes[n].in[i] == copy)
                ck_assert_int_eq(g->nodes[n].in[i], g->nodes[n].stage == 0 ? w : copy);
}
END_TEST

START_TEST(a_running_statistic_read_on_two_stages_is_refused) {
    int w = make_shared();
    g->values[w].trainable = false;
    g->values[w].statistic = true;
    ck_assert(!split(g, 2, &err));
    ck_assert_int_eq(err.code, ZT_EXIT_CONFIG);
    ck_assert_ptr_nonnull(strstr(err.text[0], "\"both\""));
}
END_TEST

/* ---- methods ---- */

static int choose(const char *method, int stages, int *first) {
    err = (struct zt_err){ 0 };
    return zt_split_choose(g, method, stages, first, &err);
}

/* Layers of 1, 1, 1, 1, 100 and 1 elements, of which the third costs most. */
static void make_methods(void) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(1));
    for (int i = 0; i < 6; i++)
        x = add(i % 2 ? "odd" : "even", x, net_param(g, zt_arena_printf(g->arena, "w%d", i), SHAPE(i == 4 ? 100 : 1)),
                i == 2 ? 1000 : 1);
    net_infer(g, &table);
}

START_TEST(methods_weigh_layers_by_what_they_are_called) {
    int first[5];
    make_methods();
    ck_assert(choose("best", 3, first));
    ck_assert(first[1] == 2 && first[2] == 3); /* the dear layer alone */
    ck_assert(choose("profile", 3, first));
    ck_assert(first[1] == 2 && first[2] == 3);
    ck_assert(choose("parameters", 3, first));
    ck_assert(first[1] <= 4 && first[2] >= 4 && first[2] <= 5); /* the wide layer on one stage */
    ck_assert(choose("uniform", 4, first));                     /* 2, 2, 1, 1: what is over goes to the first */
    ck_assert(first[0] == 0 && first[1] == 2 && first[2] == 4 && first[3] == 5 && first[4] == 6);
    ck_assert(choose("type:^ODD", 3, first)); /* layers 1, 3 and 5: one each */
    ck_assert(first[1] >= 2 && first[1] <= 3 && first[2] >= 4 && first[2] <= 5);
    ck_assert(choose("type:w[12]", 2, first)); /* layers 1 and 2 by the names of their parameters */
    ck_assert(first[1] == 2);
}
END_TEST

START_TEST(patterns_that_are_none_or_fit_nothing_are_refused_by_name) {
    int first[5];
    make_methods();
    ck_assert(!choose("type:nowhere", 2, first));
    ck_assert_ptr_nonnull(strstr(err.text[0], "\"type:nowhere\" fits no layer"));
    ck_assert(!choose("type:(", 2, first));
    ck_assert_ptr_nonnull(strstr(err.text[0], "pipeline.partition: \"type:(\""));
    ck_assert_int_eq(err.code, ZT_EXIT_CONFIG);
    ck_assert(!choose("worst", 2, first));
}
END_TEST

/* ---- mode dp ---- */

START_TEST(the_loss_is_what_depends_on_the_target) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(4)), t = net_input(g, "t", ZT_FLOAT, SHAPE(4));
    int h = add("model", x, net_param(g, "w", SHAPE(1)), 1), y = add("scores", h, -1, 1);
    int d = NET(g, "Work", "difference", y, t), scaled = add("scaled", d, -1, 1);
    net_infer(g, &table);
    ck_assert(scaled >= 0 && zt_split_loss(g, 4, &t, 1, &err));
    for (int n = 0; n < 4; n++)
        ck_assert_int_eq(g->nodes[n].stage, n >= 2);
}
END_TEST

START_TEST(a_loss_that_replicas_cannot_feed_is_refused) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(4)), t = net_input(g, "t", ZT_FLOAT, SHAPE(4));
    int y = add("scores", x, -1, 1);
    int d = NET(g, "Work", "difference", y, t);
    net_infer(g, &table);
    ck_assert(!zt_split_loss(g, 8, &t, 1, &err));
    ck_assert_ptr_nonnull(strstr(err.text[0], "\"scores\", whose first axis is not the batch of 8"));
    err = (struct zt_err){ 0 };
    add("learned", d, net_param(g, "w", SHAPE(1)), 1);
    net_infer(g, &table);
    ck_assert(!zt_split_loss(g, 4, &t, 1, &err));
    ck_assert_ptr_nonnull(strstr(err.text[0], "the loss reads parameter \"w\""));
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("split");
    tcase_add_checked_fixture(cases, make, destroy);
    tcase_add_test(cases, cuts_are_the_best_of_all);
    tcase_add_test(cases, more_stages_than_layers_are_refused_with_both_numbers);
    tcase_add_test(cases, a_graph_is_cut_where_another_was_unless_its_layers_differ);
    tcase_add_test(cases, a_graph_without_parameters_is_one_stage);
    tcase_add_test(cases, a_parameter_read_on_two_stages_is_held_on_both);
    tcase_add_test(cases, a_running_statistic_read_on_two_stages_is_refused);
    tcase_add_test(cases, the_loss_is_what_depends_on_the_target);
    tcase_add_test(cases, a_loss_that_replicas_cannot_feed_is_refused);
    tcase_add_test(cases, methods_weigh_layers_by_what_they_are_called);
    tcase_add_test(cases, patterns_that_are_none_or_fit_nothing_are_refused_by_name);
    return run_suite("split", cases, CK_FORK);
}
