#include "base/file.h"
#include "build.h"
#include "graph/passes/trainable/trainable.h"
#include "rows.h"
#include "reference.h"

#include <cjson/cJSON.h>
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cJSON *read_json(const char *folder, const char *name) {
    struct zt_file_map map;
    struct zt_err err = { 0 };
    char *path = zt_path_join(folder, name);
    ck_assert_msg(zt_file_map(&map, path, ZT_EXIT_DATA, &err), "%s", err.text[0]);
    cJSON *json = cJSON_ParseWithLength((const char *)map.data, map.size);
    ck_assert_msg(json != NULL, "%s", path);
    zt_file_unmap(&map);
    free(path);
    return json;
}

static bool lists(const cJSON *json, const char *key, const char *name) {
    const cJSON *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(json, key)) if (strcmp(item->valuestring, name) == 0) return true;
    return false;
}

static struct zt_onnx *read_model(const char *folder) {
    struct zt_err err = { 0 };
    char *path = zt_path_join(folder, "model.onnx");
    struct zt_onnx *model = zt_onnx_read(path, ZT_WEIGHTS_MAPPED, &err);
    ck_assert_msg(model != NULL, "%s", err.text[0]);
    free(path);
    return model;
}

static int loss_of(const struct zt_graph *g, const char *folder) {
    cJSON *config = read_json(folder, "config.json");
    const cJSON *loss = cJSON_GetObjectItem(cJSON_GetObjectItem(config, "ztrain"), "loss");
    const cJSON *name = cJSON_GetObjectItem(loss, "logits");
    if (!name)
        name = cJSON_GetObjectItem(loss, "output");
    int id = name ? zt_graph_find(g, name->valuestring) : g->outputs[0];
    cJSON_Delete(config);
    return id;
}

static void compare_verdicts(const char *folder) {
    struct zt_onnx *model = read_model(folder);
    struct zt_graph *g = model->graph;
    cJSON *expected = read_json(folder, "expected.json");
    int found = 0;
    zt_pass_split_aliases(g, &zt_test_rows, model);
    zt_test_resolve(g);
    zt_pass_trainable(g, model, loss_of(g, folder));
    for (int i = 0; i < g->value_count; i++) {
        const struct zt_value *v = g->values[i];
        if (v->origin != ZT_FROM_INITIALIZER)
            continue;
        ck_assert_ptr_nonnull(v->why);
        ck_assert_msg(v->trainable == lists(expected, "trainable", v->name), "%s: %s is %strained: %s", folder, v->name,
                      v->trainable ? "" : "not ", v->why);
        found += v->trainable;
    }
    ck_assert_int_eq(found, cJSON_GetArraySize(cJSON_GetObjectItem(expected, "trainable")));
    cJSON_Delete(expected);
    zt_onnx_destroy(model);
}

START_TEST(every_reference_case_gets_its_verdicts) {
    zt_test_each_case(compare_verdicts);
}
END_TEST

/* ---- graphs made by hand ---- */

static int add_initializer(struct zt_graph *g, const char *name, int rows, int columns, const float *data) {
    struct zt_shape shape = { .rank = columns ? 2 : rows ? 1 : 0, .dim = { rows, columns } };
    int v = zt_graph_add_value(g, name, ZT_FLOAT, &shape);
    g->values[v]->origin = ZT_FROM_INITIALIZER;
    g->values[v]->data = data;
    return v;
}

static int add_op(struct zt_graph *g, const char *op, int a, int b, const char *out) {
    int v = zt_graph_add_value(g, out, ZT_UNDEFINED, NULL);
    zt_graph_add_node(g, &(struct zt_node_spec){ out, op, "", 17, (int[]){ a, b }, b < 0 ? 1 : 2, &v, 1 });
    return v;
}

static const float some[6] = { 1, 2, 3, 4, 5, 6 }, turned[6] = { 1, 4, 2, 5, 3, 6 }, ones[6] = { 1, 1, 1, 1, 1, 1 };

