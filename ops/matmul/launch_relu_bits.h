/* Launchers of relu_bits.cu: ReLU of a product together with one bit an element for its gradient. Conventions:
 * ops/cuda/launch.h. */
#ifndef ZT_OPS_MATMUL_LAUNCH_RELU_BITS_H
#define ZT_OPS_MATMUL_LAUNCH_RELU_BITS_H

#include "ops/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bits of a matrix [rows, columns]: element c of a row has bit c % 8 of byte c / 8 of the row's row_bytes bytes. */
struct zt_launch_bits {
    int64_t rows, columns, row_bytes;
};
/* y = max(y, 0); a bit is set where y was above 0 or NaN. Bits behind the last column are 0. */
int zt_launch_relu_keep(struct CUstream_st *stream, enum zt_dtype dtype, const struct zt_launch_bits *b, void *y,
                        void *bits);
/* y = 0 where the bit is 0. */
int zt_launch_relu_masked(struct CUstream_st *stream, enum zt_dtype dtype, const struct zt_launch_bits *b, void *y,
                          const void *bits);

#ifdef __cplusplus
}
#endif

#endif
