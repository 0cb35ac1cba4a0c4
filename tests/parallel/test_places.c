/* Memory locations of the values of a program, and its derived values. */
#include "small_program.h"
#include "tests/suite.h"
#include "memory_check.h"

#include "device/threads.h"
#include "graph/passes/grad.h"

#include <string.h>

static const struct {
    const char *name;
    struct zt_graph *(*make)(void);
    int stages; /* that it can be cut into */
} models[] = { { "mlp", tiny_mlp, 3 }, { "shared", tiny_shared, 3 }, { "norm", tiny_norm, 2 } };

static void walk(int model, const struct wish *wish) {
    struct small_program m;
    small_program_create(&m, models[model].make(), wish);
    check_program_memory(m.program, m.flat, zt_sharding_of(wish->zero));
    small_program_finish(&m);
}

START_TEST(nothing_lies_over_what_is_still_read) {
    for (int model = 0; model < (int)(sizeof models / sizeof *models); model++)
        for (int zero = 0; zero < 4; zero++)
            for (int stages = 1; stages <= models[model].stages; stages++)
                for (int stage = 0; stage < stages; stage++)
                    for (int k = 0; k < 16; k++)
                        walk(model, &(struct wish){ .zero = zero,
                                                    .ranks = zero ? 2 : 1,
                                                    .stage = stage,
                                                    .stages = stages,
                                                    .accumulates = k & 1,
                                                    .fast = k & 2,
                                                    .bf16 = k & 4,
                                                    .evaluation = k & 8,
                                                    .weighted = k & 1,
                                                    .bucket = k & 2 ? 100 : 0,
                                                    .traffic = { .overlap = k & 4,
                                                                 .prefetch = k & 1 ? 300 : 0,
                                                                 .max_live = 1000,
                                                                 .reuse_distance = k & 4 ? 150 : 0 } });
}
END_TEST

START_TEST(both_sides_of_a_boundary_list_the_same_crossings) {
    for (int model = 0; model < (int)(sizeof models / sizeof *models); model++) {
        for (int low = 0; low + 1 < models[model].stages; low++) {
            struct small_program a, b;
            small_program_create(
                &a, models[model].make(),
                &(struct wish){ .ranks = 1, .stage = low, .stages = models[model].stages, .fast = true });
            small_program_create(
                &b, models[model].make(),
                &(struct wish){ .ranks = 1, .stage = low + 1, .stages = models[model].stages, .fast = true });
            const struct zt_boundary_tensors *pairs[2][2] = { { &a.program->send_act, &b.program->recv_act },
                                                              { &b.program->send_grad, &a.program->recv_grad } };
            for (int i = 0; i < 2; i++) {
                ck_assert_int_gt(pairs[i][0]->count, 0);
                ck_assert_int_eq(pairs[i][0]->count, pairs[i][1]->count);
                for (int k = 0; k < pairs[i][0]->count; k++)
                    ck_assert_uint_eq(pairs[i][0]->at[k].bytes, pairs[i][1]->at[k].bytes);
            }
            small_program_finish(&a);
            small_program_finish(&b);
        }
    }
}
END_TEST

/* ---- training graphs made by hand ---- */

/* Takes over g: its last node's output is the loss, its parameters are all trainable values; `seed` in
 * training_graph->seed. */
static void build_by_hand(struct small_program *m, struct zt_graph *g, int x, bool training, const struct wish *wish) {
    struct zt_training_graph training_graph = {
        .graph = g, .rows = 4, .training = training, .seed = -1, .row_weight = -1, .correct = -1, .counted = -1
    };
    struct zt_err err = { 0 };
    *m = (struct small_program){ .arena = zt_arena_create() };
    net_infer(g, &zt_ops);
    training_graph.loss = net_last(g)->out[0];
    training_graph.columns = zt_arena_copy(g->arena, &x, sizeof x);
    training_graph.column_count = 1;
    training_graph.params = ZT_NEW_N(g->arena, int, g->value_count);
    training_graph.grads = ZT_NEW_N(g->arena, int, g->value_count);
    for (int v = 0; v < g->value_count; v++)
        if (g->values[v]->trainable)
            training_graph.params[training_graph.param_count++] = v;
    if (training) {
        struct zt_shape shape = g->values[training_graph.loss]->shape;
        struct zt_cotangent from = { training_graph.loss,
                                     training_graph.seed = net_input(g, "seed", ZT_FLOAT, &shape) };
        ck_assert_msg(
            zt_grad_build(g, &zt_ops,
                          &(struct zt_grad_request){ &from, 1, training_graph.params, training_graph.param_count },
                          training_graph.grads, &err),
            "%s", err.text[0]);
    }
    small_program_build(m, &training_graph, wish);
}

