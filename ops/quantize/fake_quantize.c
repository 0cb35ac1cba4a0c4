/* ztrain.FakeQuantize: a QuantizeLinear and the DequantizeLinear that reads it, as one node with a gradient.
 *
 *     v = x / s        q = clip(round(v) + z)        y = (q - z) s
 *
 * Straight-through estimator (Bengio et al., 2013): round counts as the identity, clip as itself,
 *
 *     dx = dy where low <= v + z <= high, 0 elsewhere (and for NaN)
 *
 * Learned step size (LSQ; Esser et al., 2020): by the same rules dq/ds = -x / s^2 = -v / s inside the range, so
 *
 *     ds = g sum dy ((q - z) - v)      inside the range
 *          g sum dy (q - z)            outside, where q is an end of the range
 *     g = 1 / sqrt(N high), N the elements that share the scale: LSQ's factor, which balances the step of a scale
 *
 * The node comes from `join`: when a DequantizeLinear is resolved whose input is a QuantizeLinear with the same scale,
 * zero point and axis. Its forward has the bits of the two nodes. */
#include "ops/quantize/kernels.h"
#include "ops/quantize/quantize_ref.h"

#include "device/threads.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"

#include <stdlib.h>
#include <string.h>

extern const struct zt_op zt_op_fake_quantize;

/* ---- from the two nodes ---- */

/* The node that computes a value; NULL: none does, or the graph is not indexed that far. */
static const struct zt_node *producer_of(const struct zt_graph *g, int id) {
    const struct zt_value *v = g->values[id];
    const struct zt_node *n =
        v->origin == ZT_FROM_NODE && v->producer >= 0 && v->producer < g->node_count ? g->nodes[v->producer] : NULL;
    return n && !n->dead && n->out_count > 0 && n->out[0] == id ? n : NULL;
}

/* The contents of an initializer or of a Constant, which are known before inference. */
static bool contents_of(const struct zt_graph *g, int id, struct zt_tensor *to) {
    const struct zt_value *v = g->values[id];
    *to = (struct zt_tensor){ v->dtype, v->shape, v->data };
    const struct zt_node *from = producer_of(g, id);
    return v->data || (from && zt_constant_tensor(from, to) && to->data);
}

/* One value, or two values of equal contents. */
static bool same_contents(const struct zt_graph *g, int a, int b) {
    struct zt_tensor x, y;
    if (a == b)
        return true;
    if (a < 0 || b < 0 || !contents_of(g, a, &x) || !contents_of(g, b, &y) || x.dtype != y.dtype ||
        !zt_shape_equal(&x.shape, &y.shape))
        return false;
    return memcmp(x.data, y.data, (size_t)zt_shape_count(&x.shape) * zt_dtype_bytes(x.dtype)) == 0;
}

/* The zero point of 0 gives the quantization its type; the reverse may omit it. */
static bool is_zero(const struct zt_graph *g, int id) {
    struct zt_tensor t;
    if (!contents_of(g, id, &t))
        return false;
    for (int64_t i = 0; i < zt_shape_count(&t.shape); i++)
        if (zt_load_double(t.dtype, t.data, i) != 0)
            return false;
    return true;
}

static int input(const struct zt_node *n, int i) {
    return i < n->in_count ? n->in[i] : -1;
}

static bool same_zero(const struct zt_graph *g, int a, int b) {
    return a >= 0 && b >= 0 ? same_contents(g, a, b) : b < 0 && (a < 0 || is_zero(g, a));
}

/* Two Constants of equal contents are one scale; two initializers are not, as each may be learned. */
static bool same_scale(const struct zt_graph *g, int a, int b) {
    return a == b ||
           (g->values[a]->origin == ZT_FROM_NODE && g->values[b]->origin == ZT_FROM_NODE && same_contents(g, a, b));
}

static bool is_pair(const struct zt_graph *g, const struct zt_node *q, const struct zt_node *d) {
    return same_scale(g, q->in[1], d->in[1]) && same_zero(g, input(q, 2), input(d, 2)) &&
           zt_attr_int(q, "axis", 1) == zt_attr_int(d, "axis", 1) &&
           zt_attr_int(q, "block_size", 0) == zt_attr_int(d, "block_size", 0);
}

static void add_int(struct zt_attr *attrs, int *count, const char *name, int64_t value) {
    attrs[(*count)++] = (struct zt_attr){ .name = name, .type = ZT_ATTR_INT, .i = value };
}

