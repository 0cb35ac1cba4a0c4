/* y = scale (x - mean) / sqrt(var + epsilon) + b, a channel at a time         ONNX BatchNormalization, opset 7 on
 *
 * Inference reads mean and var. Training (training_mode from opset 14 on, more than one output before) takes them from
 * the batch, var being the population's, and gives new = old momentum + batch (1 - momentum). ztrain.BatchNormTrain is
 * the training form, which keeps what the gradient needs. With xh = (x - mean) inv_std and sums over a channel's M
 * elements:
 *
 *     db = sum dy     dscale = sum dy xh
 *     dx = scale inv_std (dy - db / M - xh dscale / M)          BatchNormGrad       the batch's statistics move with x
 *     dx = scale inv_std dy                                     BatchNormFixedGrad  running statistics do not
 *
 * FLOPs per element are those of DeepSpeed's profiler: 5 in training, 2 with running statistics; it takes the backward
 * phase as twice the forward phase. */
#include "ops/norm/norm.h"
#include "ops/norm/kernels.h"

#include "graph/passes/grad.h"
#include "ops/norm/launch_batch_norm.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"
#include "ops/kernel/training_form.h"

#include "device/threads.h"

#include <math.h>
#include <string.h>

#define NORM_ATTRS                                                                                                     \
    { "epsilon", ZT_ATTR_FLOAT }, {                                                                                    \
        "momentum", ZT_ATTR_FLOAT                                                                                      \
    }
static const struct zt_attr_spec old_attrs[] = { NORM_ATTRS, { "spatial", ZT_ATTR_INT }, { 0 } };
static const struct zt_attr_spec new_attrs[] = { NORM_ATTRS, { "training_mode", ZT_ATTR_INT }, { 0 } };
static const struct zt_attr_spec own_attrs[] = {
    NORM_ATTRS, { "spatial", ZT_ATTR_INT }, { "training_mode", ZT_ATTR_INT }, { 0 }
};

/* ---- geometry ---- */

static bool trains(const struct zt_node *n) {
    return zt_attr_int(n, "training_mode", 0) || (n->opset < 14 && n->out_count > 1);
}

/* ---- shape rules ---- */

static bool batch_norm_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_batch_norm bn;
    if (!zt_batch_norm_read(g, node, 0, &bn, err))
        return false;
    if (!trains(g->nodes[node]) && g->nodes[node]->out_count > 1)
        return zt_node_fail(g, node, err, "has %d outputs, but one without training_mode", g->nodes[node]->out_count);
    zt_set_out(g, node, 0, zt_in(g, node, 0)->dtype, &zt_in(g, node, 0)->shape);
    for (int i = 1; i < g->nodes[node]->out_count; i++)
        zt_set_out(g, node, i, zt_in(g, node, 3)->dtype, &(struct zt_shape){ 1, { bn.channels } });
    return true;
}

static bool train_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_batch_norm bn;
    if (!zt_batch_norm_read(g, node, 0, &bn, err))
        return false;
    zt_batch_norm_train_outs(g, node);
    return true;
}

static bool grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_batch_norm bn;
    if (!zt_batch_norm_read(g, node, 1, &bn, err))
        return false;
    const struct zt_value *dy = zt_in(g, node, 0), *x = zt_in(g, node, 1);
    if (!zt_shape_equal(&dy->shape, &x->shape))
        return zt_node_fail(g, node, err, "\"%s\" and \"%s\" differ in shape", dy->name, x->name);
    zt_batch_norm_grad_outs(g, node);
    return true;
}

/* ---- kernels: a channel is `blocks` blocks of `length` elements, `step` apart ---- */

struct channel {
    int64_t start, blocks, block_step, length, step;
};

static struct channel channel_of(const struct zt_batch_norm *bn, int64_t c) {
    if (bn->spatial == 1) /* [N, C]: one long stretch down the column */
        return (struct channel){ c, 1, 0, bn->n, bn->channels };
    return (struct channel){ c * bn->spatial, bn->n, bn->channels * bn->spatial, bn->spatial, 1 };
}

