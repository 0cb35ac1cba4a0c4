/* FusedConv    y = activation(Conv(x, w, b) + z)       FusedGemm  y = activation(Gemm(a, b, c))
 * FusedMatMul  y = alpha MatMul(a', b'); transA and transB exchange the last two axes, transBatchA and transBatchB put
 *              the first axis behind the axes between. TransposeMatMul is its older name. */
#include "ops/lowered/fused.h"

#include <string.h>

/* ---- activations ---- */

/* Parameters are attributes, in the order of activation_params, or (limits) inputs. */
static const struct activation {
    const char *name, *attr[2];
    bool limits;
} activations[] = {
    { "Clip", { NULL, NULL }, true },
    { "Elu", { "alpha", NULL }, false },
    { "HardSigmoid", { "alpha", "beta" }, false },
    { "LeakyRelu", { "alpha", NULL }, false },
    { "Relu", { NULL, NULL }, false },
    { "Selu", { "alpha", "gamma" }, false },
    { "Sigmoid", { NULL, NULL }, false },
    { "Softplus", { NULL, NULL }, false },
    { "Softsign", { NULL, NULL }, false },
    { "Tanh", { NULL, NULL }, false },
    { "ThresholdedRelu", { "alpha", NULL }, false },
};

struct params {
    const float *at;
    int count;
};

/* What the attribute `activation` names; NULL: none. */
static const struct activation *activation_of(struct zt_lowering *l) {
    const char *name = zt_attr_text(l->n, "activation", "");
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
        if (strcmp(activations[i].name, name) == 0)
            return &activations[i];
    if (*name)
        ZT_LOWER_FAIL(l, "its activation \"%s\" is not supported", name);
    return NULL;
}

/* a(value) as the node's result; `a` NULL: the value. */
static void activate(struct zt_lowering *l, int value, const struct activation *a, struct params p) {
    struct zt_attr attrs[2];
    int count = 0, in[3] = { value, -1, -1 };
    if (l->failed || !a) {
        ZT_LOWER(l, l->n->out[0], "Identity", value);
        return;
    }
    for (int i = 0; i < p.count && i < 2 && a->limits; i++)
        in[1 + i] = zt_graph_add_float(l->g, NULL, zt_lower_first(l)->dtype, p.at[i]);
    for (int i = 0; i < p.count && i < 2 && a->attr[i]; i++)
        attrs[count++] = (struct zt_attr){ .name = a->attr[i], .type = ZT_ATTR_FLOAT, .f = p.at[i] };
    zt_lower(l, l->n->out[0], &(struct zt_expand_node){ a->name, in, a->limits ? 3 : 1, attrs, count });
}

/* Writes the node's result: the activation that its attributes `activation` and `activation_params` name, of `value`;
 * without one, `value`. */
static void lower_activation(struct zt_lowering *l, int value) {
    const struct zt_attr *params = zt_node_attr(l->n, "activation_params");
    activate(l, value, activation_of(l),
             params ? (struct params){ params->floats, params->count } : (struct params){ NULL, 0 });
}

/* ---- FusedConv ---- */

void zt_lower_fused_conv(struct zt_lowering *l, int w) {
    static const char *const of_conv[] = { "auto_pad", "dilations", "group", "kernel_shape", "pads", "strides", NULL };
    int count;
    const struct zt_attr *attrs = zt_lower_attrs(l, of_conv, &count);
    const int y = ZT_LOWER_WITH(l, -1, "Conv", attrs, count, l->n->in[0], w, zt_lower_in(l, 2));
    lower_activation(l, zt_lower_add(l, -1, y, zt_lower_in(l, 3)));
}

static void fused_conv(struct zt_lowering *l) {
    zt_lower_fused_conv(l, l->n->in[1]);
}

/* ---- FusedGemm ---- */

static void fused_gemm(struct zt_lowering *l) {
    static const char *const of_gemm[] = { "alpha", "beta", "transA", "transB", NULL };
    const struct activation *a = activation_of(l);
    float params[2];
    int count, given = 0;
    const struct zt_attr *attrs = zt_lower_attrs(l, of_gemm, &count);
    for (int i = 0; i < 2 && a && a->attr[i]; i++) {
        const char *name = zt_arena_printf(l->g->arena, "activation_%s", a->attr[i]);
        const struct zt_attr *param = zt_node_attr(l->n, name);
        if (!param)
            break;
        params[given++] = param->f;
    }
    const int y = ZT_LOWER_WITH(l, -1, "Gemm", attrs, count, l->n->in[0], l->n->in[1], zt_lower_in(l, 2));
    activate(l, y, a, (struct params){ params, given });
}

