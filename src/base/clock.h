/* The clock that durations are taken from. */
#ifndef ZT_BASE_CLOCK_H
#define ZT_BASE_CLOCK_H

/* Monotonic seconds: only differences mean anything, within this host. */
double zt_now(void);

#endif
