/* Initializers in which a parameter's elements stand more than once: the exporter folded an Expand, or a Gather that
 * reads rows again. Trained as they are, each copy would go its own way.
 *
 *     expand [4, 1, 32] of class_token: 4 equal vectors along axis 2 -> parameter [1, 32], Gather of 0 0 0 0
 *     a bias table read by relative position, [1, heads, t, t]: vectors along axis 1, as many as there are distances */
#ifndef ZT_GRAPH_PASSES_TRAINABLE_REPEATS_H
#define ZT_GRAPH_PASSES_TRAINABLE_REPEATS_H

#include "graph/passes/trainable/derived.h"

enum zt_repeats {
    ZT_REPEATS_NOTHING,
    ZT_REPEATS_PERHAPS, /* one number throughout tells nothing */
    ZT_REPEATS_VECTORS  /* of which d->repeated, made and lost are filled */
};
/* Looks for equal vectors along one of v's axes, the one that leaves the fewest elements. In `arena`. */
enum zt_repeats zt_derived_repeats(struct zt_arena *arena, const struct zt_value *v, struct zt_derived *d);

/* Appends Gather and Transpose that make the initializer's contents of the parameter `from`. Returns the value, -1 on
 * failure. */
int zt_derived_add_repeats(struct zt_graph *g, const struct zt_op_table *table, const struct zt_derived *d, int from,
                           int64_t place, struct zt_err *err);

/* v's contents of the parameter's. */
void zt_derived_repeat(const struct zt_derived *d, const struct zt_value *v, enum zt_dtype dtype, const void *parameter,
                       void *to);

#endif