void zt_quantize_join(struct zt_graph *g, int node) {
    enum { ATTRS = 6 };
    struct zt_node *d = g->nodes[node];
    const struct zt_node *q = producer_of(g, d->in[0]);
    if (!q || !q->op || strcmp(q->op_type, "QuantizeLinear") != 0 || q->domain[0] || !is_pair(g, q, d))
        return;
    const int in[3] = { q->in[0], q->in[1], input(q, 2) };
    struct zt_attr *attrs = ZT_NEW_N(g->arena, struct zt_attr, ATTRS);
    int count = 0;
    add_int(attrs, &count, "axis", zt_attr_int(q, "axis", 1));
    add_int(attrs, &count, "block_size", zt_attr_int(q, "block_size", 0));
    add_int(attrs, &count, "saturate", zt_attr_int(q, "saturate", 1));
    add_int(attrs, &count, "precision", zt_attr_int(q, "precision", 0));
    add_int(attrs, &count, "type", zt_attr_int(q, "output_dtype", 0));
    add_int(attrs, &count, "output_dtype", zt_attr_int(d, "output_dtype", 0));
    d->op_type = zt_op_fake_quantize.name;
    d->domain = zt_op_fake_quantize.domain;
    d->op = &zt_op_fake_quantize;
    d->opset = 1;
    d->file_index = -1;
    d->in = zt_arena_copy(g->arena, in, sizeof in);
    d->in_count = in[2] >= 0 ? 3 : 2;
    d->attr = attrs;
    d->attr_count = count;
}

/* ---- shapes and gradients ---- */

bool zt_dequantize_type(const struct zt_graph *g, int node, int first, enum zt_dtype *to, struct zt_err *err) {
    const enum zt_dtype scale = zt_in(g, node, first + 1)->dtype;
    const int64_t named = zt_attr_int(g->nodes[node], "output_dtype", 0);
    *to = named > 0 && named < ZT_DTYPES ? (enum zt_dtype)named : scale;
    if (named && (named < 0 || named >= ZT_DTYPES || !zt_dtype_in(*to, ZT_ANY_FLOAT)))
        return zt_node_fail(g, node, err, "attribute \"output_dtype\" is type %lld, wants float, float16 or bfloat16",
                            (long long)named);
    if (!zt_dtype_in(*to, ZT_ANY_FLOAT))
        return zt_node_fail(g, node, err, "a scale of type %s wants the attribute \"output_dtype\"",
                            zt_dtype_name(scale));
    return true;
}

static bool fake_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_quantize q;
    enum zt_dtype dtype;
    if (!zt_quantize_read(g, node, 0, &q, err) || !zt_dequantize_type(g, node, 0, &dtype, err))
        return false;
    if (!zt_dtype_in(q.type, ZT_ANY_INT | ZT_ANY_NARROW_INT | ZT_ANY_NARROW_FLOAT))
        return zt_node_fail(g, node, err, "quantizes to type %s, which is not supported", zt_dtype_name(q.type));
    zt_set_out(g, node, 0, dtype, &zt_in(g, node, 0)->shape);
    return true;
}

static bool grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *dy = zt_in(g, node, 0), *x = zt_in(g, node, 1), *s = zt_in(g, node, 2);
    struct zt_quantize q;
    if (!zt_quantize_read(g, node, 1, &q, err))
        return false;
    if (!zt_shape_equal(&dy->shape, &x->shape))
        return zt_node_fail(g, node, err, "\"%s\" and \"%s\" differ in shape", dy->name, x->name);
    zt_set_out(g, node, 0, x->dtype, &x->shape);
    zt_set_out(g, node, 1, s->dtype, &s->shape);
    return true;
}

static bool fake_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    const bool scale = zt_grad_wanted(b, node, 1);
    const int in[4] = { zt_grad_out(b, node, 0), n->in[0], n->in[1], input(n, 2) };
    int out[2];
    zt_emit_node(b, &(struct zt_emission){ "FakeQuantizeGrad", "ztrain", in, in[3] >= 0 ? 4 : 3, n }, out,
                 scale ? 2 : 1);
    if (zt_grad_wanted(b, node, 0))
        zt_grad_give(b, node, 0, out[0]);
    if (scale)
        zt_grad_give(b, node, 1, out[1]);
    return true;
}

/* ---- reference kernels ---- */

static void fake_piece(const struct zt_quantize_job *job, const struct zt_quantize_run *run) {
    const struct zt_view *y = &job->call->out[0];
    for (int64_t i = 0; i < run->count; i++) {
        const int64_t at = run->at + i, s = run->scale + i * run->step;
        const double scale = zt_quantize_in(job, 1, s), zero = zt_quantize_in(job, 2, s);
        const double v = zt_quantize_divide(&job->q, zt_quantize_in(job, 0, at), scale);
        zt_store_double(y->dtype, y->data, at, zt_dequantized(zt_quantized(&job->q, v, zero), zero, scale));
    }
}

static bool fake_ref(const struct zt_call *call, struct zt_err *err) {
    return zt_quantize_run_ref(call, fake_piece, err);
}

