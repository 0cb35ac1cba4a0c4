/* Which implementations a program's nodes take (struct zt_path): how many each, and for nodes on our own kernels why no
 * library runs them. */
#ifndef ZT_PLAN_PATHS_H
#define ZT_PLAN_PATHS_H

#include "base/log.h"
#include "base/text.h"
#include "parallel/schedule/program.h"

/* Lines, each with its newline: a count for each implementation, then a line for nodes that share operator, type and
 * note. Nothing where no node has a choice. Finish the text. */
void zt_paths_list(const struct zt_program *program, struct zt_text *to);

#endif
