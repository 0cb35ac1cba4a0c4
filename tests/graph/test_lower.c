/* Bodies: what reading makes of graphs inside nodes and of functions, and what they become. Values are held against
 * onnxruntime in check_lowered.py. */
#include "build.h"

#include "graph/passes/lower.h"
#include "graph/passes/infer.h"
#include "graph/passes/trainable/trainable.h"
#include "ops/table.h"

#include <stdlib.h>
#include <string.h>

#include "tests/graph/fixture.h"

static struct zt_onnx *model;

static void reset(void) {
    model = NULL;
    g = NULL;
    err = (struct zt_err){ 0 };
}

static void destroy(void) {
    destroy_graph();
    zt_onnx_destroy(model);
}

/* A node of any graph, its field in that graph being `field`. */
static void put_call(struct zt_text *to, unsigned field, const char *domain, const char *op, const char *a,
                     const char *b, const char *out) {
    struct zt_text node = { 0 };
    put_string(&node, 1, a);
    if (b)
        put_string(&node, 1, b);
    put_string(&node, 2, out);
    put_string(&node, 3, op);
    put_string(&node, 4, op);
    put_string(&node, 7, domain);
    put_message(to, field, &node);
}

static void put_graph(struct zt_text *node, const char *name, struct zt_text *graph) {
    struct zt_text attribute = { 0 };
    put_string(&attribute, 1, name);
    put_message(&attribute, 6, graph);
    put_int(&attribute, 20, 5);
    put_message(node, 5, &attribute);
}

/* y = If(condition): both graphs are freed. */
static void put_if(struct zt_text *graph, const char *condition, struct zt_text *yes, struct zt_text *no) {
    struct zt_text node = { 0 };
    put_string(&node, 1, condition);
    put_string(&node, 2, "y");
    put_string(&node, 3, "choice");
    put_string(&node, 4, "If");
    put_graph(&node, "then_branch", yes);
    put_graph(&node, "else_branch", no);
    put_message(graph, 1, &node);
}

static void put_input(struct zt_text *graph, const char *name, int dtype, uint64_t dim) {
    struct zt_text value = { 0 }, type = { 0 }, tensor = { 0 }, shape = { 0 }, size = { 0 };
    put_int(&size, 1, dim);
    put_message(&shape, 1, &size);
    put_int(&tensor, 1, (uint64_t)dtype);
    put_message(&tensor, 2, &shape);
    put_message(&type, 1, &tensor);
    put_string(&value, 1, name);
    put_message(&value, 2, &type);
    put_message(graph, 11, &value);
}

static void put_flag(struct zt_text *graph, const char *name, bool flag) {
    struct zt_text tensor = { 0 };
    put_int(&tensor, 1, 1);
    put_int(&tensor, 2, ZT_BOOL);
    put_string(&tensor, 8, name);
    put_bytes(&tensor, 9, &flag, 1);
    put_message(graph, 5, &tensor);
}

/* then: y = x + w, w being its own;   else: y = x op w, w being another. */
static void put_branches(struct zt_text *graph, const char *condition, const char *op) {
    struct zt_text yes = { 0 }, no = { 0 };
    put_call(&yes, 1, "", "Add", "x", "w", "sum");
    put_floats(&yes, "w", (const float[]){ 1, 2 }, 2);
    put_value(&yes, 12, "sum");
    put_call(&no, 1, "", op, "x", "w", "other");
    put_floats(&no, "w", (const float[]){ 3, 4 }, 2);
    put_value(&no, 12, "other");
    put_if(graph, condition, &yes, &no);
    put_input(graph, "x", ZT_FLOAT, 2);
    put_value(graph, 12, "y");
}

static bool read_model(struct zt_text *graph) {
    model = read_file(write_model(graph), &err);
    g = model ? zt_graph_clone(model->graph) : NULL;
    return model != NULL;
}

/* The passes up to inference. */
static bool prepare(void) {
    return zt_pass_lower(g, &zt_ops, &err) && zt_pass_resolve(g, &zt_ops, g->outputs, g->output_count, &err) &&
           zt_pass_infer(g, 1 << 20, &err);
}

/* ---- graphs inside nodes ---- */

