#include "graph/ir/dtype.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} row[ZT_DTYPES] = {
    [ZT_UNDEFINED] = { "undefined", 0 },
    [ZT_FLOAT] = { "float", 4 },
    [ZT_UINT8] = { "uint8", 1 },
    [ZT_INT8] = { "int8", 1 },
    [ZT_UINT16] = { "uint16", 2 },
    [ZT_INT16] = { "int16", 2 },
    [ZT_INT32] = { "int32", 4 },
    [ZT_INT64] = { "int64", 8 },
    [ZT_STRING] = { "string", 0 },
    [ZT_BOOL] = { "bool", 1 },
    [ZT_FLOAT16] = { "float16", 2 },
    [ZT_DOUBLE] = { "double", 8 },
    [ZT_UINT32] = { "uint32", 4 },
    [ZT_UINT64] = { "uint64", 8 },
    [ZT_COMPLEX64] = { "complex64", 0 },
    [ZT_COMPLEX128] = { "complex128", 0 },
    [ZT_BFLOAT16] = { "bfloat16", 2 },
    [ZT_FLOAT8E4M3FN] = { "float8e4m3fn", 1 },
    [ZT_FLOAT8E4M3FNUZ] = { "float8e4m3fnuz", 1 },
    [ZT_FLOAT8E5M2] = { "float8e5m2", 1 },
    [ZT_FLOAT8E5M2FNUZ] = { "float8e5m2fnuz", 1 },
    [ZT_UINT4] = { "uint4", 1 },
    [ZT_INT4] = { "int4", 1 },
    [ZT_FLOAT4E2M1] = { "float4e2m1", 1 },
    [ZT_FLOAT8E8M0] = { "float8e8m0", 1 },
    [ZT_UINT2] = { "uint2", 1 },
    [ZT_INT2] = { "int2", 1 },
};

size_t zt_dtype_bytes(enum zt_dtype dtype) {
    return dtype > 0 && dtype < ZT_DTYPES ? row[dtype].bytes : 0;
}

const char *zt_dtype_name(enum zt_dtype dtype) {
    static const char *const unsupported[] = { "float6e2m3", "float6e3m2" };
    if (dtype >= 0 && dtype < ZT_DTYPES)
        return row[dtype].name;
    const int beyond = (int)dtype - ZT_DTYPES;
    return beyond >= 0 && beyond < (int)(sizeof unsupported / sizeof *unsupported) ? unsupported[beyond]
                                                                                   : "unknown type";
}

int zt_dtype_bits(enum zt_dtype dtype) {
    return dtype == ZT_UINT4 || dtype == ZT_INT4 || dtype == ZT_FLOAT4E2M1 ? 4
           : dtype == ZT_UINT2 || dtype == ZT_INT2                         ? 2
                                                                           : 8 * (int)zt_dtype_bytes(dtype);
}

void zt_dtype_unpack(int bits, const void *packed, int64_t count, void *to) {
    const int each = 8 / bits, mask = (1 << bits) - 1;
    for (int64_t i = 0; i < count; i++)
        ((uint8_t *)to)[i] = (uint8_t)(((const uint8_t *)packed)[i / each] >> (int)(i % each) * bits & mask);
}

void zt_dtype_pack(int bits, const void *data, int64_t count, void *to) {
    const int each = 8 / bits, mask = (1 << bits) - 1;
    for (int64_t i = 0; i < count; i++) {
        uint8_t *at = (uint8_t *)to + i / each;
        const int shift = (int)(i % each) * bits;
        *at = (uint8_t)((shift ? *at : 0) | (((const uint8_t *)data)[i] & mask) << shift);
    }
}

/* ---- narrow types ---- */

struct zt_narrow zt_narrow_format(enum zt_dtype dtype) {
    switch (dtype) {
    case ZT_FLOAT8E4M3FN:
        return (struct zt_narrow){ 3, 7, 0x80, 0x7e, 0x7f, 0x7f, false };
    case ZT_FLOAT8E4M3FNUZ:
        return (struct zt_narrow){ 3, 8, 0x80, 0x7f, 0, 0, true };
    case ZT_FLOAT8E5M2:
        return (struct zt_narrow){ 2, 15, 0x80, 0x7b, 0x7c, 0x7e, false };
    case ZT_FLOAT8E5M2FNUZ:
        return (struct zt_narrow){ 2, 16, 0x80, 0x7f, 0, 0, true };
    default: /* float4e2m1, which has only finite values */
        return (struct zt_narrow){ 1, 1, 0x08, 0x07, 0x07, 0, false };
    }
}

