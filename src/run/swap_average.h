/* The moving average of the trained weights (ztrain.ema), an optimizer state that evaluation and the exported model
 * use in place of the weights. The optimizer step advances it (rank/update.c). */
#ifndef ZT_RUN_SWAP_AVERAGE_H
#define ZT_RUN_SWAP_AVERAGE_H

#include "run/rank/rank.h"

/* Exchanges the weights and their average on all ranks; the next call exchanges them again. Does nothing without
 * ztrain.ema. Collective, between steps. */
bool zt_rank_swap_average(struct zt_rank *rank, struct zt_err *err);

#endif
