/* Data format cifar10: CIFAR-10's binary version, records of 1 label byte and 3,072 pixels (planes R, G, B of 32 x 32,
 * row major). `path` is a folder, of which every data_batch_*.bin is read in the order of the names, or one such file.
 */
#include "data/byte_images.h"

#include "config/rows.h"

static const struct zt_byte_records records = {
    .labels = 1, .channels = 3, .height = 32, .width = 32, .names = "data_batch_*.bin"
};

static bool cifar10_open(struct zt_source *source, const struct zt_config *config, const char *path,
                         const struct zt_want *wants, int want_count, struct zt_err *err) {
    if (zt_byte_images_add_records(source, &records, path, err) &&
        zt_byte_images_want(source, config, path, wants, want_count, err))
        return true;
    zt_byte_images_close(source);
    return false;
}

/* Every format accepts these keys; those without channels refuse them when they open the data. */
static const struct zt_key_row keys[] = {
    { .key = "ztrain.data.normalize", OBJECT, .shared = true },
    { .key = "ztrain.data.normalize.mean", NUMBERS, ANY_NUMBER, .shared = true, AT(data.mean) },
    { .key = "ztrain.data.normalize.std", NUMBERS, POSITIVE, .shared = true, AT(data.std) },
    { 0 },
};

const struct zt_format zt_format_cifar10 = {
    .type = { .name = "cifar10", .keys = keys, .eval_file = "test_batch.bin" },
    .open = cifar10_open,
    ZT_BYTE_IMAGES,
};
