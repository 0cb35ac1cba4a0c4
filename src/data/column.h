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
    const char *file; /* for errors */
};

/* Converts samples to the column's type in `to`, and checks that integers fit it and are in the wanted range; errors
 * number rows from 0. Values of the column's own type are checked and copied, unless they are at `to` already. */
bool zt_column_convert(const struct zt_column *column, const struct zt_want *want, const struct zt_values *values,
                       void *to, struct zt_err *err);

/* Decodes one sample of the column from its stored form. */
void zt_column_decode(const struct zt_column *column, const struct zt_stored *stored, const void *from, void *to);

/* An error where the config has ztrain.data.normalize, for formats without channels. */
bool zt_column_no_normalize(const struct zt_config *config, const char *format, struct zt_err *err);

#endif
