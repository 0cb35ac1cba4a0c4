/* Sources: exactly what the wants ask, or a message that names file, column and row. */
#include "fixture.h"

#include "data/column.h"

#include <dirent.h>
#include <math.h>
#include <sys/stat.h>

static const struct zt_want want_x = { .name = "x", .dtype = ZT_FLOAT, .shape = { 1, { 8 } } };
static const struct zt_want want_target = {
    .name = "target", .dtype = ZT_INT64, .shape = { 0, { 0 } }, .below = 3, .except = -100
};

static struct zt_source *open_npz(const char *path, const struct zt_want *wants, int count, struct zt_err *err) {
    struct zt_config config = npz_config(path);
    return zt_source_open(&config, false, wants, count, err);
}

/* The files of tests/reference/bad: what opening must say. */
static const struct {
    const char *file;
    const char *words[4];
} bad[] = {
    { "input_missing.npz", { "input_missing.npz", "\"x\"", "it has: features, target" } },
    { "wrong_width.npz", { "wrong_width.npz", "\"x\"", "[6], wants [8]" } },
    { "target_dtype.npz", { "target_dtype.npz", "\"target\"", "float, wants int64" } },
    { "target_out_of_range.npz", { "target_out_of_range.npz", "\"target\", row", "value 7", "0..2" } },
};

START_TEST(a_file_unlike_the_wants_is_refused_by_name) {
    char path[1024], name[128];
    struct zt_err err = { 0 };
    snprintf(name, sizeof name, "bad/data/%s", bad[_i].file);
    reference_path(path, name);
    ck_assert_ptr_null(open_npz(path, (struct zt_want[]){ want_x, want_target }, 2, &err));
    ck_assert_int_eq(err.code, ZT_EXIT_DATA);
    for (int w = 0; w < 4 && bad[_i].words[w]; w++)
        MENTIONS(&err, bad[_i].words[w]);
}
END_TEST

START_TEST(a_good_file_gives_its_samples_and_nan_passes) {
    char path[1024];
    struct zt_err err = { 0 };
    int64_t label = -1;
    float x[8];
    bool nan = false;
    reference_path(path, "bad/data/nan_in_data.npz");
    struct zt_source *source = open_npz(path, (struct zt_want[]){ want_target, want_x }, 2, &err);
    ck_assert_msg(source != NULL, "%s", err.text[0]);
    ck_assert_int_eq(source->samples, 64);
    for (int64_t i = 0; i < source->samples; i++) {
        ck_assert(source->format->read(source, 0, i, &label, &err) && source->format->read(source, 1, i, x, &err));
        ck_assert(label >= 0 && label < 3);
        for (int k = 0; k < 8; k++)
            nan = nan || isnan(x[k]);
    }
    ck_assert(nan);
    zt_source_close(source);
}
END_TEST

/* One array of `rows` numbers as column "v"; the first converted number, or the error. */
static struct zt_source *open_array(enum zt_dtype have, void *data, int64_t rows, struct zt_want want,
                                    struct zt_err *err) {
    char path[64];
    struct zt_npz_array array = { "v", have, { 1, { rows } }, data, (size_t)rows * zt_dtype_bytes(have) };
    ck_assert(zt_npz_write(scratch(path), &array, 1, err));
    struct zt_source *source = open_npz(path, &want, 1, err);
    unlink(path);
    return source;
}

