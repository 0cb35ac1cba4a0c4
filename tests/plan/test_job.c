#include "device/device.h"
#include "tests/suite.h"
#include "tests/run/tiny.h"

#include "device/threads.h"
#include "plan/rank_plan.h"

#include <string.h>
#include <time.h>

#define PLAIN "'train_batch_size': 4, 'optimizer': {'type': 'Adam', 'params': {'lr': 0.001}}"

static struct zt_err err;

static bool says(const char *words) {
    for (int i = 0; i < err.count && i < ZT_ERR_LINES; i++)
        if (strstr(err.text[i], words) || strstr(err.hint[i], words))
            return true;
    return false;
}

/* Opens the graph with PLAIN and `more`, which must fail with all of the words. */
static void refuse(struct zt_graph *g, const char *more, enum zt_exit code, const char *a, const char *b) {
    struct tiny t;
    char config[600];
    snprintf(config, sizeof config, PLAIN "%s%s", more ? ", " : "", more ? more : "");
    err = (struct zt_err){ 0 };
    ck_assert(!tiny_open(&t, g, config, 1, &err));
    ck_assert_msg(says(a) && says(b), "%s", err.text[0]);
    ck_assert_int_eq(err.code, code);
    tiny_finish(&t);
}

static void open_plain(struct tiny *t, struct zt_graph *g, const char *config) {
    err = (struct zt_err){ 0 };
    ck_assert_msg(tiny_open(t, g, config, 1, &err), "%s", err.text[0]);
}

static bool build(struct tiny *t, const struct zt_training_graph_request *request,
                  struct zt_training_graph *training_graph) {
    err = (struct zt_err){ 0 };
    return zt_job_training_graph(t->job, t->source, request, training_graph, &err);
}

START_TEST(an_output_that_is_not_there_is_named_with_those_that_are) {
    refuse(tiny_mlp(), "'ztrain': {'loss': {'type': 'cross_entropy', 'logits': 'z'}}", ZT_EXIT_CONFIG,
           "no output \"z\"", "it has: y");
}
END_TEST

START_TEST(several_float_outputs_leave_a_choice_to_the_config) {
    struct zt_graph *g = tiny_mlp();
    int h = zt_graph_find(g, "relu2");
    g->values[h]->dtype = ZT_FLOAT;
    refuse(tiny_output(g, h), NULL, ZT_EXIT_CONFIG, "ztrain.loss.logits is not set", "it has: y, relu2");
}
END_TEST

START_TEST(a_model_without_float_output_cannot_train) {
    struct zt_graph *g = tiny_mlp();
    int y = zt_graph_find(g, "y");
    g->output_count = 0;
    int best = NET(g, "ArgMax", "best", y);
    g->values[best]->dtype = ZT_INT64;
    refuse(tiny_output(g, best), NULL, ZT_EXIT_CONFIG, "not exactly one float output", "it has: best");
    g = tiny_mlp();
    g->output_count = 0;
    refuse(g, NULL, ZT_EXIT_CONFIG, "not exactly one float output", "it has: none");
}
END_TEST

START_TEST(missing_operators_are_all_named) {
    struct zt_graph *g = tiny_mlp();
    int y = NET(g, "Second", "b", NET(g, "First", "a", zt_graph_find(g, "y")));
    g->output_count = 0;
    g->values[y]->dtype = ZT_FLOAT;
    refuse(tiny_output(g, y), NULL, ZT_EXIT_MODEL, "a (First)", "b (Second)");
}
END_TEST

START_TEST(a_fusion_pattern_that_is_not_there_is_named_with_those_that_are) {
    refuse(tiny_mlp(), "'ztrain': {'fuse': ['conv_*', 'gelo']}", ZT_EXIT_CONFIG,
           "ztrain.fuse[1]: no pattern is called \"gelo\"", "gelu, ");
}
END_TEST

static bool allows(const struct zt_fusion *fusion, const char *name) {
    for (int p = 0; fusion->patterns[p]; p++)
        if (strcmp(fusion->patterns[p]->name, name) == 0)
            return zt_fusion_allows(fusion, fusion->patterns[p]);
    return false;
}

