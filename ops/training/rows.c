/* The rows of this family. */
#include "ops/kernel/rows.h"

#define ROWS(ROW)                                                                                                      \
    ROW(adagrad)                                                                                                       \
    ROW(adam)                                                                                                          \
    ROW(momentum)

ZT_ROWS(training, ROWS)
