/* Hashes of the outputs of every node, and of the weights it reads, in the first steps of a run (config key
 * ztrain.hashes). */
#ifndef ZT_RUN_RANK_NODE_HASHES_H
#define ZT_RUN_RANK_NODE_HASHES_H

#include "run/rank/blocks.h"

/* Creates the file in `folder` with the tensors of the training programs, and sets r->hashes. It is closed with the
 * rank. */
bool zt_rank_hashes_create(struct zt_rank *r, const char *folder, struct zt_err *err);
void zt_rank_hashes_destroy(struct zt_rank *r); /* does nothing if r->hashes is NULL */
/* Called at the begin and at the end of step `step` (from 0). At the begin it enables hashing if the step is one of the
 * requested ones, at the end it writes the hashes. Does nothing if r->hashes is NULL. */
bool zt_rank_hashes_step(struct zt_rank *r, int64_t step, bool begins, struct zt_err *err);
/* Hashes outputs and weights of a node that has just run. Called if r->hashing. */
bool zt_rank_hashes_node(struct zt_rank *r, const struct zt_run_program *rp, int n, struct zt_err *err);

#endif
