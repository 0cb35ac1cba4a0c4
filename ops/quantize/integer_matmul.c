/* MatMulInteger  y = (a - a_zero) (b - b_zero)                                          int32, wraps
 * QLinearMatMul  y = clip(round((a - a_zero) (b - b_zero) a_scale b_scale / y_scale) + y_zero)
 *
 * Scales and zero points: one number, a number for each row of a and each column of b, or (more than two axes) numbers
 * that broadcast. No gradient. */
#include "ops/quantize/integer_cpu.h"
#include "ops/quantize/kernels.h"
#include "ops/quantize/requantize.h"

#include "device/threads.h"
#include "ops/cpu/blocked_layout.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/window.h"
#include "ops/matmul/product_cpu.h"

#include <stdlib.h>

/* The operands of each operator. */
struct operands {
    struct zt_quantized_in a, b;
};
static const struct operands integer = { { 0, -1, 2 }, { 1, -1, 3 } };
static const struct operands quantized = { { 0, 1, 2 }, { 3, 4, 5 } };
enum { Y_SCALE = 6, Y_ZERO = 7 };

static const struct operands *operands_of(const struct zt_node *n) {
    return n->in_count > Y_ZERO ? &quantized : &integer;
}

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
    const struct operands *o = operands_of(p->graph->nodes[p->node]);
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

/* ---- CPU kernels (integer_cpu.h) ---- */

struct matmul_state {
    struct zt_product_cpu product;
    struct zt_simd_gemm gemm;               /* of the first slice of the depth, which is as deep as any */
    size_t a, b, part, sum, zeros, gemm_at; /* parts of the workspace; MatMulInteger sums in its result */
};

static bool read_cpu(const struct zt_graph *g, int node, struct zt_product_cpu *p) {
    const struct operands *o = operands_of(g->nodes[node]);
    struct zt_err none = { 0 };
    *p = (struct zt_product_cpu){ .scale = 1 };
    if (!zt_integer_cpu_takes(g, node, o->a) || !zt_integer_cpu_takes(g, node, o->b) ||
        !read(g, node, o, &p->shape, &none))
        return false;
    const struct zt_matmul *s = &p->shape;
    return s->m > 0 && s->n > 0 && s->k > 0 && s->m <= INT32_MAX && s->n <= INT32_MAX &&
           s->k <= (o == &integer ? INT32_MAX : ZT_INTEGER_MOST) && zt_product_cpu_merge(p) && p->count > 0;
}

static bool takes_cpu(const struct zt_graph *g, int node) {
    struct zt_product_cpu p;
    return read_cpu(g, node, &p);
}

static bool prepare_cpu(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_graph *g = p->graph;
    const struct operands *o = operands_of(g->nodes[p->node]);
    const struct zt_shape *a = &zt_in(g, p->node, o->a.at)->shape, *b = &zt_in(g, p->node, o->b.at)->shape;
    struct zt_product_cpu product;
    if (!read_cpu(g, p->node, &product))
        return zt_node_fail(g, p->node, err, "a product that the CPU kernels do not take");
    struct matmul_state *s = p->state = zt_calloc(1, sizeof *s);
    size_t *bytes = &p->workspace_bytes;
    s->product = product;
    zt_layout_plain(p);
    const int64_t count = zt_shape_count(&zt_out(g, p->node, 0)->shape);
    const int64_t a_zeros = zt_integer_zeros(g, p->node, o->a), b_zeros = zt_integer_zeros(g, p->node, o->b);
    s->gemm = zt_product_cpu_gemm(&s->product);
    if (s->gemm.k > ZT_INTEGER_DEPTH)
        s->gemm.k = ZT_INTEGER_DEPTH;
    s->a = zt_integer_part(bytes, zt_shape_count(a));
    s->b = zt_integer_part(bytes, zt_shape_count(b));
    s->part = zt_integer_part(bytes, count);
    s->sum = zt_integer_part(bytes, o == &integer ? 0 : count);
    s->zeros = zt_integer_part(bytes, a_zeros > b_zeros ? a_zeros : b_zeros);
    s->gemm_at = *bytes;
    *bytes += zt_simd_gemm_bytes(zt_simd_gemm_best(), &s->gemm, p->threads);
    return true;
}

/* A slice of the depth is added up, in blocks of the result. */
struct adding {
    const float *part;
    int32_t *sum;
    int64_t count;
    bool first;
};
enum { ADDED = 1 << 14 };

