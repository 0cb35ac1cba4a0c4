/* The formats of files: npy, mnist, cifar100, csv, tokens. Expected values follow from the bytes that are written. */
#include "folder.h"

#include "data/npy.h"

#include <math.h>

/* ---- npy ---- */

/* FOLDER/NAME.npy with these elements. */
static void put_npy(const char *folder, const char *name, enum zt_dtype dtype, struct zt_shape shape,
                    const void *elements, size_t extra) {
    char path[256], header[ZT_NPY_HEADER], file[64];
    size_t n = zt_npy_header(dtype, &shape, header), bytes = (size_t)zt_shape_count(&shape) * zt_dtype_bytes(dtype);
    char *all = calloc(n + bytes + extra, 1);
    memcpy(all, header, n);
    memcpy(all + n, elements, bytes);
    snprintf(file, sizeof file, "%s.npy", name);
    put(path, folder, file, all, n + bytes + extra);
    free(all);
}

static const struct zt_want npy_wants[] = {
    { .name = "x", .dtype = ZT_FLOAT, .shape = { 1, { 2 } } },
    { .name = "y", .dtype = ZT_INT64, .below = 3, .except = -100, .use = ZT_WANT_TARGET },
};

START_TEST(a_folder_of_npy_files_gives_samples_converted_as_they_are_read) {
    char folder[64];
    struct zt_err err;
    float x[2], kept[4];
    const double values[] = { 1, 2, 3, 4.5, -5, 6 };
    put_npy(scratch_folder(folder), "x", ZT_DOUBLE, (struct zt_shape){ 2, { 3, 2 } }, values, 0);
    put_npy(folder, "y", ZT_INT16, (struct zt_shape){ 1, { 3 } }, (int16_t[]){ 2, -100, 0 }, 0);
    struct zt_source *source = open_path("npy", folder, NULL, npy_wants, 2, &err);
    ck_assert_msg(source != NULL, "%s", err.text[0]);
    ck_assert_int_eq(source->samples, 3);
    ck_assert_int_eq(read_label(source, 1, 1), -100);
    ck_assert(zt_source_read(source, 0, (struct zt_sample){ 1, 0 }, x, &err) && x[0] == 3 && x[1] == 4.5f);
    source->format->keep(source, 0, 1, 2, kept);
    ck_assert(kept[0] == 3 && kept[3] == 6);
    ck_assert_int_eq(zt_source_stored_bytes(source), 3 * (8 + 8));
    zt_source_close(source);
    remove_folder(folder);
}
END_TEST

START_TEST(npy_files_unlike_their_headers_or_each_other_are_refused) {
    char folder[64];
    struct zt_err err;
    const float values[6] = { 0 };
    const struct zt_shape shape = { 2, { 3, 2 } };
    put_npy(scratch_folder(folder), "x", ZT_FLOAT, shape, values, 4);
    put_npy(folder, "y", ZT_INT16, (struct zt_shape){ 1, { 3 } }, (int16_t[]){ 2, 3, 0 }, 0);
    ck_assert_ptr_null(open_path("npy", folder, NULL, npy_wants, 2, &err));
    MENTIONS(&err, "x.npy", "28 bytes", "wants 24");
    ck_assert_int_eq(err.code, ZT_EXIT_DATA);
    put_npy(folder, "x", ZT_FLOAT, shape, values, 0);
    ck_assert_ptr_null(open_path("npy", folder, NULL, npy_wants, 2, &err));
    MENTIONS(&err, "y.npy", "row 1", "value 3", "0..2");
    put_npy(folder, "y", ZT_INT16, (struct zt_shape){ 1, { 2 } }, (int16_t[]){ 2, 1 }, 0);
    ck_assert_ptr_null(open_path("npy", folder, NULL, npy_wants, 2, &err));
    MENTIONS(&err, "2 samples", "3");
    char path[128];
    snprintf(path, sizeof path, "%s/x.npy", folder);
    ck_assert_ptr_null(open_path("npy", path, NULL, npy_wants, 2, &err));
    MENTIONS(&err, "one array", "\"y\"");
    struct zt_source *source = open_path("npy", path, NULL, npy_wants, 1, &err);
    ck_assert_msg(source != NULL, "%s", err.text[0]);
    zt_source_close(source);
    const struct zt_want outside = { .name = "../y" };
    ck_assert_ptr_null(open_path("npy", folder, NULL, &outside, 1, &err));
    MENTIONS(&err, "\"../y\"", "name of a file");
    remove_folder(folder);
}
END_TEST

