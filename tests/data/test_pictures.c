/* Pictures: geometry and colours against torchvision, JPEG and PNG files against Pillow, imagefolder, and augmentation.
 * picture_table.py wrote the expected values. */
#include "folder.h"

#include "data/augment.h"
#include "data/loader.h"
#include "data/picture/colour.h"
#include "data/picture/image_file.h"

#include <math.h>

enum kind { RESIZE, CENTER, BRIGHTNESS, CONTRAST, SATURATION, HUE };
struct transform {
    const char *name;
    enum kind kind;
    int shape[3];
    double parameter[2];
    int to[2];
    float wanted[256];
};
struct image_bytes {
    const char *name;
    int size, height, width, tolerance;
    unsigned char bytes[2048], wanted[256];
};
#include "picture_table.inc"

/* ---- against torchvision ---- */

static struct zt_picture pixels(int channels, int height, int width) {
    struct zt_picture p;
    struct zt_err err = { 0 };
    ck_assert(zt_picture_init(&p, channels, height, width, &err));
    for (int i = 0; i < channels * height * width; i++)
        p.at[i] = (float)((i * 37 + 11) % 251 / 250.0);
    return p;
}

static void transform_picture(const struct transform *t, struct zt_picture *p) {
    struct zt_err err = { 0 };
    const int height = (int)t->parameter[0], width = (int)t->parameter[1];
    const float factor = (float)t->parameter[0];
    switch (t->kind) {
    case RESIZE:
        ck_assert(zt_picture_resize(p, height, width, NULL, &err));
        break;
    case CENTER:
        ck_assert(zt_picture_crop(p, zt_picture_center(p, height, width), &err));
        break;
    case BRIGHTNESS:
        zt_picture_brightness(p, factor);
        break;
    case CONTRAST:
        zt_picture_contrast(p, factor);
        break;
    case SATURATION:
        zt_picture_saturation(p, factor);
        break;
    case HUE:
        zt_picture_hue(p, factor);
    }
}

START_TEST(transforms_are_those_of_torchvision) {
    const struct transform *t = &transforms[_i];
    struct zt_picture p = pixels(t->shape[0], t->shape[1], t->shape[2]);
    transform_picture(t, &p);
    ck_assert(p.channels == t->shape[0] && p.height == t->to[0] && p.width == t->to[1]);
    for (size_t i = 0; i < (size_t)p.channels * zt_picture_plane(&p); i++)
        ck_assert_msg(fabsf(p.at[i] - t->wanted[i]) < 2e-6f, "%s, element %zu: %.8g, torchvision %.8g", t->name, i,
                      (double)p.at[i], (double)t->wanted[i]);
    zt_picture_finish(&p);
}
END_TEST

/* ---- files ---- */

static const struct image_bytes *file_called(const char *name) {
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (strcmp(files[i].name, name) == 0)
            return &files[i];
    ck_abort_msg("no file %s", name);
}

START_TEST(files_decode_as_pillow_decodes_them) {
    const struct image_bytes *f = &files[_i];
    struct zt_picture p;
    struct zt_err err = { 0 };
    ck_assert_msg(zt_image_decode(f->bytes, (size_t)f->size, &p, &err), "%s: %s", f->name, err.text[0]);
    ck_assert(zt_picture_set_channels(&p, 3, &err) && p.height == f->height && p.width == f->width);
    for (int i = 0; i < 3 * f->height * f->width; i++)
        ck_assert_msg(abs(p.levels[i] - f->wanted[i]) <= f->tolerance, "%s, level %d: %d, Pillow %d", f->name, i,
                      p.levels[i], f->wanted[i]);
    zt_picture_finish(&p);
}
END_TEST

