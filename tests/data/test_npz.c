/* Reading and writing npz files. */
#include "data/npy.h"
#include "fixture.h"

#include <zip.h>

START_TEST(arrays_written_are_read_back) {
    float x[6] = { 1, 2, 3, 4, 5, 6 };
    int64_t n[1] = { -7 };
    uint16_t half[2] = { 0x3c00, 0x3f80 };
    struct zt_npz_array arrays[] = {
        { "a/b.c", ZT_FLOAT, { 2, { 2, 3 } }, x, sizeof x },
        { "scalar", ZT_INT64, { 0, { 0 } }, n, sizeof n },
        { "bf", ZT_BFLOAT16, { 1, { 2 } }, half, sizeof half },
        { "none", ZT_BOOL, { 2, { 0, 4 } }, NULL, 0 },
    };
    char path[64];
    struct zt_err err = { 0 };
    struct zt_npz npz;
    ck_assert(zt_npz_write(scratch(path), arrays, 4, &err));
    ck_assert_msg(zt_npz_read(path, &npz, ZT_EXIT_DATA, &err), "%s", err.text[0]);
    ck_assert_int_eq(npz.count, 4);
    for (int i = 0; i < 4; i++) {
        const struct zt_npz_array *found = zt_npz_find(&npz, arrays[i].name);
        ck_assert_ptr_nonnull(found);
        ck_assert_int_eq(found->dtype, arrays[i].dtype);
        ck_assert(zt_shape_equal(&found->shape, &arrays[i].shape));
        ck_assert_uint_eq(found->bytes, arrays[i].bytes);
        ck_assert(found->bytes == 0 || memcmp(found->data, arrays[i].data, found->bytes) == 0);
    }
    zt_npz_finish(&npz);
    unlink(path);
}
END_TEST

START_TEST(a_file_without_arrays_is_written_and_read) {
    char path[64];
    struct zt_err err = { 0 };
    struct zt_npz npz;
    ck_assert(zt_npz_write(scratch(path), NULL, 0, &err));
    ck_assert_msg(zt_npz_read(path, &npz, ZT_EXIT_DATA, &err), "%s", err.text[0]);
    ck_assert_int_eq(npz.count, 0);
    zt_npz_finish(&npz);
    unlink(path);
}
END_TEST

START_TEST(equal_arrays_give_equal_files) {
    float x[4] = { 1, 2, 3, 4 };
    struct zt_npz_array array = { "x", ZT_FLOAT, { 1, { 4 } }, x, sizeof x };
    char a[64], b[64];
    size_t an, bn;
    struct zt_err err = { 0 };
    ck_assert(zt_npz_write(scratch(a), &array, 1, &err) && zt_npz_write(scratch(b), &array, 1, &err));
    unsigned char *ab = read_bytes(a, &an), *bb = read_bytes(b, &bn);
    ck_assert(an == bn && memcmp(ab, bb, an) == 0);
    free(ab);
    free(bb);
    unlink(a);
    unlink(b);
}
END_TEST

START_TEST(writing_where_no_folder_is_names_the_file) {
    struct zt_err err = { 0 };
    float x[1] = { 0 };
    struct zt_npz_array array = { "x", ZT_FLOAT, { 1, { 1 } }, x, sizeof x };
    ck_assert(!zt_npz_write("/no/such/folder/out.npz", &array, 1, &err));
    MENTIONS(&err, "/no/such/folder/out.npz");
    ck_assert_int_eq(err.code, ZT_EXIT_DATA);
}
END_TEST

/* One whose arrays are stored and one whose arrays are deflated. */
static const struct {
    const char *file, *input;
    struct zt_shape shape;
} numpys[] = {
    { "cases/convnet-torchscript/data.npz", "input", { 4, { 192, 3, 32, 32 } } },
    { "cases/paddle-cnn/data.npz", "x", { 4, { 96, 1, 8, 8 } } },
};

START_TEST(numpys_own_files_are_read) {
    char path[1024];
    struct zt_npz npz;
    struct zt_err err = { 0 };
    reference_path(path, numpys[_i].file);
    ck_assert_msg(zt_npz_read(path, &npz, ZT_EXIT_DATA, &err), "%s", err.text[0]);
    const struct zt_npz_array *input = zt_npz_find(&npz, numpys[_i].input), *target = zt_npz_find(&npz, "target");
    ck_assert(input && target && npz.count == 2);
    ck_assert(input->dtype == ZT_FLOAT && target->dtype == ZT_INT64);
    ck_assert(zt_shape_equal(&input->shape, &numpys[_i].shape));
    ck_assert(zt_shape_equal(&target->shape, &(struct zt_shape){ 1, { numpys[_i].shape.dim[0] } }));
    zt_npz_finish(&npz);
}
END_TEST

