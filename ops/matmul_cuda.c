/* MatMul, BatchMatMul and Gemm through cuBLASLt: float and bfloat16, sums in fp32 (no TF32).
 *
 * cuBLASLt counts in columns. A row-major matrix is its own transpose there, so y[M,N] = op(a) op(b) is asked for as y'
 * = op(b)' op(a)' with b as the left side. Batch axes that step evenly become its strided batch; the others are a loop
 * of calls.
 *
 * Gemm's c is spread over y first, times beta, and the product added to it. Algorithms come from cuBLASLt's rule, once
 * a node: one for addresses that are multiples of 16 and one for any (a weight lies where the tensors before it in the
 * flat block end). */
#include "ops/kernels_cuda.h"
#include "ops/matmul.h"
#include "ops/walk_cuda.h"

#include "device/cuda.h"

#include <cublasLt.h>

#include <stdlib.h>

static const size_t most_workspace = (size_t)32 << 20;
static const uint32_t wide_alignment = 16;

enum { LOOSE, WIDE, ALIGNMENTS };

struct product {
    cublasLtHandle_t blas;
    cublasLtMatmulDescOpaque_t operation;
    cublasLtMatrixLayoutOpaque_t left, right, result; /* b, a, y */
    cublasLtMatmulAlgo_t algorithm[ALIGNMENTS];
    size_t workspace_bytes, elem_bytes;
    struct zt_launch_walk outer;      /* batch axes that are looped over: steps of a and b */
    int64_t outer_count, result_step; /* calls; elements of y from one to the next */
    float alpha, beta;
    bool has_c;
    struct zt_launch_walk spread;
};

/* ---- the handle of the device ---- */

static void *create_blas(void) {
    cublasLtHandle_t handle = NULL;
    return cublasLtCreate(&handle) == CUBLAS_STATUS_SUCCESS ? handle : NULL;
}

static void destroy_blas(void *handle) {
    cublasLtDestroy(handle);
}

/* ---- preparing ---- */

struct side {
    cublasLtMatrixLayoutOpaque_t *layout;
    int64_t rows, columns, batch_step; /* as they lie, row-major */
};

static cublasStatus_t set_layout(const struct side *side, cudaDataType type, int32_t batch) {
    cublasLtMatrixLayout_t layout = side->layout;
    cublasStatus_t s =
        cublasLtMatrixLayoutInit(layout, type, (uint64_t)side->columns, (uint64_t)side->rows, side->columns);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &side->batch_step,
                                             sizeof side->batch_step);
    return s;
}

