/* Says where ranks are when a step takes much longer than steps do: a rank that waits for ever in a collective looks
 * the same from outside as one that computes. */
#ifndef ZT_RUN_WATCHDOG_H
#define ZT_RUN_WATCHDOG_H

#include "parallel/comm/rank_status.h"

#include <stdbool.h>

/* Whether a step that has run for `ns` is to be reported when steps took `took_ns` (count of them, any order, sorted
 * here): ten times their median and more than ten seconds. Never before five steps are done. */
bool zt_watchdog_overdue(int64_t ns, int64_t *took_ns, int count, int64_t *median_ns);

struct zt_watchdog;
/* A thread that looks at `ranks` each second and gives say() a line once a step that is overdue. All borrowed until
 * zt_watchdog_destroy(), which NULL does not harm. NULL: there is no thread to be had, and nobody watches. */
struct zt_watchdog *zt_watchdog_create(struct zt_rank_status *const *ranks, int count,
                                       void (*say)(void *arg, const char *line), void *arg);
void zt_watchdog_destroy(struct zt_watchdog *watchdog);

#endif
