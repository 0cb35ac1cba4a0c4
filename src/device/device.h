/* Devices: memory, copies, streams. No maths.
 *
 * The host device needs nothing; CUDA is a module opened at run time (device/cuda.c inside ztrain-cuda.so). A device
 * owns the five blocks of a rank. One device object belongs to one rank thread. */
#ifndef ZT_DEVICE_DEVICE_H
#define ZT_DEVICE_DEVICE_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct zt_captured;
struct zt_device;
struct zt_event;
struct zt_module;

/* A copy within the memory of a device. */
struct zt_copy {
    void *to;
    const void *from;
    size_t bytes;
};

/* `count` elements that are rounded from fp32 to a half type. Where places is not 0 they are matrices [channels,
 * places], each written as [places, channels]. */
struct zt_cast {
    void *to;
    const void *from;
    int64_t count;
    uint32_t channels, places;
};

/* `rows` samples, those of `index`, from all that lie at `from` one behind the other, `bytes` each. Without a table
 * they are copied. Else each byte stands for an element of element_bytes, 1, 2, 4 or 8: bytes lie in `planes` equal
 * parts, and byte b of part p means element 256 p + b of the table. Addresses are multiples of 64. */
struct zt_gather {
    void *to;
    const void *from, *table;
    const int64_t *index;
    int64_t rows;
    size_t bytes;
    uint32_t planes, element_bytes;
};

struct zt_device_api {
    const char *name; /* "cpu", "cuda" */
    int backend;      /* enum zt_backend of graph/ir/op.h: the column of kernels that runs on it */
    /* Zeroed memory of the device, aligned to 64 at least; `what` names it in the error. */
    void *(*allocate)(struct zt_device *device, size_t bytes, const char *what, struct zt_err *err);
    void (*free)(struct zt_device *device, void *memory, size_t bytes);
    /* Bytes that are free by now; NULL where the device does not tell. */
    bool (*room)(struct zt_device *device, size_t *left, struct zt_err *err);
    /* Memory of the host, undefined, aligned to 64, that copies to and from the device need not wait for. */
    void *(*allocate_host)(struct zt_device *device, size_t bytes, const char *what, struct zt_err *err);
    void (*free_host)(struct zt_device *device, void *memory, size_t bytes);
    /* Ordered on the device's stream; `to_device`/`to_host` may return before the copy is done, the host memory must
     * stay. */
    bool (*to_device)(struct zt_device *device, void *to, const void *from, size_t bytes, struct zt_err *err);
    bool (*to_host)(struct zt_device *device, void *to, const void *from, size_t bytes, struct zt_err *err);
    bool (*copy)(struct zt_device *device, void *to, const void *from, size_t bytes, struct zt_err *err);
    bool (*zero)(struct zt_device *device, void *memory, size_t bytes, struct zt_err *err);
    /* From host memory as soon as the device has come by `taken`, while what else is queued runs on; what is queued
     * from here on runs after it. Passes `sent` when the host memory may be written again. NULL: the device has one
     * queue. */
    bool (*bring)(struct zt_device *device, void *to, const void *from, size_t bytes, struct zt_event *taken,
                  struct zt_event *sent, struct zt_err *err);
    /* A mark in the queue: record sets it behind everything queued so far, wait returns once the device has come by, at
     * once where it was never set. */
    struct zt_event *(*event_create)(struct zt_device *device, struct zt_err *err);
    bool (*record)(struct zt_device *device, struct zt_event *event, struct zt_err *err);
    bool (*wait)(struct zt_device *device, struct zt_event *event, struct zt_err *err);
    void (*event_destroy)(struct zt_device *device, struct zt_event *event);
    /* NULL, both, where the device tells no time: an event that elapsed can read, and the seconds between two that the
     * device has come by. */
    struct zt_event *(*timer_create)(struct zt_device *device, struct zt_err *err);
    bool (*elapsed)(struct zt_device *device, const struct zt_event *from, const struct zt_event *to, double *seconds,
                    struct zt_err *err);
    /* Recording the queue; NULL, all four, where the device cannot. From capture on nothing that is queued runs, until
     * captured gives it as a whole, or NULL where it found something that cannot be recorded: then nothing of it runs,
     * and the device is as before. *launches: the kernels, copies and fills in it. replay queues it, as often as
     * wanted; destroy with captured_destroy. Between capture and captured only kernels, copies within the device and
     * zero may be queued. */
    bool (*capture)(struct zt_device *device, struct zt_err *err);
    struct zt_captured *(*captured)(struct zt_device *device, size_t *launches, struct zt_err *err);
    bool (*replay)(struct zt_device *device, struct zt_captured *captured, struct zt_err *err);
    void (*captured_destroy)(struct zt_device *device, struct zt_captured *captured);
    /* Waits for everything queued. */
    bool (*synchronize)(struct zt_device *device, struct zt_err *err);
    void (*destroy)(struct zt_device *device);
};

struct zt_device { /* base of every device; rows put it first in their own struct */
    const struct zt_device_api *api;
    const char *product;            /* as its maker calls it, "NVIDIA H100 80GB HBM3"; NULL: the host */
    int threads;                    /* host: compute threads */
    const struct zt_module *module; /* where its kernels are (device/module.h); NULL: in the program */
    bool tf32; /* fp32 matrix products and convolutions may round their inputs to TF32 (ztrain.tf32). Set before the
                  first kernel is prepared; other kernels compute fp32 in fp32 whatever it says */
};

struct zt_device *zt_device_host_create(int threads);

#endif
