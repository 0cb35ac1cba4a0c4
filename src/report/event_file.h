/* TensorBoard event files: events.out.tfevents.TIME.HOST.PID.N.OWNER.
 *
 * A file is a sequence of records, as TensorFlow's record writer defines them. Integers are little-endian:
 *
 *     u64 length | u32 masked CRC-32C of the length | length bytes: one Event (event.proto) | u32 masked CRC of these
 *     masked(c) = rotate_right(c, 15) + 0xa282ead8
 *
 * Events are collected in memory; zt_event_file_flush() writes whole records. */
#ifndef ZT_REPORT_EVENT_FILE_H
#define ZT_REPORT_EVENT_FILE_H

#include "base/err.h"
#include "run/histogram.h"

#include <stdbool.h>
#include <stdint.h>

struct zt_event_file;

/* Creates a new file in `folder`. `owner` ends its name. Returns NULL with an error. */
struct zt_event_file *zt_event_file_create(const char *folder, const char *owner, struct zt_err *err);
void zt_event_file_scalar(struct zt_event_file *file, const char *tag, int64_t step, double value);
/* Adds text, which TensorBoard shows as Markdown. */
void zt_event_file_text(struct zt_event_file *file, const char *tag, int64_t step, const char *text);
void zt_event_file_histogram(struct zt_event_file *file, const char *tag, int64_t step,
                             const struct zt_histogram *histogram);
/* Writes the events collected so far; with `sync` it also waits until they are on disk. */
bool zt_event_file_flush(struct zt_event_file *file, bool sync, struct zt_err *err);
/* Flushes, closes and frees. Accepts NULL. */
bool zt_event_file_finish(struct zt_event_file *file, struct zt_err *err);

/* Shortens the event files of `owner` in `folder` to their events up to step `last`; the files of other owners stay as
 * they are. With last < 0 the files are removed. A damaged file ends before the damage. */
bool zt_event_files_cut(const char *folder, const char *owner, int64_t last, struct zt_err *err);

#endif
