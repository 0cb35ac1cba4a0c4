/* Data formats: sources of samples. A format is one file, src/data/NAME.c, and one line of data.c: it opens a source,
 * sets its columns, and copies samples by index. The sampler (data/sampler.h) and the loader (data/loader.h) know no
 * format. Errors name file, column and row. */
#ifndef ZT_DATA_DATA_H
#define ZT_DATA_DATA_H

#include "base/err.h"
#include "config/config.h"
#include "config/table.h"
#include "graph/ir/dtype.h"

#include <stdbool.h>
#include <stdint.h>

struct zt_images;  /* data/images.h */
struct zt_picture; /* data/picture/picture.h */

enum { ZT_COLUMNS = 16 };

/* One named array of a source. The shape is that of one sample, without the first axis, which counts samples. */
struct zt_column {
    const char *name;
    enum zt_dtype dtype;
    struct zt_shape shape;
    size_t sample_bytes;
};

/* The reader of a column: the graph, or the loss. */
enum zt_want_use { ZT_WANT_INPUT, ZT_WANT_TARGET, ZT_WANT_WEIGHT };

/* A column that the graph reads. The source converts to this dtype where the kind of number stays the same: any float
 * to any float, an integer to one of at least its width, bool to integer; with `numbers` each of them to float.
 * Otherwise the error names both types. */
struct zt_want {
    const char *name;      /* graph input or target column */
    enum zt_dtype dtype;   /* ZT_UNDEFINED: that of the source */
    struct zt_shape shape; /* of one sample; a dimension of -1 fits any size, rank -1 any shape */
    bool image;            /* an image input; formats of images feed it whatever its name */
    int64_t below;   /* integers must lie in 0..below-1 unless equal to `except`; 0: unchecked (synthetic: 0 or 1) */
    int64_t except;  /* ignore_index */
    int64_t indexed; /* integers are indices of an axis of so many elements, -indexed..indexed-1; 0: unchecked */
    enum zt_want_use use;
    /* Integer targets: floats of the shape `classes` are accepted as well, unconverted apart from their width: the
     * probabilities of the classes. */
    bool probabilities;
    struct zt_shape classes;
    bool numbers; /* integers and booleans become floats (targets of mse and similar losses) */
    bool ones;    /* axes of one element may be missing or added ([N, 1] where [N] is wanted) */
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
    void *state;              /* of the format */
    struct zt_images *images; /* how pictures become samples; NULL: the format reads them as they are */
    bool is_image[ZT_COLUMNS];
};

/* One sample in one epoch: augmentation draws other numbers in each epoch. */
struct zt_sample {
    int64_t index, epoch;
};

struct zt_format {
    struct zt_key_owner type; /* name, config keys, whether a path is needed, the evaluation file beside it */
    /* Opens `path` (config->data.path or eval_path) and sets samples, columns and state. config->data.params has the
     * format's own keys. */
    bool (*open)(struct zt_source *source, const struct zt_config *config, const char *path,
                 const struct zt_want *wants, int want_count, struct zt_err *err);
    /* Copies sample `index` of column `column` to `to` (column.sample_bytes bytes of column.dtype), normalised. Called
     * by several reader threads at once. Row errors (class out of range) name the row and value. Not called for image
     * columns of a source with `images`. */
    bool (*read)(const struct zt_source *source, int column, int64_t index, void *to, struct zt_err *err);
    /* The picture of sample `index` in an image column, before cropping and normalisation. Called by several reader
     * threads at once; the caller finishes the picture. NULL: the format has no images. */
    bool (*picture)(const struct zt_source *source, int column, int64_t index, struct zt_picture *to,
                    struct zt_err *err);
    /* Puts the file of a sample in front of the errors from `first` on; returns false. NULL: the sample's number. */
    bool (*name_sample)(const struct zt_source *source, int64_t index, int first, struct zt_err *err);
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
/* Copies a sample of a column to `to`, as the format's read(), augmented where the source augments. */
bool zt_source_read(const struct zt_source *source, int column, struct zt_sample sample, void *to, struct zt_err *err);
/* Whether a consumer may keep samples in their stored form. */
bool zt_source_is_stored(const struct zt_source *source);
/* False with an error where a file of the source has changed. */
bool zt_source_intact(const struct zt_source *source, struct zt_err *err);
/* Bytes of all samples in their stored form; 0 where none are stored, -1 where they overflow 64 bits. */
int64_t zt_source_stored_bytes(const struct zt_source *source);

#endif
