/* Batch normalisation over the batch of all data-parallel ranks (ztrain.parallel.sync_batch_norm): BatchNormTrain's
 * formulas (batch_norm.c), where M counts and every sum goes over the ranks' elements together:
 *
 *     mean = s + sum(x - s) / M        var = sum (x - s)^2 / M - (mean - s)^2        s the running mean, as PyTorch's
 *     dx = scale inv_std (dy - sum dy / M - xh sum(dy xh) / M)                       SyncBatchNorm but for the shift
 *
 * The running mean is the same number on every rank and near the batch's, so that the difference of squares keeps its
 * digits. dscale and db stay the rank's own sums: like every parameter's gradient they are added over the ranks later.
 * Sums travel as doubles and are added in rank order, so every rank and every communicator has the same bits.
 *
 * Rows that only fill up a short batch (weight 0) are normalised with the others' statistics, count in no sum and have
 * gradient 0. Where statistics are each rank's own, short batches run this row with `alone` set; a rank that has
 * nothing but such rows takes the running statistics, and leaves them. */
#include "ops/norm/norm.h"

#include "graph/passes/grad.h"
#include "ops/norm/launch_batch_norm.h"
#include "ops/norm/kernels.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"
#include "ops/kernel/training_form.h"

#include "device/threads.h"

#include <math.h>
#include <string.h>

enum { WEIGHTS = 5 }; /* the input that holds them; those before it have a number a channel */

static const struct zt_attr_spec attrs[] = { { "epsilon", ZT_ATTR_FLOAT }, { "momentum", ZT_ATTR_FLOAT },
                                             { "spatial", ZT_ATTR_INT },   { "training_mode", ZT_ATTR_INT },
                                             { "alone", ZT_ATTR_INT },     { 0 } };

/* ---- shape rules ---- */

/* Input `i`, if there: one weight for every sample or for so many of x's rows each. */
static bool check_weights(const struct zt_graph *g, int node, int i, int64_t rows, struct zt_err *err) {
    const struct zt_value *w = zt_in(g, node, i);
    if (!w || (w->shape.rank == 1 && w->shape.dim[0] > 0 && rows % w->shape.dim[0] == 0))
        return true;
    return zt_node_fail(g, node, err,
                        "sync_batch_norm: %lld rows are not those of \"%s\", and which of them fill up a "
                        "short batch is not known",
                        (long long)rows, w->name);
}

static bool read_geometry(const struct zt_graph *g, int node, bool backward, struct zt_batch_norm *to,
                          struct zt_err *err) {
    return zt_batch_norm_read_to(g, node, backward, WEIGHTS, to, err) && check_weights(g, node, WEIGHTS, to->n, err);
}

static bool sync_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_batch_norm bn;
    if (!read_geometry(g, node, false, &bn, err))
        return false;
    zt_batch_norm_train_outs(g, node);
    return true;
}

static bool sync_grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_batch_norm bn;
    if (!read_geometry(g, node, true, &bn, err))
        return false;
    zt_batch_norm_grad_outs(g, node);
    return true;
}

/* ---- kernels ---- */

struct task {
    const struct zt_call *call;
    struct zt_batch_norm bn;
    const struct zt_view *weights; /* NULL: all rows count */
    int64_t rows;                  /* that count here */
};

static double number(const struct zt_view *v, int64_t i) {
    return zt_load_double(v->dtype, v->data, i);
}

static void put(const struct zt_call *call, int out, int64_t i, double value) {
    if (out < call->out_count && call->out[out].data)
        zt_store_double(call->out[out].dtype, call->out[out].data, i, value);
}

static bool row_counts(const struct task *t, int64_t n) {
    return !t->weights || number(t->weights, n / (t->bn.n / t->weights->shape.dim[0])) != 0;
}

static bool start(struct task *t, const struct zt_call *call, bool backward, struct zt_err *err) {
    *t = (struct task){ .call = call };
    if (!read_geometry(call->graph, zt_call_node(call), backward, &t->bn, err))
        return false;
    if (call->in_count > WEIGHTS && call->in[WEIGHTS].data)
        t->weights = &call->in[WEIGHTS];
    for (int64_t n = 0; n < t->bn.n; n++)
        t->rows += row_counts(t, n);
    return true;
}

/* For each block of channel c: offset `at`, `count` elements one after another, of row `n`. */
#define EACH_RUN(t, c, n, at, count)                                                                                   \
    for (int64_t n = 0; n < (t)->bn.n; n++)                                                                            \
        for (int64_t i_ = 0, at = (n * (t)->bn.channels + (c)) * (t)->bn.spatial,                                      \
                     count = zt_min_int(ZT_ELEMENT_BLOCK, (t)->bn.spatial);                                            \
             i_ < (t)->bn.spatial; i_ += ZT_ELEMENT_BLOCK, at += ZT_ELEMENT_BLOCK,                                     \
                     count = zt_min_int(ZT_ELEMENT_BLOCK, (t)->bn.spatial - i_))

