#include "build.h"
#include "graph/onnx/edit.h"
#include "graph/onnx/scan.h"

#include "onnx.pb-c.h"

#include <stdlib.h>
#include <string.h>

static bool scan_text(struct zt_onnx_scan *scan, const struct zt_text *text, struct zt_err *err) {
    return zt_onnx_scan(scan, (const unsigned char *)text->at, text->length, &onnx__model_proto__descriptor,
                        ZT_EXIT_MODEL, err);
}

/* Scans the bytes (freed), which must be refused with these words. */
static void refuse(struct zt_text *text, const char *words) {
    struct zt_onnx_scan scan = { 0 };
    struct zt_err err = { 0 };
    ck_assert(!scan_text(&scan, text, &err));
    ck_assert_msg(strstr(err.text[0], words) != NULL, "\"%s\" lacks \"%s\"", err.text[0], words);
    ck_assert_int_eq(err.code, ZT_EXIT_MODEL);
    zt_onnx_scan_finish(&scan);
    zt_text_finish(text);
}

/* `depth` graphs inside each other, each in an attribute of a node of the one around it. */
static struct zt_text nested(int depth) {
    struct zt_text graph = { 0 }, model = { 0 };
    for (int i = 0; i < depth; i++) {
        struct zt_text attribute = { 0 }, node = { 0 };
        put_message(&attribute, 6, &graph);
        put_message(&node, 5, &attribute);
        put_message(&graph, 1, &node);
    }
    put_message(&model, 7, &graph);
    return model;
}

START_TEST(thirty_subgraphs_inside_each_other_pass_and_forty_do_not) {
    struct zt_onnx_scan scan = { 0 };
    struct zt_err err = { 0 };
    struct zt_text text = nested(30);
    ck_assert_msg(scan_text(&scan, &text, &err), "%s", err.text[0]);
    zt_onnx_scan_finish(&scan);
    zt_text_finish(&text);
    text = nested(40);
    refuse(&text, "nested too deep");
}
END_TEST

START_TEST(an_empty_file_and_a_text_are_no_protobuf) {
    struct zt_text text = { 0 };
    zt_text_add_bytes(&text, "", 0);
    refuse(&text, "is empty");
    zt_text_add(&text, "This is not a model.");
    refuse(&text, "does not parse as an ONNX protobuf");
}
END_TEST

START_TEST(a_file_cut_anywhere_in_its_graph_is_truncated) {
    struct zt_text graph = { 0 }, model = { 0 };
    put_sum(&graph);
    put_header(&model, 8);
    size_t head = model.length + 2;
    put_message(&model, 7, &graph);
    for (size_t length = head; length < model.length; length++) {
        struct zt_text part = { 0 };
        zt_text_add_bytes(&part, model.at, length);
        refuse(&part, "is truncated");
    }
    zt_text_finish(&model);
}
END_TEST

START_TEST(a_length_that_leaves_its_message_is_found_inside_too) {
    struct zt_text graph = { 0 }, model = { 0 };
    put_sum(&graph);
    graph.at[1] += 100; /* the length of the first node */
    put_message(&model, 7, &graph);
    put_header(&model, 8);
    refuse(&model, "a length that runs past the end (node of GraphProto)");
}
END_TEST

START_TEST(a_second_graph_is_refused) {
    struct zt_text model = { 0 };
    for (int i = 0; i < 2; i++) {
        struct zt_text graph = { 0 };
        put_sum(&graph);
        put_message(&model, 7, &graph);
    }
    refuse(&model, "a field for the second time (graph of ModelProto)");
}
END_TEST

START_TEST(a_field_of_another_wire_type_is_refused) {
    struct zt_text model = { 0 };
    put_string(&model, 1, "eight");
    refuse(&model, "another type than ONNX gives it (ir_version of ModelProto)");
    put_int(&model, 1, 8);
    zt_text_add_bytes(&model, "\x13\x14", 2); /* groups */
    refuse(&model, "a wire type that ONNX does not have");
}
END_TEST

START_TEST(a_file_that_unpacks_to_gigabytes_is_refused) {
    struct zt_text graph = { 0 }, model = { 0 };
    size_t empty_nodes = 12u << 20; /* two bytes each in the file, some hundred unpacked */
    char *bytes = zt_malloc(2 * empty_nodes);
    for (size_t i = 0; i < empty_nodes; i++)
        memcpy(bytes + 2 * i, "\x0a\x00", 2);
    zt_text_add_bytes(&graph, bytes, 2 * empty_nodes);
    free(bytes);
    put_message(&model, 7, &graph);
    refuse(&model, "too large to unpack");
}
END_TEST

