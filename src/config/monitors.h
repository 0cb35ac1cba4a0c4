/* Rules for the keys of monitors: tensorboard, csv_monitor, flops_profiler and steps_per_print. */
#ifndef ZT_CONFIG_MONITORS_H
#define ZT_CONFIG_MONITORS_H

#include "config/read.h"

/* Reports a job_name that is not a folder below its output_path. */
void zt_config_check_monitors(struct zt_reading *r);
/* Sets what null means for steps_per_print, and wall_clock_breakdown, which flops_profiler turns on. */
void zt_config_derive_monitors(struct zt_reading *r);

#endif