/* for each piece of at most ZT_ELEMENT_BLOCK elements: `at`, its first element, and `count` */
#define EACH_PIECE(ch, at, count)                                                                                      \
    for (int64_t block_ = 0; block_ < (ch)->blocks; block_++)                                                          \
        for (int64_t i_ = 0, at = (ch)->start + block_ * (ch)->block_step,                                             \
                     count = zt_min_int(ZT_ELEMENT_BLOCK, (ch)->length);                                               \
             i_ < (ch)->length; i_ += ZT_ELEMENT_BLOCK, at += ZT_ELEMENT_BLOCK * (ch)->step,                           \
                     count = zt_min_int(ZT_ELEMENT_BLOCK, (ch)->length - i_))

/* Two passes, so that a large mean does not eat the digits of the variance. */
static void statistics(const struct zt_view *x, const struct channel *ch, double *mean, double *var) {
    double block[ZT_ELEMENT_BLOCK], sum = 0, squares = 0, count = (double)(ch->blocks * ch->length);
    EACH_PIECE(ch, at, n) {
        zt_load_block(x->dtype, x->data, at, ch->step, n, block);
        for (int64_t i = 0; i < n; i++)
            sum += block[i];
    }
    *mean = sum / count;
    EACH_PIECE(ch, at, n) {
        zt_load_block(x->dtype, x->data, at, ch->step, n, block);
        for (int64_t i = 0; i < n; i++)
            squares += (block[i] - *mean) * (block[i] - *mean);
    }
    *var = squares / count;
}

static double number(const struct zt_view *v, int64_t c) {
    return zt_load_double(v->dtype, v->data, c);
}

static void normalise(const struct zt_call *call, const struct channel *ch, int64_t c, double mean, double inv_std) {
    double block[ZT_ELEMENT_BLOCK], scale = number(&call->in[1], c) * inv_std, b = number(&call->in[2], c);
    EACH_PIECE(ch, at, n) {
        zt_load_block(call->in[0].dtype, call->in[0].data, at, ch->step, n, block);
        for (int64_t i = 0; i < n; i++)
            block[i] = (block[i] - mean) * scale + b;
        zt_store_block(call->out[0].dtype, call->out[0].data, at, ch->step, n, block);
    }
}

static void put(const struct zt_call *call, int out, int64_t c, double value) {
    if (out < call->out_count && call->out[out].data)
        zt_store_double(call->out[out].dtype, call->out[out].data, c, value);
}

static void train_channel(const struct zt_call *call, const struct zt_batch_norm *bn, int64_t c, bool keep) {
    struct channel ch = channel_of(bn, c);
    double mean, var;
    statistics(&call->in[0], &ch, &mean, &var);
    double inv_std = 1 / sqrt(var + bn->epsilon);
    normalise(call, &ch, c, mean, inv_std);
    put(call, 1, c, number(&call->in[3], c) * bn->momentum + mean * (1 - bn->momentum));
    put(call, 2, c, number(&call->in[4], c) * bn->momentum + var * (1 - bn->momentum));
    put(call, 3, c, mean); /* the old form's outputs 3 and 4 are the batch's mean and variance */
    put(call, 4, c, keep ? inv_std : var);
}

static double work_of(const struct zt_batch_norm *bn) {
    return 8.0 * (double)(bn->n * bn->channels) * (double)bn->spatial;
}

struct job {
    const struct zt_call *call;
    struct zt_batch_norm bn;
    bool keep, fixed; /* keep: the training form; fixed: the gradient with running statistics */
};

static bool each_channel(struct job *j, void (*one)(void *arg, int64_t c)) {
    zt_parallel_for(zt_threads_worth(j->call->threads, work_of(&j->bn)), j->bn.channels, one, j);
    return true;
}

static void run_train_channel(void *arg, int64_t c) {
    const struct job *j = arg;
    train_channel(j->call, &j->bn, c, j->keep);
}

static bool run_train(const struct zt_call *call, bool keep, struct zt_err *err) {
    struct job j = { .call = call, .keep = keep };
    return zt_batch_norm_read_to(call->graph, zt_call_node(call), 0, 5, &j.bn, err) &&
           each_channel(&j, run_train_channel);
}

static bool train_ref(const struct zt_call *call, struct zt_err *err) {
    return run_train(call, true, err);
}

static void run_fixed_channel(void *arg, int64_t c) {
    const struct job *j = arg;
    const struct zt_view *in = j->call->in;
    struct channel ch = channel_of(&j->bn, c);
    normalise(j->call, &ch, c, number(&in[3], c), 1 / sqrt(number(&in[4], c) + j->bn.epsilon));
}

