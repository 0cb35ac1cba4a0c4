/* MatMul, BatchMatMul, Gemm, GemmFloat and Linear on CUDA: fp32 and half dtypes by cuBLASLt. Batch axes with one even
 * stride become its strided batch; the others are a loop of calls.
 *
 * The epilogue of the product computes GemmFloat's sums where cuBLASLt has one for size, dtype and addresses, else
 * reduce.cu does behind it.
 *
 * Gemm's c is the bias of the product where it has a number a column and factor 1, and the beta operand where it has
 * the shape of y, as Linear's c. Any other c is broadcast to y first, times beta, and the product is added. So is a
 * bias for which cuBLASLt has no epilogue; Linear's c is then added last. */
#include "ops/cuda/blas_cuda.h"
#include "ops/cuda/broadcast_cuda.h"
#include "ops/cuda/describe.h"
#include "ops/cuda/layout_cuda.h"
#include "ops/matmul/filled_rows_cuda.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce/launch_reduce.h"

#include <stdlib.h>
#include <string.h>

struct product {
    struct zt_blas *blas;             /* NULL: `summing` takes any address */
    struct zt_blas *summing;          /* with the sums; NULL: none are wanted, or there is none */
    struct zt_launch_reduce sums;     /* where `blas` runs in its place */
    int summed;                       /* the input whose sums are wanted; -1: none */
    size_t elem_bytes, result_bytes;  /* of an element of a and b, of y */
    struct zt_launch_walk outer;      /* batch axes of the loop: steps of a and b */
    int64_t outer_count, result_step; /* calls; elements of y between two calls */
    float alpha, beta;
    bool bias, broadcasts,
        no_bias; /* role of input 2; no_bias: cuBLASLt has no epilogue for the bias, which is broadcast */
    struct zt_launch_walk broadcast;
    int summand;                        /* the input of y's layout that is added; -1: none */
    struct zt_launch_strided_copy last; /* added behind the product where input 2 is broadcast to y */
};

static void release(void *state) {
    struct product *p = state;
    if (p) {
        zt_blas_destroy(p->blas);
        zt_blas_destroy(p->summing);
    }
    free(p);
}

/* ---- preparing ---- */

/* The number of products in the last batch axes that have one even stride; the other batch axes go to p->outer. */
static int split_batch(const struct zt_matmul *m, struct product *p, int64_t step[2]) {
    int64_t batch = 1;
    int k = m->batch.rank - 1;
    step[0] = step[1] = 0;
    for (; k >= 0; k--) {
        int64_t dim = m->batch.dim[k], a = m->a_batch[k], b = m->b_batch[k];
        if (dim == 1)
            continue;
        if (batch == 1) {
            step[0] = a;
            step[1] = b;
        } else if (a != step[0] * batch || b != step[1] * batch || batch * dim > INT32_MAX) {
            break;
        }
        batch *= dim;
    }
    p->outer_count = 1;
    for (; k >= 0; k--) {
        int at = p->outer.rank++; /* innermost first */
        p->outer.dim[at] = m->batch.dim[k];
        p->outer.a[at] = m->a_batch[k];
        p->outer.b[at] = m->b_batch[k];
        p->outer_count *= m->batch.dim[k];
    }
    p->result_step = batch * m->m * m->n;
    return (int)batch;
}

static const char unbiased[] = "the bias is broadcast to y first: cuBLASLt has no epilogue for the size or the type";
static const char apart[] = "sums behind the product: cuBLASLt has no epilogue for the size, the type or the addresses";

static void note_path(struct zt_prepare *q, const struct product *p) {
    struct zt_arena *arena = q->graph->arena;
    q->path.name = "cuBLASLt";
    if (p->outer_count > 1)
        q->path.note = zt_arena_printf(arena, "%lld calls: batch axes do not step evenly", (long long)p->outer_count);
    else if (p->broadcasts)
        q->path.note = p->no_bias ? unbiased : "c is broadcast to y first";
    else if (p->summed >= 0 && !p->summing)
        q->path.note = apart;
}

/* The sums over k of one side of the product. */
static struct zt_launch_reduce sums_of(const struct zt_matmul *m, bool second) {
    struct zt_launch_reduce r = { .fold = ZT_FOLD_SUM, .result_axes = 1, .reduced_axes = 1 };
    r.results = r.result_dim[0] = second ? m->n : m->m;
    r.reduced = r.reduced_dim[0] = m->k;
    r.result_step[0] = second ? m->b_col : m->a_row;
    r.reduced_step[0] = second ? m->b_row : m->a_col;
    r.parts = zt_launch_reduce_parts(&r);
    return r;
}

