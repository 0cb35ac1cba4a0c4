/* Rows of tensors of float, bfloat16 or float16 as floats, for the CPU kernels of this family, which compute in float.
 */
#ifndef ZT_OPS_LINEAR_ATTENTION_FLOAT_ROWS_H
#define ZT_OPS_LINEAR_ATTENTION_FLOAT_ROWS_H

#include "graph/ir/op.h"

/* Whether all inputs of the node have such a type. */
bool zt_float_rows_only(const struct zt_graph *g, int node);
/* Input or output i of a call; NULL where it is absent, and for an output without elements: gradient rows give omitted
 * inputs such outputs. */
const struct zt_view *zt_float_row_in(const struct zt_call *call, int i);
const struct zt_view *zt_float_row_out(const struct zt_call *call, int i);
/* to[i] = element offset + i; zeros of a tensor that is NULL. */
void zt_float_row_load(const struct zt_view *from, int64_t offset, int64_t count, float *to);
/* Element offset + i = from[i]; nothing of a tensor that is NULL. */
void zt_float_row_store(const struct zt_view *to, int64_t offset, int64_t count, const float *from);

/* Takes `count` floats of a workspace, at a multiple of a cache line; base NULL: only counts them. */
float *zt_float_row_take(float *base, int64_t *used, int64_t count);

#endif