START_TEST(former_names_of_fusion_patterns_mean_the_present_ones) {
    static const struct {
        const char *fuse;
        bool elementwise, half;
    } cases[] = {
        { "['chain']", true, false },           { "['half']", false, true },
        { "['gelu', 'cha*n']", true, false },   { "['fused_elementwise']", true, false },
        { "['hal?', 'chain']", true, true },    { "['half_propagation']", false, true },
        { "['gelu', 'conv_*']", false, false }, { "['*']", true, true },
    };
    char config[200];
    snprintf(config, sizeof config, PLAIN ", 'ztrain': {'fuse': %s}", cases[_i].fuse);
    struct tiny t;
    open_plain(&t, tiny_mlp(), config);
    ck_assert_int_eq(allows(&t.job->fusion, "fused_elementwise"), cases[_i].elementwise);
    ck_assert_int_eq(allows(&t.job->fusion, "half_propagation"), cases[_i].half);
    tiny_finish(&t);
}
END_TEST

/* Gelu in five nodes behind the MLP: in training and evaluation one node stands for them, and its name can be left out.
 */
START_TEST(patterns_are_fused_before_the_gradient_unless_the_config_says_no) {
    static const char *const configs[] = { PLAIN, PLAIN ", 'ztrain': {'fuse': ['conv_*']}",
                                           PLAIN ", 'ztrain': {'fuse': []}" };
    for (int k = 0; k < 6; k++) {
        struct zt_graph *g = tiny_mlp();
        int y = zt_graph_find(g, "y");
        g->output_count = 0;
        int half = zt_graph_add_float(g, "half", ZT_FLOAT, 0.5), one = zt_graph_add_float(g, "one", ZT_FLOAT, 1);
        int root = zt_graph_add_float(g, "root", ZT_FLOAT, 1.41421356);
        int cdf = NET(g, "Add", "cdf", NET(g, "Erf", "erf", NET(g, "Div", "div", y, root)), one);
        struct tiny t;
        struct zt_training_graph training_graph;
        struct zt_training_graph_request request = { 4, k < 3, false, 1, NULL };
        open_plain(&t, tiny_output(g, NET(g, "Mul", "z", NET(g, "Mul", "mul", y, cdf), half)), configs[k % 3]);
        ck_assert_msg(build(&t, &request, &training_graph), "%s", err.text[0]);
        int nodes = 0, grads = 0, counts = 0;
        for (int n = 0; n < training_graph.graph->node_count; n++) {
            nodes += strcmp(training_graph.graph->nodes[n]->op_type, "Gelu") == 0;
            grads += strcmp(training_graph.graph->nodes[n]->op_type, "GeluGrad") == 0;
        }
        for (int p = 0; zt_patterns[p]; p++)
            counts += training_graph.fused[p];
        ck_assert_int_eq(nodes, k % 3 == 0);
        ck_assert_int_eq(grads, k == 0);
        ck_assert_int_eq(counts, k % 3 == 0);
        zt_graph_destroy(training_graph.graph);
        tiny_finish(&t);
    }
}
END_TEST

START_TEST(a_batch_that_a_node_insists_on_names_the_node_and_the_way_out) {
    struct zt_graph *g = zt_graph_create("fixed");
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(8, 2, 6)), shape = zt_graph_add_ints(g, "shape", (int64_t[]){ 4, 24 }, 2);
    int y = NET(g, "MatMul", "y", NET(g, "Reshape", "flat", x, shape), net_param(g, "w", SHAPE(24, 5)));
    g->values[y]->dtype = ZT_FLOAT;
    refuse(tiny_output(g, y), NULL, ZT_EXIT_MODEL, "flat (Reshape)", "exported for a batch of 8");
}
END_TEST

START_TEST(a_fixed_batch_that_no_node_insists_on_is_bound_anew) {
    struct tiny t;
    struct zt_training_graph training_graph;
    struct zt_graph *g = tiny_mlp();
    struct zt_shape *x = &g->values[zt_graph_find(g, "x")]->shape;
    x->dim[0] = 64;
    g->values[zt_graph_find(g, "x")]->dim_param[0] = NULL;
    open_plain(&t, g, PLAIN);
    ck_assert_int_eq(t.job->fixed_batch, 64);
    ck_assert_msg(build(&t, &(struct zt_training_graph_request){ 3, true, false, 1, NULL }, &training_graph), "%s",
                  err.text[0]);
    ck_assert_int_eq(training_graph.graph->values[zt_graph_find(training_graph.graph, "y")]->shape.dim[0], 3);
    zt_graph_destroy(training_graph.graph);
    tiny_finish(&t);
}
END_TEST