START_TEST(a_npy_file_that_is_cut_while_it_is_read_is_noticed) {
    char folder[64], path[128];
    struct zt_err err;
    float *values = calloc(1 << 16, sizeof *values), x[2];
    put_npy(scratch_folder(folder), "x", ZT_FLOAT, (struct zt_shape){ 2, { 1 << 15, 2 } }, values, 0);
    struct zt_source *source = open_path("npy", folder, NULL, npy_wants, 1, &err);
    ck_assert_ptr_nonnull(source);
    snprintf(path, sizeof path, "%s/x.npy", folder);
    ck_assert_int_eq(truncate(path, 4096), 0);
    zt_source_read(source, 0, (struct zt_sample){ (1 << 15) - 1, 0 }, x, &err);
    ck_assert(!zt_source_intact(source, &err));
    ck_assert_int_eq(err.code, ZT_EXIT_DATA);
    MENTIONS(&err, "x.npy", "changed while it was read");
    zt_source_close(source);
    remove_folder(folder);
    free(values);
}
END_TEST

/* ---- mnist ---- */

static void put_idx(const char *folder, const char *name, uint32_t magic, const uint32_t *dims, size_t size) {
    char path[256];
    unsigned char bytes[4096] = { 0 };
    size_t n = 0, rank = magic & 0xff;
    for (size_t i = 0; i <= rank; i++) {
        uint32_t value = i ? dims[i - 1] : magic;
        for (int shift = 24; shift >= 0; shift -= 8)
            bytes[n++] = (unsigned char)(value >> shift);
    }
    for (size_t i = 0; i < size; i++)
        bytes[n + i] = (unsigned char)i;
    put(path, folder, name, bytes, n + size);
}

static const struct zt_want mnist_wants[] = {
    { .name = "pixels", .dtype = ZT_FLOAT, .shape = { 3, { 1, 4, 5 } }, .image = true },
    { .name = "target", .dtype = ZT_INT64, .below = 10, .except = -100, .use = ZT_WANT_TARGET },
};

START_TEST(mnist_reads_images_and_the_labels_beside_them) {
    char folder[64], path[128];
    struct zt_err err;
    float x[20];
    put_idx(scratch_folder(folder), "train-images-idx3-ubyte", 0x803, (uint32_t[]){ 3, 4, 5 }, 60);
    put_idx(folder, "train-labels-idx1-ubyte", 0x801, (uint32_t[]){ 3 }, 3);
    struct zt_source *source = open_path("mnist", folder, NULL, mnist_wants, 2, &err);
    ck_assert_msg(source != NULL, "%s", err.text[0]);
    ck_assert_int_eq(source->samples, 3);
    ck_assert_int_eq(read_label(source, 1, 2), 2);
    ck_assert(zt_source_read(source, 0, (struct zt_sample){ 1, 0 }, x, &err));
    for (int i = 0; i < 20; i++)
        ck_assert(x[i] == (float)(20 + i) / 255.0f);
    zt_source_close(source);
    snprintf(path, sizeof path, "%s/train-images-idx3-ubyte", folder);
    source = open_path("mnist", path, NULL, mnist_wants, 2, &err);
    ck_assert_ptr_nonnull(source);
    zt_source_close(source);
    remove_folder(folder);
}
END_TEST

static const struct {
    uint32_t image_magic, dims[3];
    size_t bytes;
    uint32_t label_magic, labels;
    size_t label_bytes;
    const char *words[4];
} bad_idx[] = {
    { 0x803, { 3, 4, 5 }, 59, 0x801, 3, 3, { "59 bytes", "3 images of 5 x 4" } },
    { 0x803, { 0xffffffff, 0xffff, 0xffff }, 60, 0x801, 3, 3, { "4294967295 images" } },
    { 0x803, { 3, 0, 5 }, 0, 0x801, 3, 3, { "5 x 0 pixels" } },
    { 0x803, { 0, 4, 5 }, 0, 0x801, 0, 0, { "no samples" } },
    { 0x903, { 3, 4, 5 }, 60, 0x801, 3, 3, { "0x00000903", "0x00000803" } },
    { 0x803, { 3, 4, 5 }, 60, 0x801, 3, 2, { "train-labels", "2 labels", "3" } },
    { 0x803, { 3, 4, 5 }, 60, 0x801, 2, 2, { "2 labels for 3 images" } },
    { 0x803, { 11, 4, 5 }, 220, 0x801, 11, 11, { "train-labels", "row 10", "value 10", "0..9" } },
};

