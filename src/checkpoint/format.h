/* The file format of a checkpoint:
 *
 *     weights.safetensors      trained tensors, then running statistics, in the order of the model
 *     optimizer.safetensors    NAME.STATE: the optimizer's arrays, state by state, each in the order of the model;
 *                              1-bit LAMB: then NAME.trust (optim/one_bit/trust.h)
 *     ranks.safetensors        1-bit optimizers on several ranks: the states of each rank (rank_states.h)
 *     manifest.json            position of the run, its inputs, a checksum for every block of the other files
 *
 * If every host has storage of its own and none has the whole state (storage.h), each rank has a file instead:
 *
 *     part-R-of-N.safetensors  slices of the tensors of these files (parts.h), and the same manifest.json on every host
 *
 * The bytes are a function of the state of the run alone, independent of ranks, ZeRO stage, pipeline and threads, but
 * for ranks.safetensors. Numbers are little-endian fp32. The reader treats files as hostile: sizes are checked against
 * the file in 64 bits before anything is allocated. */
#ifndef ZT_CHECKPOINT_FORMAT_H
#define ZT_CHECKPOINT_FORMAT_H

#include "base/arena.h"
#include "base/file.h"
#include "base/text.h"
#include "graph/ir/dtype.h"
#include "optim/optim.h"

struct cJSON;

enum {
    ZT_BLOCK_BYTES = 1 << 20,      /* bytes that one checksum covers; the last block of a file is shorter */
    ZT_STORED_TEXT_MAX = 16 << 20, /* largest size of a manifest, and of the header of a tensor file */
    ZT_STORED_FILES = 3,
    ZT_CLIENT_STATE_MAX = 1 << 20, /* largest size of the user's object */
};
extern const char *const zt_stored_names[ZT_STORED_FILES]; /* weights, optimizer, ranks */
#define ZT_MANIFEST "manifest.json"

/* A tensor of a file. */
struct zt_stored_tensor {
    const char *name;
    struct zt_shape shape;
    int64_t at, bytes; /* position and size in the file */
    uint32_t crc;      /* CRC-32C of the contents, if the file has checksums of tensors */
};

/* A safetensors file of consecutive fp32 tensors:
 *
 *     8 bytes       length of the header, little-endian
 *     header        {"w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...} and spaces
 *     data          offsets count from here; a multiple of 64 bytes into the file
 *
 * https://github.com/huggingface/safetensors, README, "Format". */
struct zt_stored_file {
    struct zt_stored_tensor *tensors;
    int count;
    int64_t bytes;     /* size of the file */
    bool has_checksum; /* every tensor has one */
};

/* Computes `at` and `bytes` of the tensors and the file from names and shapes, and writes everything before the data to
 * `head`. */
void zt_stored_layout(struct zt_stored_file *file, struct zt_text *head);
/* The name of an object of texts beside the tensors, which Hugging Face's files have; it is skipped. */
#define ZT_STORED_METADATA "__metadata__"
/* Reads the list of tensors of a mapped file into `arena`. Accepts fp32, at most 8 axes, data without gaps in the order
 * of the header, unique names, as zt_stored_layout() writes them. Errors name the tensor; the caller prepends the
 * file. */
bool zt_stored_read(struct zt_stored_file *file, const struct zt_file_map *map, struct zt_arena *arena,
                    struct zt_err *err);

/* Returns the number of checksum blocks of a file. */
static inline int64_t zt_block_count(int64_t file_bytes) {
    return (file_bytes + ZT_BLOCK_BYTES - 1) / ZT_BLOCK_BYTES;
}

/* Returns the number of checksums of a file: of its blocks, then of its tensors. */
static inline int64_t zt_checksum_count(const struct zt_stored_file *file) {
    return zt_block_count(file->bytes) + file->count;
}

/* A config key that affects the numbers of a step, and its value as JSON. */
struct zt_recorded_key {
    const char *key, *value;
};

