/* Matrix products: the geometry of MatMul, ztrain.BatchMatMul and Gemm, and their reference kernel. The kernels of all
 * back ends use it. */
#ifndef ZT_OPS_MATMUL_MATMUL_H
#define ZT_OPS_MATMUL_MATMUL_H

#include "graph/ir/op.h"

/* y[batch, M, N] = a[batch, M, K] b[batch, K, N]. Strides count elements; a batch stride is 0 where an input is
 * broadcast along that axis. A 1-D a is one row, a 1-D b one column. Where b has no batch and a is not transposed, the
 * batch of a is folded into M. */
struct zt_matmul {
    int64_t m, n, k;
    int64_t a_row, a_col, b_row, b_col;
    struct zt_shape batch;
    int64_t a_batch[ZT_MAX_RANK], b_batch[ZT_MAX_RANK];
    struct zt_shape out;
};

/* The product of tensors of shapes a and b. The node's attributes transA and transB exchange the last two axes of a and
 * b (rank 2 or more). Fails naming both shapes. */
bool zt_matmul_read(const struct zt_graph *g, int node, const struct zt_shape *a, const struct zt_shape *b,
                    struct zt_matmul *to, struct zt_err *err);

/* The same of the node's inputs 0 and 1. */
bool zt_matmul_read_node(const struct zt_graph *g, int node, struct zt_matmul *to, struct zt_err *err);
/* The FLOPs of the node: 2 M N K for each matrix of the batch. */
double zt_matmul_flops(const struct zt_graph *g, int node);

/* Whether `c` has one number for each of n columns, the same in every row: shape [n], [1, n] and so on. */
bool zt_matmul_is_bias(const struct zt_shape *c, int64_t n);

/* Bits in a row of cuBLASLt's ReLU mask for n columns: one bit an element, rows padded to 128 (fuse_linear_relu.c). */
#define ZT_LINEAR_BITS(n) (((n) + 127) / 128 * 128)

/* The broadcast batch axes of a and b (all but the last two); false where they do not broadcast. */
bool zt_matmul_batch(const struct zt_shape *a, const struct zt_shape *b, struct zt_shape *to);

/* The reference product: y = alpha a b + beta c, c addressed by c_row and c_col (0 where broadcast), NULL: none.
 * Integer types wrap and are exact with alpha = beta = 1. */
struct zt_product {
    struct zt_matmul geometry;
    enum zt_dtype dtype, y_dtype; /* y_dtype: ZT_UNDEFINED: as the others */
    const void *a, *b, *c;
    int64_t c_row, c_col;
    double alpha, beta;
    void *y;
    int threads;
};
void zt_product_run(const struct zt_product *p);

/* Whether the CUDA kernels take a product: no empty matrix, sides within 32 bits. Types: all tensors float or of one
 * half type; each float or a half type; input 0 and output 0 such, with one bit per element beside them. */
bool zt_matmul_takes_cuda(const struct zt_graph *g, int node);
bool zt_matmul_takes_cuda_float(const struct zt_graph *g, int node);
bool zt_matmul_takes_cuda_bits(const struct zt_graph *g, int node);

#endif
