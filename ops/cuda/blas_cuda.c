/* cuBLASLt is column-major: a row-major matrix is its own transpose there. So y = op(a) op(b) is computed as y' =
 * op(b)' op(a)' with b as the left side. A row of y is a column there, along which its bias lies. */
#include "ops/cuda/blas_cuda.h"

#include "base/arena.h"
#include "base/disk_cache.h"
#include "device/cuda.h"

#include <cublasLt.h>

#include <stdlib.h>
#include <string.h>

static const uint32_t wide_alignment = 16;

enum { LOOSE, WIDE, ALIGNMENTS };

/* The choice of algorithms, as the disk cache stores it. */
struct choice {
    cublasLtMatmulAlgo_t algorithm[ALIGNMENTS];
    int32_t takes_any, reserved;
};

struct zt_blas {
    struct zt_device *device;
    cublasLtHandle_t handle;
    cublasLtMatmulDescOpaque_t operation;
    cublasLtMatrixLayoutOpaque_t left, right, result; /* b, a, y */
    struct choice choice;
    size_t workspace_bytes;
    bool bias, z; /* bias: it is read, or the sums are written in its place */
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

struct zt_blas_matrix zt_blas_packed(enum zt_dtype dtype, int64_t rows, int64_t columns, bool transposed) {
    return (struct zt_blas_matrix){ .dtype = dtype,
                                    .rows = transposed ? columns : rows,
                                    .columns = transposed ? rows : columns,
                                    .row_step = transposed ? rows : columns,
                                    .transposed = transposed };
}

static cudaDataType type_of(const struct zt_blas_matrix *m) {
    return m->dtype == ZT_BFLOAT16 ? CUDA_R_16BF : m->dtype == ZT_FLOAT16 ? CUDA_R_16F : CUDA_R_32F;
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

static cublasLtEpilogue_t epilogue_of(const struct zt_blas_spec *spec) {
    static const cublasLtEpilogue_t of[][2] = {
        [ZT_BLAS_STORE] = { CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS },
        [ZT_BLAS_GELU] = { CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS },
        [ZT_BLAS_GELU_KEEP] = { CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS },
        [ZT_BLAS_GELU_GRAD] = { CUBLASLT_EPILOGUE_DGELU, CUBLASLT_EPILOGUE_DGELU },
        [ZT_BLAS_RELU] = { CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU_BIAS },
        [ZT_BLAS_RELU_KEEP] = { CUBLASLT_EPILOGUE_RELU_AUX, CUBLASLT_EPILOGUE_RELU_AUX_BIAS },
        [ZT_BLAS_RELU_GRAD] = { CUBLASLT_EPILOGUE_DRELU, CUBLASLT_EPILOGUE_DRELU },
        [ZT_BLAS_SUM_A] = { CUBLASLT_EPILOGUE_BGRADB, CUBLASLT_EPILOGUE_BGRADB }, /* a and b change sides */
        [ZT_BLAS_SUM_B] = { CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_BGRADA },
    };
    return of[spec->then][spec->bias];
}

static bool has_bits(const struct zt_blas_spec *spec) {
    return spec->then == ZT_BLAS_RELU_KEEP || spec->then == ZT_BLAS_RELU_GRAD;
}

static bool has_z(const struct zt_blas_spec *spec) {
    return spec->then == ZT_BLAS_GELU_KEEP || spec->then == ZT_BLAS_GELU_GRAD || has_bits(spec);
}

static int64_t z_step(const struct zt_blas_spec *spec) {
    return has_bits(spec) ? spec->bits_step : spec->y.row_step;
}

static bool has_sums(const struct zt_blas_spec *spec) {
    return spec->then == ZT_BLAS_SUM_A || spec->then == ZT_BLAS_SUM_B;
}

static cublasStatus_t set_operation(struct zt_blas *p, const struct zt_blas_spec *spec) {
    cublasOperation_t left = spec->b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t right = spec->a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = epilogue_of(spec);
    const int64_t step = z_step(spec);
    bool fast = spec->tf32 && spec->a.dtype == ZT_FLOAT;
    cublasStatus_t s =
        cublasLtMatmulDescInit(&p->operation, fast ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatmulDescSetAttribute(&p->operation, CUBLASLT_MATMUL_DESC_TRANSA, &left, sizeof left);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatmulDescSetAttribute(&p->operation, CUBLASLT_MATMUL_DESC_TRANSB, &right, sizeof right);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatmulDescSetAttribute(&p->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (s == CUBLAS_STATUS_SUCCESS && has_z(spec))
        s = cublasLtMatmulDescSetAttribute(&p->operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &step, sizeof step);
    return s;
}

/* Sets the addresses that are part of the description. */
static cublasStatus_t set_addresses(const struct zt_blas *p, cublasLtMatmulDesc_t to, const void *bias, const void *z) {
    cublasStatus_t s = CUBLAS_STATUS_SUCCESS;
    if (p->bias)
        s = cublasLtMatmulDescSetAttribute(to, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    if (s == CUBLAS_STATUS_SUCCESS && p->z)
        s = cublasLtMatmulDescSetAttribute(to, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &z, sizeof z);
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

static void widen(struct zt_blas *p, const cublasLtMatmulHeuristicResult_t *found) {
    if (found->workspaceSize > p->workspace_bytes)
        p->workspace_bytes = found->workspaceSize;
}

/* The alignment of unknown addresses. */
static cublasStatus_t set_somewhere(struct zt_blas *p, uint32_t bytes) {
    const void *somewhere = (const void *)(uintptr_t)bytes;
    return set_addresses(p, &p->operation, somewhere, somewhere);
}

/* Split sums keep their parts in fp32 and add them in order: not in y's dtype, and not in the order of their arrival.
 */
static cublasStatus_t set_reduction(cublasLtMatmulPreference_t to) {
    const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    return cublasLtMatmulPreferenceSetAttribute(to, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes,
                                                sizeof schemes);
}

static cublasStatus_t choose(struct zt_blas *p, int alignment, uint32_t bytes) {
    const size_t most = ZT_BLAS_WORKSPACE;
    cublasLtMatmulPreferenceOpaque_t wish;
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    cublasStatus_t s = cublasLtMatmulPreferenceInit(&wish);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = set_somewhere(p, bytes);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatmulPreferenceSetAttribute(&wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = set_reduction(&wish);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = set_alignment(&wish, bytes);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatmulAlgoGetHeuristic(p->handle, &p->operation, &p->left, &p->right, &p->result, &p->result, &wish,
                                           1, &found, &count);
    if (s != CUBLAS_STATUS_SUCCESS || count == 0)
        return s != CUBLAS_STATUS_SUCCESS ? s : CUBLAS_STATUS_NOT_SUPPORTED;
    p->choice.algorithm[alignment] = found.algo;
    widen(p, &found);
    return CUBLAS_STATUS_SUCCESS;
}

/* Without an epilogue a product must run at every address; with one, aligned addresses are enough. */
static cublasStatus_t choose_both(struct zt_blas *p, const struct zt_blas_spec *spec) {
    cublasStatus_t loose = choose(p, LOOSE, (uint32_t)zt_dtype_bytes(spec->a.dtype));
    p->choice.takes_any = loose == CUBLAS_STATUS_SUCCESS;
    if (!p->choice.takes_any && spec->then == ZT_BLAS_STORE)
        return loose;
    if (choose(p, WIDE, wide_alignment) == CUBLAS_STATUS_SUCCESS)
        return CUBLAS_STATUS_SUCCESS;
    p->choice.algorithm[WIDE] = p->choice.algorithm[LOOSE]; /* an algorithm for any address runs at these too */
    return loose;
}

/* ---- choices on disk ---- */

static void write_key(struct zt_blas *p, const struct zt_blas_spec *spec, struct zt_text *to) {
    const struct zt_blas_matrix *all[] = { &spec->a, &spec->b, &spec->y };
    zt_text_add(to, "cuBLASLt %zu for %s\n", cublasLtGetVersion(), zt_cuda_name(p->device));
    for (int i = 0; i < 3; i++)
        zt_text_add(to, "matrix %d %lld %lld %lld %lld %d\n", all[i]->dtype, (long long)all[i]->rows,
                    (long long)all[i]->columns, (long long)all[i]->row_step, (long long)all[i]->batch_step,
                    all[i]->transposed);
    zt_text_add(to, "batch %d, bias %d, tf32 %d, then %d\n", spec->batch, spec->bias, spec->tf32, spec->then);
}

/* Whether cuBLASLt still accepts the algorithm for addresses of this alignment. */
static bool is_good(struct zt_blas *p, const cublasLtMatmulAlgo_t *algorithm, uint32_t bytes) {
    cublasLtMatmulHeuristicResult_t found = { .workspaceSize = 0 };
    const bool good = set_somewhere(p, bytes) == CUBLAS_STATUS_SUCCESS &&
                      cublasLtMatmulAlgoCheck(p->handle, &p->operation, &p->left, &p->right, &p->result, &p->result,
                                              algorithm, &found) == CUBLAS_STATUS_SUCCESS &&
                      found.workspaceSize <= ZT_BLAS_WORKSPACE;
    if (good)
        widen(p, &found);
    return good;
}

static bool restore(struct zt_blas *p, const struct zt_blas_spec *spec, const char *path, const char *key) {
    struct zt_text text = { 0 };
    struct choice cached;
    bool good = zt_disk_cache_read(path, key, &text) && text.length == sizeof cached;
    if (good) {
        memcpy(&cached, text.at, sizeof cached);
        good = (cached.takes_any || spec->then != ZT_BLAS_STORE) &&
               (!cached.takes_any || is_good(p, &cached.algorithm[LOOSE], (uint32_t)zt_dtype_bytes(spec->a.dtype))) &&
               is_good(p, &cached.algorithm[WIDE], wide_alignment);
    }
    if (good)
        p->choice = cached;
    else
        p->workspace_bytes = 0;
    zt_text_finish(&text);
    return good;
}

static void keep(const struct zt_blas *p, const char *path, const char *key) {
    struct zt_text text = { 0 };
    struct zt_err ignored = { 0 };
    zt_text_add_bytes(&text, &p->choice, sizeof p->choice);
    zt_disk_cache_write(path, key, &text, &ignored);
    zt_text_finish(&text);
}

static cublasStatus_t restore_or_choose(struct zt_blas *p, const struct zt_blas_spec *spec) {
    struct zt_text key = { 0 }, path = { 0 };
    write_key(p, spec, &key);
    const bool named = zt_disk_cache_path(key.at, "cublaslt.choice", &path);
    cublasStatus_t s = CUBLAS_STATUS_SUCCESS;
    if (!named || !restore(p, spec, path.at, key.at)) {
        s = choose_both(p, spec);
        if (s == CUBLAS_STATUS_SUCCESS && named)
            keep(p, path.at, key.at);
    }
    zt_text_finish(&key);
    zt_text_finish(&path);
    return s;
}

/* z's rows are multiples of 8 elements (CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD). */
static cublasStatus_t describe(struct zt_blas *p, const struct zt_blas_spec *spec) {
    cublasStatus_t s = p->handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
    if (p->z && z_step(spec) % 8)
        s = CUBLAS_STATUS_NOT_SUPPORTED;
    if (s == CUBLAS_STATUS_SUCCESS)
        s = set_operation(p, spec);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = set_layout(&p->left, &spec->b, spec->batch);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = set_layout(&p->right, &spec->a, spec->batch);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = set_layout(&p->result, &spec->y, spec->batch);
    return s == CUBLAS_STATUS_SUCCESS ? restore_or_choose(p, spec) : s;
}

struct zt_blas *zt_blas_create(struct zt_device *device, const struct zt_blas_spec *spec, struct zt_err *err) {
    struct zt_blas *p = zt_calloc(1, sizeof *p);
    p->device = device;
    p->handle = zt_cuda_library(device, create_handle, destroy_handle);
    p->bias = spec->bias || has_sums(spec);
    p->z = has_z(spec);
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
    uintptr_t all = (uintptr_t)d->a | (uintptr_t)d->b | (uintptr_t)d->c | (uintptr_t)d->y | (uintptr_t)d->bias |
                    (uintptr_t)d->z | (uintptr_t)d->sums;
    return all % wide_alignment == 0;
}

bool zt_blas_takes(const struct zt_blas *p, const struct zt_blas_data *d) {
    return p->choice.takes_any || (d && is_wide(d));
}

bool zt_blas_run(const struct zt_blas *p, const struct zt_blas_data *d, void *workspace, const char *name,
                 struct zt_err *err) {
    cublasLtMatmulDescOpaque_t operation = p->operation;
    struct zt_blas *q = (struct zt_blas *)p; /* layouts are only read; cuBLASLt's types do not say so */
    cublasStatus_t s = set_addresses(p, &operation, d->sums ? d->sums : d->bias, d->z);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatmul(p->handle, &operation, &d->alpha, d->b, &q->left, d->a, &q->right, &d->beta,
                           d->c ? d->c : d->y, &q->result, d->y, &q->result,
                           &p->choice.algorithm[is_wide(d) ? WIDE : LOOSE], workspace, p->workspace_bytes,
                           zt_cuda_stream(p->device));
    return s == CUBLAS_STATUS_SUCCESS ||
           zt_fail(err, ZT_EXIT_RUN, "%s: cuBLASLt: %s", name, cublasLtGetStatusString(s));
}
