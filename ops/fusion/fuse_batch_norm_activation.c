/* Batch normalisation in training form with the activation behind it on the CPU: two passes over the activations where
 * there were three, and two backwards for which what the activation was given is not kept.
 *
 *     ztrain.BatchNormActivation(x, scale, b, mean, var) -> y, new mean, new var, batch mean, inv_std
 *     ztrain.BatchNormActivationGrad(dy, x, scale, batch mean, inv_std, b) -> dx, dscale, db
 *
 *     y = f(v), v = BatchNormTrain(x, ...)      dx, ... = BatchNormGrad(dy f'(v), x, ...)
 *     v = (x - batch mean) scale inv_std + b, once more for the gradient
 *
 * f is what the attribute `activation` names: Clip between `min` and `max`, Swish with `alpha`, HardSwish, or Relu.
 *
 * The pattern batch_norm_activation takes an activation whose bounds are constants with 0 between them: the kernels
 * want f(0) = 0, which keeps the padding of blocked activations zero. FLOPs per element are those of the nodes. ReLU
 * has a pair of its own, which also adds (ops/norm/fuse_batch_norm_relu.c); the pattern batch_norm_relu_recomputed
 * replaces its gradient where nothing is added, as reading y twice takes longer than computing its sign. */
#include "graph/passes/fusion/fuse.h"
#include "graph/passes/fusion/pattern.h"
#include "ops/norm/kernels.h"
#include "ops/norm/norm.h"
#include "ops/kernel/shape.h"

#include <math.h>
#include <string.h>

extern const struct zt_op zt_op_batch_norm_train, zt_op_batch_norm_grad, zt_op_clip, zt_op_clip_6, zt_op_clip_grad,
    zt_op_relu, zt_op_relu_grad, zt_op_batch_norm_relu, zt_op_batch_norm_relu_grad, zt_op_swish, zt_op_swish_grad,
    zt_op_hard_swish, zt_op_hard_swish_grad;

enum { STATISTICS_END = 5, BIAS = 5 }; /* inputs that hold a number a channel end there; BIAS: of the gradient */

/* ---- rows ---- */

static const struct {
    const char *name;
    const struct zt_op *forward, *gradient;
} activations[] = { { "Clip", &zt_op_clip, &zt_op_clip_grad },
                    { "Swish", &zt_op_swish, &zt_op_swish_grad },
                    { "HardSwish", &zt_op_hard_swish, &zt_op_hard_swish_grad },
                    { "Relu", &zt_op_relu, &zt_op_relu_grad } };
enum { ACTIVATIONS = sizeof activations / sizeof *activations };

static int named(const char *name) {
    for (int i = 0; i < ACTIVATIONS; i++)
        if (strcmp(activations[i].name, name) == 0)
            return i;
    return -1;
}

static int activation_of(const struct zt_node *n) {
    return named(zt_attr_text(n, "activation", ""));
}

static bool has_activation(const struct zt_graph *g, int node, struct zt_err *err) {
    return activation_of(g->nodes[node]) >= 0 ||
           zt_node_fail(g, node, err, "activation \"%s\" is none of Clip, Swish, HardSwish, Relu",
                        zt_attr_text(g->nodes[node], "activation", ""));
}

static bool activation_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_batch_norm bn;
    if (!has_activation(g, node, err) || !zt_batch_norm_read_to(g, node, 0, STATISTICS_END, &bn, err))
        return false;
    zt_batch_norm_train_outs(g, node);
    return true;
}

static bool activation_grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_batch_norm bn;
    const struct zt_value *dy = zt_in(g, node, 0), *x = zt_in(g, node, 1);
    if (!has_activation(g, node, err) || !zt_batch_norm_read_to(g, node, 1, BIAS + 1, &bn, err))
        return false;
    if (!zt_shape_equal(&dy->shape, &x->shape))
        return zt_node_fail(g, node, err, "\"%s\" and \"%s\" differ in shape", dy->name, x->name);
    zt_batch_norm_grad_outs(g, node);
    return true;
}

