#include "tests/graph/net.h"
#include "tests/suite.h"

#include "base/rng.h"
#include "parallel/partition/split.h"

#include <stdlib.h>
#include <string.h>

#include "tests/graph/fixture.h"

/* An op that costs what its attribute says. */
static bool infer_first(struct zt_graph *of, int node, struct zt_err *e) {
    (void)e;
    const struct zt_value v = *zt_in(of, node, 0);
    zt_set_out(of, node, 0, v.dtype, &v.shape);
    return true;
}
static double cost_of(const struct zt_graph *of, int node) {
    return (double)zt_attr_int(of->nodes[node], "cost", 0);
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
static const struct zt_op *const *const families[] = { rows, NULL };
static const struct zt_op_table table = { families };

static bool split(struct zt_graph *of, int stages, struct zt_err *e) {
    struct zt_stage_bounds cuts[16];
    return zt_split_choose(of, "best", stages, cuts, e) && zt_split_apply(of, stages, cuts, e);
}

static int add(const char *name, int x, int param, int64_t cost) {
    int y = NET(g, "Work", name, x, param);
    zt_node_set_int(g, g->node_count - 1, "cost", cost);
    return y;
}

/* ---- against all cuts there are ---- */

enum { MOST_NODES = 24 };

struct chain {
    int nodes;
    bool layer[MOST_NODES], may_cut[MOST_NODES];
    double weight[MOST_NODES], cross[MOST_NODES]; /* of the node; bytes over the cut before it */
};

struct found {
    double dearest, bytes;
};

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* A random chain whose nodes read the one before, and a parameter or some earlier one. */
static struct chain make_chain(struct zt_rng *rng, int layers) {
    struct chain c = { 0 };
    int made[MOST_NODES], last_read[MOST_NODES];
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(1));
    for (int l = -1; l < layers; l++) {
        for (int k = l < 0 ? 1 : 0, more = (int)zt_rng_below(rng, 3); k <= more; k++) {
            int n = c.nodes++, other = n && zt_rng_below(rng, 3) == 0 ? (int)zt_rng_below(rng, (uint64_t)n) : -1;
            int elements = 1 + (int)zt_rng_below(rng, 50);
            int64_t cost = zt_rng_below(rng, 5) ? (int64_t)zt_rng_below(rng, 100) : 0;
            c.layer[n] = k == 0;
            const char *name = zt_arena_printf(g->arena, "n%d", n); /* nodes of one name would make one value */
            if (k == 0)
                x = add(name, x, net_param(g, zt_arena_printf(g->arena, "w%d", l), SHAPE(elements)), cost);
            else
                x = add(name, x, other >= 0 ? made[other] : -1, cost);
            made[n] = x;
            last_read[n] = n;
            if (n > 0)
                last_read[n - 1] = n;
            if (k > 0 && other >= 0)
                last_read[other] = n;
            c.weight[n] = (double)cost + 4; /* and the bytes it writes */
        }
    }
    for (int n = 0; n < c.nodes; n++)
        for (int later = n + 1; later <= last_read[n]; later++)
            c.cross[later] += 4;
    return c;
}

/* Tries all cuts of nodes from.. into `stages`, each with a layer, behind stages of which `so_far` is known. Of those
 * whose dearest stage is within `limit`: the fewest bytes, then the cheapest dearest. */
static void try_all(const struct chain *c, int from, int stages, double limit, struct found so_far,
                    struct found *best) {
    double own = 0;
    bool layer = false;
    for (int n = from; n < c->nodes; n++) {
        own += c->weight[n];
        layer |= c->layer[n];
        if (stages > 1 && layer && n + 1 < c->nodes && c->may_cut[n + 1])
            try_all(c, n + 1, stages - 1, limit,
                    (struct found){ larger(so_far.dearest, own), so_far.bytes + c->cross[n + 1] }, best);
    }
    struct found all = { larger(so_far.dearest, own), so_far.bytes };
    if (stages == 1 && layer && all.dearest <= limit &&
        (all.bytes < best->bytes || (all.bytes == best->bytes && all.dearest < best->dearest)))
        *best = all;
}

/* The dearest stage of the cheapest cut, whatever travels. */
static double cheapest(const struct chain *c, int stages) {
    struct chain silent = *c;
    struct found best = { 1e300, 1e300 };
    memset(silent.cross, 0, sizeof silent.cross);
    try_all(&silent, 0, stages, 1e300, (struct found){ 0, 0 }, &best);
    return best.dearest;
}