static void grad_piece(const struct zt_quantize_job *job, const struct zt_quantize_run *run) {
    const struct zt_view *dx = &job->call->out[0];
    for (int64_t i = 0; i < run->count; i++) {
        const int64_t at = run->at + i, s = run->scale + i * run->step;
        const double v = zt_quantize_divide(&job->q, zt_quantize_in(job, 1, at), zt_quantize_in(job, 2, s));
        const bool passes = zt_quantize_passes(&job->q, v, zt_quantize_in(job, 3, s));
        zt_store_double(dx->dtype, dx->data, at, passes ? zt_quantize_in(job, 0, at) : 0);
    }
}

/* ds of one run, added to `sum`. */
static void add_scale_gradient(const struct zt_quantize_job *job, const struct zt_quantize_run *run, double *sum) {
    for (int64_t i = 0; i < run->count; i++) {
        const int64_t at = run->at + i, s = run->scale + i * run->step;
        const double zero = zt_quantize_in(job, 3, s);
        const double v = zt_quantize_divide(&job->q, zt_quantize_in(job, 1, at), zt_quantize_in(job, 2, s));
        const double slope = zt_quantized(&job->q, v, zero) - zero - (zt_quantize_passes(&job->q, v, zero) ? v : 0);
        sum[s] += zt_quantize_in(job, 0, at) * slope;
    }
}

static bool scale_gradient(const struct zt_call *call, struct zt_err *err) {
    struct zt_quantize_job job = { .call = call };
    if (!zt_quantize_read(call->graph, zt_call_node(call), 1, &job.q, err))
        return false;
    const int64_t runs = zt_quantize_runs(&job.q);
    const double factor = zt_quantize_scale_factor(&job.q);
    double *sum = zt_calloc((size_t)job.q.scales + 1, sizeof *sum);
    for (int64_t i = 0; i < runs; i++) {
        const struct zt_quantize_run run = zt_quantize_run_at(&job.q, i);
        add_scale_gradient(&job, &run, sum);
    }
    for (int64_t i = 0; i < job.q.scales; i++)
        zt_store_double(call->out[1].dtype, call->out[1].data, i, factor * sum[i]);
    free(sum);
    return true;
}

static bool grad_ref(const struct zt_call *call, struct zt_err *err) {
    const bool scale = call->out_count > 1 && call->out[1].data;
    return (!call->out[0].data || zt_quantize_run_ref(call, grad_piece, err)) && (!scale || scale_gradient(call, err));
}

/* ---- rows ---- */

enum {
    X_TYPES = ZT_ANY_FLOAT | ZT_BIT(ZT_INT32),
    SCALE_TYPES = ZT_ANY_FLOAT | ZT_BIT(ZT_FLOAT8E8M0),
    Q_TYPES = ZT_ANY_NARROW_INT | ZT_ANY_NARROW_FLOAT | ZT_BIT(ZT_INT8) | ZT_BIT(ZT_UINT8) | ZT_BIT(ZT_INT16) |
              ZT_BIT(ZT_UINT16),
};

static const struct zt_attr_spec fake_attrs[] = { { "axis", ZT_ATTR_INT },
                                                  { "block_size", ZT_ATTR_INT },
                                                  { "saturate", ZT_ATTR_INT },
                                                  { "type", ZT_ATTR_INT },
                                                  { "precision", ZT_ATTR_INT, .element_type = true },
                                                  { "output_dtype", ZT_ATTR_INT, .element_type = true },
                                                  { 0 } };

const struct zt_op zt_op_fake_quantize = {
    .name = "FakeQuantize",
    .domain = "ztrain",
    .since = 1,
    ZT_ONE_OUT(2, 3),
    .flags = ZT_OP_LIGHT,
    .in_types = { X_TYPES, SCALE_TYPES, Q_TYPES },
    .attrs = fake_attrs,
    .infer = fake_infer,
    .grad = fake_grad,
    .no_grad_in = 1 << 2,
    .scale_in = 1 << 1,
    .body = zt_fake_quantize_function_body,
    .kernel = { [ZT_REF] = { .run = fake_ref },
                [ZT_CPU] = ZT_ON_CPU(zt_quantize_cpu),
                [ZT_CUDA] = ZT_CUDA_AS(quantize, zt_quantize_takes_cuda, zt_quantize_describe) },
};

const struct zt_op zt_op_fake_quantize_grad = {
    .name = "FakeQuantizeGrad",
    .domain = "ztrain",
    .since = 1,
    .min_in = 3,
    .max_in = 4,
    .min_out = 1,
    .max_out = 2,
    .flags = ZT_OP_LIGHT,
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, SCALE_TYPES, Q_TYPES },
    .attrs = fake_attrs,
    .infer = grad_infer,
    .body = zt_fake_quantize_grad_function_body,
    .kernel = { [ZT_REF] = { .run = grad_ref },
                [ZT_CPU] = ZT_ON_CPU(zt_fake_quantize_grad_cpu),
                [ZT_CUDA] = ZT_CUDA_AS(fake_quantize_grad, zt_quantize_takes_cuda, zt_quantize_describe) },
};