START_TEST(more_inputs_than_columns_are_refused) {
    struct zt_graph *g = zt_graph_create("many");
    int sum = net_input(g, "x", ZT_FLOAT, SHAPE(-1, 4));
    for (int i = 0; i < ZT_COLUMNS; i++)
        sum = NET(g, "Add", zt_arena_printf(g->arena, "s%d", i), sum,
                  net_input(g, zt_arena_printf(g->arena, "x%d", i), ZT_FLOAT, SHAPE(-1, 4)));
    int y = NET(g, "MatMul", "y", sum, net_param(g, "w", SHAPE(4, 3)));
    g->values[y]->dtype = ZT_FLOAT;
    refuse(tiny_output(g, y), NULL, ZT_EXIT_MODEL, "more than 15 inputs", "\"x14\"");
}
END_TEST

/* Two nodes for each value there is: they all share one mean and one variance. */
START_TEST(statistics_that_many_nodes_share_are_listed_once) {
    struct tiny t;
    struct zt_graph *g = tiny_norm();
    int h = zt_graph_find(g, "relu"), parts[4];
    for (int i = 0; i < 4; i++)
        parts[i] = zt_graph_find(g, (const char *[]){ "bn.weight", "bn.bias", "bn.mean", "bn.var" }[i]);
    for (int i = 0; i < 300; i++)
        h = NET(g, "BatchNormalization", zt_arena_printf(g->arena, "bn%d", i), h, parts[0], parts[1], parts[2],
                parts[3]);
    int y = NET(g, "MatMul", "z", h, net_param(g, "w", SHAPE(16, 3)));
    g->values[y]->dtype = ZT_FLOAT;
    g->output_count = 0;
    open_plain(&t, tiny_output(g, y), PLAIN);
    ck_assert_int_eq(t.job->statistic_count, 2);
    tiny_finish(&t);
}
END_TEST

START_TEST(with_everything_frozen_there_is_nothing_to_train) {
    struct tiny t;
    struct zt_training_graph training_graph;
    open_plain(&t, tiny_mlp(), PLAIN ", 'ztrain': {'freeze': ['*']}");
    ck_assert(!build(&t, &(struct zt_training_graph_request){ 4, true, false, 1, NULL }, &training_graph));
    ck_assert(says("nothing to train") && training_graph.graph == NULL);
    tiny_finish(&t);
}
END_TEST

START_TEST(frozen_and_chosen_parameters_are_left_out) {
    struct tiny t;
    struct zt_training_graph training_graph;
    open_plain(&t, tiny_mlp(), PLAIN ", 'ztrain': {'freeze': ['*.bias'], 'trainable': ['fc?.*']}");
    ck_assert_msg(build(&t, &(struct zt_training_graph_request){ 4, true, false, 1, NULL }, &training_graph), "%s",
                  err.text[0]);
    ck_assert_int_eq(training_graph.param_count, 2);
    ck_assert_str_eq(training_graph.graph->values[training_graph.params[0]]->name, "fc1.weight");
    ck_assert_str_eq(training_graph.graph->values[training_graph.params[1]]->name, "fc2.weight");
    zt_graph_destroy(training_graph.graph);
    tiny_finish(&t);
}
END_TEST

START_TEST(a_loss_of_the_graph_must_be_one_float) {
    struct tiny t;
    struct zt_training_graph training_graph;
    struct zt_graph *g = tiny_mlp();
    int loss = NET(g, "ReduceMean", "own loss", zt_graph_find(g, "y"));
    zt_node_set_int(g, g->node_count - 1, "keepdims", 0);
    g->values[loss]->dtype = ZT_FLOAT;
    open_plain(&t, tiny_output(g, loss), PLAIN ", 'ztrain': {'loss': {'type': 'output', 'output': 'y'}}");
    ck_assert(!build(&t, &(struct zt_training_graph_request){ 4, true, false, 1, NULL }, &training_graph));
    ck_assert_msg(says("\"y\" is float[4, 5], but a loss must be one float"), "%s", err.text[0]);
    tiny_finish(&t);
}
END_TEST

