/* Vectors of bytes, for the bodies of our own CPU kernels: compilers convert half a register of them one by one.
 *
 *     BYTES(p)          VECTOR unsigned bytes at p, as ints
 *     PUT_BYTES(p, x)   stores the low bytes of the ints of x at p
 *
 * simd_targets.inc and simd_plane_targets.inc define both for each instruction set; the plain ones need the types
 * NAME(bytes) and NAME(ints). */
#ifndef ZT_OPS_CPU_SIMD_BYTES_H
#define ZT_OPS_CPU_SIMD_BYTES_H

#if defined(__x86_64__)
#include <immintrin.h>

/* The low bytes of eight ints, in the low half. */
__attribute__((target("avx2"), always_inline)) static inline __m128i zt_low_bytes_8(__m256i x) {
    const __m256i low = _mm256_set1_epi32(0x0c080400);
    const __m256i each = _mm256_shuffle_epi8(x, low); /* of each half four */
    return _mm_unpacklo_epi32(_mm256_castsi256_si128(each), _mm256_extracti128_si256(each, 1));
}
#endif

#endif
