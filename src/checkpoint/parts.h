/* The part of a rank of a checkpoint in parts: a safetensors file of slices
 *
 *     weights/NAME[FIRST:END]      elements FIRST..END-1 of the tensor NAME of weights.safetensors; likewise
 *     optimizer/..., ranks/...     of the other files
 *     weights-copy/..., ...        the same, which a rank of another host has written as well
 *
 * The slices without copies of all parts are the whole state, once. With its copies, a host has what its ranks need to
 * resume. Parts have different names, so the folders of all hosts, copied together, are a checkpoint for any layout. */
#ifndef ZT_CHECKPOINT_PARTS_H
#define ZT_CHECKPOINT_PARTS_H

#include "base/map.h"
#include "checkpoint/sources.h"
#include "checkpoint/state.h"

struct zt_part_slice {
    int file, tensor; /* in zt_checkpoints.files */
    int64_t first, end;
    bool copy;
    const float *held; /* the contents, of parameters that the rank does not update; NULL: others */
};

/* The slices that a rank writes, in ascending order. */
struct zt_part {
    struct zt_part_slice *slices;
    int count;
};

/* Lists the slices of this rank, and the tensors of its file. c->files are those of the checkpoint that is saved. */
void zt_part_make(const struct zt_checkpoints *c, struct zt_arena *arena, struct zt_part *part,
                  struct zt_stored_file *file);
/* Returns the slice that has the element; -1: the rank does not write it. */
int zt_part_find(const struct zt_part *part, int file, int tensor, int64_t element);

/* Returns the name of a slice of the tensor named `tensor`. */
const char *zt_part_slice_name(struct zt_arena *arena, const struct zt_part_slice *slice, const char *tensor);
/* Reads the name of a slice. Returns false if it is none; `name` is allocated in `arena`. */
bool zt_part_parse(const char *text, struct zt_arena *arena, struct zt_part_slice *slice, const char **name);

/* Where the slices of the files lie in the parts that are mapped. */
struct zt_part_contents {
    const struct zt_stored_file *files[ZT_STORED_FILES]; /* layouts of the whole files; NULL: its slices are skipped */
    const char *owner;                                   /* of the layouts, for errors: "this run" */
    struct zt_map names[ZT_STORED_FILES];                /* of the tensors */
    struct zt_sources *sources;
    struct zt_arena *arena;
};

/* Indexes the tensors of `files`, which the caller has set. */
void zt_part_contents_begin(struct zt_part_contents *c);
/* Adds the slice that a tensor of the mapped part is; *file: its file. An error names the tensor. */
bool zt_part_contents_add(struct zt_part_contents *c, const struct zt_stored_tensor *tensor,
                          const struct zt_file_map *map, int *file, struct zt_err *err);
void zt_part_contents_finish(struct zt_part_contents *c);

/* Gives all ranks the sums of all parts, in c->manifest; c->crc has those of the own one. Collective. */
bool zt_parts_gather(struct zt_checkpoints *c, struct zt_err *err);

/* Whether the folder has the part. */
bool zt_part_exists(const char *folder, int rank, int count);
/* Lists the parts that are in the folder, or those that are not, with the hosts that wrote them: "0 (near), 2 (far)".
 */
void zt_parts_list(const char *folder, const struct zt_manifest *manifest, bool there, char *to, size_t room);

#endif
