#include "base/arena.h"
#include "base/file.h"
#include "build.h"
#include "reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The model of `graph` (freed) with the changes made, read again. The files are gone when it returns. */
static struct zt_onnx *rewritten(struct zt_text *graph, const struct zt_onnx_changes *changes) {
    struct zt_err err = { 0 };
    char *in = write_model(graph);
    struct zt_text out = { 0 };
    zt_text_add(&out, "%s.onnx", in);
    struct zt_onnx *model = zt_onnx_read(in, ZT_WEIGHTS_MAPPED, &err);
    ck_assert_msg(model != NULL, "%s", err.text[0]);
    ck_assert_msg(zt_onnx_write(model, out.at, changes, &err), "%s", err.text[0]);
    zt_onnx_destroy(model);
    model = zt_onnx_read(out.at, ZT_WEIGHTS_MAPPED, &err);
    ck_assert_msg(model != NULL, "%s", err.text[0]);
    remove_file(in);
    unlink(out.at);
    zt_text_add(&out, ".data");
    unlink(out.at);
    zt_text_finish(&out);
    return model;
}

static const void *data_of(const struct zt_onnx *model, const char *name) {
    int id = zt_graph_find(model->graph, name);
    ck_assert_msg(id >= 0 && model->graph->values[id]->origin == ZT_FROM_INITIALIZER, "no initializer %s", name);
    return model->graph->values[id]->data;
}

static struct zt_onnx *with_payload(struct zt_text *graph, const char *name, const void *data) {
    return rewritten(
        graph, &(struct zt_onnx_changes){ .payloads = &(struct zt_onnx_payload){ name, data }, .payload_count = 1 });
}

/* ---- nothing changed ---- */

static void copy_is_identical(const char *folder) {
    struct zt_text out = { 0 };
    struct zt_err err = { 0 };
    struct zt_file_map before, after;
    char *in = zt_path_join(folder, "model.onnx"), *copy = write_file(&out);
    struct zt_onnx *model = zt_onnx_read(in, ZT_WEIGHTS_MAPPED, &err);
    ck_assert_msg(model && zt_onnx_write(model, copy, &(struct zt_onnx_changes){ 0 }, &err), "%s", err.text[0]);
    ck_assert(zt_file_map(&before, in, ZT_EXIT_DATA, &err) && zt_file_map(&after, copy, ZT_EXIT_DATA, &err));
    ck_assert_uint_eq(before.size, after.size);
    ck_assert_mem_eq(before.data, after.data, before.size);
    zt_file_unmap(&before);
    zt_file_unmap(&after);
    zt_onnx_destroy(model);
    remove_file(copy);
    free(in);
}

START_TEST(a_model_without_changes_is_written_byte_for_byte) {
    zt_test_each_case(copy_is_identical);
}
END_TEST

/* ---- payloads ---- */

START_TEST(raw_data_are_replaced) {
    struct zt_text graph = { 0 };
    put_sum(&graph);
    struct zt_onnx *model = with_payload(&graph, "w", (float[]){ 7, 8 });
    ck_assert_mem_eq(data_of(model, "w"), ((float[]){ 7, 8 }), 8);
    ck_assert_mem_eq(data_of(model, "b"), ((float[]){ 3, 4 }), 8);
    zt_onnx_destroy(model);
}
END_TEST

static struct zt_text tensor_head(uint64_t type) {
    struct zt_text tensor = { 0 };
    put_int(&tensor, 1, 2);
    put_int(&tensor, 2, type);
    put_string(&tensor, 8, "t");
    return tensor;
}