START_TEST(scalars_and_what_no_gradient_reaches_are_constants) {
    struct zt_graph *g = zt_graph_create("by hand");
    int weight = add_initializer(g, "weight", 2, 3, some), scale = add_initializer(g, "scale", 0, 0, some);
    int condition = add_initializer(g, "condition", 2, 3, some), unused = add_initializer(g, "unused", 2, 3, some);
    int indices = add_initializer(g, "indices", 6, 0, some);
    int y = add_op(g, "Mul", weight, scale, "y");
    y = add_op(g, "Add", y, add_op(g, "Equal", y, condition, "mask"), "sum");
    int loss = add_op(g, "Gather", y, indices, "loss");
    zt_test_resolve(g);
    zt_pass_trainable(g, NULL, loss);
    ck_assert(g->values[weight]->trainable);
    ck_assert(!g->values[scale]->trainable);
    ck_assert(!g->values[condition]->trainable);
    ck_assert_str_eq(g->values[condition]->why, "no gradient through mask (Equal)");
    ck_assert(!g->values[unused]->trainable);
    ck_assert_str_eq(g->values[unused]->why, "the loss does not need it");
    ck_assert(!g->values[indices]->trainable);
    ck_assert_str_eq(g->values[indices]->why, "statistics or shape input of loss (Gather)");
    zt_graph_destroy(g);
}
END_TEST

START_TEST(pytorchs_marks_decide_where_the_graph_has_its_signature) {
    struct zt_graph *g = zt_graph_create("by hand");
    int parameter = add_initializer(g, "parameter", 2, 3, some), buffer = add_initializer(g, "buffer", 2, 3, some);
    int folded = add_initializer(g, "val_1", 2, 3, some), table = add_initializer(g, "cos", 2, 3, some);
    int fused = add_initializer(g, "conv.weight_bias", 2, 3, some);
    g->values[parameter]->torch_kind = "PARAMETER";
    g->values[buffer]->torch_kind = "BUFFER";
    g->values[folded]->torch_folded_from = "['arange', \"it's\", 'fc.weight']";
    g->values[table]->torch_folded_from = "['arange', 'fc']";
    int y = add_op(g, "Add", add_op(g, "Add", parameter, buffer, "a"), add_op(g, "Add", folded, table, "b"), "c");
    y = add_op(g, "Add", y, fused, "loss");
    zt_test_resolve(g);
    const struct zt_onnx model = { .graph = g,
                                   .producer = "pytorch 2.15.0",
                                   .torch_signature =
                                       "\n# inputs\np_fc_weight: PARAMETER target='fc.weight'\n"
                                       "b: BUFFER target='arange' persistent=True\nit's: USER_INPUT\n" };
    zt_pass_trainable(g, &model, y);
    ck_assert(g->values[parameter]->trainable);
    ck_assert(!g->values[buffer]->trainable);
    ck_assert(g->values[folded]->trainable);
    ck_assert_str_eq(g->values[folded]->why, "folded from parameter fc.weight");
    ck_assert(!g->values[table]->trainable);
    ck_assert(g->values[fused]->trainable);
    zt_pass_trainable(g, NULL, y);
    ck_assert(g->values[buffer]->trainable);
    zt_graph_destroy(g);
}
END_TEST

START_TEST(an_identity_of_torchscripts_becomes_an_initializer) {
    const struct zt_onnx model = { .producer = "pytorch 2.15.0" };
    struct zt_graph *g = zt_graph_create("by hand");
    int weight = add_initializer(g, "n1.weight", 6, 0, ones);
    int copy = add_op(g, "Identity", weight, -1, "n2.weight"), again = add_op(g, "Identity", copy, -1, "n3.weight");
    int flat = add_op(g, "Flatten", weight, -1, "flat");
    int sum = add_op(g, "Add", copy, again, "sum"), after = add_op(g, "Identity", sum, -1, "after");
    g->outputs = (int[]){ add_op(g, "Add", flat, after, "loss") };
    g->output_count = 1;
    zt_pass_split_aliases(g, &zt_test_rows, &model);
    ck_assert_int_eq(g->values[copy]->origin, ZT_FROM_INITIALIZER);
    ck_assert_int_eq(g->values[again]->origin, ZT_FROM_INITIALIZER);
    ck_assert_str_eq(g->values[again]->name, "n3.weight");
    ck_assert_ptr_eq(g->values[again]->data, ones);
    ck_assert_int_eq(g->values[flat]->origin, ZT_FROM_NODE);
    ck_assert_int_eq(g->values[after]->origin, ZT_FROM_NODE);
    ck_assert_int_eq(g->node_count, 4);
    zt_graph_destroy(g);
}
END_TEST

