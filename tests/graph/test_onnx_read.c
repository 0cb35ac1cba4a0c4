#include "build.h"
#include "base/arena.h"
#include "base/file.h"
#include "reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct zt_onnx *read_good(struct zt_text *graph) {
    struct zt_err err = { 0 };
    struct zt_onnx *model = read_file(write_model(graph), &err);
    ck_assert_msg(model != NULL, "%s", err.text[0]);
    return model;
}

/* Adds an initializer with data in field `field`: bytes as they are. */
static void put_tensor(struct zt_text *graph, const char *name, uint64_t type, uint64_t dim, unsigned field,
                       const void *bytes, size_t count) {
    struct zt_text tensor = { 0 };
    put_int(&tensor, 1, dim);
    put_int(&tensor, 2, type);
    put_string(&tensor, 8, name);
    if (field)
        put_bytes(&tensor, field, bytes, count);
    put_message(graph, 5, &tensor);
}

static const struct zt_value *value(const struct zt_onnx *model, const char *name) {
    int id = zt_graph_find(model->graph, name);
    ck_assert_msg(id >= 0, "no value %s", name);
    return model->graph->values[id];
}

START_TEST(a_sum_of_two_initializers_is_read) {
    struct zt_text graph = { 0 };
    put_sum(&graph);
    struct zt_onnx *model = read_good(&graph);
    ck_assert_int_eq(model->ir_version, 8);
    ck_assert_int_eq(model->opset_count, 1);
    ck_assert_int_eq(model->graph->node_count, 1);
    ck_assert_str_eq(model->graph->nodes[0]->name, "add");
    ck_assert_int_eq(model->graph->nodes[0]->opset, 17);
    ck_assert_int_eq(model->graph->input_count, 0);
    ck_assert_int_eq(model->graph->output_count, 1);
    ck_assert_int_eq(value(model, "w")->origin, ZT_FROM_INITIALIZER);
    ck_assert_mem_eq(value(model, "b")->data, ((float[]){ 3, 4 }), 8);
    ck_assert_int_eq(value(model, "b")->shape.dim[0], 2);
    zt_onnx_destroy(model);
}
END_TEST