/* One entry with the given bytes. */
static void write_zip(const char *path, const char *entry, const void *bytes, size_t size, int method) {
    int number;
    zip_t *zip = zip_open(path, ZIP_CREATE | ZIP_TRUNCATE, &number);
    zip_source_t *source = zip_source_buffer(zip, bytes, size, 0);
    zip_int64_t index = zip_file_add(zip, entry, source, 0);
    zip_set_file_compression(zip, (zip_uint64_t)index, method, 9);
    ck_assert_int_eq(zip_close(zip), 0);
}

/* A .npy with the header text as given; returns its length. */
static size_t npy_text(unsigned char *to, const char *text, const void *data, size_t bytes) {
    size_t n = strlen(text);
    memcpy(to, "\x93NUMPY\x01", 8);
    to[8] = (unsigned char)n;
    to[9] = (unsigned char)(n >> 8);
    memcpy(to + 10, text, n);
    if (bytes)
        memcpy(to + 10 + n, data, bytes);
    return 10 + n + bytes;
}

static bool read_text(const char *header, const void *data, size_t bytes, struct zt_npz *npz, struct zt_err *err) {
    unsigned char npy[2048];
    char path[64];
    write_zip(scratch(path), "x.npy", npy, npy_text(npy, header, data, bytes), ZIP_CM_STORE);
    bool ok = zt_npz_read(path, npz, ZT_EXIT_DATA, err);
    unlink(path);
    return ok;
}

START_TEST(fortran_order_is_turned_into_c_order) {
    int32_t fortran[24], i = 0;
    for (int c = 0; c < 4; c++) /* shape (2, 3, 4), first index fastest */
        for (int b = 0; b < 3; b++)
            for (int a = 0; a < 2; a++)
                fortran[i++] = a * 100 + b * 10 + c;
    struct zt_npz npz;
    struct zt_err err = { 0 };
    ck_assert(read_text("{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3, 4), }", fortran, sizeof fortran, &npz,
                        &err));
    const int32_t *c_order = npz.at[0].data;
    for (int a = 0; a < 2; a++)
        for (int b = 0; b < 3; b++)
            for (int c = 0; c < 4; c++)
                ck_assert_int_eq(c_order[(a * 3 + b) * 4 + c], a * 100 + b * 10 + c);
    zt_npz_finish(&npz);
}
END_TEST

START_TEST(deflated_entries_are_read) {
    static unsigned char npy[128 + 40000];
    static uint8_t zeros[40000];
    char path[64];
    struct zt_npz npz;
    struct zt_err err = { 0 };
    size_t size = npy_text(npy, "{\"shape\": (40000,), 'fortran_order': False, 'descr': '|u1'}\n", zeros, sizeof zeros);
    write_zip(scratch(path), "x.npy", npy, size, ZIP_CM_DEFLATE);
    ck_assert_msg(zt_npz_read(path, &npz, ZT_EXIT_DATA, &err), "%s", err.text[0]);
    ck_assert_uint_eq(npz.at[0].bytes, sizeof zeros);
    zt_npz_finish(&npz);
    unlink(path);
}
END_TEST

