/* Vector loops between plain and blocked activations (ops/cpu/blocked_layout.h): squares of channels by pixels are
 * transposed in registers. Elements of 2 or 4 bytes. */
#ifndef ZT_OPS_MOVEMENT_SIMD_SIMD_BLOCKS_H
#define ZT_OPS_MOVEMENT_SIMD_SIMD_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

/* `pixels` pixels of a block of channels, `used` of which are there. */
struct zt_block_part {
    const void *from;
    void *to;
    int64_t pixels, row; /* row: elements from channel to channel of the plain side */
    int used;
};

struct zt_block_kernels {
    void (*pack)(const struct zt_block_part *p);   /* plain to blocked, with zeros from channel `used` on */
    void (*unpack)(const struct zt_block_part *p); /* blocked to plain */
};
/* vector: 8 or 16, the channels of a block; bytes: of an element, 2 or 4. */
const struct zt_block_kernels *zt_block_kernels(int vector, size_t bytes);

#endif
