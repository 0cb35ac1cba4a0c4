/* Fusion patterns in the order in which they are tried; a row is written in a fuse_*.c, which holds its kernel where it
 * has one of its own. */
#include "ops/table.h"

#include <stddef.h>

extern const struct zt_pattern zt_pattern_conv_relu, zt_pattern_conv_relu_pool, zt_pattern_conv_relu_pool_grad,
    zt_pattern_gelu, zt_pattern_gemm_relu, zt_pattern_pool_relu_grad;

const struct zt_pattern *const zt_patterns[] = {
    /* on the forward graph */
    &zt_pattern_gelu,
    /* on the joint graph */
    &zt_pattern_pool_relu_grad,
    &zt_pattern_conv_relu,
    &zt_pattern_conv_relu_pool, /* of what the two before made */
    &zt_pattern_conv_relu_pool_grad,
    &zt_pattern_gemm_relu,
    NULL,
};
