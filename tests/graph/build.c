#include "build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void put_varint(struct zt_text *to, uint64_t value) {
    for (; value > 0x7f; value >>= 7)
        zt_text_add_bytes(to, &(unsigned char){ (unsigned char)(value | 0x80) }, 1);
    zt_text_add_bytes(to, &(unsigned char){ (unsigned char)value }, 1);
}

void put_int(struct zt_text *to, unsigned field, uint64_t value) {
    put_varint(to, (uint64_t)field << 3);
    put_varint(to, value);
}

void put_bytes(struct zt_text *to, unsigned field, const void *bytes, size_t count) {
    put_varint(to, (uint64_t)field << 3 | 2);
    put_varint(to, count);
    zt_text_add_bytes(to, bytes, count);
}

void put_string(struct zt_text *to, unsigned field, const char *text) {
    put_bytes(to, field, text, strlen(text));
}

void put_message(struct zt_text *to, unsigned field, struct zt_text *inside) {
    put_bytes(to, field, inside->at ? inside->at : "", inside->length);
    zt_text_finish(inside);
}

void put_header(struct zt_text *model, uint64_t ir_version) {
    struct zt_text opset = { 0 };
    put_int(model, 1, ir_version);
    put_int(&opset, 2, 17);
    put_message(model, 8, &opset);
}

void put_node(struct zt_text *graph, const char *name, const char *op, const char *a, const char *b, const char *out,
              struct zt_text *attribute) {
    struct zt_text node = { 0 };
    if (a)
        put_string(&node, 1, a);
    if (b)
        put_string(&node, 1, b);
    put_string(&node, 2, out);
    put_string(&node, 3, name);
    put_string(&node, 4, op);
    if (attribute)
        put_message(&node, 5, attribute);
    put_message(graph, 1, &node);
}

void put_floats(struct zt_text *graph, const char *name, const float *data, uint64_t count) {
    struct zt_text tensor = { 0 };
    put_int(&tensor, 1, count);
    put_int(&tensor, 2, ZT_FLOAT);
    put_string(&tensor, 8, name);
    put_bytes(&tensor, 9, data, (size_t)count * sizeof *data);
    put_message(graph, 5, &tensor);
}

void put_sparse(struct zt_text *to, unsigned field, const int64_t *indices, int rank) {
    struct zt_text sparse = { 0 }, values = { 0 }, at = { 0 };
    put_int(&values, 1, 2);
    put_int(&values, 2, ZT_FLOAT);
    put_string(&values, 8, "s");
    put_bytes(&values, 9, (const float[]){ 1.5f, -2 }, 8);
    put_int(&at, 1, 2);
    if (rank == 2)
        put_int(&at, 1, 2);
    put_int(&at, 2, ZT_INT64);
    put_bytes(&at, 9, indices, (size_t)rank * 16);
    put_message(&sparse, 1, &values);
    put_message(&sparse, 2, &at);
    put_int(&sparse, 3, 2);
    put_int(&sparse, 3, 3);
    put_message(to, field, &sparse);
}

void put_value(struct zt_text *graph, unsigned field, const char *name) {
    struct zt_text value = { 0 };
    put_string(&value, 1, name);
    put_message(graph, field, &value);
}

void put_sum(struct zt_text *graph) {
    put_node(graph, "add", "Add", "w", "b", "y", NULL);
    put_floats(graph, "w", (const float[]){ 1, 2 }, 2);
    put_floats(graph, "b", (const float[]){ 3, 4 }, 2);
    put_value(graph, 12, "y");
}

char *write_file(const struct zt_text *bytes) {
    const char *folder = getenv("TMPDIR");
    struct zt_text path = { 0 };
    zt_text_add(&path, "%s/ztrain-test-XXXXXX", folder ? folder : P_tmpdir);
    int fd = mkstemp(path.at);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, bytes->at ? bytes->at : "", bytes->length), bytes->length);
    close(fd);
    return path.at;
}

char *write_model(struct zt_text *graph) {
    struct zt_text model = { 0 };
    put_header(&model, 8);
    put_message(&model, 7, graph);
    char *path = write_file(&model);
    zt_text_finish(&model);
    return path;
}

void remove_file(char *path) {
    unlink(path);
    free(path);
}

struct zt_onnx *read_file(char *path, struct zt_err *err) {
    struct zt_onnx *model = zt_onnx_read(path, ZT_WEIGHTS_MAPPED, err);
    remove_file(path);
    return model;
}

void refuse_graph(struct zt_text *graph, const char *words) {
    struct zt_err err = { 0 };
    ck_assert_ptr_null(read_file(write_model(graph), &err));
    ck_assert_int_eq(err.code, ZT_EXIT_MODEL);
    ck_assert_msg(strstr(err.text[0], words) != NULL, "\"%s\" lacks \"%s\"", err.text[0], words);
}

int run_cases(const char *name, TCase *cases) {
    Suite *suite = suite_create(name);
    tcase_set_timeout(cases, 60);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
