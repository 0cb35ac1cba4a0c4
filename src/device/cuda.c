/* The CUDA device: memory, copies and one stream. All work is queued on the stream in order, except batches, which are
 * copied on a separate stream, and NCCL collectives. Only cuda_synchronize and cuda_wait wait for the device (and
 * cudaFree, at the end). Part of ztrain-cuda.so. */
#include "device/cuda.h"

#include "base/arena.h"

#include <cuda_runtime_api.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OLDEST_MAJOR = 8 }; /* oldest compute capability that the kernels are compiled for (meson.build) */

struct cuda {
    struct zt_device base;
    int number;
    char name[256]; /* name from cudaDeviceProp */
    unsigned char identity[16];
    cudaStream_t stream, side; /* side NULL: not created yet */
    cudaStream_t input;        /* NULL: not created yet */
    cudaEvent_t order;
    void *scratch, *pinned;
    unsigned *arrived;
    size_t workspace; /* limit of zt_cuda_workspace() */
    bool capturing;
    struct {
        void *(*create)(void);
        void (*destroy)(void *);
        void *handle;
    } library[ZT_CUDA_LIBRARIES];
};

static struct cuda *cuda_of(const struct zt_device *device) {
    return (struct cuda *)device;
}

bool zt_cuda_good(const struct zt_device *device, int code, struct zt_err *err, const char *doing) {
    if (code == cudaSuccess)
        return true;
    const struct cuda *d = cuda_of(device);
    return zt_fail(err, ZT_EXIT_RUN, "%s on CUDA device %d (%s): %s", doing, d->number, d->name,
                   cudaGetErrorString((cudaError_t)code));
}

struct CUstream_st *zt_cuda_stream(const struct zt_device *device) {
    return cuda_of(device)->stream;
}
void *zt_cuda_scratch(const struct zt_device *device) {
    return cuda_of(device)->scratch;
}
void *zt_cuda_pinned(const struct zt_device *device) {
    return cuda_of(device)->pinned;
}
unsigned *zt_cuda_arrived(const struct zt_device *device) {
    return cuda_of(device)->arrived;
}

void zt_cuda_identity(const struct zt_device *device, unsigned char to[16]) {
    memcpy(to, cuda_of(device)->identity, sizeof cuda_of(device)->identity);
}

/* ---- the second stream ---- */

struct CUstream_st *zt_cuda_side_stream(struct zt_device *device, struct zt_err *err) {
    struct cuda *d = cuda_of(device);
    if (!d->side && !zt_cuda_good(device, cudaStreamCreateWithFlags(&d->side, cudaStreamNonBlocking), err,
                                  "making a stream for communication"))
        d->side = NULL;
    return d->side;
}

bool zt_cuda_mark(struct zt_device *device, struct CUstream_st *earlier, struct zt_event *event, struct zt_err *err) {
    return zt_cuda_good(device, cudaEventRecord((cudaEvent_t)event, earlier), err, "marking a place");
}

bool zt_cuda_await(struct zt_device *device, struct CUstream_st *later, struct zt_event *event, struct zt_err *err) {
    return zt_cuda_good(device, cudaStreamWaitEvent(later, (cudaEvent_t)event, 0), err, "ordering streams");
}

bool zt_cuda_order(struct zt_device *device, struct CUstream_st *earlier, struct CUstream_st *later,
                   struct zt_err *err) {
    struct zt_event *place = (struct zt_event *)cuda_of(device)->order;
    return zt_cuda_mark(device, earlier, place, err) && zt_cuda_await(device, later, place, err);
}

const char *zt_cuda_name(struct zt_device *device) {
    return cuda_of(device)->name;
}

void *zt_cuda_library(struct zt_device *device, void *(*create)(void), void (*destroy)(void *)) {
    struct cuda *d = cuda_of(device);
    for (int i = 0; i < ZT_CUDA_LIBRARIES; i++) {
        if (!d->library[i].handle) {
            d->library[i].create = create;
            d->library[i].destroy = destroy;
            d->library[i].handle = create();
        }
        if (d->library[i].create == create)
            return d->library[i].handle;
    }
    return NULL;
}

/* ---- memory ---- */