static void load(const struct zt_view *v, int64_t at, int64_t count, double *to) {
    zt_load_block(v->dtype, v->data, at, 1, count, to);
}

static void sum_forward(const struct task *t, int64_t c, double *sums) {
    double shift = number(&t->call->in[3], c), x[ZT_ELEMENT_BLOCK];
    sums[0] = sums[1] = 0;
    EACH_RUN(t, c, n, at, count) {
        if (!row_counts(t, n))
            continue;
        load(&t->call->in[0], at, count, x);
        for (int64_t i = 0; i < count; i++) {
            double d = x[i] - shift;
            sums[0] += d;
            sums[1] += d * d;
        }
    }
}

static void apply_forward(const struct task *t, int64_t c, const double *sums, double elements) {
    const struct zt_call *call = t->call;
    double moved = elements > 0 ? sums[0] / elements : 0,
           var = elements > 0 ? sums[1] / elements - moved * moved : number(&call->in[4], c);
    double mean = number(&call->in[3], c) + moved, x[ZT_ELEMENT_BLOCK];
    var = var < 0 ? 0 : var; /* NaN stays */
    double inv_std = 1 / sqrt(var + t->bn.epsilon), scale = number(&call->in[1], c) * inv_std,
           b = number(&call->in[2], c);
    EACH_RUN(t, c, n, at, count) {
        load(&call->in[0], at, count, x);
        for (int64_t i = 0; i < count; i++)
            x[i] = (x[i] - mean) * scale + b;
        zt_store_block(call->out[0].dtype, call->out[0].data, at, 1, count, x);
    }
    put(call, 1, c, number(&call->in[3], c) * t->bn.momentum + mean * (1 - t->bn.momentum));
    put(call, 2, c, number(&call->in[4], c) * t->bn.momentum + var * (1 - t->bn.momentum));
    put(call, 3, c, mean);
    put(call, 4, c, inv_std);
}

static void sum_backward(const struct task *t, int64_t c, double *sums) {
    const struct zt_call *call = t->call;
    double mean = number(&call->in[3], c), inv_std = number(&call->in[4], c), dy[ZT_ELEMENT_BLOCK], x[ZT_ELEMENT_BLOCK];
    sums[0] = sums[1] = 0;
    EACH_RUN(t, c, n, at, count) {
        if (!row_counts(t, n))
            continue;
        load(&call->in[0], at, count, dy);
        load(&call->in[1], at, count, x);
        for (int64_t i = 0; i < count; i++) {
            sums[0] += dy[i];
            sums[1] += dy[i] * (x[i] - mean) * inv_std;
        }
    }
    put(call, 1, c, sums[1]);
    put(call, 2, c, sums[0]);
}

static void apply_backward(const struct task *t, int64_t c, const double *sums, double elements) {
    const struct zt_call *call = t->call;
    double mean = number(&call->in[3], c), inv_std = number(&call->in[4], c), dy[ZT_ELEMENT_BLOCK], x[ZT_ELEMENT_BLOCK];
    double a = number(&call->in[2], c) * inv_std, m = elements > 0 ? elements : 1, b = sums[0] / m, d = sums[1] / m;
    EACH_RUN(t, c, n, at, count) {
        bool counts = row_counts(t, n);
        load(&call->in[0], at, count, dy);
        load(&call->in[1], at, count, x);
        for (int64_t i = 0; i < count; i++)
            dy[i] = counts ? a * (dy[i] - b - d * (x[i] - mean) * inv_std) : 0;
        zt_store_block(call->out[0].dtype, call->out[0].data, at, 1, count, dy);
    }
}

/* Up to ZT_BATCH_NORM_TOGETHER channels from `first` on, and their sums. */
struct channels {
    const struct task *task;
    bool backward;
    int64_t first;
    double sums[ZT_BATCH_NORM_SUMS], elements;
};

static void sum_channel(void *arg, int64_t c) {
    struct channels *s = arg;
    (s->backward ? sum_backward : sum_forward)(s->task, s->first + c, s->sums + 2 * c);
}

static void apply_channel(void *arg, int64_t c) {
    const struct channels *s = arg;
    (s->backward ? apply_backward : apply_forward)(s->task, s->first + c, s->sums + 2 * c, s->elements);
}

