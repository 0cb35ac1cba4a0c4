/* Capture of device work: the first steps record what a rank queues on its device, and later steps replay whole
 * segments (captured.c). */
#ifndef ZT_RUN_RANK_CAPTURED_H
#define ZT_RUN_RANK_CAPTURED_H

#include "base/log.h"
#include "run/rank/blocks.h"

/* An action, queued on the device by run(r, this). It queues the same work in all steps of one shape. */
struct zt_action {
    bool (*run)(struct zt_rank *r, const struct zt_action *a, struct zt_err *err);
    const struct zt_run_program *program; /* arguments of run */
    const struct zt_slot *slot;
    const struct zt_command *command;
    bool accumulate;
    void *to;
    const void *from;
    size_t bytes;
};

/* Creates r->graphs if the device supports capture. */
void zt_rank_graphs_create(struct zt_rank *r);
void zt_rank_graphs_destroy(struct zt_rank *r);

/* Called before and after a step; `side` is from zt_rank_device_align(). */
void zt_rank_graphs_begin(struct zt_rank *r, enum zt_step_kind kind, int side);
bool zt_rank_graphs_end(struct zt_rank *r, struct zt_err *err);
/* Queues an action immediately or with its segment. */
bool zt_rank_do(struct zt_rank *r, const struct zt_action *a, struct zt_err *err);
/* Queues all pending actions. Must be called before any device work that is not an action. */
bool zt_rank_flush(struct zt_rank *r, struct zt_err *err);

/* Whether a capture is active (device.h): only actions may use the device. */
bool zt_rank_capturing(const struct zt_rank *r);

/* Prints what has been captured, with --verbose; nothing if the device does not support capture. */
void zt_rank_graphs_say(const struct zt_rank *rank, const struct zt_log *log);

#endif