START_TEST(cut_files_are_refused_at_every_length) {
    const struct image_bytes *f = &files[_i];
    int whole = 0;
    for (int size = 0; size < f->size; size++) {
        struct zt_picture p;
        struct zt_err err = { 0 };
        if (zt_image_decode(f->bytes, (size_t)size, &p, &err)) { /* all levels are there: the end is missing */
            whole++;
            ck_assert_int_ge(size, f->size - 12);
        } else {
            ck_assert_int_eq(err.code, ZT_EXIT_DATA);
            ck_assert_ptr_null(p.levels);
        }
        zt_picture_finish(&p);
    }
    ck_assert_int_le(whole, 12);
}
END_TEST

START_TEST(a_file_that_claims_too_many_pixels_is_refused) {
    const struct image_bytes *png = file_called("colour.png"), *jpeg = file_called("colour.jpg");
    unsigned char bytes[2048];
    struct zt_picture p;
    struct zt_err err = { 0 };
    memcpy(bytes, jpeg->bytes, (size_t)jpeg->size);
    for (int i = 0; i + 8 < jpeg->size; i++)
        if (bytes[i] == 0xff && bytes[i + 1] == 0xc0)
            memset(bytes + i + 5, 0xff, 4); /* 65,535 x 65,535 */
    ck_assert(!zt_image_decode(bytes, (size_t)jpeg->size, &p, &err));
    ck_assert_int_eq(err.code, ZT_EXIT_DATA);
    memcpy(bytes, png->bytes, (size_t)png->size);
    bytes[18] = 0x40; /* the width, whose checksum is now wrong as well */
    err = (struct zt_err){ 0 };
    ck_assert(!zt_image_decode(bytes, (size_t)png->size, &p, &err));
    ck_assert_int_eq(err.code, ZT_EXIT_DATA);
}
END_TEST

/* ---- imagefolder ---- */

struct folder_params {
    int resize, size;
};

static const struct zt_want folder_wants[] = {
    { .name = "x", .dtype = ZT_FLOAT, .shape = { 3, { 3, 6, 9 } }, .image = true },
    { .name = "target", .dtype = ZT_INT64, .below = 3, .except = -100, .use = ZT_WANT_TARGET },
};

static void put_image(const char *folder, const char *below, const char *name, const char *file) {
    char path[256], to[128];
    snprintf(path, sizeof path, "%s/%s", folder, below);
    mkdir(path, 0700);
    snprintf(to, sizeof to, "%s/%s", below, name);
    put(path, folder, to, file_called(file)->bytes, (size_t)file_called(file)->size);
}

static const char *make_classes(char folder[64]) {
    scratch_folder(folder);
    put_image(folder, "b", "2.png", "grey.png");
    put_image(folder, "b", "10.PNG", "colour.png");
    put_image(folder, "B", "x.jpeg", "colour.jpg");
    put_image(folder, "c", "y.png", "palette.png");
    put_image(folder, "b/below", "0.png", "alpha.png");
    return folder;
}

static void check_sample(const struct zt_source *source, int64_t index, int64_t label, const char *file) {
    const struct image_bytes *f = file_called(file);
    struct zt_err err = { 0 };
    float x[162];
    ck_assert_int_eq(read_label(source, 1, index), label);
    ck_assert_msg(zt_source_read(source, 0, (struct zt_sample){ index, 0 }, x, &err), "%s", err.text[0]);
    for (int i = 0; i < 54; i++)
        for (int c = 0; c < 3; c++)
            ck_assert(fabsf(x[54 * c + i] - (float)f->wanted[3 * i + c] / 255.0f) <= (float)f->tolerance / 254.0f);
}

START_TEST(class_folders_are_numbered_by_name_and_files_sorted) {
    char folder[64];
    struct zt_err err;
    struct zt_source *source = open_path("imagefolder", make_classes(folder), NULL, folder_wants, 2, &err);
    ck_assert_msg(source != NULL, "%s", err.text[0]);
    ck_assert_int_eq(source->samples, 5);
    check_sample(source, 0, 0, "colour.jpg");
    check_sample(source, 1, 1, "colour.png");
    check_sample(source, 2, 1, "grey.png");
    check_sample(source, 3, 1, "alpha.png");
    check_sample(source, 4, 2, "palette.png");
    ck_assert_int_eq(zt_source_stored_bytes(source), 0);
    zt_source_close(source);
    remove_folder(folder);
}
END_TEST

