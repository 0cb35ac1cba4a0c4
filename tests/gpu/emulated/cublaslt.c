/* Matrix products are plain loops over column-major matrices as cuBLASLt's documentation describes them, so that
 * leading dimensions, transposition, batch strides and beta are held to what was asked for. */
#include "tests/gpu/emulated/cublaslt.h"

#include "graph/ir/dtype.h"
#include "tests/gpu/emulated/runtime.h"

#include <cublasLt.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what the opaque structs hold here ---- */

struct matrix {
    int64_t rows, columns, leading, batch_step;
    int type, batch;
};
struct operation {
    int left_transposed, right_transposed, epilogue;
    void *bias; /* a number a row of the result, of its type; where sums of a side go */
    void *aux;  /* GELU's argument, of the result's type; a bit an element where ReLU's is positive */
    int64_t aux_leading;
};
struct preference {
    uint32_t alignment; /* the least of all matrices */
    uint32_t schemes;   /* how parts of a split sum may be joined */
};
_Static_assert(sizeof(struct matrix) <= sizeof(cublasLtMatrixLayoutOpaque_t), "a layout holds a matrix");
_Static_assert(sizeof(struct operation) <= sizeof(cublasLtMatmulDescOpaque_t), "a description holds an operation");

cublasStatus_t cublasLtCreate(cublasLtHandle_t *to) {
    *to = malloc(1);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}
const char *cublasLtGetStatusString(cublasStatus_t status) {
    return status == CUBLAS_STATUS_INVALID_VALUE ? "an invalid value" : "an emulated status";
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t to, size_t size, cublasComputeType_t compute,
                                               cudaDataType_t scale) {
    memset(to, 0, size);
    ((struct operation *)to)->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    const bool known = compute == CUBLAS_COMPUTE_32F || compute == CUBLAS_COMPUTE_32F_FAST_TF32; /* rounds nothing */
    return known && scale == CUDA_R_32F ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t to, cublasLtMatmulDescAttributes_t what,
                                              const void *value, size_t bytes) {
    struct operation *o = (struct operation *)to;
    if (what == CUBLASLT_MATMUL_DESC_BIAS_POINTER && bytes == sizeof o->bias)
        memcpy(&o->bias, value, bytes);
    else if (what == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER && bytes == sizeof o->aux)
        memcpy(&o->aux, value, bytes);
    else if (what == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD && bytes == sizeof o->aux_leading)
        memcpy(&o->aux_leading, value, bytes);
    else if (what == CUBLASLT_MATMUL_DESC_EPILOGUE && bytes == sizeof o->epilogue)
        memcpy(&o->epilogue, value, bytes);
    else if (what == CUBLASLT_MATMUL_DESC_TRANSA && bytes == sizeof(cublasOperation_t))
        o->left_transposed = *(const cublasOperation_t *)value == CUBLAS_OP_T;
    else if (what == CUBLASLT_MATMUL_DESC_TRANSB && bytes == sizeof(cublasOperation_t))
        o->right_transposed = *(const cublasOperation_t *)value == CUBLAS_OP_T;
    else
        return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t to, size_t size, cudaDataType type,
                                                 uint64_t rows, uint64_t columns, int64_t leading) {
    memset(to, 0, size);
    *(struct matrix *)to = (struct matrix){ (int64_t)rows, (int64_t)columns, leading, 0, type, 1 };
    return leading >= (int64_t)rows ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t to, cublasLtMatrixLayoutAttribute_t what,
                                                const void *value, size_t bytes) {
    struct matrix *m = (struct matrix *)to;
    if (what == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT && bytes == sizeof(int32_t))
        m->batch = *(const int32_t *)value;
    else if (what == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET && bytes == sizeof(int64_t))
        m->batch_step = *(const int64_t *)value;
    else
        return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t to, size_t size) {
    memset(to, 0, size);
    ((struct preference *)to)->schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t to,
                                                    cublasLtMatmulPreferenceAttributes_t what, const void *value,
                                                    size_t bytes) {
    struct preference *p = (struct preference *)to;
    uint32_t alignment;
    if (what == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK && bytes == sizeof p->schemes) {
        memcpy(&p->schemes, value, bytes);
    } else if (what != CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES && bytes == sizeof alignment) {
        memcpy(&alignment, value, bytes);
        p->alignment = p->alignment && p->alignment < alignment ? p->alignment : alignment;
    }
    return bytes == 4 || bytes == 8 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

/* ---- epilogues ---- */

static double gelu(double x) {
    return x * (1 + tanh(M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x))) / 2;
}
static double gelu_slope(double x) {
    double c = M_2_SQRTPI * M_SQRT1_2, t = tanh(c * (x + 0.044715 * x * x * x));
    return (1 + t) / 2 + x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x) / 2;
}

