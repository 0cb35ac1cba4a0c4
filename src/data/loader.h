/* The loader: reader threads that fill micro-batches ahead of the step loop. */
#ifndef ZT_DATA_LOADER_H
#define ZT_DATA_LOADER_H

#include "data/data.h"
#include "data/epochs.h"

enum { ZT_READERS = 8 };

/* A micro-batch: one array for each wanted column, with consecutive samples. */
struct zt_batch {
    int64_t samples; /* rows with weight */
    int64_t rows;    /* all rows: more than samples where ranks must run equally often; the rest have weight zero */
    int64_t step, epoch, batch_in_epoch; /* step from 0 */
    int64_t step_samples;                /* samples of the whole step over all ranks */
    double weight; /* of its loss in the sum over the step, which is divided by step_samples: its samples; in a stream,
                      whose micro-batches count alike, the mean of those of all */
    int micro_batch;          /* index in the step on this rank */
    int64_t first_in_epoch;   /* index in the epoch of row 0 */
    const int64_t *index;     /* sample number of each row */
    void *column[ZT_COLUMNS]; /* in `memory`, one after the other, each at a multiple of 64 bytes */
    char *memory;             /* at least options.batch_bytes */
};

/* The loader reads ahead in I/O threads, each of which reads some rows of a micro-batch: the step loop waits for input
 * only where reading is slower than the step. The micro-batches and errors do not depend on the number of threads. */
struct zt_loader;
/* An allocator for the memory of micro-batches, for a consumer that needs memory of another kind. allocate returns
 * memory aligned to 64, or NULL with an error that names `what`. The loader frees the memory after the readers have
 * ended. */
struct zt_batch_memory {
    void *(*allocate)(void *with, size_t bytes, const char *what, struct zt_err *err);
    void (*free)(void *with, void *memory, size_t bytes);
    void *with;
};
struct zt_loader_options {
    const struct zt_source *source;
    int64_t train_batch, micro_batch;
    int rank, ranks; /* data-parallel rank and size */
    bool shuffle, drop_last;
    uint64_t seed;
    struct zt_epochs stream;   /* as in struct zt_sampling */
    int64_t first_step, steps; /* steps to deliver */
    int depth;                 /* micro-batches read ahead, at least 2 */
    int readers;               /* threads, 1 to ZT_READERS; 0: 1 */
    int held;                  /* micro-batches that the consumer uses at a time; 0: 1 */
    size_t batch_bytes; /* of each micro-batch's memory, at least; the consumer may use the bytes after the columns */
    struct zt_batch_memory memory; /* allocate NULL: the loader's own */
    bool indices;                  /* only sample numbers: columns are NULL, and the consumer has the samples */
};
/* The number of reader threads beside `threads` compute threads: that of the other cores of `cores`, between 1 and
 * ZT_READERS. */
int zt_loader_readers(int cores, int threads);
/* The depth for micro-batches of `micro_batch` rows: 2, and more for small ones, which a reader reads within
 * microseconds. */
int zt_loader_depth(const struct zt_source *source, int64_t micro_batch);
/* Starts the readers. A step is divided as follows: micro-batch m has the samples from m*micro*ranks on (of a stream:
 * zt_epochs_piece()), and rank r the r-th part of ceil(samples/ranks) rows of it. All ranks have the same number of
 * micro-batches. Free with zt_loader_destroy(). */
struct zt_loader *zt_loader_create(const struct zt_loader_options *options, struct zt_err *err);
/* The next micro-batch in order. It is valid until the loader has been asked for options.held more. *batch is NULL at
 * the end. */
bool zt_loader_next(struct zt_loader *loader, const struct zt_batch **batch, struct zt_err *err);
/* The seconds that the consumer has spent in zt_loader_next(). */
double zt_loader_waited(const struct zt_loader *loader);
void zt_loader_destroy(struct zt_loader *loader);

#endif