START_TEST(what_a_branch_reads_from_outside_is_an_input_of_its_node) {
    struct zt_text graph = { 0 };
    put_flag(&graph, "c", true);
    put_branches(&graph, "c", "Sub");
    ck_assert_msg(read_model(&graph), "%s", err.text[0]);
    const struct zt_node *n = g->nodes[0];
    ck_assert_int_eq(n->in_count, 5);
    ck_assert_int_eq(n->captured, 4);
    const char *const names[5] = { "c", "w", "x", "w.1", "x" };
    for (int i = 0; i < 5; i++)
        ck_assert_str_eq(g->values[n->in[i]]->name, names[i]);
    ck_assert_int_eq(n->attr[0].graph->node_count, 1);
    ck_assert_int_eq(n->attr[0].graph->captured_count, 2);
}
END_TEST

START_TEST(a_known_condition_leaves_the_nodes_of_one_branch) {
    struct zt_text graph = { 0 };
    put_flag(&graph, "c", true);
    put_branches(&graph, "c", "NoSuchOperator");
    ck_assert_msg(read_model(&graph) && prepare(), "%s", err.text[0]);
    ck_assert_int_eq(g->node_count, 1);
    ck_assert_str_eq(g->nodes[0]->op_type, "Add");
    ck_assert_str_eq(g->nodes[0]->name, "choice/Add");
    ck_assert_str_eq(g->values[g->nodes[0]->in[1]]->name, "w");
    ck_assert_int_eq(g->values[g->nodes[0]->in[1]]->origin, ZT_FROM_INITIALIZER);
    ck_assert_int_eq(g->nodes[0]->out[0], g->outputs[0]);
}
END_TEST

START_TEST(an_operator_that_is_not_there_counts_in_the_branch_that_runs) {
    struct zt_text graph = { 0 };
    put_flag(&graph, "c", false);
    put_branches(&graph, "c", "NoSuchOperator");
    ck_assert(read_model(&graph) && !prepare());
    ck_assert_msg(says("choice/NoSuchOperator (NoSuchOperator)"), "%s", err.text[0]);
}
END_TEST

START_TEST(a_condition_that_data_decide_makes_one_node_with_both_branches) {
    struct zt_text graph = { 0 };
    put_branches(&graph, "flag", "Sub");
    put_input(&graph, "flag", ZT_BOOL, 1);
    ck_assert_msg(read_model(&graph) && prepare(), "%s", err.text[0]);
    ck_assert_int_eq(g->node_count, 1);
    const struct zt_node *n = g->nodes[0];
    ck_assert_str_eq(n->op_type, "IfRun");
    ck_assert_str_eq(n->name, "choice");
    const char *const names[3] = { "flag", "x", "x" }; /* weights that do not train are constants of the branches */
    ck_assert_int_eq(n->in_count, 3);
    for (int i = 0; i < 3; i++)
        ck_assert_str_eq(g->values[n->in[i]]->name, names[i]);
    ck_assert_str_eq(zt_node_attr(n, "then_branch")->graph->nodes[0]->op_type, "Add");
    ck_assert_str_eq(zt_node_attr(n, "else_branch")->graph->nodes[0]->op_type, "Sub");
}
END_TEST

START_TEST(a_branch_that_cannot_run_is_named_where_data_decide) {
    struct zt_text graph = { 0 };
    put_branches(&graph, "flag", "NoSuchOperator");
    put_input(&graph, "flag", ZT_BOOL, 1);
    ck_assert(read_model(&graph) && !prepare());
    ck_assert_msg(says("choice (If)") && says("\"flag\" depends on data") && says("else_branch") &&
                      says("NoSuchOperator"),
                  "%s", err.text[0]);
}
END_TEST

