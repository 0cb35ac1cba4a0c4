/* The rows of this family. */
#include "ops/kernel/rows.h"

#define ROWS(ROW)                                                                                                      \
    ROW(causal_conv_with_state)                                                                                        \
    ROW(causal_conv_with_state_grad)                                                                                   \
    ROW(linear_attention)                                                                                              \
    ROW(linear_attention_grad)

ZT_ROWS(linear_attention, ROWS)