START_TEST(evaluation_classes_have_the_numbers_of_the_training_data) {
    char folder[64], other[64];
    struct zt_err err = { 0 };
    make_classes(folder);
    put_image(scratch_folder(other), "c", "y.png", "palette.png");
    struct zt_config config = { .data = { .format = "imagefolder", .path = folder, .eval_path = other } };
    struct zt_source *source = zt_source_open(&config, true, folder_wants, 2, &err);
    ck_assert_msg(source != NULL, "%s", err.text[0]);
    check_sample(source, 0, 2, "palette.png");
    zt_source_close(source);
    put_image(other, "d", "y.png", "palette.png");
    ck_assert_ptr_null(zt_source_open(&config, true, folder_wants, 2, &err));
    MENTIONS(&err, "/d", "no class of this name");
    remove_folder(folder);
    remove_folder(other);
}
END_TEST

START_TEST(folders_that_cannot_be_trained_on_are_refused_by_name) {
    char folder[64], path[256];
    struct zt_err err;
    struct zt_want wants[] = { folder_wants[0], folder_wants[1] };
    wants[1].below = 2;
    ck_assert_ptr_null(open_path("imagefolder", make_classes(folder), NULL, wants, 2, &err));
    MENTIONS(&err, "3 class folders", "2 classes");
    wants[0].shape.dim[1] = wants[0].shape.dim[2] = -1;
    ck_assert_ptr_null(open_path("imagefolder", folder, NULL, wants, 1, &err));
    MENTIONS(&err, "size of image \"x\" open");
    put(path, folder, "c/z.webp", "RIFF", 4);
    ck_assert_ptr_null(open_path("imagefolder", folder, NULL, folder_wants, 2, &err));
    MENTIONS(&err, "c/z.webp", "neither");
    unlink(path);
    snprintf(path, sizeof path, "%s/empty", folder);
    mkdir(path, 0700);
    ck_assert_ptr_null(open_path("imagefolder", folder, NULL, folder_wants, 1, &err));
    MENTIONS(&err, "/empty", "no JPEG or PNG");
    rmdir(path);
    put(path, folder, "c/y.png", file_called("palette.png")->bytes, 60);
    struct zt_source *source = open_path("imagefolder", folder, NULL, folder_wants, 2, &err);
    float x[162];
    ck_assert(!zt_source_read(source, 0, (struct zt_sample){ 4, 0 }, x, &err));
    MENTIONS(&err, "c/y.png", "broken PNG");
    ck_assert_int_eq(err.code, ZT_EXIT_DATA);
    unlink(path);
    err = (struct zt_err){ 0 };
    ck_assert(!zt_source_read(source, 0, (struct zt_sample){ 4, 0 }, x, &err));
    MENTIONS(&err, "c/y.png", "No such file");
    zt_source_close(source);
    remove_folder(folder);
}
END_TEST

