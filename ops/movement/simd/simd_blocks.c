#include "ops/movement/simd/simd_blocks.h"
#include "ops/kernel/unrolled.h"

#include <string.h>

/* Elements between what is read and what is fetched: of blocks, and of the rows of a plain plane, whose next plane is
 * fetched where it is small. */
#define FAR        1024
#define AHEAD(row) ((row) < 256 ? 16 * (row) : 128)

#define BODY "ops/movement/simd/simd_blocks.inc"
#include "ops/cpu/simd_plane_targets.inc"

const struct zt_block_kernels *zt_block_kernels(int vector, size_t bytes) {
    return bytes == 2 ? OF_VECTOR(&shorts_kernels, vector) : OF_VECTOR(&words_kernels, vector);
}