static bool activation_ref(const struct zt_call *call, struct zt_err *err) {
    const struct zt_view *y = &call->out[0];
    const struct zt_op *f = activations[activation_of(call->node)].forward;
    return zt_fuse_run(call, &zt_op_batch_norm_train,
                       &(struct zt_fused_call){ call->in, STATISTICS_END, call->out, call->out_count }, err) &&
           zt_fuse_run(call, f, &(struct zt_fused_call){ y, 1, y, 1 }, err);
}

/* Recomputes the input of the activation. */
static void normalise(const struct zt_batch_norm *bn, const struct zt_view *in, const struct zt_view *v) {
    for (int64_t i = 0; i < bn->n * bn->channels * bn->spatial; i++) {
        const int64_t c = i / bn->spatial % bn->channels;
        const double factor = zt_load_double(in[2].dtype, in[2].data, c) * zt_load_double(in[4].dtype, in[4].data, c);
        zt_store_double(v->dtype, v->data, i,
                        (zt_load_double(in[1].dtype, in[1].data, i) - zt_load_double(in[3].dtype, in[3].data, c)) *
                                factor +
                            zt_load_double(in[BIAS].dtype, in[BIAS].data, c));
    }
}

static bool activation_grad_ref(const struct zt_call *call, struct zt_err *err) {
    const struct zt_view *in = call->in;
    struct zt_batch_norm bn;
    if (!zt_batch_norm_read_to(call->graph, zt_call_node(call), 1, BIAS + 1, &bn, err))
        return false;
    struct zt_arena *arena = zt_arena_create();
    struct zt_view v = in[1], g = in[0];
    v.data = zt_arena_alloc(arena, (size_t)zt_shape_count(&v.shape) * zt_dtype_bytes(v.dtype));
    g.data = zt_arena_alloc(arena, (size_t)zt_shape_count(&g.shape) * zt_dtype_bytes(g.dtype));
    normalise(&bn, in, &v);
    const struct zt_view of[2] = { in[0], v }, grad[STATISTICS_END] = { g, in[1], in[2], in[3], in[4] };
    const bool ok = zt_fuse_run(call, activations[activation_of(call->node)].gradient,
                                &(struct zt_fused_call){ of, 2, &g, 1 }, err) &&
                    zt_fuse_run(call, &zt_op_batch_norm_grad,
                                &(struct zt_fused_call){ grad, STATISTICS_END, call->out, call->out_count }, err);
    zt_arena_destroy(arena);
    return ok;
}

static const struct zt_attr_spec attrs[] = { { "alpha", ZT_ATTR_FLOAT }, /* first, where Swish's kernel looks for it */
                                             { "activation", ZT_ATTR_STRING, true },
                                             { "min", ZT_ATTR_FLOAT },
                                             { "max", ZT_ATTR_FLOAT },
                                             { "epsilon", ZT_ATTR_FLOAT },
                                             { "momentum", ZT_ATTR_FLOAT },
                                             { 0 } };
#define FLOATS                                                                                                         \
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT }, .attrs = attrs
const struct zt_op zt_op_batch_norm_activation = {
    .name = "BatchNormActivation",
    .domain = "ztrain",
    .since = 1,
    .min_in = STATISTICS_END,
    .max_in = STATISTICS_END,
    .min_out = 5,
    .max_out = 5,
    FLOATS,
    .statistic_in = 1 << 3 | 1 << 4,
    .infer = activation_infer,
    .flops_each = 5,
    .kernel = { [ZT_REF] = { .run = activation_ref }, [ZT_CPU] = ZT_IF_DNNL(zt_batch_norm_activation_cpu) },
};
const struct zt_op zt_op_batch_norm_activation_grad = {
    .name = "BatchNormActivationGrad",
    .domain = "ztrain",
    .since = 1,
    .min_in = BIAS + 1,
    .max_in = BIAS + 1,
    .min_out = 1,
    .max_out = 3,
    FLOATS,
    .same_type = 1 << 1,
    .infer = activation_grad_infer,
    .flops_each = 12,
    .kernel = { [ZT_REF] = { .run = activation_grad_ref }, [ZT_CPU] = ZT_IF_DNNL(zt_batch_norm_activation_grad_cpu) },
};

