#include "net.h"
#include "tests/suite.h"

#include "base/rng.h"
#include "graph/passes/eval.h"
#include "graph/passes/grad.h"
#include "ops/table.h"
#include "tests/normal.h"

#include <math.h>
#include <string.h>

#include "tests/graph/fixture.h"

/* Differentiates `y`, whose cotangent is a new input; grads by wanted. */
static void differentiate(int y, const int *wanted, int count, int *grads) {
    net_infer(g, &zt_ops);
    struct zt_shape shape = g->values[y]->shape;
    struct zt_cotangent from = { y, net_input(g, "dy", g->values[y]->dtype, &shape) };
    ck_assert_msg(zt_grad_build(g, &zt_ops, &(struct zt_grad_request){ &from, 1, wanted, count }, grads, &err), "%s",
                  err.text[0]);
}

static int count_of_phase(const char *op_type, enum zt_phase phase) {
    int count = 0;
    for (int n = 0; n < g->node_count; n++)
        count += g->nodes[n]->phase == phase && strcmp(g->nodes[n]->op_type, op_type) == 0;
    return count;
}

START_TEST(a_value_used_k_times_gets_k_contributions_last_use_first) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(3)), w = net_param(g, "w", SHAPE(3)), dw;
    int a = NET(g, "Mul", "a", x, w), b = NET(g, "Mul", "b", a, w);
    differentiate(NET(g, "Mul", "c", b, w), &w, 1, &dw);
    ck_assert_int_eq(count_of_phase("Add", ZT_BACKWARD), 2);
    const struct zt_node *sum = g->nodes[g->values[dw]->producer];
    ck_assert_str_eq(sum->op_type, "Add");
    ck_assert_str_eq(g->nodes[g->values[sum->in[1]]->producer]->name, "grad of a"); /* the first use comes last */
    const struct zt_node *inner = g->nodes[g->values[sum->in[0]]->producer];
    ck_assert_str_eq(g->nodes[g->values[inner->in[0]]->producer]->name, "grad of c");
    ck_assert_str_eq(g->nodes[g->values[inner->in[1]]->producer]->name, "grad of b");
}
END_TEST

START_TEST(an_input_read_twice_by_one_node_counts_twice) {
    int w = net_param(g, "w", SHAPE(3)), dw;
    differentiate(NET(g, "Add", "y", w, w), &w, 1, &dw);
    ck_assert_int_eq(count_of_phase("Add", ZT_BACKWARD), 1);
    ck_assert_int_eq(g->nodes[g->values[dw]->producer]->in[0], zt_graph_find(g, "dy"));
    ck_assert_int_eq(g->nodes[g->values[dw]->producer]->in[1], zt_graph_find(g, "dy"));
}
END_TEST

START_TEST(sums_stand_on_the_stage_of_the_readers_of_a_parameter) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(3)), w = net_param(g, "w", SHAPE(3)), dw;
    int a = NET(g, "Tanh", "a", x), b = NET(g, "Mul", "b", a, w);
    int c = NET(g, "Mul", "c", b, w);
    g->nodes[1]->stage = g->nodes[2]->stage = 1;
    differentiate(c, &w, 1, &dw);
    for (int n = 3; n < g->node_count; n++)
        ck_assert_int_eq(g->nodes[n]->stage, 1);
}
END_TEST

START_TEST(where_no_path_leads_there_is_no_gradient) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(4)), w = net_param(g, "w", SHAPE(4));
    int indices = net_param(g, "through integers", SHAPE(4)), aside = net_param(g, "aside", SHAPE(4));
    int shaped = net_param(g, "through its shape", SHAPE(4)), grads[4];
    int whole = NET(g, "Cast", "whole", indices);
    zt_node_set_int(g, g->node_count - 1, "to", ZT_INT64);
    int back = NET(g, "Cast", "back", whole);
    zt_node_set_int(g, g->node_count - 1, "to", ZT_FLOAT);
    int greater = NET(g, "Greater", "greater", indices, x);
    int size = NET(g, "Cast", "size", NET(g, "Shape", "its shape", shaped));
    zt_node_set_int(g, g->node_count - 1, "to", ZT_FLOAT);
    int wide = NET(g, "Mul", "wide", NET(g, "Where", "picked", greater, x, w), size);
    NET(g, "Mul", "unread", aside, x);
    differentiate(NET(g, "Add", "y", wide, back), (int[]){ w, indices, aside, shaped }, 4, grads);
    ck_assert_int_ge(grads[0], 0);
    for (int i = 1; i < 4; i++)
        ck_assert_msg(grads[i] < 0, "%d", i);
}
END_TEST