/* ---- FusedMatMul ---- */

/* Operand `in` as MatMul reads it. */
static int operand(struct zt_lowering *l, int in, const char *matrices, const char *batch) {
    const int rank = zt_in(l->g, l->x->node, in)->shape.rank;
    const bool exchanged = zt_attr_int(l->n, matrices, 0) && rank > 1, moved = zt_attr_int(l->n, batch, 0) && rank > 2;
    int64_t *perm = ZT_NEW_N(l->g->arena, int64_t, ZT_MAX_RANK);
    for (int k = 0; k < rank; k++)
        perm[k] = !moved || k == rank - 1 ? k : k == rank - 2 ? 0 : k + 1;
    if (exchanged) {
        const int64_t last = perm[rank - 1];
        perm[rank - 1] = perm[rank - 2];
        perm[rank - 2] = last;
    }
    const struct zt_attr attr = { .name = "perm", .type = ZT_ATTR_INTS, .count = rank, .ints = perm };
    return exchanged || moved ? ZT_LOWER_WITH(l, -1, "Transpose", &attr, 1, l->n->in[in]) : l->n->in[in];
}

static void fused_matmul(struct zt_lowering *l) {
    const float alpha = zt_attr_float(l->n, "alpha", 1);
    const int a = operand(l, 0, "transA", "transBatchA"), b = operand(l, 1, "transB", "transBatchB");
    const int y = ZT_LOWER(l, alpha == 1 ? l->n->out[0] : -1, "MatMul", a, b);
    if (alpha != 1)
        ZT_LOWER(l, l->n->out[0], "Mul", y, zt_graph_add_float(l->g, NULL, zt_lower_first(l)->dtype, alpha));
}

/* ---- rows ---- */

ZT_LOWERED(fused_conv)
ZT_LOWERED(fused_gemm)
ZT_LOWERED(fused_matmul)

const struct zt_attr_spec zt_fused_conv_attrs[] = { { "activation", ZT_ATTR_STRING },
                                                    { "activation_params", ZT_ATTR_FLOATS },
                                                    { "auto_pad", ZT_ATTR_STRING },
                                                    { "dilations", ZT_ATTR_INTS },
                                                    { "group", ZT_ATTR_INT },
                                                    { "kernel_shape", ZT_ATTR_INTS },
                                                    { "pads", ZT_ATTR_INTS },
                                                    { "strides", ZT_ATTR_INTS },
                                                    { 0 } };
static const struct zt_attr_spec gemm_attrs[] = { { "activation", ZT_ATTR_STRING },
                                                  { "activation_alpha", ZT_ATTR_FLOAT },
                                                  { "activation_beta", ZT_ATTR_FLOAT },
                                                  { "activation_gamma", ZT_ATTR_FLOAT },
                                                  { "alpha", ZT_ATTR_FLOAT },
                                                  { "beta", ZT_ATTR_FLOAT },
                                                  { "transA", ZT_ATTR_INT },
                                                  { "transB", ZT_ATTR_INT },
                                                  { 0 } };
static const struct zt_attr_spec matmul_attrs[] = { { "alpha", ZT_ATTR_FLOAT },     { "transA", ZT_ATTR_INT },
                                                    { "transB", ZT_ATTR_INT },      { "transBatchA", ZT_ATTR_INT },
                                                    { "transBatchB", ZT_ATTR_INT }, { 0 } };

#define FUSED_ROW(id, NAME, MOST, EXPAND, ATTRS)                                                                       \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = NAME,                                                                                                  \
        .domain = "com.microsoft",                                                                                     \
        .since = 1,                                                                                                    \
        ZT_ONE_OUT(2, MOST),                                                                                           \
        .in_types = { ZT_ANY_FLOAT },                                                                                  \
        .same_type = 0xe,                                                                                              \
        .attrs = ATTRS,                                                                                                \
        .expand = EXPAND##_expand,                                                                                     \
    };

FUSED_ROW(fused_conv, "FusedConv", 4, fused_conv, zt_fused_conv_attrs)
FUSED_ROW(fused_gemm, "FusedGemm", 3, fused_gemm, gemm_attrs)
FUSED_ROW(fused_matmul, "FusedMatMul", 2, fused_matmul, matmul_attrs)
FUSED_ROW(transpose_matmul, "TransposeMatMul", 2, fused_matmul, matmul_attrs)
