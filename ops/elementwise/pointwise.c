#include "ops/elementwise/pointwise.h"

#include "ops/elementwise/elementwise_cpu.h"
#include "ops/elementwise/simd_elementwise.h"
#include "ops/random/random.h"
#include "ops/elementwise/simd_typed.h"

#include <string.h>

/* Values a float holds, and what a float is stored as. */
static const unsigned held = ZT_BIT(ZT_FLOAT) | ZT_ANY_HALF | ZT_BIT(ZT_BOOL) | ZT_BIT(ZT_UINT8) | ZT_BIT(ZT_INT8) |
                             ZT_BIT(ZT_UINT16) | ZT_BIT(ZT_INT16);
static const unsigned kept = ZT_BIT(ZT_FLOAT) | ZT_ANY_HALF | ZT_BIT(ZT_BOOL);

static const struct {
    const char *value;
    int inputs;
} lanes[ZT_SIMD_OPS] = {
#define SIMD_OP(id, NAME, INPUTS, U, U0, V, V0, ZERO, VALUE) [ZT_SIMD_##id] = { #VALUE, INPUTS },
    ZT_ELEMENTWISE(SIMD_OP)
#undef SIMD_OP
};

static bool have_types(const struct zt_graph *g, int node, int inputs, unsigned types) {
    bool good = g->nodes[node]->in_count >= inputs;
    for (int i = 0; good && i < inputs; i++)
        good = zt_in(g, node, i) && zt_dtype_in(zt_in(g, node, i)->dtype, types);
    return good;
}

/* Max, Min, Sum, Mean */
static bool folds(const struct zt_graph *g, int node) {
    return g->nodes[node]->op->flags & ZT_OP_VARIADIC;
}

/* Chosen elements are moved as they are. */
static bool find_choice(const struct zt_graph *g, int node, struct zt_pointwise *to) {
    if (strcmp(g->nodes[node]->op_type, "Where") != 0)
        return false;
    *to = (struct zt_pointwise){
        .value = "a ? b : c", .dtype = zt_in(g, node, 1)->dtype, .moves = true, .inputs = 3, .scale = 1
    };
    return true;
}

/* DropoutGrad(dy, mask[, ratio]) with a ratio that is known. */
static bool find_dropout_grad(const struct zt_graph *g, int node, struct zt_pointwise *to) {
    double ratio;
    if (strcmp(g->nodes[node]->op_type, "DropoutGrad") != 0 || !zt_dropout_ratio(g, node, 2, &ratio) ||
        !have_types(g, node, 2, held))
        return false;
    float scale = (float)zt_dropout_scale(ratio);
    *to = (struct zt_pointwise){
        .value = "F(drop)(b == 0, a * u)", .dtype = ZT_FLOAT, .inputs = 2, .number = { scale, 0 }, .scale = 1
    };
    return true;
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
    const int lane = zt_simd_elementwise(g, node, number), count = g->nodes[node]->in_count;
    if (lane == ZT_SIMD_OPS || !zt_dtype_in(zt_out(g, node, 0)->dtype, kept))
        return false;
    const int inputs = folds(g, node) ? count : lanes[lane].inputs;
    *to = (struct zt_pointwise){ .value = lanes[lane].value,
                                 .dtype = ZT_FLOAT,
                                 .inputs = inputs,
                                 .folds = folds(g, node),
                                 .number = { number[0], number[1] },
                                 .scale = lane == ZT_SIMD_mean ? 1 / (float)count : 1 };
    return have_types(g, node, inputs, held);
}

bool zt_pointwise_find(const struct zt_graph *g, int node, struct zt_pointwise *to) {
    return (find_choice(g, node, to) || find_dropout_grad(g, node, to) || find_typed(g, node, to) ||
            find_float(g, node, to)) &&
           to->inputs <= ZT_POINTWISE_INPUTS;
}
