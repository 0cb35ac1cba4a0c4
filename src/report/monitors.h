/* The monitors that the config asks for: TensorBoard event files and CSV files. Only rank 0 has them.
 *
 * Tags and values are those of DeepSpeed's monitors, and the x-axis is the number of samples trained so far. The files
 * are in <output_path>/<job_name>; without an output_path they are in the run's output folder. A new run replaces the
 * files of an earlier run in its own folder and appends to CSV files elsewhere, as DeepSpeed does. A resumed run first
 * removes what was written after its checkpoint. */
#ifndef ZT_REPORT_MONITORS_H
#define ZT_REPORT_MONITORS_H

#include "config/config.h"
#include "report/event_file.h"

struct zt_monitors;

/* Creates the folders of the monitors that are on, and checks that they can be written. */
bool zt_monitors_prepare(const struct zt_config *config, const char *folder, struct zt_err *err);
/* Opens the files. `folder`: the run's output folder; `samples`: those before the first step; `resumed`: whether the
 * run continues a checkpoint. Returns an object without files if the config asks for none, NULL with an error. */
struct zt_monitors *zt_monitors_create(const struct zt_config *config, const char *folder, int64_t samples,
                                       bool resumed, struct zt_err *err);
/* Whether some monitor is on. */
bool zt_monitors_on(const struct zt_monitors *m);
/* The folder of the CSV files; NULL: none. */
const char *zt_monitors_csv_folder(const struct zt_monitors *m);
/* Adds a value. It is written within a second, or with the next flush. */
bool zt_monitors_add(struct zt_monitors *m, const char *tag, int64_t samples, double value, struct zt_err *err);
/* CSV files have no histograms. */
void zt_monitors_histogram(struct zt_monitors *m, const char *tag, int64_t samples,
                           const struct zt_histogram *histogram);
/* Writes what was added if a second has passed since the last time, or with `sync`, which also waits for the disk. */
bool zt_monitors_flush(struct zt_monitors *m, bool sync, struct zt_err *err);
/* Flushes, closes and frees. Accepts NULL. */
bool zt_monitors_finish(struct zt_monitors *m, struct zt_err *err);

#endif