/* Chooses bias, addend and broadcast for inputs 2 and 3. */
static void sort_summands(const struct zt_prepare *q, struct product *p, const struct zt_matmul *m) {
    const struct zt_value *c = zt_in(q->graph, q->node, 2);
    p->summand = zt_in(q->graph, q->node, 3) ? 3 : -1;
    p->bias = c && p->beta == 1 && zt_matmul_is_bias(&c->shape, m->n);
    if (c && !p->bias && zt_shape_equal(&c->shape, &m->out))
        p->summand = 2;
    p->broadcasts = c && !p->bias && p->summand != 2;
    if (c)
        p->broadcast = zt_walk_cuda(&m->out, &m->out, &c->shape);
}

/* The product that is only stored. */
static struct zt_blas *create_plain(const struct zt_prepare *q, struct product *p, const struct zt_matmul *m,
                                    const struct zt_blas_spec *spec, struct zt_err *err) {
    struct zt_blas_spec unbiased_spec = *spec;
    struct zt_err none = { 0 };
    struct zt_blas *blas = zt_blas_create(q->device, spec, spec->bias ? &none : err);
    if (blas || !spec->bias)
        return blas;
    const int64_t count = zt_shape_count(&m->out), step = 1;
    unbiased_spec.bias = p->bias = false;
    p->broadcasts = p->no_bias = true;
    p->last = zt_strided_copy_cuda(1, &count, &step, &step);
    return zt_blas_create(q->device, &unbiased_spec, err);
}

/* The product with its sums, and the one without where that does not run at every address. */
static bool prepare_products(struct zt_prepare *q, struct product *p, const struct zt_matmul *m,
                             const struct zt_blas_spec *spec, struct zt_err *err) {
    p->summed =
        zt_out(q->graph, q->node, 1) ? strcmp(zt_attr_text(q->graph->nodes[q->node], "sums", ""), "b") == 0 : -1;
    if (p->summed >= 0) {
        struct zt_blas_spec summing = *spec;
        summing.then = p->summed ? ZT_BLAS_SUM_B : ZT_BLAS_SUM_A;
        p->summing = zt_blas_create(q->device, &summing, &(struct zt_err){ 0 });
        p->sums = sums_of(m, p->summed);
    }
    if (!p->summing || !zt_blas_takes(p->summing, NULL)) {
        p->blas = create_plain(q, p, m, spec, err);
        if (!p->blas)
            return false;
        q->workspace_bytes = zt_blas_workspace_bytes(p->blas);
        const size_t partial = p->sums.parts > 1 ? (size_t)(p->sums.results * p->sums.parts) * sizeof(float) : 0;
        q->workspace_bytes = partial > q->workspace_bytes ? partial : q->workspace_bytes;
    }
    if (p->summing && zt_blas_workspace_bytes(p->summing) > q->workspace_bytes)
        q->workspace_bytes = zt_blas_workspace_bytes(p->summing);
    return true;
}

/* NULL: failed. */
static struct product *prepare_as_laid(struct zt_prepare *q, struct zt_err *err) {
    const struct zt_graph *g = q->graph;
    const struct zt_node *n = g->nodes[q->node];
    const struct zt_value *a = zt_in(g, q->node, 0), *y = zt_out(g, q->node, 0);
    bool trans_a = zt_attr_int(n, "transA", 0), trans_b = zt_attr_int(n, "transB", 0);
    struct zt_matmul m;
    int64_t step[2];
    if (!zt_matmul_read_node(g, q->node, &m, err))
        return NULL;
    zt_layout_fill(q->in_layout[0], trans_a ? &m.a_col : &m.a_row);
    zt_layout_fill(q->in_layout[1], trans_b ? &m.b_col : &m.b_row);
    struct product *p = zt_calloc(1, sizeof *p);
    p->elem_bytes = zt_dtype_bytes(a->dtype);
    p->result_bytes = zt_dtype_bytes(y->dtype);
    p->alpha = zt_attr_float(n, "alpha", 1);
    p->beta = zt_attr_float(n, "beta", 1);
    sort_summands(q, p, &m);
    struct zt_blas_spec spec = { .batch = split_batch(&m, p, step), .bias = p->bias, .tf32 = q->device->tf32 };
    spec.a = zt_blas_packed(a->dtype, m.m, m.k, trans_a);
    spec.b = zt_blas_packed(a->dtype, m.k, m.n, trans_b);
    spec.y = zt_blas_packed(y->dtype, m.m, m.n, false);
    zt_layout_fill(q->in_layout[0], &spec.a.row_step);
    zt_layout_fill(q->in_layout[1], &spec.b.row_step);
    zt_layout_fill(q->out_layout[0], &spec.y.row_step);
    spec.a.batch_step = step[0];
    spec.b.batch_step = step[1];
    spec.y.batch_step = m.m * m.n;
    if (!prepare_products(q, p, &m, &spec, err)) {
        release(p);
        zt_err_within(err, 0, "%s (%s)", n->name, n->op_type);
        return NULL;
    }
    return p;
}

