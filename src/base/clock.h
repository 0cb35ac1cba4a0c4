/* The clock for measuring durations. */
#ifndef ZT_BASE_CLOCK_H
#define ZT_BASE_CLOCK_H

/* Returns monotonic seconds. Only differences within one host are meaningful. */
double zt_now(void);

#endif
