/* What lies in a checkpoint's folder, as values and as bytes:
 *
 *     weights.safetensors      trained tensors, then running statistics, whole, in the order of the model
 *     optimizer.safetensors    NAME.STATE: the optimizer's arrays, state by state, each in the order of the model
 *     manifest.json            where the run stands, what it was made from, a checksum for every block of the others
 *
 * All of it is a function of the state of the run alone, never of ranks, ZeRO stage, pipeline or threads. Numbers are
 * little-endian fp32. Files are hostile when read: sizes are checked against the file in 64 bits before anything is
 * allocated. */
#ifndef ZT_CHECKPOINT_FORMAT_H
#define ZT_CHECKPOINT_FORMAT_H

#include "base/arena.h"
#include "base/file.h"
#include "base/text.h"
#include "graph/ir/dtype.h"

struct cJSON;

enum {
    ZT_BLOCK_BYTES = 1 << 20,      /* of a file that one checksum covers; the last block is what remains */
    ZT_STORED_TEXT_MAX = 16 << 20, /* bytes of a manifest, and of the header of a tensor file */
    ZT_STORED_FILES = 2,
};
extern const char *const zt_stored_names[ZT_STORED_FILES]; /* weights, optimizer */
#define ZT_MANIFEST "manifest.json"

/* A tensor of a file. */
struct zt_stored_tensor {
    const char *name;
    struct zt_shape shape;
    int64_t at, bytes; /* in the file */
};

/* A safetensors file of fp32 tensors that lie one after the other:
 *
 *     8 bytes       length of the header, little-endian
 *     header        {"w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...} and spaces
 *     data          offsets count from here; a multiple of 64 bytes into the file
 *
 * https://github.com/huggingface/safetensors, README, "Format". */
struct zt_stored_file {
    struct zt_stored_tensor *tensors;
    int count;
    int64_t bytes; /* of the whole file */
};

/* Fills `at` and `bytes` of the tensors and the file from names and shapes; writes all that stands in front of the data
 * to `head`. */
void zt_stored_layout(struct zt_stored_file *file, struct zt_text *head);
/* The tensors of a mapped file, into `arena`. Only what zt_stored_layout() writes is taken: fp32, at most 8 axes, data
 * without holes in the order of the header, no name twice. Errors name the tensor; the caller puts the file in front.
 */
bool zt_stored_read(struct zt_stored_file *file, const struct zt_file_map *map, struct zt_arena *arena,
                    struct zt_err *err);

static inline int64_t zt_block_count(int64_t file_bytes) {
    return (file_bytes + ZT_BLOCK_BYTES - 1) / ZT_BLOCK_BYTES;
}

/* A key of the configuration that a step's numbers depend on, and its value as JSON. */
struct zt_recorded_key {
    const char *key, *value;
};

/* The blocks of a file, from `first` on, whose checksum is not the manifest's, each a problem that names the tensors in
 * it. False where there is one. */
bool zt_stored_check(const struct zt_stored_file *file, const struct zt_file_map *map, const uint32_t *crc,
                     int64_t first, int64_t last, struct zt_err *err);

struct zt_manifest {
    int64_t step;         /* steps done, skipped ones too */
    int64_t epoch, batch; /* of the step that comes next; batch: its index in the epoch */
    int64_t updates;      /* optimizer steps applied: the t of bias correction and of the learning rate */
    int64_t samples;      /* of the training data */
    uint64_t seed;
    uint32_t model; /* zt_onnx_checksum() */
    const char *optimizer;
    /* The dynamic loss scale (optim/scale.h). */
    double scale; /* 0: there is none */
    int64_t since_overflow, hysteresis;
    /* The best evaluation so far. */
    const char *best_metric; /* NULL: none yet */
    double best_value;
    int64_t best_step;
    struct zt_recorded_key *keys;
    int key_count;
    int64_t file_bytes[ZT_STORED_FILES];
    uint32_t *crc[ZT_STORED_FILES]; /* CRC-32C of each block */
    uint32_t own_crc;               /* of the manifest's text up to its last line; set by reading */
};

void zt_manifest_write(const struct zt_manifest *manifest, struct zt_text *to);
/* Checks the manifest's own checksum first, then every field. Contents go to `arena`. */
bool zt_manifest_read(struct zt_manifest *manifest, const void *data, size_t bytes, struct zt_arena *arena,
                      struct zt_err *err);

/* The same from the file in a checkpoint's folder, which errors name. */
bool zt_manifest_load(struct zt_manifest *manifest, const char *folder, struct zt_arena *arena, struct zt_err *err);

/* "text" as a JSON string, quotes included. */
void zt_stored_quote(struct zt_text *to, const char *text);
/* Before any of this reads JSON, once a process: memory that cannot be had ends the process as everywhere (zt_malloc),
 * and is not taken for a file that does not parse. */
void zt_stored_begin(void);
/* Whether `item` is a whole number from 0 to 2^53, which is what a JSON number holds exactly. NULL is none. */
bool zt_stored_whole(const struct cJSON *item, int64_t *to);

#endif
