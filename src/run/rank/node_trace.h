/* Where the first number that is not finite begins, found while the nodes of a rank run (trace.h runs a step again for
 * it). */
#ifndef ZT_RUN_RANK_NODE_TRACE_H
#define ZT_RUN_RANK_NODE_TRACE_H

#include "run/rank/blocks.h"

/* A candidate: where following back ended. */
struct zt_trace_origin {
    const struct zt_run_program *program; /* NULL: none */
    int value, node;                      /* node: that made the value, -1: a column or a weight */
    unsigned kind;
    uint64_t micro_batch;
};

/* From begin to end nodes are looked at: r->tracing. */
void zt_rank_tracing_begin(struct zt_rank *r);
void zt_rank_tracing_end(struct zt_rank *r);
/* Outputs of a node that has just run, while r->tracing. */
bool zt_rank_trace_node(struct zt_rank *r, const struct zt_run_program *rp, const struct zt_slot *slot, int n,
                        struct zt_err *err);
/* The first NaN so far, or else the first infinity. */
const struct zt_trace_origin *zt_rank_tracing_first(const struct zt_rank *r);

/* Which values that are not finite there are, 0: none; the worst of them as a text. */
unsigned zt_trace_status(enum zt_dtype dtype, const void *data, int64_t count);
const char *zt_trace_kind(unsigned status);

#endif