static const struct {
    const char *header;
    const char *word; /* of the message */
} refused[] = {
    { "{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", "big-endian" },
    { "{'descr': '<U5', 'fortran_order': False, 'shape': (1,), }", "<U5" },
    { "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "|O" },
    { "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "structured" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "wants 8" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "damaged" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", "damaged" },
    { "{'descr': '<f8', 'fortran_order': False, 'shape': (2000000000, 2000000000, 3), }", "too large for any memory" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", "dimensions" },
    { "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,), }", "damaged" },
    { "{'descr': '<f4', 'shape': (1,), }", "damaged" },
    { "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "damaged" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (1", "damaged" },
    { "", "damaged" },
};

START_TEST(a_header_that_cannot_be_used_says_why) {
    struct zt_npz npz;
    struct zt_err err = { 0 };
    float x = 1;
    ck_assert(!read_text(refused[_i].header, &x, sizeof x, &npz, &err));
    MENTIONS(&err, "array \"x\"", refused[_i].word);
    ck_assert_int_eq(err.code, ZT_EXIT_DATA);
}
END_TEST

START_TEST(headers_are_padded_to_64_bytes_and_parse_again) {
    for (int dtype = 1; dtype < ZT_DTYPES; dtype++) {
        if (!zt_dtype_in((enum zt_dtype)dtype, ZT_ANY_TYPE))
            continue;
        char header[ZT_NPY_HEADER];
        struct zt_npy npy;
        struct zt_err err = { 0 };
        struct zt_shape shape = { dtype % 4, { 5, 1, 7 } };
        size_t size = zt_npy_header((enum zt_dtype)dtype, &shape, header);
        ck_assert_uint_eq(size % 64, 0);
        ck_assert(zt_npy_parse((unsigned char *)header, size, &npy, ZT_EXIT_DATA, &err));
        ck_assert(npy.dtype == (enum zt_dtype)dtype && zt_shape_equal(&npy.shape, &shape) && npy.header == size);
    }
}
END_TEST

START_TEST(a_changed_byte_of_an_array_is_noticed) {
    float x[64] = { 0 };
    struct zt_npz_array array = { "weights", ZT_FLOAT, { 1, { 64 } }, x, sizeof x };
    char path[64];
    size_t size;
    struct zt_npz npz;
    struct zt_err err = { 0 };
    ck_assert(zt_npz_write(scratch(path), &array, 1, &err));
    unsigned char *bytes = read_bytes(path, &size);
    bytes[300] ^= 1; /* of the elements: 41 + 64 bytes of headers, 256 of elements */
    write_bytes(path, bytes, size);
    ck_assert(!zt_npz_read(path, &npz, ZT_EXIT_DATA, &err));
    MENTIONS(&err, path, "array \"weights\"", "damaged");
    free(bytes);
    unlink(path);
}
END_TEST

/* No input may crash or read out of bounds; run under the sanitizers. */
START_TEST(no_truncated_or_mutated_file_does_harm) {
    static uint8_t zeros[500];
    static unsigned char npy[700];
    char path[64];
    size_t size, refusals = 0;
    write_zip(scratch(path), "z.npy", npy,
              npy_text(npy, "{'descr': '|u1', 'fortran_order': True, 'shape': (50, 10), }", zeros, sizeof zeros),
              _i ? ZIP_CM_DEFLATE : ZIP_CM_STORE);
    unsigned char *bytes = read_bytes(path, &size), *copy = malloc(size);
    uint32_t random = 12345;
    for (size_t round = 0; round < size + 4000; round++) {
        size_t length = round < size ? round : size;
        memcpy(copy, bytes, size);
        for (int k = 0; round >= size && k < 1 + (int)(round % 3); k++) {
            random = random * 1664525u + 1013904223u;
            copy[(random >> 8) % size] = (unsigned char)(random >> 24);
        }
        struct zt_npz npz;
        struct zt_err err = { 0 };
        write_bytes(path, copy, length);
        if (zt_npz_read(path, &npz, ZT_EXIT_DATA, &err))
            zt_npz_finish(&npz);
        else
            refusals += err.count > 0 && strstr(err.text[0], path);
    }
    ck_assert_uint_ge(refusals, size);
    free(bytes);
    free(copy);
    unlink(path);
}
END_TEST

START_TEST(a_missing_file_and_a_folder_are_named) {
    struct zt_npz npz;
    struct zt_err err = { 0 };
    ck_assert(!zt_npz_read("no_such_file.npz", &npz, ZT_EXIT_DATA, &err));
    MENTIONS(&err, "no_such_file.npz");
    err = (struct zt_err){ 0 };
    ck_assert(!zt_npz_read(".", &npz, ZT_EXIT_DATA, &err));
    MENTIONS(&err, "regular");
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("npz");
    tcase_set_timeout(cases, 120);
    tcase_add_test(cases, arrays_written_are_read_back);
    tcase_add_test(cases, a_file_without_arrays_is_written_and_read);
    tcase_add_test(cases, equal_arrays_give_equal_files);
    tcase_add_test(cases, writing_where_no_folder_is_names_the_file);
    tcase_add_loop_test(cases, numpys_own_files_are_read, 0, 2);
    tcase_add_test(cases, fortran_order_is_turned_into_c_order);
    tcase_add_test(cases, deflated_entries_are_read);
    tcase_add_loop_test(cases, a_header_that_cannot_be_used_says_why, 0, (int)(sizeof refused / sizeof *refused));
    tcase_add_test(cases, headers_are_padded_to_64_bytes_and_parse_again);
    tcase_add_test(cases, a_changed_byte_of_an_array_is_noticed);
    tcase_add_loop_test(cases, no_truncated_or_mutated_file_does_harm, 0, 2);
    tcase_add_test(cases, a_missing_file_and_a_folder_are_named);
    return test_run("npz", cases);
}
