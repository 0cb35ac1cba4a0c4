/* Base-128 varints of the protobuf wire format (protobuf.dev, "Encoding"), written. */
#ifndef ZT_GRAPH_ONNX_VARINT_H
#define ZT_GRAPH_ONNX_VARINT_H

#include <stdint.h>

/* Writes the value; returns how many bytes it took, 1 to 10. */
int zt_wire_put_varint(unsigned char to[10], uint64_t value);

#endif
