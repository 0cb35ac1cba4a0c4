/* LinearGelu and MatMulGeluGrad (fuse_gelu.c), LinearRelu and MatMulReluGrad (fuse_linear_relu.c) on CUDA: a product
 * of cuBLASLt with GELU, ReLU or a gradient of one as its epilogue. A product without epilogue and a kernel behind it
 * replace it where cuBLASLt has no such epilogue for size, dtype or addresses, where its ReLU differs from ours
 * (relu_probe_cuda.h), and where it leaves the end of a row of bits unwritten. */
#include "ops/cuda/blas_cuda.h"
#include "ops/cuda/describe.h"
#include "ops/cuda/launch_broadcast.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/layout_cuda.h"
#include "ops/elementwise/pointwise_cuda.h"
#include "ops/matmul/filled_rows_cuda.h"
#include "ops/matmul/launch_relu_bits.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul/relu_probe_cuda.h"

#include <stdlib.h>

struct linear {
    struct zt_blas *fused;           /* NULL: there is none */
    struct zt_blas *plain;           /* the product where `fused` does not run; NULL: it always does */
    struct zt_pointwise_kernel gelu; /* behind `plain`, of GELU and its gradient */
    struct zt_launch_bits bits;      /* of ReLU and its gradient */
    enum zt_blas_then then;
    float alpha;
    bool bias;
    bool other; /* cuBLASLt's ReLU differs from ours */
    bool exact; /* GELU's gradient in exact fp32 */
};

static void release(void *state) {
    struct linear *s = state;
    if (s) {
        zt_blas_destroy(s->fused);
        zt_blas_destroy(s->plain);
    }
    free(s);
}

static bool is_relu(const struct linear *s) {
    return s->then == ZT_BLAS_RELU || s->then == ZT_BLAS_RELU_KEEP || s->then == ZT_BLAS_RELU_GRAD;
}

/* Why a kernel runs behind the product. */
static const char *apart(const struct linear *s) {
    if (s->exact)
        return "GELU's gradient behind the product: cuBLASLt's errs by 3e-5";
    if (s->other)
        return "ReLU behind the product: cuBLASLt's loses NaN, or keeps other bits of 0 and NaN";
    return is_relu(s) ? "ReLU behind the product: cuBLASLt has no epilogue for the size, the type or the addresses"
                      : "GELU behind the product: cuBLASLt has no epilogue for the size, the type or the addresses";
}

/* ---- preparing ---- */

static bool make_gelu(const struct zt_prepare *q, struct linear *s, struct zt_err *err) {
    const struct zt_value *y = zt_out(q->graph, q->node, 0);
    struct zt_kernel_source source = { 0 };
    if (!zt_describe_to_cuda(q, &source.fused, err))
        return false;
    for (int i = 0; i < source.fused.inputs; i++)
        source.input[i] = (struct zt_kernel_input){ y->dtype, ZT_BROADCAST_ALIKE, false };
    source.in_place = true;
    s->gelu.arguments.count = zt_shape_count(&y->shape);
    source.wide = s->gelu.arguments.count >= INT32_MAX;
    return zt_pointwise_make(&s->gelu, q->device, &source, err);
}

static bool prepare_plain(const struct zt_prepare *q, struct linear *s, const struct zt_blas_spec *spec,
                          struct zt_err *err) {
    struct zt_blas_spec plain = *spec;
    plain.then = ZT_BLAS_STORE;
    s->plain = zt_blas_create(q->device, &plain, err);
    return s->plain && (is_relu(s) || make_gelu(q, s, err));
}

static bool is_grad(const struct linear *s) {
    return s->then == ZT_BLAS_GELU_GRAD || s->then == ZT_BLAS_RELU_GRAD;
}

static void prepare_fused(const struct zt_prepare *q, struct linear *s, const struct zt_blas_spec *spec) {
    s->exact = s->then == ZT_BLAS_GELU_GRAD && spec->y.dtype == ZT_FLOAT && !spec->tf32;
    if (s->exact)
        return;
    if (s->then == ZT_BLAS_RELU_KEEP && spec->y.columns % ZT_LINEAR_BITS(1))
        return;
    s->fused = zt_blas_create(q->device, spec, &(struct zt_err){ 0 });
    s->other = s->fused && is_relu(s) && !is_grad(s) && !zt_relu_probe(q->device, s->fused, spec);
    if (s->other) {
        zt_blas_destroy(s->fused);
        s->fused = NULL;
    }
}

static bool prepare_products(struct zt_prepare *q, struct linear *s, const struct zt_blas_spec *spec,
                             struct zt_err *err) {
    prepare_fused(q, s, spec);
    if ((!s->fused || !zt_blas_takes(s->fused, NULL)) && !prepare_plain(q, s, spec, err))
        return zt_err_within(err, 0, "%s (%s)", q->graph->nodes[q->node]->name, q->graph->nodes[q->node]->op_type);
    const struct zt_blas *of[] = { s->fused, s->plain };
    for (int i = 0; i < 2; i++)
        if (of[i] && zt_blas_workspace_bytes(of[i]) > q->workspace_bytes)
            q->workspace_bytes = zt_blas_workspace_bytes(of[i]);
    return true;
}

