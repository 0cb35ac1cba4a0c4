/* QuantizeLinear    q = clip(round(x / scale) + zero_point)        no gradient of its own: ztrain.FakeQuantize
 * DequantizeLinear  y = (q - zero_point) * scale                   (fake_quantize.c) stands for the pair
 *
 * One scale for the tensor, for each index of an axis (opset 13 on), or for each block along an axis (opset 21 on).
 * Formulas: quantize.h. Where the standard leaves room:
 *
 *     a scale of float8e8m0 or int32 without `precision` divides in the type of x (float where x is int32), or in
 * double NaN becomes the lowest integer the zero point of a float type is added like any other products are float, then
 * rounded to the output's type */
#include "ops/quantize/kernels.h"
#include "ops/quantize/quantize_ref.h"

#include "ops/kernel/shape.h"

static bool quantize_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_quantize q;
    if (!zt_quantize_read(g, node, 0, &q, err))
        return false;
    zt_set_out(g, node, 0, q.type, &zt_in(g, node, 0)->shape);
    return true;
}

static bool dequantize_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_quantize q;
    enum zt_dtype dtype;
    if (!zt_quantize_read(g, node, 0, &q, err) || !zt_dequantize_type(g, node, 0, &dtype, err))
        return false;
    zt_set_out(g, node, 0, dtype, &zt_in(g, node, 0)->shape);
    return true;
}

static void quantize_piece(const struct zt_quantize_job *job, const struct zt_quantize_run *run) {
    for (int64_t i = 0; i < run->count; i++) {
        const int64_t at = run->at + i, s = run->scale + i * run->step;
        const double v = zt_quantize_divide(&job->q, zt_quantize_in(job, 0, at), zt_quantize_in(job, 1, s));
        zt_quantize_store(&job->q, v, zt_quantize_in(job, 2, s), job->call->out[0].data, at);
    }
}

static void dequantize_piece(const struct zt_quantize_job *job, const struct zt_quantize_run *run) {
    const struct zt_view *y = &job->call->out[0];
    for (int64_t i = 0; i < run->count; i++) {
        const int64_t at = run->at + i, s = run->scale + i * run->step;
        zt_store_double(
            y->dtype, y->data, at,
            zt_dequantized(zt_quantize_in(job, 0, at), zt_quantize_in(job, 2, s), zt_quantize_in(job, 1, s)));
    }
}

static bool quantize_ref(const struct zt_call *call, struct zt_err *err) {
    return zt_quantize_run_ref(call, quantize_piece, err);
}

static bool dequantize_ref(const struct zt_call *call, struct zt_err *err) {
    return zt_quantize_run_ref(call, dequantize_piece, err);
}

/* ---- rows: an opset adds types and attributes ---- */

enum {
    HALVES = ZT_ANY_HALF,
    E8M0 = ZT_BIT(ZT_FLOAT8E8M0),
    X_10 = ZT_BIT(ZT_FLOAT) | ZT_BIT(ZT_INT32),
    X_19 = X_10 | HALVES,
    Q_10 = ZT_BIT(ZT_INT8) | ZT_BIT(ZT_UINT8),
    Q_19 = Q_10 | ZT_ANY_FLOAT8,
    Q_21 = Q_19 | ZT_BIT(ZT_INT16) | ZT_BIT(ZT_UINT16) | ZT_BIT(ZT_INT4) | ZT_BIT(ZT_UINT4),
    Q_23 = Q_21 | ZT_BIT(ZT_FLOAT4E2M1),
    Q_25 = Q_23 | ZT_BIT(ZT_INT2) | ZT_BIT(ZT_UINT2),
    SCALE_10 = ZT_BIT(ZT_FLOAT),
    SCALE_19 = SCALE_10 | HALVES,
    INT32 = ZT_BIT(ZT_INT32),
};

static const struct zt_attr_spec axis_attrs[] = { { "axis", ZT_ATTR_INT }, { 0 } };
static const struct zt_attr_spec quantize_attrs_19[] = { { "axis", ZT_ATTR_INT }, { "saturate", ZT_ATTR_INT }, { 0 } };
static const struct zt_attr_spec quantize_attrs_21[] = { { "axis", ZT_ATTR_INT },
                                                         { "saturate", ZT_ATTR_INT },
                                                         { "block_size", ZT_ATTR_INT },
                                                         { "output_dtype", ZT_ATTR_INT },
                                                         { 0 } };
static const struct zt_attr_spec quantize_attrs_23[] = { { "axis", ZT_ATTR_INT },
                                                         { "saturate", ZT_ATTR_INT },
                                                         { "block_size", ZT_ATTR_INT },
                                                         { "output_dtype", ZT_ATTR_INT },
                                                         { "precision", ZT_ATTR_INT, .element_type = true },
                                                         { 0 } };
