/* Files of tensor hashes: hashes-RANK.bin in the folder of a run has the hashes of all node outputs and of the weights
 * they read. `ztrain diff` compares them.
 *
 * Format, all numbers little-endian:
 *
 *     8 bytes       "ZTHASH1\n"
 *     7 x u32       rank, ranks, data-parallel rank, data-parallel ranks, stage, stages, rows of a full micro-batch
 *     u32           tensors
 *     per tensor    4 texts (node, operator, tensor, type: "float[32, 10]"), each u16 length and its bytes, and a byte:
 *                   0 forward, 1 backward
 *     per hash      u32 step (from 1), u32 micro-batch, u32 tensor, u64 FNV-1a of the tensor's bytes; in execution
 *                   order, to the end of the file
 *
 * The hashes of a step are written at once, so that a run that is stopped leaves whole steps. */
#ifndef ZT_RUN_HASHES_HASHES_H
#define ZT_RUN_HASHES_HASHES_H

#include "base/err.h"

#include <stdint.h>

struct zt_hash_place {
    uint32_t rank, ranks, data_rank, data_ranks, stage, stages, rows;
};
struct zt_hash_tensor {
    const char *node, *op, *name, *type;
    uint32_t backward; /* 0 or 1 */
};
struct zt_hash_record {
    uint32_t step, micro_batch, tensor;
    uint64_t hash;
};

/* ---- writing ---- */

struct zt_hash_writer;

/* Creates `folder`/hashes-RANK.bin with the list of tensors. Names are truncated to 65,535 bytes. Free with
 * zt_hash_writer_finish(). */
struct zt_hash_writer *zt_hash_writer_create(const char *folder, const struct zt_hash_place *place,
                                             const struct zt_hash_tensor *tensors, int count, struct zt_err *err);
/* Buffers one hash until the step ends. */
void zt_hash_writer_add(struct zt_hash_writer *w, const struct zt_hash_record *record);
/* Writes the hashes of the step. */
bool zt_hash_writer_step(struct zt_hash_writer *w, struct zt_err *err);
/* Closes the file and frees `w`. Accepts NULL. */
void zt_hash_writer_finish(struct zt_hash_writer *w);

/* ---- reading ---- */

struct zt_hash_file {
    struct zt_hash_place place;
    struct zt_hash_tensor *tensors; /* texts are escaped as base/show.h describes */
    uint32_t tensor_count;
    struct zt_hash_record *records; /* in ascending order of steps */
    int64_t record_count;
    struct zt_arena *arena;
};

/* Reads and checks a file. For arbitrary bytes the result is valid as described above, or an error that names the file.
 * Free with zt_hash_file_finish(), also after an error. */
bool zt_hash_file_read(struct zt_hash_file *f, const char *path, struct zt_err *err);
void zt_hash_file_finish(struct zt_hash_file *f);

/* Returns FOLDER/hashes-RANK.bin. The caller frees with free(). */
char *zt_hash_path(const char *folder, int rank);
/* Removes the hash file of rank `rank` that an earlier run left in `folder`; rank 0 also removes those of ranks >=
 * `ranks`. */
void zt_hash_remove(const char *folder, int rank, int ranks);

#endif