static bool batch_norm_ref(const struct zt_call *call, struct zt_err *err) {
    struct job j = { .call = call };
    if (trains(call->node))
        return run_train(call, false, err);
    return zt_batch_norm_read(call->graph, zt_call_node(call), 0, &j.bn, err) && each_channel(&j, run_fixed_channel);
}

/* dx = a dy + b + d xh for one channel, after the sums; fixed statistics have b = d = 0. in[5] and in[6], where given,
 * are the gradients of the batch's mean and variance themselves: dmean / M and 2 dvar (x - mean) / M more. */
static void grad_channel(const struct zt_call *call, const struct zt_batch_norm *bn, int64_t c, bool fixed) {
    struct channel ch = channel_of(bn, c);
    const struct zt_view *vdy = &call->in[0], *vx = &call->in[1];
    double mean = number(&call->in[3], c), inv_std = number(&call->in[4], c), dy[ZT_ELEMENT_BLOCK], x[ZT_ELEMENT_BLOCK];
    double db = 0, dscale = 0, m = (double)(bn->n * bn->spatial);
    if (fixed)
        inv_std = 1 / sqrt(inv_std + bn->epsilon);
    EACH_PIECE(&ch, at, n) {
        zt_load_block(vdy->dtype, vdy->data, at, ch.step, n, dy);
        zt_load_block(vx->dtype, vx->data, at, ch.step, n, x);
        for (int64_t i = 0; i < n; i++) {
            db += dy[i];
            dscale += dy[i] * (x[i] - mean) * inv_std;
        }
    }
    put(call, 1, c, dscale);
    put(call, 2, c, db);
    if (!call->out[0].data)
        return;
    double a = number(&call->in[2], c) * inv_std, b = fixed ? 0 : -a * db / m, d = fixed ? 0 : -a * dscale / m;
    if (call->in_count > 5 && call->in[5].data)
        b += number(&call->in[5], c) / m;
    if (call->in_count > 6 && call->in[6].data)
        d += 2 * number(&call->in[6], c) / (m * inv_std);
    EACH_PIECE(&ch, at, n) {
        zt_load_block(vdy->dtype, vdy->data, at, ch.step, n, dy);
        zt_load_block(vx->dtype, vx->data, at, ch.step, n, x);
        for (int64_t i = 0; i < n; i++)
            dy[i] = a * dy[i] + b + d * (x[i] - mean) * inv_std;
        zt_store_block(call->out[0].dtype, call->out[0].data, at, ch.step, n, dy);
    }
}

static void run_grad_channel(void *arg, int64_t c) {
    const struct job *j = arg;
    grad_channel(j->call, &j->bn, c, j->fixed);
}

static bool run_grad(const struct zt_call *call, bool fixed, struct zt_err *err) {
    struct job j = { .call = call, .fixed = fixed };
    return zt_batch_norm_read_to(call->graph, zt_call_node(call), 1, 5, &j.bn, err) &&
           each_channel(&j, run_grad_channel);
}

static bool grad_ref(const struct zt_call *call, struct zt_err *err) {
    return run_grad(call, false, err);
}

static bool fixed_grad_ref(const struct zt_call *call, struct zt_err *err) {
    return run_grad(call, true, err);
}

/* ---- what other back ends are told: a struct zt_launch_batch_norm ---- */

static bool describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    const bool backward = strstr(n->op->name, "Grad") != NULL, standard = n->domain[0] == 0;
    struct zt_batch_norm bn;
    if (!zt_batch_norm_read(g, node, backward, &bn, err))
        return false;
    *(struct zt_launch_batch_norm *)to =
        (struct zt_launch_batch_norm){ .n = bn.n,
                                       .channels = bn.channels,
                                       .spatial = bn.spatial,
                                       .epsilon = (float)bn.epsilon,
                                       .momentum = (float)bn.momentum,
                                       .fixed =
                                           backward ? strstr(n->op->name, "Fixed") != NULL : standard && !trains(n),
                                       .keeps_var = standard };
    return true;
}
#define ON_CUDA(kernel) ZT_CUDA_AS(kernel, zt_cuda_any_floats, describe)

/* ---- gradient rules ---- */

static int times(struct zt_grad *b, int value, double factor) {
    return value < 0 ? -1 : ZT_EMIT(b, "Mul", value, zt_emit_float(b, zt_grad_graph(b)->values[value]->dtype, factor));
}

