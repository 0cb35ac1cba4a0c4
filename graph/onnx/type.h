/* TypeProto: types of values that are no tensors. Private to graph/onnx/. */
#ifndef ZT_GRAPH_ONNX_TYPE_H
#define ZT_GRAPH_ONNX_TYPE_H

#include "graph/ir/list.h"

#include "onnx.pb-c.h"

/* The type of a sequence of tensors, an optional tensor or an optional sequence of tensors, in the arena, with unknown
 * elements. NULL: another type (a tensor, a map, a sequence of sequences), or an element type that ONNX does not have.
 */
const struct zt_list *zt_onnx_list_type(struct zt_arena *arena, const Onnx__TypeProto *type);

#endif
