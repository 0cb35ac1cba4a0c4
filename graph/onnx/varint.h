/* Encoding of base-128 varints in the protobuf wire format (protobuf.dev, "Encoding"). */
#ifndef ZT_GRAPH_ONNX_VARINT_H
#define ZT_GRAPH_ONNX_VARINT_H

#include <stdint.h>

/* Writes the value and returns the number of bytes, 1 to 10. */
int zt_wire_put_varint(unsigned char to[10], uint64_t value);

#endif
