#include "graph/passes/precision/half_precision.h"

#include "graph/passes/precision/to_float.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- half types ---- */

struct casts {
    struct zt_graph *g;
    const struct zt_op_table *table;
    int values;
    enum zt_dtype dtype;             /* ZT_BFLOAT16, ZT_FLOAT16 */
    const struct zt_half_options *o; /* NULL: casts between computed values alone */
    int *half;                       /* by value: its half copy, -1 none yet */
    bool *viewed;                    /* by value: of a node that is in the half type for the sake of views alone */
    struct zt_err *err;
};

/* A Cast of `from` to `dtype` standing just before (or behind) node `at`. */
static int add_cast(struct casts *c, int from, int to, enum zt_dtype dtype, int at) {
    struct zt_graph *g = c->g;
    struct zt_shape shape = g->values[from]->shape;
    if (to < 0)
        to = zt_graph_add_value(g, NULL, dtype, &shape);
    int64_t place = g->nodes[at]->place;
    enum zt_phase phase = g->nodes[at]->phase;
    int stage = g->nodes[at]->stage;
    int node =
        zt_graph_add_node(g, &(struct zt_node_spec){ zt_arena_printf(g->arena, "cast of %s", g->values[from]->name),
                                                     "Cast", "", ZT_OPSET, &from, 1, &to, 1 });
    zt_node_set_int(g, node, "to", dtype);
    g->nodes[node]->place = place;
    g->nodes[node]->phase = phase;
    g->nodes[node]->stage = stage;
    return zt_op_resolve(c->table, g, node, c->err) && zt_op_infer(g, node, c->err) ? to : -1;
}

/* The view of node `view`, applied to `seen` instead of its first input, for node `at`. */
static int add_view(struct casts *c, int view, int seen, int at) {
    struct zt_graph *g = c->g;
    const struct zt_node *n = g->nodes[view];
    const int to = zt_graph_add_value(g, NULL, ZT_UNDEFINED, NULL);
    int *in = zt_arena_copy(g->arena, n->in, (size_t)n->in_count * sizeof *in);
    in[0] = seen;
    const int node = zt_graph_copy_node(g, view, at, in, &to);
    g->nodes[node]->name = zt_arena_printf(g->arena, "%s in half", g->nodes[view]->name);
    return zt_op_infer(g, node, c->err) ? to : -1;
}

/* The node that computes a float value as a view of another float value; -1: none. */
static int view_of(const struct zt_graph *g, int value) {
    const int from = g->values[value]->origin == ZT_FROM_NODE ? g->values[value]->producer : -1;
    return from >= 0 && zt_op_is_view(g->nodes[from]) && zt_in(g, from, 0)->dtype == ZT_FLOAT ? from : -1;
}

/* Larger constants are cast by a node, except frozen weights. */
enum { CONSTANT_BYTES = 1 << 16 };

static int add_constant(struct casts *c, const struct zt_value *v) {
    const struct zt_shape shape = v->shape;
    const int64_t count = zt_shape_count(&shape);
    uint16_t data[CONSTANT_BYTES / sizeof(float)]; /* copied */
    for (int64_t i = 0; i < count; i++)
        zt_store_double(c->dtype, data, i, zt_load_double(ZT_FLOAT, v->data, i));
    return zt_graph_add_constant(c->g, NULL, c->dtype, &shape, data);
}

/* The frozen weight that a float value holds, directly or behind the Cast that zt_pass_to_float() left; -1: none. */
static int frozen_of(const struct zt_graph *g, int value) {
    const struct zt_value *v = g->values[value];
    const struct zt_node *n = v->origin == ZT_FROM_NODE && v->producer >= 0 ? g->nodes[v->producer] : NULL;
    const int from = n && n->op->flags & ZT_OP_CAST ? n->in[0] : value;
    return zt_value_is_frozen(g->values[from]) ? from : -1;
}

/* A frozen weight in the half type: as it is stored, or one converted copy for the whole process. */
static int half_weight(struct casts *c, int weight) {
    struct zt_graph *g = c->g;
    const struct zt_value *w = g->values[weight];
    if (w->dtype == c->dtype)
        return weight;
    const struct zt_shape shape = w->shape;
    const int half = zt_graph_add_value(g, NULL, c->dtype, &shape);
    struct zt_value *v = g->values[half];
    v->origin = ZT_FROM_CONSTANT;
    v->may_train = true;
    v->frozen_of = w->frozen_of ? w->frozen_of : w->name;
    v->data = c->o->frozen(c->o->with, w, c->dtype);
    return half;
}

