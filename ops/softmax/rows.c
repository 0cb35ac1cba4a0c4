/* The rows of this family. */
#include "ops/kernel/rows.h"

#define ROWS(ROW)                                                                                                      \
    ROW(hardmax)                                                                                                       \
    ROW(log_softmax)                                                                                                   \
    ROW(log_softmax_grad)                                                                                              \
    ROW(softmax)                                                                                                       \
    ROW(softmax_grad)

ZT_ROWS(softmax, ROWS)
