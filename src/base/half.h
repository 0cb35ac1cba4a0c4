/* The 16-bit floating-point types: float16 (IEEE 754 binary16) and bfloat16. Conversions from fp32 round to nearest,
 * ties to even, as hardware does. NaN stays NaN. The conversions have no branches, so that loops over them are
 * vectorized. */
#ifndef ZT_BASE_HALF_H
#define ZT_BASE_HALF_H

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

#endif
