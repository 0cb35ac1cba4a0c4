/* Frozen weights that the data-parallel ranks of a stage share out, as they share out the parameters that train: each
 * rank holds a slice, and the program gathers a bucket before its first use and releases it after the last. They have
 * no gradients and no optimizer states.
 *
 * One layout (parallel/partition/shard.h) holds weights of any type: its elements are units of 4 bytes, and each weight
 * starts at a multiple of 64 bytes. */
#ifndef ZT_PARALLEL_SCHEDULE_FROZEN_WEIGHTS_H
#define ZT_PARALLEL_SCHEDULE_FROZEN_WEIGHTS_H

#include "parallel/schedule/program.h"

/* A weight in the type in which nodes read it. Both together identify it in all graphs of a model. */
struct zt_frozen_weight {
    const char *name; /* initializer */
    enum zt_dtype dtype;
};
struct zt_frozen_layout {
    const struct zt_flat *flat;
    const struct zt_frozen_weight *weights; /* by tensor of `flat` */
};

/* Name and type of a frozen value (zt_value_is_frozen), which may be a copy in another type. */
struct zt_frozen_weight zt_frozen_weight_of(const struct zt_value *value);
/* Units of 4 bytes that the value takes in the layout. */
int64_t zt_frozen_units(const struct zt_value *value);

/* Lists the frozen values that nodes of the stage read, in the order of their first readers. Returns the count, at most
 * the number of values. */
int zt_frozen_weights_read(const struct zt_training_graph *training_graph, int stage, int *values);

/* Finds the weights of a layout in a graph. value[t]: value id of tensor t, -1: the graph does not have it. listed: by
 * value id; may be NULL. */
void zt_frozen_weights_find(const struct zt_frozen_layout *layout, const struct zt_graph *graph, int *value,
                            bool *listed);

#endif
