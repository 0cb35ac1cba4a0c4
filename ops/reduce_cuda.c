/* Reductions over any axes on CUDA. */
#include "ops/kernels_cuda.h"
#include "ops/launch_reduce.h"
#include "ops/reduce.h"
#include "ops/walk_cuda.h"

#include "device/cuda.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *op;
    enum zt_launch_fold fold;
} folds[] = { { "ReduceL1", ZT_FOLD_L1 },          { "ReduceL2", ZT_FOLD_L2 },
              { "ReduceLogSum", ZT_FOLD_LOG_SUM }, { "ReduceLogSumExp", ZT_FOLD_LOG_SUM_EXP },
              { "ReduceMax", ZT_FOLD_MAX },        { "ReduceMean", ZT_FOLD_MEAN },
              { "ReduceMin", ZT_FOLD_MIN },        { "ReduceProd", ZT_FOLD_PRODUCT },
              { "ReduceSum", ZT_FOLD_SUM },        { "ReduceSumSquare", ZT_FOLD_SUM_SQUARE },
              { "TileGrad", ZT_FOLD_SUM } };

/* The axes with `over` or without: neighbours that go on alike are merged. */
static int take_axes(const struct zt_reduction *r, bool over, int64_t *dim, int64_t *step, int64_t *count) {
    int64_t next = 1, steps[1][ZT_MAX_RANK];
    int axes = 0;
    for (int k = 0; k < r->axes; k++)
        next *= r->dim[k];
    *count = 1;
    for (int k = 0; k < r->axes; k++) {
        next = r->dim[k] ? next / r->dim[k] : 0;
        if (r->over[k] != over)
            continue;
        dim[axes] = r->dim[k];
        steps[0][axes++] = next;
        *count *= r->dim[k];
    }
    axes = zt_axes_cuda(axes, dim, 1, steps);
    memcpy(step, steps[0], sizeof steps[0]);
    return axes;
}

static bool prepare(struct zt_prepare *q, struct zt_err *err) {
    const struct zt_op *op = q->graph->nodes[q->node].op;
    struct zt_reduction reduction;
    size_t i = 0;
    if (!op->kernel[ZT_CUDA].describe(q->graph, q->node, &reduction, err))
        return false;
    while (strcmp(folds[i].op, op->name) != 0)
        i++;
    struct zt_launch_reduce *r = zt_calloc(1, sizeof *r);
    r->fold = folds[i].fold;
    r->kept_axes = take_axes(&reduction, false, r->kept_dim, r->kept_step, &r->kept);
    r->over_axes = take_axes(&reduction, true, r->over_dim, r->over_step, &r->over);
    r->parts = zt_launch_reduce_parts(r);
    q->workspace_bytes = r->parts > 1 ? (size_t)(r->kept * r->parts) * sizeof(float) : 0;
    q->can_accumulate = r->fold == ZT_FOLD_SUM;
    q->state = r;
    return true;
}

static bool run(const struct zt_call *call, struct zt_err *err) {
    struct zt_launch_reduce r = *(const struct zt_launch_reduce *)call->state;
    r.accumulate = call->accumulate;
    int code = zt_launch_reduce(zt_cuda_stream(call->device), call->in[0].dtype, &r, call->in[0].data,
                                call->out[0].data, call->workspace);
    return zt_cuda_good(call->device, code, err, call->node->name);
}

const struct zt_kernel zt_kernel_reduce_cuda = { .prepare = prepare, .run = run, .release = free };