START_TEST(idx_files_unlike_their_headers_are_refused) {
    char folder[64];
    struct zt_err err;
    put_idx(scratch_folder(folder), "train-images-idx3-ubyte", bad_idx[_i].image_magic, bad_idx[_i].dims,
            bad_idx[_i].bytes);
    put_idx(folder, "train-labels-idx1-ubyte", bad_idx[_i].label_magic, &bad_idx[_i].labels, bad_idx[_i].label_bytes);
    ck_assert_ptr_null(open_path("mnist", folder, NULL, mnist_wants, 2, &err));
    ck_assert_int_eq(err.code, ZT_EXIT_DATA);
    for (int i = 0; i < 4 && bad_idx[_i].words[i]; i++)
        MENTIONS(&err, bad_idx[_i].words[i]);
    remove_folder(folder);
}
END_TEST

/* ---- cifar100 ---- */

START_TEST(cifar100_has_fine_labels_or_coarse_ones) {
    enum { RECORD = 3074 };
    char folder[64], path[256];
    struct zt_err err;
    unsigned char *bytes = calloc(3, RECORD);
    static float x[3072];
    int coarse = 1;
    const struct zt_want wants[] = {
        { .name = "x", .dtype = ZT_FLOAT, .shape = { 3, { 3, 32, 32 } }, .image = true },
        { .name = "target", .dtype = ZT_INT64, .below = 100, .use = ZT_WANT_TARGET },
    };
    for (int i = 0; i < 3; i++) {
        bytes[i * RECORD] = (unsigned char)(7 + i);
        bytes[i * RECORD + 1] = (unsigned char)(90 + i);
        memset(bytes + i * RECORD + 2, 51 * i, 3072);
    }
    put(path, scratch_folder(folder), "train.bin", bytes, 3 * RECORD);
    struct zt_source *source = open_path("cifar100", folder, NULL, wants, 2, &err);
    ck_assert_msg(source != NULL, "%s", err.text[0]);
    ck_assert_int_eq(read_label(source, 1, 2), 92);
    ck_assert(zt_source_read(source, 0, (struct zt_sample){ 2, 0 }, x, &err) && x[0] == 0.4f && x[3071] == 0.4f);
    zt_source_close(source);
    source = open_path("cifar100", path, &coarse, wants, 2, &err);
    ck_assert_int_eq(read_label(source, 1, 2), 9);
    zt_source_close(source);
    put(path, folder, "train.bin", bytes, 3 * RECORD - 1);
    ck_assert_ptr_null(open_path("cifar100", folder, NULL, wants, 2, &err));
    MENTIONS(&err, "train.bin", "9221 bytes", "3074");
    remove_folder(folder);
    free(bytes);
}
END_TEST

/* ---- csv ---- */

/* As src/data/csv.c has them. */
struct csv_params {
    bool header;
    const char *delimiter;
    struct zt_texts columns, target_columns;
};

static const struct zt_want csv_wants[] = {
    { .name = "x", .dtype = ZT_FLOAT, .shape = { 1, { 2 } } },
    { .name = "target", .dtype = ZT_INT64, .below = 3, .except = -100, .use = ZT_WANT_TARGET },
};

static struct zt_source *open_csv(const char *text, struct csv_params *params, char path[64], struct zt_err *err) {
    write_bytes(scratch(path), text, strlen(text));
    return open_path("csv", path, params, csv_wants, 2, err);
}

static const char *names_ba[] = { "b", "a" }, *numbers[] = { "2", "0" }, *last[] = { "-2" };
static struct csv_params semicolons = { true, ";", { 0 }, { 0 } }, swapped = { true, ",", { names_ba, 2 }, { 0 } },
                         headless = { false, ",", { 0 }, { 0 } },
                         numbered = { false, ",", { numbers, 2 }, { last, 1 } };
static const struct {
    const char *text;
    struct csv_params *params; /* NULL: the defaults */
    float x[2];                /* of row 1 */
    int64_t target;
} good_csv[] = {
    { "a,b,target\n1,2,0\n3.5,-4e1,2\n", NULL, { 3.5f, -40 }, 2 },
    { "\xef\xbb\xbftarget,a,b\r\n1,1,2\r\n\r\n0, 7 ,8\r\n", NULL, { 7, 8 }, 0 },
    { "\"a\",\"the \"\"target\"\"\",target,b\n1,2,0,3\n", NULL, { 0, 0 }, -1 }, /* three numbers for two */
    { "a;b;target\n1;2;0\n\"3\";\"4\";1.0", &semicolons, { 3, 4 }, 1 },
    { "a,other,b,target\n1,?,2,0\n3,\"two\nlines, and more\",4,-100\n", &swapped, { 4, 3 }, -100 },
    { "1,2,0\n3,4,1\n", &headless, { 3, 4 }, 1 },
    { "1,0,2\n3,1,nan\n", &numbered, { 0, 3 }, 1 },
};