/* ReLU, of which cuBLASLt says neither what becomes of NaN nor which bit it keeps of 0. ZT_EMULATED_RELU: "max" where
 * NaN becomes 0, "kept" where the bit of 0 is set. `bits` NULL: none are kept. */
static double relu_at(double x, uint8_t *bits, int64_t at) {
    const char *how = getenv("ZT_EMULATED_RELU");
    const int set = how && strcmp(how, "kept") == 0 ? !(x < 0) : !(x <= 0), bit = 1 << at % 8;
    if (bits)
        bits[at / 8] = (uint8_t)(set ? bits[at / 8] | bit : bits[at / 8] & ~bit);
    if (how && strcmp(how, "max") == 0)
        return fmax(x, 0);
    return x <= 0 ? 0 : x;
}
static double relu_slope_at(const uint8_t *bits, int64_t at) {
    return bits[at / 8] >> at % 8 & 1;
}

enum {
    GELU = CUBLASLT_EPILOGUE_GELU,
    AUX = 128,
    GELU_SLOPE = CUBLASLT_EPILOGUE_DGELU & ~AUX,
    RELU = CUBLASLT_EPILOGUE_RELU,
    RELU_SLOPE = CUBLASLT_EPILOGUE_DRELU & ~AUX,
    SUMS = CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB
};

static bool is_known(int epilogue) {
    static const cublasLtEpilogue_t known[] = { CUBLASLT_EPILOGUE_DEFAULT,  CUBLASLT_EPILOGUE_BIAS,
                                                CUBLASLT_EPILOGUE_GELU,     CUBLASLT_EPILOGUE_GELU_BIAS,
                                                CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
                                                CUBLASLT_EPILOGUE_RELU,     CUBLASLT_EPILOGUE_RELU_BIAS,
                                                CUBLASLT_EPILOGUE_RELU_AUX, CUBLASLT_EPILOGUE_RELU_AUX_BIAS,
                                                CUBLASLT_EPILOGUE_DGELU,    CUBLASLT_EPILOGUE_DRELU,
                                                CUBLASLT_EPILOGUE_BGRADA,   CUBLASLT_EPILOGUE_BGRADB };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (epilogue == (int)known[i])
            return true;
    return false;
}

/* Whether the operation fulfils the documentation's conditions on addresses and on the columns of the argument. */
static bool is_whole(const struct operation *o, const struct matrix *result) {
    const bool aux = o->epilogue & AUX;
    return is_known(o->epilogue) && !(o->epilogue & (CUBLASLT_EPILOGUE_BIAS | SUMS)) == !o->bias &&
           aux == (o->aux != NULL) && (!(o->epilogue & SUMS) || result->batch == 1) &&
           (!aux || (o->aux_leading % (o->epilogue & (RELU | RELU_SLOPE) ? 128 : 8) == 0 &&
                     o->aux_leading >= result->rows && result->batch == 1));
}

static enum zt_dtype dtype_of(const struct matrix *m) {
    return m->type == CUDA_R_16BF ? ZT_BFLOAT16 : m->type == CUDA_R_16F ? ZT_FLOAT16 : ZT_FLOAT;
}

static bool is_half(const struct matrix *m) {
    return zt_dtype_is_half(dtype_of(m));
}

/* GELU, ReLU and sums want columns in multiples of 16 bytes, of half types addresses too, as far as it is told
 * of them: so callers see products that it is there for always, sometimes and never. A bias wants more than one row. */