START_TEST(numbers_are_converted_within_their_kind) {
    struct zt_err err = { 0 };
    struct zt_want want = { .name = "v", .dtype = ZT_FLOAT };
    float f;
    int64_t n;
    struct zt_source *source = open_array(ZT_DOUBLE, (double[]){ 0.1, 2.5 }, 2, want, &err);
    ck_assert(source && source->format->read(source, 0, 1, &f, &err) && f == 2.5f);
    zt_source_close(source);
    want.dtype = ZT_INT64;
    source = open_array(ZT_INT8, (int8_t[]){ -3, 4 }, 2, want, &err);
    ck_assert(source && source->format->read(source, 0, 0, &n, &err) && n == -3);
    zt_source_close(source);
    source = open_array(ZT_BOOL, (uint8_t[]){ 0, 1 }, 2, want, &err);
    ck_assert(source && source->format->read(source, 0, 1, &n, &err) && n == 1);
    zt_source_close(source);
    want.dtype = ZT_UNDEFINED;
    source = open_array(ZT_UINT16, (uint16_t[]){ 9 }, 1, want, &err);
    ck_assert(source && source->column[0].dtype == ZT_UINT16 && source->column[0].sample_bytes == 2);
    zt_source_close(source);
}
END_TEST

START_TEST(conversions_that_could_change_a_value_are_refused) {
    struct zt_err err = { 0 };
    struct zt_want want = { .name = "v", .dtype = ZT_INT32 };
    ck_assert_ptr_null(open_array(ZT_INT64, (int64_t[]){ 1 }, 1, want, &err));
    MENTIONS(&err, "\"v\"", "int64, wants int32");
    err = (struct zt_err){ 0 };
    ck_assert_ptr_null(open_array(ZT_UINT32, (uint32_t[]){ 1, 4000000000u }, 2, want, &err));
    MENTIONS(&err, "row 1", "4000000000", "does not fit int32");
    err = (struct zt_err){ 0 };
    want.dtype = ZT_UINT64;
    ck_assert_ptr_null(open_array(ZT_INT8, (int8_t[]){ 1, -1 }, 2, want, &err));
    MENTIONS(&err, "row 1", "-1", "does not fit uint64");
    err = (struct zt_err){ 0 };
    want.dtype = ZT_FLOAT;
    ck_assert_ptr_null(open_array(ZT_UINT8, (uint8_t[]){ 1 }, 1, want, &err));
    MENTIONS(&err, "uint8, wants float");
}
END_TEST

START_TEST(an_ignored_target_may_lie_outside_the_range) {
    struct zt_err err = { 0 };
    struct zt_want want = { .name = "v", .dtype = ZT_INT64, .below = 3, .except = -100 };
    struct zt_source *source = open_array(ZT_INT64, (int64_t[]){ 0, -100, 2 }, 3, want, &err);
    ck_assert_msg(source != NULL, "%s", err.text[0]);
    zt_source_close(source);
    ck_assert_ptr_null(open_array(ZT_INT64, (int64_t[]){ 0, -99, 2 }, 3, want, &err));
    MENTIONS(&err, "row 1", "-99", "0..2");
}
END_TEST

START_TEST(indices_may_count_from_the_end) {
    struct zt_err err = { 0 };
    struct zt_want want = { .name = "v", .dtype = ZT_INT64, .indexed = 3 };
    struct zt_source *source = open_array(ZT_INT64, (int64_t[]){ 0, -3, 2 }, 3, want, &err);
    ck_assert_msg(source != NULL, "%s", err.text[0]);
    zt_source_close(source);
    ck_assert_ptr_null(open_array(ZT_INT64, (int64_t[]){ 0, 1, 3 }, 3, want, &err));
    MENTIONS(&err, "row 2", "value 3", "0..2");
    err = (struct zt_err){ 0 };
    ck_assert_ptr_null(open_array(ZT_INT64, (int64_t[]){ 0, -4, 2 }, 3, want, &err));
    MENTIONS(&err, "row 1", "-4");
}
END_TEST

START_TEST(columns_of_different_length_are_named_with_both_counts) {
    float x[5] = { 0 };
    struct zt_npz_array arrays[] = { { "a", ZT_FLOAT, { 1, { 5 } }, x, 20 }, { "b", ZT_FLOAT, { 1, { 4 } }, x, 16 } };
    struct zt_want wants[] = { { .name = "a" }, { .name = "b" } };
    char path[64];
    struct zt_err err = { 0 };
    ck_assert(zt_npz_write(scratch(path), arrays, 2, &err));
    ck_assert_ptr_null(open_npz(path, wants, 2, &err));
    MENTIONS(&err, "\"b\" has 4 samples", "\"a\" has 5");
    unlink(path);
}
END_TEST