START_TEST(csv_tables_give_their_numbers) {
    char path[64];
    struct zt_err err;
    float x[2];
    struct zt_source *source = open_csv(good_csv[_i].text, good_csv[_i].params, path, &err);
    if (good_csv[_i].target == -1) {
        ck_assert_ptr_null(source);
        MENTIONS(&err, "[3], wants [2]");
        unlink(path);
        return;
    }
    ck_assert_msg(source != NULL, "%s", err.text[0]);
    ck_assert_int_eq(source->samples, 2);
    ck_assert_int_eq(read_label(source, 1, 1), good_csv[_i].target);
    ck_assert(zt_source_read(source, 0, (struct zt_sample){ 1, 0 }, x, &err));
    if (good_csv[_i].params == &numbered)
        ck_assert(isnan(x[0]) && x[1] == 3);
    else
        ck_assert(x[0] == good_csv[_i].x[0] && x[1] == good_csv[_i].x[1]);
    zt_source_close(source);
    unlink(path);
}
END_TEST

static const struct {
    const char *text;
    const char *words[4];
} bad_csv[] = {
    { "", { "no rows" } },
    { "a,b,target\n", { "no samples" } },
    { "a,b,target\n1,2,0\n3,x4,1\n", { "row 1 (line 3)", "column \"b\"", "\"x4\" is not a number" } },
    { "a,b,target\n1,2,0\n\n3,,1\n", { "row 1 (line 4)", "column \"b\"", "\"\" is not a number" } },
    { "a,b,target\n1,0x10,0\n", { "\"0x10\" is not a number" } },
    { "a,b,target\n1,2,0.5\n", { "column \"target\"", "\"0.5\" is not an integer" } },
    { "a,b,target\n1,2,0\n1,2,3\n", { "\"target\", row 1", "value 3", "0..2" } },
    { "a,b,target\n1,2,0\n1,2\n", { "row 1", "fewer columns", "3" } },
    { "a,b,target\n1,2,0,4\n", { "row 0", "more columns", "3" } },
    { "a,b,target\n1,\"2,0\n", { "row 0", "quotes that do not close" } },
    { "a,b,c\n1,2,0\n", { "\"target\"", "it has: a, b, c" } },
};

START_TEST(bad_tables_are_refused_with_row_and_column) {
    char path[64];
    struct zt_err err;
    ck_assert_ptr_null(open_csv(bad_csv[_i].text, NULL, path, &err));
    ck_assert_int_eq(err.code, ZT_EXIT_DATA);
    MENTIONS(&err, path);
    for (int i = 0; i < 4 && bad_csv[_i].words[i]; i++)
        MENTIONS(&err, bad_csv[_i].words[i]);
    unlink(path);
}
END_TEST

/* ---- tokens ---- */

/* As src/data/tokens.c has them. */
struct token_params {
    int wide;
    int64_t length;
};

static const struct zt_want token_wants[] = {
    { .name = "input_ids", .dtype = ZT_INT64, .shape = { 1, { 4 } } },
    { .name = "target", .dtype = ZT_INT64, .shape = { .rank = -1 }, .use = ZT_WANT_TARGET },
    { .name = "attention_mask", .dtype = ZT_INT64, .shape = { 1, { 4 } } },
    { .name = "position_ids", .dtype = ZT_INT32, .shape = { 1, { -1 } } },
};

static void check_tokens(const struct zt_source *source, int64_t sample, int64_t first) {
    struct zt_err err = { 0 };
    int64_t x[4], y[4], mask[4];
    int32_t at[4];
    void *const to[] = { x, y, mask, at };
    for (int c = 0; c < 4; c++)
        ck_assert_msg(zt_source_read(source, c, (struct zt_sample){ sample, 0 }, to[c], &err), "%s", err.text[0]);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(x[i], first + i);
        ck_assert_int_eq(y[i], first + i + 1);
        ck_assert(mask[i] == 1 && at[i] == i);
    }
}

