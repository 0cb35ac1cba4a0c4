/* Devices: memory, copies, streams and events; no computation.
 *
 * The host device has no dependencies. The CUDA device comes from a module that is opened at run time (device/cuda.c
 * inside ztrain-cuda.so). A device owns the memory blocks of a rank. A device object belongs to one rank and its
 * thread. */
#ifndef ZT_DEVICE_DEVICE_H
#define ZT_DEVICE_DEVICE_H

#include "base/backend.h"
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct zt_captured;
struct zt_device;
struct zt_event;
struct zt_module;

/* A copy of `bytes` bytes. */
struct zt_copy {
    void *to;
    const void *from;
    size_t bytes;
};

/* A cast of `count` elements from fp32 to a half-precision type. If places is not 0, the elements are matrices
 * [channels, places], which are transposed to [places, channels]. */
struct zt_cast {
    void *to;
    const void *from;
    int64_t count;
    uint32_t channels, places;
};

/* Gathers the `rows` samples of the numbers `index` from consecutive samples of `bytes` bytes at `from`. Without a
 * table, bytes are copied. With a table, each byte is decoded to an element of element_bytes (1, 2, 4 or 8): the bytes
 * lie in `planes` equal parts, and byte b of part p is element 256 p + b of the table. Addresses are multiples of 64.
 */
struct zt_gather {
    void *to;
    const void *from, *table;
    const int64_t *index;
    int64_t rows;
    size_t bytes;
    uint32_t planes, element_bytes;
};

struct zt_device_api {
    const char *name;        /* "cpu", "cuda" */
    enum zt_backend backend; /* the kernels that run on the device */
    /* Returns zeroed device memory, aligned to at least 64; `what` names it in errors. */
    void *(*allocate)(struct zt_device *device, size_t bytes, const char *what, struct zt_err *err);
    void (*free)(struct zt_device *device, void *memory, size_t bytes);
    /* Bytes of free memory; NULL if the device does not report it. */
    bool (*room)(struct zt_device *device, size_t *left, struct zt_err *err);
    /* Returns uninitialised host memory, aligned to 64, for asynchronous copies to and from the device. */
    void *(*allocate_host)(struct zt_device *device, size_t bytes, const char *what, struct zt_err *err);
    void (*free_host)(struct zt_device *device, void *memory, size_t bytes);
    /* Copies and fills in the order of the device's stream. `to_device` and `to_host` may return before the copy ends;
     * the host memory must remain valid until then. */
    bool (*to_device)(struct zt_device *device, void *to, const void *from, size_t bytes, struct zt_err *err);
    bool (*to_host)(struct zt_device *device, void *to, const void *from, size_t bytes, struct zt_err *err);
    bool (*copy)(struct zt_device *device, void *to, const void *from, size_t bytes, struct zt_err *err);
    bool (*zero)(struct zt_device *device, void *memory, size_t bytes, struct zt_err *err);
    /* Copies from host memory to the device, beside the stream, after `taken` has passed. Work that is queued later
     * runs after the copy. `sent` passes when the host memory may be overwritten. NULL: the device has one queue. */
    bool (*copy_ahead)(struct zt_device *device, const struct zt_copy *copy, struct zt_event *taken,
                       struct zt_event *sent, struct zt_err *err);
    /* Events: `record` places an event behind all work queued so far, `wait` blocks the host until the event has
     * passed. An event that was never recorded has passed. */
    struct zt_event *(*event_create)(struct zt_device *device, struct zt_err *err);
    bool (*record)(struct zt_device *device, struct zt_event *event, struct zt_err *err);
    bool (*wait)(struct zt_device *device, struct zt_event *event, struct zt_err *err);
    void (*event_destroy)(struct zt_device *device, struct zt_event *event);
    /* Timing events and the seconds between two events that have passed; both NULL if the device has no timer. */
    struct zt_event *(*timer_create)(struct zt_device *device, struct zt_err *err);
    bool (*elapsed)(struct zt_device *device, const struct zt_event *from, const struct zt_event *to, double *seconds,
                    struct zt_err *err);
    /* Capture of queued work as a graph; all four are NULL if the device does not support it. After `capture`, queued
     * work is recorded instead of run, until `captured` returns it as a graph. `captured` returns NULL if some work
     * cannot be captured; then none of it runs and the state of the device is unchanged. *launches is the number of
     * kernels, copies and fills. `replay` queues the graph and can be repeated; `captured_destroy` frees it. During
     * capture only kernels, copies within the device and `zero` may be queued. */
    bool (*capture)(struct zt_device *device, struct zt_err *err);
    struct zt_captured *(*captured)(struct zt_device *device, size_t *launches, struct zt_err *err);
    bool (*replay)(struct zt_device *device, struct zt_captured *captured, struct zt_err *err);
    void (*captured_destroy)(struct zt_device *device, struct zt_captured *captured);
    /* Waits for all queued work. */
    bool (*synchronize)(struct zt_device *device, struct zt_err *err);
    void (*destroy)(struct zt_device *device);
};

struct zt_device { /* base struct, the first member of every device */
    const struct zt_device_api *api;
    const char *product;            /* product name, "NVIDIA H100 80GB HBM3"; NULL: the host */
    int threads;                    /* host: compute threads */
    const struct zt_module *module; /* the module of its kernels (device/module.h); NULL: the program itself */
    bool tf32; /* fp32 matrix products and convolutions may round their inputs to TF32 (ztrain.tf32). It is set before
                  the first kernel is prepared; all other fp32 kernels ignore it */
    size_t allocated, peak; /* bytes of the blocks from the functions below: now; most since zt_device_peak() */
};
/* The functions of the api, whose bytes are counted: host memory on the host device alone. Memory to be freed may be
 * NULL. */
void *zt_device_allocate(struct zt_device *device, size_t bytes, const char *what, struct zt_err *err);
void zt_device_free(struct zt_device *device, void *memory, size_t bytes);
void *zt_device_allocate_host(struct zt_device *device, size_t bytes, const char *what, struct zt_err *err);
void zt_device_free_host(struct zt_device *device, void *memory, size_t bytes);
/* Returns the most bytes that were allocated at a time since the previous call. */
size_t zt_device_peak(struct zt_device *device);
/* Creates the host device with `threads` compute threads. */
struct zt_device *zt_device_host_create(int threads);

#endif