static void finish_by_hand(struct small_program *m) {
    zt_program_destroy(m->program);
    zt_arena_destroy(m->arena);
}

static struct zt_place place_of(const struct small_program *m, const char *name) {
    return m->program->place[0][zt_graph_find(m->program->training_graph.graph, name)];
}

START_TEST(what_parameters_alone_decide_is_derived_once_unless_they_are_gathered) {
    for (int zero = 0; zero < 4; zero += 3) {
        struct small_program m;
        struct wish wish = { .zero = zero, .ranks = 2, .stages = 1 };
        struct zt_graph *g = zt_graph_create("derived");
        int x = net_input(g, "x", ZT_FLOAT, SHAPE(4, 3)), w = net_param(g, "w", SHAPE(4, 3));
        int flat = NET(g, "Reshape", "flat", w, zt_graph_add_ints(g, "shape", (int64_t[]){ 3, 4 }, 2));
        int half = NET(g, "Mul", "half", flat, zt_graph_add_float(g, "0.5", ZT_FLOAT, 0.5));
        NET(g, "ReduceMean", "loss", NET(g, "MatMul", "y", x, NET(g, "Tanh", "tanh", half)));
        build_by_hand(&m, g, x, true, &wish);
        check_program_memory(m.program, m.flat, zt_sharding_of(zero));
        ck_assert_int_eq(m.program->derive_count, zero ? 0 : 2 + 1 - 1);
        ck_assert_int_eq(place_of(&m, "half").in, zero ? ZT_ACTIVATIONS : ZT_DERIVED);
        ck_assert_int_eq(place_of(&m, "flat").in,
                         zero ? ZT_ACTIVATIONS : ZT_PARAMETERS); /* a view lies where its source does */
        ck_assert_int_eq(place_of(&m, "y").in, ZT_ACTIVATIONS);
        ck_assert_int_eq(place_of(&m, "x").in, ZT_FED);
        finish_by_hand(&m);
    }
}
END_TEST

START_TEST(a_view_of_a_constant_is_a_constant_with_its_contents) {
    struct small_program m;
    struct wish wish = { .ranks = 1, .stages = 1 };
    static const float numbers[4] = { 1, 2, 3, 4 };
    struct zt_graph *g = zt_graph_create("view");
    int view = zt_graph_add_value(g, "view", ZT_UNDEFINED, NULL); /* its id is below its source's */
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(2, 2)), c = zt_graph_add_constant(g, "c", ZT_FLOAT, SHAPE(4), numbers);
    NET(g, "Reshape", "view", c, zt_graph_add_ints(g, "shape", (int64_t[]){ 2, 2 }, 2));
    NET(g, "ReduceMean", "loss", NET(g, "Mul", "y", NET(g, "Mul", "xw", x, net_param(g, "w", SHAPE(1))), view));
    build_by_hand(&m, g, x, true, &wish);
    check_program_memory(m.program, m.flat, zt_sharding_of(0));
    ck_assert_int_eq(place_of(&m, "view").in, ZT_CONSTANT);
    ck_assert_ptr_eq(m.program->training_graph.graph->values[view]->data,
                     m.program->training_graph.graph->values[c]->data);
    finish_by_hand(&m);
}
END_TEST

