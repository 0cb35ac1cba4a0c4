#include "graph/onnx/varint.h"

int zt_wire_put_varint(unsigned char to[10], uint64_t value) {
    int n = 0;
    for (; value > 0x7f; value >>= 7)
        to[n++] = (unsigned char)(value | 0x80);
    to[n++] = (unsigned char)value;
    return n;
}
