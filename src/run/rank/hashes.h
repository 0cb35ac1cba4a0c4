/* What every node gave and which weights it read, as hashes: hashes-RANK.bin in a run's folder, which `ztrain diff`
 * compares.
 *
 * The file, numbers little endian:
 *
 *     8 bytes       "ZTHASH1\n"
 *     7 x u32       rank, ranks, data-parallel rank, data-parallel ranks, stage, stages, rows of a full micro-batch
 *     u32           tensors
 *     per tensor    4 texts (node, operator, tensor, type: "float[32, 10]"), each u16 length and its bytes, and a byte:
 *                   0 forward, 1 backward
 *     per hash      u32 step (from 1), u32 micro-batch, u32 tensor, u64 FNV-1a of the tensor's bytes; in the order in
 *                   which the rank ran, to the end of the file
 *
 * A step is written at once, so that a run that is stopped leaves whole steps. */
#ifndef ZT_RUN_RANK_HASHES_H
#define ZT_RUN_RANK_HASHES_H

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

/* Makes `folder`/hashes-RANK.bin with the tensors that will occur. Names are cut at 65,535 bytes. Finish with
 * zt_hash_writer_finish(). */
struct zt_hash_writer *zt_hash_writer_create(const char *folder, const struct zt_hash_place *place,
                                             const struct zt_hash_tensor *tensors, int count, struct zt_err *err);
/* Keeps one hash until the step ends. */
void zt_hash_writer_add(struct zt_hash_writer *w, const struct zt_hash_record *record);
/* Writes what the step kept. */
bool zt_hash_writer_step(struct zt_hash_writer *w, struct zt_err *err);
/* Closes and frees; NULL is harmless. */
void zt_hash_writer_finish(struct zt_hash_writer *w);

/* ---- reading ---- */

struct zt_hash_file {
    struct zt_hash_place place;
    struct zt_hash_tensor *tensors; /* texts are escaped as base/show.h says */
    uint32_t tensor_count;
    struct zt_hash_record *records; /* steps never fall */
    int64_t record_count;
    struct zt_arena *arena;
};

/* Whatever the bytes are, the result is as promised above or an error that names the file. Finish it also then. */
bool zt_hash_file_read(struct zt_hash_file *f, const char *path, struct zt_err *err);
void zt_hash_file_finish(struct zt_hash_file *f);

/* FOLDER/hashes-RANK.bin. Free with free(). */
char *zt_hash_path(const char *folder, int rank);
/* Removes the hashes that an earlier run left in `folder`: those of rank `rank`, and of every rank behind the last of
 * `ranks` where `rank` is 0. */
void zt_hash_remove(const char *folder, int rank, int ranks);

#endif
