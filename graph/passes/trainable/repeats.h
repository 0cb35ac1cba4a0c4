/* Initializers with repeated vectors of a parameter: the exporter folded an Expand, or a Gather that reads rows several
 * times. Without this pass each copy would train separately.
 *
 *     expand [4, 1, 32] of class_token: 4 equal vectors along axis 2 -> parameter [1, 32], Gather of 0 0 0 0
 *     a bias table read by relative position, [1, heads, t, t]: one vector along axis 1 per distance */
#ifndef ZT_GRAPH_PASSES_TRAINABLE_REPEATS_H
#define ZT_GRAPH_PASSES_TRAINABLE_REPEATS_H

#include "graph/passes/trainable/derived.h"

enum zt_repeats {
    ZT_REPEATS_NOTHING,
    ZT_REPEATS_PERHAPS, /* all elements are equal, which is no evidence */
    ZT_REPEATS_VECTORS  /* d->repeated, d->made and d->lost are set */
};
/* Finds equal vectors along the axis of v that leaves the fewest distinct elements. Results are in `arena`. */
enum zt_repeats zt_derived_repeats(struct zt_arena *arena, const struct zt_value *v, struct zt_derived *d);

/* Appends a Gather and a Transpose that compute the initializer from the parameter `from`. Returns the value; -1:
 * failed. */
int zt_derived_add_repeats(struct zt_graph *g, const struct zt_op_table *table, const struct zt_derived *d, int from,
                           int64_t place, struct zt_err *err);

/* Computes the contents of v from its parameter. */
void zt_derived_repeat(const struct zt_derived *d, const struct zt_value *v, enum zt_dtype dtype, const void *parameter,
                       void *to);

#endif