static void add_block(void *arg, int64_t block) {
    const struct adding *j = arg;
    const int64_t at = block * ADDED, left = j->count - at;
    zt_integer_add(j->part + at, left < ADDED ? left : ADDED, j->first, j->sum + at);
}

static void sum_products(const struct zt_call *call, int32_t *sum) {
    const struct matmul_state *s = call->state;
    const struct operands *o = operands_of(call->node);
    float *a = zt_element(call->workspace, 1, (int64_t)s->a), *b = zt_element(call->workspace, 1, (int64_t)s->b);
    float *part = zt_element(call->workspace, 1, (int64_t)s->part);
    float *zeros = zt_element(call->workspace, 1, (int64_t)s->zeros);
    zt_integer_center(call, o->a, axis_of(&call->in[o->a.at].shape, true), zeros, a);
    zt_integer_center(call, o->b, axis_of(&call->in[o->b.at].shape, false), zeros, b);
    struct zt_simd_gemm gemm = s->gemm;
    struct adding j = { .part = part, .sum = sum, .count = zt_shape_count(&call->out[0].shape), .first = true };
    for (int64_t k = 0; k < s->product.shape.k; k += ZT_INTEGER_DEPTH, j.first = false) {
        const int64_t left = s->product.shape.k - k;
        gemm.k = left < ZT_INTEGER_DEPTH ? left : ZT_INTEGER_DEPTH;
        const struct zt_simd_gemm_operands operands = { .a = a + k * gemm.a_col, .b = b + k * gemm.b_row, .y = part };
        zt_simd_gemm_run(zt_simd_gemm_best(), &gemm, &operands, zt_element(call->workspace, 1, (int64_t)s->gemm_at),
                         call->threads);
        zt_parallel_for(zt_threads_worth(call->threads, (double)j.count), (j.count + ADDED - 1) / ADDED, add_block, &j);
    }
}

static bool integer_cpu(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    sum_products(call, call->out[0].data);
    return true;
}

/* Rows of the result. */
struct rounding {
    struct zt_requantize r;
    struct zt_shape rows; /* all axes but the last */
    int64_t columns, step[2][ZT_MAX_RANK];
    const int32_t *sum;
};

static void round_row(void *arg, int64_t row) {
    const struct rounding *j = arg;
    int64_t index[ZT_MAX_RANK], at[2] = { 0, 0 };
    zt_window_split(row, j->rows.dim, j->rows.rank, index);
    for (int k = 0; k < j->rows.rank; k++) {
        at[0] += index[k] * j->step[0][k];
        at[1] += index[k] * j->step[1][k];
    }
    const int64_t step[2] = { j->step[0][j->rows.rank], j->step[1][j->rows.rank] };
    zt_requantize_row(&j->r, j->sum + row * j->columns, j->columns, at, step, row * j->columns);
}

static bool quantized_cpu(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct matmul_state *s = call->state;
    const struct zt_shape *out = &call->out[0].shape;
    int32_t *sum = zt_element(call->workspace, 1, (int64_t)s->sum);
    struct rounding j = { .r = { call, { quantized.a.scale, quantized.b.scale }, Y_SCALE, Y_ZERO }, .sum = sum };
    sum_products(call, sum);
    j.rows = *out;
    j.rows.rank -= out->rank > 0;
    j.columns = out->rank > 0 ? out->dim[out->rank - 1] : 1;
    scale_steps(&call->in[j.r.scales[0]], &call->in[quantized.a.at].shape, true, out, j.step[0]);
    scale_steps(&call->in[j.r.scales[1]], &call->in[quantized.b.at].shape, false, out, j.step[1]);
    const int64_t count = zt_shape_count(out);
    zt_parallel_for(zt_threads_worth(call->threads, (double)count), count / j.columns, round_row, &j);
    return true;
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
    .kernel = { [ZT_REF] = { .prepare = prepare, .run = integer_ref },
                [ZT_CPU] = { .supports = takes_cpu, .prepare = prepare_cpu, .run = integer_cpu, .release = free } },
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
        .kernel = { [ZT_REF] = { .prepare = prepare, .run = quantized_ref },                                           \
                    [ZT_CPU] = { .supports = takes_cpu,                                                                \
                                 .prepare = prepare_cpu,                                                               \
                                 .run = quantized_cpu,                                                                 \
                                 .release = free } },                                                                  \
    };

QLINEAR_ROW(qlinear_matmul_10, 10, 20, BYTES, SCALES)
QLINEAR_ROW(qlinear_matmul, 21, 0, BYTES_21, SCALES_21)