START_TEST(the_graphs_own_loss_is_the_root) {
    struct tiny t;
    struct zt_training_graph training_graph;
    struct zt_graph *g = tiny_mlp();
    int loss = NET(g, "ReduceMean", "own loss", zt_graph_find(g, "y"));
    zt_node_set_int(g, g->node_count - 1, "keepdims", 0);
    g->values[loss]->dtype = ZT_FLOAT;
    open_plain(&t, tiny_output(g, loss), PLAIN ", 'ztrain': {'loss': {'type': 'output', 'output': 'own loss'}}");
    ck_assert_msg(build(&t, &(struct zt_training_graph_request){ 4, true, false, 1, NULL }, &training_graph), "%s",
                  err.text[0]);
    ck_assert_str_eq(training_graph.graph->values[training_graph.loss]->name, "own loss");
    ck_assert_int_eq(training_graph.column_count, 1);
    zt_graph_destroy(training_graph.graph);
    tiny_finish(&t);
}
END_TEST

START_TEST(evaluation_has_no_backward_and_counts_what_is_correct) {
    struct tiny t;
    struct zt_training_graph training_graph;
    open_plain(&t, tiny_norm(), PLAIN);
    ck_assert_msg(build(&t, &(struct zt_training_graph_request){ 4, false, true, 1, NULL }, &training_graph), "%s",
                  err.text[0]);
    ck_assert(training_graph.correct >= 0 && training_graph.counted >= 0 && training_graph.row_weight >= 0 &&
              training_graph.seed < 0);
    ck_assert_int_eq(training_graph.graph->write_back_count, 0);
    for (int n = 0; n < training_graph.graph->node_count; n++)
        ck_assert_int_eq(training_graph.graph->nodes[n]->phase, ZT_FORWARD);
    zt_graph_destroy(training_graph.graph);
    tiny_finish(&t);
}
END_TEST

/* Backward nodes are named after the forward node whose rule made them. */
static int count_backward(const struct zt_graph *g, const char *of) {
    int count = 0;
    for (int n = 0; n < g->node_count; n++)
        count += g->nodes[n]->phase == ZT_BACKWARD && (!of || strcmp(g->nodes[n]->name, of) == 0);
    return count;
}

START_TEST(nothing_is_differentiated_below_the_lowest_node_that_trains) {
    static const struct {
        const char *block;
        int params;
        bool fc2, fc1; /* get gradients */
    } cases[] = { { "'freeze': []", 6, true, true },
                  { "'freeze': ['fc*']", 2, false, false },
                  { "'trainable': ['y.*']", 2, false, false },
                  { "'trainable': ['y.*', 'fc2.bias'], 'freeze': ['y.weight']", 2, true, false },
                  { "'freeze': ['y.*', 'fc2.*', 'fc1.weight']", 1, true, true } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tiny t;
        struct zt_training_graph training_graph;
        char config[600];
        snprintf(config, sizeof config, PLAIN ", 'ztrain': {%s}", cases[i].block);
        open_plain(&t, tiny_mlp(), config);
        ck_assert_msg(build(&t, &(struct zt_training_graph_request){ 4, true, false, 1, NULL }, &training_graph), "%s",
                      err.text[0]);
        const struct zt_graph *g = training_graph.graph;
        ck_assert_int_eq(training_graph.param_count, cases[i].params);
        ck_assert_int_eq(count_backward(g, "grad of fc2") > 0, cases[i].fc2);
        ck_assert_int_eq(count_backward(g, "grad of relu2") > 0, cases[i].fc2);
        ck_assert_int_eq(count_backward(g, "grad of fc1") > 0, cases[i].fc1);
        ck_assert_int_eq(count_backward(g, "grad of relu1") > 0, cases[i].fc1);
        if (!cases[i].fc2) /* the head alone: the loss' node, one product and one sum */
            ck_assert_int_eq(count_backward(g, NULL), count_backward(g, "grad of y") + 1);
        zt_graph_destroy(training_graph.graph);
        tiny_finish(&t);
    }
}
END_TEST

