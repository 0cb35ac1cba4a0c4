/* y[output term] = sum over the labels not in it of the product of the operands         ONNX Einsum, opset 12 on
 *
 * Example "bij,bjk->bik": labels b, i, k are the result's, j is summed. Every tensor has a step for each label: 0 where
 * it lacks the label or is broadcast along it, and the sum of the strides where the label is repeated, which walks the
 * diagonal. One contraction therefore computes results and gradients:
 *
 *     dx_n = sum over the labels that x_n lacks of dy times the other operands
 *
 * with dy as an operand and x_n as the result: ztrain.EinsumGrad(dy, x_0, x_1, ...; operand = n). Off the diagonals of
 * x_n the gradient is 0. */
#include "ops/matmul/einsum.h"

#include "ops/matmul/kernels.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"

#include "device/threads.h"

#include <string.h>

enum { LABELS = ZT_EINSUM_LABELS, OPERANDS = ZT_EINSUM_OPERANDS };

static const struct zt_attr_spec attrs[] = { { "equation", ZT_ATTR_STRING, true }, { 0 } };
static const struct zt_attr_spec grad_attrs[] = { { "equation", ZT_ATTR_STRING, true },
                                                  { "operand", ZT_ATTR_INT, true },
                                                  { 0 } };

/* ---- shape rules ---- */

static bool einsum_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_equation e;
    if (!zt_equation_read(g, node, 0, &e, err))
        return false;
    zt_set_out(g, node, 0, zt_in(g, node, 0)->dtype, &e.out);
    return true;
}

static bool grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_equation e;
    int64_t operand = zt_attr_int(g->nodes[node], "operand", 0);
    if (!zt_equation_read(g, node, 1, &e, err))
        return false;
    if (operand < 0 || operand >= e.operands || !zt_shape_equal(&e.out, &zt_in(g, node, 0)->shape))
        return zt_node_fail(g, node, err, "operand %lld or the shape of its gradient do not fit", (long long)operand);
    const struct zt_value *x = zt_in(g, node, 1 + (int)operand);
    zt_set_out(g, node, 0, x->dtype, &x->shape);
    return true;
}

static double points(const struct zt_equation *e) {
    double count = 1;
    for (int label = 0; label < LABELS; label++)
        count *= e->dim[label] ? (double)zt_max_int(e->dim[label], 0) : 1;
    return count;
}

static double einsum_flops(const struct zt_graph *g, int node) {
    struct zt_equation e;
    struct zt_err err = { 0 };
    return zt_equation_read(g, node, 0, &e, &err) ? points(&e) * e.operands : 0;
}

static double grad_flops(const struct zt_graph *g, int node) {
    struct zt_equation e;
    struct zt_err err = { 0 };
    return zt_equation_read(g, node, 1, &e, &err) ? points(&e) * e.operands : 0;
}

/* ---- the contraction ---- */

/* A contraction with its tensors. */
struct contraction {
    struct zt_contraction c;
    struct zt_view operand[OPERANDS], result;
};

/* Adds to offset[] the offset of point `index` (row-major) of axes [from, to) in each tensor. */
static void advance(const struct zt_contraction *c, int64_t index, int from, int to, int64_t *offset) {
    for (int a = to - 1; a >= from; a--) {
        int64_t i = index % c->dim[a];
        index /= c->dim[a];
        for (int n = 0; n < c->operands; n++)
            offset[n] += i * c->step[n][a];
        offset[c->operands] += i * c->step[c->operands][a];
    }
}

static double run_sum(const struct contraction *job, const int64_t *offset, int64_t from, int64_t count) {
    const struct zt_contraction *c = &job->c;
    double product[ZT_ELEMENT_BLOCK], x[ZT_ELEMENT_BLOCK], sum = 0;
    int last = c->axes - 1;
    for (int n = 0; n < c->operands; n++) {
        const struct zt_view *v = &job->operand[n];
        zt_load_block(v->dtype, v->data, offset[n] + from * c->step[n][last], c->step[n][last], count, n ? x : product);
        for (int64_t i = 0; n && i < count; i++)
            product[i] *= x[i];
    }
    for (int64_t i = 0; i < count; i++)
        sum += product[i];
    return sum;
}

/* Integers wrap as the type does. */
static uint64_t run_sum_int(const struct contraction *job, const int64_t *offset, int64_t from, int64_t count) {
    const struct zt_contraction *c = &job->c;
    uint64_t sum = 0;
    for (int64_t i = from; i < from + count; i++) {
        uint64_t product = 1;
        for (int n = 0; n < c->operands; n++)
            product *= (uint64_t)zt_load_int(job->operand[n].dtype, job->operand[n].data,
                                             offset[n] + i * c->step[n][c->axes - 1]);
        sum += product;
    }
    return sum;
}

