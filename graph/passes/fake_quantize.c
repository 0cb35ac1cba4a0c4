#include "graph/passes/fake_quantize.h"

#include <math.h>

struct emitter {
    struct zt_graph *g;
    const struct zt_op_table *table;
    const struct zt_fake_quantize *how;
    int value, before;
    struct zt_err *err;
};

struct emission {
    const char *op_type, *domain;
    const int *in;
    int in_count, out_count;
    const struct zt_attr *attrs;
    int attr_count;
};

/* out[i] becomes the outputs. */
static bool emit(struct emitter *e, const struct emission *spec, int *out) {
    struct zt_graph *g = e->g;
    const char *name = zt_arena_printf(g->arena, "%s.%s", g->values[e->value]->name, spec->op_type);
    for (int i = 0; i < spec->out_count; i++)
        out[i] = zt_graph_add_value(g, NULL, ZT_UNDEFINED, NULL);
    const int node =
        zt_graph_add_node(g, &(struct zt_node_spec){ name, spec->op_type, spec->domain, spec->domain[0] ? 1 : ZT_OPSET,
                                                     spec->in, spec->in_count, out, spec->out_count });
    g->nodes[node]->place = g->nodes[e->before]->place;
    for (int i = 0; i < spec->attr_count; i++)
        zt_node_set_attr(g, node, &spec->attrs[i]);
    return zt_op_resolve(e->table, g, node, e->err) && zt_op_infer(g, node, e->err);
}

/* ---- scales ---- */

/* ends[0] and ends[1] become the lowest and highest element, of each index of the axis. */
static bool emit_ends(struct emitter *e, int *ends) {
    static const char *const reductions[2] = { "ReduceMin", "ReduceMax" };
    const int rank = e->g->values[e->value]->shape.rank;
    const struct zt_attr attrs[] = { { .name = "keepdims", .type = ZT_ATTR_INT, .i = 0 },
                                     { .name = "noop_with_empty_axes", .type = ZT_ATTR_INT, .i = 1 } };
    int64_t axes[ZT_MAX_RANK];
    int count = 0;
    for (int k = 0; k < rank; k++)
        if (k != e->how->axis)
            axes[count++] = k;
    const int in[2] = { e->value, zt_graph_add_ints(e->g, NULL, axes, count) };
    for (int i = 0; i < 2; i++)
        if (!emit(e, &(struct emission){ reductions[i], "", in, 2, 1, attrs, 2 }, &ends[i]))
            return false;
    return true;
}

/* The value as one row a sample, where its first axis has the samples; -1 on failure. */
static int emit_rows(struct emitter *e, int64_t samples) {
    int64_t dims[2] = { samples, -1 };
    int in[2] = { e->value, zt_graph_add_ints(e->g, NULL, dims, 2) }, out;
    return emit(e, &(struct emission){ "Reshape", "", in, 2, 1, NULL, 0 }, &out) ? out : -1;
}

/* ends[0] and ends[1] become the lowest and highest element of the samples that count; +infinity and -infinity where
 * none does. */
static bool emit_counted_ends(struct emitter *e, int *ends) {
    static const char *const reductions[2] = { "ReduceMin", "ReduceMax" };
    const struct zt_attr attrs[] = { { .name = "keepdims", .type = ZT_ATTR_INT, .i = 0 } };
    const int weight = e->how->row_weight, zero = zt_graph_add_float(e->g, NULL, ZT_FLOAT, 0);
    const int64_t first[1] = { 0 }, second[1] = { 1 };
    const int rows = emit_rows(e, e->g->values[weight]->shape.dim[0]);
    int counts;
    if (rows < 0 || !emit(e, &(struct emission){ "Greater", "", (int[]){ weight, zero }, 2, 1, NULL, 0 }, &counts))
        return false;
    for (int i = 0; i < 2; i++) {
        int in[2] = { rows, zt_graph_add_ints(e->g, NULL, second, 1) }, row_ends, counted;
        const int nothing = zt_graph_add_float(e->g, NULL, ZT_FLOAT, i ? -HUGE_VAL : HUGE_VAL);
        if (!emit(e, &(struct emission){ reductions[i], "", in, 2, 1, attrs, 1 }, &row_ends) ||
            !emit(e, &(struct emission){ "Where", "", (int[]){ counts, row_ends, nothing }, 3, 1, NULL, 0 }, &counted))
            return false;
        in[0] = counted;
        in[1] = zt_graph_add_ints(e->g, NULL, first, 1);
        if (!emit(e, &(struct emission){ reductions[i], "", in, 2, 1, attrs, 1 }, &ends[i]))
            return false;
    }
    return true;
}

