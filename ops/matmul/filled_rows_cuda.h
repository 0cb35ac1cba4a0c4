/* Matrices of products with filled rows (zt_layout_row of ops/kernel/layout.h): the logits in half precision that
 * a product computes for a cross entropy, and their gradient, which overwrites them. Both have filled rows where one
 * node computes cross entropy and gradient and where products alone read the gradient; every other op reads plain
 * matrices. ops/loss/fuse_padded_classes.c fills the rows of a weight of many classes without a bias before that. */
#ifndef ZT_OPS_MATMUL_FILLED_ROWS_CUDA_H
#define ZT_OPS_MATMUL_FILLED_ROWS_CUDA_H

#include "ops/kernel/layout.h"

/* Keeps filled rows of inputs 0 and 1 of a product; the other inputs become plain. */
void zt_filled_sides(struct zt_prepare *p);
/* The layout of output 0 of a product; NULL: plain. */
const struct zt_layout *zt_filled_logits(const struct zt_prepare *p);

#endif