START_TEST(frozen_batch_norm_keeps_its_statistics) {
    static const struct {
        const char *block;
        int statistics, backward; /* of the norm */
    } cases[] = { { "'batch_norm': 'train'", 2, 1 },
                  { "'batch_norm': 'frozen'", 0, 1 },
                  { "'freeze': ['fc1.*', 'bn.*']", 2, 0 },
                  { "'freeze': ['fc1.*', 'bn.*'], 'batch_norm': 'frozen'", 0, 0 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tiny t;
        struct zt_training_graph training_graph;
        char config[600];
        snprintf(config, sizeof config, PLAIN ", 'ztrain': {%s}", cases[i].block);
        open_plain(&t, tiny_norm(), config);
        ck_assert_msg(build(&t, &(struct zt_training_graph_request){ 4, true, false, 1, NULL }, &training_graph), "%s",
                      err.text[0]);
        ck_assert_int_eq(training_graph.statistic_count, cases[i].statistics);
        ck_assert_int_eq(training_graph.graph->write_back_count, cases[i].statistics);
        ck_assert_int_eq(count_backward(training_graph.graph, "grad of bn") > 0, cases[i].backward);
        zt_graph_destroy(training_graph.graph);
        tiny_finish(&t);
    }
}
END_TEST

/* fc [12, 16] and turned [16, 12] are one: one gradient, the sum of both uses, and a Transpose where the other was. */
START_TEST(a_tied_parameter_is_one_with_one_gradient) {
    struct tiny t;
    struct zt_training_graph training_graph;
    struct zt_graph *g = zt_graph_create("tied");
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(-1, 12)), transposes = 0;
    int h = NET(g, "Tanh", "tanh", NET(g, "MatMul", "up", x, net_param(g, "fc", SHAPE(12, 16))));
    int turned = net_param(g, "turned", SHAPE(16, 12));
    int y = NET(g, "Add", "y", NET(g, "MatMul", "down", h, turned), NET(g, "MatMul", "again", h, turned));
    g->values[y]->dtype = ZT_FLOAT;
    open_plain(&t, tiny_output(g, y), PLAIN ", 'ztrain': {'tie': [['fc', 'turned']]}");
    ck_assert_int_eq(t.job->tie_count, 1);
    ck_assert(t.job->ties[0].transposed && t.job->ties[0].differs);
    ck_assert_msg(build(&t, &(struct zt_training_graph_request){ 4, true, false, 1, NULL }, &training_graph), "%s",
                  err.text[0]);
    ck_assert_int_eq(training_graph.param_count, 1);
    ck_assert_str_eq(training_graph.graph->values[training_graph.params[0]]->name, "fc");
    ck_assert(training_graph.grads[0] >= 0);
    for (int n = 0; n < training_graph.graph->node_count; n++)
        transposes += strcmp(training_graph.graph->nodes[n]->name, "transpose of fc") == 0;
    ck_assert_int_eq(transposes, 1);
    zt_graph_destroy(training_graph.graph);
    tiny_finish(&t);
}
END_TEST

