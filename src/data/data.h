/* Data: samples in, batches out.
 *
 * A data format is one file and one row: it opens a source, says which columns it has, and copies samples by index. The
 * sampler and the reader threads know no format. Errors name file, column and row. */
#ifndef ZT_DATA_DATA_H
#define ZT_DATA_DATA_H

#include "base/err.h"
#include "config/config.h"
#include "config/table.h"
#include "graph/ir/dtype.h"

#include <stdbool.h>
#include <stdint.h>

enum { ZT_COLUMNS = 16, ZT_READERS = 8 };

/* One named array of a source. Shape is that of one sample (the first axis counted samples). */
struct zt_column {
    const char *name;
    enum zt_dtype dtype;
    struct zt_shape shape;
    size_t sample_bytes;
};

/* What the graph wants of a column. The source converts to this dtype where that is exact in kind (any float to any
 * float, any integer to any wider or equal integer, bool to integer; with `numbers` any of them to float); else the
 * error names both types. */
struct zt_want {
    const char *name;      /* graph input or target column */
    enum zt_dtype dtype;   /* ZT_UNDEFINED: as the source has it */
    struct zt_shape shape; /* of one sample; -1 dims fit anything; rank -1: any shape */
    bool image;            /* cifar10: the one image input, whatever its name */
    int64_t below;  /* integers must lie in 0..below-1 unless equal to `except`; 0: unchecked (synthetic: 0 or 1) */
    int64_t except; /* ignore_index */
    bool numbers;   /* integers and booleans become floats (targets of mse and its like) */
    bool ones;      /* axes of one element may be missing or too many ([N, 1] where [N] is wanted) */
};

/* How a format keeps the samples of a column. Without a table a sample is `bytes` bytes as read() gives them. Else each
 * of its bytes stands for an element of the column's type: they lie in `planes` equal parts, and byte b of part p means
 * element ZT_LEVELS * p + b of the table. */
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
    void *state; /* the format's own */
};

struct zt_format {
    struct zt_key_owner type; /* name, config keys, whether a path is needed, the evaluation file beside it */
    /* Opens `path` (config->data.path or eval_path); config gives normalize, samples, seed. Fills samples, columns and
     * state. */
    bool (*open)(struct zt_source *source, const struct zt_config *config, const char *path,
                 const struct zt_want *wants, int want_count, struct zt_err *err);
    /* Copies sample `index` of column `column` to `to` (column.sample_bytes bytes of column.dtype), normalised. Called
     * by several reader threads at once. Row errors (class out of range) name the row and value. */
    bool (*read)(const struct zt_source *source, int column, int64_t index, void *to, struct zt_err *err);
    /* Called by a reader thread after the reads of each micro-batch, which count only then: false where a file that
     * they come from has changed (base/mapped.h). NULL: all was read when it was opened. */
    bool (*intact)(const struct zt_source *source, struct zt_err *err);
    /* For a consumer who makes samples of what is kept; NULL, both, where nothing is and samples are made when they are
     * read. keep copies `count` samples from `first` on as they are kept; they count when the files are intact
     * afterwards. */
    struct zt_stored (*stored)(const struct zt_source *source, int column);
    void (*keep)(const struct zt_source *source, int column, int64_t first, int64_t count, void *to);
    void (*close)(struct zt_source *source);
};

/* The types of all formats for the catalog of the configuration; ends with NULL. */
extern const struct zt_key_owner *const zt_format_types[];

/* Opens with the format named by the config. eval: the evaluation data; a run without any gives NULL and no error. */
struct zt_source *zt_source_open(const struct zt_config *config, bool eval, const struct zt_want *wants, int want_count,
                                 struct zt_err *err);
void zt_source_close(struct zt_source *source); /* NULL is harmless */
/* False where a file that its samples come from has changed. */
bool zt_source_intact(const struct zt_source *source, struct zt_err *err);
/* Bytes of all samples as they are kept; 0 where the format keeps none, -1 where 64 bits do not hold them. */
int64_t zt_source_stored_bytes(const struct zt_source *source);

/* Sampler: which samples make step s. An epoch is one permutation of (seed, epoch) (identity without shuffle); global
 * batch b of an epoch holds permuted samples [b*train_batch, (b+1)*train_batch); the last is smaller unless drop_last.
 * With a number of steps the epochs go on until it is reached. */
struct zt_sampler {
    int64_t samples, train_batch, batches_per_epoch;
    bool shuffle, drop_last;
    uint64_t seed;
    int64_t epoch;  /* whose permutation `order` holds; -1: none yet */
    int64_t *order; /* samples entries; NULL without shuffle */
};
/* Fails when there is no full step in the data (drop_last) or no sample at all. */
bool zt_sampler_init(struct zt_sampler *s, int64_t samples, int64_t train_batch, bool shuffle, bool drop_last,
                     uint64_t seed, struct zt_err *err);
void zt_sampler_finish(struct zt_sampler *s);
/* Indices of step `step` (from 0) written to `indices` (train_batch entries); returns how many, and the epoch and the
 * index of the step in it. */
int64_t zt_sampler_step(struct zt_sampler *s, int64_t step, int64_t *indices, int64_t *epoch, int64_t *batch);

/* A micro-batch as the executor takes it: one array per want, samples consecutive. */
struct zt_batch {
    int64_t samples; /* rows that count */
    int64_t rows;    /* rows present: samples, or more where ranks must run equally often (the rest weigh zero) */
    int64_t step, epoch, batch_in_epoch; /* step from 0 */
    int64_t step_samples;                /* samples of the whole step over all ranks */
    int micro_batch;                     /* index in the step on this rank */
    int64_t first_in_epoch;              /* index in the epoch of row 0 */
    const int64_t *index;                /* of the sample of each row */
    void *column[ZT_COLUMNS];            /* in `memory`, one behind the other, each at a multiple of 64 bytes */
    char *memory;                        /* of options.batch_bytes at least */
};

/* Reads ahead in I/O threads, each of which takes some rows of a micro-batch: the step loop never waits for input
 * unless reading is slower than the step. What is delivered, errors too, does not depend on how many they are. */
struct zt_loader;
/* Where micro-batches are put, for a consumer who wants them in memory of its own kind: aligned to 64, NULL with an
 * error that has `what` in it. It is given back when the readers have ended. */
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
    size_t batch_bytes;        /* of each micro-batch's memory, at least: what the columns leave is the consumer's */
    struct zt_batch_memory memory; /* allocate NULL: the loader's own */
    bool indices;                  /* nothing is read, columns are NULL: the consumer has the samples */
};
/* How many there are beside `threads` compute threads on `cores` cores: as many as there are cores beyond these, at
 * least 1, at most ZT_READERS. */
int zt_loader_readers(int cores, int threads);
/* The depth for micro-batches of `micro_batch` rows: 2, more where they are so small that reading is a matter of
 * microseconds: the reader then reads many at a time. */
int zt_loader_depth(const struct zt_source *source, int64_t micro_batch);
/* How a step of `t` samples is cut: micro-batch m takes samples [m*micro*ranks, ...) of the step, rank r the r-th piece
 * of ceil(piece/ranks) rows; the number of micro-batches is that needed, equal on all ranks. */
struct zt_loader *zt_loader_create(const struct zt_loader_options *options, struct zt_err *err);
/* The next micro-batch, in order; valid until the call options.held behind this one, the next where that is 1. *batch
 * is NULL at the end. */
bool zt_loader_next(struct zt_loader *loader, const struct zt_batch **batch, struct zt_err *err);
void zt_loader_destroy(struct zt_loader *loader);

#endif