static void give_three(struct zt_grad *b, int node, const int *out) {
    for (int i = 0; i < 3; i++)
        if (zt_grad_wanted(b, node, i))
            zt_grad_give(b, node, i, out[i]);
}

/* y from the batch's statistics, kept in values `mean` and `inv_std`; running statistics in outputs 1 and 2. */
static void train_rule(struct zt_grad *b, int node, int mean, int inv_std) {
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    double momentum = (double)zt_attr_float(n, "momentum", 0.9f);
    int running[2] = { zt_grad_out(b, node, 1), zt_grad_out(b, node, 2) }, out[3];
    int in[7] = {
        zt_grad_out_or_zero(b, node, 0),   n->in[0], n->in[1], mean, inv_std, times(b, running[0], 1 - momentum),
        times(b, running[1], 1 - momentum)
    };
    zt_emit_node(b,
                 &(struct zt_emission){ "BatchNormGrad", "ztrain", in,
                                        in[6] >= 0   ? 7
                                        : in[5] >= 0 ? 6
                                                     : 5,
                                        n },
                 out, 3);
    give_three(b, node, out);
    for (int i = 0; i < 2; i++)
        if (zt_grad_wanted(b, node, 3 + i) && running[i] >= 0)
            zt_grad_give(b, node, 3 + i, times(b, running[i], momentum));
}

static bool train_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    const int *out = zt_grad_graph(b)->nodes[node]->out;
    train_rule(b, node, out[3], out[4]);
    return true;
}

/* dmean = -scale inv_std db and dvar = -scale inv_std^2 dscale / 2: mean and var are inputs like any other. */
static void statistics_rule(struct zt_grad *b, int node, const int *out) {
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    const struct zt_value *var = zt_in(zt_grad_graph(b), node, 4);
    int epsilon = zt_emit_float(b, var->dtype, (double)zt_attr_float(n, "epsilon", 1e-5f));
    int shifted = ZT_EMIT(b, "Add", n->in[4], epsilon);
    int slope = ZT_EMIT(b, "Div", n->in[1], ZT_EMIT(b, "Sqrt", shifted));
    if (zt_grad_wanted(b, node, 3))
        zt_grad_give(b, node, 3, ZT_EMIT(b, "Neg", ZT_EMIT(b, "Mul", slope, out[2])));
    if (zt_grad_wanted(b, node, 4)) {
        int product = ZT_EMIT(b, "Div", ZT_EMIT(b, "Mul", n->in[1], out[1]), shifted);
        zt_grad_give(b, node, 4, times(b, product, -0.5));
    }
}

static bool batch_norm_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    int out[5];
    if (trains(n)) {
        zt_emit_node(b, &(struct zt_emission){ "BatchNormTrain", "ztrain", n->in, 5, n }, out, 5);
        train_rule(b, node, out[3], out[4]);
        return true;
    }
    int in[5] = { zt_grad_out(b, node, 0), n->in[0], n->in[1], n->in[3], n->in[4] };
    zt_emit_node(b, &(struct zt_emission){ "BatchNormFixedGrad", "ztrain", in, 5, n }, out, 3);
    give_three(b, node, out);
    if (zt_grad_wanted(b, node, 3) || zt_grad_wanted(b, node, 4))
        statistics_rule(b, node, out);
    return true;
}

/* ---- training form ---- */

extern const struct zt_op zt_op_batch_norm_train, zt_op_batch_norm_sync;

/* Makes the row weights a sixth input. The readers of values are updated when all nodes have their training form. */
static bool make_sync(struct zt_graph *g, int node, const struct zt_train_options *options, struct zt_err *err) {
    struct zt_node *n = g->nodes[node];
    int *in = ZT_NEW_N(g->arena, int, 6);
    memcpy(in, n->in, 5 * sizeof *in);
    in[5] = options->row_weight;
    n->in = in;
    n->in_count = options->padded ? 6 : 5;
    zt_node_set_int(g, node, "alone", !options->sync);
    return zt_train_rewrite(g, node, &zt_op_batch_norm_sync, 5, err);
}

