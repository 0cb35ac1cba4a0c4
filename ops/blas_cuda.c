/* cuBLASLt counts in columns. A row-major matrix is its own transpose there, so y = op(a) op(b) is asked for as y' =
 * op(b)' op(a)' with b as the left side; what is a row of y is a column then, along which its bias lies. */
#include "ops/blas_cuda.h"

#include "base/arena.h"
#include "device/cuda.h"

#include <cublasLt.h>

#include <stdlib.h>

static const uint32_t wide_alignment = 16;

enum { LOOSE, WIDE, ALIGNMENTS };

struct zt_blas {
    struct zt_device *device;
    cublasLtHandle_t handle;
    cublasLtMatmulDescOpaque_t operation;
    cublasLtMatrixLayoutOpaque_t left, right, result; /* b, a, y */
    cublasLtMatmulAlgo_t algorithm[ALIGNMENTS];
    size_t workspace_bytes;
    bool bias;
};

/* ---- the handle of the device ---- */

static void *create_handle(void) {
    cublasLtHandle_t handle = NULL;
    return cublasLtCreate(&handle) == CUBLAS_STATUS_SUCCESS ? handle : NULL;
}

static void destroy_handle(void *handle) {
    cublasLtDestroy(handle);
}

/* ---- describing ---- */

static cudaDataType type_of(const struct zt_blas_matrix *m) {
    return m->dtype == ZT_BFLOAT16 ? CUDA_R_16BF : CUDA_R_32F;
}

static cublasStatus_t set_layout(cublasLtMatrixLayout_t to, const struct zt_blas_matrix *m, int32_t batch) {
    cublasStatus_t s = cublasLtMatrixLayoutInit(to, type_of(m), (uint64_t)m->columns, (uint64_t)m->rows, m->row_step);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatrixLayoutSetAttribute(to, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatrixLayoutSetAttribute(to, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &m->batch_step,
                                             sizeof m->batch_step);
    return s;
}

static cublasStatus_t set_operation(struct zt_blas *p, const struct zt_blas_spec *spec) {
    cublasOperation_t left = spec->b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t right = spec->a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    bool fast = spec->tf32 && spec->a.dtype == ZT_FLOAT;
    cublasStatus_t s =
        cublasLtMatmulDescInit(&p->operation, fast ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatmulDescSetAttribute(&p->operation, CUBLASLT_MATMUL_DESC_TRANSA, &left, sizeof left);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatmulDescSetAttribute(&p->operation, CUBLASLT_MATMUL_DESC_TRANSB, &right, sizeof right);
    if (s == CUBLAS_STATUS_SUCCESS && spec->bias)
        s = cublasLtMatmulDescSetAttribute(&p->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    return s;
}

/* ---- choosing ---- */

static cublasStatus_t set_alignment(cublasLtMatmulPreference_t to, uint32_t bytes) {
    static const cublasLtMatmulPreferenceAttributes_t which[] = { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                                                                  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                                                                  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                                                                  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES };
    cublasStatus_t s = CUBLAS_STATUS_SUCCESS;
    for (int i = 0; i < 4 && s == CUBLAS_STATUS_SUCCESS; i++)
        s = cublasLtMatmulPreferenceSetAttribute(to, which[i], &bytes, sizeof bytes);
    return s;
}

static cublasStatus_t choose(struct zt_blas *p, int alignment, uint32_t bytes) {
    const size_t most = ZT_BLAS_WORKSPACE;
    const uintptr_t somewhere = bytes; /* where no bias is yet: an address that lies as it will */
    cublasLtMatmulPreferenceOpaque_t wish;
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    cublasStatus_t s = cublasLtMatmulPreferenceInit(&wish);
    if (s == CUBLAS_STATUS_SUCCESS && p->bias)
        s = cublasLtMatmulDescSetAttribute(&p->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &somewhere,
                                           sizeof somewhere);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatmulPreferenceSetAttribute(&wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = set_alignment(&wish, bytes);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatmulAlgoGetHeuristic(p->handle, &p->operation, &p->left, &p->right, &p->result, &p->result, &wish,
                                           1, &found, &count);
    if (s != CUBLAS_STATUS_SUCCESS || count == 0)
        return s != CUBLAS_STATUS_SUCCESS ? s : CUBLAS_STATUS_NOT_SUPPORTED;
    p->algorithm[alignment] = found.algo;
    if (found.workspaceSize > p->workspace_bytes)
        p->workspace_bytes = found.workspaceSize;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t describe(struct zt_blas *p, const struct zt_blas_spec *spec) {
    cublasStatus_t s = p->handle ? set_operation(p, spec) : CUBLAS_STATUS_NOT_INITIALIZED;
    if (s == CUBLAS_STATUS_SUCCESS)
        s = set_layout(&p->left, &spec->b, spec->batch);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = set_layout(&p->right, &spec->a, spec->batch);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = set_layout(&p->result, &spec->y, spec->batch);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = choose(p, LOOSE, (uint32_t)zt_dtype_bytes(spec->a.dtype));
    if (s == CUBLAS_STATUS_SUCCESS && choose(p, WIDE, wide_alignment) != CUBLAS_STATUS_SUCCESS)
        p->algorithm[WIDE] = p->algorithm[LOOSE]; /* what takes any address takes these */
    return s;
}

struct zt_blas *zt_blas_create(struct zt_device *device, const struct zt_blas_spec *spec, struct zt_err *err) {
    struct zt_blas *p = zt_calloc(1, sizeof *p);
    p->device = device;
    p->handle = zt_cuda_library(device, create_handle, destroy_handle);
    p->bias = spec->bias;
    cublasStatus_t s = describe(p, spec);
    if (s == CUBLAS_STATUS_SUCCESS)
        return p;
    free(p);
    zt_fail(err, ZT_EXIT_RUN, "cuBLASLt has no product for it: %s", cublasLtGetStatusString(s));
    return NULL;
}

void zt_blas_destroy(struct zt_blas *p) {
    free(p);
}

size_t zt_blas_workspace_bytes(const struct zt_blas *p) {
    return p->workspace_bytes;
}

/* ---- running ---- */

static bool is_wide(const struct zt_blas_data *d) {
    uintptr_t all = (uintptr_t)d->a | (uintptr_t)d->b | (uintptr_t)d->y | (uintptr_t)d->bias;
    return all % wide_alignment == 0;
}

bool zt_blas_run(const struct zt_blas *p, const struct zt_blas_data *d, void *workspace, const char *name,
                 struct zt_err *err) {
    cublasLtMatmulDescOpaque_t operation = p->operation; /* the bias belongs to the description */
    struct zt_blas *q = (struct zt_blas *)p;             /* layouts are only read; cuBLASLt's types do not say so */
    cublasStatus_t s = CUBLAS_STATUS_SUCCESS;
    if (p->bias)
        s = cublasLtMatmulDescSetAttribute(&operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &d->bias, sizeof d->bias);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatmul(p->handle, &operation, &d->alpha, d->b, &q->left, d->a, &q->right, &d->beta, d->y,
                           &q->result, d->y, &q->result, &p->algorithm[is_wide(d) ? WIDE : LOOSE], workspace,
                           p->workspace_bytes, zt_cuda_stream(p->device));
    return s == CUBLAS_STATUS_SUCCESS ||
           zt_fail(err, ZT_EXIT_RUN, "%s: cuBLASLt: %s", name, cublasLtGetStatusString(s));
}
