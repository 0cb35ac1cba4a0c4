/* A matrix product and the additions after it as one product of cuBLASLt:
 *
 *     ztrain.Linear(x, w[, bias][, c]) -> y        y = alpha op(x) op(w) + bias + c, bias a number a column, c as y
 *
 *     linear_bias    Add(MatMul(x, w), bias)
 *     linear_add     Add(p, c), p a product with or without its bias that no other node reads: residuals, and gradients
 *                    that are sums of several products
 *
 * The bias is the product's epilogue and c is its beta operand. In a half type the sum is rounded once instead of up to
 * three times. A Reshape may stand between. */
#include "ops/matmul/fuse_linear.h"

#include "ops/matmul/kernels.h"
#include "ops/kernel/shape.h"

#include <string.h>

const struct zt_attr_spec zt_linear_attrs[] = {
    { "alpha", ZT_ATTR_FLOAT }, { "transA", ZT_ATTR_INT }, { "transB", ZT_ATTR_INT }, { 0 }
};

/* ---- the row ---- */

bool zt_linear_read(const struct zt_graph *g, int node, struct zt_matmul *m, struct zt_err *err) {
    const struct zt_shape *x = &zt_in(g, node, 0)->shape, *w = &zt_in(g, node, 1)->shape;
    if (x->rank < 2 || (zt_attr_int(g->nodes[node], "transA", 0) && x->rank > 2) || w->rank != 2)
        return zt_node_fail(g, node, err, "inputs \"%s\" and \"%s\" have rank %d and %d, want rows and a matrix",
                            zt_in(g, node, 0)->name, zt_in(g, node, 1)->name, x->rank, w->rank);
    return zt_matmul_read_node(g, node, m, err);
}

bool zt_linear_check_bias(const struct zt_graph *g, int node, const struct zt_matmul *m, struct zt_err *err) {
    const struct zt_value *bias = zt_in(g, node, 2);
    char s[ZT_SHAPE_TEXT];
    return !bias || zt_matmul_is_bias(&bias->shape, m->n) ||
           zt_node_fail(g, node, err, "input \"%s\" has shape %s, wants a number for each of %lld columns", bias->name,
                        zt_shape_text(&bias->shape, s), (long long)m->n);
}

static bool infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *c = zt_in(g, node, 3);
    char s[ZT_SHAPE_TEXT], t[ZT_SHAPE_TEXT];
    struct zt_matmul m;
    if (!zt_linear_read(g, node, &m, err) || !zt_linear_check_bias(g, node, &m, err))
        return false;
    if (c && !zt_shape_equal(&c->shape, &m.out))
        return zt_node_fail(g, node, err, "input \"%s\" has shape %s, the product %s", c->name,
                            zt_shape_text(&c->shape, s), zt_shape_text(&m.out, t));
    zt_set_out(g, node, 0, zt_in(g, node, 0)->dtype, &m.out);
    return true;
}

bool zt_linear_product(const struct zt_call *call, struct zt_arena *arena, struct zt_view *to, struct zt_err *err) {
    struct zt_product p = { .dtype = call->in[0].dtype,
                            .y_dtype = call->in[0].dtype == ZT_DOUBLE ? ZT_DOUBLE : ZT_FLOAT,
                            .a = call->in[0].data,
                            .b = call->in[1].data,
                            .alpha = (double)zt_attr_float(call->node, "alpha", 1),
                            .threads = call->threads };
    if (!zt_linear_read(call->graph, zt_call_node(call), &p.geometry, err))
        return false;
    p.y = zt_arena_alloc(arena, (size_t)zt_shape_count(&p.geometry.out) * zt_dtype_bytes(p.y_dtype));
    zt_product_run(&p);
    *to = (struct zt_view){ p.y_dtype, p.geometry.out, p.y, NULL };
    return true;
}

double zt_linear_sum(const struct zt_call *call, const struct zt_view *p, int64_t i) {
    const int64_t n = p->shape.dim[p->shape.rank - 1];
    double sum = zt_load_double(p->dtype, p->data, i);
    for (int k = 2; k < call->in_count; k++)
        if (call->in[k].data)
            sum += zt_load_double(call->in[k].dtype, call->in[k].data, k == 2 ? i % n : i);
    return sum;
}

