/* Numbers in the rows of metrics.jsonl and memory.jsonl. */
#ifndef ZT_REPORT_METRICS_LINE_H
#define ZT_REPORT_METRICS_LINE_H

#include <stdbool.h>

/* Returns the number after "name": in a row; NAN: none, or null. */
double zt_metrics_number(const char *line, const char *name);
/* Whether the row is that of an evaluation. */
bool zt_metrics_is_eval(const char *line);

#endif
