/* Floating-point types of 16 bits and fewer: float16 (IEEE 754 binary16) and bfloat16. Conversions from fp32 round to
 * nearest, ties to even, as hardware does. NaN stays NaN. The conversions have no branches, so that loops over them are
 * vectorized. */
#ifndef ZT_BASE_HALF_H
#define ZT_BASE_HALF_H

#include <stdbool.h>
#include <stdint.h>

union zt_float_bits {
    float f;
    uint32_t u;
};

static inline uint32_t zt_float_bits(float f) {
    union zt_float_bits x;
    x.f = f;
    return x.u;
}

static inline float zt_float_of_bits(uint32_t u) {
    union zt_float_bits x;
    x.u = u;
    return x.f;
}

static inline float zt_half_to_float(uint16_t half) {
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, magnitude = (uint32_t)(half & 0x7fff) << 13;
    const uint32_t small = zt_float_bits((float)(half & 0x7fff) * 0x1p-24f); /* below 2^-14: units of 2^-24 */
    uint32_t bits = magnitude + (112u << 23);
    bits = magnitude < 1u << 23 ? small : bits;
    bits = magnitude >= 31u << 23 ? magnitude | 0x7f800000 : bits;
    return zt_float_of_bits(sign | bits);
}

static inline uint16_t zt_float_to_half(float value) {
    const uint32_t u = zt_float_bits(value), sign = u >> 16 & 0x8000, magnitude = u & 0x7fffffff;
    /* below 2^-14: the last bit of a sum with 0.5 is 2^-24 */
    const uint32_t units = zt_float_bits(zt_float_of_bits(magnitude) + 0.5f) - 0x3f000000;
    uint32_t bits = ((magnitude + 0xfff + (magnitude >> 13 & 1)) >> 13) - (112u << 10);
    bits = magnitude < 0x38800000 ? units : bits;
    bits = magnitude >= 0x477ff000 ? 0x7c00 : bits; /* 65520 and up round to infinity */
    bits = magnitude > 0x7f800000 ? 0x7e00 | (magnitude >> 13 & 0x3ff) : bits;
    return (uint16_t)(sign | bits);
}

static inline float zt_bfloat_to_float(uint16_t b) {
    return zt_float_of_bits((uint32_t)b << 16);
}

static inline uint16_t zt_float_to_bfloat(float value) {
    const uint32_t u = zt_float_bits(value), rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? u >> 16 | 0x40 : rounded);
}

/* ---- types of 8 and 4 bits, as codes in the low end of a byte ----
 *
 *     float8e4m3fn, float8e5m2            OCP 8-bit Floating Point Specification (OFP8), 2023
 *     float8e4m3fnuz, float8e5m2fnuz      "8-bit Numerical Formats for Deep Neural Networks", Noune et al., 2022:
 *                                         bias one higher, no infinity, no -0; code 0x80 is NaN
 *     float4e2m1, float8e8m0              OCP Microscaling Formats (MX), 2023: 0, 0.5, 1, 1.5, 2, 3, 4, 6 with a sign;
 *                                         powers of two 2^(code - 127), code 0xff is NaN
 *
 * Host loops and CUDA kernels compile these functions. */

#ifdef __CUDACC__
#define ZT_NARROW static __host__ __device__ inline
#else
#define ZT_NARROW static inline
#endif

/* A format with a sign bit above `exponent` and `mantissa` bits. Codes are magnitudes, without the sign. */
struct zt_narrow {
    int mantissa, bias;
    uint8_t sign, largest; /* the sign bit; the largest finite code */
    uint8_t infinity, nan; /* codes of overflow without saturation (of NaN, or of the largest value, in a format without
                              infinity), and of NaN (0: the format has none) */
    bool unsigned_nan;     /* fnuz: the code of NaN is the sign bit, and zero has no sign */
};

/* Rounds to nearest, ties to even. With `saturate` what rounds beyond the largest value, and infinity, becomes the
 * largest value; else the code `infinity` (NaN where the format has no infinity). A format without NaN makes it -0, as
 * the standard's reference does. */