static bool batch_norm_train(struct zt_graph *g, int node, const struct zt_train_options *options, struct zt_err *err) {
    struct zt_node *n = g->nodes[node];
    if (options->batch_norm_frozen || options->evaluation) {
        if (n->op->since >= 14)
            zt_node_set_int(g, node, "training_mode", 0);
        g->nodes[node]->out_count = 1;
        return zt_op_infer(g, node, err);
    }
    if (n->out_count > 3)
        n->out_count = 3; /* opset 7 to 13: what follows means other things there */
    if (options->sync || options->padded ? !make_sync(g, node, options, err)
                                         : !zt_train_rewrite(g, node, &zt_op_batch_norm_train, 5, err))
        return false;
    for (int i = 0; i < 2; i++) {
        int statistic = g->nodes[node]->in[3 + i];
        if (g->values[statistic]->origin == ZT_FROM_INITIALIZER)
            zt_graph_add_write_back(g, statistic, g->nodes[node]->out[1 + i]);
    }
    return true;
}

/* ---- rows ---- */

#define FIVE_FLOATS .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT }
#define STANDARD_ROW                                                                                                   \
    .name = "BatchNormalization", .domain = "", .min_in = 5, .max_in = 5, .min_out = 1, FIVE_FLOATS,                   \
    .statistic_in = 1 << 3 | 1 << 4, .infer = batch_norm_infer, .grad = batch_norm_grad, .train = batch_norm_train,    \
    .flops_each = 2, .flags = ZT_OP_PASSES_HALF | ZT_OP_TRAINS_OTHERWISE, .full_in = ~1U, .full_out = ~1U,             \
    .kernel = {                                                                                                        \
        [ZT_REF] = { .run = batch_norm_ref }, [ZT_CPU] = ZT_ON_CPU(zt_batch_norm_cpu), [ZT_CUDA] = ON_CUDA(batch_norm) \
    }
#define GRAD_ROW                                                                                                       \
    .domain = "ztrain", .since = 1, .min_in = 5, .min_out = 1, .max_out = 3, .attrs = own_attrs, .infer = grad_infer,  \
    .flags = ZT_OP_PASSES_HALF, .full_in = ~3U, .full_out = ~1U,                                                       \
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT }

const struct zt_op zt_op_batch_normalization_7 = {
    STANDARD_ROW, .since = 7, .until = 13, .max_out = 5, .attrs = old_attrs, .body = zt_batch_norm_old_function_body,
};
const struct zt_op zt_op_batch_normalization = { STANDARD_ROW, .since = 14, .max_out = 3, .attrs = new_attrs };
/* (x, scale, b, mean, var) -> y, new mean, new var, batch mean, 1 / sqrt(batch var + epsilon) */
const struct zt_op zt_op_batch_norm_train = {
    .name = "BatchNormTrain",
    .domain = "ztrain",
    .since = 1,
    .min_in = 5,
    .max_in = 5,
    .min_out = 5,
    .max_out = 5,
    FIVE_FLOATS,
    .flags = ZT_OP_PASSES_HALF,
    .full_in = ~1U,
    .full_out = ~1U,
    .statistic_in = 1 << 3 | 1 << 4,
    .attrs = own_attrs,
    .infer = train_infer,
    .flops_each = 5,
    .grad = train_grad,
    .body = zt_batch_norm_train_function_body,
    .kernel = { [ZT_REF] = { .run = train_ref },
                [ZT_CPU] = ZT_ON_CPU(zt_batch_norm_cpu),
                [ZT_CUDA] = ON_CUDA(batch_norm) },
};
/* (dy, x, scale, batch mean, inv_std[, gradient of the batch's mean[, of its variance]]) -> dx, dscale, db */
const struct zt_op zt_op_batch_norm_grad = {
    .name = "BatchNormGrad",
    GRAD_ROW,
    .flops_each = 10,
    .max_in = 7,
    .body = zt_batch_norm_grad_function_body,
    .kernel = { [ZT_REF] = { .run = grad_ref },
                [ZT_CPU] = ZT_ON_CPU(zt_batch_norm_grad_cpu),
                [ZT_CUDA] = ON_CUDA(batch_norm_grad) },
};
/* (dy, x, scale, running mean, running var) -> dx, dscale, db */
const struct zt_op zt_op_batch_norm_fixed_grad = {
    .name = "BatchNormFixedGrad",
    GRAD_ROW,
    .flops_each = 4,
    .max_in = 5,
    .body = zt_batch_norm_fixed_grad_function_body,
    .kernel = { [ZT_REF] = { .run = fixed_grad_ref },
                [ZT_CPU] = ZT_ON_CPU(zt_batch_norm_grad_cpu),
                [ZT_CUDA] = ON_CUDA(batch_norm_grad) },
};