START_TEST(pictures_are_resized_to_cover_the_input_and_cropped_in_the_middle) {
    char folder[64];
    struct zt_err err;
    struct folder_params params = { 12, 4 };
    struct zt_want want = folder_wants[0];
    float x[48], y[48];
    want.shape.rank = -1;
    put_image(scratch_folder(folder), "a", "a.png", "colour.png");
    struct zt_source *source = open_path("imagefolder", folder, &params, &want, 1, &err);
    ck_assert_msg(source != NULL, "%s", err.text[0]);
    ck_assert(zt_source_read(source, 0, (struct zt_sample){ 0, 0 }, x, &err));
    zt_source_close(source);
    struct zt_picture p;
    const struct image_bytes *f = file_called("colour.png");
    ck_assert(zt_image_decode(f->bytes, (size_t)f->size, &p, &err));
    ck_assert(zt_picture_resize(&p, 12, 18, NULL, &err) && zt_picture_crop(&p, (struct zt_box){ 4, 7, 4, 4 }, &err));
    ck_assert(memcmp(x, p.at, sizeof x) == 0);
    zt_picture_finish(&p);
    params.resize = 0; /* the least that covers: 4 x 6 */
    source = open_path("imagefolder", folder, &params, &want, 1, &err);
    ck_assert(zt_source_read(source, 0, (struct zt_sample){ 0, 0 }, y, &err));
    zt_source_close(source);
    ck_assert(zt_image_decode(f->bytes, (size_t)f->size, &p, &err));
    ck_assert(zt_picture_resize(&p, 4, 6, NULL, &err) && zt_picture_crop(&p, (struct zt_box){ 0, 1, 4, 4 }, &err));
    ck_assert(memcmp(y, p.at, sizeof y) == 0);
    zt_picture_finish(&p);
    params.resize = 3;
    source = open_path("imagefolder", folder, &params, &want, 1, &err);
    ck_assert(!zt_source_read(source, 0, (struct zt_sample){ 0, 0 }, y, &err));
    MENTIONS(&err, "a/a.png", "4 x 3 pixels", "4 x 4");
    zt_source_close(source);
    remove_folder(folder);
}
END_TEST

/* ---- augmentation ---- */

enum { SIDE = 6, SAMPLES = 64, ELEMENTS = 3 * SIDE * SIDE };

/* An npz file of images whose every value is its own, in 0..1. */
static struct zt_source *open_images(char path[64], const struct zt_augment_config *augment, int64_t seed, bool eval) {
    static float x[SAMPLES * ELEMENTS];
    struct zt_err err = { 0 };
    for (int i = 0; i < SAMPLES * ELEMENTS; i++)
        x[i] = (float)(i + 1) / (SAMPLES * ELEMENTS);
    struct zt_npz_array array = { "x", ZT_FLOAT, { 4, { SAMPLES, 3, SIDE, SIDE } }, x, sizeof x };
    const struct zt_want want = { .name = "x", .dtype = ZT_FLOAT, .shape = { 3, { 3, SIDE, SIDE } }, .image = true };
    ck_assert(zt_npz_write(scratch(path), &array, 1, &err));
    const struct zt_config config = {
        .seed = seed, .data = { .format = "npz", .path = path, .eval_path = path, .augment = *augment }
    };
    struct zt_source *source = zt_source_open(&config, eval, &want, 1, &err);
    ck_assert_msg(source != NULL, "%s", err.text[0]);
    unlink(path);
    return source;
}

static void read_image(const struct zt_source *source, int64_t index, int64_t epoch, float to[ELEMENTS]) {
    struct zt_err err = { 0 };
    ck_assert_msg(zt_source_read(source, 0, (struct zt_sample){ index, epoch }, to, &err), "%s", err.text[0]);
}

/* The value that open_images() has at a place; 0 outside. */
static float plain(int64_t index, int c, int y, int x) {
    if (y < 0 || y >= SIDE || x < 0 || x >= SIDE)
        return 0;
    return (float)((((int)index * 3 + c) * SIDE + y) * SIDE + x + 1) / (SAMPLES * ELEMENTS);
}

static bool is_shifted(const float *image, int64_t index, int top, int left, bool mirrored) {
    for (int i = 0; i < ELEMENTS; i++) {
        int x = mirrored ? SIDE - 1 - i % SIDE : i % SIDE;
        if (image[i] != plain(index, i / SIDE / SIDE, i / SIDE % SIDE + top, x + left))
            return false;
    }
    return true;
}

