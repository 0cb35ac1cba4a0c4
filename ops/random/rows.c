/* The rows of this family. */
#include "ops/kernel/rows.h"

#define ROWS(ROW)                                                                                                      \
    ROW(bernoulli)                                                                                                     \
    ROW(dropout)                                                                                                       \
    ROW(dropout_7)                                                                                                     \
    ROW(dropout_grad)                                                                                                  \
    ROW(dropout_train)                                                                                                 \
    ROW(multinomial)                                                                                                   \
    ROW(random_normal)                                                                                                 \
    ROW(random_normal_like)                                                                                            \
    ROW(random_uniform)                                                                                                \
    ROW(random_uniform_like)

ZT_ROWS(random, ROWS)
