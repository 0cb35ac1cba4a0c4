/* Checks and conversions that all data formats share: a column of the file against the column that is wanted. */
#ifndef ZT_DATA_COLUMN_H
#define ZT_DATA_COLUMN_H

#include "data/data.h"

/* Sets `column` to the wanted form of samples of type `have` and shape `sample`. Errors name the file, the column, and
 * the found and wanted type or shape. */
bool zt_column_accept(struct zt_column *column, const struct zt_want *want, enum zt_dtype have,
                      const struct zt_shape *sample, const char *file, struct zt_err *err);

/* Samples as a file has them. */
struct zt_values {
    enum zt_dtype dtype;
    const void *at;
    int64_t rows;
    int64_t first;    /* number of the first row, for errors */
    const char *file; /* for errors */
};

/* Converts samples to the column's type in `to`, and checks that integers fit it and are in the wanted range; errors
 * number rows from 0. Values of the column's own type are checked and copied, unless they are at `to` already. */
bool zt_column_convert(const struct zt_column *column, const struct zt_want *want, const struct zt_values *values,
                       void *to, struct zt_err *err);

/* Whether a value of type `have` may miss the column's type or the wanted range, so that the values must be checked. */
bool zt_column_needs_check(const struct zt_column *column, const struct zt_want *want, enum zt_dtype have);
/* The check and the conversion of zt_column_convert() alone; the conversion of `rows` samples cannot fail. */
bool zt_column_check(const struct zt_column *column, const struct zt_want *want, const struct zt_values *values,
                     struct zt_err *err);
void zt_column_copy(const struct zt_column *column, const struct zt_values *values, void *to);

/* Decodes one sample of the column from its stored form. */
void zt_column_decode(const struct zt_column *column, const struct zt_stored *stored, const void *from, void *to);

/* The shape of one sample of an array, without the first axis, which counts samples. */
bool zt_column_sample_shape(const char *name, const struct zt_shape *array, struct zt_shape *sample, const char *file,
                            struct zt_err *err);
/* A sample [C, H, W] of the column's type as a picture. */
bool zt_column_picture(const struct zt_column *column, const void *sample, struct zt_picture *to, struct zt_err *err);

/* An error where the config has ztrain.data.normalize, for formats without channels. */
bool zt_column_no_normalize(const struct zt_config *config, const char *format, struct zt_err *err);

#endif