START_TEST(a_crop_with_padding_takes_every_place_equally_often) {
    const struct zt_augment_config augment = { .random_crop = true, .padding = 1 };
    char path[64];
    float x[ELEMENTS];
    int count[9] = { 0 }, all = 0;
    struct zt_source *source = open_images(path, &augment, 5, false);
    for (int64_t epoch = 0; epoch < 30; epoch++)
        for (int64_t i = 0; i < SAMPLES; i++) {
            read_image(source, i, epoch, x);
            for (int place = 0; place < 9; place++)
                count[place] += is_shifted(x, i, place / 3 - 1, place % 3 - 1, false);
        }
    for (int place = 0; place < 9; place++) {
        all += count[place];
        ck_assert_msg(abs(count[place] - 30 * SAMPLES / 9) < 70, "%d times", count[place]); /* 5 sigma */
    }
    ck_assert_int_eq(all, 30 * SAMPLES);
    zt_source_close(source);
}
END_TEST

START_TEST(flips_have_their_probability_and_evaluation_has_none) {
    const struct zt_augment_config augment = { .horizontal_flip = 0.25 };
    char path[64];
    float x[ELEMENTS];
    int flipped = 0;
    struct zt_source *source = open_images(path, &augment, 5, false), *eval = open_images(path, &augment, 5, true);
    for (int64_t epoch = 0; epoch < 30; epoch++)
        for (int64_t i = 0; i < SAMPLES; i++) {
            read_image(source, i, epoch, x);
            bool mirrored = is_shifted(x, i, 0, 0, true);
            ck_assert(mirrored || is_shifted(x, i, 0, 0, false));
            flipped += mirrored;
            read_image(eval, i, epoch, x);
            ck_assert(is_shifted(x, i, 0, 0, false));
        }
    ck_assert_msg(abs(flipped - 480) < 95, "%d of 1920", flipped); /* 5 sigma */
    ck_assert_int_eq(zt_source_stored_bytes(source), 0);
    ck_assert_int_gt(zt_source_stored_bytes(eval), 0);
    zt_source_close(source);
    zt_source_close(eval);
}
END_TEST

static const struct zt_augment_config everything = { .random_crop = true,
                                                     .padding = 2,
                                                     .horizontal_flip = 0.5,
                                                     .vertical_flip = 0.5,
                                                     .brightness = 0.4,
                                                     .contrast = 0.4,
                                                     .saturation = 0.4,
                                                     .hue = 0.2,
                                                     .erase = true,
                                                     .erase_probability = 0.5,
                                                     .erase_scale = { 0.1, 0.3 },
                                                     .erase_ratio = { 0.5, 2 },
                                                     .cutout = 2 };

/* The images of steps first.. of 8 samples on rank `rank`, by the loader. */
static void load(const struct zt_source *source, int ranks, int rank, int readers, int64_t first, float *to) {
    struct zt_err err = { 0 };
    const struct zt_batch *batch;
    struct zt_loader_options options = { .source = source,
                                         .train_batch = 8,
                                         .micro_batch = 8 / ranks,
                                         .rank = rank,
                                         .ranks = ranks,
                                         .shuffle = true,
                                         .seed = 3,
                                         .first_step = first,
                                         .steps = 12 - first,
                                         .depth = 3,
                                         .readers = readers };
    struct zt_loader *loader = zt_loader_create(&options, &err);
    ck_assert_ptr_nonnull(loader);
    while (zt_loader_next(loader, &batch, &err) && batch)
        for (int64_t row = 0; row < batch->samples; row++)
            memcpy(to + ((batch->step * 8 + rank * (8 / ranks)) + row) * ELEMENTS,
                   (const float *)batch->column[0] + row * ELEMENTS, ELEMENTS * sizeof *to);
    zt_loader_destroy(loader);
}

START_TEST(readers_ranks_and_a_resumed_run_draw_the_same_numbers) {
    enum { ALL = 12 * 8 * ELEMENTS };
    char path[64];
    float *one = calloc(ALL, sizeof *one), *other = calloc(ALL, sizeof *other);
    struct zt_source *source = open_images(path, &everything, 5, false);
    load(source, 1, 0, 1, 0, one);
    load(source, 2, 0, 8, 0, other);
    load(source, 2, 1, 3, 0, other);
    ck_assert(memcmp(one, other, ALL * sizeof *one) == 0);
    memset(other + 9 * 8 * ELEMENTS, 0, 3 * 8 * ELEMENTS * sizeof *other);
    load(source, 1, 0, 4, 9, other); /* in the second epoch */
    ck_assert(memcmp(one, other, ALL * sizeof *one) == 0);
    zt_source_close(source);
    source = open_images(path, &everything, 6, false);
    load(source, 1, 0, 1, 0, other);
    ck_assert(memcmp(one, other, ALL * sizeof *one) != 0);
    zt_source_close(source);
    free(one);
    free(other);
}
END_TEST

