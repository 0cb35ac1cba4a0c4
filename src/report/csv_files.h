/* CSV files of scalars, as DeepSpeed's csv_monitor writes them: one file per tag, Train_Samples_lr.csv for
 * Train/Samples/lr, with the columns "step" and the last part of the tag. */
#ifndef ZT_REPORT_CSV_FILES_H
#define ZT_REPORT_CSV_FILES_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* Treatment of rows that exist already. */
enum zt_csv_start {
    ZT_CSV_REPLACE, /* removed */
    ZT_CSV_APPEND,  /* kept */
    ZT_CSV_CUT,     /* kept, without the last rows of steps above `last` */
};

struct zt_csv_files;

/* `folder` exists and is borrowed. A file is opened with its first row. */
struct zt_csv_files *zt_csv_files_create(const char *folder, enum zt_csv_start start, int64_t last);
/* Adds a row; zt_csv_files_flush() writes it. */
bool zt_csv_files_add(struct zt_csv_files *files, const char *tag, int64_t step, double value, struct zt_err *err);
/* Writes the rows added so far; with `sync` it also waits until they are on disk. */
bool zt_csv_files_flush(struct zt_csv_files *files, bool sync, struct zt_err *err);
/* Flushes, closes and frees. Accepts NULL. */
bool zt_csv_files_finish(struct zt_csv_files *files, struct zt_err *err);

#endif
