/* Lines that DeepSpeed prints while a rank is created. */
#ifndef ZT_REPORT_CREATION_H
#define ZT_REPORT_CREATION_H

#include "base/log.h"
#include "config/config.h"
#include "run/rank/rank.h"

struct zt_creation_lines {
    const struct zt_config *config;
    struct zt_device *device;
    const struct zt_log *log;
    double began; /* zt_now() before the optimizer states are created */
};

/* Prints what belongs to a point (struct zt_rank_progress, `with` is a struct zt_creation_lines): with ZeRO or
 * memory_breakdown memory lines (memory.h), whose tags depend on the ZeRO stage; with wall_clock_breakdown at ZeRO
 * stage 3 the time in which the optimizer states get their memory and files. */
void zt_creation_at(void *with, enum zt_rank_point point);

#endif
