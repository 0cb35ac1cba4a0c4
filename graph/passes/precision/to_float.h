/* Conversion of a model in half or double precision to fp32. */
#ifndef ZT_GRAPH_PASSES_PRECISION_TO_FLOAT_H
#define ZT_GRAPH_PASSES_PRECISION_TO_FLOAT_H

#include "graph/ir/graph.h"

/* Converts every value whose dtype is in `types` (a ZT_BIT mask) to float. The graph is inferred, so constants are
 * already folded in the file's types. contents[id], for id < content_count, replaces the contents of initializer `id`;
 * NULL: the pass converts the contents. Casts that no longer change the dtype are removed; *root is updated when it was
 * the output of such a Cast. Large frozen weights in half precision stay as they are, behind a Cast. */
bool zt_pass_to_float(struct zt_graph *g, unsigned types, const float *const *contents, int content_count, int *root,
                      struct zt_err *err);

/* Whether the pass leaves an initializer in its half type. */
bool zt_stays_half(const struct zt_value *v);

/* The elements of a tensor of any float type as float, allocated in `arena`. A finite number stays finite. */
float *zt_to_float(struct zt_arena *arena, const struct zt_tensor *from);

#endif
