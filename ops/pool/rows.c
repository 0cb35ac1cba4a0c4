/* The rows of this family. */
#include "ops/kernel/rows.h"

#define ROWS(ROW)                                                                                                      \
    ROW(average_pool)                                                                                                  \
    ROW(average_pool_grad)                                                                                             \
    ROW(global_average_pool)                                                                                           \
    ROW(global_lp_pool)                                                                                                \
    ROW(global_max_pool)                                                                                               \
    ROW(lp_pool)                                                                                                       \
    ROW(max_pool)                                                                                                      \
    ROW(max_pool_grad)                                                                                                 \
    ROW(max_pool_train)                                                                                                \
    ROW(max_unpool)                                                                                                    \
    ROW(max_unpool_grad)                                                                                               \
    ROW(sum_pool_grad)

ZT_ROWS(pool, ROWS)
