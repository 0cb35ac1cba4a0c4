/* Training data: formats read samples from files, a sampler chooses the samples of a step, and the loader's threads put
 * them into micro-batches.
 *
 * A data format is one file, src/data/NAME.c, and one line of data.c: it opens a source, fills in the columns, and
 * copies samples by index. The sampler and the loader know no format. Errors name file, column and row. */
#ifndef ZT_DATA_DATA_H
#define ZT_DATA_DATA_H

#include "base/err.h"
#include "config/config.h"
#include "config/table.h"
#include "graph/ir/dtype.h"

#include <stdbool.h>
#include <stdint.h>

enum { ZT_COLUMNS = 16, ZT_READERS = 8 };

/* One named array of a source. The shape is that of one sample, without the first axis, which counts samples. */
struct zt_column {
    const char *name;
    enum zt_dtype dtype;
    struct zt_shape shape;
    size_t sample_bytes;
};

/* A column that the graph reads. The source converts to this dtype where the kind of number stays the same: any float
 * to any float, an integer to one of at least its width, bool to integer; with `numbers` each of them to float.
 * Otherwise the error names both types. */
struct zt_want {
    const char *name;      /* graph input or target column */
    enum zt_dtype dtype;   /* ZT_UNDEFINED: that of the source */
    struct zt_shape shape; /* of one sample; a dimension of -1 fits any size, rank -1 any shape */
    bool image;            /* cifar10: the only image input, whatever its name */
    int64_t below;  /* integers must lie in 0..below-1 unless equal to `except`; 0: unchecked (synthetic: 0 or 1) */
    int64_t except; /* ignore_index */
    bool numbers;   /* integers and booleans become floats (targets of mse and similar losses) */
    bool ones;      /* axes of one element may be missing or added ([N, 1] where [N] is wanted) */
};

/* The stored form of a column's samples. Without a table a sample is `bytes` bytes, those that read() gives. With a
 * table each byte is the index of an element of the column's type: the sample has `planes` equal parts, and byte b of
 * part p means element ZT_LEVELS * p + b of the table. */
enum { ZT_LEVELS = 256 };
struct zt_stored {
    size_t bytes;
    const void *table; /* the source's own */
    int planes;        /* 0 without a table */
};

struct zt_source {
    const struct zt_format *format;
    int64_t samples;
    int column_count; /* in the order of the wants */
    struct zt_column column[ZT_COLUMNS];
    void *state; /* of the format */
};

struct zt_format {
    struct zt_key_owner type; /* name, config keys, whether a path is needed, the evaluation file beside it */
    /* Opens `path` (config->data.path or eval_path) and sets samples, columns and state. config->data.params has the
     * format's own keys. */
    bool (*open)(struct zt_source *source, const struct zt_config *config, const char *path,
                 const struct zt_want *wants, int want_count, struct zt_err *err);
    /* Copies sample `index` of column `column` to `to` (column.sample_bytes bytes of column.dtype), normalised. Called
     * by several reader threads at once. Row errors (class out of range) name the row and value. */
    bool (*read)(const struct zt_source *source, int column, int64_t index, void *to, struct zt_err *err);
    /* Whether the files are unchanged since they were opened (base/mapped.h). A reader thread calls it after the reads
     * of each micro-batch, which are valid only then. NULL: open() has read everything. */
    bool (*intact)(const struct zt_source *source, struct zt_err *err);
    /* For a consumer that decodes stored samples itself; both NULL where the samples are computed when they are read.
     * keep copies `count` samples in their stored form, from `first` on; they are valid where the files are intact
     * afterwards. */
    struct zt_stored (*stored)(const struct zt_source *source, int column);
    void (*keep)(const struct zt_source *source, int column, int64_t first, int64_t count, void *to);
    void (*close)(struct zt_source *source);
};

/* The types of all formats for the catalog of the configuration; ends with NULL. */
extern const struct zt_key_owner *const zt_format_types[];

/* Opens the data with the format that the config names. eval: the evaluation data; a run without any gives NULL and no
 * error. Close with zt_source_close(). */
struct zt_source *zt_source_open(const struct zt_config *config, bool eval, const struct zt_want *wants, int want_count,
                                 struct zt_err *err);
void zt_source_close(struct zt_source *source); /* NULL is harmless */
/* False with an error where a file of the source has changed. */
bool zt_source_intact(const struct zt_source *source, struct zt_err *err);
/* Bytes of all samples in their stored form; 0 where the format stores none, -1 where they overflow 64 bits. */
int64_t zt_source_stored_bytes(const struct zt_source *source);

/* The sampler chooses the samples of each step. An epoch is a permutation by (seed, epoch), the identity without
 * shuffle. Batch b of an epoch has the permuted samples [b*train_batch, (b+1)*train_batch); the last batch is smaller,
 * or left out with drop_last. Epochs go on until the number of steps is reached. */
struct zt_sampler {
    int64_t samples, train_batch, batches_per_epoch;
    bool shuffle, drop_last;
    uint64_t seed;
    int64_t epoch;  /* of the permutation in `order`; -1: none yet */
    int64_t *order; /* samples entries; NULL without shuffle */
};
struct zt_sampling {
    int64_t samples, train_batch;
    bool shuffle, drop_last;
    uint64_t seed;
};
/* The sampling of a run on the training data `source`. */
struct zt_sampling zt_sampling_of(const struct zt_config *config, const struct zt_source *source);
/* Fails where the data have no sample, or with drop_last no full step. Finish it with zt_sampler_finish(). */
bool zt_sampler_init(struct zt_sampler *s, const struct zt_sampling *how, struct zt_err *err);
void zt_sampler_finish(struct zt_sampler *s);
/* Writes the sample numbers of step `step`, from 0 on, to `indices` (train_batch entries) and returns their number.
 * Sets the epoch, and the index of the step in the epoch. */
int64_t zt_sampler_step(struct zt_sampler *s, int64_t step, int64_t *indices, int64_t *epoch, int64_t *batch);

/* A micro-batch: one array for each wanted column, with consecutive samples. */
struct zt_batch {
    int64_t samples; /* rows with weight */
    int64_t rows;    /* all rows: more than samples where ranks must run equally often; the rest have weight zero */
    int64_t step, epoch, batch_in_epoch; /* step from 0 */
    int64_t step_samples;                /* samples of the whole step over all ranks */
    int micro_batch;                     /* index in the step on this rank */
    int64_t first_in_epoch;              /* index in the epoch of row 0 */
    const int64_t *index;                /* sample number of each row */
    void *column[ZT_COLUMNS];            /* in `memory`, one after the other, each at a multiple of 64 bytes */
    char *memory;                        /* at least options.batch_bytes */
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
/* Starts the readers. A step is divided as follows: micro-batch m has the samples from m*micro*ranks on, and rank r the
 * r-th part of ceil(samples/ranks) rows of it. All ranks have the same number of micro-batches. Free with
 * zt_loader_destroy(). */
struct zt_loader *zt_loader_create(const struct zt_loader_options *options, struct zt_err *err);
/* The next micro-batch in order. It is valid until the loader has been asked for options.held more. *batch is NULL at
 * the end. */
bool zt_loader_next(struct zt_loader *loader, const struct zt_batch **batch, struct zt_err *err);
void zt_loader_destroy(struct zt_loader *loader);

#endif