START_TEST(typed_data_are_replaced_in_their_own_field) {
    struct zt_text graph = { 0 }, tensor = tensor_head(ZT_FLOAT);
    put_bytes(&tensor, 4, (float[]){ 1, 2 }, 8);
    put_message(&graph, 5, &tensor);
    struct zt_onnx *model = with_payload(&graph, "t", (float[]){ 7, 8 });
    ck_assert_mem_eq(data_of(model, "t"), ((float[]){ 7, 8 }), 8);
    zt_onnx_destroy(model);

    tensor = tensor_head(ZT_FLOAT16);
    put_bytes(&tensor, 5, "\x01\x02", 2); /* numbers of other lengths than the new ones */
    put_message(&graph, 5, &tensor);
    model = with_payload(&graph, "t", (uint16_t[]){ 0xbc00, 5 });
    ck_assert_mem_eq(data_of(model, "t"), ((uint16_t[]){ 0xbc00, 5 }), 4);
    zt_onnx_destroy(model);

    tensor = tensor_head(ZT_INT64);
    put_int(&tensor, 7, 1);
    put_string(&tensor, 12, "numbers on either side of a text");
    put_int(&tensor, 7, 2);
    put_message(&graph, 5, &tensor);
    model = with_payload(&graph, "t", (int64_t[]){ -1, INT64_MAX });
    ck_assert_mem_eq(data_of(model, "t"), ((int64_t[]){ -1, INT64_MAX }), 16);
    zt_onnx_destroy(model);
}
END_TEST

START_TEST(the_tensor_of_a_constant_node_is_replaced) {
    struct zt_text graph = { 0 }, attribute = { 0 }, tensor = tensor_head(ZT_FLOAT);
    put_bytes(&tensor, 9, (float[]){ 1, 2 }, 8);
    put_string(&attribute, 1, "value");
    put_int(&attribute, 20, 4);
    put_message(&attribute, 5, &tensor);
    put_node(&graph, "constant", "Constant", NULL, NULL, "c", &attribute);
    struct zt_onnx *model = with_payload(&graph, "c", (float[]){ 7, 8 });
    ck_assert_mem_eq(zt_node_attr(model->graph->nodes[0], "value")->tensor.data, ((float[]){ 7, 8 }), 8);
    zt_onnx_destroy(model);
}
END_TEST

START_TEST(a_payload_for_nothing_is_refused_and_leaves_no_file) {
    struct zt_text graph = { 0 };
    struct zt_err err = { 0 };
    put_sum(&graph);
    char *in = write_model(&graph);
    struct zt_onnx *model = zt_onnx_read(in, ZT_WEIGHTS_MAPPED, &err);
    struct zt_onnx_changes changes = { .payloads = &(struct zt_onnx_payload){ "y", "" }, .payload_count = 1 };
    struct zt_text out = { 0 };
    zt_text_add(&out, "%s.onnx", in);
    ck_assert(!zt_onnx_write(model, out.at, &changes, &err));
    ck_assert_msg(strstr(err.text[0], "\"y\" is no initializer"), "%s", err.text[0]);
    ck_assert(!zt_file_exists(out.at));
    zt_text_finish(&out);
    zt_onnx_destroy(model);
    remove_file(in);
}
END_TEST

/* ---- nodes ---- */

START_TEST(aliases_become_initializers_and_their_nodes_go) {
    struct zt_text graph = { 0 };
    put_sum(&graph);
    put_node(&graph, "copy", "Identity", "w", NULL, "w2", NULL);
    put_node(&graph, "copy of copy", "Identity", "w2", NULL, "w3", NULL);
    put_node(&graph, "mul", "Mul", "w2", "w3", "z", NULL);
    struct zt_onnx_changes changes = { .aliases = (const char *const[]){ "w3", "w2" }, .alias_count = 2 };
    changes.payloads = (const struct zt_onnx_payload[]){ { "w", (float[]){ 5, 6 } }, { "w3", (float[]){ 7, 8 } } };
    changes.payload_count = 2;
    struct zt_onnx *model = rewritten(&graph, &changes);
    ck_assert_int_eq(model->graph->node_count, 2);
    ck_assert_mem_eq(data_of(model, "w"), ((float[]){ 5, 6 }), 8);
    ck_assert_mem_eq(data_of(model, "w2"), ((float[]){ 1, 2 }), 8); /* no payload: what the source held before */
    ck_assert_mem_eq(data_of(model, "w3"), ((float[]){ 7, 8 }), 8);
    zt_onnx_destroy(model);
}
END_TEST

