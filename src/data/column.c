#include "data/column.h"

#include "data/picture/picture.h"

#include <stdio.h>
#include <string.h>

/* Whether a conversion keeps the kind of number: any float to any float, an integer to one of at least its width, bool
 * to integer. */
static bool converts(enum zt_dtype from, enum zt_dtype to) {
    if (from == to)
        return zt_dtype_in(to, ZT_ANY_TYPE);
    if (zt_dtype_in(from, ZT_ANY_FLOAT))
        return zt_dtype_in(to, ZT_ANY_FLOAT);
    if (from == ZT_BOOL)
        return zt_dtype_in(to, ZT_ANY_INT);
    return zt_dtype_in(from, ZT_ANY_INT) && zt_dtype_in(to, ZT_ANY_INT) && zt_dtype_bytes(to) >= zt_dtype_bytes(from);
}

static bool fits(const struct zt_shape *found, const struct zt_shape *wanted) {
    if (wanted->rank < 0)
        return true;
    if (found->rank != wanted->rank)
        return false;
    for (int d = 0; d < found->rank; d++)
        if (wanted->dim[d] >= 0 && wanted->dim[d] != found->dim[d])
            return false;
    return true;
}

/* The axes without those of one element; axes of unknown size stay. */
static struct zt_shape without_ones(const struct zt_shape *shape) {
    struct zt_shape to = { 0 };
    for (int d = 0; d < shape->rank; d++)
        if (shape->dim[d] != 1)
            to.dim[to.rank++] = shape->dim[d];
    return to;
}

/* Whether the shapes agree apart from axes of one element; *as is then the wanted shape. */
static bool fits_but_for_ones(const struct zt_shape *found, const struct zt_shape *wanted, struct zt_shape *as) {
    struct zt_shape a = without_ones(found), b = without_ones(wanted);
    if (wanted->rank < 0 || !fits(&a, &b))
        return false;
    *as = *wanted;
    for (int d = 0, k = 0; d < as->rank; d++)
        if (as->dim[d] != 1)
            as->dim[d] = a.dim[k++];
    return true;
}

/* The want with class probabilities in the place of class numbers: floats of the logits' shape. */
static struct zt_want as_probabilities(const struct zt_want *want) {
    struct zt_want to = *want;
    to.dtype = ZT_FLOAT;
    to.shape = want->classes;
    to.below = 0;
    to.probabilities = to.ones = false;
    return to;
}

/* Pictures whose channels are the last axis, where the model has them first. */
static bool is_channels_last(const struct zt_shape *have, const struct zt_shape *want) {
    return have->rank == 3 && want->rank == 3 && have->dim[2] == want->dim[0] && have->dim[0] == want->dim[1] &&
           have->dim[1] == want->dim[2];
}

/* Hints how samples of the right number of elements get the right shape. */
static bool hint_shape(const struct zt_shape *have, const struct zt_shape *want, struct zt_err *err) {
    if (!zt_shape_known(want) || zt_shape_count(have) != zt_shape_count(want))
        return false;
    if (is_channels_last(have, want))
        return zt_hint(err, "the channels are the last axis; array.transpose(0, 3, 1, 2) puts them first");
    return zt_hint(err,
                   "this is the shape of one sample, without the first axis; array.reshape() changes it where the "
                   "order of the elements is the same");
}

