/* The implementation of each node of a program (struct zt_path): counts, and the reasons why nodes use our own kernels
 * instead of a library. */
#ifndef ZT_PLAN_KERNEL_PATHS_H
#define ZT_PLAN_KERNEL_PATHS_H

#include "base/log.h"
#include "base/text.h"
#include "parallel/schedule/program.h"

/* Appends lines: the number of nodes of each implementation, then a line for each group of nodes with the same
 * operator, type and note. Appends nothing if no node has a choice. The caller frees `to`. */
void zt_paths_list(const struct zt_program *program, struct zt_text *to);

#endif