/* A value in the half type, for node `at`: its cast, or for a view the same view of the cast, so that one cast serves
 * all views. */
static int half_of(struct casts *c, int v, int at) {
    struct zt_graph *g = c->g;
    if (c->half[v] >= 0)
        return c->half[v];
    const int view = view_of(g, v), frozen = c->o->frozen ? frozen_of(g, v) : -1;
    if (frozen >= 0)
        return c->half[v] = half_weight(c, frozen);
    if (zt_value_is_constant(g->values[v]) && zt_value_bytes(g->values[v]) <= CONSTANT_BYTES)
        return c->half[v] = add_constant(c, g->values[v]);
    if (view < 0)
        return c->half[v] = add_cast(c, v, -1, c->dtype, at);
    const int seen = half_of(c, g->nodes[view]->in[0], at);
    return c->half[v] = seen < 0 ? -1 : add_view(c, view, seen, at);
}

/* Whether an input exists in the half type, other than for the sake of views. */
static bool has_half_input(const struct casts *c, int n) {
    for (int i = 0; i < c->g->nodes[n]->in_count; i++) {
        const int v = c->g->nodes[n]->in[i];
        if (v >= 0 && v < c->values && c->half[v] >= 0 && !c->viewed[v])
            return true;
    }
    return false;
}

/* Converts a node to the half type. Its float outputs are produced by casts; readers in half precision use the uncast
 * values (c->half). */
static bool halve_node(struct casts *c, int n) {
    struct zt_graph *g = c->g;
    const bool viewed = !g->nodes[n]->op->flops && !has_half_input(c, n);
    for (int i = 0; i < g->nodes[n]->in_count; i++) {
        int v = g->nodes[n]->in[i];
        if (v < 0 || v >= c->values || g->values[v]->dtype != ZT_FLOAT || zt_op_mask_has(g->nodes[n]->op->full_in, i))
            continue;
        const int half = half_of(c, v, n);
        if (half < 0)
            return false;
        g->nodes[n]->in[i] = half;
    }
    for (int i = 0; i < g->nodes[n]->out_count; i++) {
        int v = g->nodes[n]->out[i];
        if (v < 0 || g->values[v]->dtype != ZT_FLOAT || zt_op_mask_has(g->nodes[n]->op->full_out, i))
            continue;
        struct zt_shape shape = g->values[v]->shape;
        int half = zt_graph_add_value(g, NULL, c->dtype, &shape);
        g->nodes[n]->out[i] = half;
        c->half[v] = half;
        c->viewed[v] = viewed;
        if (add_cast(c, half, v, ZT_FLOAT, n) < 0)
            return false;
    }
    return zt_op_infer(g, n, c->err);
}

/* Whether the node's constants stay finite and non-zero in fp16, whose range is small: an epsilon of 1e-12 or a mask of
 * -1e9 does not. bfloat16 has fp32's range. */
static bool constants_fit(const struct casts *c, int n) {
    for (int i = 0; i < c->g->nodes[n]->in_count && c->dtype == ZT_FLOAT16; i++) {
        const struct zt_value *v = zt_in(c->g, n, i);
        if (!v || v->dtype != ZT_FLOAT || !zt_value_is_constant(v) || zt_value_bytes(v) > CONSTANT_BYTES)
            continue;
        for (int64_t k = 0; k < zt_shape_count(&v->shape); k++) {
            const float x = ((const float *)v->data)[k], half = zt_half_to_float(zt_float_to_half(x));
            if ((half == 0) != (x == 0) || isinf(half) != isinf(x))
                return false;
        }
    }
    return true;
}

/* What a value is a view of, or the value. */
static int source_of(const struct zt_graph *g, int v) {
    for (int view = view_of(g, v); view >= 0; view = view_of(g, v))
        v = g->nodes[view]->in[0];
    return v;
}

/* Whether a value, or what it is a view of, exists in the half type already. */
static bool is_half(const struct casts *c, int v) {
    int view = view_of(c->g, v);
    while (view >= 0 && (v >= c->values || c->half[v] < 0)) {
        v = c->g->nodes[view]->in[0];
        view = view_of(c->g, v);
    }
    return v < c->values && c->half[v] >= 0;
}

