/* A matrix product as both CPU kernels take it: our own (matmul_cpu.c) and oneDNN's (matmul_dnnl_cpu.c). */
#ifndef ZT_OPS_MATMUL_PRODUCT_CPU_H
#define ZT_OPS_MATMUL_PRODUCT_CPU_H

#include "ops/cpu/simd_gemm.h"
#include "ops/matmul/matmul.h"

/* A node's product with its batch axes made one: y = relu(scale a b + bias_scale bias). */
struct zt_product_cpu {
    struct zt_matmul shape;
    int64_t count, a_step, b_step; /* products, and elements from one to the next */
    enum zt_dtype dtype;           /* of a and y */
    enum zt_dtype b_dtype;         /* the same, or float where dtype is bfloat16 */
    enum zt_dtype bias_dtype;      /* the same, or float; ZT_UNDEFINED: no bias */
    bool relu;
    int64_t bias_row, bias_col; /* strides in elements, 0 where the bias is the same all along */
    float scale, bias_scale;
    bool weight_gradient; /* may be asked to add to y */
};

/* Sets count and the steps from `shape`; false where the batch axes do not merge to one. */
bool zt_product_cpu_merge(struct zt_product_cpu *p);
/* False where the node is not one product of matrices of these types, or is empty. */
bool zt_product_cpu_read(const struct zt_graph *g, int node, struct zt_product_cpu *to);
/* The same for our own kernels. */
struct zt_simd_gemm zt_product_cpu_gemm(const struct zt_product_cpu *p);
/* Whether our own kernel of bfloat16 is faster than oneDNN's: where few rows read the weight, or where the weight is
 * large in both directions, so that the rows and results which oneDNN neither packs nor keeps in float are few beside
 * the products. */
bool zt_product_cpu_own_bfloat(const struct zt_product_cpu *p);

#endif
