/* MatMulInteger  y = (a - a_zero) (b - b_zero)                                          int32, wraps
 * QLinearMatMul  y = clip(round((a - a_zero) (b - b_zero) a_scale b_scale / y_scale) + y_zero)
 *
 * Scales and zero points: one number, a number for each row of a and each column of b, or (more than two axes) numbers
 * that broadcast. No gradient. */
#include "ops/quantize/kernels.h"
#include "ops/quantize/requantize.h"

#include "ops/kernel/shape.h"
#include "ops/matmul/matmul.h"

/* The operands of each operator. */
struct operands {
    struct zt_quantized_in a, b;
};
static const struct operands integer = { { 0, -1, 2 }, { 1, -1, 3 } };
static const struct operands quantized = { { 0, 1, 2 }, { 3, 4, 5 } };
enum { Y_SCALE = 6, Y_ZERO = 7 };

/* The axis along which a vector of numbers lies: rows of a, columns of b. A vector operand has none. */
static int axis_of(const struct zt_shape *s, bool rows) {
    return s->rank < 2 ? -1 : s->rank - (rows ? 2 : 1);
}

static bool check_operand(const struct zt_graph *g, int node, struct zt_quantized_in in, bool rows,
                          struct zt_err *err) {
    const struct zt_shape *s = &zt_in(g, node, in.at)->shape;
    return zt_quantized_fits(g, node, in.zero, s, axis_of(s, rows), err) &&
           (in.scale < 0 || zt_quantized_fits(g, node, in.scale, s, axis_of(s, rows), err));
}

static bool read(const struct zt_graph *g, int node, const struct operands *o, struct zt_matmul *to,
                 struct zt_err *err) {
    return zt_matmul_read(g, node, &zt_in(g, node, o->a.at)->shape, &zt_in(g, node, o->b.at)->shape, to, err) &&
           check_operand(g, node, o->a, true, err) && check_operand(g, node, o->b, false, err);
}

static bool integer_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_matmul m;
    if (!read(g, node, &integer, &m, err))
        return false;
    zt_set_out(g, node, 0, ZT_INT32, &m.out);
    return true;
}

static bool quantized_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_matmul m;
    if (!read(g, node, &quantized, &m, err) || !zt_quantized_out(g, node, Y_SCALE, Y_ZERO, err))
        return false;
    zt_set_out(g, node, 0, zt_in(g, node, Y_ZERO)->dtype, &m.out);
    return true;
}

/* ---- reference kernels; workspace: the operands and the sums as doubles ---- */

static bool prepare(struct zt_prepare *p, struct zt_err *err) {
    (void)err;
    const bool rounds = p->graph->nodes[p->node]->in_count > Y_ZERO;
    const struct operands *o = rounds ? &quantized : &integer;
    p->workspace_bytes = sizeof(double) * (size_t)(zt_shape_count(&zt_in(p->graph, p->node, o->a.at)->shape) +
                                                   zt_shape_count(&zt_in(p->graph, p->node, o->b.at)->shape) +
                                                   zt_shape_count(&zt_out(p->graph, p->node, 0)->shape));
    return true;
}

/* Returns the sums. */
static double *multiply(const struct zt_call *call, const struct operands *o, struct zt_matmul *m, struct zt_err *err) {
    const struct zt_shape *a = &call->in[o->a.at].shape, *b = &call->in[o->b.at].shape;
    double *left = call->workspace, *right = left + zt_shape_count(a), *sum = right + zt_shape_count(b);
    if (!read(call->graph, zt_call_node(call), o, m, err))
        return NULL;
    zt_quantized_center(call, o->a, axis_of(a, true), left);
    zt_quantized_center(call, o->b, axis_of(b, false), right);
    zt_product_run(&(struct zt_product){ .geometry = *m,
                                         .dtype = ZT_DOUBLE,
                                         .a = left,
                                         .b = right,
                                         .alpha = 1,
                                         .beta = 1,
                                         .y = sum,
                                         .threads = call->threads });
    return sum;
}

