/* What a run says of itself at its start, on stderr. */
#ifndef ZT_REPORT_REPORT_H
#define ZT_REPORT_REPORT_H

#include "plan/rank_plan.h"
#include "session/session.h"

/* Start of a run, on stderr (contract.md, "Console"). */
void zt_report_start(const struct zt_session *s, const struct zt_rank_plan *plan, const struct zt_device *device,
                     int64_t steps);
/* What the exporter lost of the parameters, and what is doubtful: at most ten lines. */
void zt_report_findings(const struct zt_session *s);
/* What the config and the graphs of `programs` have to say, a row each. */
void zt_report_notes(const struct zt_session *s, const struct zt_program_set *programs);

#endif