ZT_NARROW uint8_t zt_narrow_encode(struct zt_narrow f, uint32_t bits, bool saturate) {
    const uint8_t sign = bits >> 31 ? f.sign : 0;
    const uint32_t magnitude = bits & 0x7fffffff, fraction = (bits & 0x7fffff) | 0x800000;
    if (magnitude > 0x7f800000)
        return f.unsigned_nan || !f.nan ? f.sign : (uint8_t)(sign | f.nan);
    const int exponent = (int)(magnitude >> 23) - 127, least = 1 - f.bias, below = exponent < least;
    int drop = 23 - f.mantissa + (below ? least - exponent : 0);
    drop = drop > 25 ? 25 : drop; /* everything: rounds to 0 */
    const uint32_t kept = (fraction + (1u << (drop - 1)) - 1 + (fraction >> drop & 1)) >> drop;
    const uint32_t code = ((uint32_t)(below ? 0 : exponent - least) << f.mantissa) + kept;
    if (code > f.largest || magnitude == 0x7f800000) {
        const uint8_t beyond = saturate ? f.largest : f.infinity;
        return f.unsigned_nan && !saturate ? f.sign : (uint8_t)(sign | beyond);
    }
    return f.unsigned_nan && !code ? 0 : (uint8_t)(sign | code);
}

/* The bits of the float that a code stands for. */
ZT_NARROW uint32_t zt_narrow_decode(struct zt_narrow f, uint8_t code) {
    const uint32_t magnitude = code & (f.sign - 1u), sign = code & f.sign ? 0x80000000 : 0;
    if (f.unsigned_nan && code == f.sign)
        return 0x7fc00000;
    if (magnitude > f.largest)
        return sign | (magnitude == f.infinity && f.infinity != f.nan ? 0x7f800000 : 0x7fc00000);
    uint32_t fraction = magnitude & ((1u << f.mantissa) - 1);
    int exponent = (int)(magnitude >> f.mantissa);
    if (!exponent) { /* units of 2^(1 - bias - mantissa), made a normal float */
        if (!fraction)
            return sign;
        for (exponent = 1; !(fraction >> f.mantissa); exponent--)
            fraction <<= 1;
        fraction &= (1u << f.mantissa) - 1;
    }
    return sign | (uint32_t)(exponent - f.bias + 127) << 23 | fraction << (23 - f.mantissa);
}

/* ---- float8e8m0 ---- */

enum zt_e8m0_rounding { ZT_E8M0_UP, ZT_E8M0_DOWN, ZT_E8M0_NEAREST }; /* NEAREST: ties up */

/* The sign is dropped. With `saturate` values outside 2^-127..2^127 become the nearest end, else NaN. */
ZT_NARROW uint8_t zt_e8m0_encode(uint32_t bits, enum zt_e8m0_rounding rounding, bool saturate) {
    const uint32_t magnitude = bits & 0x7fffffff;
    const bool tiny = magnitude < 0x800000; /* below 2^-126: 2^-127 is the fraction 0x400000 */
    const uint32_t rest = tiny ? (magnitude > 0x400000 ? (magnitude - 0x400000) << 1 : 0) : magnitude & 0x7fffff;
    if (magnitude > 0x7f800000 || (magnitude == 0x7f800000 && !saturate))
        return 0xff;
    if (magnitude < 0x400000)
        return saturate ? 0 : 0xff;
    const bool up = rounding == ZT_E8M0_UP ? rest > 0 : rounding == ZT_E8M0_NEAREST && rest >= 0x400000;
    const uint32_t code = (magnitude >> 23) + up;
    return (uint8_t)(code > 0xfe ? (saturate ? 0xfe : 0xff) : code);
}
ZT_NARROW uint32_t zt_e8m0_decode(uint8_t code) {
    return code == 0xff ? 0x7fc00000 : code ? (uint32_t)code << 23 : 0x400000;
}

#endif