static void *cuda_allocate(struct zt_device *device, size_t bytes, const char *what, struct zt_err *err) {
    struct cuda *d = cuda_of(device);
    void *memory = NULL;
    size_t room = bytes ? bytes : 1; /* an empty block has an address too */
    cudaError_t code = cudaMalloc(&memory, room);
    if (code == cudaErrorMemoryAllocation) {
        size_t left = 0, all = 0;
        cudaGetLastError(); /* clears the error, which is reported here */
        cudaMemGetInfo(&left, &all);
        zt_fail(err, ZT_EXIT_RUN, "out of memory: %zu bytes for %s, %zu of %zu are free on CUDA device %d (%s)", bytes,
                what, left, all, d->number, d->name);
        zt_hint(err, "use a smaller micro-batch, or shard over more ranks");
        return NULL;
    }
    char doing[96];
    snprintf(doing, sizeof doing, "allocating %zu bytes for %s", bytes, what);
    if (!zt_cuda_good(device, code, err, doing))
        return NULL;
    if (zt_cuda_good(device, cudaMemsetAsync(memory, 0, room, d->stream), err, doing))
        return memory;
    cudaFree(memory);
    return NULL;
}

static void cuda_free(struct zt_device *device, void *memory, size_t bytes) {
    (void)device, (void)bytes;
    cudaFree(memory); /* accepts NULL; errors of earlier work are reported where that work is queued */
}

static bool cuda_room(struct zt_device *device, size_t *left, struct zt_err *err) {
    size_t all;
    return zt_cuda_good(device, cudaMemGetInfo(left, &all), err, "asking for its memory");
}

size_t zt_cuda_workspace(const struct zt_device *device) {
    return cuda_of(device)->workspace;
}

static void *cuda_allocate_host(struct zt_device *device, size_t bytes, const char *what, struct zt_err *err) {
    void *memory = NULL;
    char doing[96];
    snprintf(doing, sizeof doing, "allocating %zu bytes of pinned host memory for %s", bytes, what);
    return zt_cuda_good(device, cudaMallocHost(&memory, bytes ? bytes : 1), err, doing) ? memory : NULL;
}

static void cuda_free_host(struct zt_device *device, void *memory, size_t bytes) {
    (void)device, (void)bytes;
    cudaFreeHost(memory);
}

static bool copy(struct zt_device *device, void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                 struct zt_err *err) {
    static const char *const doing[] = { [cudaMemcpyHostToDevice] = "copying to the device",
                                         [cudaMemcpyDeviceToHost] = "copying to the host",
                                         [cudaMemcpyDeviceToDevice] = "copying" };
    return bytes == 0 ||
           zt_cuda_good(device, cudaMemcpyAsync(to, from, bytes, kind, cuda_of(device)->stream), err, doing[kind]);
}

/* Host copies are refused during capture: a graph would copy the memory contents at every replay. */
static bool crosses(const struct zt_device *device, struct zt_err *err) {
    return !cuda_of(device)->capturing ||
           zt_fail(err, ZT_EXIT_RUN, "a copy between the host and CUDA device %d cannot be part of a CUDA graph",
                   cuda_of(device)->number);
}

static bool cuda_to_device(struct zt_device *device, void *to, const void *from, size_t bytes, struct zt_err *err) {
    return crosses(device, err) && copy(device, to, from, bytes, cudaMemcpyHostToDevice, err);
}

static bool cuda_to_host(struct zt_device *device, void *to, const void *from, size_t bytes, struct zt_err *err) {
    return crosses(device, err) && copy(device, to, from, bytes, cudaMemcpyDeviceToHost, err);
}

static bool open_input(struct zt_device *device, struct zt_err *err) {
    struct cuda *d = cuda_of(device);
    if (d->input)
        return true;
    if (!zt_cuda_good(device, cudaStreamCreateWithFlags(&d->input, cudaStreamNonBlocking), err,
                      "making a stream for batches"))
        d->input = NULL;
    return d->input != NULL;
}

static bool cuda_copy_ahead(struct zt_device *device, const struct zt_copy *copy, struct zt_event *taken,
                            struct zt_event *sent, struct zt_err *err) {
    struct cuda *d = cuda_of(device);
    if (!crosses(device, err) || !open_input(device, err))
        return false;
    return zt_cuda_await(device, d->input, taken, err) &&
           zt_cuda_good(device, cudaMemcpyAsync(copy->to, copy->from, copy->bytes, cudaMemcpyHostToDevice, d->input),
                        err, "copying a batch to the device") &&
           zt_cuda_mark(device, d->input, sent, err) && zt_cuda_await(device, d->stream, sent, err);
}