static bool integer_ref(const struct zt_call *call, struct zt_err *err) {
    struct zt_matmul m;
    const double *sum = multiply(call, &integer, &m, err);
    if (sum)
        zt_store_wrapped(call, sum);
    return sum != NULL;
}

/* Steps of an operand's scale over the result: batch axes as they broadcast, then the operand's own axis. */
static void scale_steps(const struct zt_view *scale, const struct zt_shape *of, bool rows, const struct zt_shape *out,
                        int64_t step[ZT_MAX_RANK]) {
    int64_t own[ZT_MAX_RANK];
    const int axis = axis_of(of, rows), last = out->rank - 1;
    zt_quantized_steps(scale, of, axis, own);
    for (int k = 0; k < ZT_MAX_RANK; k++)
        step[k] = 0;
    if (axis < 0 || out->rank < 1)
        return;
    /* Axes of the result from the end: columns (if b has them), rows (if a has them), batch. */
    const int missing = (of->rank > out->rank); /* the other operand is a vector */
    for (int k = 0; k < of->rank - 2; k++)
        if (out->rank - of->rank + missing + k >= 0)
            step[out->rank - of->rank + missing + k] = own[k];
    const int to = rows ? last - !missing : last;
    if (to >= 0)
        step[to] = own[axis];
}

static bool quantized_ref(const struct zt_call *call, struct zt_err *err) {
    struct zt_matmul m;
    const double *sum = multiply(call, &quantized, &m, err);
    const struct zt_shape *out = &call->out[0].shape;
    const struct zt_requantize r = { call, { quantized.a.scale, quantized.b.scale }, Y_SCALE, Y_ZERO };
    int64_t step[2][ZT_MAX_RANK], index[ZT_MAX_RANK] = { 0 };
    const int64_t count = sum ? zt_shape_count(out) : 0;
    scale_steps(&call->in[r.scales[0]], &call->in[quantized.a.at].shape, true, out, step[0]);
    scale_steps(&call->in[r.scales[1]], &call->in[quantized.b.at].shape, false, out, step[1]);
    for (int64_t i = 0; i < count; i++) {
        int64_t at[2] = { 0, 0 };
        for (int k = 0; k < out->rank; k++) {
            at[0] += index[k] * step[0][k];
            at[1] += index[k] * step[1][k];
        }
        zt_requantize(&r, sum[i], at, i);
        zt_next_index(out, index);
    }
    return sum != NULL;
}

/* ---- rows ---- */

enum {
    BYTES = ZT_BIT(ZT_INT8) | ZT_BIT(ZT_UINT8),
    BYTES_21 = BYTES | ZT_ANY_FLOAT8,
    SCALES = ZT_BIT(ZT_FLOAT),
    SCALES_21 = SCALES | ZT_ANY_HALF
};

const struct zt_op zt_op_matmul_integer = {
    .name = "MatMulInteger",
    .domain = "",
    .since = 10,
    ZT_ONE_OUT(2, 4),
    .in_types = { BYTES, BYTES, BYTES, BYTES },
    .infer = integer_infer,
    .flops = zt_matmul_flops,
    .kernel = { [ZT_REF] = { .prepare = prepare, .run = integer_ref } },
};

#define QLINEAR_ROW(id, SINCE, UNTIL, Q, S)                                                                            \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = "QLinearMatMul",                                                                                       \
        .domain = "",                                                                                                  \
        .since = SINCE,                                                                                                \
        .until = UNTIL,                                                                                                \
        ZT_ONE_OUT(8, 8),                                                                                              \
        .in_types = { Q, S, Q, Q, S, Q, S, Q },                                                                        \
        .same_type = 1 << 2,                                                                                           \
        .infer = quantized_infer,                                                                                      \
        .body = zt_same_opset_form_body,                                                                               \
        .kernel = { [ZT_REF] = { .prepare = prepare, .run = quantized_ref } },                                         \
    };

QLINEAR_ROW(qlinear_matmul_10, 10, 20, BYTES, SCALES)
QLINEAR_ROW(qlinear_matmul, 21, 0, BYTES_21, SCALES_21)