START_TEST(every_problem_of_a_file_is_reported_at_once) {
    char path[1024];
    struct zt_err err = { 0 };
    struct zt_want wants[] = { { .name = "p" }, { .name = "q" } };
    reference_path(path, "bad/data.npz");
    ck_assert_ptr_null(open_npz(path, wants, 2, &err));
    ck_assert_int_eq(err.count, 2);
    ck_assert_ptr_nonnull(strstr(err.text[1], "\"q\""));
}
END_TEST

static const struct zt_want want_image = {
    .name = "pixels", .dtype = ZT_FLOAT, .shape = { 3, { 3, 32, 32 } }, .image = true
};

START_TEST(digits_in_cifar10_layout_are_read) {
    const char *path = getenv("ZT_DIGITS") ? getenv("ZT_DIGITS") : "models/digits";
    struct zt_err err = { 0 };
    struct zt_want wants[] = { want_image, { .name = "target", .dtype = ZT_INT64, .below = 10 } };
    double mean[] = { 0.5, 0.25, 0 }, std[] = { 0.5, 1, 2 };
    static float plain[3072], normal[3072];
    int64_t label, count[10] = { 0 };
    char test_batch[1024];
    snprintf(test_batch, sizeof test_batch, "%s/test_batch.bin", path);
    struct zt_config config = { .data = { .format = "cifar10", .path = path, .eval_path = test_batch } };
    struct zt_source *source = zt_source_open(&config, false, wants, 2, &err);
    ck_assert_msg(source != NULL, "%s", err.text[0]);
    config.data.mean = (struct zt_numbers){ mean, 3 };
    config.data.std = (struct zt_numbers){ std, 3 };
    struct zt_source *eval = zt_source_open(&config, true, wants, 2, &err);
    ck_assert_msg(eval != NULL, "%s", err.text[0]);
    ck_assert_int_eq(source->samples, 1500);
    ck_assert_int_eq(eval->samples, 297);
    for (int64_t i = 0; i < source->samples; i++) {
        ck_assert(source->format->read(source, 1, i, &label, &err));
        count[label]++;
    }
    for (int c = 0; c < 10; c++)
        ck_assert_int_gt(count[c], 100);
    ck_assert(eval->format->read(eval, 0, 296, normal, &err));
    config.data.mean.count = config.data.std.count = 0;
    struct zt_source *raw = zt_source_open(&config, true, wants, 2, &err);
    ck_assert(raw->format->read(raw, 0, 296, plain, &err));
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 1024; i++) {
            ck_assert(plain[c * 1024 + i] >= 0 && plain[c * 1024 + i] <= 1);
            ck_assert(normal[c * 1024 + i] == (plain[c * 1024 + i] - (float)mean[c]) / (float)std[c]);
        }
    zt_source_close(source);
    zt_source_close(eval);
    zt_source_close(raw);
}
END_TEST

/* Records whose label is the record's number and whose pixels are all `pixel`. */
static void write_records(const char *path, int count, int pixel, size_t extra) {
    size_t size = (size_t)count * 3073 + extra;
    unsigned char *bytes = malloc(size);
    memset(bytes, pixel, size);
    for (int i = 0; i < count; i++)
        bytes[i * 3073] = (unsigned char)i;
    write_bytes(path, bytes, size);
    free(bytes);
}

