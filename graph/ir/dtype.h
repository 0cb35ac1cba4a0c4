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
    ZT_DTYPES = 17, /* types from 17 on (float8, int4, other packed types) are not supported */
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
};

/* Bytes per element; 0 for unsupported types (strings, complex, packed). */
size_t zt_dtype_bytes(enum zt_dtype dtype);
const char *zt_dtype_name(enum zt_dtype dtype); /* "float", "int64"; "type 23" for an unknown type */
static inline bool zt_dtype_in(enum zt_dtype dtype, unsigned set) {
    return dtype > 0 && dtype < ZT_DTYPES && (set >> dtype & 1);
}
static inline bool zt_dtype_is_half(enum zt_dtype dtype) {
    return zt_dtype_in(dtype, ZT_ANY_HALF);
}

/* Loads or stores element `index` as double (exact up to 2^53) or int64. A double is truncated to an integer and
 * saturated to int64 (uint64); NaN becomes the lowest integer; narrower integers keep the low bits, as in NumPy. Half
 * types round once, to nearest even; bool is x != 0. `data` need not be aligned. */
double zt_load_double(enum zt_dtype dtype, const void *data, int64_t index);
int64_t zt_load_int(enum zt_dtype dtype, const void *data, int64_t index);
void zt_store_double(enum zt_dtype dtype, void *data, int64_t index, double value);
void zt_store_int(enum zt_dtype dtype, void *data, int64_t index, int64_t value);

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