START_TEST(an_identity_of_others_is_the_initializer_itself) {
    const struct zt_onnx model = { .producer = "" };
    struct zt_graph *g = zt_graph_create("by hand");
    int weight = add_initializer(g, "weight", 6, 0, ones);
    int copy = add_op(g, "Identity", weight, -1, "auto.cast.0"), again = add_op(g, "Identity", copy, -1, "auto.cast.1");
    int sum = add_op(g, "Add", copy, again, "sum");
    g->outputs = (int[]){ sum };
    g->output_count = 1;
    zt_pass_split_aliases(g, &zt_test_rows, &model);
    ck_assert_int_eq(g->values[copy]->origin, ZT_FROM_NODE);
    const struct zt_node *n = g->nodes[g->values[sum]->producer];
    ck_assert_int_eq(n->in[0], weight);
    ck_assert_int_eq(n->in[1], weight);
    zt_graph_destroy(g);
}
END_TEST

START_TEST(copies_and_transposes_of_a_weight_are_found) {
    struct zt_graph *g = zt_graph_create("by hand");
    int a = add_initializer(g, "embedding", 2, 3, some), b = add_initializer(g, "head", 3, 2, turned);
    add_initializer(g, "ones", 2, 3, ones);
    add_initializer(g, "other ones", 2, 3, ones);
    add_initializer(g, "same numbers, other order", 3, 2, some);
    struct zt_trainable_pair *pairs;
    ck_assert_int_eq(zt_trainable_pairs(g, &pairs), 0); /* what does not train cannot be tied */
    for (int i = 0; i < g->value_count; i++)
        g->values[i]->trainable = true;
    ck_assert_int_eq(zt_trainable_pairs(g, &pairs), 1);
    ck_assert_int_eq(pairs[0].a, a);
    ck_assert_int_eq(pairs[0].b, b);
    ck_assert(pairs[0].transposed);
    zt_graph_destroy(g);
}
END_TEST

START_TEST(parameters_that_no_initializer_holds_are_named) {
    struct zt_graph *g = zt_graph_create("by hand");
    struct zt_onnx model = { .graph = g,
                             .torch_signature =
                                 "p_a: PARAMETER target='a'\np_b: PARAMETER target='b'\n"
                                 "p_c: PARAMETER target='c'\nx: USER_INPUT\n" };
    add_initializer(g, "a", 2, 3, some);
    g->values[add_initializer(g, "val_3", 2, 3, some)]->torch_folded_from = "['c']";
    const char **names;
    ck_assert_int_eq(zt_trainable_missing(&model, &names), 1);
    ck_assert_str_eq(names[0], "b");
    model.torch_signature = NULL;
    ck_assert_int_eq(zt_trainable_missing(&model, &names), 0);
    zt_graph_destroy(g);
}
END_TEST

/* ---- folded normalizations ---- */

static void check_folds(const char *folder) {
    static const struct {
        const char *name;
        int count;
        enum zt_trainable_folding by;
    } folded[] = { { "mobilenet-folded", 10, ZT_FOLDED_TORCHSCRIPT },
                   { "resnet-dynamo-folded", 9, ZT_FOLDED_DYNAMO },
                   { "keras-cnn", 1, ZT_FOLDED_TENSORFLOW } };
    struct zt_onnx *model = read_model(folder);
    struct zt_trainable_fold *folds;
    int count = zt_trainable_folds(model, &folds), want = 0;
    for (size_t i = 0; i < sizeof folded / sizeof *folded; i++)
        if (strstr(folder, folded[i].name)) {
            want = folded[i].count;
            ck_assert(count > 0 && folds[0].by == folded[i].by && zt_trainable_unfold(folds[0].by));
        }
    ck_assert_msg(count == want, "%s: %d layers, want %d", folder, count, want);
    zt_onnx_destroy(model);
}

START_TEST(folded_normalizations_of_the_reference_cases_are_found_and_no_others) {
    zt_test_each_case(check_folds);
}
END_TEST

static int add_vector(struct zt_graph *g, const char *name) {
    return add_initializer(g, name, 6, 0, some);
}

static int add_kernel(struct zt_graph *g, const char *name) {
    int v = add_initializer(g, name, 6, 1, some);
    g->values[v]->shape = (struct zt_shape){ 4, { 6, 1, 1, 1 } };
    return v;
}

