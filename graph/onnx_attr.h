/* Attributes of a node in an ONNX file. Private to graph/onnx_*.c. */
#ifndef ZT_GRAPH_ONNX_ATTR_H
#define ZT_GRAPH_ONNX_ATTR_H

#include "graph/onnx_file.h"

/* Reads `a` into `attr`, its contents into `arena`; `tensor_message` is the message of its tensor, -1 where it has
 * none. Errors name the attribute. */
bool zt_onnx_attr(struct zt_onnx_file *file, struct zt_arena *arena, const Onnx__AttributeProto *a, int tensor_message,
                  struct zt_attr *attr, struct zt_err *err);

#endif
