/* Products of strided matrices by cuBLASLt: y = alpha op(a) op(b) + beta c, strided batches of them, sums in fp32,
 * and epilogues. cuBLASLt's heuristics choose the algorithms: one for addresses that are multiples of 16 and one for
 * any address (a weight starts where the tensors before it in the flat block end). The choices are in the disk cache
 * (base/disk_cache.h) by product, GPU and cuBLASLt's version, so that the next run computes the same bits. */
#ifndef ZT_OPS_CUDA_BLAS_CUDA_H
#define ZT_OPS_CUDA_BLAS_CUDA_H

#include "base/err.h"
#include "graph/ir/dtype.h"

struct zt_device;

/* A matrix in memory, row-major; steps in elements. */
struct zt_blas_matrix {
    enum zt_dtype dtype; /* ZT_FLOAT, a half type */
    int64_t rows, columns, row_step, batch_step;
    bool transposed; /* op exchanges rows and columns; not for y */
};

/* A matrix without gaps. `rows` and `columns` are those of op(matrix): with `transposed` the memory is [columns,
 * rows]. */
struct zt_blas_matrix zt_blas_packed(enum zt_dtype dtype, int64_t rows, int64_t columns, bool transposed);

/* The epilogue of p, the product with its bias, in fp32. GELU is x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2,
 * the only one of cuBLASLt. z is the second matrix of an epilogue: for GELU it has the layout and dtype of y; for
 * ReLU it has a bit an element, bits_step of them a row. cuBLASLt does not document its ReLU for NaN nor the bits of
 * 0 and NaN: callers measure them. */
enum zt_blas_then {
    ZT_BLAS_STORE,     /* y = p */
    ZT_BLAS_GELU,      /* y = gelu(p) */
    ZT_BLAS_GELU_KEEP, /* the same, and z = p */
    ZT_BLAS_GELU_GRAD, /* y = p gelu'(z); without a bias */
    ZT_BLAS_RELU,      /* y = max(p, 0) */
    ZT_BLAS_RELU_KEEP, /* the same, and the bits of z that are set where p > 0 */
    ZT_BLAS_RELU_GRAD, /* y = p where the bit of z is set, else 0; without a bias */
    ZT_BLAS_SUM_A,     /* y = p, and the m sums of op(a) over k; without a bias */
    ZT_BLAS_SUM_B,     /* y = p, and the n sums of op(b) over k; without a bias */
};

/* y[m, n] of op(a) [m, k] and op(b) [k, n]. */
struct zt_blas_spec {
    struct zt_blas_matrix a, b, y;
    int batch;
    bool bias;              /* a vector [n] of y's dtype is added to every row */
    bool tf32;              /* fp32 may be rounded to TF32 */
    enum zt_blas_then then; /* other than ZT_BLAS_STORE: of a batch of 1 */
    int64_t bits_step;      /* ZT_BLAS_RELU_KEEP, ZT_BLAS_RELU_GRAD: bits of a row of z, a multiple of 128 */
};

struct zt_blas;
/* NULL on failure, with cuBLASLt's status: an epilogue other than ZT_BLAS_STORE is not available for every size and
 * dtype. */
struct zt_blas *zt_blas_create(struct zt_device *device, const struct zt_blas_spec *spec, struct zt_err *err);
void zt_blas_destroy(struct zt_blas *blas);
#define ZT_BLAS_WORKSPACE ((size_t)32 << 20)
/* Bytes of workspace of every run, at most ZT_BLAS_WORKSPACE. */
size_t zt_blas_workspace_bytes(const struct zt_blas *blas);

struct zt_blas_data {
    const void *a, *b, *bias; /* bias: where the spec has one */
    const void *c;            /* lies as y does and has its type; NULL: y itself */
    void *y, *z, *sums;       /* z, sums (of y's dtype): where `then` has them */
    float alpha, beta;
};
/* Whether it can run at these addresses; NULL: at any address. Always true of ZT_BLAS_STORE. */
bool zt_blas_takes(const struct zt_blas *blas, const struct zt_blas_data *data);
/* Queues the product. `name`: of the node, for errors. */
bool zt_blas_run(const struct zt_blas *blas, const struct zt_blas_data *data, void *workspace, const char *name,
                 struct zt_err *err);

#endif