/* A Conv with these initializers, in a file where `other` is one too. */
static int folds_of(const char *producer, const char *signature, const char *weight, const char *bias,
                    const char *other) {
    struct zt_graph *g = zt_graph_create("by hand");
    struct zt_onnx model = { .graph = g, .producer = producer, .torch_signature = signature };
    struct zt_trainable_fold *folds;
    int x = zt_graph_add_value(g, "x", ZT_FLOAT, NULL), y = zt_graph_add_value(g, "y", ZT_UNDEFINED, NULL);
    int in[3] = { x, add_kernel(g, weight), bias ? add_vector(g, bias) : -1 };
    if (other)
        add_vector(g, other);
    zt_graph_add_node(g, &(struct zt_node_spec){ "conv", "Conv", "", 17, in, bias ? 3 : 2, &y, 1 });
    int count = zt_trainable_folds(&model, &folds);
    zt_graph_destroy(g);
    return count;
}

START_TEST(only_what_the_names_prove_counts_as_folded) {
    const char *listed = "p: PARAMETER target='c.weight'\np: PARAMETER target='c.bias'\n";
    const char *more = "p: PARAMETER target='c.weight'\np: PARAMETER target='b.weight'\n";
    ck_assert_int_eq(folds_of("pytorch 2", NULL, "onnx::Conv_7", "onnx::Conv_8", "fc.bias"), 1);
    ck_assert_int_eq(folds_of("pytorch 2", NULL, "c.weight", "c.bias", "fc.bias"), 0);     /* a plain layer */
    ck_assert_int_eq(folds_of("pytorch 2", NULL, "onnx::Conv_7", "c.bias", "fc.bias"), 0); /* weight norm */
    ck_assert_int_eq(folds_of("pytorch 2", NULL, "onnx::Conv_7", NULL, "fc.bias"), 0);
    ck_assert_int_eq(folds_of("pytorch 2", NULL, "onnx::Conv_7", "onnx::Conv_8", NULL), 0); /* no name is left */
    ck_assert_int_eq(folds_of("pytorch 2", NULL, "onnx::MatMul_7", "onnx::MatMul_8", "fc.bias"), 0);
    ck_assert_int_eq(folds_of("other", NULL, "onnx::Conv_7", "onnx::Conv_8", "fc.bias"), 0);
    ck_assert_int_eq(folds_of("pytorch 2", more, "c.weight", "c.weight_bias", NULL), 1);
    ck_assert_int_eq(folds_of("pytorch 2", listed, "c.weight", "c.bias", NULL), 0); /* nothing is gone */
    const char *variance = "p: PARAMETER target='c.weight'\nb: BUFFER target='n.running_var'\n";
    ck_assert_int_eq(folds_of("pytorch 2", variance, "c.weight", "c.weight_bias", NULL), 1);
    ck_assert_int_eq(folds_of("pytorch 2", variance, "c.weight", "c.weight_bias", "n.running_var"), 0); /* kept */
    ck_assert_int_eq(folds_of("pytorch 2", more, "c.weight", "val_4", NULL), 0);
    ck_assert_int_eq(folds_of("pytorch 2", more, "val_3", "val_4", NULL), 0);
    ck_assert_int_eq(folds_of("tf2onnx", NULL, "k", "m/batch_normalization_1/batchnorm/sub:0", NULL), 1);
    ck_assert_int_eq(folds_of("tf2onnx", NULL, "k", "m/conv2d/BiasAdd/ReadVariableOp:0", NULL), 0);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("trainable");
    tcase_add_test(cases, every_reference_case_gets_its_verdicts);
    tcase_add_test(cases, scalars_and_what_no_gradient_reaches_are_constants);
    tcase_add_test(cases, pytorchs_marks_decide_where_the_graph_has_its_signature);
    tcase_add_test(cases, an_identity_of_torchscripts_becomes_an_initializer);
    tcase_add_test(cases, an_identity_of_others_is_the_initializer_itself);
    tcase_add_test(cases, copies_and_transposes_of_a_weight_are_found);
    tcase_add_test(cases, parameters_that_no_initializer_holds_are_named);
    tcase_add_test(cases, folded_normalizations_of_the_reference_cases_are_found_and_no_others);
    tcase_add_test(cases, only_what_the_names_prove_counts_as_folded);
    return run_cases("trainable", cases);
}
