/* The rows of this family. */
#include "ops/kernel/rows.h"

#define ROWS(ROW)                                                                                                      \
    ROW(lp_normalization)                                                                                              \
    ROW(lp_normalization_grad)                                                                                         \
    ROW(lrn)                                                                                                           \
    ROW(lrn_grad)                                                                                                      \
    ROW(mean_variance_normalization)                                                                                   \
    ROW(mean_variance_normalization_grad)

ZT_ROWS(norm_slices, ROWS)