START_TEST(outputs_without_gradient_count_as_zero) {
    int w = net_param(g, "w", SHAPE(6)), halves[2], dw, sizes = zt_graph_add_ints(g, "sizes", (int64_t[]){ 2, 4 }, 2);
    for (int i = 0; i < 2; i++)
        halves[i] = zt_graph_add_value(g, i ? "second" : "first", ZT_UNDEFINED, NULL);
    zt_graph_add_node(g, &(struct zt_node_spec){ "split", "Split", "", ZT_OPSET, (int[]){ w, sizes }, 2, halves, 2 });
    differentiate(NET(g, "Neg", "y", halves[1]), &w, 1, &dw);
    struct zt_eval *eval = zt_eval_create(g, NULL, 1);
    float ones[4] = { 1, 1, 1, 1 };
    zt_eval_feed(eval, zt_graph_find(g, "dy"), &(struct zt_tensor){ ZT_FLOAT, *SHAPE(4), ones });
    ck_assert_msg(zt_eval_run(eval, 0, g->node_count, &err), "%s", err.text[0]);
    const float *d = g->values[dw]->data;
    for (int i = 0; i < 6; i++)
        ck_assert(d[i] == (i < 2 ? 0 : -1));
    zt_eval_destroy(eval);
}
END_TEST

/* The unused half of a Split gets zeros, wherever the graph's arrays grow. The values before it shift that moment. */
START_TEST(an_unused_output_gets_zeros_of_its_shape_wherever_arrays_grow) {
    for (int before = 0; before < 40; before++) {
        struct zt_graph *r = zt_graph_create("split");
        for (int i = 0; i < before; i++)
            zt_graph_add_value(r, NULL, ZT_FLOAT, SCALAR);
        const int w = net_param(r, "w", SHAPE(4, 6));
        const int out[2] = { zt_graph_add_value(r, "used", ZT_UNDEFINED, NULL),
                             zt_graph_add_value(r, "unused", ZT_UNDEFINED, NULL) };
        zt_node_set_int(r,
                        zt_graph_add_node(r, &(struct zt_node_spec){ "split", "Split", "", ZT_OPSET, &w, 1, out, 2 }),
                        "axis", 1);
        zt_node_set_int(r, 0, "num_outputs", 2);
        net_infer(r, &zt_ops);
        int dw;
        const struct zt_cotangent from = { out[0], net_input(r, "dy", ZT_FLOAT, SHAPE(4, 3)) };
        ck_assert_msg(zt_grad_build(r, &zt_ops, &(struct zt_grad_request){ &from, 1, &w, 1 }, &dw, &err), "%s",
                      err.text[0]);
        const struct zt_node *join = r->nodes[r->values[dw]->producer];
        ck_assert_str_eq(join->op_type, "Concat");
        ck_assert(zt_shape_equal(&r->values[join->in[1]]->shape, SHAPE(4, 3)));
        zt_graph_destroy(r);
    }
}
END_TEST

START_TEST(the_output_itself_has_its_cotangent_as_gradient) {
    int w = net_param(g, "w", SHAPE(2)), grads[2];
    int y = NET(g, "Exp", "y", w);
    differentiate(y, (int[]){ y, w }, 2, grads);
    ck_assert_int_eq(grads[0], zt_graph_find(g, "dy"));
    ck_assert_int_ge(grads[1], 0);
}
END_TEST

/* ---- rules that are wrong ---- */

static bool infer_same(struct zt_graph *of, int node, struct zt_err *e) {
    (void)e;
    const struct zt_value v = *zt_in(of, node, 0);
    zt_set_out(of, node, 0, v.dtype, &v.shape);
    return true;
}

static bool wrong_shape(struct zt_grad *b, int node, struct zt_err *e) {
    (void)e;
    zt_grad_give(b, node, 0, zt_emit_float(b, ZT_FLOAT, 0));
    return true;
}

