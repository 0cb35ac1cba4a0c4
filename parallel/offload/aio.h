/* Asynchronous transfers between host memory and files.
 *
 * A pool of worker threads takes transfers in the order in which they were started. Each transfer is divided into one
 * span of whole blocks for each worker, which moves it block by block. How a worker moves a span is the row of an
 * engine (aio_engine.h). */
#ifndef ZT_PARALLEL_OFFLOAD_AIO_H
#define ZT_PARALLEL_OFFLOAD_AIO_H

#include "parallel/offload/aio_engine.h"

/* A transfer between zt_aio_start() and zt_aio_wait(), in the caller's memory. */
struct zt_aio_transfer {
    const char *path; /* of the file, for errors */
    int file;
    bool writes;
    char *at;
    int64_t offset, bytes;
    /* Set by the pool: */
    int pending; /* spans that are not moved yet; 0: no transfer is under way */
    struct zt_err err;
};

struct zt_aio;
/* Starts the workers. `engine` NULL: io_uring where the kernel allows it, otherwise threads. */
struct zt_aio *zt_aio_create(const struct zt_aio_options *options, const struct zt_aio_engine *engine,
                             struct zt_err *err);
/* Waits for all transfers that were started. Accepts NULL. */
void zt_aio_destroy(struct zt_aio *aio);
/* Returns the engine in use, "threads (io_uring: Operation not permitted)" with the reason if it is a fallback. */
const char *zt_aio_name(const struct zt_aio *aio);

/* Starts a transfer. The memory and the transfer belong to the pool until zt_aio_wait() has returned. */
void zt_aio_start(struct zt_aio *aio, struct zt_aio_transfer *transfer);
/* Waits for a transfer; returns at once if none is under way. An error (ZT_EXIT_DATA) is reported by every wait until
 * the transfer is started again. */
bool zt_aio_wait(struct zt_aio *aio, struct zt_aio_transfer *transfer, struct zt_err *err);

#endif