/* Compute threads flush 2^-127, a subnormal float, to 0. */
static double e8m0_to_double(uint8_t code) {
    return code ? zt_float_of_bits(zt_e8m0_decode(code)) : 0x1p-127;
}

/* A signed integer of `bits` bits in the low end of a byte. */
static int64_t extend(uint8_t code, int bits) {
    const int sign = 1 << (bits - 1);
    return ((code & ((1 << bits) - 1)) ^ sign) - sign;
}

/* `value` as a float whose rounding to a half type is that of `value`: an inexact one gets an odd last bit, which
 * stands for "a little more" or "a little less" (round to odd; Boldo and Melquiond, 2008). */
static float odd_float(double value) {
    union {
        float f;
        uint32_t u;
    } x = { (float)value };
    if ((double)x.f != value && value == value && !(x.u & 1))
        x.f = nextafterf(x.f, (double)x.f < value ? INFINITY : -INFINITY);
    return x.f;
}

/* Elements wherever they lie: weights stand unaligned in a mapped file. */
typedef float any_float __attribute__((aligned(1)));
typedef double any_double __attribute__((aligned(1)));
typedef uint16_t any_uint16 __attribute__((aligned(1)));
typedef int16_t any_int16 __attribute__((aligned(1)));
typedef uint32_t any_uint32 __attribute__((aligned(1)));
typedef int32_t any_int32 __attribute__((aligned(1)));
typedef uint64_t any_uint64 __attribute__((aligned(1)));
typedef int64_t any_int64 __attribute__((aligned(1)));

double zt_load_double(enum zt_dtype dtype, const void *data, int64_t i) {
    switch (dtype) {
    case ZT_FLOAT:
        return ((const any_float *)data)[i];
    case ZT_DOUBLE:
        return ((const any_double *)data)[i];
    case ZT_FLOAT16:
        return zt_half_to_float(((const any_uint16 *)data)[i]);
    case ZT_BFLOAT16:
        return zt_bfloat_to_float(((const any_uint16 *)data)[i]);
    case ZT_UINT64:
        return (double)((const any_uint64 *)data)[i];
    case ZT_FLOAT8E4M3FN:
    case ZT_FLOAT8E4M3FNUZ:
    case ZT_FLOAT8E5M2:
    case ZT_FLOAT8E5M2FNUZ:
    case ZT_FLOAT4E2M1:
        return zt_float_of_bits(zt_narrow_decode(zt_narrow_format(dtype), ((const uint8_t *)data)[i]));
    case ZT_FLOAT8E8M0:
        return e8m0_to_double(((const uint8_t *)data)[i]);
    default:
        return (double)zt_load_int(dtype, data, i);
    }
}

static int64_t saturate(double value, double low, double high, int64_t lowest, int64_t highest) {
    if (!(value > low)) /* NaN too: as x86 gives the lowest for it */
        return lowest;
    return value >= high ? highest : (int64_t)value;
}

static bool is_float(enum zt_dtype dtype) {
    return zt_dtype_in(dtype, ZT_ANY_FLOAT | ZT_ANY_NARROW_FLOAT | ZT_BIT(ZT_FLOAT8E8M0));
}

int64_t zt_load_int(enum zt_dtype dtype, const void *data, int64_t i) {
    switch (dtype) {
    case ZT_BOOL:
    case ZT_UINT8:
    case ZT_UINT4:
    case ZT_UINT2:
        return ((const uint8_t *)data)[i];
    case ZT_INT4:
    case ZT_INT2:
        return extend(((const uint8_t *)data)[i], zt_dtype_bits(dtype));
    case ZT_INT8:
        return ((const int8_t *)data)[i];
    case ZT_UINT16:
        return ((const any_uint16 *)data)[i];
    case ZT_INT16:
        return ((const any_int16 *)data)[i];
    case ZT_UINT32:
        return ((const any_uint32 *)data)[i];
    case ZT_INT32:
        return ((const any_int32 *)data)[i];
    case ZT_INT64:
        return ((const any_int64 *)data)[i];
    case ZT_UINT64:
        return (int64_t)((const any_uint64 *)data)[i];
    default:
        return is_float(dtype) ? saturate(zt_load_double(dtype, data, i), -0x1p63, 0x1p63, INT64_MIN, INT64_MAX) : 0;
    }
}

