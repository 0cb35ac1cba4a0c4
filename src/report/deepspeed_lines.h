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
/* The steps since the last line of an interval. */
struct zt_deepspeed_interval {
    int64_t steps, samples;
    double seconds;
};
/* Prints the line of a pipeline: the loss of the step, and means of time and throughput over the steps of `interval`.
 */
void zt_deepspeed_say_interval(const struct zt_log *log, const struct zt_metrics_row *row,
                               const struct zt_deepspeed_interval *interval);
/* The steps of this process. */
struct zt_deepspeed_throughput {
    int64_t steps, micro_batches;
    int64_t samples; /* without the first two steps, like the seconds */
    double seconds;
};
/* Counts a step. */
void zt_deepspeed_count(struct zt_deepspeed_throughput *to, const struct zt_metrics_row *row);
/* Prints the throughput line, from the third step of the process on. `text`: empty; the line is composed in it. */
void zt_deepspeed_say_throughput(const struct zt_log *log, const struct zt_deepspeed_throughput *throughput,
                                 const struct zt_metrics_row *row, struct zt_text *text);
/* Prints the overflow line of a skipped step, with what overflowed first where that is known (run/overflow.h), and the
 * line of a hysteresis that consecutive_hysteresis restores. */
void zt_deepspeed_say_scaling(const struct zt_log *log, const struct zt_metrics_row *row);

#endif
