/* Group and instance normalisation with the Swish behind it, between convolutions on the CPU: a pass over the
 * activations where there were two, and three backwards for which what Swish was given is not kept.
 *
 *     ztrain.NormSwish(x, scale, bias) -> y, mean, inv_std
 *     ztrain.NormSwishGrad(dy, x, scale, mean, inv_std, bias[, z]) -> dx, dscale, dbias
 *
 *     y = Swish(v), v = GroupNormalization(x, scale, bias)        dx, ... = NormGrad(SwishGrad(dy, v), x, scale, ...) +
 * z
 *
 * z is the gradient of x from its other readers, as residual networks have it.
 *
 * FLOPs per element are those of the nodes they stand for (norm.c), one for Swish and one for its gradient.
 *
 * The attributes are those of ztrain.NormStats (norm.h), and Swish's alpha. The kernels want blocked activations: the
 * pattern norm_swish takes only a Swish that a convolution reads. */
#include "ops/norm/kernels.h"
#include "ops/norm/norm.h"
#include "graph/passes/fusion/fuse.h"
#include "ops/kernel/shape.h"

#include <string.h>

extern const struct zt_op zt_op_add, zt_op_group_normalization, zt_op_norm_grad, zt_op_norm_stats, zt_op_swish,
    zt_op_swish_grad;

enum { BIAS = 5, ADDED = 6 }; /* inputs of the gradient */

/* ---- rows ---- */

static bool has_entries(const struct zt_graph *g, int node, int in, int64_t want, struct zt_err *err) {
    const struct zt_value *v = zt_in(g, node, in);
    if (v && zt_shape_count(&v->shape) == want)
        return true;
    return zt_node_fail(g, node, err, "input %d does not have %lld elements", in, (long long)want);
}

static bool swish_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_norm norm;
    const struct zt_value *x = zt_in(g, node, 0);
    if (!zt_norm_read_rows(g, node, 0, &norm, err) || !has_entries(g, node, 1, norm.period * norm.per_row, err) ||
        !has_entries(g, node, 2, norm.period * norm.per_row, err))
        return false;
    zt_set_out(g, node, 0, x->dtype, &x->shape);
    for (int i = 1; i < 3; i++)
        zt_set_out(g, node, i, x->dtype == ZT_DOUBLE ? ZT_DOUBLE : ZT_FLOAT, &(struct zt_shape){ 1, { norm.rows } });
    return true;
}

static bool swish_grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_norm norm;
    const struct zt_value *x = zt_in(g, node, 1), *scale = zt_in(g, node, 2);
    if (!zt_norm_read_rows(g, node, 1, &norm, err) || !has_entries(g, node, 0, zt_shape_count(&x->shape), err) ||
        !has_entries(g, node, 3, norm.rows, err) || !has_entries(g, node, 4, norm.rows, err) ||
        !has_entries(g, node, 2, norm.period * norm.per_row, err) ||
        !has_entries(g, node, BIAS, norm.period * norm.per_row, err) ||
        (zt_in(g, node, ADDED) && !has_entries(g, node, ADDED, zt_shape_count(&x->shape), err)))
        return false;
    zt_set_out(g, node, 0, x->dtype, &x->shape);
    zt_set_out(g, node, 1, scale->dtype, &scale->shape);
    zt_set_out(g, node, 2, scale->dtype, &scale->shape);
    return true;
}

static bool swish_ref(const struct zt_call *call, struct zt_err *err) {
    const struct zt_view *y = &call->out[0];
    return zt_fuse_run(call, &zt_op_group_normalization,
                       &(struct zt_fused_call){ call->in, 3, call->out, call->out_count }, err) &&
           zt_fuse_run(call, &zt_op_swish, &(struct zt_fused_call){ y, 1, y, 1 }, err);
}

/* Recomputes the input of Swish from the statistics. */
static void normalise(const struct zt_norm *n, const struct zt_view *in, const struct zt_view *v) {
    for (int64_t i = 0; i < n->rows * n->length; i++) {
        const int64_t row = i / n->length, entry = row % n->period * n->per_row + i % n->length / n->per_scale;
        const double mean = zt_load_double(in[3].dtype, in[3].data, row);
        const double factor =
            zt_load_double(in[4].dtype, in[4].data, row) * zt_load_double(in[2].dtype, in[2].data, entry);
        zt_store_double(v->dtype, v->data, i,
                        (zt_load_double(in[1].dtype, in[1].data, i) - mean) * factor +
                            zt_load_double(in[BIAS].dtype, in[BIAS].data, entry));
    }
}

