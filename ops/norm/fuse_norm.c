/* Normalisations that exporters take apart.
 *
 *     layer_norm    (x - mean x) / sqrt(mean (x - mean x)^2 + eps) scale + bias      means over the last axes
 *     rms_norm      x / sqrt(mean x^2 + eps) scale
 *     group_norm    InstanceNormalization of x with its groups as channels, then a scale and a bias for every channel
 *
 * Scale and bias have the shape of the axes averaged over, with ones in front or without; either may be missing. */
#include "graph/passes/fusion/apply_patterns.h"
#include "graph/passes/fusion/pattern.h"
#include "ops/reduce/reduce.h"

#include <string.h>

/* 1 / sqrt(v), and a / sqrt(v) */
#define INVERSE_ROOT(v) "(Reciprocal(Sqrt(" v ")) | Div(1, Sqrt(" v ")) | Pow(" v ", -0.5))"
#define OVER_ROOT(a, v) "(Div(" a ", Sqrt(" v ")) | Mul(" a ", " INVERSE_ROOT(v) "))"
/* tf2onnx writes the mean over the last axis of three as a pool */
#define MEAN(name, a)  "(" name " = ReduceMean(" a ", ...) | " name " = GlobalAveragePool(" a "))"
#define SQUARE(a)      "(Mul(" a ", " a ") | Pow(" a ", 2))"
#define MEAN_SQUARE(a) "Add(" MEAN("square", SQUARE(a)) ", $eps)"
#define CENTRED        "Sub(x, " MEAN("mean", "x") ")"
#define SQUARED        "e = " CENTRED
/* the mean of the squares less the square of the mean, as flax has it */
#define MOMENTS                                                                                                        \
    "Sub(square = ReduceMean((Mul(x, x) | Pow(x, 2)), ...), "                                                          \
    "(Mul(mean = ReduceMean(x, ...), mean) | Pow(mean = ReduceMean(x, ...), 2)))"
#define VARIANCE                                                                                                       \
    "Add((" MEAN("square", "(Mul(" SQUARED ", e) | Pow(" SQUARED ", 2))") " | Max(" MOMENTS ", 0) | Relu(" MOMENTS     \
                                                                          ") | " MOMENTS "), $eps)"
#define NORMED     OVER_ROOT(CENTRED, VARIANCE)
#define RMS        MEAN_SQUARE("x")
#define RMS_NORMED OVER_ROOT("x", RMS)

static const char *const layer_forms[] = {
    "Add(Mul(" NORMED ", scale), bias)",
    /* x k + (bias - mean k), k = scale / sqrt(variance) */
    "Add(Mul(x, k = Mul(" INVERSE_ROOT(VARIANCE) ", scale)), (Sub(bias, Mul(mean, k)) | Add(Mul(Neg(mean), k), bias)))",
    "Add(" NORMED ", bias)",
    "Mul(" NORMED ", scale)",
    "Mul(" CENTRED ", Mul(" INVERSE_ROOT(VARIANCE) ", scale))",
    "Div(" CENTRED ", Sqrt(" VARIANCE "))",
    "Mul(" CENTRED ", " INVERSE_ROOT(VARIANCE) ")",
    NULL,
};
static const char *const rms_forms[] = {
    "Mul(" RMS_NORMED ", scale)",
    "Mul(x, Mul(" INVERSE_ROOT(RMS) ", scale))",
    "Div(x, Sqrt(" RMS "))",
    "Mul(x, " INVERSE_ROOT(RMS) ")",
    NULL,
};
/* After InstanceNormalization with scale 1 and bias 0 of x as [N, groups, the rest] */
#define GROUPS "Reshape(norm = InstanceNormalization(grouped = Reshape(x, ...), one, zero), ...)"
static const char *const group_forms[] = { "Add(Mul(" GROUPS ", scale), bias)", GROUPS, NULL };

/* ---- what must hold beside the term ---- */

/* The first of the axes that both means average over, where these are the last ones; -1 else. */
static int first_axis(const struct zt_match *m) {
    static const char *const names[2] = { "mean", "square" };
    struct zt_err ignored = { 0 };
    int first = -1;
    for (int i = 0; i < 2; i++) {
        bool marked[ZT_MAX_RANK];
        int value = zt_match_value(m, names[i]), axis = 0;
        if (value < 0)
            continue; /* no mean is taken off */
        const struct zt_node *n = zt_match_node(m, names[i]);
        const bool pool = strcmp(n->op_type, "GlobalAveragePool") == 0;
        int rank = m->g->values[n->in[0]]->shape.rank;
        for (int k = 0; k < rank; k++)
            marked[k] = k >= 2;
        if (!pool && (!zt_attr_int(n, "keepdims", 1) || !zt_reduce_axes(m->g, n->index, marked, &ignored)))
            return -1;
        while (axis < rank && !marked[axis])
            axis++;
        for (int k = axis; k < rank; k++)
            if (!marked[k])
                return -1;
        if (axis == rank || (first >= 0 && first != axis))
            return -1;
        first = axis;
    }
    return first;
}