static bool run(const struct zt_call *call, bool backward, struct zt_err *err) {
    struct task t;
    if (!start(&t, call, backward, err))
        return false;
    int threads = zt_threads_worth(call->threads, 8.0 * (double)(t.bn.n * t.bn.channels) * (double)t.bn.spatial);
    for (int64_t first = 0; first < t.bn.channels; first += ZT_BATCH_NORM_TOGETHER) {
        int64_t count = zt_min_int(ZT_BATCH_NORM_TOGETHER, t.bn.channels - first);
        struct channels s = { .task = &t, .backward = backward, .first = first };
        zt_parallel_for(threads, count, sum_channel, &s);
        s.sums[2 * count] = (double)(t.rows * t.bn.spatial);
        if (!zt_batch_norm_add_ranks(call, s.sums, count, err))
            return false;
        s.elements = s.sums[2 * count];
        if (!backward || call->out[0].data)
            zt_parallel_for(threads, count, apply_channel, &s);
    }
    return true;
}

static bool sync_ref(const struct zt_call *call, struct zt_err *err) {
    return run(call, false, err);
}

static bool sync_grad_ref(const struct zt_call *call, struct zt_err *err) {
    return run(call, true, err);
}

/* A struct zt_launch_norm_sync for other back ends. */
static bool describe(const struct zt_graph *g, int node, bool backward, struct zt_launch_norm_sync *to,
                     struct zt_err *err) {
    const struct zt_value *weights = zt_in(g, node, WEIGHTS);
    struct zt_batch_norm bn;
    if (!read_geometry(g, node, backward, &bn, err))
        return false;
    *to = (struct zt_launch_norm_sync){ .n = bn.n,
                                        .channels = bn.channels,
                                        .spatial = bn.spatial,
                                        .per_weight = weights ? bn.n / weights->shape.dim[0] : 1,
                                        .epsilon = bn.epsilon,
                                        .momentum = bn.momentum,
                                        .alone = zt_attr_int(g->nodes[node], "alone", 0) != 0 };
    return true;
}

static bool sync_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    return describe(g, node, false, to, err);
}

static bool sync_grad_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    return describe(g, node, true, to, err);
}

/* ---- gradient rule ---- */

static bool sync_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    int in[6] = { zt_grad_out_or_zero(b, node, 0), n->in[0], n->in[1], n->out[3], n->out[4],
                  n->in_count > 5 ? n->in[5] : -1 };
    int out[3];
    zt_emit_node(b, &(struct zt_emission){ "BatchNormSyncGrad", "ztrain", in, in[5] >= 0 ? 6 : 5, n }, out, 3);
    for (int i = 0; i < 3; i++)
        if (zt_grad_wanted(b, node, i))
            zt_grad_give(b, node, i, out[i]);
    return true;
}

/* ---- rows ---- */

#define SYNC_ROW                                                                                                       \
    .domain = "ztrain", .since = 1, .min_in = 5, .max_in = 6, .attrs = attrs,                                          \
    .flags = ZT_OP_GROUP | ZT_OP_PASSES_HALF, .full_out = ~1U,                                                         \
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT }

/* (x, scale, b, mean, var[, row weights]) -> y, new mean, new var, mean, 1 / sqrt(var + epsilon) */
const struct zt_op zt_op_batch_norm_sync = {
    .name = "BatchNormSync",
    SYNC_ROW,
    .min_out = 5,
    .max_out = 5,
    .statistic_in = 1 << 3 | 1 << 4,
    .no_grad_in = 1 << 3 | 1 << 4 | 1 << WEIGHTS,
    .infer = sync_infer,
    .full_in = ~1U,
    .flops_each = 5,
    .grad = sync_grad,
    .kernel = { [ZT_REF] = { .run = sync_ref },
                [ZT_CPU] = ZT_ON_CPU(zt_batch_norm_cpu),
                [ZT_CUDA] = ZT_CUDA_AS(batch_norm_sync, zt_cuda_any_floats, sync_describe) },
};
/* (dy, x, scale, mean, inv_std[, row weights]) -> dx, dscale, db */
const struct zt_op zt_op_batch_norm_sync_grad = {
    .name = "BatchNormSyncGrad",
    SYNC_ROW,
    .min_out = 1,
    .max_out = 3,
    .infer = sync_grad_infer,
    .full_in = ~3U,
    .flops_each = 10,
    .kernel = { [ZT_REF] = { .run = sync_grad_ref },
                [ZT_CPU] = ZT_ON_CPU(zt_batch_norm_grad_cpu),
                [ZT_CUDA] = ZT_CUDA_AS(batch_norm_sync_grad, zt_cuda_any_floats, sync_grad_describe) },
};
