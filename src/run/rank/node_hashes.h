/* Hashes of what every node of a rank gave, and of the weights it read, in the first steps of a run (config key
 * ztrain.hashes). */
#ifndef ZT_RUN_RANK_NODE_HASHES_H
#define ZT_RUN_RANK_NODE_HASHES_H

#include "run/rank/blocks.h"

/* Opens the file in `folder` and lists the tensors of the training programs; r->hashes is set. Ends with the rank. */
bool zt_rank_hashes_create(struct zt_rank *r, const char *folder, struct zt_err *err);
void zt_rank_hashes_destroy(struct zt_rank *r); /* harmless without */
/* Around a step, counted from 0: from its begin on nodes are hashed, where it is one of those asked for; at its end
 * what was kept is written. Harmless without hashes. */
bool zt_rank_hashes_step(struct zt_rank *r, int64_t step, bool begins, struct zt_err *err);
/* Outputs and weights of a node that has just run, while r->hashing. */
bool zt_rank_hashes_node(struct zt_rank *r, const struct zt_run_program *rp, int n, struct zt_err *err);

#endif
