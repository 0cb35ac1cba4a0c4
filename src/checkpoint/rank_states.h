/* ranks.safetensors, which runs of 1-bit optimizers on several ranks have: what each rank has of its own
 * (optim/one_bit.h).
 *
 *     rank.R.worker_error, rank.R.server_error     errors of the compression
 *     rank.R.weights, rank.R.STATE                 flat weights and states, where those of the ranks are apart
 *
 * The other files then have weights and states of rank 0. */
#ifndef ZT_CHECKPOINT_RANK_STATES_H
#define ZT_CHECKPOINT_RANK_STATES_H

#include "checkpoint/state.h"

/* Whether the run has the file. */
bool zt_rank_states_exist(const struct zt_rank_plan *plan);
/* Whether weights and states of the ranks are apart after `updates` updates. */
bool zt_rank_states_apart(const struct zt_rank_plan *plan, int64_t updates);
/* Lists the tensors of the file. */
void zt_rank_states_list(const struct zt_rank_plan *plan, struct zt_arena *arena, bool apart,
                         struct zt_stored_file *file);
/* Number of tensors of a rank; the address of tensor `i` of the list's part of this rank, in the rank's memory. */
int zt_rank_states_count(const struct zt_rank_plan *plan, bool apart);
void *zt_rank_states_at(const struct zt_rank *rank, int i);

#endif