static bool swish_grad_ref(const struct zt_call *call, struct zt_err *err) {
    const struct zt_view *in = call->in;
    struct zt_norm norm;
    if (!zt_norm_read_rows(call->graph, zt_call_node(call), 1, &norm, err))
        return false;
    struct zt_arena *arena = zt_arena_create();
    struct zt_view v = in[1], g = in[0];
    v.data = zt_arena_alloc(arena, (size_t)zt_shape_count(&v.shape) * zt_dtype_bytes(v.dtype));
    g.data = zt_arena_alloc(arena, (size_t)zt_shape_count(&g.shape) * zt_dtype_bytes(g.dtype));
    normalise(&norm, in, &v);
    const struct zt_view swish[2] = { in[0], v }, grad[5] = { g, in[1], in[2], in[3], in[4] }, *dx = &call->out[0];
    const bool adds = call->in_count > ADDED && call->in[ADDED].data;
    const bool ok =
        zt_fuse_run(call, &zt_op_swish_grad, &(struct zt_fused_call){ swish, 2, &g, 1 }, err) &&
        zt_fuse_run(call, &zt_op_norm_grad, &(struct zt_fused_call){ grad, 5, call->out, call->out_count }, err) &&
        (!adds ||
         zt_fuse_run(call, &zt_op_add, &(struct zt_fused_call){ (struct zt_view[]){ *dx, in[ADDED] }, 2, dx, 1 }, err));
    zt_arena_destroy(arena);
    return ok;
}

static const struct zt_attr_spec attrs[] = { { "alpha", ZT_ATTR_FLOAT }, /* first, where Swish's kernel looks for it */
                                             { "rows", ZT_ATTR_INT, true },    { "period", ZT_ATTR_INT, true },
                                             { "per_row", ZT_ATTR_INT, true }, { "centred", ZT_ATTR_INT, true },
                                             { "epsilon", ZT_ATTR_FLOAT },     { 0 } };
const struct zt_op zt_op_norm_swish = {
    .name = "NormSwish",
    .domain = "ztrain",
    .since = 1,
    .min_in = 3,
    .max_in = 3,
    .min_out = 1,
    .max_out = 3,
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT },
    .attrs = attrs,
    .infer = swish_infer,
    .flops_each = 6,
    .kernel = { [ZT_REF] = { .run = swish_ref }, [ZT_CPU] = ZT_IF_DNNL(zt_norm_swish_cpu) },
};
const struct zt_op zt_op_norm_swish_grad = {
    .name = "NormSwishGrad",
    .domain = "ztrain",
    .since = 1,
    .min_in = 6,
    .max_in = 7,
    .min_out = 1,
    .max_out = 3,
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT },
    .same_type = 1 << 1 | 1 << 6,
    .attrs = attrs,
    .infer = swish_grad_infer,
    .flops_each = 11,
    .kernel = { [ZT_REF] = { .run = swish_grad_ref }, [ZT_CPU] = ZT_IF_DNNL(zt_norm_swish_grad_cpu) },
};

/* ---- pattern ---- */

/* The nodes; -1: there is no gradient, nothing is added to it. */
struct chain {
    int norm, swish, stats, swish_grad, norm_grad, add;
};

/* The normalisation before the Swish, if a convolution reads what comes of it and the kernels know its shape. */
static int norm_before(const struct zt_graph *g, int swish) {
    const struct zt_kernel *kernel = &zt_op_norm_swish.kernel[ZT_CPU];
    int norm = zt_fuse_producer(g, swish, 0, "GroupNormalization", false);
    if (norm < 0)
        norm = zt_fuse_producer(g, swish, 0, "InstanceNormalization", false);
    const bool takes = norm >= 0 && zt_in(g, norm, 2) && kernel->supports && kernel->supports(g, norm) &&
                       zt_fuse_reader(g, g->nodes[swish]->out[0], 0, "Conv") >= 0;
    return takes ? norm : -1;
}

/* Finds the nodes whose outputs the gradient of the normalisation alone reads. */
static bool find_grads(const struct zt_graph *g, struct chain *c) {
    const struct zt_node *norm = g->nodes[c->norm], *swish_grad = g->nodes[c->swish_grad];
    c->norm_grad = zt_fuse_reader(g, swish_grad->out[0], 0, zt_op_norm_grad.name);
    if (c->norm_grad < 0 || !zt_fuse_read_only_by(g, swish_grad->out[0], &c->norm_grad, 1))
        return false;
    const struct zt_node *grad = g->nodes[c->norm_grad];
    c->stats = zt_fuse_producer(g, c->norm_grad, 4, zt_op_norm_stats.name, true);
    return grad->in_count == 5 && grad->in[1] == norm->in[0] && grad->in[2] == norm->in[1] && c->stats >= 0 &&
           g->nodes[c->stats]->in[0] == norm->in[0] && grad->in[3] == g->nodes[c->stats]->out[0] &&
           zt_fuse_read_only_by(g, grad->in[3], &c->norm_grad, 1) && grad->out[0] >= 0 &&
           zt_graph_users(g, grad->out[0], NULL) > 0;
}

