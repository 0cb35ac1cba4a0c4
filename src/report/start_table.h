/* The start of a run on standard error: the table, findings about the model, notes. */
#ifndef ZT_REPORT_START_TABLE_H
#define ZT_REPORT_START_TABLE_H

#include "plan/rank_plan.h"
#include "session/session.h"

/* Prints the start table of a run. */
void zt_report_start(const struct zt_session *s, const struct zt_rank_plan *plan, const struct zt_device *device,
                     int64_t steps);
/* Prints the findings about the model: at most ten lines. */
void zt_report_findings(const struct zt_session *s);
/* Prints the notes of the config and of the graphs of `programs`, one line each. */
void zt_report_notes(const struct zt_session *s, const struct zt_program_set *programs);

#endif
