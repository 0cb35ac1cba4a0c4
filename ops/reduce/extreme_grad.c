#include "ops/reduce/extreme_grad.h"

#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"
#include "ops/reduce/kernels.h"

#include <string.h>

static bool infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_shape *x = &zt_in(g, node, 0)->shape, *y = &zt_in(g, node, 1)->shape;
    bool fits = x->rank == y->rank && zt_shape_equal(y, &zt_in(g, node, 2)->shape);
    for (int k = 0; fits && k < x->rank; k++)
        fits = y->dim[k] == x->dim[k] || y->dim[k] == 1;
    return fits ? zt_infer_first(g, node, err)
                : zt_node_fail(g, node, err, "inputs 1 and 2 have other axes than a reduction of input 0");
}

/* The sums of m, one a result. */
static bool prepare(struct zt_prepare *p, struct zt_err *err) {
    (void)err;
    p->workspace_bytes = (size_t)zt_shape_count(&zt_in(p->graph, p->node, 1)->shape) * sizeof(double);
    return true;
}

static struct zt_walk walk_of(const struct zt_call *call) {
    struct zt_walk w;
    zt_walk_start(&w, &call->in[0].shape, 2);
    for (int i = 0; i < 2; i++)
        zt_walk_strides(&w, i, &call->in[i].shape);
    return w;
}

/* Sets m of the block at `w`. */
static void load_ties(const struct zt_call *call, const struct zt_walk *w, double *m) {
    double y[ZT_ELEMENT_BLOCK];
    zt_load_block(call->in[0].dtype, call->in[0].data, w->offset[0], w->stride[0], w->count, m);
    zt_load_block(call->in[1].dtype, call->in[1].data, w->offset[1], w->stride[1], w->count, y);
    for (int64_t i = 0; i < w->count; i++)
        m[i] = m[i] == y[i];
}

static bool run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    double *sum = call->workspace, m[ZT_ELEMENT_BLOCK], dy[ZT_ELEMENT_BLOCK];
    memset(sum, 0, (size_t)zt_shape_count(&call->in[1].shape) * sizeof *sum);
    for (struct zt_walk w = walk_of(call); zt_walk_next(&w);) {
        load_ties(call, &w, m);
        for (int64_t i = 0; i < w.count; i++)
            sum[w.offset[1] + i * w.stride[1]] += m[i];
    }
    for (struct zt_walk w = walk_of(call); zt_walk_next(&w);) {
        load_ties(call, &w, m);
        zt_load_block(call->in[2].dtype, call->in[2].data, w.offset[1], w.stride[1], w.count, dy);
        for (int64_t i = 0; i < w.count; i++)
            m[i] *= dy[i] / sum[w.offset[1] + i * w.stride[1]];
        zt_store_block(call->out[0].dtype, call->out[0].data, w.offset[0], w.stride[0], w.count, m);
    }
    return true;
}

static double flops(const struct zt_graph *g, int node) {
    return 2 * (double)zt_shape_count(&zt_in(g, node, 0)->shape);
}

const struct zt_op zt_op_reduce_extreme_grad = {
    .name = "ReduceExtremeGrad",
    .domain = "ztrain",
    .since = 1,
    ZT_ONE_OUT(3, 3),
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT },
    .same_type = ~0U,
    .infer = infer,
    .flops = flops,
    .kernel = { [ZT_REF] = { .prepare = prepare, .run = run }, [ZT_CPU] = ZT_EXTREME_GRAD_CPU },
};