START_TEST(a_step_that_goes_on_with_the_next_epoch_draws_its_numbers) {
    char path[64];
    struct zt_err err = { 0 };
    const struct zt_batch *batch;
    float wanted[ELEMENTS];
    struct zt_source *source = open_images(path, &everything, 5, false);
    const struct zt_loader_options options = { .source = source,
                                               .train_batch = 24,
                                               .micro_batch = 12,
                                               .ranks = 1,
                                               .shuffle = true,
                                               .stream = { SAMPLES, 24, true, 12 },
                                               .steps = 8 };
    struct zt_loader *loader = zt_loader_create(&options, &err);
    ck_assert_ptr_nonnull(loader);
    int64_t place = 0;
    while (zt_loader_next(loader, &batch, &err) && batch)
        for (int64_t row = 0; row < batch->rows; row++, place++) {
            read_image(source, batch->index[row], place / SAMPLES, wanted);
            ck_assert(memcmp((const float *)batch->column[0] + row * ELEMENTS, wanted, sizeof wanted) == 0);
        }
    zt_loader_destroy(loader);
    zt_source_close(source);
}
END_TEST

START_TEST(boxes_keep_to_their_areas_and_ratios) {
    const struct zt_augment_config augment = { .crop_scale = { 0.2, 0.6 }, .crop_ratio = { 0.5, 2 } };
    struct zt_picture p = { .channels = 1, .height = 200, .width = 300 };
    double least = 1, most = 0;
    for (int64_t i = 0; i < 2000; i++) {
        struct zt_box box = zt_augment_resized_crop(&augment, (struct zt_draw){ 1, { i, 0 } }, &p);
        double area = (double)box.height * box.width / (200 * 300), ratio = (double)box.width / box.height;
        ck_assert(box.top >= 0 && box.left >= 0 && box.top + box.height <= 200 && box.left + box.width <= 300);
        ck_assert(area > 0.195 && area < 0.605 && ratio > 0.49 && ratio < 2.05);
        least = fmin(least, area);
        most = fmax(most, area);
    }
    ck_assert(least < 0.21 && most > 0.59);
    p.width = 2000; /* no box of this area and ratio fits: the largest in the middle */
    const struct zt_augment_config all = { .crop_scale = { 1, 1 }, .crop_ratio = { 0.5, 2 } };
    struct zt_box box = zt_augment_resized_crop(&all, (struct zt_draw){ 1, { 0, 0 } }, &p);
    ck_assert(box.height == 200 && box.width == 400 && box.left == 800 && box.top == 0);
}
END_TEST

START_TEST(erasing_sets_a_box_of_the_normalised_sample_to_zero) {
    const struct zt_augment_config erase = { .erase = true,
                                             .erase_probability = 1,
                                             .erase_scale = { 0.1, 0.2 },
                                             .erase_ratio = { 1, 1 } },
                                   cutout = { .cutout = 3 };
    int whole = 0;
    for (int64_t i = 0; i < 200; i++) {
        for (int how = 0; how < 2; how++) {
            struct zt_picture p = pixels(2, 20, 20);
            int zeros = 0, rows = 0;
            for (int k = 0; k < 800; k++)
                p.at[k] += 1;
            zt_augment_erase(how ? &cutout : &erase, (struct zt_draw){ 1, { i, 0 } }, &p);
            for (int y = 0; y < 20; y++) {
                int in_row = 0;
                for (int x = 0; x < 20; x++) {
                    in_row += p.at[y * 20 + x] == 0;
                    ck_assert((p.at[y * 20 + x] == 0) == (p.at[400 + y * 20 + x] == 0));
                }
                zeros += in_row;
                rows += in_row > 0;
            }
            if (how) {
                ck_assert(zeros >= 4 && zeros <= 9);
                whole += zeros == 9;
            } else {
                ck_assert(zeros == rows * rows && zeros >= 36 && zeros <= 81);
            }
            zt_picture_finish(&p);
        }
    }
    ck_assert(whole > 130 && whole < 190); /* 18 of 20 places a side */
}
END_TEST

