/* Watchdog for steps that take much longer than usual. A rank that waits forever in a collective looks like a rank that
 * computes, so the watchdog reports the position of each rank. */
#ifndef ZT_RUN_WATCHDOG_H
#define ZT_RUN_WATCHDOG_H

#include "parallel/comm/rank_status.h"

#include <stdbool.h>

/* Whether a step that has run for `ns` is overdue: longer than ten seconds and than ten times the median of `count`
 * previous steps `took_ns`, which are sorted here. Returns false for fewer than five previous steps. */
bool zt_watchdog_overdue(int64_t ns, int64_t *took_ns, int count, int64_t *median_ns);

struct zt_watchdog;
/* Starts a thread that checks `ranks` once per second and passes one line to say() for each overdue step. All arguments
 * are borrowed until zt_watchdog_destroy(), which accepts NULL. Returns NULL if no thread can be started; then nothing
 * is watched. */
struct zt_watchdog *zt_watchdog_create(struct zt_rank_status *const *ranks, int count,
                                       void (*say)(void *arg, const char *line), void *arg);
void zt_watchdog_destroy(struct zt_watchdog *watchdog);

#endif