START_TEST(cifar10_files_are_read_in_the_order_of_their_names) {
    char folder[] = "scratch-XXXXXX", path[128];
    struct zt_err err = { 0 };
    struct zt_want wants[] = { want_image, { .name = "target" } };
    static float image[3072];
    uint8_t label;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    for (int k = 3; k >= 1; k--) {
        snprintf(path, sizeof path, "%s/data_batch_%d.bin", folder, k);
        write_records(path, 2 * k, k * 51, 0);
    }
    struct zt_config config = { .data = { .format = "cifar10", .path = folder } };
    struct zt_source *source = zt_source_open(&config, false, wants, 2, &err);
    ck_assert_msg(source != NULL, "%s", err.text[0]);
    ck_assert_int_eq(source->samples, 12);
    for (int i = 0; i < 12; i++) {
        int file = i < 2 ? 1 : i < 6 ? 2 : 3, first = i < 2 ? 0 : i < 6 ? 2 : 6;
        ck_assert(source->format->read(source, 0, i, image, &err) && source->format->read(source, 1, i, &label, &err));
        ck_assert(label == i - first && image[7] == (float)(file * 51) / 255.0f);
    }
    zt_source_close(source);
    ck_assert_ptr_null(zt_source_open(&config, true, wants, 2, &err));
    ck_assert_int_eq(err.count, 0);
    wants[1].below = 5;
    ck_assert_ptr_null(zt_source_open(&config, false, wants, 2, &err));
    MENTIONS(&err, "data_batch_3.bin", "\"target\", row 5", "value 5", "0..4");
    for (int k = 1; k <= 3; k++) {
        snprintf(path, sizeof path, "%s/data_batch_%d.bin", folder, k);
        unlink(path);
    }
    err = (struct zt_err){ 0 };
    ck_assert_ptr_null(zt_source_open(&config, false, wants, 2, &err));
    MENTIONS(&err, folder, "data_batch_*.bin");
    rmdir(folder);
}
END_TEST

/* All that a source keeps, decoded, against what it reads. */
static void check_kept(const struct zt_source *source, int column) {
    struct zt_err err = { 0 };
    const struct zt_stored stored = source->format->stored(source, column);
    const size_t bytes = source->column[column].sample_bytes;
    char *kept = malloc(stored.bytes * (size_t)source->samples), *made = malloc(bytes), *wanted = malloc(bytes);
    source->format->keep(source, column, 0, 3, kept);
    source->format->keep(source, column, 3, source->samples - 3, kept + 3 * stored.bytes);
    for (int64_t i = 0; i < source->samples; i++) {
        zt_column_decode(&source->column[column], &stored, kept + (size_t)i * stored.bytes, made);
        ck_assert(source->format->read(source, column, i, wanted, &err));
        ck_assert_msg(memcmp(made, wanted, bytes) == 0, "column %d, sample %lld", column, (long long)i);
    }
    free(kept);
    free(made);
    free(wanted);
}

START_TEST(samples_made_of_what_is_kept_are_those_that_are_read) {
    static const enum zt_dtype image[] = { ZT_FLOAT, ZT_BFLOAT16, ZT_DOUBLE, ZT_FLOAT16 };
    static const enum zt_dtype label[] = { ZT_INT64, ZT_INT32, ZT_UINT8, ZT_INT16 };
    char folder[] = "scratch-XXXXXX", path[2][128], name[64];
    double mean[] = { 0.5, 0.25, 0 }, std[] = { 0.5, 1, 2 };
    struct zt_err err = { 0 };
    struct zt_want wants[] = { want_image, { .name = "target", .dtype = label[_i] } };
    wants[0].dtype = image[_i];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    for (int k = 0; k < 2; k++) {
        snprintf(path[k], sizeof path[k], "%s/data_batch_%d.bin", folder, k);
        write_records(path[k], 2 + 3 * k, 90 + 70 * k, 0);
    }
    struct zt_config config = { .data = {
                                    .format = "cifar10", .path = folder, .mean = { mean, 3 }, .std = { std, 3 } } };
    struct zt_source *source = zt_source_open(&config, false, wants, 2, &err);
    ck_assert_msg(source != NULL, "%s", err.text[0]);
    ck_assert_int_eq(zt_source_stored_bytes(source), 7 * 3073);
    check_kept(source, 0);
    check_kept(source, 1);
    zt_source_close(source);
    for (int k = 0; k < 2; k++)
        unlink(path[k]);
    rmdir(folder);

    float x[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 };
    struct zt_npz_array array = { "x", ZT_FLOAT, { 2, { 5, 2 } }, x, sizeof x };
    struct zt_want want = { .name = "x", .dtype = image[_i], .shape = { 1, { 2 } } };
    ck_assert(zt_npz_write(scratch(name), &array, 1, &err));
    source = open_npz(name, &want, 1, &err);
    ck_assert_msg(source != NULL, "%s", err.text[0]);
    ck_assert_int_eq(zt_source_stored_bytes(source), 10 * (int64_t)zt_dtype_bytes(image[_i]));
    check_kept(source, 0);
    zt_source_close(source);
    unlink(name);

    config = (struct zt_config){ .data = { .format = "synthetic", .samples = 4 } };
    source = zt_source_open(&config, false, &want, 1, &err);
    ck_assert_int_eq(zt_source_stored_bytes(source), 0);
    zt_source_close(source);
}
END_TEST

