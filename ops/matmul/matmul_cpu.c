/* Matrix products on the CPU: oneDNN's where its kernels are the better ones, our own elsewhere.
 *
 *     AVX-512            oneDNN; what it does not take (a bias that is not one row), and builds without it: our own
 *     AVX2 alone         our own: oneDNN 2.6 falls back to its first float kernels there, which read past the ends of
 *                        their buffers and switch stacks; memory checkers follow neither
 *     neither            oneDNN, or the reference kernels
 *
 * Our own takes and gives everything plain. */
#include "ops/matmul/matmul_cpu.h"

#include "ops/cpu/simd_gemm.h"

#include <stdlib.h>
#include <string.h>

/* Axes of extent 1 aside, each axis must continue the next one. */
static bool merge_batch(struct zt_product_cpu *p) {
    const struct zt_matmul *s = &p->shape;
    p->count = 1;
    int64_t a_next = 0, b_next = 0;
    for (int k = s->batch.rank - 1; k >= 0; k--) {
        if (s->batch.dim[k] == 1)
            continue;
        if (p->count == 1) {
            p->a_step = s->a_batch[k];
            p->b_step = s->b_batch[k];
        } else if (s->a_batch[k] != a_next || s->b_batch[k] != b_next) {
            return false;
        }
        p->count *= s->batch.dim[k];
        a_next = s->a_batch[k] * s->batch.dim[k];
        b_next = s->b_batch[k] * s->batch.dim[k];
    }
    return true;
}

static bool read_addend(const struct zt_graph *g, int node, struct zt_product_cpu *p) {
    const struct zt_node *n = g->nodes[node];
    const struct zt_value *c = zt_in(g, node, 2);
    p->scale = zt_attr_float(n, "alpha", 1);
    p->bias_scale = zt_attr_float(n, "beta", 1);
    p->bias = c != NULL;
    if (!c)
        return true;
    int64_t cols = c->shape.rank > 0 ? c->shape.dim[c->shape.rank - 1] : 1,
            rows = c->shape.rank > 1 ? c->shape.dim[0] : 1;
    p->bias_col = cols > 1;
    p->bias_row = rows > 1 ? cols : 0;
    return c->dtype == p->dtype;
}

bool zt_product_cpu_read(const struct zt_graph *g, int node, struct zt_product_cpu *p) {
    const struct zt_node *n = g->nodes[node];
    const struct zt_value *a = zt_in(g, node, 0), *b = zt_in(g, node, 1);
    bool trans_a = zt_attr_int(n, "transA", 0);
    struct zt_err err = { 0 };
    *p = (struct zt_product_cpu){ .dtype = a->dtype, .weight_gradient = n->phase == ZT_BACKWARD && trans_a };
    if (b->dtype != a->dtype ||
        !zt_matmul_read(g, node, &a->shape, &b->shape, trans_a, zt_attr_int(n, "transB", 0), &p->shape, &err))
        return false;
    const struct zt_matmul *s = &p->shape;
    p->relu = strcmp(n->op_type, "GemmRelu") == 0;
    return s->m > 0 && s->n > 0 && s->k > 0 && s->m <= INT32_MAX && s->n <= INT32_MAX && s->k <= INT32_MAX &&
           merge_batch(p) && p->count > 0 && p->count <= INT32_MAX && read_addend(g, node, p);
}

/* ---- which ---- */

static const struct zt_kernel dnnl = ZT_IF_DNNL(zt_matmul_dnnl);

/* Whether oneDNN has nothing better than our own kernel on this machine. */
static bool own_first(void) {
    return zt_simd_gemm_best() && zt_simd_gemm_best() == zt_simd_gemm_kernel(8);
}

static bool takes_own(const struct zt_product_cpu *p) {
    return p->dtype == ZT_FLOAT && zt_simd_gemm_best();
}

static bool takes_dnnl(const struct zt_graph *g, int node) {
    return dnnl.supports && dnnl.supports(g, node);
}

bool zt_matmul_cpu_supports(const struct zt_graph *g, int node) {
    struct zt_product_cpu p;
    return zt_product_cpu_read(g, node, &p) && (takes_own(&p) || takes_dnnl(g, node));
}

/* ---- our own ---- */

struct matmul_state {
    const struct zt_simd_gemm_kernel *kernel; /* NULL: oneDNN's */
    struct zt_simd_gemm gemm;
    void *dnnl; /* its state */
};

static struct zt_simd_gemm gemm_of(const struct zt_product_cpu *p) {
    const struct zt_matmul *s = &p->shape;
    return (struct zt_simd_gemm){
        .count = p->count,
        .m = s->m,
        .n = s->n,
        .k = s->k,
        .a_step = p->a_step,
        .a_row = s->a_row,
        .a_col = s->a_col,
        .b_step = p->b_step,
        .b_row = s->b_row,
        .b_col = s->b_col,
        .y_step = s->m * s->n,
        .y_row = s->n,
        .bias_row = p->bias_row,
        .bias_col = p->bias_col,
        .alpha = p->scale,
        .beta = p->bias_scale,
        .relu = p->relu,
    };
}

bool zt_matmul_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    struct zt_product_cpu product;
    if (!zt_product_cpu_read(p->graph, p->node, &product))
        return zt_node_fail(p->graph, p->node, err, "a product that the CPU kernels do not take");
    struct matmul_state *s = zt_calloc(1, sizeof *s);
    if (takes_own(&product) && (own_first() || !takes_dnnl(p->graph, p->node))) {
        s->kernel = zt_simd_gemm_best();
        s->gemm = gemm_of(&product);
        p->workspace_bytes = zt_simd_gemm_bytes(s->kernel, &s->gemm, p->threads);
        p->can_accumulate = product.weight_gradient;
        for (int i = 0; i < p->graph->nodes[p->node]->in_count; i++)
            p->in_layout[i] = NULL;
    } else if (!dnnl.prepare(p, err)) {
        free(s);
        return false;
    }
    s->dnnl = p->state;
    p->state = s;
    return true;
}

bool zt_matmul_cpu_run(const struct zt_call *call, struct zt_err *err) {
    const struct matmul_state *s = call->state;
    if (!s->kernel) {
        struct zt_call inner = *call;
        inner.state = s->dnnl;
        return dnnl.run(&inner, err);
    }
    struct zt_simd_gemm gemm = s->gemm;
    gemm.add = call->accumulate;
    zt_simd_gemm_run(s->kernel, &gemm, call->in[0].data, call->in[1].data, call->in_count > 2 ? call->in[2].data : NULL,
                     call->out[0].data, call->workspace, call->threads);
    return true;
}

void zt_matmul_cpu_release(void *state) {
    struct matmul_state *s = state;
    if (s && !s->kernel)
        dnnl.release(s->dnnl);
    free(s);
}
