/* Ops that only move elements, on CUDA: the copies their rows list (moves.h), a launch each. */
#include "ops/kernels_cuda.h"
#include "ops/launch_move.h"
#include "ops/moves.h"
#include "ops/walk_cuda.h"

#include "device/cuda.h"

#include <stdlib.h>
#include <string.h>

struct plan {
    bool clears;
    int count;
    struct one {
        int in, out;
        int64_t from, to;
        struct zt_launch_move launch;
    } * at;
};

static struct zt_launch_move launch_of(const struct zt_move *m) {
    struct zt_launch_move launch;
    int64_t step[2][ZT_MAX_RANK];
    memcpy(launch.dim, m->shape.dim, sizeof launch.dim);
    memcpy(step[0], m->from_step, sizeof step[0]);
    memcpy(step[1], m->to_step, sizeof step[1]);
    launch.axes = zt_axes_cuda(m->shape.rank, launch.dim, 2, step);
    memcpy(launch.from_step, step[0], sizeof step[0]);
    memcpy(launch.to_step, step[1], sizeof step[1]);
    return launch;
}

static bool prepare(struct zt_prepare *q, struct zt_err *err) {
    struct zt_move_list list;
    if (!q->graph->nodes[q->node].op->kernel[ZT_CUDA].describe(q->graph, q->node, &list, err))
        return false;
    struct plan *p = zt_malloc(sizeof *p + (size_t)list.count * sizeof *p->at);
    *p = (struct plan){ .clears = list.clears, .at = (struct one *)(p + 1) };
    for (int i = 0; i < list.count; i++) {
        const struct zt_move *m = &list.move[i];
        if (zt_shape_count(&m->shape) > 0)
            p->at[p->count++] = (struct one){ m->in, m->out, m->from, m->to, launch_of(m) };
    }
    q->state = p;
    return true;
}

static bool run(const struct zt_call *call, struct zt_err *err) {
    const struct plan *p = call->state;
    const struct zt_view *first = &call->out[0];
    const int64_t bytes = (int64_t)zt_dtype_bytes(call->in[0].dtype);
    if (p->clears &&
        !call->device->api->zero(call->device, first->data, (size_t)(zt_shape_count(&first->shape) * bytes), err))
        return false;
    for (int i = 0; i < p->count; i++) {
        const struct one *m = &p->at[i];
        char *to = call->out[m->out].data;
        int code = to ? zt_launch_move(zt_cuda_stream(call->device), (size_t)bytes, &m->launch,
                                       (const char *)call->in[m->in].data + m->from * bytes, to + m->to * bytes)
                      : 0;
        if (!zt_cuda_good(call->device, code, err, call->node->name))
            return false;
    }
    return true;
}

const struct zt_kernel zt_kernel_moves_cuda = { .prepare = prepare, .run = run, .release = free };