START_TEST(typed_data_fields_are_decoded) {
    struct zt_text graph = { 0 };
    const double d[] = { 0.5, -2 };
    put_tensor(&graph, "f", ZT_FLOAT, 1, 4, (const float[]){ 1.5f }, 4);
    put_tensor(&graph, "d", ZT_DOUBLE, 2, 10, d, 16);
    put_tensor(&graph, "i8", ZT_INT8, 2, 5, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x7f", 11); /* -1, 127 */
    put_tensor(&graph, "i64", ZT_INT64, 2, 7, "\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x80\x02", 12);
    put_tensor(&graph, "u32", ZT_UINT32, 1, 11, "\xff\xff\xff\xff\x0f", 5);
    put_tensor(&graph, "half", ZT_FLOAT16, 2, 5, "\x80\x78\x80\x80\x03", 5); /* 0x3c00, 0xc000 */
    put_tensor(&graph, "bool", ZT_BOOL, 3, 5, "\x01\x00\x01", 3);
    struct zt_onnx *model = read_good(&graph);
    ck_assert_double_eq(zt_load_double(ZT_FLOAT, value(model, "f")->data, 0), 1.5);
    ck_assert_double_eq(zt_load_double(ZT_DOUBLE, value(model, "d")->data, 1), -2);
    ck_assert_int_eq(zt_load_int(ZT_INT8, value(model, "i8")->data, 0), -1);
    ck_assert_int_eq(zt_load_int(ZT_INT8, value(model, "i8")->data, 1), 127);
    ck_assert_int_eq(zt_load_int(ZT_INT64, value(model, "i64")->data, 0), -2);
    ck_assert_int_eq(zt_load_int(ZT_INT64, value(model, "i64")->data, 1), 256);
    ck_assert_int_eq(zt_load_int(ZT_UINT32, value(model, "u32")->data, 0), UINT32_MAX);
    ck_assert_double_eq(zt_load_double(ZT_FLOAT16, value(model, "half")->data, 0), 1);
    ck_assert_double_eq(zt_load_double(ZT_FLOAT16, value(model, "half")->data, 1), -2);
    ck_assert_int_eq(zt_load_int(ZT_BOOL, value(model, "bool")->data, 2), 1);
    zt_onnx_destroy(model);
}
END_TEST

START_TEST(numbers_may_be_packed_or_not) {
    struct zt_text graph = { 0 }, tensor = { 0 };
    put_bytes(&tensor, 1, "\x02\x02", 2); /* dims [2, 2], packed */
    put_int(&tensor, 2, ZT_INT64);
    put_string(&tensor, 8, "n");
    put_int(&tensor, 7, 5);
    put_int(&tensor, 7, (uint64_t)-6);
    put_bytes(&tensor, 7, "\x07\x08", 2);
    put_message(&graph, 5, &tensor);
    struct zt_onnx *model = read_good(&graph);
    ck_assert_int_eq(value(model, "n")->shape.rank, 2);
    ck_assert_mem_eq(value(model, "n")->data, ((int64_t[]){ 5, -6, 7, 8 }), 32);
    zt_onnx_destroy(model);
}
END_TEST

START_TEST(texts_are_kept_without_data_and_narrow_elements_take_a_byte_each) {
    struct zt_text graph = { 0 };
    put_tensor(&graph, "words", ZT_STRING, 1, 6, "one", 3);
    put_tensor(&graph, "int4", 22, 3, 9, "\x21\x03", 2);
    struct zt_onnx *model = read_good(&graph);
    ck_assert_ptr_null(value(model, "words")->data);
    ck_assert_int_eq(value(model, "int4")->dtype, 22);
    ck_assert_mem_eq(value(model, "int4")->data, "\1\2\3", 3);
    zt_onnx_destroy(model);
}
END_TEST

static void refuse_tensor(uint64_t type, uint64_t dim, unsigned field, size_t count, const char *words) {
    static const char zeros[64];
    struct zt_text graph = { 0 };
    put_tensor(&graph, "w1", type, dim, field, zeros, count);
    refuse_graph(&graph, words);
}

START_TEST(tensors_that_contradict_themselves_are_refused_by_name) {
    refuse_tensor(ZT_FLOAT, 16, 9, 60, "tensor \"w1\": has data of 60 bytes, float [16] wants 64");
    refuse_tensor(ZT_FLOAT, 16, 4, 60, "tensor \"w1\": has data of 15 elements, dims want 16");
    refuse_tensor(ZT_FLOAT, 1, 4, 3, "has data of 3 bytes, not a multiple of 4");
    refuse_tensor(ZT_FLOAT, 3, 7, 3, "has data in int64_data, which its type does not use");
    refuse_tensor(ZT_INT64, (uint64_t)-1, 7, 3, "tensor \"w1\": dim 0 is -1, wants 0 or more");
    refuse_tensor(ZT_FLOAT, UINT64_C(1) << 60, 0, 0, "dims whose product is over");
    refuse_tensor(ZT_FLOAT, UINT64_C(1) << 40, 0, 0, "has data of 0 bytes, float [1099511627776] wants 4398046511104");
    refuse_tensor(77, 1, 9, 1, "tensor \"w1\": has data type 77, which ONNX does not have");
    refuse_tensor(ZT_STRING, 2, 6, 1, "has 1 strings, dims want 2");
}
END_TEST

START_TEST(a_tensor_without_elements_needs_no_data) {
    struct zt_text graph = { 0 };
    put_tensor(&graph, "empty", ZT_FLOAT, 0, 0, NULL, 0);
    struct zt_onnx *model = read_good(&graph);
    ck_assert_int_eq(zt_shape_count(&value(model, "empty")->shape), 0);
    zt_onnx_destroy(model);
}
END_TEST

START_TEST(names_must_be_one_things_name) {
    struct zt_text graph = { 0 };
    put_sum(&graph);
    put_node(&graph, "again", "Relu", "w", NULL, "y", NULL);
    refuse_graph(&graph, "output \"y\" is already written by");
    put_sum(&graph);
    put_floats(&graph, "w", (const float[]){ 1 }, 1);
    refuse_graph(&graph, "tensor \"w\": two initializers have this name");
    put_sum(&graph);
    put_node(&graph, "over", "Relu", "b", NULL, "w", NULL);
    refuse_graph(&graph, "output \"w\" is already an initializer");
    put_sum(&graph);
    put_value(&graph, 11, "x");
    put_value(&graph, 11, "x");
    refuse_graph(&graph, "input \"x\": two inputs have this name");
    put_sum(&graph);
    put_node(&graph, "reader", "Relu", "nothing", NULL, "z", NULL);
    refuse_graph(&graph, "reader (Relu): input \"nothing\" is not the output of any node");
    put_sum(&graph);
    put_value(&graph, 12, "nowhere");
    refuse_graph(&graph, "output \"nowhere\" is not the output of any node");
}
END_TEST

START_TEST(sparse_initializers_are_constants_with_zeros_between) {
    const int64_t numbers[] = { 1, 5 }, places[] = { 0, 1, 1, 2 };
    for (int rank = 1; rank <= 2; rank++) {
        struct zt_text graph = { 0 };
        put_sparse(&graph, 15, rank == 1 ? numbers : places, rank);
        struct zt_onnx *model = read_good(&graph);
        ck_assert_int_eq(value(model, "s")->origin, ZT_FROM_CONSTANT);
        ck_assert_int_eq(value(model, "s")->shape.rank, 2);
        ck_assert_mem_eq(value(model, "s")->data, ((float[]){ 0, 1.5f, 0, 0, 0, -2 }), 24);
        zt_onnx_destroy(model);
    }
}
END_TEST

static void refuse_sparse(const int64_t *indices, int rank, const char *words) {
    struct zt_text graph = { 0 };
    put_sparse(&graph, 15, indices, rank);
    refuse_graph(&graph, words);
}

START_TEST(a_sparse_attribute_is_written_out) {
    struct zt_text graph = { 0 }, a = { 0 };
    put_string(&a, 1, "sparse_value");
    put_int(&a, 20, 11);
    put_sparse(&a, 22, (const int64_t[]){ 0, 2 }, 1);
    put_node(&graph, "constant", "Constant", NULL, NULL, "c", &a);
    struct zt_onnx *model = read_good(&graph);
    const struct zt_attr *sparse = zt_node_attr(model->graph->nodes[0], "sparse_value");
    ck_assert_int_eq(sparse->type, ZT_ATTR_TENSOR);
    ck_assert_mem_eq(sparse->tensor.data, ((float[]){ 1.5f, 0, -2, 0, 0, 0 }), 24);
    ck_assert(!zt_onnx_stores(model, "c"));
    zt_onnx_destroy(model);
}
END_TEST

START_TEST(sparse_initializers_that_do_not_fit_are_refused_by_name) {
    refuse_sparse((const int64_t[]){ 1, 6 }, 1, "tensor \"s\": index 1 is outside of its dims");
    refuse_sparse((const int64_t[]){ 0, 1, 0, -1 }, 2, "tensor \"s\": index 1 is outside of its dims");
    refuse_sparse((const int64_t[]){ 5, 5 }, 1, "tensor \"s\": index 1 is not behind the one before it");
    struct zt_text graph = { 0 }, sparse = { 0 }, empty = { 0 }, at = { 0 };
    put_int(&empty, 1, 0);
    put_int(&empty, 2, ZT_FLOAT);
    put_string(&empty, 8, "s");
    put_int(&at, 1, 0);
    put_int(&at, 2, ZT_INT64);
    put_message(&sparse, 1, &empty);
    put_message(&sparse, 2, &at);
    put_int(&sparse, 3, UINT64_C(1) << 38);
    put_message(&graph, 15, &sparse);
    refuse_graph(&graph, "tensor \"s\": takes more than 1024 MiB, written out as [274877906944]");
    put_string(&empty, 8, "s");
    put_message(&sparse, 1, &empty);
    put_message(&graph, 15, &sparse);
    refuse_graph(&graph, "tensor \"s\": has no indices");
}
END_TEST

START_TEST(a_cycle_is_refused_and_another_order_is_sorted) {
    struct zt_text graph = { 0 };
    put_node(&graph, "second", "Relu", "a", NULL, "b", NULL);
    put_node(&graph, "first", "Relu", "w", NULL, "a", NULL);
    put_floats(&graph, "w", (const float[]){ 1 }, 1);
    struct zt_onnx *model = read_good(&graph);
    ck_assert_str_eq(model->graph->nodes[0]->name, "first");
    ck_assert_int_eq(model->graph->nodes[0]->file_index, 1);
    zt_onnx_destroy(model);
    put_node(&graph, "second", "Relu", "a", NULL, "b", NULL);
    put_node(&graph, "first", "Relu", "b", NULL, "a", NULL);
    refuse_graph(&graph, "cycle");
}
END_TEST

START_TEST(nodes_without_a_name_get_one_of_their_own) {
    struct zt_text graph = { 0 };
    put_floats(&graph, "w", (const float[]){ 1 }, 1);
    put_node(&graph, "", "Relu", "w", NULL, "a", NULL);
    put_node(&graph, "Relu -> a", "Relu", "w", NULL, "b", NULL);
    struct zt_onnx *model = read_good(&graph);
    ck_assert_str_eq(model->graph->nodes[0]->name, "Relu -> a");
    ck_assert_str_eq(model->graph->nodes[1]->name, "Relu -> a #1");
    zt_onnx_destroy(model);
}
END_TEST

static void refuse_attribute(struct zt_text *attribute, const char *words) {
    struct zt_text graph = { 0 };
    put_floats(&graph, "w", (const float[]){ 1 }, 1);
    put_node(&graph, "relu", "Relu", "w", NULL, "y", attribute);
    refuse_graph(&graph, words);
}

START_TEST(an_attributes_type_says_what_it_holds) {
    struct zt_text a = { 0 };
    put_string(&a, 1, "axis");
    put_int(&a, 3, 1);
    refuse_attribute(&a, "relu (Relu): attribute axis has type 0, wants 1 to 14");
    put_string(&a, 1, "axis");
    put_int(&a, 20, 7);
    put_int(&a, 3, 1);
    refuse_attribute(&a, "attribute axis has type INTS but holds INT");
    put_string(&a, 1, "value");
    put_int(&a, 20, 4);
    refuse_attribute(&a, "attribute value has type TENSOR but holds nothing");
    put_string(&a, 1, "axis");
    put_int(&a, 20, 2);
    put_string(&a, 21, "outer");
    refuse_attribute(&a, "attribute axis refers to attribute outer of a function");
    put_int(&a, 20, 2);
    refuse_attribute(&a, "an attribute has no name");
}
END_TEST

START_TEST(attributes_come_with_their_contents) {
    struct zt_text graph = { 0 }, a = { 0 }, tensor = { 0 };
    put_string(&a, 1, "value");
    put_int(&a, 20, 4);
    put_int(&tensor, 2, ZT_INT64);
    put_int(&tensor, 7, 42);
    put_message(&a, 5, &tensor);
    put_node(&graph, "constant", "Constant", NULL, NULL, "c", &a);
    put_string(&a, 1, "axes");
    put_int(&a, 20, 7);
    put_int(&a, 8, 1);
    put_int(&a, 8, (uint64_t)-1);
    put_node(&graph, "sum", "ReduceSum", "c", NULL, "y", &a);
    struct zt_onnx *model = read_good(&graph);
    const struct zt_attr *value_attr = zt_node_attr(model->graph->nodes[0], "value");
    ck_assert_int_eq(value_attr->tensor.shape.rank, 0);
    ck_assert_int_eq(zt_load_int(ZT_INT64, value_attr->tensor.data, 0), 42);
    int count;
    const int64_t *axes = zt_attr_ints(model->graph->nodes[1], "axes", &count);
    ck_assert_int_eq(count, 2);
    ck_assert_int_eq(axes[1], -1);
    ck_assert(zt_onnx_stores(model, "c"));
    zt_onnx_destroy(model);
}
END_TEST

START_TEST(of_several_versions_of_a_domain_the_highest_counts) {
    struct zt_text model = { 0 }, graph = { 0 }, opset = { 0 };
    const uint64_t versions[] = { 12, 19, 0, 7 };
    struct zt_err err = { 0 };
    put_int(&model, 1, 8);
    for (int i = 0; i < 4; i++) {
        put_string(&opset, 1, i == 1 ? "ai.onnx" : "");
        put_int(&opset, 2, versions[i]);
        put_message(&model, 8, &opset);
    }
    put_sum(&graph);
    put_message(&model, 7, &graph);
    struct zt_onnx *read = read_file(write_file(&model), &err);
    zt_text_finish(&model);
    ck_assert_msg(read != NULL, "%s", err.text[0]);
    ck_assert_int_eq(read->opset_count, 1);
    ck_assert_int_eq(read->opsets[0].version, 19);
    ck_assert_int_eq(read->graph->nodes[0]->opset, 19);
    zt_onnx_destroy(read);
}
END_TEST

START_TEST(headers_that_cannot_be_understood_are_refused) {
    static const struct {
        uint64_t ir, opset; /* 0: no import */
        bool graph;
        const char *words;
    } rows[] = { { 2, 17, true, "IR version is 2, wants 3 to 14" },
                 { 15, 17, true, "IR version is 15, wants 3 to 14" },
                 { 8, 0, true, "no opset import" },
                 { 8, (uint64_t)1 << 40, true, "opset 1099511627776 of domain \"\" is newer than any" },
                 { 8, 17, false, "holds no graph" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct zt_text model = { 0 }, graph = { 0 }, opset = { 0 };
        struct zt_err err = { 0 };
        put_int(&model, 1, rows[i].ir);
        put_int(&opset, 2, rows[i].opset);
        if (rows[i].opset)
            put_message(&model, 8, &opset);
        else
            zt_text_finish(&opset);
        put_sum(&graph);
        if (rows[i].graph)
            put_message(&model, 7, &graph);
        ck_assert_ptr_null(read_file(write_file(&model), &err));
        ck_assert_msg(strstr(err.text[0], rows[i].words) != NULL, "%s", err.text[0]);
        zt_text_finish(&model);
        zt_text_finish(&graph);
    }
}
END_TEST

START_TEST(an_input_with_an_initializer_is_no_input) {
    struct zt_text graph = { 0 };
    put_sum(&graph);
    put_value(&graph, 11, "w");
    put_value(&graph, 11, "x");
    struct zt_onnx *model = read_good(&graph);
    ck_assert_int_eq(model->graph->input_count, 1);
    ck_assert_str_eq(model->graph->values[model->graph->inputs[0]]->name, "x");
    ck_assert_int_eq(value(model, "w")->origin, ZT_FROM_INITIALIZER);
    zt_onnx_destroy(model);
}
END_TEST

/* A TensorProto of 4 floats outside, with these entries. */
static void put_external(struct zt_text *graph, const char *location, const char *offset, const char *length) {
    const char *const entries[][2] = { { "location", location }, { "offset", offset }, { "length", length } };
    struct zt_text tensor = { 0 };
    put_int(&tensor, 1, 4);
    put_int(&tensor, 2, ZT_FLOAT);
    put_string(&tensor, 8, "w1");
    for (int i = 0; i < 3; i++) {
        struct zt_text entry = { 0 };
        if (!entries[i][1])
            continue;
        put_string(&entry, 1, entries[i][0]);
        put_string(&entry, 2, entries[i][1]);
        put_message(&tensor, 13, &entry);
    }
    put_int(&tensor, 14, 1);
    put_message(graph, 5, &tensor);
}

START_TEST(external_data_are_found_checked_and_confined) {
    const float data[] = { 0, 1, 2, 3, 4 };
    struct zt_text bytes = { 0 }, graph = { 0 };
    zt_text_add_bytes(&bytes, data, sizeof data);
    char *file = write_file(&bytes);
    const char *name = zt_path_name(file);
    put_external(&graph, name, "4", "16");
    struct zt_onnx *model = read_good(&graph);
    ck_assert_mem_eq(value(model, "w1")->data, data + 1, 16);
    zt_onnx_destroy(model);
    put_external(&graph, name, "8", NULL);
    refuse_graph(&graph, "tensor \"w1\": external data of 16 bytes at offset 8 run past the end of");
    put_external(&graph, name, "18446744073709551615", NULL);
    refuse_graph(&graph, "run past the end");
    put_external(&graph, name, "-1", NULL);
    refuse_graph(&graph, "external data offset is \"-1\"");
    put_external(&graph, name, "0", "20");
    refuse_graph(&graph, "have length 20, dims and type want 16");
    put_external(&graph, NULL, "0", "16");
    refuse_graph(&graph, "external data have no location");
    put_external(&graph, file, "0", "16");
    refuse_graph(&graph, "is an absolute path");
    put_external(&graph, "../x", "0", "16");
    refuse_graph(&graph, "is not a path inside the model's folder");
    remove_file(file);
    zt_text_finish(&bytes);
}
END_TEST

START_TEST(plans_need_no_external_files) {
    struct zt_text graph = { 0 };
    struct zt_err err = { 0 };
    put_external(&graph, "no-such-file-here.bin", "0", "16");
    char *path = write_model(&graph);
    ck_assert_ptr_null(zt_onnx_read(path, ZT_WEIGHTS_MAPPED, &err));
    struct zt_onnx *model = zt_onnx_read(path, ZT_WEIGHTS_ABSENT_OK, &err);
    ck_assert_ptr_nonnull(model);
    ck_assert_ptr_null(value(model, "w1")->data);
    zt_onnx_destroy(model);
    remove_file(path);
}
END_TEST

START_TEST(a_tensor_file_comes_back_as_it_was_written) {
    struct zt_arena *arena = zt_arena_create();
    struct zt_err err = { 0 };
    struct zt_text empty = { 0 };
    char *path = write_file(&empty);
    for (enum zt_dtype dtype = ZT_FLOAT; dtype < ZT_DTYPES; dtype++) {
        if (!zt_dtype_bytes(dtype))
            continue;
        unsigned char data[48];
        const char *name;
        const int bits = zt_dtype_bits(dtype); /* of a byte, in narrow types */
        for (int i = 0; i < 48; i++)
            data[i] = (unsigned char)((37 * i + 1) & (bits < 8 ? (1 << bits) - 1 : 255));
        struct zt_tensor out, in = { dtype, { .rank = 2, .dim = { 2, 3 } }, data };
        ck_assert_msg(zt_onnx_write_tensor(path, "name", &in, &err), "%s", err.text[0]);
        ck_assert_msg(zt_onnx_read_tensor(path, arena, &out, &name, ZT_EXIT_DATA, &err), "%s", err.text[0]);
        ck_assert_str_eq(name, "name");
        ck_assert_int_eq(out.dtype, dtype);
        ck_assert(zt_shape_equal(&out.shape, &in.shape));
        ck_assert_mem_eq(out.data, data, 6 * zt_dtype_bytes(dtype));
    }
    remove_file(path);
    zt_arena_destroy(arena);
}
END_TEST

/* Reads a file of tests/reference/bad; NULL where it is refused, with the message in `err`. */
static struct zt_onnx *read_bad(const char *name, struct zt_err *err) {
    struct zt_text file = { 0 };
    zt_text_add(&file, "bad/%s", name);
    char *path = zt_test_reference(file.at);
    struct zt_onnx *model = zt_onnx_read(path, ZT_WEIGHTS_MAPPED, err);
    free(path);
    zt_text_finish(&file);
    return model;
}

START_TEST(the_references_bad_models_are_refused_by_name) {
    static const char *const rows[][2] = {
        { "models/cycle.onnx", "cycle" },
        { "models/duplicate_output.onnx", "relu_out" },
        { "models/external_absolute.onnx", "w1" },
        { "models/external_offset.onnx", "weights_small.bin" },
        { "models/external_traversal.onnx", "w1" },
        { "models/huge_dims.onnx", "w1" },
        { "models/missing_input.onnx", "no_such_tensor" },
        { "models/negative_dims.onnx", "w1" },
        { "models/nested_if_3000.onnx", "nested too deep" },
        { "models/not_protobuf.onnx", "protobuf" },
        { "models/raw_data_short.onnx", "w1" },
        { "models/truncated.onnx", "is truncated" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct zt_err err = { 0 };
        ck_assert_ptr_null(read_bad(rows[i][0], &err));
        ck_assert_int_eq(err.code, ZT_EXIT_MODEL);
        const char *message = strstr(err.text[0], ".onnx: ");
        ck_assert_msg(message && strstr(message, rows[i][1]), "%s", err.text[0]);
    }
    struct zt_err err = { 0 };
    struct zt_onnx *good = read_bad("good.onnx", &err);
    ck_assert_msg(good != NULL, "%s", err.text[0]);
    zt_onnx_destroy(good);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("read");
    tcase_add_test(cases, a_sum_of_two_initializers_is_read);
    tcase_add_test(cases, typed_data_fields_are_decoded);
    tcase_add_test(cases, numbers_may_be_packed_or_not);
    tcase_add_test(cases, texts_are_kept_without_data_and_narrow_elements_take_a_byte_each);
    tcase_add_test(cases, tensors_that_contradict_themselves_are_refused_by_name);
    tcase_add_test(cases, a_tensor_without_elements_needs_no_data);
    tcase_add_test(cases, names_must_be_one_things_name);
    tcase_add_test(cases, sparse_initializers_are_constants_with_zeros_between);
    tcase_add_test(cases, a_sparse_attribute_is_written_out);
    tcase_add_test(cases, sparse_initializers_that_do_not_fit_are_refused_by_name);
    tcase_add_test(cases, a_cycle_is_refused_and_another_order_is_sorted);
    tcase_add_test(cases, nodes_without_a_name_get_one_of_their_own);
    tcase_add_test(cases, an_attributes_type_says_what_it_holds);
    tcase_add_test(cases, attributes_come_with_their_contents);
    tcase_add_test(cases, of_several_versions_of_a_domain_the_highest_counts);
    tcase_add_test(cases, headers_that_cannot_be_understood_are_refused);
    tcase_add_test(cases, an_input_with_an_initializer_is_no_input);
    tcase_add_test(cases, external_data_are_found_checked_and_confined);
    tcase_add_test(cases, plans_need_no_external_files);
    tcase_add_test(cases, a_tensor_file_comes_back_as_it_was_written);
    tcase_add_test(cases, the_references_bad_models_are_refused_by_name);
    return run_cases("onnx_read", cases);
}