static bool find(const struct zt_graph *g, int swish, struct chain *c) {
    if (g->nodes[swish]->op != &zt_op_swish)
        return false;
    *c = (struct chain){ norm_before(g, swish), swish, -1, -1, -1, -1 };
    if (c->norm < 0)
        return false;
    const int given = g->nodes[swish]->in[0];
    c->swish_grad = zt_fuse_reader(g, given, 1, zt_op_swish_grad.name);
    return zt_fuse_read_only_by(g, given, (int[]){ swish, c->swish_grad }, c->swish_grad < 0 ? 1 : 2) &&
           (c->swish_grad < 0 || find_grads(g, c));
}

/* The sum that alone reads dx, and what it adds. */
static void find_sum(const struct zt_graph *g, struct chain *c, int *z) {
    const int dx = g->nodes[c->norm_grad]->out[0];
    for (int side = 0; side < 2 && c->add < 0; side++) {
        const int add = zt_fuse_reader(g, dx, side, "Add");
        const bool alike = add >= 0 && zt_fuse_read_only_by(g, dx, &add, 1) &&
                           g->nodes[add]->phase == g->nodes[c->norm_grad]->phase &&
                           g->nodes[add]->stage == g->nodes[c->norm_grad]->stage &&
                           zt_shape_equal(&zt_in(g, add, 0)->shape, &zt_in(g, add, 1)->shape);
        if (alike && g->nodes[add]->in[1 - side] != dx) {
            c->add = add;
            *z = g->nodes[add]->in[1 - side];
        }
    }
}

static bool fuse_grad(struct zt_graph *g, const struct zt_op_table *table, struct chain *c, const struct zt_node *like,
                      struct zt_err *err) {
    const int *x = g->nodes[c->norm]->in, *stats = g->nodes[c->stats]->out;
    const struct zt_node *grad = g->nodes[c->norm_grad];
    int in[ADDED + 1] = { g->nodes[c->swish_grad]->in[0], x[0], x[1], stats[0], stats[1], x[2], -1 };
    int out[3] = { grad->out[0], -1, -1 };
    memcpy(out, grad->out, (size_t)grad->out_count * sizeof *out);
    find_sum(g, c, &in[ADDED]);
    if (c->add >= 0)
        out[0] = g->nodes[c->add]->out[0];
    g->nodes[c->stats]->dead = g->nodes[c->swish_grad]->dead = g->nodes[c->norm_grad]->dead = true;
    const struct zt_fused_node with = {
        zt_op_norm_swish_grad.name, in, c->add >= 0 ? ADDED + 1 : ADDED, out, grad->out_count, like
    };
    return zt_fuse_replace(g, table, c->add >= 0 ? c->add : c->norm_grad, &with, err);
}

static bool fuse_norm_swish(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    struct chain c;
    struct zt_norm n;
    if (!find(g, node, &c) || !zt_norm_read(g, c.norm, &n, err))
        return false;
    struct zt_node like = { .attr = ZT_NEW_N(g->arena, struct zt_attr, ZT_NORM_ATTRS + 1),
                            .attr_count = ZT_NORM_ATTRS + 1 };
    zt_norm_attrs(&n, like.attr);
    like.attr[ZT_NORM_ATTRS] =
        (struct zt_attr){ .name = "alpha", .type = ZT_ATTR_FLOAT, .f = zt_attr_float(g->nodes[node], "alpha", 1) };
    int out[3] = { g->nodes[node]->out[0], -1, -1 };
    if (c.norm_grad >= 0) {
        memcpy(out + 1, g->nodes[c.stats]->out, 2 * sizeof *out);
        if (!fuse_grad(g, table, &c, &like, err))
            return false;
    }
    g->nodes[c.norm]->dead = true;
    return zt_fuse_replace(
        g, table, node,
        &(struct zt_fused_node){ zt_op_norm_swish.name, g->nodes[c.norm]->in, 3, out, c.norm_grad >= 0 ? 3 : 1, &like },
        err);
}
const struct zt_pattern zt_pattern_norm_swish = { "norm_swish", 1 << ZT_CPU, fuse_norm_swish };
