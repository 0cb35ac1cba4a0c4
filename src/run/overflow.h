/* Search for the gradient that made a step overflow, which --verbose names. */
#ifndef ZT_RUN_OVERFLOW_H
#define ZT_RUN_OVERFLOW_H

#include "run/rank/rank.h"

/* The first non-finite gradient in the order of the backward pass. */
struct zt_overflow {
    int rank;                 /* the first that owns a part of it which is not finite */
    char tensor[ZT_ERR_TEXT]; /* name of the weight; empty: all gradients are finite, the loss is not */
};

/* Looks at the gradients of the latest step, which was skipped. Collective: all ranks get the same result. No step may
 * be begun and not ended. */
bool zt_rank_overflow(struct zt_rank *r, struct zt_overflow *to, struct zt_err *err);

#endif
