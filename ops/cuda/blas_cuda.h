/* Products of strided matrices through cuBLASLt: y = alpha op(a) op(b) + beta c, batches of them at even distances,
 * sums in fp32, and what an epilogue makes of them. Algorithms come from cuBLASLt's rule: one for addresses
 * that are multiples of 16 and one for any (a weight lies where the tensors before it in the flat block end). What it
 * said is kept on disk (base/disk_cache.h) by the product, the GPU and cuBLASLt's version: the next run computes alike.
 */
#ifndef ZT_OPS_CUDA_BLAS_CUDA_H
#define ZT_OPS_CUDA_BLAS_CUDA_H

#include "base/err.h"
#include "graph/ir/dtype.h"

struct zt_device;

/* As it lies in memory, row-major; steps in elements. */
struct zt_blas_matrix {
    enum zt_dtype dtype; /* ZT_FLOAT, a half type */
    int64_t rows, columns, row_step, batch_step;
    bool transposed; /* op exchanges rows and columns; not for y */
};

/* A matrix without gaps: `rows` and `columns` of op(matrix), so that it lies as [columns, rows] where it is transposed.
 */
struct zt_blas_matrix zt_blas_packed(enum zt_dtype dtype, int64_t rows, int64_t columns, bool transposed);

/* What becomes of p, the product with its bias, in fp32. GELU is x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, the
 * only one that cuBLASLt has; z lies as y does and has its type; of ReLU it is a bit an element, ZT_LINEAR_BITS a row
 * (matmul.h).
 * What becomes of NaN in ReLU, and of the bits of 0 and NaN, is for callers to find out (relu_probe_cuda.h). */
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
};

struct zt_blas;
/* NULL with cuBLASLt's words: other than ZT_BLAS_STORE it need not have for every size and type. */
struct zt_blas *zt_blas_create(struct zt_device *device, const struct zt_blas_spec *spec, struct zt_err *err);
void zt_blas_destroy(struct zt_blas *blas);
/* Of workspace for every run; at most ZT_BLAS_WORKSPACE. */
#define ZT_BLAS_WORKSPACE ((size_t)32 << 20)
size_t zt_blas_workspace_bytes(const struct zt_blas *blas);

struct zt_blas_data {
    const void *a, *b, *bias; /* bias: where the spec has one */
    const void *c;            /* lies as y does and has its type; NULL: y itself */
    void *y, *z, *sums;       /* z, sums (of y's dtype): where `then` has them */
    float alpha, beta;
};
/* Whether it can run at these addresses; NULL: at any. Always true of ZT_BLAS_STORE. */
bool zt_blas_takes(const struct zt_blas *blas, const struct zt_blas_data *data);
/* Queues it; `name`: of the node, for errors. */
bool zt_blas_run(const struct zt_blas *blas, const struct zt_blas_data *data, void *workspace, const char *name,
                 struct zt_err *err);

#endif