START_TEST(a_cifar10_file_of_odd_size_is_refused) {
    char path[64];
    struct zt_err err = { 0 };
    write_records(scratch(path), 2, 0, 5);
    struct zt_config config = { .data = { .format = "cifar10", .path = path } };
    ck_assert_ptr_null(zt_source_open(&config, false, &want_image, 1, &err));
    MENTIONS(&err, path, "6151 bytes", "3073");
    unlink(path);
}
END_TEST

START_TEST(an_image_input_of_another_shape_names_both) {
    char path[64];
    struct zt_err err = { 0 };
    struct zt_want want = want_image;
    want.shape = (struct zt_shape){ 3, { 1, 28, 28 } };
    write_records(scratch(path), 1, 0, 0);
    struct zt_config config = { .data = { .format = "cifar10", .path = path } };
    ck_assert_ptr_null(zt_source_open(&config, false, &want, 1, &err));
    MENTIONS(&err, "\"pixels\"", "[3, 32, 32]", "[1, 28, 28]");
    unlink(path);
}
END_TEST

static struct zt_source *open_synthetic(int64_t seed, const struct zt_want *wants, int count, struct zt_err *err) {
    struct zt_config config = { .seed = seed, .data = { .format = "synthetic", .samples = 64 } };
    return zt_source_open(&config, false, wants, count, err);
}

START_TEST(synthetic_floats_are_standard_normal) {
    static float x[3 * 32 * 32];
    struct zt_err err = { 0 };
    struct zt_source *source = open_synthetic(1, &want_image, 1, &err);
    ck_assert_msg(source != NULL, "%s", err.text[0]);
    double moment[5] = { 0 };
    for (int64_t i = 0; i < 64; i++) {
        ck_assert(source->format->read(source, 0, i, x, &err));
        for (int k = 0; k < 3072; k++)
            for (int m = 1; m < 5; m++)
                moment[m] += pow((double)x[k], m) / (64 * 3072);
    }
    ck_assert(fabs(moment[1]) < 0.01 && fabs(moment[2] - 1) < 0.02);
    ck_assert(fabs(moment[3]) < 0.05 && fabs(moment[4] - 3) < 0.1);
    zt_source_close(source);
}
END_TEST

START_TEST(synthetic_samples_depend_on_seed_and_sample_alone) {
    struct zt_err err = { 0 };
    float a[8], b[8];
    const struct zt_want other = { .name = "other", .shape = { 0, { 0 } } };
    struct zt_source *one = open_synthetic(1, &want_x, 1, &err);
    struct zt_source *again = open_synthetic(1, (struct zt_want[]){ other, want_x }, 2, &err);
    struct zt_source *two = open_synthetic(2, &want_x, 1, &err);
    one->format->read(one, 0, 5, a, &err);
    again->format->read(again, 1, 5, b, &err);
    ck_assert(memcmp(a, b, sizeof a) == 0);
    two->format->read(two, 0, 5, b, &err);
    ck_assert(memcmp(a, b, sizeof a) != 0);
    one->format->read(one, 0, 6, b, &err);
    ck_assert(memcmp(a, b, sizeof a) != 0);
    zt_source_close(one);
    zt_source_close(again);
    zt_source_close(two);
}
END_TEST

