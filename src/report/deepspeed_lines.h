/* The lines of a step that DeepSpeed prints and that scripts parse. */
#ifndef ZT_REPORT_DEEPSPEED_LINES_H
#define ZT_REPORT_DEEPSPEED_LINES_H

#include "base/text.h"
#include "base/log.h"
#include "report/metrics_file.h"

/* Prints the step line. Its rates are those of the next step, since DeepSpeed advances the schedule before it prints.
 * `skipped`: skipped steps of the whole run. `text`: empty; the line is composed in it. */
void zt_deepspeed_say_step(const struct zt_log *log, const struct zt_config *config, const struct zt_metrics_row *row,
                           int64_t skipped, struct zt_text *text);
/* Prints the overflow line of a skipped step, with what overflowed first where that is known (run/overflow.h), and the
 * line of a hysteresis that consecutive_hysteresis restores. */
void zt_deepspeed_say_scaling(const struct zt_log *log, const struct zt_metrics_row *row);

#endif
