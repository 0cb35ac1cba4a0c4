/* The rows of this family. */
#include "ops/kernel/rows.h"

#define ROWS(ROW)                                                                                                      \
    ROW(arg_max)                                                                                                       \
    ROW(arg_min)                                                                                                       \
    ROW(cum_prod)                                                                                                      \
    ROW(cum_sum)                                                                                                       \
    ROW(reduce_extreme_grad)                                                                                           \
    ROW(reduce_l1)                                                                                                     \
    ROW(reduce_l1_1)                                                                                                   \
    ROW(reduce_l2)                                                                                                     \
    ROW(reduce_l2_1)                                                                                                   \
    ROW(reduce_log_sum)                                                                                                \
    ROW(reduce_log_sum_1)                                                                                              \
    ROW(reduce_log_sum_exp)                                                                                            \
    ROW(reduce_log_sum_exp_1)                                                                                          \
    ROW(reduce_max)                                                                                                    \
    ROW(reduce_max_1)                                                                                                  \
    ROW(reduce_mean)                                                                                                   \
    ROW(reduce_mean_1)                                                                                                 \
    ROW(reduce_min)                                                                                                    \
    ROW(reduce_min_1)                                                                                                  \
    ROW(reduce_prod)                                                                                                   \
    ROW(reduce_prod_1)                                                                                                 \
    ROW(reduce_sum)                                                                                                    \
    ROW(reduce_sum_1)                                                                                                  \
    ROW(reduce_sum_square)                                                                                             \
    ROW(reduce_sum_square_1)                                                                                           \
    ROW(top_k)                                                                                                         \
    ROW(top_k_1)                                                                                                       \
    ROW(top_k_10)

ZT_ROWS(reduce, ROWS)
