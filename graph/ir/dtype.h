/* Element types (numbered as TensorProto.DataType in onnx.proto) and shapes. */
#ifndef ZT_GRAPH_IR_DTYPE_H
#define ZT_GRAPH_IR_DTYPE_H

#include "base/half.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum zt_dtype {
    ZT_UNDEFINED = 0,
    ZT_FLOAT = 1,
    ZT_UINT8 = 2,
    ZT_INT8 = 3,
    ZT_UINT16 = 4,
    ZT_INT16 = 5,
    ZT_INT32 = 6,
    ZT_INT64 = 7,
    ZT_STRING = 8,
    ZT_BOOL = 9,
    ZT_FLOAT16 = 10,
    ZT_DOUBLE = 11,
    ZT_UINT32 = 12,
    ZT_UINT64 = 13,
    ZT_COMPLEX64 = 14,
    ZT_COMPLEX128 = 15,
    ZT_BFLOAT16 = 16,
    ZT_FLOAT8E4M3FN = 17, /* from here on narrow types: an element takes a byte of memory, whatever its bits */
    ZT_FLOAT8E4M3FNUZ = 18,
    ZT_FLOAT8E5M2 = 19,
    ZT_FLOAT8E5M2FNUZ = 20,
    ZT_UINT4 = 21,
    ZT_INT4 = 22,
    ZT_FLOAT4E2M1 = 23,
    ZT_FLOAT8E8M0 = 24,
    ZT_UINT2 = 25,
    ZT_INT2 = 26,
    ZT_DTYPES = 27, /* types from 27 on (float6) are not supported */
};

/* Sets of types as bit masks. */
#define ZT_BIT(dtype) (1u << (dtype))
enum {
    ZT_ANY_FLOAT = 1u << ZT_FLOAT | 1u << ZT_DOUBLE | 1u << ZT_FLOAT16 | 1u << ZT_BFLOAT16,
    ZT_ANY_HALF = 1u << ZT_FLOAT16 | 1u << ZT_BFLOAT16,
    ZT_ANY_SIGNED = 1u << ZT_INT8 | 1u << ZT_INT16 | 1u << ZT_INT32 | 1u << ZT_INT64,
    ZT_ANY_UNSIGNED = 1u << ZT_UINT8 | 1u << ZT_UINT16 | 1u << ZT_UINT32 | 1u << ZT_UINT64,
    ZT_ANY_INT = ZT_ANY_SIGNED | ZT_ANY_UNSIGNED,
    ZT_ANY_NUMBER = ZT_ANY_FLOAT | ZT_ANY_INT,
    ZT_ANY_TYPE = ZT_ANY_NUMBER | 1u << ZT_BOOL, /* every type with kernels */
    ZT_ANY_FLOAT8 = 1u << ZT_FLOAT8E4M3FN | 1u << ZT_FLOAT8E4M3FNUZ | 1u << ZT_FLOAT8E5M2 | 1u << ZT_FLOAT8E5M2FNUZ,
    ZT_ANY_NARROW_FLOAT = ZT_ANY_FLOAT8 | 1u << ZT_FLOAT4E2M1,
    ZT_ANY_NARROW_INT = 1u << ZT_UINT4 | 1u << ZT_INT4 | 1u << ZT_UINT2 | 1u << ZT_INT2,
    /* Types of quantized tensors: rows that take them say so. Most rows mean ZT_ANY_TYPE. */
    ZT_ANY_NARROW = ZT_ANY_NARROW_FLOAT | ZT_ANY_NARROW_INT | 1u << ZT_FLOAT8E8M0,
    ZT_ANY_STORED = ZT_ANY_TYPE | ZT_ANY_NARROW, /* every type: of rows that only move elements */
};

/* Bytes per element in memory; 0 for unsupported types (strings, complex, float6).
 *
 * A narrow type takes one byte an element: its bits (two's complement of a signed integer) are the low end of the byte,
 * the bits above are 0. Files pack elements of 4 and 2 bits, the first one in the low end of a byte; the packing is
 * undone where a tensor is read and made where one is written (zt_dtype_unpack, zt_dtype_pack). */
size_t zt_dtype_bytes(enum zt_dtype dtype);
/* Bits of an element in files: 8 * zt_dtype_bytes(), fewer for types of 4 and 2 bits. */
int zt_dtype_bits(enum zt_dtype dtype);
/* The size of `count` elements in files. */
static inline uint64_t zt_packed_bytes(uint64_t count, int bits) {
    return bits >= 8 ? count * (uint64_t)(bits / 8) : (count * (uint64_t)bits + 7) / 8;
}
/* Elements of 4 or 2 bits from a file's bytes to one a byte, and back; unused bits of the last byte are 0. */
void zt_dtype_unpack(int bits, const void *packed, int64_t count, void *to);
void zt_dtype_pack(int bits, const void *data, int64_t count, void *to);
const char *zt_dtype_name(enum zt_dtype dtype); /* "float", "int64"; "type 23" for an unknown type */
static inline bool zt_dtype_in(enum zt_dtype dtype, unsigned set) {
    return dtype > 0 && dtype < ZT_DTYPES && (set >> dtype & 1);
}
static inline bool zt_dtype_is_half(enum zt_dtype dtype) {
    return zt_dtype_in(dtype, ZT_ANY_HALF);
}

/* Loads or stores element `index` as double (exact up to 2^53) or int64. A double is truncated to an integer and
 * saturated to int64 (uint64); NaN becomes the lowest integer; narrower integers keep the low bits, as in NumPy. Half
 * types round once, to nearest even; bool is x != 0. Narrow floats saturate (zt_store_narrow has the other rules),
 * narrow integers keep the low bits. `data` need not be aligned. */
double zt_load_double(enum zt_dtype dtype, const void *data, int64_t index);
int64_t zt_load_int(enum zt_dtype dtype, const void *data, int64_t index);
void zt_store_double(enum zt_dtype dtype, void *data, int64_t index, double value);
void zt_store_int(enum zt_dtype dtype, void *data, int64_t index, int64_t value);

/* The format of a type of ZT_ANY_NARROW_FLOAT. */
struct zt_narrow zt_narrow_format(enum zt_dtype dtype);
/* Conversion of a number to a narrow float: attributes of Cast and QuantizeLinear. */
struct zt_narrow_rule {
    bool saturate;
    enum zt_e8m0_rounding rounding; /* of float8e8m0 */
};
/* zt_store_double() of a type of ZT_ANY_NARROW_FLOAT or float8e8m0 by a rule. */
void zt_store_narrow(enum zt_dtype dtype, void *data, int64_t index, double value, struct zt_narrow_rule rule);

enum { ZT_MAX_RANK = 8 };

/* rank -1: unknown. A dim of -1: unknown (only before symbols are bound). */
struct zt_shape {
    int rank;
    int64_t dim[ZT_MAX_RANK];
};

/* Number of elements; 1 for a scalar (rank 0); -1: unknown; INT64_MAX: more than 2^62. */
int64_t zt_shape_count(const struct zt_shape *shape);
bool zt_shape_equal(const struct zt_shape *a, const struct zt_shape *b);
/* Whether rank and every dim are known. */
bool zt_shape_known(const struct zt_shape *shape);
/* Writes "[2, 3, ?]" to `to`, which has room for ZT_SHAPE_TEXT bytes, and returns `to`. */
enum { ZT_SHAPE_TEXT = ZT_MAX_RANK * 22 + 4 };
char *zt_shape_text(const struct zt_shape *shape, char *to);
/* Row-major strides in elements. */
void zt_shape_strides(const struct zt_shape *shape, int64_t stride[ZT_MAX_RANK]);

#endif