static bool unknown_op(struct zt_grad *b, int node, struct zt_err *e) {
    (void)e;
    int out = ZT_EMIT(b, "NoSuchOp", zt_grad_out(b, node, 0));
    zt_grad_give(b, node, 0, zt_emit_reshape_like(b, ZT_EMIT(b, "Neg", out), 0)); /* harmless after a failure */
    return true;
}

#define ROW(NAME, GRAD)                                                                                                \
    {                                                                                                                  \
        .name = NAME, .domain = "", .since = 1, .min_in = 1, .max_in = 1, .min_out = 1, .max_out = 1,                  \
        .infer = infer_same, .grad = GRAD                                                                              \
    }
static const struct zt_op wrong[] = { ROW("WrongShape", wrong_shape), ROW("UnknownOp", unknown_op) };
static const struct zt_op *const wrong_rows[] = { &wrong[0], &wrong[1], NULL };
static const struct zt_op *const *const wrong_families[] = { wrong_rows, NULL };
static const struct zt_op_table wrong_table = { wrong_families };

static void refuse(const char *op, const char *words) {
    int w = net_param(g, "w", SHAPE(2)), dw;
    int y = NET(g, op, "the node", w);
    net_infer(g, &wrong_table);
    struct zt_cotangent from = { y, net_input(g, "dy", ZT_FLOAT, SHAPE(2)) };
    ck_assert(!zt_grad_build(g, &wrong_table, &(struct zt_grad_request){ &from, 1, &w, 1 }, &dw, &err));
    ck_assert_msg(strstr(err.text[0], "the node") && strstr(err.text[0], words), "%s", err.text[0]);
}

START_TEST(a_rule_that_gives_another_shape_is_named_with_both) {
    refuse("WrongShape", "the gradient of input \"w\" came out as float[], wants float[2]");
}
END_TEST

START_TEST(a_rule_that_emits_an_op_without_row_is_named) {
    refuse("UnknownOp", "ai.onnx.NoSuchOp is not supported");
}
END_TEST

/* ---- against finite differences ---- */

/* A random graph in double: leaves of shapes that broadcast with each other, ops of the table, all values without
 * readers are outputs. */
enum { LEAVES = 5, MADE = 12, ROOM = LEAVES + MADE + 4 };
struct random_graph {
    int leaf[LEAVES], pool[ROOM], count;
    double data[LEAVES][12];
    struct zt_cotangent from[ROOM];
    int outputs;
};

static const struct zt_shape leaf_shape[LEAVES] = {
    { 2, { 3, 4 } }, { 1, { 4 } }, { 2, { 3, 1 } }, { 2, { 1, 1 } }, { 0, { 0 } }
};

static void add_random_node(struct random_graph *r, struct zt_rng *rng, int i) {
    static const char *const unary[] = { "Tanh", "Sigmoid", "Softplus", "Sin", "Neg", "Identity", "Gelu" };
    static const char *const binary[] = { "Add", "Sub", "Mul", "Max" };
    int a = r->pool[zt_rng_below(rng, (uint64_t)r->count)], b = r->pool[zt_rng_below(rng, (uint64_t)r->count)];
    const char *name = zt_arena_printf(g->arena, "n%d", i);
    int out;
    switch (zt_rng_below(rng, 5)) {
    case 0:
        out = NET(g, unary[zt_rng_below(rng, 7)], name, a);
        break;
    case 1:
        out = NET(g, "Softmax", name, NET(g, "Add", zt_arena_printf(g->arena, "%s sum", name), a, r->leaf[0]));
        break;
    case 2: {
        int mean = NET(g, "ReduceMean", name, a);
        zt_node_set_int(g, g->node_count - 1, "keepdims", (int64_t)zt_rng_below(rng, 2));
        out = mean;
        break;
    }
    default:
        out = NET(g, binary[zt_rng_below(rng, 4)], name, a, b);
        break;
    }
    r->pool[r->count++] = out;
}

