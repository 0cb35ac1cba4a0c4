/* The weights of a checkpoint in parts (parts.h) as whole tensors, for a run that takes them by name and shape. */
#ifndef ZT_CHECKPOINT_PART_WEIGHTS_H
#define ZT_CHECKPOINT_PART_WEIGHTS_H

#include "checkpoint/format.h"

struct zt_part_weights {
    const struct zt_stored_file *file; /* names and shapes: those of the manifest */
    const void **data;                 /* by tensor: its fp32 elements, in a mapped part or in the arena */
    struct zt_file_map *map;           /* of the parts that are in the folder */
    int map_count;
};

/* Opens the parts in the folder and checks the blocks that hold weights. Errors: a damaged part, a manifest without
 * shapes (of an older program), a tensor that the parts of the folder do not have whole. zt_part_weights_close() must
 * be called in any case. */
bool zt_part_weights_open(struct zt_part_weights *to, const char *folder, const struct zt_manifest *manifest,
                          struct zt_arena *arena, struct zt_err *err);
void zt_part_weights_close(struct zt_part_weights *weights);

#endif