static const struct zt_attr_spec dequantize_attrs_21[] = { { "axis", ZT_ATTR_INT },
                                                           { "block_size", ZT_ATTR_INT },
                                                           { 0 } };
static const struct zt_attr_spec dequantize_attrs_23[] = {
    { "axis", ZT_ATTR_INT }, { "block_size", ZT_ATTR_INT }, { "output_dtype", ZT_ATTR_INT, .element_type = true }, { 0 }
};

/* SAME: the inputs with the type of x. */
#define QUANTIZE_ROW(id, SINCE, UNTIL, X, SCALE, Q, SAME, ATTRS)                                                       \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = "QuantizeLinear",                                                                                      \
        .domain = "",                                                                                                  \
        .since = SINCE,                                                                                                \
        .until = UNTIL,                                                                                                \
        ZT_ONE_OUT(2, 3),                                                                                              \
        .flags = ZT_OP_LIGHT,                                                                                          \
        .in_types = { X, SCALE, Q },                                                                                   \
        .same_type = SAME,                                                                                             \
        .attrs = ATTRS,                                                                                                \
        .infer = quantize_infer,                                                                                       \
        .scale_in = 1 << 1,                                                                                            \
        .body = zt_same_opset_form_body,                                                                               \
        .kernel = { [ZT_REF] = { .run = quantize_ref },                                                                \
                    [ZT_CPU] = ZT_ON_CPU(zt_quantize_cpu),                                                             \
                    [ZT_CUDA] = ZT_CUDA_AS(quantize, zt_quantize_takes_cuda, zt_quantize_describe) },                  \
    };

#define DEQUANTIZE_ROW(id, SINCE, UNTIL, SCALE, Q, ATTRS)                                                              \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = "DequantizeLinear",                                                                                    \
        .domain = "",                                                                                                  \
        .since = SINCE,                                                                                                \
        .until = UNTIL,                                                                                                \
        ZT_ONE_OUT(2, 3),                                                                                              \
        .flags = ZT_OP_LIGHT,                                                                                          \
        .in_types = { (Q) | INT32, SCALE, (Q) | INT32 },                                                               \
        .same_type = 1 << 2,                                                                                           \
        .attrs = ATTRS,                                                                                                \
        .infer = dequantize_infer,                                                                                     \
        .join = zt_quantize_join,                                                                                      \
        .scale_in = 1 << 1,                                                                                            \
        .body = zt_same_opset_form_body,                                                                               \
        .kernel = { [ZT_REF] = { .run = dequantize_ref },                                                              \
                    [ZT_CPU] = ZT_ON_CPU(zt_quantize_cpu),                                                             \
                    [ZT_CUDA] = ZT_CUDA_AS(quantize, zt_quantize_takes_cuda, zt_quantize_describe) },                  \
    };

QUANTIZE_ROW(quantize_10, 10, 12, X_10, SCALE_10, Q_10, 0, NULL)
QUANTIZE_ROW(quantize_13, 13, 18, X_10, SCALE_10, Q_10, 0, axis_attrs)
QUANTIZE_ROW(quantize_19, 19, 20, X_19, X_19, Q_19, 1 << 1, quantize_attrs_19)
QUANTIZE_ROW(quantize_21, 21, 22, X_19, X_19, Q_21, 1 << 1, quantize_attrs_21)
QUANTIZE_ROW(quantize_23, 23, 23, X_19, X_19, Q_23, 0, quantize_attrs_23)
QUANTIZE_ROW(quantize_24, 24, 24, X_19, X_19 | E8M0, Q_23, 0, quantize_attrs_23)
QUANTIZE_ROW(quantize, 25, 0, X_19, X_19 | E8M0, Q_25, 0, quantize_attrs_23)

DEQUANTIZE_ROW(dequantize_10, 10, 12, SCALE_10, Q_10, NULL)
DEQUANTIZE_ROW(dequantize_13, 13, 18, SCALE_10, Q_10, axis_attrs)
DEQUANTIZE_ROW(dequantize_19, 19, 20, SCALE_19, Q_19, axis_attrs)
DEQUANTIZE_ROW(dequantize_21, 21, 22, SCALE_19, Q_21, dequantize_attrs_21)
DEQUANTIZE_ROW(dequantize_23, 23, 23, SCALE_19, Q_23, dequantize_attrs_23)
DEQUANTIZE_ROW(dequantize_24, 24, 24, SCALE_19 | E8M0, Q_23, dequantize_attrs_23)
DEQUANTIZE_ROW(dequantize, 25, 0, SCALE_19 | E8M0, Q_25, dequantize_attrs_23)