static cublasStatus_t set_operation(struct product *p, bool trans_a, bool trans_b) {
    cublasOperation_t left = trans_b ? CUBLAS_OP_T : CUBLAS_OP_N, right = trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasStatus_t s = cublasLtMatmulDescInit(&p->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatmulDescSetAttribute(&p->operation, CUBLASLT_MATMUL_DESC_TRANSA, &left, sizeof left);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatmulDescSetAttribute(&p->operation, CUBLASLT_MATMUL_DESC_TRANSB, &right, sizeof right);
    return s;
}

/* Takes from the end of the batch what steps evenly; returns how many products that is. What is left goes to p->outer.
 */
static int32_t split_batch(const struct zt_matmul *m, struct product *p, int64_t step[2]) {
    int64_t batch = 1;
    int k = m->batch.rank - 1;
    step[0] = step[1] = 0;
    for (; k >= 0; k--) {
        int64_t dim = m->batch.dim[k], a = m->a_batch[k], b = m->b_batch[k];
        if (dim == 1)
            continue;
        if (batch == 1) {
            step[0] = a;
            step[1] = b;
        } else if (a != step[0] * batch || b != step[1] * batch || batch * dim > INT32_MAX) {
            break;
        }
        batch *= dim;
    }
    p->outer_count = 1;
    for (; k >= 0; k--) {
        int at = p->outer.rank++; /* innermost first */
        p->outer.dim[at] = m->batch.dim[k];
        p->outer.a[at] = m->a_batch[k];
        p->outer.b[at] = m->b_batch[k];
        p->outer_count *= m->batch.dim[k];
    }
    p->result_step = batch * m->m * m->n;
    return (int32_t)batch;
}

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

static cublasStatus_t choose(struct product *p, int alignment) {
    cublasLtMatmulPreferenceOpaque_t wish;
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    cublasStatus_t s = cublasLtMatmulPreferenceInit(&wish);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatmulPreferenceSetAttribute(&wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most_workspace,
                                                 sizeof most_workspace);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = set_alignment(&wish, alignment == WIDE ? wide_alignment : (uint32_t)p->elem_bytes);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatmulAlgoGetHeuristic(p->blas, &p->operation, &p->left, &p->right, &p->result, &p->result, &wish,
                                           1, &found, &count);
    if (s != CUBLAS_STATUS_SUCCESS || count == 0)
        return s != CUBLAS_STATUS_SUCCESS ? s : CUBLAS_STATUS_NOT_SUPPORTED;
    p->algorithm[alignment] = found.algo;
    if (found.workspaceSize > p->workspace_bytes)
        p->workspace_bytes = found.workspaceSize;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t describe(struct product *p, const struct zt_matmul *m, enum zt_dtype dtype, bool trans_a,
                               bool trans_b) {
    cudaDataType type = dtype == ZT_BFLOAT16 ? CUDA_R_16BF : CUDA_R_32F;
    int64_t step[2];
    int32_t batch = split_batch(m, p, step);
    const struct side sides[] = { { &p->right, trans_a ? m->k : m->m, trans_a ? m->m : m->k, step[0] },
                                  { &p->left, trans_b ? m->n : m->k, trans_b ? m->k : m->n, step[1] },
                                  { &p->result, m->m, m->n, m->m * m->n } };
    cublasStatus_t s = set_operation(p, trans_a, trans_b);
    for (int i = 0; i < 3 && s == CUBLAS_STATUS_SUCCESS; i++)
        s = set_layout(&sides[i], type, batch);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = choose(p, LOOSE);
    if (s == CUBLAS_STATUS_SUCCESS && choose(p, WIDE) != CUBLAS_STATUS_SUCCESS) /* what takes any address takes these */
        p->algorithm[WIDE] = p->algorithm[LOOSE];
    return s;
}

static bool prepare(struct zt_prepare *q, struct zt_err *err) {
    const struct zt_graph *g = q->graph;
    const struct zt_node *n = &g->nodes[q->node];
    const struct zt_value *a = zt_in(g, q->node, 0), *b = zt_in(g, q->node, 1), *c = zt_in(g, q->node, 2);
    bool trans_a = zt_attr_int(n, "transA", 0), trans_b = zt_attr_int(n, "transB", 0);
    struct zt_matmul m;
    if (!zt_matmul_read(g, q->node, &a->shape, &b->shape, trans_a, trans_b, &m, err))
        return false;
    struct product *p = zt_calloc(1, sizeof *p);
    p->blas = zt_cuda_library(q->device, create_blas, destroy_blas);
    p->elem_bytes = zt_dtype_bytes(a->dtype);
    p->alpha = zt_attr_float(n, "alpha", 1);
    p->beta = zt_attr_float(n, "beta", 1);
    p->has_c = c != NULL;
    if (c)
        p->spread = zt_walk_cuda(&m.out, &m.out, &c->shape);
    cublasStatus_t s = p->blas ? describe(p, &m, a->dtype, trans_a, trans_b) : CUBLAS_STATUS_NOT_INITIALIZED;
    if (s != CUBLAS_STATUS_SUCCESS) {
        free(p);
        return zt_fail(err, ZT_EXIT_RUN, "%s (%s): cuBLASLt has no product for it: %s", n->name, n->op_type,
                       cublasLtGetStatusString(s));
    }
    q->state = p;
    q->workspace_bytes = p->workspace_bytes;
    q->can_accumulate = !c;
    return true;
}

/* ---- running ---- */

static bool is_wide(const void *a, const void *b, const void *y) {
    return ((uintptr_t)a | (uintptr_t)b | (uintptr_t)y) % wide_alignment == 0;
}

static cublasStatus_t multiply(const struct product *p, const struct zt_call *call, int64_t i, const float *beta) {
    const char *a = call->in[0].data, *b = call->in[1].data;
    char *y = (char *)call->out[0].data + i * p->result_step * (int64_t)p->elem_bytes;
    for (int k = 0; k < p->outer.rank; k++) {
        int64_t at = i % p->outer.dim[k] * (int64_t)p->elem_bytes;
        a += at * p->outer.a[k];
        b += at * p->outer.b[k];
        i /= p->outer.dim[k];
    }
    /* the descriptors are only read; cuBLASLt's types do not say so */
    struct product *q = (struct product *)p;
    return cublasLtMatmul(p->blas, &q->operation, &p->alpha, b, &q->left, a, &q->right, beta, y, &q->result, y,
                          &q->result, &p->algorithm[is_wide(a, b, y) ? WIDE : LOOSE], call->workspace,
                          p->workspace_bytes, zt_cuda_stream(call->device));
}

static bool run(const struct zt_call *call, struct zt_err *err) {
    const struct product *p = call->state;
    const float beta = p->has_c || call->accumulate ? 1 : 0;
    if (p->has_c) {
        int code = zt_launch_spread(zt_cuda_stream(call->device), call->in[2].dtype, &p->spread, p->beta,
                                    call->in[2].data, call->out[0].data);
        if (!zt_cuda_good(call->device, code, err, call->node->name))
            return false;
    }
    for (int64_t i = 0; i < p->outer_count; i++) {
        cublasStatus_t s = multiply(p, call, i, &beta);
        if (s != CUBLAS_STATUS_SUCCESS)
            return zt_fail(err, ZT_EXIT_RUN, "%s (%s): cuBLASLt: %s", call->node->name, call->node->op_type,
                           cublasLtGetStatusString(s));
    }
    return true;
}

const struct zt_kernel zt_kernel_matmul_cuda = { .prepare = prepare, .run = run, .release = free };