START_TEST(a_gradient_that_no_backward_node_makes_still_arrives) {
    for (int zero = 0; zero < 4; zero++) {
        struct small_program m;
        struct wish wish = { .zero = zero, .ranks = 2, .stages = 1 };
        struct zt_text text = { 0 };
        struct zt_graph *g = zt_graph_create("bare");
        int x = net_input(g, "x", ZT_FLOAT, SHAPE(4));
        NET(g, "Identity", "loss", net_param(g, "w", SCALAR));
        build_by_hand(&m, g, x, true, &wish);
        check_program_memory(m.program, m.flat, zt_sharding_of(zero));
        for (int n = 0; n < m.program->training_graph.graph->node_count; n++)
            ck_assert_int_eq(m.program->training_graph.graph->nodes[n]->phase, ZT_FORWARD);
        small_program_print(&text, &m, m.program->backward, m.program->backward_count);
        ck_assert_ptr_nonnull(strstr(text.at, "ADD w"));
        ck_assert_ptr_nonnull(strstr(text.at, "REDUCE 0"));
        zt_text_finish(&text);
        finish_by_hand(&m);
    }
}
END_TEST

START_TEST(a_parameter_without_path_gets_zeros) {
    struct small_program m;
    struct wish wish = { .zero = 1, .ranks = 2, .stages = 1 };
    struct zt_text text = { 0 };
    struct zt_graph *g = zt_graph_create("no path");
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(4)), aside = net_param(g, "aside", SHAPE(4));
    int bound = NET(g, "Cast", "bound", NET(g, "Greater", "greater", x, aside));
    zt_node_set_int(g, g->node_count - 1, "to", ZT_FLOAT);
    NET(g, "ReduceMean", "loss", NET(g, "Mul", "y", NET(g, "Mul", "xw", x, net_param(g, "w", SHAPE(4))), bound));
    build_by_hand(&m, g, x, true, &wish);
    check_program_memory(m.program, m.flat, zt_sharding_of(1));
    small_program_print(&text, &m, m.program->backward, m.program->backward_count);
    ck_assert_int_eq(strncmp(text.at, "ZERO aside\n", 11), 0);
    zt_text_finish(&text);
    finish_by_hand(&m);
}
END_TEST

/* One gradient of two parameters, and one that another node reads, are copied; the rest is written where it belongs. */
START_TEST(only_a_gradient_of_its_own_is_written_in_place) {
    struct small_program m;
    struct wish wish = { .ranks = 1, .stages = 1 };
    struct zt_text text = { 0 };
    struct zt_graph *g = zt_graph_create("direct");
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(4)), a = net_param(g, "a", SHAPE(4)), b = net_param(g, "b", SHAPE(4));
    int sum = NET(g, "Add", "sum", a, b), c = net_param(g, "c", SHAPE(4));
    NET(g, "ReduceMean", "loss", NET(g, "Mul", "y", NET(g, "Mul", "xc", x, c), sum));
    build_by_hand(&m, g, x, true, &wish);
    check_program_memory(m.program, m.flat, zt_sharding_of(0));
    small_program_print(&text, &m, m.program->backward, m.program->backward_count);
    ck_assert_ptr_nonnull(strstr(text.at, "ADD a"));
    ck_assert_ptr_nonnull(strstr(text.at, "ADD b"));
    ck_assert_ptr_null(strstr(text.at, "ADD c"));
    int dc = m.program->training_graph.grads[2];
    ck_assert_int_eq(m.program->place[1][dc].in, ZT_GRADIENTS);
    ck_assert_int_eq(m.program->place[1][dc].offset, 8 * 4);
    zt_text_finish(&text);
    finish_by_hand(&m);
}
END_TEST

int main(void) {
    zt_parallel_enter();
    TCase *cases = tcase_create("places");
    tcase_add_test(cases, nothing_lies_over_what_is_still_read);
    tcase_add_test(cases, both_sides_of_a_boundary_list_the_same_crossings);
    tcase_add_test(cases, what_parameters_alone_decide_is_derived_once_unless_they_are_gathered);
    tcase_add_test(cases, a_view_of_a_constant_is_a_constant_with_its_contents);
    tcase_add_test(cases, a_gradient_that_no_backward_node_makes_still_arrives);
    tcase_add_test(cases, a_parameter_without_path_gets_zeros);
    tcase_add_test(cases, only_a_gradient_of_its_own_is_written_in_place);
    return run_suite("plans", cases, CK_NOFORK);
}