static void check_cut(const struct chain *c, const char *method, int stages, double slack) {
    struct zt_stage_bounds cuts[MOST_NODES];
    struct found found = { 0, 0 }, best = { 1e300, 1e300 };
    double weight[MOST_NODES] = { 0 };
    bool layer[MOST_NODES] = { false };
    ck_assert_msg(zt_split_choose(g, method, stages, cuts, &err) && zt_split_apply(g, stages, cuts, &err), "%s",
                  err.text[0]);
    for (int n = 0; n < c->nodes; n++) {
        int stage = g->nodes[n]->stage, step = n ? stage - g->nodes[n - 1]->stage : 0;
        ck_assert(n ? step == 0 || (step == 1 && c->may_cut[n]) : stage == 0);
        weight[stage] += c->weight[n];
        layer[stage] |= c->layer[n];
        found.bytes += step ? c->cross[n] : 0;
    }
    for (int s = 0; s < stages; s++) {
        ck_assert(layer[s]);
        found.dearest = larger(found.dearest, weight[s]);
    }
    try_all(c, 0, stages, slack * cheapest(c, stages), (struct found){ 0, 0 }, &best);
    ck_assert_msg(found.dearest == best.dearest && found.bytes == best.bytes,
                  "%s, %d stages: %g and %g bytes, but %g and %g can be had", method, stages, found.dearest,
                  found.bytes, best.dearest, best.bytes);
}

START_TEST(cuts_are_the_best_of_all) {
    struct zt_rng rng = zt_rng_start(41, 0);
    for (int round = 0; round < 300; round++) {
        int layers = 1 + (int)zt_rng_below(&rng, 6), most = layers < 4 ? layers : 4;
        int stages = 1 + (int)zt_rng_below(&rng, (uint64_t)most);
        destroy_graph();
        make_graph();
        struct chain c = make_chain(&rng, layers);
        net_infer(g, &table);
        memset(c.may_cut, true, sizeof c.may_cut);
        check_cut(&c, "best", stages, 1.05);
        memcpy(c.may_cut, c.layer, sizeof c.may_cut);
        for (int n = 0; n < c.nodes; n++)
            c.weight[n] = c.layer[n] ? (double)zt_shape_count(&zt_in(g, n, 1)->shape) : 0;
        check_cut(&c, "parameters", stages, 1);
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

/* Three layers; behind each of them `between` nodes that read no parameter. */
static void make_layers(int between) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(1));
    for (int l = 0; l < 3; l++) {
        x = add(zt_arena_printf(g->arena, "layer %d", l), x,
                net_param(g, zt_arena_printf(g->arena, "w%d", l), SHAPE(1)), l == 0 ? 100 : 1);
        for (int k = 0; k < between; k++)
            x = add(zt_arena_printf(g->arena, "between %d %d", l, k), x, -1, 1);
    }
    net_infer(g, &table);
}

START_TEST(a_graph_is_cut_where_another_was_unless_its_layers_differ) {
    make_layers(0);
    ck_assert(
        zt_split_apply(g, 2, (const struct zt_stage_bounds[]){ { 0, 0 }, { 2, 0 }, { 3, 0 } }, &err)); /* not by cost */
    ck_assert(g->nodes[1]->stage == 0 && g->nodes[2]->stage == 1);
    ck_assert(!zt_split_apply(g, 2, (const struct zt_stage_bounds[]){ { 0, 0 }, { 2, 0 }, { 4, 0 } }, &err));
    ck_assert_ptr_nonnull(strstr(err.text[0], "4 layers"));
}
END_TEST

START_TEST(graphs_with_more_or_fewer_nodes_in_a_layer_hold_it_on_the_same_stage) {
    for (int between = 0; between < 4; between++) {
        destroy_graph();
        make_graph();
        make_layers(between);
        ck_assert(zt_split_apply(g, 2, (const struct zt_stage_bounds[]){ { 0, 0 }, { 1, 2 }, { 3, 0 } }, &err));
        for (int n = 0; n < g->node_count; n++) {
            int layer = n / (between + 1), behind = n % (between + 1);
            ck_assert_int_eq(g->nodes[n]->stage, layer > 1 || (layer == 1 && behind >= 2));
        }
    }
}
END_TEST