static bool prepare(struct zt_prepare *q, enum zt_blas_then then, struct zt_err *err) {
    const struct zt_graph *g = q->graph;
    const struct zt_node *n = g->nodes[q->node];
    const enum zt_dtype dtype = zt_in(g, q->node, 0)->dtype;
    const bool trans_a = zt_attr_int(n, "transA", 0), trans_b = zt_attr_int(n, "transB", 0);
    struct zt_matmul m;
    if (!zt_matmul_read_node(g, q->node, &m, err))
        return false;
    struct linear *s = zt_calloc(1, sizeof *s);
    s->alpha = zt_attr_float(n, "alpha", 1);
    s->then = then;
    s->bits = (struct zt_launch_bits){ m.m, m.n, ZT_LINEAR_BITS(m.n) / 8 };
    s->bias = !is_grad(s) && zt_in(g, q->node, 2);
    struct zt_blas_spec spec = { .a = zt_blas_packed(dtype, m.m, m.k, trans_a),
                                 .b = zt_blas_packed(dtype, m.k, m.n, trans_b),
                                 .y = zt_blas_packed(dtype, m.m, m.n, false),
                                 .batch = 1,
                                 .bias = s->bias,
                                 .tf32 = q->device->tf32,
                                 .then = then,
                                 .bits_step = ZT_LINEAR_BITS(m.n) };
    zt_filled_sides(q);
    zt_layout_fill(q->in_layout[0], &spec.a.row_step);
    zt_layout_fill(q->in_layout[1], &spec.b.row_step);
    if (prepare_products(q, s, &spec, err)) {
        q->path = (struct zt_path){ "cuBLASLt", s->fused ? NULL : apart(s) };
        q->state = s;
        return true;
    }
    release(s);
    return false;
}

static bool prepare_linear(struct zt_prepare *q, struct zt_err *err) {
    return prepare(q, zt_out(q->graph, q->node, 1) ? ZT_BLAS_GELU_KEEP : ZT_BLAS_GELU, err);
}
static bool prepare_grad(struct zt_prepare *q, struct zt_err *err) {
    return prepare(q, ZT_BLAS_GELU_GRAD, err);
}
static bool prepare_relu(struct zt_prepare *q, struct zt_err *err) {
    return prepare(q, zt_out(q->graph, q->node, 1) ? ZT_BLAS_RELU_KEEP : ZT_BLAS_RELU, err);
}
static bool prepare_relu_grad(struct zt_prepare *q, struct zt_err *err) {
    return prepare(q, ZT_BLAS_RELU_GRAD, err);
}

/* ---- running ---- */

static bool run_relu(const struct linear *s, const struct zt_call *call, const struct zt_blas_data *data,
                     struct zt_err *err) {
    struct CUstream_st *stream = zt_stream_of(call);
    const enum zt_dtype dtype = call->out[0].dtype;
    int code;
    if (s->then == ZT_BLAS_RELU_GRAD)
        code = zt_launch_relu_masked(stream, dtype, &s->bits, data->y, data->z);
    else if (data->z)
        code = zt_launch_relu_keep(stream, dtype, &s->bits, data->y, data->z);
    else
        code = zt_launch_bias(stream, &(struct zt_launch_bias){ dtype, 1, s->bits.rows * s->bits.columns, 1, true },
                              NULL, data->y);
    return zt_launched(call, code, err);
}

/* p goes to z where GELU's z is an output, else to y, which the kernel then overwrites. */
static bool run_plain(const struct linear *s, const struct zt_call *call, struct zt_blas_data data,
                      struct zt_err *err) {
    void *y = data.y;
    if (is_relu(s))
        return zt_blas_run(s->plain, &data, call->workspace, call->node->name, err) && run_relu(s, call, &data, err);
    data.y = data.z && !is_grad(s) ? data.z : y;
    const void *in[] = { data.y, data.z };
    return zt_blas_run(s->plain, &data, call->workspace, call->node->name, err) &&
           zt_pointwise_run(&s->gelu, call, in, y, err);
}

static bool run(const struct zt_call *call, struct zt_err *err) {
    const struct linear *s = call->state;
    struct zt_blas_data data = { .a = call->in[0].data,
                                 .b = call->in[1].data,
                                 .bias = s->bias ? call->in[2].data : NULL,
                                 .y = call->out[0].data,
                                 .alpha = s->alpha };
    if (is_grad(s))
        data.z = call->in[2].data;
    else if (call->out_count > 1)
        data.z = call->out[1].data;
    if (s->fused && zt_blas_takes(s->fused, &data))
        return zt_blas_run(s->fused, &data, call->workspace, call->node->name, err);
    if (call->path)
        call->path->note = apart(s);
    return run_plain(s, call, data, err);
}

#define KERNEL(id, prepare_)                                                                                           \
    const struct zt_kernel zt_kernel_##id##_cuda = {                                                                   \
        .prepare = prepare_, .layouts = true, .rows = true, .run = run, .release = release                             \
    };
KERNEL(linear_gelu, prepare_linear)
KERNEL(linear_gelu_grad, prepare_grad)
KERNEL(linear_relu, prepare_relu)
KERNEL(linear_relu_grad, prepare_relu_grad)
