/* The [ZT_CPU] column of reductions (formulas in reduce.c). */
#ifndef ZT_OPS_REDUCE_REDUCE_CPU_H
#define ZT_OPS_REDUCE_REDUCE_CPU_H

#include "graph/ir/op.h"

/* The functions of ZT_REDUCE_CPU (struct zt_kernel). Supported is a float input with at least one element, over any
 * axes. `prepare` chooses the loop and sets the workspace. */
bool zt_reduce_cpu_supports(const struct zt_graph *g, int node);
bool zt_reduce_cpu_prepare(struct zt_prepare *p, struct zt_err *err);
bool zt_reduce_cpu_run(const struct zt_call *call, struct zt_err *err);

/* Channels of a blocked tensor that end within a block: how many there are, and their blocks. 0: there is no such end.
 */
struct zt_reduce_channels {
    int64_t count, blocks;
};
/* Returns the axes of input 0 in memory, of which those of `over` are reduced. A blocked tensor stays blocked where no
 * place is kept and padding is not reduced: it has one more axis, the channels of a block, which `over` then has too.
 * All other inputs, and an input 0 in any other order, are wanted plain. */
struct zt_shape zt_reduce_memory(struct zt_prepare *p, bool over[ZT_MAX_RANK], struct zt_reduce_channels *channels);
/* Results in a row of `width`, and where the row begins in the plain tensor of all results. */
static inline int64_t zt_reduce_width(const struct zt_reduce_channels *c, int64_t row, int64_t width) {
    const int64_t left = c->count ? c->count - row % c->blocks * width : width;
    return left < width ? left : width;
}
static inline int64_t zt_reduce_row(const struct zt_reduce_channels *c, int64_t row, int64_t width) {
    return c->count ? row / c->blocks * c->count + row % c->blocks * width : row * width;
}

#define ZT_REDUCE_CPU                                                                                                  \
    { .supports = zt_reduce_cpu_supports, .prepare = zt_reduce_cpu_prepare, .run = zt_reduce_cpu_run }

#endif
