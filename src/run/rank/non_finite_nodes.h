/* Checks of node outputs that find the origin of the first non-finite number (run/non_finite_origin.h runs a step
 * again for this). */
#ifndef ZT_RUN_RANK_NON_FINITE_NODES_H
#define ZT_RUN_RANK_NON_FINITE_NODES_H

#include "run/rank/blocks.h"

/* A candidate for the origin. */
struct zt_trace_origin {
    const struct zt_run_program *program; /* NULL: no candidate */
    int value, node;                      /* node: producer of the value; -1: a column or a weight */
    unsigned kind;
    uint64_t micro_batch;
};

/* Node outputs are checked between begin and end (r->tracing is set), of training graphs or of those of evaluations. */
void zt_rank_tracing_begin(struct zt_rank *r, bool training);
void zt_rank_tracing_end(struct zt_rank *r);
/* Checks outputs of a node that has just run. Called if r->tracing. */
bool zt_rank_trace_node(struct zt_rank *r, const struct zt_run_program *rp, const struct zt_slot *slot, int n,
                        struct zt_err *err);
/* Returns the first NaN so far, otherwise the first infinity. */
const struct zt_trace_origin *zt_rank_tracing_first(const struct zt_rank *r);

/* Returns which non-finite values a tensor holds, 0: none; and the name of the worst of them. */
unsigned zt_trace_status(enum zt_dtype dtype, const void *data, int64_t count);
const char *zt_trace_kind(unsigned status);

#endif