static bool has_algorithm(const struct operation *o, const struct matrix *const m[3], uint32_t alignment) {
    const bool half = is_half(m[0]);
    bool fits = !half || (alignment >= 16 && (uintptr_t)o->bias % 16 == 0 && (uintptr_t)o->aux % 16 == 0);
    for (int i = 0; i < 3; i++)
        fits &= m[i]->leading * (is_half(m[i]) ? 2 : 4) % 16 == 0;
    return (fits || !(o->epilogue & (GELU | GELU_SLOPE | RELU | RELU_SLOPE | SUMS))) &&
           (m[2]->rows > 1 || !(o->epilogue & CUBLASLT_EPILOGUE_BIAS));
}

/* Returns the number to store for `sum`, the element (i, k) of the product. */
static double finish(const struct operation *o, const struct matrix *result, int64_t i, int64_t k, double sum) {
    const enum zt_dtype dtype = dtype_of(result);
    const int64_t aux = i + k * o->aux_leading;
    if (o->epilogue & CUBLASLT_EPILOGUE_BIAS)
        sum += zt_load_double(dtype, o->bias, i);
    if (o->epilogue & RELU_SLOPE)
        return relu_slope_at(o->aux, aux) != 0 ? sum : 0;
    if (o->epilogue & RELU)
        return relu_at(sum, o->aux, aux);
    if (o->epilogue & GELU_SLOPE)
        return sum * gelu_slope(zt_load_double(dtype, o->aux, aux));
    if (o->epilogue & AUX)
        zt_store_double(dtype, o->aux, aux, sum);
    return o->epilogue & GELU ? gelu(sum) : sum;
}

/* ---- products ---- */

static _Atomic int heuristics, forgotten;
int emulated_heuristics(void) {
    return heuristics;
}
void emulated_forgets(void) {
    forgotten++;
}

/* op(left) [m, k], op(right) [k, n], result [m, n] */
static int64_t depth(const struct operation *o, const struct matrix *left) {
    return o->left_transposed ? left->rows : left->columns;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t wish, int wanted,
                                              cublasLtMatmulHeuristicResult_t to[], int *count) {
    const struct operation *o = (struct operation *)description;
    const struct matrix *left = (struct matrix *)a, *right = (struct matrix *)b, *result = (struct matrix *)d;
    const struct matrix *const all[] = { left, right, result };
    (void)handle, (void)c, (void)wanted;
    bool fits = (o->left_transposed ? left->columns : left->rows) == result->rows &&
                (o->right_transposed ? right->rows : right->columns) == result->columns &&
                (o->right_transposed ? right->columns : right->rows) == depth(o, left) &&
                left->batch == result->batch && right->batch == result->batch;
    memset(to, 0, sizeof *to);
    to->workspaceSize = 1024;
    to->algo.data[0] = ((struct preference *)wish)->alignment;
    to->algo.data[1] = (uint64_t)forgotten;
    fits &= is_whole(o, result);
    /* all that it has for callers who take sums in the result's type, or in any order */
    fits &= !(((struct preference *)wish)->schemes &
              (CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE));
    *count = fits && has_algorithm(o, all, ((struct preference *)wish)->alignment);
    heuristics++;
    if (!fits)
        return CUBLAS_STATUS_INVALID_VALUE;
    return *count ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

size_t cublasLtGetVersion(void) {
    return CUBLAS_VERSION;
}

/* An algorithm is the alignment that it was chosen for, and how often all were forgotten before. */
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                       cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *algorithm,
                                       cublasLtMatmulHeuristicResult_t *to) {
    const struct matrix *const all[] = { (struct matrix *)a, (struct matrix *)b, (struct matrix *)d };
    (void)handle, (void)c;
    to->workspaceSize = 1024;
    return algorithm->data[0] > 0 && algorithm->data[0] <= 16 && algorithm->data[1] == (uint64_t)forgotten &&
                   has_algorithm((struct operation *)description, all, (uint32_t)algorithm->data[0])
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_NOT_SUPPORTED;
}