static bool cuda_copy(struct zt_device *device, void *to, const void *from, size_t bytes, struct zt_err *err) {
    return copy(device, to, from, bytes, cudaMemcpyDeviceToDevice, err);
}

static bool cuda_zero(struct zt_device *device, void *memory, size_t bytes, struct zt_err *err) {
    return bytes == 0 ||
           zt_cuda_good(device, cudaMemsetAsync(memory, 0, bytes, cuda_of(device)->stream), err, "clearing memory");
}

static struct zt_event *create_event(struct zt_device *device, unsigned flags, struct zt_err *err) {
    cudaEvent_t event = NULL;
    int code = cudaEventCreateWithFlags(&event, flags);
    return zt_cuda_good(device, code, err, "making an event") ? (struct zt_event *)event : NULL;
}

static struct zt_event *cuda_event_create(struct zt_device *device, struct zt_err *err) {
    return create_event(device, cudaEventDisableTiming, err);
}

static struct zt_event *cuda_timer_create(struct zt_device *device, struct zt_err *err) {
    return create_event(device, cudaEventDefault, err);
}

static bool cuda_elapsed(struct zt_device *device, const struct zt_event *from, const struct zt_event *to,
                         double *seconds, struct zt_err *err) {
    float ms = 0;
    int code = cudaEventElapsedTime(&ms, (cudaEvent_t)from, (cudaEvent_t)to);
    *seconds = 1e-3 * (double)ms;
    return zt_cuda_good(device, code, err, "reading times");
}

static bool cuda_record(struct zt_device *device, struct zt_event *event, struct zt_err *err) {
    return zt_cuda_good(device, cudaEventRecord((cudaEvent_t)event, cuda_of(device)->stream), err, "marking a place");
}

static bool cuda_wait(struct zt_device *device, struct zt_event *event, struct zt_err *err) {
    return zt_cuda_good(device, cudaEventSynchronize((cudaEvent_t)event), err, "waiting for kernels");
}

static void cuda_event_destroy(struct zt_device *device, struct zt_event *event) {
    (void)device;
    cudaEventDestroy((cudaEvent_t)event);
}

/* ---- capture: a zt_captured is a cudaGraphExec_t ---- */

static bool cuda_capture(struct zt_device *device, struct zt_err *err) {
    /* thread local, because other ranks of the process may allocate meanwhile */
    int code = cudaStreamBeginCapture(cuda_of(device)->stream, cudaStreamCaptureModeThreadLocal);
    cuda_of(device)->capturing = code == cudaSuccess;
    return zt_cuda_good(device, code, err, "beginning to capture");
}

static struct zt_captured *cuda_captured(struct zt_device *device, size_t *launches, struct zt_err *err) {
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    int code = cudaStreamEndCapture(cuda_of(device)->stream, &graph);
    cuda_of(device)->capturing = false;
    if (code == cudaSuccess)
        code = cudaGraphGetNodes(graph, NULL, launches);
    if (code == cudaSuccess)
        code = cudaGraphInstantiate(&exec, graph, 0);
    if (graph)
        cudaGraphDestroy(graph);
    if (zt_cuda_good(device, code, err, "capturing a segment of the step"))
        return (struct zt_captured *)exec;
    cudaGetLastError(); /* clears the error; the segment is queued action by action */
    return NULL;
}

static bool cuda_replay(struct zt_device *device, struct zt_captured *captured, struct zt_err *err) {
    int code = cudaGraphLaunch((cudaGraphExec_t)captured, cuda_of(device)->stream);
    return zt_cuda_good(device, code, err, "launching a segment of the step");
}

static void cuda_captured_destroy(struct zt_device *device, struct zt_captured *captured) {
    (void)device;
    cudaGraphExecDestroy((cudaGraphExec_t)captured);
}

static bool cuda_synchronize(struct zt_device *device, struct zt_err *err) {
    return zt_cuda_good(device, cudaStreamSynchronize(cuda_of(device)->stream), err, "waiting for kernels");
}

static void cuda_destroy(struct zt_device *device) {
    struct cuda *d = cuda_of(device);
    if (!d)
        return;
    for (int i = 0; i < ZT_CUDA_LIBRARIES; i++)
        if (d->library[i].handle)
            d->library[i].destroy(d->library[i].handle);
    cudaFreeHost(d->pinned);
    cudaFree(d->scratch);
    cudaFree(d->arrived);
    if (d->order)
        cudaEventDestroy(d->order);
    if (d->side)
        cudaStreamDestroy(d->side);
    if (d->input)
        cudaStreamDestroy(d->input);
    if (d->stream)
        cudaStreamDestroy(d->stream);
    free(d);
}

