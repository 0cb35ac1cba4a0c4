/* Fusion patterns that a run may use (ztrain.fuse), and the patterns that were found in a graph. */
#ifndef ZT_PLAN_JOB_FUSION_H
#define ZT_PLAN_JOB_FUSION_H

#include "base/err.h"
#include "base/text.h"
#include "config/config.h"
#include "graph/passes/fusion/apply_patterns.h"

/* Fills `to` with every pattern of ops/patterns.c and the globs of ztrain.fuse. A glob that matches the former name of
 * a pattern allows that pattern too. A glob that matches no name is an error that lists the names. `to` borrows from
 * `config` and `arena`. */
bool zt_fusion_read(const struct zt_config *config, struct zt_arena *arena, struct zt_fusion *to, struct zt_err *err);
/* Returns an array of zeros from `arena`, one for each pattern. */
int *zt_fusion_counts(struct zt_arena *arena);
/* Appends the names and counts of the patterns that were found: "attention 2, gelu 2". */
void zt_fusion_list(const int *counts, struct zt_text *to);

#endif