static void make_random(struct random_graph *r, uint64_t seed) {
    struct normal normal = normal_start(seed, 0);
    *r = (struct random_graph){ 0 };
    for (int i = 0; i < LEAVES; i++) {
        r->leaf[i] = net_input(g, zt_arena_printf(g->arena, "leaf%d", i), ZT_DOUBLE, &leaf_shape[i]);
        r->pool[r->count++] = r->leaf[i];
        for (int k = 0; k < 12; k++)
            r->data[i][k] = (double)normal_next(&normal);
    }
    for (int i = 0; i < MADE; i++)
        add_random_node(r, &normal.rng, i);
    net_infer(g, &zt_ops);
    for (int i = LEAVES; i < r->count; i++)
        if (zt_graph_users(g, r->pool[i], NULL) == 0) {
            struct zt_shape shape = g->values[r->pool[i]]->shape;
            double c[12];
            for (int k = 0; k < 12; k++)
                c[k] = (double)normal_next(&normal);
            r->from[r->outputs++] =
                (struct zt_cotangent){ r->pool[i], zt_graph_add_constant(g, NULL, ZT_DOUBLE, &shape, c) };
        }
}

/* Sum of all outputs times their cotangents. */
static double loss_of(const struct random_graph *r, int nodes, struct zt_eval *eval) {
    for (int i = 0; i < LEAVES; i++)
        zt_eval_feed(eval, r->leaf[i], &(struct zt_tensor){ ZT_DOUBLE, leaf_shape[i], r->data[i] });
    ck_assert_msg(zt_eval_run(eval, 0, nodes, &err), "%s", err.text[0]);
    double loss = 0;
    for (int i = 0; i < r->outputs; i++) {
        const double *y = g->values[r->from[i].value]->data, *c = g->values[r->from[i].cotangent]->data;
        for (int64_t k = 0; k < zt_shape_count(&g->values[r->from[i].value]->shape); k++)
            loss += y[k] * c[k];
    }
    return loss;
}

static void check_random(uint64_t seed) {
    struct random_graph r;
    int grads[LEAVES];
    make_random(&r, seed);
    int forward = g->node_count;
    ck_assert_msg(
        zt_grad_build(g, &zt_ops, &(struct zt_grad_request){ r.from, r.outputs, r.leaf, LEAVES }, grads, &err), "%s",
        err.text[0]);
    struct zt_eval *eval = zt_eval_create(g, NULL, 1), *again = zt_eval_create(g, NULL, 1);
    loss_of(&r, g->node_count, eval);
    const double *d[LEAVES];
    for (int i = 0; i < LEAVES; i++)
        d[i] = grads[i] >= 0 ? g->values[grads[i]]->data : NULL;
    for (int i = 0; i < LEAVES; i++) {
        for (int64_t k = 0; k < zt_shape_count(&leaf_shape[i]); k++) {
            double x = r.data[i][k], h = 1e-5;
            r.data[i][k] = x + h;
            double up = loss_of(&r, forward, again);
            r.data[i][k] = x - h;
            double slope = (up - loss_of(&r, forward, again)) / (2 * h);
            r.data[i][k] = x;
            double have = d[i] ? d[i][k] : 0;
            ck_assert_msg(fabs(have - slope) <= 1e-6 * (1 + fabs(slope)), "graph %d, leaf %d[%d]: %.9g, wants %.9g",
                          (int)seed, i, (int)k, have, slope);
        }
    }
    zt_eval_destroy(again);
    zt_eval_destroy(eval);
}

START_TEST(random_graphs_agree_with_finite_differences) {
    for (uint64_t seed = 0; seed < 60; seed++) {
        check_random(seed);
        zt_graph_destroy(g);
        g = zt_graph_create("test");
    }
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("grad");
    tcase_add_checked_fixture(cases, make_graph, destroy_graph);
    tcase_add_test(cases, a_value_used_k_times_gets_k_contributions_last_use_first);
    tcase_add_test(cases, an_input_read_twice_by_one_node_counts_twice);
    tcase_add_test(cases, sums_stand_on_the_stage_of_the_readers_of_a_parameter);
    tcase_add_test(cases, where_no_path_leads_there_is_no_gradient);
    tcase_add_test(cases, outputs_without_gradient_count_as_zero);
    tcase_add_test(cases, an_unused_output_gets_zeros_of_its_shape_wherever_arrays_grow);
    tcase_add_test(cases, the_output_itself_has_its_cotangent_as_gradient);
    tcase_add_test(cases, a_rule_that_gives_another_shape_is_named_with_both);
    tcase_add_test(cases, a_rule_that_emits_an_op_without_row_is_named);
    tcase_add_test(cases, random_graphs_agree_with_finite_differences);
    return run_suite("grad", cases, CK_NOFORK);
}
