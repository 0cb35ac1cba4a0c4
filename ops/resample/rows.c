/* The rows of this family. */
#include "ops/kernel/rows.h"

#define ROWS(ROW)                                                                                                      \
    ROW(affine_grid)                                                                                                   \
    ROW(affine_grid_grad)                                                                                              \
    ROW(grid_sample)                                                                                                   \
    ROW(grid_sample_grad)                                                                                              \
    ROW(resize)                                                                                                        \
    ROW(resize_10)                                                                                                     \
    ROW(resize_11)                                                                                                     \
    ROW(resize_grad)                                                                                                   \
    ROW(upsample)                                                                                                      \
    ROW(upsample_7)

ZT_ROWS(resample, ROWS)