START_TEST(augmentation_needs_images_in_the_data_and_in_the_model) {
    struct zt_err err = { 0 };
    struct zt_want want = { .name = "x", .dtype = ZT_FLOAT, .shape = { 1, { 2 } } };
    struct zt_config config = { .data = {
                                    .format = "synthetic", .samples = 4, .augment = { .horizontal_flip = 0.5 } } };
    ck_assert_ptr_null(zt_source_open(&config, false, &want, 1, &err));
    MENTIONS(&err, "ztrain.data.augment", "\"synthetic\" has no images");
    ck_assert_int_eq(err.code, ZT_EXIT_CONFIG);
    float x[] = { 2, 3, 4, 5 };
    char path[64];
    struct zt_npz_array array = { "x", ZT_FLOAT, { 2, { 2, 2 } }, x, sizeof x };
    err = (struct zt_err){ 0 };
    ck_assert(zt_npz_write(scratch(path), &array, 1, &err));
    config.data.format = "npz";
    config.data.path = path;
    ck_assert_ptr_null(zt_source_open(&config, false, &want, 1, &err));
    MENTIONS(&err, "the model has no image input");
    array.shape = (struct zt_shape){ 4, { 1, 1, 2, 2 } };
    want.shape = (struct zt_shape){ 3, { 1, 2, 2 } };
    want.image = true;
    config.data.augment.contrast = 0.5;
    err = (struct zt_err){ 0 };
    ck_assert(zt_npz_write(path, &array, 1, &err));
    struct zt_source *source = zt_source_open(&config, false, &want, 1, &err);
    ck_assert(!zt_source_read(source, 0, (struct zt_sample){ 0, 0 }, x, &err));
    MENTIONS(&err, "sample 0", "value 2", "0..1");
    zt_source_close(source);
    unlink(path);
}
END_TEST

int main(void) {
    const int file_count = sizeof files / sizeof *files;
    TCase *cases = tcase_create("pictures");
    tcase_add_loop_test(cases, transforms_are_those_of_torchvision, 0, sizeof transforms / sizeof *transforms);
    tcase_add_loop_test(cases, files_decode_as_pillow_decodes_them, 0, file_count);
    tcase_add_loop_test(cases, cut_files_are_refused_at_every_length, 0, file_count);
    tcase_add_test(cases, a_file_that_claims_too_many_pixels_is_refused);
    tcase_add_test(cases, class_folders_are_numbered_by_name_and_files_sorted);
    tcase_add_test(cases, evaluation_classes_have_the_numbers_of_the_training_data);
    tcase_add_test(cases, folders_that_cannot_be_trained_on_are_refused_by_name);
    tcase_add_test(cases, pictures_are_resized_to_cover_the_input_and_cropped_in_the_middle);
    tcase_add_test(cases, a_crop_with_padding_takes_every_place_equally_often);
    tcase_add_test(cases, flips_have_their_probability_and_evaluation_has_none);
    tcase_add_test(cases, readers_ranks_and_a_resumed_run_draw_the_same_numbers);
    tcase_add_test(cases, a_step_that_goes_on_with_the_next_epoch_draws_its_numbers);
    tcase_add_test(cases, boxes_keep_to_their_areas_and_ratios);
    tcase_add_test(cases, erasing_sets_a_box_of_the_normalised_sample_to_zero);
    tcase_add_test(cases, augmentation_needs_images_in_the_data_and_in_the_model);
    return test_run("pictures", cases);
}