static const struct zt_device_api api = {
    .name = "cuda",
    .backend = ZT_CUDA,
    .allocate = cuda_allocate,
    .free = cuda_free,
    .room = cuda_room,
    .allocate_host = cuda_allocate_host,
    .free_host = cuda_free_host,
    .to_device = cuda_to_device,
    .to_host = cuda_to_host,
    .copy = cuda_copy,
    .copy_ahead = cuda_copy_ahead,
    .zero = cuda_zero,
    .event_create = cuda_event_create,
    .record = cuda_record,
    .wait = cuda_wait,
    .event_destroy = cuda_event_destroy,
    .timer_create = cuda_timer_create,
    .elapsed = cuda_elapsed,
    .capture = cuda_capture,
    .captured = cuda_captured,
    .replay = cuda_replay,
    .captured_destroy = cuda_captured_destroy,
    .synchronize = cuda_synchronize,
    .destroy = cuda_destroy,
};

/* ---- opening ---- */

static int count_devices(struct zt_err *err) {
    int count = 0;
    cudaError_t code = cudaGetDeviceCount(&count);
    if (code == cudaSuccess && count > 0)
        return count;
    zt_fail(err, ZT_EXIT_RUN, "no CUDA device: %s", code ? cudaGetErrorString(code) : "the driver reports none");
    zt_hint(err, "use --device cpu, or run where there is an NVIDIA GPU with a driver for CUDA 13");
    return 0;
}

static bool check_age(const struct cuda *d, struct zt_err *err) {
    int major = 0, minor = 0;
    if (!zt_cuda_good(&d->base, cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, d->number), err,
                      "asking") ||
        !zt_cuda_good(&d->base, cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, d->number), err,
                      "asking"))
        return false;
    return major >= OLDEST_MAJOR ||
           zt_fail(err, ZT_EXIT_RUN, "CUDA device %d (%s) has compute capability %d.%d, wants %d.0 or newer", d->number,
                   d->name, major, minor, OLDEST_MAJOR);
}

/* Sets the workspace limit to an eighth of the memory. The choice of algorithms is therefore the same in every run,
 * unless other programs use much of the GPU. */
static bool measure_memory(struct cuda *d, struct zt_err *err) {
    size_t left = 0, all = 0;
    if (!zt_cuda_good(&d->base, cudaMemGetInfo(&left, &all), err, "asking for its memory"))
        return false;
    d->workspace = left / 4 < all / 8 ? left / 4 : all / 8;
    return true;
}

struct zt_device *zt_cuda_create(int number, struct zt_err *err) {
    struct cudaDeviceProp properties;
    int count = count_devices(err);
    if (!count)
        return NULL;
    struct cuda *d = zt_calloc(1, sizeof *d);
    d->base.api = &api;
    d->number = number % count;
    if (cudaGetDeviceProperties(&properties, d->number) == cudaSuccess) {
        snprintf(d->name, sizeof d->name, "%s", properties.name);
        d->base.product = d->name;
        memcpy(d->identity, &properties.uuid, sizeof d->identity);
    }
    if (check_age(d, err) && zt_cuda_good(&d->base, cudaSetDevice(d->number), err, "opening") &&
        zt_cuda_good(&d->base, cudaStreamCreateWithFlags(&d->stream, cudaStreamNonBlocking), err, "making a stream") &&
        zt_cuda_good(&d->base, cudaEventCreateWithFlags(&d->order, cudaEventDisableTiming), err, "making an event") &&
        zt_cuda_good(&d->base, cudaMalloc(&d->scratch, ZT_CUDA_SCRATCH), err, "allocating scratch memory") &&
        zt_cuda_good(&d->base, cudaMallocHost(&d->pinned, ZT_CUDA_SCRATCH), err, "allocating pinned memory") &&
        (d->arrived = cuda_allocate(&d->base, ZT_CUDA_ARRIVED * sizeof *d->arrived, "counters of blocks", err)) &&
        measure_memory(d, err))
        return &d->base;
    cuda_destroy(&d->base);
    return NULL;
}