START_TEST(payloads_are_located_and_left_out_of_what_is_unpacked) {
    struct zt_text graph = { 0 }, model = { 0 };
    put_sum(&graph);
    put_message(&model, 7, &graph);
    struct zt_onnx_scan scan = { 0 };
    struct zt_err err = { 0 };
    ck_assert(scan_text(&scan, &model, &err));
    ck_assert_int_eq(scan.pieces.count, 2);
    ck_assert_mem_eq(scan.file + scan.pieces.at[1].data, ((float[]){ 3, 4 }), 8);
    Onnx__ModelProto *m = (Onnx__ModelProto *)zt_onnx_unpack(&scan, ZT_EXIT_MODEL, &err);
    ck_assert_ptr_nonnull(m);
    ck_assert_uint_eq(m->graph->n_initializer, 2);
    ck_assert_str_eq(m->graph->initializer[1]->name, "b");
    ck_assert_uint_eq(m->graph->initializer[1]->raw_data.len, 0);
    protobuf_c_message_free_unpacked(&m->base, NULL);
    zt_onnx_scan_finish(&scan);
    zt_text_finish(&model);
}
END_TEST

/* The model after the edits, as bytes. */
static struct zt_text edited(struct zt_onnx_edits *edits) {
    struct zt_text out = { 0 };
    char *bytes;
    size_t count;
    FILE *to = open_memstream(&bytes, &count);
    uint64_t size = zt_onnx_edit_size(edits);
    zt_onnx_edit_write(edits, to);
    fclose(to);
    ck_assert_uint_eq(count, size);
    zt_text_add_bytes(&out, bytes, count);
    free(bytes);
    zt_onnx_edit_finish(edits);
    return out;
}

START_TEST(edits_mend_the_lengths_around_them) {
    struct zt_text graph = { 0 }, model = { 0 }, wanted_graph = { 0 }, wanted = { 0 };
    float big[100] = { 1 };
    put_sum(&graph);
    put_message(&model, 7, &graph);
    put_node(&wanted_graph, "add", "Add", "w", "b", "y", NULL);
    struct zt_text tensor = { 0 };
    put_int(&tensor, 1, 2);
    put_int(&tensor, 2, ZT_FLOAT);
    put_string(&tensor, 8, "w");
    put_bytes(&tensor, 9, big, sizeof big); /* its length and those around it take a byte more */
    put_message(&wanted_graph, 5, &tensor);
    put_value(&wanted_graph, 12, "y");
    put_message(&wanted, 7, &wanted_graph);
    struct zt_onnx_scan scan = { 0 };
    struct zt_err err = { 0 };
    ck_assert(scan_text(&scan, &model, &err));
    struct zt_onnx_edits edits = { .scan = &scan };
    int w = 0;
    while (scan.messages.at[w].type != &onnx__tensor_proto__descriptor)
        w++;
    struct zt_text field = { 0 };
    put_bytes(&field, 9, big, sizeof big);
    zt_onnx_edit_drop(&edits, w + 1);
    zt_onnx_edit_replace(&edits, w, scan.pieces.at[0].at, scan.pieces.at[0].end, field.at, field.length);
    struct zt_text out = edited(&edits);
    ck_assert_uint_eq(out.length, wanted.length);
    ck_assert_mem_eq(out.at, wanted.at, wanted.length);
    zt_text_finish(&field);
    zt_text_finish(&out);
    zt_text_finish(&model);
    zt_text_finish(&wanted);
    zt_onnx_scan_finish(&scan);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("scan");
    tcase_add_test(cases, thirty_subgraphs_inside_each_other_pass_and_forty_do_not);
    tcase_add_test(cases, an_empty_file_and_a_text_are_no_protobuf);
    tcase_add_test(cases, a_file_cut_anywhere_in_its_graph_is_truncated);
    tcase_add_test(cases, a_length_that_leaves_its_message_is_found_inside_too);
    tcase_add_test(cases, a_second_graph_is_refused);
    tcase_add_test(cases, a_field_of_another_wire_type_is_refused);
    tcase_add_test(cases, a_file_that_unpacks_to_gigabytes_is_refused);
    tcase_add_test(cases, payloads_are_located_and_left_out_of_what_is_unpacked);
    tcase_add_test(cases, edits_mend_the_lengths_around_them);
    return run_cases("onnx_scan", cases);
}