/* A BatchNormalization in training mode with outputs y, mean, variance. */
static void put_training_node(struct zt_text *graph) {
    struct zt_text node = { 0 }, mode = { 0 }, momentum = { 0 };
    put_string(&momentum, 1, "momentum");
    put_int(&momentum, 20, 1);
    zt_text_add_bytes(&momentum, "\x15\0\0\0\x3f", 5);
    put_string(&mode, 1, "training_mode");
    put_int(&mode, 20, 2);
    put_int(&mode, 3, 1);
    put_string(&node, 1, "w");
    put_string(&node, 2, "y");
    put_string(&node, 2, "mean");
    put_string(&node, 2, "variance");
    put_string(&node, 4, "BatchNormalization");
    put_message(&node, 5, &mode);
    put_message(&node, 5, &momentum);
    put_message(graph, 1, &node);
    put_floats(graph, "w", (const float[]){ 1, 2 }, 2);
    put_value(graph, 13, "mean");
    put_value(graph, 13, "y");
    put_value(graph, 12, "y");
}

START_TEST(a_training_node_goes_back_to_inference_form) {
    struct zt_text graph = { 0 };
    put_training_node(&graph);
    struct zt_onnx_changes changes = { .inference_nodes = (struct zt_onnx_inference[]){ { 0 } },
                                       .inference_node_count = 1 };
    struct zt_onnx *model = rewritten(&graph, &changes);
    const struct zt_node *node = model->graph->nodes[0];
    ck_assert_int_eq(node->out_count, 1);
    ck_assert_int_eq(node->attr_count, 1);
    ck_assert_float_eq(zt_attr_float(node, "momentum", 0), 0.5f);
    ck_assert_int_eq(zt_graph_find(model->graph, "mean"), -1);
    zt_onnx_destroy(model);
}
END_TEST

START_TEST(a_training_node_whose_statistics_are_read_stays) {
    struct zt_text graph = { 0 };
    put_training_node(&graph);
    put_node(&graph, "reader", "Relu", "variance", NULL, "z", NULL);
    struct zt_onnx_changes changes = { .inference_nodes = (struct zt_onnx_inference[]){ { 0 } },
                                       .inference_node_count = 1 };
    struct zt_onnx *model = rewritten(&graph, &changes);
    ck_assert_int_eq(model->graph->nodes[0]->out_count, 3);
    zt_onnx_destroy(model);
}
END_TEST

/* ---- external data ---- */

START_TEST(external_data_go_to_one_new_file) {
    struct zt_text graph = { 0 }, bytes = { 0 };
    zt_text_add_bytes(&bytes, (float[]){ 1, 2, 3, 4 }, 16);
    char *file = write_file(&bytes);
    for (int i = 0; i < 2; i++) {
        struct zt_text tensor = { 0 };
        const char *const entries[][2] = { { "location", zt_path_name(file) },
                                           { "offset", i ? "8" : "0" },
                                           { "length", "8" } };
        put_int(&tensor, 1, 2);
        put_int(&tensor, 2, ZT_FLOAT);
        put_string(&tensor, 8, i ? "second" : "first");
        for (int e = 0; e < 3; e++) {
            struct zt_text entry = { 0 };
            put_string(&entry, 1, entries[e][0]);
            put_string(&entry, 2, entries[e][1]);
            put_message(&tensor, 13, &entry);
        }
        put_int(&tensor, 14, 1);
        put_message(&graph, 5, &tensor);
    }
    struct zt_onnx *model = with_payload(&graph, "second", (float[]){ 7, 8 });
    ck_assert_mem_eq(data_of(model, "first"), ((float[]){ 1, 2 }), 8);
    ck_assert_mem_eq(data_of(model, "second"), ((float[]){ 7, 8 }), 8);
    zt_onnx_destroy(model);
    remove_file(file);
    zt_text_finish(&bytes);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("write");
    tcase_add_test(cases, a_model_without_changes_is_written_byte_for_byte);
    tcase_add_test(cases, raw_data_are_replaced);
    tcase_add_test(cases, typed_data_are_replaced_in_their_own_field);
    tcase_add_test(cases, the_tensor_of_a_constant_node_is_replaced);
    tcase_add_test(cases, a_payload_for_nothing_is_refused_and_leaves_no_file);
    tcase_add_test(cases, aliases_become_initializers_and_their_nodes_go);
    tcase_add_test(cases, a_training_node_goes_back_to_inference_form);
    tcase_add_test(cases, a_training_node_whose_statistics_are_read_stays);
    tcase_add_test(cases, external_data_go_to_one_new_file);
    return run_cases("onnx_write", cases);
}