START_TEST(synthetic_integers_cover_their_range) {
    struct zt_err err = { 0 };
    int64_t label, count[3] = { 0 };
    struct zt_source *source = open_synthetic(1, &want_target, 1, &err);
    for (int64_t i = 0; i < 64; i++) {
        ck_assert(source->format->read(source, 0, i, &label, &err));
        ck_assert(label >= 0 && label < 3);
        count[label]++;
    }
    ck_assert(count[0] > 8 && count[1] > 8 && count[2] > 8);
    zt_source_close(source);
}
END_TEST

START_TEST(synthetic_data_need_known_dimensions) {
    struct zt_err err = { 0 };
    struct zt_want want = { .name = "ids", .dtype = ZT_INT64, .shape = { 1, { -1 } } };
    ck_assert_ptr_null(open_synthetic(1, &want, 1, &err));
    MENTIONS(&err, "\"ids\"", "[?]");
}
END_TEST

START_TEST(an_unknown_format_lists_those_there_are) {
    struct zt_err err = { 0 };
    struct zt_config config = { .data = { .format = "parquet", .path = "x" } };
    ck_assert_ptr_null(zt_source_open(&config, false, &want_x, 1, &err));
    MENTIONS(&err, "parquet", "npz", "cifar10", "synthetic");
    ck_assert_int_eq(err.code, ZT_EXIT_CONFIG);
    err = (struct zt_err){ 0 };
    config.data = (struct zt_data_config){ .format = "npz" };
    ck_assert_ptr_null(zt_source_open(&config, false, &want_x, 1, &err));
    MENTIONS(&err, "ztrain.data.path");
}
END_TEST

START_TEST(normalize_without_channels_is_refused) {
    struct zt_err err = { 0 };
    double half = 0.5;
    struct zt_config config = { .data = { .format = "npz", .path = "x.npz", .mean = { &half, 1 } } };
    ck_assert_ptr_null(zt_source_open(&config, false, &want_x, 1, &err));
    MENTIONS(&err, "normalize", "npz");
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("formats");
    tcase_add_loop_test(cases, a_file_unlike_the_wants_is_refused_by_name, 0, (int)(sizeof bad / sizeof *bad));
    tcase_add_test(cases, a_good_file_gives_its_samples_and_nan_passes);
    tcase_add_test(cases, numbers_are_converted_within_their_kind);
    tcase_add_test(cases, conversions_that_could_change_a_value_are_refused);
    tcase_add_test(cases, an_ignored_target_may_lie_outside_the_range);
    tcase_add_test(cases, indices_may_count_from_the_end);
    tcase_add_test(cases, columns_of_different_length_are_named_with_both_counts);
    tcase_add_test(cases, every_problem_of_a_file_is_reported_at_once);
    tcase_add_test(cases, digits_in_cifar10_layout_are_read);
    tcase_add_test(cases, cifar10_files_are_read_in_the_order_of_their_names);
    tcase_add_loop_test(cases, samples_made_of_what_is_kept_are_those_that_are_read, 0, 4);
    tcase_add_test(cases, a_cifar10_file_of_odd_size_is_refused);
    tcase_add_test(cases, an_image_input_of_another_shape_names_both);
    tcase_add_test(cases, synthetic_floats_are_standard_normal);
    tcase_add_test(cases, synthetic_samples_depend_on_seed_and_sample_alone);
    tcase_add_test(cases, synthetic_integers_cover_their_range);
    tcase_add_test(cases, synthetic_data_need_known_dimensions);
    tcase_add_test(cases, an_unknown_format_lists_those_there_are);
    tcase_add_test(cases, normalize_without_channels_is_refused);
    return test_run("formats", cases);
}
