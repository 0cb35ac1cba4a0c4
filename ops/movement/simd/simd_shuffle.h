/* Vector loops that gather a block of channels from up to four others, on planes whose pixels are `vector` channels
 * side by side (ops/cpu/blocked_layout.h), of elements of 2 or 4 bytes. */
#ifndef ZT_OPS_MOVEMENT_SIMD_SIMD_SHUFFLE_H
#define ZT_OPS_MOVEMENT_SIMD_SIMD_SHUFFLE_H

#include <stddef.h>
#include <stdint.h>

enum { ZT_SHUFFLE_SOURCES = 4, ZT_SHUFFLE_VECTOR = 16 };

/* Channel l of each pixel of `to` is channel lane[l] % vector of source lane[l] / vector; 0 from `used` on. */
struct zt_simd_shuffle {
    const char *from[ZT_SHUFFLE_SOURCES];
    int sources, used;
    int32_t lane[ZT_SHUFFLE_VECTOR];
    int64_t pixels;
    char *to;
};
typedef void zt_simd_shuffle_run(const struct zt_simd_shuffle *s);
/* The loop for pixels of `vector` elements of `bytes` each; NULL: none on this machine. */
zt_simd_shuffle_run *zt_simd_shuffle(int64_t vector, size_t bytes);

#endif