/* ---- pattern ---- */

/* The nodes of one place; the gradient's are -1 where there is none. */
struct group {
    int norm, activation, activation_grad, norm_grad;
};

static int kind_of(const struct zt_op *op) {
    for (int i = 0; i < ACTIVATIONS; i++)
        if (op == activations[i].forward && op != &zt_op_relu)
            return i;
    return op == &zt_op_clip_6 ? named("Clip") : -1;
}

/* Whether nothing but BatchNormGrad reads the activation's gradient, and it is that of the normalisation. */
static bool find_grads(const struct zt_graph *g, struct group *c) {
    const struct zt_node *norm = g->nodes[c->norm], *activation_grad = g->nodes[c->activation_grad];
    c->norm_grad = zt_fuse_reader(g, activation_grad->out[0], 0, zt_op_batch_norm_grad.name);
    if (c->norm_grad < 0 || !zt_fuse_read_only_by(g, activation_grad->out[0], &c->norm_grad, 1))
        return false;
    const struct zt_node *grad = g->nodes[c->norm_grad];
    return grad->in_count == STATISTICS_END && grad->in[1] == norm->in[0] && grad->in[2] == norm->in[1] &&
           grad->in[3] == norm->out[3] && grad->in[4] == norm->out[4] && grad->stage == norm->stage;
}

static bool find(const struct zt_graph *g, int node, int kind, struct group *c) {
    *c = (struct group){ zt_fuse_producer(g, node, 0, zt_op_batch_norm_train.name, false), node, -1, -1 };
    if (c->norm < 0 || g->nodes[c->norm]->op != &zt_op_batch_norm_train)
        return false;
    const int given = g->nodes[node]->in[0];
    c->activation_grad = zt_fuse_reader(g, given, 1, activations[kind].gradient->name);
    return zt_fuse_read_only_by(g, given, (int[]){ node, c->activation_grad }, c->activation_grad < 0 ? 1 : 2) &&
           (c->activation_grad < 0 || find_grads(g, c));
}

/* A bound of Clip: an attribute up to opset 10, then an input. */
static bool bound(const struct zt_graph *g, int node, int in, const char *attr, float *to) {
    const struct zt_node *n = g->nodes[node];
    double value = (double)zt_attr_float(n, attr, *to);
    if (in < n->in_count && n->in[in] >= 0 && !zt_pattern_constant(g, n->in[in], &value))
        return false;
    *to = (float)value;
    return true;
}

/* The attributes of the fused nodes. */
static bool describe(struct zt_graph *g, const struct group *c, int kind, struct zt_node *to) {
    const struct zt_node *norm = g->nodes[c->norm], *activation = g->nodes[c->activation];
    float low = -INFINITY, high = INFINITY;
    if (activations[kind].forward == &zt_op_clip &&
        (!bound(g, c->activation, 1, "min", &low) || !bound(g, c->activation, 2, "max", &high)))
        return false;
    const struct zt_attr attr[] = {
        { .name = "alpha", .type = ZT_ATTR_FLOAT, .f = zt_attr_float(activation, "alpha", 1) },
        { .name = "activation", .type = ZT_ATTR_STRING, .s = activations[kind].name },
        { .name = "min", .type = ZT_ATTR_FLOAT, .f = low },
        { .name = "max", .type = ZT_ATTR_FLOAT, .f = high },
        { .name = "epsilon", .type = ZT_ATTR_FLOAT, .f = zt_attr_float(norm, "epsilon", 1e-5F) },
        { .name = "momentum", .type = ZT_ATTR_FLOAT, .f = zt_attr_float(norm, "momentum", 0.9F) }
    };
    *to = (struct zt_node){ .attr = zt_arena_copy(g->arena, attr, sizeof attr),
                            .attr_count = sizeof attr / sizeof *attr };
    return low <= 0 && high >= 0;
}