START_TEST(initializers_of_branches_train_and_are_written_where_they_stand) {
    struct zt_text graph = { 0 };
    put_flag(&graph, "c", true);
    put_branches(&graph, "c", "Sub");
    ck_assert(read_model(&graph) && prepare());
    zt_pass_trainable(g, NULL, -1);
    ck_assert(g->values[zt_graph_find(g, "w")]->trainable);
    const struct zt_onnx_payload fresh[2] = { { "w", (const float[]){ 5, 6 } }, { "w.1", (const float[]){ 7, 8 } } };
    const struct zt_onnx_changes changes = { .payloads = fresh, .payload_count = 2 };
    char *path = write_file(&(struct zt_text){ 0 });
    /* the mapping of the first file outlives its name */
    ck_assert_msg(zt_onnx_write(model, path, &changes, &err), "%s", err.text[0]);
    struct zt_onnx *back = read_file(path, &err);
    ck_assert_msg(back != NULL, "%s", err.text[0]);
    const struct zt_graph *b = back->graph;
    ck_assert_mem_eq(b->values[zt_graph_find(b, "w")]->data, ((float[]){ 5, 6 }), 8);
    ck_assert_mem_eq(b->values[zt_graph_find(b, "w.1")]->data, ((float[]){ 7, 8 }), 8);
    zt_onnx_destroy(back);
}
END_TEST

START_TEST(what_stands_inside_is_not_seen_outside) {
    struct zt_text graph = { 0 };
    put_flag(&graph, "c", true);
    put_branches(&graph, "c", "Sub");
    put_call(&graph, 1, "", "Add", "x", "w", "z");
    put_value(&graph, 12, "z");
    ck_assert(!read_model(&graph));
    ck_assert_msg(says("\"w\" is not the output of any node"), "%s", err.text[0]);
}
END_TEST

START_TEST(a_name_that_nothing_makes_is_named_with_its_node) {
    struct zt_text graph = { 0 }, yes = { 0 }, no = { 0 };
    put_call(&yes, 1, "", "Neg", "nowhere", NULL, "a");
    put_value(&yes, 12, "a");
    put_call(&no, 1, "", "Neg", "x", NULL, "b");
    put_value(&no, 12, "b");
    put_flag(&graph, "c", true);
    put_if(&graph, "c", &yes, &no);
    put_input(&graph, "x", ZT_FLOAT, 2);
    put_value(&graph, 12, "y");
    ck_assert(!read_model(&graph));
    ck_assert_msg(says("choice (If): Neg (Neg): input \"nowhere\""), "%s", err.text[0]);
}
END_TEST

START_TEST(a_branch_that_waits_for_itself_is_refused) {
    struct zt_text graph = { 0 }, yes = { 0 }, no = { 0 };
    put_call(&yes, 1, "", "Neg", "y", NULL, "a"); /* the output of the node it is part of */
    put_value(&yes, 12, "a");
    put_call(&no, 1, "", "Neg", "x", NULL, "b");
    put_value(&no, 12, "b");
    put_flag(&graph, "c", true);
    put_if(&graph, "c", &yes, &no);
    put_input(&graph, "x", ZT_FLOAT, 2);
    put_value(&graph, 12, "y");
    ck_assert(!read_model(&graph));
    ck_assert_msg(says("choice (If): is part of a cycle"), "%s", err.text[0]);
}
END_TEST

/* ---- loops ---- */

static void put_number(struct zt_text *graph, const char *name, int64_t number) {
    struct zt_text tensor = { 0 };
    put_int(&tensor, 2, ZT_INT64);
    put_string(&tensor, 8, name);
    put_bytes(&tensor, 9, &number, sizeof number);
    put_message(graph, 5, &tensor);
}

/* y = x w w w .., so many iterations; where `inner` is not 0 an iteration is such a loop of its own. */
static bool read_loop(int64_t iterations, int64_t inner) {
    struct zt_text graph = { 0 }, body = { 0 }, node = { 0 };
    put_value(&body, 11, "i");
    put_value(&body, 11, "go");
    put_value(&body, 11, "v");
    if (inner) {
        struct zt_text within = { 0 }, loop = { 0 };
        put_value(&within, 11, "j");
        put_value(&within, 11, "on");
        put_value(&within, 11, "p");
        put_call(&within, 1, "", "Mul", "p", "w", "q");
        put_value(&within, 12, "on");
        put_value(&within, 12, "q");
        put_string(&loop, 1, "m");
        put_string(&loop, 1, "");
        put_string(&loop, 1, "v");
        put_string(&loop, 2, "u");
        put_string(&loop, 4, "Loop");
        put_graph(&loop, "body", &within);
        put_message(&body, 1, &loop);
        put_number(&graph, "m", inner);
    } else {
        put_call(&body, 1, "", "Mul", "v", "w", "u");
    }
    put_value(&body, 12, "go");
    put_value(&body, 12, "u");
    put_string(&node, 1, "n");
    put_string(&node, 1, "");
    put_string(&node, 1, "x");
    put_string(&node, 2, "y");
    put_string(&node, 3, "again");
    put_string(&node, 4, "Loop");
    put_graph(&node, "body", &body);
    put_message(&graph, 1, &node);
    put_number(&graph, "n", iterations);
    put_floats(&graph, "w", (const float[]){ 1, 2 }, 2);
    put_input(&graph, "x", ZT_FLOAT, 2);
    put_value(&graph, 12, "y");
    return read_model(&graph);
}

