/* As much of the CUDA runtime and of cuBLASLt as the CUDA module calls, in host memory: one device, on which everything
 * is done when the call returns. Matrix products are plain loops over column-major matrices as cuBLASLt's documentation
 * describes them, so that leading dimensions, transposition, batch strides and beta are held to what was asked for. */
#include "graph/ir/dtype.h"
#include "tests/gpu/emulated_epilogue.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <threads.h>

float emulated_half_to_float(uint16_t half);
uint16_t emulated_float_to_half(float value);
uint16_t emulated_float_to_bfloat(float value);
uint16_t emulated_double_to_half(double value);
uint16_t emulated_double_to_bfloat(double value);

float emulated_half_to_float(uint16_t half) {
    return zt_half_to_float(half);
}
uint16_t emulated_float_to_half(float value) {
    return zt_float_to_half(value);
}
uint16_t emulated_float_to_bfloat(float value) {
    return zt_float_to_bfloat(value);
}

uint16_t emulated_double_to_half(double value) {
    uint16_t half;
    zt_store_double(ZT_FLOAT16, &half, 0, value);
    return half;
}
uint16_t emulated_double_to_bfloat(double value) {
    uint16_t bfloat;
    zt_store_double(ZT_BFLOAT16, &bfloat, 0, value);
    return bfloat;
}

/* ---- the clock, and a device that computes nothing ---- */

static _Atomic int64_t clock_us;

/* Everything that the device does takes a microsecond: kernels, copies, clearing. False where ZT_EMULATED_DRY is set:
 * then it is only counted, and memory holds nothing. */
bool emulated_does(void);
static bool is_dry(void) {
    return getenv("ZT_EMULATED_DRY") != NULL;
}
bool emulated_does(void) {
    clock_us++;
    return !is_dry();
}

/* ---- the runtime ---- */

enum { MEMORY = 1 << 30 };