START_TEST(what_depends_on_parameters_alone_stands_where_it_is_read) {
    int made = add("twice", add("once", net_param(g, "w", SHAPE(1)), -1, 1), -1, 1);
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(1));
    for (int l = 0; l < 3; l++)
        x = add((const char *[]){ "1", "2", "3" }[l], x, net_param(g, (const char *[]){ "a", "b", "c" }[l], SHAPE(1)),
                50);
    add("reads", x, made, 50);
    net_infer(g, &table);
    static const int stage[6] = { 3, 3, 0, 1, 2, 3 }; /* four layers: the last reads w through two nodes */
    ck_assert_msg(split(g, 4, &err), "%s", err.text[0]);
    for (int n = 0; n < 6; n++)
        ck_assert_int_eq(g->nodes[n]->stage, stage[n]);
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
        if (g->values[v]->copy_of)
            copy = v;
    ck_assert_int_eq(copy, g->value_count - 1);
    ck_assert_str_eq(g->values[copy]->copy_of, "both");
    ck_assert(g->values[copy]->trainable && g->values[copy]->data == g->values[w]->data);
    for (int n = 0; n < g->node_count; n++)
        for (int i = 0; i < g->nodes[n]->in_count; i++)
            if (g->nodes[n]->in[i] == w || g->nodes[n]->in[i] == copy)
                ck_assert_int_eq(g->nodes[n]->in[i], g->nodes[n]->stage == 0 ? w : copy);
}
END_TEST

START_TEST(a_running_statistic_read_on_two_stages_is_refused) {
    int w = make_shared();
    g->values[w]->trainable = false;
    g->values[w]->statistic = true;
    ck_assert(!split(g, 2, &err));
    ck_assert_int_eq(err.code, ZT_EXIT_CONFIG);
    ck_assert_ptr_nonnull(strstr(err.text[0], "\"both\""));
}
END_TEST

/* ---- methods ---- */

static bool choose(const char *method, int stages, struct zt_stage_bounds *cuts) {
    err = (struct zt_err){ 0 };
    return zt_split_choose(g, method, stages, cuts, &err);
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
    struct zt_stage_bounds cuts[5];
    make_methods();
    ck_assert(choose("best", 3, cuts));
    ck_assert(cuts[1].layer == 2 && cuts[2].layer == 3); /* the dear layer alone */
    ck_assert(choose("profile", 3, cuts));
    ck_assert(cuts[1].layer == 2 && cuts[2].layer == 3);
    ck_assert(choose("parameters", 3, cuts));
    ck_assert(cuts[1].layer <= 4 && cuts[2].layer >= 4 && cuts[2].layer <= 5); /* the wide layer on one stage */
    ck_assert(choose("uniform", 4, cuts)); /* 2, 2, 1, 1: what is over goes to the first */
    ck_assert(cuts[0].layer == 0 && cuts[1].layer == 2 && cuts[2].layer == 4 && cuts[3].layer == 5 &&
              cuts[4].layer == 6);
    ck_assert(choose("type:^ODD", 3, cuts)); /* layers 1, 3 and 5: one each */
    ck_assert(cuts[1].layer >= 2 && cuts[1].layer <= 3 && cuts[2].layer >= 4 && cuts[2].layer <= 5);
    ck_assert(choose("type:w[12]", 2, cuts)); /* layers 1 and 2 by the names of their parameters */
    ck_assert(cuts[1].layer == 2);
}
END_TEST

START_TEST(patterns_that_are_none_or_fit_nothing_are_refused_by_name) {
    struct zt_stage_bounds cuts[5];
    make_methods();
    ck_assert(!choose("type:nowhere", 2, cuts));
    ck_assert_ptr_nonnull(strstr(err.text[0], "\"type:nowhere\" matches no layer"));
    ck_assert(!choose("type:(", 2, cuts));
    ck_assert_ptr_nonnull(strstr(err.text[0], "pipeline.partition: \"type:(\""));
    ck_assert_int_eq(err.code, ZT_EXIT_CONFIG);
    ck_assert(!choose("worst", 2, cuts));
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
        ck_assert_int_eq(g->nodes[n]->stage, n >= 2);
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
    tcase_add_checked_fixture(cases, make_graph, destroy_graph);
    tcase_add_test(cases, cuts_are_the_best_of_all);
    tcase_add_test(cases, more_stages_than_layers_are_refused_with_both_numbers);
    tcase_add_test(cases, a_graph_is_cut_where_another_was_unless_its_layers_differ);
    tcase_add_test(cases, graphs_with_more_or_fewer_nodes_in_a_layer_hold_it_on_the_same_stage);
    tcase_add_test(cases, what_depends_on_parameters_alone_stands_where_it_is_read);
    tcase_add_test(cases, a_graph_without_parameters_is_one_stage);
    tcase_add_test(cases, a_parameter_read_on_two_stages_is_held_on_both);
    tcase_add_test(cases, a_running_statistic_read_on_two_stages_is_refused);
    tcase_add_test(cases, the_loss_is_what_depends_on_the_target);
    tcase_add_test(cases, a_loss_that_replicas_cannot_feed_is_refused);
    tcase_add_test(cases, methods_weigh_layers_by_what_they_are_called);
    tcase_add_test(cases, patterns_that_are_none_or_fit_nothing_are_refused_by_name);
    return run_suite("split", cases, CK_FORK);
}