/* Padding and the data's weights are one input of the loss, the classes' another. */
START_TEST(weights_of_samples_padding_and_classes_reach_the_loss) {
    static const struct {
        const char *loss;
        bool padded;
        int inputs, product; /* of the loss; nodes that make the weights */
    } cases[] = { { "'label_smoothing': 0", false, 2, 0 },
                  { "'label_smoothing': 0", true, 3, 0 },
                  { "'weight': 'w'", false, 3, 0 },
                  { "'weight': 'w'", true, 3, 1 },
                  { "'class_weights': [1, 2, 3, 4, 5]", false, 4, 0 },
                  { "'weight': 'w', 'class_weights': [1, 2, 3, 4, 5]", true, 4, 1 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tiny t;
        struct zt_training_graph training_graph;
        char config[600];
        snprintf(config, sizeof config, PLAIN ", 'ztrain': {'loss': {%s}}", cases[i].loss);
        open_plain(&t, tiny_mlp(), config);
        ck_assert_msg(
            build(&t, &(struct zt_training_graph_request){ 4, true, cases[i].padded, 1, NULL }, &training_graph), "%s",
            err.text[0]);
        const struct zt_node *loss =
            training_graph.graph->nodes[training_graph.graph->values[training_graph.loss]->producer];
        ck_assert_int_eq(loss->in_count, cases[i].inputs);
        int product = loss->in_count > 2 && loss->in[2] >= 0 ? training_graph.graph->values[loss->in[2]]->producer : -1;
        ck_assert_int_eq(product >= 0, cases[i].product);
        zt_graph_destroy(training_graph.graph);
        tiny_finish(&t);
    }
}
END_TEST

START_TEST(class_weights_of_another_number_are_refused) {
    struct tiny t;
    struct zt_training_graph training_graph;
    open_plain(&t, tiny_mlp(), PLAIN ", 'ztrain': {'loss': {'class_weights': [1, 2, 3]}}");
    ck_assert(!build(&t, &(struct zt_training_graph_request){ 4, true, false, 1, NULL }, &training_graph));
    ck_assert_msg(says("ztrain.loss.class_weights: 3 numbers, but output \"y\" has 5 classes"), "%s", err.text[0]);
    ck_assert_int_eq(err.code, ZT_EXIT_CONFIG);
    tiny_finish(&t);
}
END_TEST

START_TEST(too_few_samples_for_a_step_without_its_tail_are_an_error) {
    struct tiny t;
    open_plain(&t, tiny_mlp(), PLAIN ", 'ztrain': {'data': {'samples': 3, 'drop_last': true}}");
    struct zt_device *device = zt_device_host_create(1);
    struct zt_rank_options options = { .source = t.source, .device = device, .threads = 1 };
    ck_assert_ptr_null(zt_rank_plan_create(t.job, &options, &err));
    ck_assert_msg(says("fewer samples than the 4 of a step"), "%s", err.text[0]);
    device->api->destroy(device);
    tiny_finish(&t);
}
END_TEST

/* Start-up must not grow with the square of the model. Seconds of this thread; the sanitizers make it five times
 * slower. */
START_TEST(a_chain_of_5000_nodes_is_planned_in_well_under_a_second) {
    struct tiny t;
    open_plain(&t, tiny_chain(2500), PLAIN);
    struct zt_device *device = zt_device_host_create(1);
    struct zt_rank_options options = { .source = t.source, .device = device, .threads = 1 };
    clock_t start = clock();
    struct zt_rank_plan *plan = zt_rank_plan_create(t.job, &options, &err);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    ck_assert_msg(plan != NULL, "%s", err.text[0]);
    printf("plan of 5,000 nodes: %.2f s\n", seconds);
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    seconds /= 5;
#endif
    ck_assert_msg(seconds < 1, "%.2f s", seconds);
    zt_rank_plan_destroy(plan);
    device->api->destroy(device);
    tiny_finish(&t);
}
END_TEST

int main(void) {
    zt_parallel_enter();
    TCase *cases = tcase_create("job");
    tcase_add_test(cases, an_output_that_is_not_there_is_named_with_those_that_are);
    tcase_add_test(cases, several_float_outputs_leave_a_choice_to_the_config);
    tcase_add_test(cases, a_model_without_float_output_cannot_train);
    tcase_add_test(cases, missing_operators_are_all_named);
    tcase_add_test(cases, a_fusion_pattern_that_is_not_there_is_named_with_those_that_are);
    tcase_add_loop_test(cases, former_names_of_fusion_patterns_mean_the_present_ones, 0, 8);
    tcase_add_test(cases, patterns_are_fused_before_the_gradient_unless_the_config_says_no);
    tcase_add_test(cases, a_batch_that_a_node_insists_on_names_the_node_and_the_way_out);
    tcase_add_test(cases, a_fixed_batch_that_no_node_insists_on_is_bound_anew);
    tcase_add_test(cases, more_inputs_than_columns_are_refused);
    tcase_add_test(cases, statistics_that_many_nodes_share_are_listed_once);
    tcase_add_test(cases, with_everything_frozen_there_is_nothing_to_train);
    tcase_add_test(cases, frozen_and_chosen_parameters_are_left_out);
    tcase_add_test(cases, a_loss_of_the_graph_must_be_one_float);
    tcase_add_test(cases, the_graphs_own_loss_is_the_root);
    tcase_add_test(cases, evaluation_has_no_backward_and_counts_what_is_correct);
    tcase_add_test(cases, nothing_is_differentiated_below_the_lowest_node_that_trains);
    tcase_add_test(cases, frozen_batch_norm_keeps_its_statistics);
    tcase_add_test(cases, a_tied_parameter_is_one_with_one_gradient);
    tcase_add_test(cases, weights_of_samples_padding_and_classes_reach_the_loss);
    tcase_add_test(cases, class_weights_of_another_number_are_refused);
    tcase_add_test(cases, too_few_samples_for_a_step_without_its_tail_are_an_error);
    tcase_add_test(cases, a_chain_of_5000_nodes_is_planned_in_well_under_a_second);
    return run_suite("job", cases, CK_NOFORK);
}