bool zt_column_accept(struct zt_column *column, const struct zt_want *want, enum zt_dtype have,
                      const struct zt_shape *sample, const char *file, struct zt_err *err) {
    if (want->probabilities && zt_dtype_in(have, ZT_ANY_FLOAT) && fits(sample, &want->classes)) {
        const struct zt_want soft = as_probabilities(want);
        return zt_column_accept(column, &soft, have, sample, file, err);
    }
    enum zt_dtype to = want->dtype == ZT_UNDEFINED ? have : want->dtype;
    char found[ZT_SHAPE_TEXT], wanted[ZT_SHAPE_TEXT];
    struct zt_shape as = *sample;
    bool becomes_float =
        want->numbers && zt_dtype_in(have, ZT_ANY_INT | ZT_BIT(ZT_BOOL)) && zt_dtype_in(to, ZT_ANY_FLOAT);
    if (!converts(have, to) && !becomes_float) {
        zt_fail(err, ZT_EXIT_DATA, "%s: column \"%s\" is of type %s, wants %s", file, want->name, zt_dtype_name(have),
                zt_dtype_name(to));
        if (zt_dtype_in(have, ZT_ANY_INT | ZT_BIT(ZT_BOOL)) && to == ZT_FLOAT)
            return zt_hint(err, "save it as float32, for example array.astype(\"float32\")");
        if (!zt_dtype_in(have, ZT_ANY_FLOAT) || !zt_dtype_in(to, ZT_ANY_INT))
            return false;
        return want->probabilities
                   ? zt_hint(err,
                             "save class numbers as integers, for example array.astype(\"int64\"); class probabilities "
                             "have samples of shape %s",
                             zt_shape_text(&want->classes, wanted))
                   : zt_hint(err, "save it as integers, for example array.astype(\"int64\")");
    }
    if (!fits(sample, &want->shape) && !(want->ones && fits_but_for_ones(sample, &want->shape, &as))) {
        zt_fail(err, ZT_EXIT_DATA, "%s: column \"%s\" has samples of shape %s, wants %s", file, want->name,
                zt_shape_text(sample, found), zt_shape_text(&want->shape, wanted));
        return hint_shape(sample, &want->shape, err);
    }
    int64_t bytes;
    if (__builtin_mul_overflow(zt_shape_count(sample), (int64_t)zt_dtype_bytes(to), &bytes))
        return zt_fail(err, ZT_EXIT_DATA, "%s: column \"%s\" has samples of shape %s, too large for any memory", file,
                       want->name, zt_shape_text(sample, found));
    *column = (struct zt_column){ .name = want->name, .dtype = to, .shape = as, .sample_bytes = (size_t)bytes };
    return true;
}

/* Between signed and unsigned of one width, and from signed to a wider unsigned, only values that are not negative
 * (read as int64) keep their meaning. */
static bool sign_matters(enum zt_dtype from, enum zt_dtype to) {
    bool from_signed = zt_dtype_in(from, ZT_ANY_SIGNED), to_signed = zt_dtype_in(to, ZT_ANY_SIGNED);
    if (from == ZT_BOOL || !zt_dtype_in(from, ZT_ANY_INT))
        return false;
    return from_signed ? !to_signed : to_signed && zt_dtype_bytes(from) == zt_dtype_bytes(to);
}

/* The value as int64, or -1 where an unsigned one is too big for the signed type of the same width. */
static int64_t signed_value(enum zt_dtype from, const void *data, int64_t i) {
    int64_t value = zt_load_int(from, data, i);
    int bits = 8 * (int)zt_dtype_bytes(from);
    if (zt_dtype_in(from, ZT_ANY_UNSIGNED) && bits < 64 && value >= INT64_C(1) << (bits - 1))
        return -1;
    return value;
}

static bool check_signs(const struct zt_column *column, const struct zt_values *v, struct zt_err *err) {
    int64_t width = zt_shape_count(&column->shape);
    for (int64_t i = 0; i < v->rows * width; i++) {
        if (signed_value(v->dtype, v->at, i) >= 0)
            continue;
        char value[32];
        int64_t found = zt_load_int(v->dtype, v->at, i);
        snprintf(value, sizeof value, v->dtype == ZT_UINT64 ? "%llu" : "%lld", (long long)found);
        return zt_fail(err, ZT_EXIT_DATA, "%s: column \"%s\", row %lld: value %s of type %s does not fit %s", v->file,
                       column->name, (long long)(v->first + i / width), value, zt_dtype_name(v->dtype),
                       zt_dtype_name(column->dtype));
    }
    return true;
}

static bool check_range(const struct zt_column *column, const struct zt_want *want, const struct zt_values *v,
                        struct zt_err *err) {
    const int64_t width = zt_shape_count(&column->shape), count = want->below > 0 ? want->below : want->indexed;
    const int64_t least = want->below > 0 ? 0 : -count;
    for (int64_t i = 0; i < v->rows * width; i++) {
        int64_t value = zt_load_int(v->dtype, v->at, i);
        if ((value < least || value >= count) && (want->below <= 0 || value != want->except))
            return zt_fail(err, ZT_EXIT_DATA, "%s: column \"%s\", row %lld: value %lld is out of range, wants 0..%lld",
                           v->file, column->name, (long long)(v->first + i / width), (long long)value,
                           (long long)count - 1);
    }
    return true;
}

static bool is_whole(enum zt_dtype dtype) {
    return zt_dtype_in(dtype, ZT_ANY_INT | ZT_BIT(ZT_BOOL));
}