/* Whether a value is a bias: an initializer of one axis, or a view of one. */
static bool is_bias(const struct zt_graph *g, int v) {
    const struct zt_value *source = g->values[source_of(g, v)];
    int axes = 0;
    for (int k = 0; k < source->shape.rank; k++)
        axes += source->shape.dim[k] > 1;
    return source->origin == ZT_FROM_INITIALIZER && axes <= 1;
}

/* Whether all activations that the node reads exist in the half type already, directly or as what they are views of.
 * Constants are none, nor are biases with `bias`. */
static bool reads_half(const struct casts *c, int n, bool bias) {
    const struct zt_node *node = c->g->nodes[n];
    bool any = false;
    for (int i = 0; i < node->in_count; i++) {
        const int v = node->in[i];
        if (v < 0 || c->g->values[v]->dtype != ZT_FLOAT || zt_op_mask_has(node->op->full_in, i) ||
            zt_value_is_constant(c->g->values[v]) || (bias && is_bias(c->g, v)))
            continue;
        if (!is_half(c, v))
            return false;
        any = true;
    }
    return any;
}

/* Whether the node gives a value that must exist in fp32 afterwards: the sum of a weight's gradients, for one. */
static bool gives_kept(const struct casts *c, int n) {
    for (int i = 0; i < c->o->keep_count; i++) /* -1 where a run has none */
        if (c->o->keep_float[i] >= 0 && c->g->values[c->o->keep_float[i]]->producer == n)
            return true;
    return false;
}

static bool has_frozen_input(const struct casts *c, int n) {
    for (int i = 0; i < c->g->nodes[n]->in_count && c->o->frozen; i++)
        if (c->g->nodes[n]->in[i] >= 0 && frozen_of(c->g, c->g->nodes[n]->in[i]) >= 0)
            return true;
    return false;
}

/* In bfloat16 on the CPU: products that say so, but those of frozen weights, which would be read in fp32; and what is
 * no product where nothing that it reads is in bfloat16 already, and not all is a view of what is, or where what it
 * gives is wanted in fp32. */
static bool stays_float(const struct casts *c, int n) {
    const struct zt_op *op = c->g->nodes[n]->op;
    if (c->dtype != ZT_BFLOAT16 || c->o->fast != ZT_CPU)
        return false;
    if (!op->flops)
        return gives_kept(c, n) || (!has_half_input(c, n) && !reads_half(c, n, true));
    const struct zt_kernel *kernel = &op->kernel[ZT_CPU];
    return kernel->prefers_float && kernel->prefers_float(c->g, n) && !has_frozen_input(c, n);
}

/* Whether the node reads positions that a node of the same kind, which stayed in fp32, found: the gradient of a max
 * pool behind a convolution that prefers fp32, with which both are fused. */
static bool reads_float_positions(const struct casts *c, int n) {
    bool found = false;
    for (int i = 0; i < c->g->nodes[n]->in_count; i++) {
        const struct zt_value *v = zt_in(c->g, n, i);
        const struct zt_node *from = v && v->producer >= 0 ? c->g->nodes[v->producer] : NULL;
        found |= from && !zt_dtype_in(v->dtype, ZT_ANY_FLOAT) && from->op->flags & ZT_OP_PASSES_HALF &&
                 zt_out(c->g, v->producer, 0) && zt_out(c->g, v->producer, 0)->dtype == ZT_FLOAT;
    }
    return found;
}

/* Whether all activations that the node reads are in bfloat16 already, and the back end is the CPU: CUDA has a fusion
 * for it, which leaves nodes between casts of both sides alone. */
static bool passes_half(const struct casts *c, int n) {
    return c->g->nodes[n]->op->flags & ZT_OP_PASSES_HALF && c->dtype == ZT_BFLOAT16 && c->o->fast == ZT_CPU &&
           reads_half(c, n, false) && !reads_float_positions(c, n);
}

static bool wants_half(const struct casts *c, int n) {
    const struct zt_node *node = c->g->nodes[n];
    if (node->dead || node->full)
        return false;
    return node->op->flags & ZT_OP_HALF ? constants_fit(c, n) && !stays_float(c, n) : passes_half(c, n);
}

