/* Attributes of a node in an ONNX file. Private to graph/onnx/. */
#ifndef ZT_GRAPH_ONNX_ATTRIBUTE_H
#define ZT_GRAPH_ONNX_ATTRIBUTE_H

#include "graph/onnx/file.h"

struct zt_onnx_attr_source {
    const Onnx__AttributeProto *proto;
    bool in_function;   /* the attribute belongs to a function's node and may refer to a parameter */
    int tensor_message; /* index of the message of its tensor, which may be sparse; -1: none */
};
/* Reads an attribute into `attr`, except a subgraph; contents are allocated in `arena`. Errors name the attribute. */
bool zt_onnx_attr(struct zt_onnx_file *file, struct zt_arena *arena, const struct zt_onnx_attr_source *from,
                  struct zt_attr *attr, struct zt_err *err);

#endif