/* Prepares the product. If y is filled before the product or added to after it, its layout is plain. */
static bool prepare(struct zt_prepare *q, struct zt_err *err) {
    zt_filled_sides(q);
    q->out_layout[0] = zt_filled_logits(q);
    struct product *p = prepare_as_laid(q, err);
    if (p && q->out_layout[0] && (p->broadcasts || p->summand >= 0)) {
        release(p);
        q->out_layout[0] = NULL;
        q->workspace_bytes = 0;
        p = prepare_as_laid(q, err);
    }
    if (!p)
        return false;
    q->state = p;
    q->can_accumulate = !p->bias && !p->broadcasts && p->summand < 0;
    note_path(q, p);
    return true;
}

/* ---- running ---- */

static bool add_up(const struct product *p, const struct zt_call *call, struct zt_err *err) {
    if (call->path)
        call->path->note = apart;
    struct zt_launch_reduce sums = p->sums;
    sums.arrived = zt_arrived_of(call);
    const int code = zt_launch_reduce(zt_stream_of(call), &sums, zt_in_cuda(call, p->summed),
                                      (struct zt_launch_tensor){ ZT_FLOAT, call->out[1].data }, call->workspace);
    return zt_launched(call, code, err);
}

static bool multiply(const struct product *p, const struct zt_call *call, int64_t i, struct zt_err *err) {
    const char *a = call->in[0].data, *b = call->in[1].data;
    struct zt_blas_data data = { .y = (char *)call->out[0].data + i * p->result_step * (int64_t)p->result_bytes,
                                 .bias = p->bias ? call->in[2].data : NULL,
                                 .alpha = p->alpha,
                                 .beta = p->broadcasts || call->accumulate ? 1 : 0 };
    if (p->summand >= 0 && !p->broadcasts) {
        data.c = call->in[p->summand].data;
        data.beta = p->beta;
    }
    for (int k = 0; k < p->outer.rank; k++) {
        int64_t at = i % p->outer.dim[k] * (int64_t)p->elem_bytes;
        a += at * p->outer.a[k];
        b += at * p->outer.b[k];
        i /= p->outer.dim[k];
    }
    data.a = a;
    data.b = b;
    if (p->summed < 0)
        return zt_blas_run(p->blas, &data, call->workspace, call->node->name, err);
    data.sums = call->out[1].data;
    if (p->summing && zt_blas_takes(p->summing, &data))
        return zt_blas_run(p->summing, &data, call->workspace, call->node->name, err);
    data.sums = NULL;
    return zt_blas_run(p->blas, &data, call->workspace, call->node->name, err) && add_up(p, call, err);
}

static bool run(const struct zt_call *call, struct zt_err *err) {
    const struct product *p = call->state;
    if (p->broadcasts) {
        int code = zt_launch_broadcast(zt_stream_of(call), call->in[2].dtype, &p->broadcast, p->beta, call->in[2].data,
                                       call->out[0].data);
        if (!zt_launched(call, code, err))
            return false;
    }
    for (int64_t i = 0; i < p->outer_count; i++)
        if (!multiply(p, call, i, err))
            return false;
    if (!p->broadcasts || p->summand < 0)
        return true;
    return zt_launched(call,
                       zt_launch_strided_copy_sum(zt_stream_of(call), &p->last, zt_in_cuda(call, p->summand),
                                                  zt_out_cuda(call, 0), true),
                       err);
}

const struct zt_kernel zt_kernel_matmul_cuda = {
    .prepare = prepare, .layouts = true, .rows = true, .run = run, .release = release
};
