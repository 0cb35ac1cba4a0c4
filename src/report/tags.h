/* Values for the monitors after a step and after an evaluation, by tag. The tags are DeepSpeed's; samples_per_second,
 * grad_norm and eval_accuracy are additional. */
#ifndef ZT_REPORT_TAGS_H
#define ZT_REPORT_TAGS_H

#include "report/metrics_file.h"
#include "report/monitors.h"
#include "report/wall_clock.h"

/* `times`: NULL without wall_clock_breakdown; `samples`: trained so far, with this step. */
bool zt_tags_step(struct zt_monitors *m, const struct zt_metrics_row *row, const struct zt_wall_clock *times,
                  int64_t samples, struct zt_err *err);
/* An accuracy of NAN is omitted. */
bool zt_tags_eval(struct zt_monitors *m, double loss, double accuracy, int64_t samples, struct zt_err *err);

#endif
