/* Vector loops that gather a block of channels from up to four others, on planes whose pixels are `vector` channels
 * side by side (ops/cpu/blocked_layout.h). */
#ifndef ZT_OPS_MOVEMENT_SIMD_SIMD_SHUFFLE_H
#define ZT_OPS_MOVEMENT_SIMD_SIMD_SHUFFLE_H

#include <stdint.h>

enum { ZT_SHUFFLE_SOURCES = 4, ZT_SHUFFLE_VECTOR = 16 };

/* Channel l of each pixel of `to` is channel lane[l] % vector of source lane[l] / vector. */
struct zt_simd_shuffle {
    const float *from[ZT_SHUFFLE_SOURCES];
    int sources;
    int32_t lane[ZT_SHUFFLE_VECTOR];
    int64_t pixels;
    float *to;
};
typedef void zt_simd_shuffle_run(const struct zt_simd_shuffle *s);
/* The loop for pixels of `vector` floats; NULL: none on this machine. */
zt_simd_shuffle_run *zt_simd_shuffle(int64_t vector);

#endif
