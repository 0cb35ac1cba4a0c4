/* The rows of this family. */
#include "ops/kernel/rows.h"

#define ROWS(ROW)                                                                                                      \
    ROW(eager_run)                                                                                                     \
    ROW(eager_run_grad)                                                                                                \
    ROW(if)                                                                                                            \
    ROW(loop)                                                                                                          \
    ROW(loop_run)                                                                                                      \
    ROW(loop_run_grad)                                                                                                 \
    ROW(scan)

ZT_ROWS(control, ROWS)
