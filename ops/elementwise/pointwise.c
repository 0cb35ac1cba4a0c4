#include "ops/elementwise/pointwise.h"

#include "ops/elementwise/elementwise_cpu.h"
#include "ops/elementwise/simd_elementwise.h"
#include "ops/elementwise/simd_typed.h"

/* Types whose values a float represents, and the types a float result is stored in. */
static const unsigned represented = ZT_BIT(ZT_FLOAT) | ZT_ANY_HALF | ZT_BIT(ZT_BOOL) | ZT_BIT(ZT_UINT8) |
                                    ZT_BIT(ZT_INT8) | ZT_BIT(ZT_UINT16) | ZT_BIT(ZT_INT16);
static const unsigned stored = ZT_BIT(ZT_FLOAT) | ZT_ANY_HALF | ZT_BIT(ZT_BOOL);

static const struct {
    const char *value;
    int inputs;
} simd[ZT_SIMD_OPS] = {
#define LOOP(id, INPUTS, U, U0, V, V0, ZERO, VALUE) [ZT_SIMD_##id] = { #VALUE, INPUTS },
#include "ops/elementwise/loops.inc"
};

static bool have_types(const struct zt_graph *g, int node, int inputs, unsigned types) {
    bool good = g->nodes[node]->in_count >= inputs;
    for (int i = 0; good && i < inputs; i++)
        good = zt_in(g, node, i) && zt_dtype_in(zt_in(g, node, i)->dtype, types);
    return good;
}

bool zt_pointwise_floats(const struct zt_graph *g, int node, int inputs) {
    return have_types(g, node, inputs, represented);
}

/* Max, Min, Sum, Mean */
static bool folds(const struct zt_graph *g, int node) {
    return g->nodes[node]->op->flags & ZT_OP_VARIADIC;
}

static bool find_typed(const struct zt_graph *g, int node, struct zt_pointwise *to) {
    const struct zt_node *n = g->nodes[node];
    const enum zt_dtype dtype = zt_in(g, node, 0)->dtype;
    const bool cast = n->op->flags & ZT_OP_CAST;
    struct zt_typed_text text = cast ? zt_typed_cast_text(dtype, zt_out(g, node, 0)->dtype) : zt_typed_text(n, dtype);
    if (!text.value)
        return false;
    const int inputs = folds(g, node) ? n->in_count : text.inputs;
    *to = (struct zt_pointwise){ .value = text.value,
                                 .dtype = zt_dtype_is_half(dtype) ? ZT_FLOAT : dtype,
                                 .inputs = inputs,
                                 .folds = folds(g, node),
                                 .scale = 1 };
    return have_types(g, node, inputs, ZT_BIT(dtype));
}

static bool find_float(const struct zt_graph *g, int node, struct zt_pointwise *to) {
    float number[2];
    const int id = zt_simd_elementwise(g, node, number), count = g->nodes[node]->in_count;
    if (id == ZT_SIMD_none || !zt_dtype_in(zt_out(g, node, 0)->dtype, stored))
        return false;
    const int inputs = folds(g, node) ? count : simd[id].inputs;
    *to = (struct zt_pointwise){ .value = simd[id].value,
                                 .dtype = ZT_FLOAT,
                                 .inputs = inputs,
                                 .folds = folds(g, node),
                                 .number = { number[0], number[1] },
                                 .scale = id == ZT_SIMD_mean ? 1 / (float)count : 1 };
    return have_types(g, node, inputs, represented);
}

bool zt_pointwise_find(const struct zt_graph *g, int node, struct zt_pointwise *to) {
    const struct zt_elementwise *loops = g->nodes[node]->op->detail;
    return (loops && loops->expression ? loops->expression(g, node, to)
                                       : find_typed(g, node, to) || find_float(g, node, to)) &&
           to->inputs <= ZT_POINTWISE_INPUTS;
}

bool zt_pointwise_takes_cuda(const struct zt_graph *g, int node) {
    struct zt_pointwise what;
    return zt_pointwise_find(g, node, &what);
}

bool zt_pointwise_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    struct zt_fused_elementwise *fused = to;
    struct zt_fused_elementwise_step *step = &fused->step[0];
    if (!zt_pointwise_find(g, node, &step->what))
        return zt_node_fail(g, node, err, "there is no expression for it");
    fused->inputs = step->what.inputs;
    fused->steps = 1;
    step->dtype = zt_out(g, node, 0)->dtype;
    for (int i = 0; i < fused->inputs; i++)
        step->from[i] = i;
    return true;
}