static bool replace_grads(struct zt_graph *g, const struct zt_op_table *table, const struct group *c,
                          const struct zt_node *like, struct zt_err *err) {
    const int *of = g->nodes[c->norm]->in;
    const struct zt_node *grad = g->nodes[c->norm_grad];
    const int in[BIAS + 1] = { g->nodes[c->activation_grad]->in[0], of[0], of[1], grad->in[3], grad->in[4], of[2] };
    g->nodes[c->activation_grad]->dead = true;
    return zt_fuse_replace(g, table, c->norm_grad,
                           &(struct zt_fused_node){ zt_op_batch_norm_activation_grad.name, in, BIAS + 1, grad->out,
                                                    grad->out_count, like },
                           err);
}

static bool fuse(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    const struct zt_kernel *kernel = &zt_op_batch_norm_activation.kernel[ZT_CPU];
    const int kind = kind_of(g->nodes[node]->op);
    struct group c;
    struct zt_node like;
    if (kind < 0 || !kernel->supports || !find(g, node, kind, &c) || !kernel->supports(g, c.norm) ||
        !describe(g, &c, kind, &like))
        return false;
    int out[5];
    memcpy(out, g->nodes[c.norm]->out, sizeof out);
    out[0] = g->nodes[node]->out[0];
    if (c.norm_grad >= 0 && !replace_grads(g, table, &c, &like, err))
        return false;
    g->nodes[c.norm]->dead = true;
    return zt_fuse_replace(g, table, node,
                           &(struct zt_fused_node){ zt_op_batch_norm_activation.name, g->nodes[c.norm]->in,
                                                    STATISTICS_END, out, 5, &like },
                           err);
}
const struct zt_pattern zt_pattern_batch_norm_activation = { "batch_norm_activation", 1 << ZT_CPU, fuse };

/* ---- the gradient of BatchNormRelu ---- */

/* Whether y is what the forward node makes of what the gradient reads, and nothing was added. */
static bool is_plain_relu(const struct zt_node *forward, const struct zt_node *grad) {
    return forward->op == &zt_op_batch_norm_relu && (forward->in_count <= BIAS || forward->in[BIAS] < 0) &&
           forward->in[0] == grad->in[1] && forward->in[1] == grad->in[2] && forward->out[3] == grad->in[3] &&
           forward->out[4] == grad->in[4] && forward->stage == grad->stage;
}

static bool fuse_recomputed(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    const struct zt_kernel *kernel = &zt_op_batch_norm_activation_grad.kernel[ZT_CPU];
    const struct zt_node grad = *g->nodes[node];
    if (grad.op != &zt_op_batch_norm_relu_grad || grad.out_count > 3 || !kernel->supports || !kernel->supports(g, node))
        return false;
    const struct zt_value *y = zt_in(g, node, BIAS);
    const struct zt_node *forward = y->origin == ZT_FROM_NODE ? g->nodes[y->producer] : NULL;
    if (!forward || forward->dead || !is_plain_relu(forward, &grad))
        return false;
    const struct zt_attr attr[] = {
        { .name = "activation", .type = ZT_ATTR_STRING, .s = "Relu" },
        { .name = "epsilon", .type = ZT_ATTR_FLOAT, .f = zt_attr_float(&grad, "epsilon", 1e-5F) }
    };
    const struct zt_node like = { .attr = zt_arena_copy(g->arena, attr, sizeof attr),
                                  .attr_count = sizeof attr / sizeof *attr };
    const int in[BIAS + 1] = { grad.in[0], grad.in[1], grad.in[2], grad.in[3], grad.in[4], forward->in[2] };
    return zt_fuse_replace(
        g, table, node,
        &(struct zt_fused_node){ zt_op_batch_norm_activation_grad.name, in, BIAS + 1, grad.out, grad.out_count, &like },
        err);
}
const struct zt_pattern zt_pattern_batch_norm_relu_recomputed = { "batch_norm_relu_recomputed", 1 << ZT_CPU,
                                                                  fuse_recomputed };