static bool ref(const struct zt_call *call, struct zt_err *err) {
    const struct zt_view *y = &call->out[0];
    struct zt_arena *arena = zt_arena_create();
    struct zt_view p;
    const bool ok = zt_linear_product(call, arena, &p, err);
    for (int64_t i = 0; ok && i < zt_shape_count(&y->shape); i++)
        zt_store_double(y->dtype, y->data, i, zt_linear_sum(call, &p, i));
    zt_arena_destroy(arena);
    return ok;
}

const struct zt_op zt_op_linear = {
    .name = "Linear",
    .domain = "ztrain",
    .since = 1,
    ZT_ONE_OUT(2, 4),
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT },
    .same_type = 1 << 1 | 1 << 2 | 1 << 3,
    .attrs = zt_linear_attrs,
    .flags = ZT_OP_HALF | ZT_OP_PRODUCT,
    .infer = infer,
    .flops = zt_matmul_flops,
    .kernel = { [ZT_REF] = { .run = ref }, [ZT_CUDA] = ZT_ON_CUDA(matmul, zt_matmul_takes_cuda) },
};

/* ---- what patterns have in common ---- */

bool zt_linear_is_bias(const struct zt_graph *g, int value, int of) {
    const struct zt_shape *y = &g->values[of]->shape;
    return y->rank > 0 && zt_matmul_is_bias(&g->values[value]->shape, y->dim[y->rank - 1]);
}

bool zt_linear_is_product(const struct zt_graph *g, int node) {
    const struct zt_node *n = g->nodes[node];
    const bool gemm = strcmp(n->op_type, "Gemm") == 0;
    if (n->domain[0] || (!gemm && strcmp(n->op_type, "MatMul") != 0) || !zt_op_takes(g, node, ZT_CUDA))
        return false;
    const struct zt_value *c = zt_in(g, node, 2);
    return zt_in(g, node, 0)->shape.rank >= 2 && zt_in(g, node, 1)->shape.rank == 2 &&
           (!c || (zt_attr_float(n, "beta", 1) == 1 && zt_linear_is_bias(g, n->in[2], n->out[0])));
}

struct zt_linear_source zt_linear_source_of(const struct zt_graph *g, int node, int in, bool alone) {
    const enum zt_dtype dtype = zt_in(g, node, in)->dtype;
    struct zt_linear_source s = { .node = zt_fuse_producer(g, node, in, NULL, alone) };
    while (s.count < ZT_LINEAR_BETWEEN && s.node >= 0) {
        const char *op_type = g->nodes[s.node]->op_type;
        const enum zt_dtype made = zt_out(g, s.node, 0)->dtype;
        if ((strcmp(op_type, "Reshape") != 0 && strcmp(op_type, "Cast") != 0) || (made != ZT_FLOAT && made != dtype))
            break;
        s.between[s.count++] = s.node;
        s.node = zt_fuse_producer(g, s.node, 0, NULL, true);
    }
    if (s.node >= 0 && zt_out(g, s.node, 0)->dtype != dtype)
        s.node = -1;
    return s;
}

void zt_linear_kill(struct zt_graph *g, const struct zt_linear_source *source) {
    g->nodes[source->node]->dead = true;
    for (int i = 0; i < source->count; i++)
        g->nodes[source->between[i]]->dead = true;
}

int zt_linear_reshaped(struct zt_graph *g, const struct zt_op_table *table, int like, int value,
                       const struct zt_shape *shape, struct zt_err *err) {
    const struct zt_value v = *g->values[value];
    if (zt_shape_equal(&v.shape, shape))
        return value;
    const int in[2] = { zt_graph_add_value(g, NULL, v.dtype, shape),
                        zt_graph_add_ints(g, NULL, v.shape.dim, v.shape.rank) };
    const int node = zt_fuse_add(
        g, g->nodes[like], &(struct zt_node_spec){ g->nodes[like]->name, "Reshape", "", ZT_OPSET, in, 2, &value, 1 });
    zt_node_set_int(g, node, "allowzero", 1);
    g->values[in[0]]->origin = ZT_FROM_NODE;
    g->values[value]->producer = node;
    return zt_fuse_settle(g, table, node, err) ? in[0] : -1;
}

