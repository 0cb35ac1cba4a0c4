/* Contents of frozen weights that graphs share: aligned copies, and copies in half precision.
 *
 * A weight that does not train is read where the mapped model file holds it. A copy is made where the file holds it
 * unaligned or in another type than the nodes read. All graphs and all rank threads of a process use the same copy. */
#ifndef ZT_PLAN_JOB_FROZEN_H
#define ZT_PLAN_JOB_FROZEN_H

#include "graph/ir/graph.h"

struct zt_frozen;

struct zt_frozen *zt_frozen_create(void);
void zt_frozen_destroy(struct zt_frozen *frozen); /* accepts NULL */
/* Returns the contents of a weight in dtype `dtype`, aligned; NULL if the weight has no contents (plan). Conversions
 * are float to half types and between half types, rounded to nearest even. May be called by several threads. `frozen`
 * is a struct zt_frozen (zt_half_options). */
const void *zt_frozen_contents(void *frozen, const struct zt_value *weight, enum zt_dtype dtype);
/* Gives frozen initializers of a graph that nodes read aligned contents. */
void zt_frozen_align(struct zt_frozen *frozen, struct zt_graph *g);

#endif