START_TEST(token_streams_give_samples_and_the_next_tokens) {
    char folder[64], path[256];
    struct zt_err err;
    uint16_t narrow[14];
    uint32_t wide[13];
    struct token_params params = { 1, 0 };
    for (int i = 0; i < 13; i++)
        narrow[i] = (uint16_t)(wide[i] = 65520 + (uint32_t)i);
    put(path, scratch_folder(folder), "a_train_0.bin", narrow, 26);
    struct zt_source *source = open_path("tokens", path, NULL, token_wants, 4, &err);
    ck_assert_msg(source != NULL, "%s", err.text[0]);
    ck_assert_int_eq(source->samples, 3);
    check_tokens(source, 2, 65528);
    zt_source_close(source);
    for (int i = 0; i < 13; i++)
        wide[i] = 100000 + (uint32_t)i;
    put(path, folder, "b_train_1.bin", wide, 52);
    source = open_path("tokens", path, &params, token_wants, 4, &err);
    check_tokens(source, 1, 100004);
    zt_source_close(source);
    source = open_path("tokens", folder, NULL, token_wants, 4, &err); /* the second file as uint16: 26 tokens */
    ck_assert_int_eq(source->samples, 3 + 6);
    check_tokens(source, 1, 65524);
    zt_source_close(source);
    remove_folder(folder);
}
END_TEST

START_TEST(headers_of_llm_c_say_type_and_count) {
    char path[64];
    struct zt_err err;
    struct {
        int32_t header[256];
        uint16_t token[9];
    } file = { { 20240520, 1, 9 }, { 0 } };
    for (int i = 0; i < 9; i++)
        file.token[i] = (uint16_t)(i + 5);
    write_bytes(scratch(path), &file, 1024 + 18);
    struct token_params params = { 1, 0 };
    struct zt_source *source = open_path("tokens", path, &params, token_wants, 4, &err); /* the header decides */
    ck_assert_msg(source != NULL, "%s", err.text[0]);
    ck_assert_int_eq(source->samples, 2);
    check_tokens(source, 1, 9);
    zt_source_close(source);
    file.header[2] = 10;
    write_bytes(path, &file, 1024 + 18);
    ck_assert_ptr_null(open_path("tokens", path, NULL, token_wants, 4, &err));
    MENTIONS(&err, path, "9 tokens", "wants 10");
    write_bytes(path, &file, 1024 + 17);
    ck_assert_ptr_null(open_path("tokens", path, NULL, token_wants, 4, &err));
    MENTIONS(&err, "17 bytes", "multiple of 2");
    write_bytes(path, file.token, 8);
    ck_assert_ptr_null(open_path("tokens", path, NULL, token_wants, 4, &err));
    MENTIONS(&err, "too few tokens", "4");
    unlink(path);
}
END_TEST

START_TEST(tokens_need_a_length_and_stay_within_the_vocabulary) {
    char path[64];
    struct zt_err err;
    const uint16_t tokens[] = { 1, 2, 3, 9, 5 };
    struct token_params params = { 0, 2 };
    struct zt_want wants[] = { { .name = "ids", .dtype = ZT_INT64, .shape = { 1, { -1 } } },
                               { .name = "target", .dtype = ZT_INT64, .shape.rank = -1, .use = ZT_WANT_TARGET } };
    int64_t x[2];
    write_bytes(scratch(path), tokens, sizeof tokens);
    ck_assert_ptr_null(open_path("tokens", path, NULL, wants, 2, &err));
    MENTIONS(&err, "\"ids\"", "open");
    wants[1].below = 8;
    struct zt_source *source = open_path("tokens", path, &params, wants, 2, &err);
    ck_assert_int_eq(source->samples, 2);
    ck_assert(zt_source_read(source, 1, (struct zt_sample){ 0, 0 }, x, &err) && x[1] == 3);
    ck_assert(!zt_source_read(source, 1, (struct zt_sample){ 1, 0 }, x, &err));
    MENTIONS(&err, path, "token 3", "value 9", "\"target\"");
    zt_source_close(source);
    unlink(path);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("files");
    tcase_add_test(cases, a_folder_of_npy_files_gives_samples_converted_as_they_are_read);
    tcase_add_test(cases, npy_files_unlike_their_headers_or_each_other_are_refused);
    tcase_add_test(cases, a_npy_file_that_is_cut_while_it_is_read_is_noticed);
    tcase_add_test(cases, mnist_reads_images_and_the_labels_beside_them);
    tcase_add_loop_test(cases, idx_files_unlike_their_headers_are_refused, 0, sizeof bad_idx / sizeof *bad_idx);
    tcase_add_test(cases, cifar100_has_fine_labels_or_coarse_ones);
    tcase_add_loop_test(cases, csv_tables_give_their_numbers, 0, sizeof good_csv / sizeof *good_csv);
    tcase_add_loop_test(cases, bad_tables_are_refused_with_row_and_column, 0, sizeof bad_csv / sizeof *bad_csv);
    tcase_add_test(cases, token_streams_give_samples_and_the_next_tokens);
    tcase_add_test(cases, headers_of_llm_c_say_type_and_count);
    tcase_add_test(cases, tokens_need_a_length_and_stay_within_the_vocabulary);
    return test_run("files", cases);
}
