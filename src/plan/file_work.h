/* Transfers of a rank between memory and files (offload to NVMe), for the cost model and plan.txt. */
#ifndef ZT_PLAN_FILE_WORK_H
#define ZT_PLAN_FILE_WORK_H

#include "plan/plan.h"

/* Returns the transfers of the rank of the stage with the most memory. The update moves each state and each weight in a
 * file once in each direction, twice where the optimizer needs norms of whole tensors (Lamb). A gather reads the rank's
 * slice, unless one of the buffers has it. */
struct zt_file_work zt_plan_file_work(const struct zt_rank_plan *plan);

/* Prints where the files are, how they are read and written, and how long that takes: a part of zt_plan_print().
 * Nothing without files. */
void zt_plan_print_files(const struct zt_plan *plan, FILE *to);

#endif