/* Whether the rows of the value belong to the samples that have weights. */
static bool has_row_weights(const struct emitter *e) {
    const struct zt_shape *x = &e->g->values[e->value]->shape;
    const int64_t samples = e->how->row_weight >= 0 ? e->g->values[e->how->row_weight]->shape.dim[0] : 0;
    return samples > 0 && x->rank > 0 && x->dim[0] % samples == 0 && zt_shape_count(x) > 0;
}

static int add_initializer(struct emitter *e, const struct zt_shape *shape) {
    const int id = zt_graph_add_value(e->g, e->how->name, ZT_FLOAT, shape);
    struct zt_value *v = e->g->values[id];
    v->origin = ZT_FROM_INITIALIZER;
    v->data = e->how->initial;
    return id;
}

/* The range of the state, updated with `ends` in training. */
static bool emit_moving(struct emitter *e, int *ends) {
    const struct zt_attr momentum = { .name = "momentum", .type = ZT_ATTR_FLOAT, .f = e->how->momentum };
    const int state = add_initializer(e, &(struct zt_shape){ 1, { 3 } });
    int out[3];
    e->g->values[state]->statistic = true;
    if (!e->how->update)
        return emit(e, &(struct emission){ "MovingRange", "ztrain", &state, 1, 2, &momentum, 1 }, ends);
    int seen[2];
    if (!(has_row_weights(e) ? emit_counted_ends(e, seen) : emit_ends(e, seen)))
        return false;
    int in[3] = { state, seen[0], seen[1] };
    if (e->how->share && !emit(e, &(struct emission){ "RangeOverRanks", "ztrain", seen, 2, 2, NULL, 0 }, in + 1))
        return false;
    if (!emit(e, &(struct emission){ "MovingRange", "ztrain", in, 3, 3, &momentum, 1 }, out))
        return false;
    zt_graph_add_write_back(e->g, state, out[2]);
    ends[0] = out[0];
    ends[1] = out[1];
    return true;
}

/* The zero point of a symmetric type without sign lies in the middle; -1: it is 0. */
static int middle(struct emitter *e, const struct zt_shape *shape) {
    const enum zt_dtype type = e->how->type;
    const bool has_sign = zt_dtype_in(type, ZT_ANY_SIGNED | ZT_BIT(ZT_INT4));
    const int64_t count = zt_shape_count(shape);
    if (has_sign)
        return -1;
    void *zeros = zt_arena_alloc(e->g->arena, (size_t)count * zt_dtype_bytes(type));
    for (int64_t i = 0; i < count; i++)
        zt_store_double(type, zeros, i, (double)(1 << (zt_dtype_bits(type) - 1)));
    return zt_graph_add_constant(e->g, NULL, type, shape, zeros);
}

static bool learned_scale(struct emitter *e, int *to) {
    const struct zt_shape *x = &e->g->values[e->value]->shape;
    struct zt_shape shape = { 0 };
    if (e->how->axis >= 0)
        shape = (struct zt_shape){ 1, { x->dim[e->how->axis] } };
    to[0] = add_initializer(e, &shape);
    to[1] = middle(e, &shape);
    struct zt_value *v = e->g->values[to[0]];
    v->may_train = v->scale = v->trainable = true;
    v->why = "a scale of quantization, learned by ztrain.qat.scales";
    return true;
}

static bool emit_scale(struct emitter *e, int *to) {
    const struct zt_attr attrs[] = { { .name = "type", .type = ZT_ATTR_INT, .i = e->how->type },
                                     { .name = "symmetric", .type = ZT_ATTR_INT, .i = e->how->symmetric } };
    int ends[2];
    if (e->how->from == ZT_SCALE_LEARNED)
        return learned_scale(e, to);
    return (e->how->from == ZT_RANGE_MOVING ? emit_moving(e, ends) : emit_ends(e, ends)) &&
           emit(e, &(struct emission){ "RangeScale", "ztrain", ends, 2, 2, attrs, 2 }, to);
}

int zt_pass_fake_quantize(struct zt_graph *g, const struct zt_op_table *table, const struct zt_fake_quantize *how,
                          int value, int before, struct zt_err *err) {
    struct emitter e = { .g = g, .table = table, .how = how, .value = value, .before = before, .err = err };
    const struct zt_attr attrs[] = { { .name = "axis", .type = ZT_ATTR_INT, .i = how->axis < 0 ? 0 : how->axis },
                                     { .name = "type", .type = ZT_ATTR_INT, .i = how->type } };
    int scale[2], out;
    if (!emit_scale(&e, scale))
        return -1;
    const int in[3] = { value, scale[0], scale[1] };
    const struct emission fake = { "FakeQuantize", "ztrain", in, in[2] < 0 ? 2 : 3, 1, attrs, 2 };
    return emit(&e, &fake, &out) ? out : -1;
}