/* The verdict comes first, as in a job: a parameter is no constant of the body. */
static bool prepare_trained(void) {
    return zt_pass_resolve(g, &zt_ops, g->outputs, g->output_count, &err) &&
           (zt_pass_trainable(g, NULL, -1), zt_pass_infer(g, 1 << 20, &err));
}

START_TEST(a_short_loop_is_written_out) {
    ck_assert_msg(read_loop(1000, 0) && prepare_trained(), "%s", err.text[0]);
    int products = 0;
    for (int n = 0; n < g->node_count; n++)
        products += strcmp(g->nodes[n]->op_type, "Mul") == 0;
    ck_assert_int_eq(products, 1000);
}
END_TEST

START_TEST(a_long_loop_is_one_node_with_one_turn_inside) {
    ck_assert_msg(read_loop(100000, 0) && prepare_trained(), "%s", err.text[0]);
    ck_assert_int_eq(g->node_count, 1);
    const struct zt_node *n = g->nodes[0];
    ck_assert_str_eq(n->op_type, "LoopRun");
    ck_assert_str_eq(n->name, "again");
    ck_assert_int_eq(n->in_count, 2);
    ck_assert_str_eq(g->values[n->in[1]]->name, "w");
    ck_assert_int_eq(zt_attr_int(n, "iterations", 0), 100000);
    const struct zt_graph *body = zt_node_attr(n, "body")->graph;
    ck_assert_int_eq(body->node_count, 1);
    ck_assert_str_eq(body->nodes[0]->op_type, "Mul");
}
END_TEST

START_TEST(a_long_loop_in_a_loop_is_one_node_in_another) {
    ck_assert_msg(read_loop(100, 5000) && prepare_trained(), "%s", err.text[0]);
    ck_assert_int_eq(g->node_count, 1);
    const struct zt_graph *body = zt_node_attr(g->nodes[0], "body")->graph;
    ck_assert_int_eq(body->node_count, 1);
    ck_assert_str_eq(body->nodes[0]->op_type, "LoopRun");
    ck_assert_int_eq(zt_attr_int(body->nodes[0], "iterations", 0), 5000);
}
END_TEST

START_TEST(a_loop_of_too_many_iterations_is_refused_with_the_count_and_the_limit) {
    ck_assert(read_loop(INT64_C(1) << 60, 0) && !prepare_trained());
    ck_assert_msg(says("again (Loop)") && says("1152921504606846976 iterations") && says("limit of a loop is 8388608"),
                  "%s", err.text[0]);
}
END_TEST

START_TEST(loops_in_a_loop_are_counted_together) {
    ck_assert(read_loop(10000, 10000) && !prepare_trained());
    ck_assert_msg(says("10000 iterations of 10000 nodes, which is 100000000"), "%s", err.text[0]);
}
END_TEST

/* ---- functions ---- */

