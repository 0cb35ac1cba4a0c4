/* Which fusion patterns a run may use, and which it found. */
#ifndef ZT_PLAN_JOB_FUSION_H
#define ZT_PLAN_JOB_FUSION_H

#include "base/err.h"
#include "base/text.h"
#include "config/config.h"
#include "graph/passes/fusion/apply_patterns.h"

/* ztrain.fuse over all patterns. A glob that fits none of them is an error that lists them. */
bool zt_fusion_read(const struct zt_config *config, struct zt_fusion *to, struct zt_err *err);
/* Zeros, one a pattern. */
int *zt_fusion_counts(struct zt_arena *arena);
/* "attention 2, gelu 2": what was found; nothing where nothing was. */
void zt_fusion_list(const int *counts, struct zt_text *to);

#endif
