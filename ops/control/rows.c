/* The rows of this family. */
#include "ops/kernel/rows.h"

#define ROWS(ROW)                                                                                                      \
    ROW(eager_run)                                                                                                     \
    ROW(eager_run_grad)                                                                                                \
    ROW(if)                                                                                                            \
    ROW(if_run)                                                                                                        \
    ROW(if_run_grad)                                                                                                   \
    ROW(loop)                                                                                                          \
    ROW(loop_run)                                                                                                      \
    ROW(loop_run_grad)                                                                                                 \
    ROW(scan)                                                                                                          \
    ROW(scan_8)

ZT_ROWS(control, ROWS)