static bool has_range(const struct zt_want *want, enum zt_dtype have) {
    return is_whole(have) && (want->below > 0 || want->indexed > 0);
}

bool zt_column_needs_check(const struct zt_column *column, const struct zt_want *want, enum zt_dtype have) {
    return sign_matters(have, column->dtype) || has_range(want, have);
}

bool zt_column_check(const struct zt_column *column, const struct zt_want *want, const struct zt_values *v,
                     struct zt_err *err) {
    return (!sign_matters(v->dtype, column->dtype) || check_signs(column, v, err)) &&
           (!has_range(want, v->dtype) || check_range(column, want, v, err));
}

void zt_column_copy(const struct zt_column *column, const struct zt_values *v, void *to) {
    int64_t count = v->rows * zt_shape_count(&column->shape);
    if (v->dtype == column->dtype) {
        if (to != v->at)
            memcpy(to, v->at, (size_t)count * zt_dtype_bytes(v->dtype));
        return;
    }
    for (int64_t i = 0; i < count; i++)
        if (is_whole(v->dtype) && zt_dtype_in(column->dtype, ZT_ANY_FLOAT))
            zt_store_double(column->dtype, to, i, (double)zt_load_int(v->dtype, v->at, i));
        else if (is_whole(v->dtype))
            zt_store_int(column->dtype, to, i, zt_load_int(v->dtype, v->at, i));
        else
            zt_store_double(column->dtype, to, i, zt_load_double(v->dtype, v->at, i));
}

bool zt_column_convert(const struct zt_column *column, const struct zt_want *want, const struct zt_values *v, void *to,
                       struct zt_err *err) {
    if (!zt_column_check(column, want, v, err))
        return false;
    zt_column_copy(column, v, to);
    return true;
}

/* A macro, since the loop is the same for four element types. */
#define LOOK_UP(type)                                                                                                  \
    for (size_t i = 0; i < count; i++)                                                                                 \
        ((type *)to)[i] = ((const type *)table)[from[i]];

/* `count` bytes of one plane; elements are moved as numbers of their size. */
static void look_up(size_t element_bytes, const void *table, const unsigned char *from, size_t count, void *to) {
    switch (element_bytes) {
    case 1:
        LOOK_UP(uint8_t)
        break;
    case 2:
        LOOK_UP(uint16_t)
        break;
    case 4:
        LOOK_UP(uint32_t)
        break;
    default:
        LOOK_UP(uint64_t)
    }
}

void zt_column_decode(const struct zt_column *column, const struct zt_stored *stored, const void *from, void *to) {
    if (!stored->table) {
        memcpy(to, from, stored->bytes);
        return;
    }
    size_t plane = stored->bytes / (size_t)stored->planes, each = zt_dtype_bytes(column->dtype);
    for (size_t p = 0; p < (size_t)stored->planes; p++)
        look_up(each, (const char *)stored->table + p * ZT_LEVELS * each, (const unsigned char *)from + p * plane,
                plane, (char *)to + p * plane * each);
}

bool zt_column_no_normalize(const struct zt_config *config, const char *format, struct zt_err *err) {
    if (config->data.mean.count == 0 && config->data.std.count == 0)
        return true;
    zt_fail(err, ZT_EXIT_CONFIG, "ztrain.data.normalize: format \"%s\" has no channels to normalize", format);
    return zt_hint(err, "normalize the arrays before they are saved");
}

bool zt_column_sample_shape(const char *name, const struct zt_shape *array, struct zt_shape *sample, const char *file,
                            struct zt_err *err) {
    if (array->rank == 0)
        return zt_fail(err, ZT_EXIT_DATA,
                       "%s: column \"%s\" is a single number, wants a first axis that counts samples", file, name);
    *sample = (struct zt_shape){ .rank = array->rank - 1 };
    memcpy(sample->dim, array->dim + 1, (size_t)sample->rank * sizeof *sample->dim);
    return true;
}

bool zt_column_picture(const struct zt_column *column, const void *sample, struct zt_picture *to, struct zt_err *err) {
    const int64_t *dim = column->shape.dim;
    if (!zt_picture_init(to, (int)dim[0], (int)dim[1], (int)dim[2], err))
        return false;
    for (int64_t i = 0; i < zt_shape_count(&column->shape); i++)
        to->at[i] = (float)zt_load_double(column->dtype, sample, i);
    return true;
}
