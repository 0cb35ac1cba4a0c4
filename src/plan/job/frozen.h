/* Contents of frozen weights that graphs share: aligned copies, and copies in half precision.
 *
 * A weight that does not train is read where the mapped model file holds it. A copy is made where the file holds it
 * unaligned or in another type than the nodes read. All graphs and all rank threads of a process use the same copy.
 *
 * If ranks share weights out (parallel/schedule/frozen_weights.h), no copy of a whole matrix is made: each rank
 * converts its own slice from the file. Graphs are then built without the contents of these weights in half types, and
 * zt_frozen_settle() supplies those of weights that are not shared out after all. */
#ifndef ZT_PLAN_JOB_FROZEN_H
#define ZT_PLAN_JOB_FROZEN_H

#include "graph/ir/graph.h"

struct zt_frozen;

/* defers: matrices are not copied before zt_frozen_settle(). */
struct zt_frozen *zt_frozen_create(bool defers);
void zt_frozen_destroy(struct zt_frozen *frozen); /* accepts NULL */
/* Returns the contents of a weight in dtype `dtype`, aligned; NULL if the weight has no contents (plan). Conversions
 * are float to half types and between half types, rounded to nearest even. May be called by several threads. `frozen`
 * is a struct zt_frozen (zt_half_options). NULL also for a deferred copy. */
const void *zt_frozen_contents(void *frozen, const struct zt_value *weight, enum zt_dtype dtype);
/* Gives frozen initializers of a graph that nodes read aligned contents; deferred ones keep those of the file. */
void zt_frozen_align(struct zt_frozen *frozen, struct zt_graph *g);
/* Supplies contents that were deferred, and aligned ones, except to the values in `shared_out` (by id; NULL: none). */
void zt_frozen_settle(struct zt_frozen *frozen, struct zt_graph *g, const bool *shared_out);

/* Remembers where the contents of a weight are, for the life of the job. */
void zt_frozen_know(struct zt_frozen *frozen, const struct zt_value *weight);
/* Address and type of the contents of a weight. */
struct zt_frozen_source {
    const void *data; /* at any address; NULL: the weight has no contents (plan) */
    enum zt_dtype dtype;
};
/* The source of a frozen value: its weight's, if known, else the value itself. */
struct zt_frozen_source zt_frozen_source(struct zt_frozen *frozen, const struct zt_value *value);
/* Converts elements first .. first + count - 1 of a source. */
void zt_frozen_convert(const struct zt_frozen_source *source, int64_t first, int64_t count, enum zt_dtype dtype,
                       void *to);

#endif