/* One element of the result: blocks of the last axis, inside a walk over the other summed axes. */
static void contract_point(void *arg, int64_t index) {
    const struct contraction *job = arg;
    const struct zt_contraction *c = &job->c;
    int64_t start[OPERANDS + 1] = { 0 }, outer = 1, length = c->dim[c->axes - 1];
    bool integers = zt_dtype_in(job->result.dtype, ZT_ANY_INT);
    double sum = 0;
    uint64_t wrapped = 0;
    advance(c, index, 0, c->result_axes, start);
    for (int a = c->result_axes; a < c->axes - 1; a++)
        outer *= c->dim[a];
    for (int64_t o = 0; o < outer; o++) {
        int64_t offset[OPERANDS + 1];
        memcpy(offset, start, sizeof offset);
        advance(c, o, c->result_axes, c->axes - 1, offset);
        for (int64_t at = 0; at < length; at += ZT_ELEMENT_BLOCK) {
            int64_t count = zt_min_int(ZT_ELEMENT_BLOCK, length - at);
            if (integers)
                wrapped += run_sum_int(job, offset, at, count);
            else
                sum += run_sum(job, offset, at, count);
        }
    }
    if (integers)
        zt_store_int(job->result.dtype, job->result.data, start[c->operands], (int64_t)wrapped);
    else
        zt_store_double(job->result.dtype, job->result.data, start[c->operands], sum);
}

static void contract(struct contraction *job, int threads) {
    struct zt_contraction *c = &job->c;
    if (c->axes == c->result_axes) /* nothing is summed: an axis of one */
        c->dim[c->axes++] = 1;
    int64_t count = 1;
    double summed = 1;
    for (int a = 0; a < c->result_axes; a++)
        count *= c->dim[a];
    for (int a = c->result_axes; a < c->axes; a++)
        summed *= (double)c->dim[a];
    zt_parallel_for(zt_threads_worth(threads, (double)count * summed), count, contract_point, job);
}

static bool run(const struct zt_call *call, bool grad, struct zt_err *err) {
    struct contraction job = { .result = call->out[0] };
    if (!zt_contraction_read(call->graph, zt_call_node(call), grad, &job.c, err))
        return false;
    for (int n = 0; n < job.c.operands; n++)
        job.operand[n] = call->in[job.c.in[n]];
    size_t bytes = (size_t)zt_shape_count(&job.result.shape) * zt_dtype_bytes(job.result.dtype);
    if (bytes)
        memset(job.result.data, 0, bytes);
    contract(&job, call->threads);
    return true;
}

static bool einsum_ref(const struct zt_call *call, struct zt_err *err) {
    return run(call, false, err);
}

static bool grad_ref(const struct zt_call *call, struct zt_err *err) {
    return run(call, true, err);
}

/* A struct zt_contraction for other back ends, of either row. */
static bool describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    return zt_contraction_read(g, node, g->nodes[node]->domain[0] != '\0', to, err);
}

/* Results and sums of no more axes than launchers take. */
static bool takes_cuda(const struct zt_graph *g, int node) {
    struct zt_contraction c;
    struct zt_err err = { 0 };
    return zt_cuda_floats(g, node) && describe(g, node, &c, &err) && c.result_axes <= ZT_MAX_RANK &&
           c.axes - c.result_axes <= ZT_MAX_RANK;
}

static bool einsum_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    int in[OPERANDS + 1] = { zt_grad_out(b, node, 0) };
    memcpy(in + 1, n->in, sizeof *in * (size_t)n->in_count);
    for (int i = 0; i < n->in_count; i++) {
        if (!zt_grad_wanted(b, node, i))
            continue;
        struct zt_attr operand = { .name = "operand", .type = ZT_ATTR_INT, .i = i };
        int out;
        zt_emit_node(b, &(struct zt_emission){ "EinsumGrad", "ztrain", in, n->in_count + 1, n, &operand, 1 }, &out, 1);
        zt_grad_give(b, node, i, out);
    }
    return true;
}

#define ROW                                                                                                            \
    .since = 1, .min_out = 1, .max_out = 1, .flags = ZT_OP_VARIADIC, .in_types = { ZT_ANY_NUMBER }, .same_type = ~0u

const struct zt_op zt_op_einsum = {
    .name = "Einsum",
    .domain = "",
    ROW,
    .min_in = 1,
    .attrs = attrs,
    .infer = einsum_infer,
    .grad = einsum_grad,
    .flops = einsum_flops,
    .kernel = { [ZT_REF] = { .run = einsum_ref },
                [ZT_CPU] = ZT_ON_CPU(zt_einsum_cpu),
                [ZT_CUDA] = ZT_CUDA_AS(einsum, takes_cuda, describe) },
};
/* (dy, the operands) -> the gradient of one of them; its own contents are not read */
const struct zt_op zt_op_einsum_grad = {
    .name = "EinsumGrad",
    .domain = "ztrain",
    ROW,
    .min_in = 2,
    .attrs = grad_attrs,
    .infer = grad_infer,
    .flops = grad_flops,
    .body = zt_einsum_grad_function_body,
    .kernel = { [ZT_REF] = { .run = grad_ref },
                [ZT_CPU] = ZT_ON_CPU(zt_einsum_grad_cpu),
                [ZT_CUDA] = ZT_CUDA_AS(einsum, takes_cuda, describe) },
};
