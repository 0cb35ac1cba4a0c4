/* The rows of this family. */
#include "ops/kernel/rows.h"

#define ROWS(ROW)                                                                                                      \
    ROW(deform_conv)                                                                                                   \
    ROW(deform_conv_grad_input)                                                                                        \
    ROW(deform_conv_grad_weight)                                                                                       \
    ROW(max_roi_pool)                                                                                                  \
    ROW(max_roi_pool_grad)                                                                                             \
    ROW(non_max_suppression)                                                                                           \
    ROW(roi_align)                                                                                                     \
    ROW(roi_align_10)                                                                                                  \
    ROW(roi_align_grad)

ZT_ROWS(detection, ROWS)