/* ZT_EMULATED_DEVICES of them, else one. */
cudaError_t cudaGetDeviceCount(int *count) {
    const char *text = getenv("ZT_EMULATED_DEVICES");
    *count = text ? atoi(text) : 1;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *to, int device) {
    memset(to, 0, sizeof *to);
    strcpy(to->name, "emulated");
    to->uuid.bytes[0] = (char)device;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *to, enum cudaDeviceAttr attribute, int device) {
    (void)device;
    *to = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
    int count;
    cudaGetDeviceCount(&count);
    return device >= 0 && device < count ? cudaSuccess : cudaErrorInvalidDevice;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *to, unsigned flags) {
    (void)flags;
    *to = malloc(1);
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    free(stream);
    return cudaSuccess;
}
/* Addresses alone: a page that says how many follow, and these, none of which is ever touched. */
enum { PAGE = 4096 };
static void *allocate_dry(size_t bytes) {
    char *at = mmap(NULL, bytes + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    *(size_t *)(void *)at = bytes + PAGE;
    return at + PAGE;
}
static void free_dry(void *memory) {
    size_t *at = (size_t *)(void *)((char *)memory - PAGE);
    munmap(at, *at);
}

/* Not cleared: the module must do that. */
cudaError_t cudaMalloc(void **to, size_t bytes) {
    if (is_dry()) {
        *to = allocate_dry(bytes);
        return *to ? cudaSuccess : cudaErrorMemoryAllocation;
    }
    *to = bytes <= MEMORY ? malloc(bytes) : NULL;
    if (*to)
        memset(*to, 0xff, bytes);
    return *to ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void *memory) {
    if (is_dry() && memory)
        free_dry(memory);
    else
        free(memory);
    return cudaSuccess;
}
cudaError_t cudaMallocHost(void **to, size_t bytes) {
    return cudaMalloc(to, bytes);
}
cudaError_t cudaFreeHost(void *memory) {
    return cudaFree(memory);
}
/* ZT_EMULATED_FREE bytes are free, else all. */
cudaError_t cudaMemGetInfo(size_t *left, size_t *all) {
    const char *text = getenv("ZT_EMULATED_FREE");
    *all = MEMORY;
    *left = text ? (size_t)atoll(text) : MEMORY;
    return cudaSuccess;
}

/* ---- capture: what is queued meanwhile is kept in a list ---- */

struct kept {
    void (*run)(void *what);
    void *what;
    void (*destroy)(void *what);
};
struct list {
    struct kept *at;
    int count;
    bool broken;
};
static _Thread_local struct list *capturing; /* NULL: nothing is captured */

bool emulated_captures(void);
bool emulated_captures(void) {
    return capturing != NULL;
}

/* ZT_EMULATED_CAPTURE: "none" where it is to be refused, "broken" where it is to end without a graph, "slow" where
 * others are to come by while it lasts. */
static bool capture_is(const char *how) {
    const char *text = getenv("ZT_EMULATED_CAPTURE");
    return text && strcmp(text, how) == 0;
}

void emulated_keeps(void (*run)(void *what), void *what, void (*destroy)(void *what));
void emulated_keeps(void (*run)(void *what), void *what, void (*destroy)(void *what)) {
    if (capture_is("slow"))
        thrd_sleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
    capturing->at = realloc(capturing->at, (size_t)(capturing->count + 1) * sizeof *capturing->at);
    capturing->at[capturing->count++] = (struct kept){ run, what, destroy };
}

/* For what cannot be kept: the capture gives no graph, and nothing of it is to be done. */
void emulated_breaks(void);
void emulated_breaks(void) {
    capturing->broken = true;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
    (void)stream, (void)mode;
    if (capture_is("none"))
        return cudaErrorNotSupported;
    capturing = calloc(1, sizeof *capturing);
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    (void)graph; /* its list is the executable one */
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    struct list *list = (struct list *)exec;
    for (int i = 0; i < list->count; i++)
        list->at[i].destroy(list->at[i].what);
    free(list->at);
    free(list);
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *to) {
    (void)stream;
    *to = (cudaGraph_t)capturing;
    bool broken = capturing->broken || capture_is("broken");
    capturing = NULL;
    if (!broken)
        return cudaSuccess;
    cudaGraphExecDestroy((cudaGraphExec_t)*to);
    *to = NULL;
    return cudaErrorStreamCaptureInvalidated;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    *count = (size_t)((struct list *)graph)->count;
    return nodes ? cudaErrorNotSupported : cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *to, cudaGraph_t graph, unsigned long long flags) {
    (void)flags;
    *to = (cudaGraphExec_t)graph;
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
    const struct list *list = (struct list *)exec;
    (void)stream;
    for (int i = 0; i < list->count; i++)
        list->at[i].run(list->at[i].what);
    return cudaSuccess;
}

struct copy {
    void *to;
    const void *from; /* NULL: `value` */
    size_t bytes;
    int value;
};
static void run_copy(void *what) {
    const struct copy *c = what;
    if (!emulated_does())
        return;
    if (c->from)
        memcpy(c->to, c->from, c->bytes);
    else
        memset(c->to, c->value, c->bytes);
}
static cudaError_t queue_copy(struct copy c) {
    if (!capturing) {
        run_copy(&c);
        return cudaSuccess;
    }
    struct copy *later = malloc(sizeof *later);
    *later = c;
    emulated_keeps(run_copy, later, free);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream) {
    (void)kind, (void)stream;
    return queue_copy((struct copy){ to, from, bytes, 0 });
}
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
    (void)stream;
    return queue_copy((struct copy){ to, NULL, bytes, value });
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    (void)stream;
    return capturing ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *to, unsigned flags) {
    (void)flags;
    *to = malloc(sizeof(int64_t));
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    free(event);
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    (void)stream;
    *(int64_t *)(void *)event = clock_us;
    return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
    *ms = (float)(*(int64_t *)(void *)to - *(int64_t *)(void *)from) / 1000;
    return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    (void)stream, (void)event, (void)flags;
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    (void)event;
    return cudaSuccess;
}
cudaError_t cudaGetLastError(void) {
    return cudaSuccess;
}
const char *cudaGetErrorString(cudaError_t error) {
    return error == cudaErrorMemoryAllocation ? "out of memory" : "an emulated error";
}

/* ---- cuBLASLt: what the opaque structs hold here ---- */

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

/* What the documentation asks of addresses and of the argument's columns. */
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

/* What is stored for `sum`, the element (i, k) of the product. */
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
    if (!capturing)
        return multiply(handle, description, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout, algorithm,
                        workspace, workspace_bytes, stream);
    struct product *later = malloc(sizeof *later);
    *later = (struct product){ *description,         *a_layout, *b_layout, *c_layout, *d_layout, *(const float *)alpha,
                               *(const float *)beta, a,         b,         c,         d,         workspace,
                               workspace_bytes,      *algorithm };
    emulated_keeps(run_product, later, free);
    return CUBLAS_STATUS_SUCCESS;
}
