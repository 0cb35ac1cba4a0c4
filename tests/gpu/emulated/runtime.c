#include "tests/gpu/emulated/runtime.h"

#include "graph/ir/dtype.h"

#include <cuda_runtime_api.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <threads.h>

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
    *to = attribute == cudaDevAttrComputeCapabilityMajor             ? 9
          : attribute == cudaDevAttrMaxSharedMemoryPerMultiprocessor ? 228 << 10
                                                                     : 0;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
    int count;
    cudaGetDeviceCount(&count);
    return device >= 0 && device < count ? cudaSuccess : cudaErrorInvalidDevice;
}
cudaError_t cudaGetDevice(int *to) {
    *to = 0;
    return cudaSuccess;
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

bool emulated_captures(void) {
    return capturing != NULL;
}

/* ZT_EMULATED_CAPTURE: "none" where it is to be refused, "broken" where it is to end without a graph, "slow" where
 * others are to come by while it lasts. */
static bool capture_is(const char *how) {
    const char *text = getenv("ZT_EMULATED_CAPTURE");
    return text && strcmp(text, how) == 0;
}

void emulated_keeps(void (*run)(void *what), void *what, void (*destroy)(void *what)) {
    if (capture_is("slow"))
        thrd_sleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
    capturing->at = realloc(capturing->at, (size_t)(capturing->count + 1) * sizeof *capturing->at);
    capturing->at[capturing->count++] = (struct kept){ run, what, destroy };
}

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
