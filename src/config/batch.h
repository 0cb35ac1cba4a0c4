/* The batch arithmetic of DeepSpeed: train_batch = micro_batch * accumulation * data_parallel. */
#ifndef ZT_CONFIG_BATCH_H
#define ZT_CONFIG_BATCH_H

#include "config/read.h"

/* Sets ranks, data_parallel and the three batch sizes in the config; missing ones are derived. Reports batch sizes that
 * do not multiply, and ranks that stages do not divide. */
void zt_config_batch(struct zt_reading *r, const struct zt_config_overrides *over);

/* The batch of an elastic run (elasticity), as deepspeed/elasticity/elasticity.py 0.19 computes it: one that many
 * numbers of ranks divide, so that a run that goes on with another number of ranks keeps its batch.
 *
 * Version 0.1: candidates are each micro-batch, and their least common multiple, times the largest highly composite
 * number with which they stay at or below max_train_batch_size; one that is above it is a candidate as it is. Valid
 * numbers of ranks of a candidate are the divisors of candidate / micro-batch from min_gpus to max_gpus, of all
 * micro-batches that divide it. The candidate with the most of them is the batch; of equals the larger one, or the
 * smaller without prefer_larger_batch. Other numbers of ranks are refused.
 *
 * Version 0.2: the same for hosts of num_gpus_per_node ranks. If the number of ranks is not valid, the batch is the
 * largest (smallest) of micro-batch x ranks x k <= max_train_batch_size, k as large as possible.
 *
 * The micro-batch is the largest that divides batch / ranks. */
enum { ZT_ELASTIC_MICRO_BATCHES = 32 }; /* most that may be given */

struct zt_elastic_batch {
    int64_t batch, micro_batch; /* samples of a step; of a micro-batch */
    int64_t near[2];            /* without a micro-batch: the valid numbers of ranks below and above; 0: none */
};

/* Chooses for `ranks` data-parallel ranks. Returns false where their number is not valid. `config` has micro-batches
 * from 1 to max_batch, in any order. */
bool zt_elastic_choose(const struct zt_elasticity_config *config, int64_t ranks, struct zt_elastic_batch *to);

#endif