bool zt_linear_replace(struct zt_graph *g, const struct zt_op_table *table, int node,
                       const struct zt_linear_source *source, const struct zt_linear_node *with, struct zt_err *err) {
    const struct zt_shape shape = zt_out(g, source->node, 0)->shape;
    const struct zt_node like = zt_fuse_attrs_without(g, g->nodes[source->node], "beta");
    zt_linear_kill(g, source);
    g->nodes[node]->dead = true;
    const int out[2] = { zt_linear_reshaped(g, table, node, g->nodes[node]->out[0], &shape, err), with->second };
    const int out_count = with->second >= 0 ? 2 : 1;
    return out[0] >= 0 &&
           zt_fuse_replace(g, table, node,
                           &(struct zt_fused_node){ with->op_type, with->in, with->in_count, out, out_count, &like },
                           err);
}

/* ---- the patterns ---- */

/* A product that only an Add reads; in[2] and in[3]: its bias and its addend c, -1: none. */
struct summand {
    struct zt_linear_source from;
    int in[4];
};

static bool find_summand(const struct zt_graph *g, int add, int side, struct summand *s) {
    s->from = zt_linear_source_of(g, add, side, true);
    const int p = s->from.node;
    if (p < 0 || (g->nodes[p]->op != &zt_op_linear && !zt_linear_is_product(g, p)))
        return false;
    for (int i = 0; i < 4; i++)
        s->in[i] = i < g->nodes[p]->in_count ? g->nodes[p]->in[i] : -1;
    return zt_shape_count(&zt_out(g, p, 0)->shape) == zt_shape_count(&zt_out(g, add, 0)->shape);
}

static bool is_sum(const struct zt_graph *g, int node) {
    const struct zt_node *n = g->nodes[node];
    return strcmp(n->op_type, "Add") == 0 && !n->domain[0];
}

/* The product takes the Add's place with the summand's inputs. */
static bool replace(struct zt_graph *g, const struct zt_op_table *table, int add, const struct summand *s,
                    struct zt_err *err) {
    const struct zt_linear_node linear = { "Linear", s->in, s->in[3] >= 0 ? 4 : 3, -1 };
    return zt_linear_replace(g, table, add, &s->from, &linear, err);
}

static bool fuse_bias(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    struct summand s;
    for (int side = 0; is_sum(g, node) && side < 2; side++) {
        const int bias = g->nodes[node]->in[1 - side], y = g->nodes[node]->out[0];
        if (!find_summand(g, node, side, &s) || s.in[2] >= 0 || !zt_linear_is_bias(g, bias, y) ||
            !zt_linear_is_bias(g, bias, g->nodes[s.from.node]->out[0]))
            continue;
        s.in[2] = bias;
        return replace(g, table, node, &s, err);
    }
    return false;
}

/* Of two products the later one, so that its inputs are not needed longer than before. */
static int later_side(const struct zt_graph *g, int node) {
    int64_t place[2] = { -1, -1 };
    for (int i = 0; i < 2; i++) {
        const int from = zt_fuse_producer(g, node, i, NULL, true);
        place[i] = from >= 0 ? g->nodes[from]->place : -1;
    }
    return place[1] > place[0];
}

static bool fuse_add(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    struct summand s;
    for (int i = 0; is_sum(g, node) && i < 2; i++) {
        const int side = later_side(g, node) ^ i, c = g->nodes[node]->in[1 - side], y = g->nodes[node]->out[0];
        if (!find_summand(g, node, side, &s) || s.in[3] >= 0 ||
            !zt_shape_equal(&g->values[c]->shape, &g->values[y]->shape))
            continue;
        s.in[3] = zt_fuse_reshape(g, table, node, c, &zt_out(g, s.from.node, 0)->shape, err);
        return s.in[3] >= 0 && replace(g, table, node, &s, err);
    }
    return false;
}

const struct zt_pattern zt_pattern_linear_bias = { "linear_bias", 1 << ZT_CUDA, fuse_bias };
const struct zt_pattern zt_pattern_linear_add = { "linear_add", 1 << ZT_CUDA, fuse_add };