static double element(const struct matrix *m, const void *data, int batch, int64_t row, int64_t column) {
    int64_t at = batch * m->batch_step + row + column * m->leading;
    return zt_load_double(dtype_of(m), data, at);
}

/* Sums of op(left) or op(right) over what the product sums over. */
static void add_up(const struct operation *o, const struct matrix *left, const void *a, const struct matrix *right,
                   const void *b, const struct matrix *result) {
    const bool first = o->epilogue == CUBLASLT_EPILOGUE_BGRADA;
    for (int64_t i = 0; i < (first ? result->rows : result->columns); i++) {
        double sum = 0;
        for (int64_t n = 0; n < depth(o, left); n++)
            sum += first ? (o->left_transposed ? element(left, a, 0, n, i) : element(left, a, 0, i, n))
                         : (o->right_transposed ? element(right, b, 0, i, n) : element(right, b, 0, n, i));
        zt_store_double(dtype_of(result), o->bias, i, sum);
    }
}

static cublasStatus_t multiply(cublasLtHandle_t handle, cublasLtMatmulDesc_t description, const void *alpha,
                               const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                               cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                               cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
                               const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t workspace_bytes,
                               cudaStream_t stream) {
    const struct operation *o = (struct operation *)description;
    const struct matrix *left = (struct matrix *)a_layout, *right = (struct matrix *)b_layout;
    const struct matrix *old = (struct matrix *)c_layout, *result = (struct matrix *)d_layout;
    double scale = *(const float *)alpha, keep = *(const float *)beta;
    const struct matrix *const all[] = { left, right, result };
    const uintptr_t addresses = (uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)d;
    (void)handle, (void)stream;
    if (!is_whole(o, result) || !algorithm->data[0] || addresses % algorithm->data[0] ||
        !has_algorithm(o, all, addresses % 16 ? 1 : 16))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!emulated_does())
        return CUBLAS_STATUS_SUCCESS;
    memset(workspace, 0xff, workspace_bytes);
    if (o->epilogue & SUMS)
        add_up(o, left, a, right, b, result);
    for (int batch = 0; batch < result->batch; batch++)
        for (int64_t i = 0; i < result->rows; i++)
            for (int64_t k = 0; k < result->columns; k++) {
                double sum = 0;
                for (int64_t n = 0; n < depth(o, left); n++)
                    sum += (o->left_transposed ? element(left, a, batch, n, i) : element(left, a, batch, i, n)) *
                           (o->right_transposed ? element(right, b, batch, k, n) : element(right, b, batch, n, k));
                sum = scale * sum + (keep != 0 ? keep * element(old, c, batch, i, k) : 0);
                zt_store_double(dtype_of(result), d, batch * result->batch_step + i + k * result->leading,
                                finish(o, result, i, k, sum));
            }
    return CUBLAS_STATUS_SUCCESS;
}

/* A product as it was asked for while its stream is captured. */
struct product {
    cublasLtMatmulDescOpaque_t description;
    cublasLtMatrixLayoutOpaque_t a_layout, b_layout, c_layout, d_layout;
    float alpha, beta;
    const void *a, *b, *c;
    void *d, *workspace;
    size_t workspace_bytes;
    cublasLtMatmulAlgo_t algorithm;
};

static void run_product(void *what) {
    struct product *p = what;
    multiply(NULL, &p->description, &p->alpha, p->a, &p->a_layout, p->b, &p->b_layout, &p->beta, p->c, &p->c_layout,
             p->d, &p->d_layout, &p->algorithm, p->workspace, p->workspace_bytes, NULL);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t workspace_bytes,
                              cudaStream_t stream) {
    if (!emulated_captures())
        return multiply(handle, description, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout, algorithm,
                        workspace, workspace_bytes, stream);
    struct product *later = malloc(sizeof *later);
    *later = (struct product){ *description,         *a_layout, *b_layout, *c_layout, *d_layout, *(const float *)alpha,
                               *(const float *)beta, a,         b,         c,         d,         workspace,
                               workspace_bytes,      *algorithm };
    emulated_keeps(run_product, later, free);
    return CUBLAS_STATUS_SUCCESS;
}
