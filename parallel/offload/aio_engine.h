/* Transfers between memory and a file by a worker of a pool (aio.h): io_uring, with several requests in flight, or
 * pread and pwrite, which need nothing of the kernel. Both move the same bytes. */
#ifndef ZT_PARALLEL_OFFLOAD_AIO_ENGINE_H
#define ZT_PARALLEL_OFFLOAD_AIO_ENGINE_H

#include "base/err.h"

#include <stdint.h>

/* The options have the names and meanings of DeepSpeed's section "aio". */
struct zt_aio_options {
    int64_t block_size;  /* bytes of a request, rounded up to a multiple of ZT_AIO_ALIGN; at most 1 GiB */
    int queue_depth;     /* requests in flight of each worker */
    int threads;         /* intra_op_parallelism: workers of a transfer */
    bool single_submit;  /* each request is submitted by itself; false: all that fit into the queue together */
    bool overlap_events; /* a completed request is replaced at once; false: the queue is emptied first */
};

/* Address, file offset and size of a transfer that bypasses the page cache (O_DIRECT) are multiples of this. */
enum { ZT_AIO_ALIGN = 4096 };

/* A part of a transfer, for one worker. */
struct zt_aio_span {
    int file;
    bool writes;
    char *at; /* in memory */
    int64_t offset, bytes;
};

struct zt_aio_engine {
    const char *name; /* "io_uring", "threads" */
    int (*workers)(const struct zt_aio_options *options);
    /* Opens the state of one worker. NULL with an error if the system does not support the engine. */
    void *(*open)(const struct zt_aio_options *options, struct zt_err *err);
    /* Moves a whole span. Errors do not name the file. If the engine itself fails, the memory of the span may be in use
     * until `close`. */
    bool (*run)(void *state, const struct zt_aio_span *span, struct zt_err *err);
    void (*close)(void *state);
};
extern const struct zt_aio_engine zt_aio_threads;
extern const struct zt_aio_engine *const zt_aio_uring; /* NULL: built without liburing */

/* Report why byte `done` of a span is not moved: an errno, or the end of the file. Both return false. */
bool zt_aio_failed(const struct zt_aio_span *span, int64_t done, int error, struct zt_err *err);
bool zt_aio_ended(const struct zt_aio_span *span, int64_t done, struct zt_err *err);

#endif