void zt_store_narrow(enum zt_dtype dtype, void *data, int64_t i, double value, struct zt_narrow_rule rule) {
    const uint32_t bits = zt_float_bits(odd_float(value));
    ((uint8_t *)data)[i] = dtype == ZT_FLOAT8E8M0 ? zt_e8m0_encode(bits, rule.rounding, rule.saturate)
                                                  : zt_narrow_encode(zt_narrow_format(dtype), bits, rule.saturate);
}

void zt_store_double(enum zt_dtype dtype, void *data, int64_t i, double value) {
    switch (dtype) {
    case ZT_FLOAT:
        ((float *)data)[i] = (float)value;
        break;
    case ZT_DOUBLE:
        ((double *)data)[i] = value;
        break;
    case ZT_FLOAT16:
        ((uint16_t *)data)[i] = zt_float_to_half(odd_float(value));
        break;
    case ZT_BFLOAT16:
        ((uint16_t *)data)[i] = zt_float_to_bfloat(odd_float(value));
        break;
    case ZT_BOOL:
        ((uint8_t *)data)[i] = value != 0;
        break;
    case ZT_FLOAT8E4M3FN:
    case ZT_FLOAT8E4M3FNUZ:
    case ZT_FLOAT8E5M2:
    case ZT_FLOAT8E5M2FNUZ:
    case ZT_FLOAT4E2M1:
    case ZT_FLOAT8E8M0:
        zt_store_narrow(dtype, data, i, value, (struct zt_narrow_rule){ true, ZT_E8M0_UP });
        break;
    case ZT_UINT64:
        ((uint64_t *)data)[i] = value >= 0x1p64 ? UINT64_MAX : value > 0 ? (uint64_t)value : 0;
        break;
    default:
        zt_store_int(dtype, data, i, saturate(value, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX));
    }
}

void zt_store_int(enum zt_dtype dtype, void *data, int64_t i, int64_t value) {
    switch (dtype) {
    case ZT_BOOL:
        ((uint8_t *)data)[i] = value != 0;
        break;
    case ZT_UINT8:
    case ZT_INT8:
        ((uint8_t *)data)[i] = (uint8_t)value;
        break;
    case ZT_UINT4:
    case ZT_INT4:
    case ZT_UINT2:
    case ZT_INT2:
        ((uint8_t *)data)[i] = (uint8_t)(value & ((1 << zt_dtype_bits(dtype)) - 1));
        break;
    case ZT_UINT16:
    case ZT_INT16:
        ((uint16_t *)data)[i] = (uint16_t)value;
        break;
    case ZT_UINT32:
    case ZT_INT32:
        ((uint32_t *)data)[i] = (uint32_t)value;
        break;
    case ZT_UINT64:
    case ZT_INT64:
        ((uint64_t *)data)[i] = (uint64_t)value;
        break;
    default:
        if (is_float(dtype))
            zt_store_double(dtype, data, i, (double)value);
    }
}

int64_t zt_shape_count(const struct zt_shape *shape) {
    if (shape->rank < 0)
        return -1;
    int64_t n = 1;
    for (int i = 0; i < shape->rank; i++) {
        if (shape->dim[i] < 0)
            return -1;
        if (shape->dim[i] == 0)
            return 0;
    }
    for (int i = 0; i < shape->rank; i++)
        if (__builtin_mul_overflow(n, shape->dim[i], &n) || n > INT64_C(1) << 62)
            return INT64_MAX;
    return n;
}

bool zt_shape_equal(const struct zt_shape *a, const struct zt_shape *b) {
    if (a->rank != b->rank)
        return false;
    return a->rank <= 0 || memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim) == 0;
}

bool zt_shape_known(const struct zt_shape *shape) {
    for (int i = 0; i < shape->rank; i++)
        if (shape->dim[i] < 0)
            return false;
    return shape->rank >= 0;
}

char *zt_shape_text(const struct zt_shape *shape, char *to) {
    if (shape->rank < 0)
        return strcpy(to, "[unknown rank]");
    int n = sprintf(to, "[");
    for (int i = 0; i < shape->rank; i++) {
        if (shape->dim[i] < 0)
            n += sprintf(to + n, "%s?", i ? ", " : "");
        else
            n += sprintf(to + n, "%s%lld", i ? ", " : "", (long long)shape->dim[i]);
    }
    sprintf(to + n, "]");
    return to;
}

void zt_shape_strides(const struct zt_shape *shape, int64_t stride[ZT_MAX_RANK]) {
    uint64_t n = 1; /* unsigned: beside a dim of 0 the others may be as large as they like */
    for (int i = shape->rank - 1; i >= 0; i--) {
        stride[i] = (int64_t)n;
        n *= (uint64_t)shape->dim[i];
    }
}