/* my.f(a, b) = op(op(a, b), b) in a model that calls it twice. `domain`: of the nodes inside. */
static bool read_calls(const char *domain, const char *op, int functions) {
    struct zt_text bytes = { 0 }, graph = { 0 };
    put_header(&bytes, 8);
    put_call(&graph, 1, "my", "f", "x", "w", "h");
    put_call(&graph, 1, "my", "f", "h", "w", "y");
    put_input(&graph, "x", ZT_FLOAT, 2);
    put_floats(&graph, "w", (const float[]){ 1, 2 }, 2);
    put_value(&graph, 12, "y");
    put_message(&bytes, 7, &graph);
    for (int i = 0; i < functions; i++) {
        struct zt_text f = { 0 }, opset = { 0 };
        put_string(&f, 1, "f");
        put_string(&f, 4, "a");
        put_string(&f, 4, "b");
        put_string(&f, 5, "r");
        put_call(&f, 7, domain, op, "a", "b", "m");
        put_call(&f, 7, domain, op, "m", "b", "r");
        put_int(&opset, 2, 13);
        put_message(&f, 9, &opset);
        put_string(&f, 10, "my");
        put_message(&bytes, 25, &f);
    }
    char *path = write_file(&bytes);
    zt_text_finish(&bytes);
    model = read_file(path, &err);
    g = model ? zt_graph_clone(model->graph) : NULL;
    return model != NULL;
}

START_TEST(a_call_becomes_the_nodes_of_its_function) {
    ck_assert_msg(read_calls("", "Add", 1) && prepare(), "%s", err.text[0]);
    ck_assert_int_eq(g->node_count, 4);
    const char *const nodes[4] = { "f/Add", "f/Add #1", "f #1/Add", "f #1/Add #1" };
    const char *const values[4] = { "f/m", "h", "f #1/m", "y" };
    for (int n = 0; n < 4; n++) {
        ck_assert_str_eq(g->nodes[n]->name, nodes[n]);
        ck_assert_str_eq(g->values[g->nodes[n]->out[0]]->name, values[n]);
        ck_assert_str_eq(g->values[g->nodes[n]->in[1]]->name, "w");
        ck_assert_int_eq(g->nodes[n]->opset, 13);
        ck_assert_int_eq(g->nodes[n]->file_index, n / 2);
    }
    ck_assert_int_eq(model->graph->node_count, 2);
}
END_TEST

START_TEST(two_functions_of_one_name_are_refused) {
    ck_assert(!read_calls("", "Add", 2));
    ck_assert_msg(says("function my.f: two functions have this name"), "%s", err.text[0]);
}
END_TEST

START_TEST(our_own_operators_cannot_be_used_from_inside) {
    ck_assert(read_calls("ztrain", "ReluGrad", 1) && !prepare());
    ck_assert_msg(says("ztrain.ReluGrad is not supported"), "%s", err.text[0]);
}
END_TEST

START_TEST(an_unknown_domain_inside_a_function_is_named) {
    ck_assert(read_calls("third", "Add", 1) && !prepare());
    ck_assert_msg(says("third.Add is not supported"), "%s", err.text[0]);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("lower");
    tcase_add_checked_fixture(cases, reset, destroy);
    tcase_add_test(cases, what_a_branch_reads_from_outside_is_an_input_of_its_node);
    tcase_add_test(cases, a_known_condition_leaves_the_nodes_of_one_branch);
    tcase_add_test(cases, an_operator_that_is_not_there_counts_in_the_branch_that_runs);
    tcase_add_test(cases, a_condition_that_data_decide_makes_one_node_with_both_branches);
    tcase_add_test(cases, a_branch_that_cannot_run_is_named_where_data_decide);
    tcase_add_test(cases, initializers_of_branches_train_and_are_written_where_they_stand);
    tcase_add_test(cases, what_stands_inside_is_not_seen_outside);
    tcase_add_test(cases, a_name_that_nothing_makes_is_named_with_its_node);
    tcase_add_test(cases, a_branch_that_waits_for_itself_is_refused);
    tcase_add_test(cases, a_short_loop_is_written_out);
    tcase_add_test(cases, a_long_loop_is_one_node_with_one_turn_inside);
    tcase_add_test(cases, a_long_loop_in_a_loop_is_one_node_in_another);
    tcase_add_test(cases, a_loop_of_too_many_iterations_is_refused_with_the_count_and_the_limit);
    tcase_add_test(cases, loops_in_a_loop_are_counted_together);
    tcase_add_test(cases, a_call_becomes_the_nodes_of_its_function);
    tcase_add_test(cases, two_functions_of_one_name_are_refused);
    tcase_add_test(cases, our_own_operators_cannot_be_used_from_inside);
    tcase_add_test(cases, an_unknown_domain_inside_a_function_is_named);
    return run_cases("lower", cases);
}