bool zt_pass_half_propagation(struct zt_graph *g, const struct zt_op_table *table, const struct zt_half_options *o,
                              struct zt_err *err) {
    struct casts c = { .g = g, .table = table, .values = g->value_count, .dtype = o->dtype, .o = o, .err = err };
    c.half = zt_malloc(((size_t)c.values + 1) * sizeof *c.half);
    memset(c.half, -1, ((size_t)c.values + 1) * sizeof *c.half);
    c.viewed = zt_calloc((size_t)c.values + 1, sizeof *c.viewed);
    int count = g->node_count;
    bool ok = true;
    for (int n = 0; ok && n < count; n++) {
        if (wants_half(&c, n))
            ok = halve_node(&c, n);
        else if (g->nodes[n]->op->flags & ZT_OP_BFLOAT_PRODUCTS && c.dtype == ZT_BFLOAT16 && o->fast == ZT_CPU)
            zt_node_set_int(g, n, "bfloat_products", 1);
    }
    free(c.half);
    free(c.viewed);
    return ok && zt_graph_sort(g, err) &&
           zt_graph_prune(g, o->keep_float, o->keep_count, err); /* casts back that nothing reads go */
}

/* ---- half types on a back end without kernels for them ---- */

/* A float value of the same shape, with the same contents where these are known. Frozen weights are cast by a node for
 * each use, so that no fp32 copy stays in memory. */
static int float_twin(struct zt_graph *g, int value) {
    const struct zt_value v = *g->values[value];
    int twin = zt_graph_add_value(g, NULL, ZT_FLOAT, &v.shape);
    if (!v.data || zt_value_is_frozen(&v))
        return twin;
    g->values[twin]->origin = ZT_FROM_CONSTANT;
    g->values[twin]->data = zt_to_float(g->arena, &(struct zt_tensor){ v.dtype, v.shape, v.data });
    return twin;
}

/* Replaces half values in the list by float values and returns the original list. */
static int *widen(struct zt_graph *g, int *ids, int count) {
    int *were = zt_arena_copy(g->arena, ids, (size_t)count * sizeof *ids);
    for (int i = 0; i < count; i++)
        if (ids[i] >= 0 && zt_dtype_is_half(g->values[ids[i]]->dtype))
            ids[i] = float_twin(g, ids[i]);
    return were;
}

static bool widen_node(struct casts *c, int node, enum zt_backend fast) {
    struct zt_graph *g = c->g;
    int in_count = g->nodes[node]->in_count, out_count = g->nodes[node]->out_count;
    int *in = widen(g, g->nodes[node]->in, in_count), *out = widen(g, g->nodes[node]->out, out_count);
    struct zt_err refused = { 0 };
    if (!zt_op_infer(g, node, &refused) || !zt_op_takes(g, node, fast)) {
        memcpy(g->nodes[node]->in, in, (size_t)in_count * sizeof *in);
        memcpy(g->nodes[node]->out, out, (size_t)out_count * sizeof *out);
        return zt_op_infer(g, node, c->err);
    }
    bool ok = true;
    for (int i = 0; ok && i < in_count; i++)
        if (g->nodes[node]->in[i] != in[i] && !g->values[g->nodes[node]->in[i]]->data)
            ok = add_cast(c, in[i], g->nodes[node]->in[i], ZT_FLOAT, node) >= 0;
    for (int i = 0; ok && i < out_count; i++)
        if (g->nodes[node]->out[i] != out[i])
            ok = add_cast(c, g->nodes[node]->out[i], out[i], g->values[out[i]]->dtype, node) >= 0;
    return ok;
}

bool zt_pass_compute_in_float(struct zt_graph *g, const struct zt_op_table *table, enum zt_backend fast,
                              struct zt_err *err) {
    struct casts c = { .g = g, .table = table, .err = err };
    int count = g->node_count;
    for (int n = 0; n < count; n++) {
        bool half = false;
        for (int i = 0; i < g->nodes[n]->in_count; i++)
            half |= zt_in(g, n, i) && zt_dtype_is_half(zt_in(g, n, i)->dtype);
        if (half && g->nodes[n]->op->kernel[fast].run && !zt_op_takes(g, n, fast) && !widen_node(&c, n, fast))
            return false;
    }
    return g->node_count == count || zt_graph_sort(g, err);
}
