/* dx of ReduceMax and ReduceMin on the CPU. In memory x is [outer, n, inner], n reduced: rows of n where inner is 1,
 * else results side by side. x is read twice, the second time from the first cache where n elements fit. */
#include "ops/reduce/extreme_grad.h"

#include "device/threads.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/merge_axes.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"
#include "ops/reduce/reduce_cpu.h"
#include "ops/reduce/simd_reduce.h"

enum { COLUMNS = 64, ROWS = 16, EXACT = 1 << 24 };

struct plan {
    int64_t outer, n, inner;
    struct zt_reduce_channels channels;
};

/* Of axes of which one group at most is reduced; false for several groups. */
static bool read_axes(const struct zt_shape *x, const bool *over, struct plan *plan) {
    int64_t dim[ZT_MAX_RANK];
    bool reduced[ZT_MAX_RANK];
    const int axes = zt_merge_marked_axes(x, over, dim, reduced);
    int groups = 0;
    plan->outer = plan->n = plan->inner = 1;
    for (int k = 0; k < axes; k++) {
        groups += reduced[k];
        *(reduced[k] ? &plan->n : groups ? &plan->inner : &plan->outer) *= dim[k];
    }
    return groups <= 1;
}

/* over[axis]: the axis of x is reduced. */
static void mark_axes(const struct zt_value *x, const struct zt_value *y, bool over[ZT_MAX_RANK]) {
    for (int k = 0; k < x->shape.rank; k++)
        over[k] = y->shape.dim[k] != x->shape.dim[k];
}

bool zt_extreme_grad_cpu_takes(const struct zt_value *x, const struct zt_value *y) {
    struct plan plan;
    bool over[ZT_MAX_RANK];
    if (x->dtype != ZT_FLOAT || y->shape.rank != x->shape.rank || zt_shape_count(&x->shape) == 0)
        return false;
    mark_axes(x, y, over);
    return read_axes(&x->shape, over, &plan) && plan.n <= EXACT;
}

bool zt_extreme_grad_cpu_supports(const struct zt_graph *g, int node) {
    return zt_extreme_grad_cpu_takes(zt_in(g, node, 0), zt_in(g, node, 1));
}

bool zt_extreme_grad_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    (void)err;
    struct plan *plan = ZT_NEW(p->graph->arena, struct plan);
    bool over[ZT_MAX_RANK];
    mark_axes(zt_in(p->graph, p->node, 0), zt_in(p->graph, p->node, 1), over);
    const struct zt_shape x = zt_reduce_memory(p, over, &plan->channels);
    read_axes(&x, over, plan);
    p->out_layout[0] = p->in_layout[0];
    p->state = plan;
    return true;
}

static const float *in(const struct zt_call *call, int i, int64_t at) {
    return (const float *)call->in[i].data + at;
}

/* ROWS results. */
static void rows(void *arg, int64_t unit) {
    const struct zt_call *call = arg;
    const struct plan *plan = call->state;
    for (int64_t i = unit * ROWS; i < zt_min_int(plan->outer, (unit + 1) * ROWS); i++)
        zt_ties_functions()->row(in(call, 0, i * plan->n), plan->n, *in(call, 1, i), *in(call, 2, i),
                                 (float *)call->out[0].data + i * plan->n);
}

/* At most COLUMNS results of a row; padding behind them becomes 0. */
static void columns(void *arg, int64_t unit) {
    const struct zt_call *call = arg;
    const struct plan *plan = call->state;
    const int64_t blocks = zt_ceil_div(plan->inner, COLUMNS), row = unit / blocks, first = unit % blocks * COLUMNS;
    const int64_t all = zt_min_int(COLUMNS, plan->inner - first), at = row * plan->n * plan->inner + first;
    const int64_t used = zt_min_int(all, zt_reduce_width(&plan->channels, row, plan->inner) - first);
    const int64_t from = zt_reduce_row(&plan->channels, row, plan->inner) + first;
    float *dx = (float *)call->out[0].data + at;
    zt_ties_functions()->columns(&(struct zt_ties_block){ in(call, 0, at), in(call, 1, from), in(call, 2, from), dx,
                                                          plan->inner, plan->n, used });
    for (int64_t r = 0; used < all && r < plan->n; r++)
        for (int64_t c = used; c < all; c++)
            dx[r * plan->inner + c] = 0;
}

bool zt_extreme_grad_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct plan *plan = call->state;
    const int threads = zt_threads_worth(call->threads, (double)plan->outer * (double)plan->n * (double)plan->inner);
    if (plan->inner == 1)
        zt_parallel_for(threads, zt_ceil_div(plan->outer, ROWS), rows, (void *)call);
    else
        zt_parallel_for(threads, plan->outer * zt_ceil_div(plan->inner, COLUMNS), columns, (void *)call);
    return true;
}