/* Checks the checksums of blocks first..last-1 of a file against `crc`. Each damaged block is a problem that names its
 * damaged tensors, or without checksums of tensors all of them. Returns false if there is one. */
bool zt_stored_check(const struct zt_stored_file *file, const struct zt_file_map *map, const uint32_t *crc,
                     int64_t first, int64_t last, struct zt_err *err);

/* Size and checksums of a file. */
struct zt_file_sums {
    int64_t bytes;
    uint32_t *crc;        /* CRC-32C by block */
    uint32_t *tensor_crc; /* by tensor */
    int tensors;          /* number of these; 0: an older checkpoint without them */
};

/* The file of a rank. */
struct zt_part_sums {
    const char *host; /* of the rank that wrote it */
    struct zt_file_sums sums;
};
enum { ZT_PART_NAME = 64 }; /* room for the name of a part */
/* Writes the name of the part of rank `rank` of `count`. */
void zt_part_name(char to[ZT_PART_NAME], int rank, int count);

struct zt_manifest {
    int64_t step;         /* steps done, including skipped ones */
    int64_t epoch, batch; /* of the next step; batch: index in the epoch */
    int64_t updates;      /* optimizer updates: the t of bias correction and of the learning rate */
    int64_t samples;      /* number of training samples */
    uint64_t seed;
    uint32_t model; /* zt_onnx_checksum() */
    const char *optimizer;
    /* State of the dynamic loss scale (optim/loss_scale.h). */
    double scale; /* 0: none */
    int64_t since_overflow, hysteresis;
    bool observes; /* the learning-rate rule follows a value (optim/optim.h) */
    struct zt_lr_state lr_state;
    /* The best evaluation so far. */
    const char *best_metric; /* NULL: none */
    double best_value;
    int64_t best_step;
    const char *client_state; /* JSON object of the user, carried along; NULL: none */
    struct zt_recorded_key *keys;
    int key_count;
    int files; /* that the checkpoint has: 2, or 3 with ranks.safetensors; 0: parts */
    struct zt_file_sums file[ZT_STORED_FILES];
    struct zt_part_sums *parts; /* by rank */
    int part_count;
    const struct zt_stored_file *weights; /* of a checkpoint in parts: the layout of weights.safetensors, which it does
                                             not have; NULL: none, or an older checkpoint */
    uint32_t own_crc;                     /* checksum of the manifest without its last line; set by reading */
};

/* Appends the manifest with its own checksum as text. */
void zt_manifest_write(const struct zt_manifest *manifest, struct zt_text *to);
/* Checks the manifest's own checksum, then every field. Contents are allocated in `arena`. */
bool zt_manifest_read(struct zt_manifest *manifest, const void *data, size_t bytes, struct zt_arena *arena,
                      struct zt_err *err);

/* Reads the manifest in the checkpoint folder `folder`. Errors name the file. */
bool zt_manifest_load(struct zt_manifest *manifest, const char *folder, struct zt_arena *arena, struct zt_err *err);

/* Appends `text` as a JSON string with quotes. */
void zt_stored_quote(struct zt_text *to, const char *text);
/* Makes cJSON allocate with zt_malloc(), so that a lack of memory ends the process and is not reported as a syntax
 * error. Must be called once before JSON is read. */
void zt_stored_begin(void);
/* Appends a shape as a JSON list. */
void zt_stored_add_shape(struct zt_text *to, const struct zt_shape *shape);
/* Reads a JSON list into the shape of a tensor, which is empty, and computes its bytes. Returns what is wrong; NULL:
 * nothing. */
const char *zt_stored_shape(const struct cJSON *list, struct zt_stored_tensor *to);
/* Whether `item` is an integer from 0 to 2^53, the range that JSON numbers hold exactly. NULL is not. */
bool zt_stored_whole(const struct cJSON *item, int64_t *to);

#endif
