/* Data format cifar100: CIFAR-100's binary version, records of a coarse label (0..19), a fine label (0..99) and 3,072
 * pixels as in cifar10. `path` is a folder with train.bin, or one such file. */
#include "data/byte_images.h"

#include "config/rows.h"

struct params {
    int coarse; /* the label that is the target: 0 fine, 1 coarse */
};

static bool cifar100_open(struct zt_source *source, const struct zt_config *config, const char *path,
                          const struct zt_want *wants, int want_count, struct zt_err *err) {
    const struct params *params = config->data.params;
    const struct zt_byte_records records = { .labels = 2,
                                             .label_at = !params || !params->coarse,
                                             .channels = 3,
                                             .height = 32,
                                             .width = 32,
                                             .names = "train.bin" };
    if (zt_byte_images_add_records(source, &records, path, err) &&
        zt_byte_images_want(source, config, path, wants, want_count, err))
        return true;
    zt_byte_images_close(source);
    return false;
}

static const struct zt_key_choice labels[] = { { .name = "fine" }, { .name = "coarse" }, { 0 } };
static const struct zt_key_row keys[] = {
    { .key = "ztrain.data.labels", INDEX(labels), DEF("fine"), PLACE(ZT_IN_FORMAT, struct params, coarse) },
    { 0 },
};

const struct zt_format zt_format_cifar100 = {
    .type = { .name = "cifar100", .keys = keys, .bytes = sizeof(struct params), .eval_file = "test.bin" },
    .open = cifar100_open,
    ZT_BYTE_IMAGES,
};
