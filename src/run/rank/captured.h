/* Recording what a rank queues on its device, so that later steps give it whole segments at once (captured.c). */
#ifndef ZT_RUN_RANK_CAPTURED_H
#define ZT_RUN_RANK_CAPTURED_H

#include "run/rank/blocks.h"

/* Something queued on the device: run(r, this) queues it, the same whenever it is called in the steps of one shape. */
struct zt_action {
    bool (*run)(struct zt_rank *r, const struct zt_action *a, struct zt_err *err);
    const struct zt_run_program *program; /* the others as run needs them */
    const struct zt_slot *slot;
    const struct zt_command *command;
    bool accumulate;
    void *to;
    const void *from;
    size_t bytes;
};

/* Nothing is recorded where the device cannot. */
void zt_rank_graphs_create(struct zt_rank *r);
void zt_rank_graphs_destroy(struct zt_rank *r);

/* Around a step of the epoch's tail or of another; `side` as zt_rank_device_align has it. */
void zt_rank_graphs_begin(struct zt_rank *r, bool tail, int side);
bool zt_rank_graphs_end(struct zt_rank *r, struct zt_err *err);
/* Queues it, now or with its segment. */
bool zt_rank_do(struct zt_rank *r, const struct zt_action *a, struct zt_err *err);
/* Before anything that is not an action: what was done before it is on its way to the device. */
bool zt_rank_flush(struct zt_rank *r, struct zt_err *err);

/* Between capture and captured (device.h): nothing but actions may reach the device. */
bool zt_rank_capturing(const struct zt_rank *r);

/* How much of a step the device is given at once (captured.c), into `text`; NULL where the device cannot. */
const char *zt_rank_graphs_text(const struct zt_rank *rank, char text[ZT_ERR_TEXT]);

#endif
