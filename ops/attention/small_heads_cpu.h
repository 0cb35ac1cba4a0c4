/* Attention of small heads, in float, without mask: a vector holds one element of many heads, so that neither the few
 * columns of a head nor its few keys leave vectors part empty. As many heads stand beside each other as a panel has
 * queries. */
#ifndef ZT_OPS_ATTENTION_SMALL_HEADS_CPU_H
#define ZT_OPS_ATTENTION_SMALL_HEADS_CPU_H

#include "ops/attention/attention_cpu.h"

/* Whether the node, of this geometry, fits and the products of panels (attention_cpu.h) are slower. */
bool zt_small_heads_fit(const struct zt_graph *g, int node, const struct zt_attention *a);
/* Floats of workspace of a thread. */
int64_t zt_small_heads_elems(const struct zt_attention_plan *plan, bool backward);

/* The node's run; the call's state is the plan. The bits do not depend on the threads. */
void zt_small_heads_forward(const struct zt_call *call);
void zt_small_heads_backward(const struct zt_call *call);

#endif
