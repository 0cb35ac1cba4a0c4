/* ReduceSum on CUDA, over axes that stand together (ops/cuda.c, zt_cuda_reduce). */
#include "ops/kernels_cuda.h"
#include "ops/launch_cuda.h"

#include "device/cuda.h"

#include <stdlib.h>

/* The first and the last axis that are summed; all where none are named. */
static bool read_axes(const struct zt_graph *g, int node, int *first, int *last, struct zt_err *err) {
    int rank = zt_in(g, node, 0)->shape.rank, count = -1;
    int64_t given[ZT_MAX_RANK];
    const int64_t *axes = zt_attr_ints(&g->nodes[node], "axes", &count);
    if (!axes) {
        axes = given;
        if (!zt_known_ints(g, node, 1, given, ZT_MAX_RANK, &count, err))
            return false;
    }
    *first = count > 0 ? rank : 0;
    *last = count > 0 ? -1 : rank - 1;
    for (int i = 0; i < count; i++) {
        int axis;
        if (!zt_axis(g, node, axes[i], rank, &axis, err))
            return false;
        *first = axis < *first ? axis : *first;
        *last = axis > *last ? axis : *last;
    }
    return true;
}

static bool prepare(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_shape *x = &zt_in(p->graph, p->node, 0)->shape;
    int first, last;
    if (!read_axes(p->graph, p->node, &first, &last, err))
        return false;
    struct zt_launch_sum *s = zt_malloc(sizeof *s);
    *s = (struct zt_launch_sum){ 1, 1, 1 };
    for (int k = 0; k < x->rank; k++)
        *(k < first ? &s->outer : k <= last ? &s->length : &s->inner) *= x->dim[k];
    p->state = s;
    p->can_accumulate = true;
    return true;
}

static bool run(const struct zt_call *call, struct zt_err *err) {
    int code = zt_launch_sum(zt_cuda_stream(call->device), call->in[0].dtype, call->state, call->in[0].data,
                             call->out[0].data, call->accumulate);
    return zt_cuda_good(call->device, code, err, call->node->name);
}

const struct zt_kernel zt_kernel_reduce_sum_cuda = { .prepare = prepare, .run = run, .release = free };
