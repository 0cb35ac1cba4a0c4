/* Reductions over any axes on CUDA. */
#include "ops/cuda/describe.h"
#include "ops/reduce/launch_reduce.h"
#include "ops/cuda/layout_cuda.h"
#include "ops/reduce/reduce.h"
#include "ops/kernel/merge_axes.h"

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

/* Strides of the axes in x, which may be channels last. */
static void steps_of(const struct zt_reduction *r, const struct zt_layout *layout, int64_t *step) {
    struct zt_shape shape = { .rank = r->axes };
    int64_t next = 1;
    if (layout) {
        memcpy(shape.dim, r->dim, sizeof shape.dim);
        zt_layout_steps(layout, &shape, step);
    }
    for (int k = r->axes - 1; k >= 0 && !layout; k--) {
        step[k] = next;
        next *= r->dim[k];
    }
}

/* Writes the merged axes that are folded (`over`) or kept; returns their number. all_steps: of all axes in x. */
static int take_axes(const struct zt_reduction *r, const int64_t *all_steps, bool over, int64_t *dim, int64_t *step,
                     int64_t *count) {
    int axes = 0;
    *count = 1;
    for (int k = 0; k < r->axes; k++) {
        if (r->over[k] != over)
            continue;
        dim[axes] = r->dim[k];
        step[axes++] = all_steps[k];
        *count *= r->dim[k];
    }
    return zt_merge_axes(axes, dim, 1, &step);
}

static bool prepare(struct zt_prepare *q, struct zt_err *err) {
    const struct zt_op *op = q->graph->nodes[q->node]->op;
    const struct zt_shape *x = &zt_in(q->graph, q->node, 0)->shape;
    struct zt_reduction reduction;
    int64_t step[2 * ZT_MAX_RANK];
    size_t i = 0;
    if (!zt_describe_to_cuda(q, &reduction, err))
        return false;
    while (strcmp(folds[i].op, op->name) != 0)
        i++;
    for (int k = 0; k < q->graph->nodes[q->node]->in_count; k++)
        q->in_layout[k] = k == 0 && reduction.axes == x->rank ? q->in_layout[k] : NULL;
    steps_of(&reduction, q->in_layout[0], step);
    struct zt_launch_reduce *r = zt_calloc(1, sizeof *r);
    r->fold = folds[i].fold;
    r->result_axes = take_axes(&reduction, step, false, r->result_dim, r->result_step, &r->results);
    r->reduced_axes = take_axes(&reduction, step, true, r->reduced_dim, r->reduced_step, &r->reduced);
    r->parts = zt_launch_reduce_parts(r);
    q->workspace_bytes = r->parts > 1 ? (size_t)(r->results * r->parts) * sizeof(float) : 0;
    q->can_accumulate = r->fold == ZT_FOLD_SUM;
    q->state = r;
    return true;
}

static bool run(const struct zt_call *call, struct zt_err *err) {
    struct zt_launch_reduce r = *(const struct zt_launch_reduce *)call->state;
    r.accumulate = call->accumulate;
    r.arrived = zt_arrived_of(call);
    return zt_launched(
        call, zt_launch_reduce(zt_stream_of(call), &r, zt_in_cuda(call, 0), zt_out_cuda(call, 0), call->workspace),
        err);
}

const struct zt_kernel zt_kernel_reduce_cuda = { .prepare = prepare, .layouts = true, .run = run, .release = free };
