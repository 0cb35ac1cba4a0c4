/* The rows of this family. */
#include "ops/kernel/rows.h"

#define ROWS(ROW)                                                                                                      \
    ROW(batch_norm_fixed_grad)                                                                                         \
    ROW(batch_norm_grad)                                                                                               \
    ROW(batch_norm_relu)                                                                                               \
    ROW(batch_norm_relu_grad)                                                                                          \
    ROW(batch_norm_statistics)                                                                                         \
    ROW(batch_norm_sync)                                                                                               \
    ROW(batch_norm_sync_grad)                                                                                          \
    ROW(batch_norm_train)                                                                                              \
    ROW(batch_normalization)                                                                                           \
    ROW(batch_normalization_7)                                                                                         \
    ROW(group_normalization)                                                                                           \
    ROW(instance_normalization)                                                                                        \
    ROW(layer_normalization)                                                                                           \
    ROW(norm_grad)                                                                                                     \
    ROW(norm_stats)                                                                                                    \
    ROW(norm_swish)                                                                                                    \
    ROW(norm_swish_grad)                                                                                               \
    ROW(rms_normalization)

ZT_ROWS(norm, ROWS)
