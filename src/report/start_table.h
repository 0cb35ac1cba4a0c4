/* The start of a run on standard error: the table, findings about the model, notes. */
#ifndef ZT_REPORT_START_TABLE_H
#define ZT_REPORT_START_TABLE_H

#include "plan/plan.h"
#include "session/session.h"

/* Prints the start table of a run. */
void zt_report_start(const struct zt_session *s, const struct zt_rank_plan *plan, const struct zt_device *device,
                     int64_t steps);
enum { ZT_STAGES_RANKS = 16 };
/* Prints DeepSpeed's lines of a pipeline: stage=, layers= and the names of the layers that start in the stage;
 * micro_batches=, micro_batch_size= and a line for each rank with its stage, the layers that start there
 * (parallel/partition/split.h), and the trained parameters of the stage, of all stages, and of all stages without
 * copies of tied ones. With more than ZT_STAGES_RANKS ranks only the first rank of each stage has a line. */
void zt_report_stages(const struct zt_plan *plan, const struct zt_log *log);
/* Prints the findings about the model: at most ten lines. */
void zt_report_findings(const struct zt_session *s);
/* Prints the notes of the config and of the graphs of `programs`, one line each. */
void zt_report_notes(const struct zt_session *s, const struct zt_program_set *programs);

#endif
