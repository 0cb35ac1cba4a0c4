/* The rows of this family. */
#include "ops/kernel/rows.h"

#define ROWS(ROW)                                                                                                      \
    ROW(attention)                                                                                                     \
    ROW(attention_train)                                                                                               \
    ROW(attention_grad)                                                                                                \
    ROW(flex_attention)                                                                                                \
    ROW(packed_attention)                                                                                              \
    ROW(packed_attention_grad)                                                                                         \
    ROW(packed_attention_train)                                                                                        \
    ROW(rotary_cache_grad)                                                                                             \
    ROW(rotary_embedding)

ZT_ROWS(attention, ROWS)
