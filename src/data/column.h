/* Checks and conversions that all data formats share: a column of the file against the column that is wanted. */
#ifndef ZT_DATA_COLUMN_H
#define ZT_DATA_COLUMN_H

#include "data/data.h"

/* Fills `column` for samples of type `have` and shape `sample`, as `want` has it. Errors name file, column, what was
 * found and what is wanted. */
bool zt_column_accept(struct zt_column *column, const struct zt_want *want, enum zt_dtype have,
                      const struct zt_shape *sample, const char *file, struct zt_err *err);

/* `rows` samples of type `have` to the column's type, checking on the way that integers fit it and lie in the range of
 * the want (rows are named from 0). Data of the column's own type are only checked; to == from is then allowed. */
bool zt_column_convert(const struct zt_column *column, const struct zt_want *want, enum zt_dtype have, const void *from,
                       int64_t rows, void *to, const char *file, struct zt_err *err);

/* What bytes of a sample of the column, kept as `stored` says, stand for. */
void zt_column_decode(const struct zt_column *column, const struct zt_stored *stored, const void *from, void *to);

/* normalize is for formats that know what a channel is; the others refuse it. */
bool zt_column_no_normalize(const struct zt_config *config, const char *format, struct zt_err *err);

#endif
