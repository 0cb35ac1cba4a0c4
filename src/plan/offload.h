/* Locations of the optimizer states and parameters of a rank (zero_optimization.offload_optimizer, offload_param), and
 * the memory and disk space that they take. A pure function of configuration and device. */
#ifndef ZT_PLAN_OFFLOAD_H
#define ZT_PLAN_OFFLOAD_H

#include "base/arena.h"
#include "config/config.h"
#include "parallel/offload/aio_engine.h"

enum zt_home {
    ZT_HOME_DEVICE, /* the device's own memory; on a CPU that is the host's */
    ZT_HOME_HOST,   /* page-locked host memory beside a GPU */
    ZT_HOME_NVME,   /* files */
};

struct zt_offload {
    enum zt_home optimizer, parameters;
    bool beside_gpu;     /* the device has its own memory: the host updates what is offloaded, in page-locked memory */
    int arrays;          /* state arrays of the optimizer, with the average of the weights */
    double ratio;        /* share of a rank's elements whose states are not in ZT_HOME_DEVICE */
    int64_t group_elems; /* elements of a sub-group, whose states are in memory together; at least ZT_SUB_GROUP_LEAST */
    int depth;           /* sub-groups in memory at a time */
    int64_t max_kept;    /* elements of parameters that stay in memory where the others are in ZT_HOME_NVME */
    int shelves;         /* buffers of one slice of parameters each */
    int buckets;         /* of the stage: each slice begins in a block of the disk of its own */
    struct zt_texts without_effect; /* keys that change nothing on this device, with the reason */
    const char *note;               /* a warning; NULL: none */
};

/* Pieces of the update (run/rank/blocks.h) are not divided among sub-groups. More than ZT_SUB_GROUP_MOST elements need
 * more memory and are not faster: the requests of one array are then larger than any queue. */
enum { ZT_SUB_GROUP_LEAST = 65536, ZT_SUB_GROUP_MOST = 1 << 22 };

/* Decides for a device: `own_memory` says that it has memory of its own (a GPU). Errors (ZT_EXIT_CONFIG): a combination
 * that is not supported, by its key. The texts are in `arena`. */
bool zt_offload_decide(const struct zt_config *config, bool own_memory, struct zt_arena *arena, struct zt_offload *to,
                       struct zt_err *err);

/* The least ZeRO stage at which everything that the config offloads is offloaded, whatever its own stage, and the
 * object that requires it. stage 0: nothing is offloaded on this device. */
struct zt_offload_demand {
    int stage;
    const char *object, *device;
};
struct zt_offload_demand zt_offload_demand(const struct zt_config *config, bool own_memory);

/* Fits the buffers to a stage: those of parameters to `buckets` slices of up to `largest` elements; a buffer that is
 * larger than buffer_size says so in the note. */
void zt_offload_fit(struct zt_offload *offload, const struct zt_config *config, struct zt_arena *arena, int buckets,
                    int64_t largest);
/* Returns the section "aio" as the pool of transfers takes it. */
struct zt_aio_options zt_offload_aio(const struct zt_config *config);
/* Of `elems` elements of a rank, returns how many have their states elsewhere; pieces are not divided, so that a few
 * fewer may. */
int64_t zt_offload_away(const struct zt_offload *offload, int64_t elems);
/* Returns the most elements of one array whose states stay in the device's memory. */
int64_t zt_offload_resident(const struct zt_offload *offload, int64_t elems);
/* Returns the most elements of a rank's parameters that stay in memory: whole slices, up to max_in_cpu. */
int64_t zt_offload_kept(const struct zt_offload *offload, int64_t elems);
/* Returns the elements of a buffer for slices of up to `elems` elements, which begin anywhere in a block of the disk.
 */
int64_t zt_offload_shelf_elems(int64_t elems);
/* Returns the bytes of the buffers through which the states of `elems` elements pass. */
int64_t zt_offload_buffer_bytes(const struct zt_offload *offload, int64_t elems);

#endif