static int add_filled(struct zt_graph *g, enum zt_dtype dtype, const struct zt_shape *shape, double number) {
    int64_t count = zt_shape_count(shape);
    void *data = zt_arena_alloc(g->arena, (size_t)count * zt_dtype_bytes(dtype));
    for (int64_t i = 0; i < count; i++)
        zt_store_double(dtype, data, i, number);
    return zt_graph_add_constant(g, NULL, dtype, shape, data);
}

static bool is_filled(const struct zt_graph *g, int value, double number) {
    const struct zt_value *v = g->values[value];
    bool filled = zt_value_is_constant(v) && zt_dtype_in(v->dtype, ZT_ANY_FLOAT);
    for (int64_t i = 0; filled && i < zt_shape_count(&v->shape); i++)
        filled = zt_load_double(v->dtype, v->data, i) == number;
    return filled;
}

static bool finds(struct zt_graph *g, int node, const char *term, struct zt_match *m, int *axis) {
    if (!zt_pattern_find(g, node, term, m))
        return false;
    int x = zt_match_value(m, "x");
    *axis = first_axis(m);
    return *axis >= 0 && zt_match_same(m, x, zt_match_result(m)) &&
           zt_match_along(m, zt_match_value(m, "scale"), x, *axis, g->values[x]->shape.rank) &&
           zt_match_along(m, zt_match_value(m, "bias"), x, *axis, g->values[x]->shape.rank);
}

/* ---- patterns ---- */

static bool fuse_rows(struct zt_graph *g, const struct zt_op_table *table, int node, const char *const *forms,
                      const char *op_type, struct zt_err *err) {
    struct zt_match m;
    int axis = -1;
    while (*forms && !finds(g, node, *forms, &m, &axis))
        forms++;
    if (!*forms)
        return false;
    int in[3] = { zt_match_value(&m, "x"), zt_match_value(&m, "scale"), zt_match_value(&m, "bias") };
    double eps = zt_match_number(&m, "eps", 0);
    if (in[1] < 0) {
        struct zt_shape shape = { .rank = g->values[in[0]]->shape.rank - axis };
        memcpy(shape.dim, g->values[in[0]]->shape.dim + axis, (size_t)shape.rank * sizeof *shape.dim);
        in[1] = add_filled(g, g->values[in[0]]->dtype, &shape, 1);
    }
    int norm = zt_match_replace(&m, op_type, in, in[2] >= 0 ? 3 : 2);
    zt_node_set_int(g, norm, "axis", axis - g->values[in[0]]->shape.rank);
    zt_node_set_float(g, norm, "epsilon", (float)eps);
    return zt_match_done(&m, table, norm, err);
}

static bool fuse_layer_norm(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    return fuse_rows(g, table, node, layer_forms, "LayerNormalization", err);
}
static bool fuse_rms_norm(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    return fuse_rows(g, table, node, rms_forms, "RMSNormalization", err);
}

static bool finds_groups(struct zt_graph *g, int node, const char *term, struct zt_match *m) {
    if (!zt_pattern_find(g, node, term, m))
        return false;
    int x = zt_match_value(m, "x");
    const struct zt_shape *all = &g->values[x]->shape, *grouped = &g->values[zt_match_value(m, "grouped")]->shape;
    return zt_match_same(m, x, zt_match_result(m)) && all->rank >= 3 && grouped->dim[0] == all->dim[0] &&
           grouped->dim[1] > 0 && all->dim[1] % grouped->dim[1] == 0 && is_filled(g, zt_match_value(m, "one"), 1) &&
           is_filled(g, zt_match_value(m, "zero"), 0) && zt_match_along(m, zt_match_value(m, "scale"), x, 1, 2) &&
           zt_match_along(m, zt_match_value(m, "bias"), x, 1, 2);
}

static bool fuse_group_norm(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    const char *const *forms = group_forms;
    struct zt_match m;
    while (*forms && !finds_groups(g, node, *forms, &m))
        forms++;
    if (!*forms)
        return false;
    int in[3] = { zt_match_value(&m, "x"), zt_match_value(&m, "scale"), zt_match_value(&m, "bias") };
    const struct zt_shape channels = { 1, { g->values[in[0]]->shape.dim[1] } };
    int64_t groups = g->values[zt_match_value(&m, "grouped")]->shape.dim[1];
    float eps = zt_attr_float(zt_match_node(&m, "norm"), "epsilon", 1e-5F);
    for (int i = 1; i < 3; i++) {
        in[i] = in[i] < 0 ? add_filled(g, g->values[in[0]]->dtype, &channels, i == 1)
                          : zt_match_reshape(&m, table, in[i], &channels, err);
        if (in[i] < 0)
            return false;
    }
    int norm = zt_match_replace(&m, "GroupNormalization", in, 3);
    zt_node_set_int(g, norm, "num_groups", groups);
    zt_node_set_float(g, norm, "epsilon", eps);
    return zt_match_done(&m, table, norm, err);
}

const struct zt_pattern zt_pattern_layer_norm = { "layer_norm", ZT_FUSE_FORWARD, fuse_layer_norm };
const struct zt_pattern zt_pattern_rms_norm = { "rms_norm", ZT_FUSE_FORWARD, fuse_rms_norm };
const struct zt_pattern zt_pattern_group_norm = { "group_norm", ZT_FUSE_FORWARD, fuse_group_norm };
