/* Matrix products on the CPU.
 *
 *     AVX-512              float: our own kernel, which needs no copy of a weight in another order and is faster for
 *                          gradients of weights, one factor of which oneDNN transposes first. oneDNN for batches of
 *                          products, whose kernels are made for one small size
 *
 *     AVX-512 with bf16    bfloat16: our own by large weights and by few rows, else oneDNN; a weight of float is read
 *                          by our own alone
 *
 *     AVX2 alone           float: our own; oneDNN 2.6 falls back to its first float kernels there, which read past the
 *                          ends of their buffers and switch stacks; memory checkers follow neither
 *
 *     neither              oneDNN, or the reference kernels
 *
 * Builds without oneDNN run our own. Its tensors are all plain. */
#include "ops/matmul/kernels.h"
#include "ops/cpu/simd_gemm.h"
#include "ops/matmul/matmul_dnnl_cpu.h"
#include "ops/matmul/product_cpu.h"

#include <stdlib.h>
#include <string.h>

/* ---- which ---- */

static const struct zt_kernel dnnl = ZT_IF_DNNL(zt_matmul_dnnl);

/* Our own kernel for the product; NULL: none. */
static const struct zt_simd_gemm_kernel *own(const struct zt_product_cpu *p) {
    if (p->bias_dtype != ZT_UNDEFINED && p->bias_dtype != ZT_FLOAT)
        return NULL;
    if (p->dtype == ZT_FLOAT)
        return zt_simd_gemm_best();
    if (p->dtype != ZT_BFLOAT16)
        return NULL;
    return p->b_dtype == ZT_FLOAT ? zt_simd_gemm_of_bfloat_by_float() : zt_simd_gemm_of_bfloat();
}

static bool takes_dnnl(const struct zt_graph *g, int node) {
    return dnnl.supports && dnnl.supports(g, node);
}

/* Whether our own kernel runs a product that both take. */
static bool prefers_own(const struct zt_product_cpu *p) {
    if (p->dtype == ZT_BFLOAT16)
        return zt_product_cpu_own_bfloat(p);
    return p->count == 1 || zt_simd_gemm_best() == zt_simd_gemm_kernel(8);
}

bool zt_matmul_cpu_supports(const struct zt_graph *g, int node) {
    struct zt_product_cpu p;
    return zt_product_cpu_read(g, node, &p) && (own(&p) || takes_dnnl(g, node));
}

/* ---- our own ---- */

struct matmul_state {
    const struct zt_simd_gemm_kernel *kernel; /* NULL: oneDNN's */
    struct zt_simd_gemm gemm;
    void *dnnl; /* its state */
};

bool zt_matmul_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    struct zt_product_cpu product;
    if (!zt_product_cpu_read(p->graph, p->node, &product))
        return zt_node_fail(p->graph, p->node, err, "a product that the CPU kernels do not take");
    struct matmul_state *s = zt_calloc(1, sizeof *s);
    if (own(&product) && (prefers_own(&product) || !takes_dnnl(p->graph, p->node))) {
        s->kernel = own(&product);
        s->gemm = zt_product_cpu_gemm(&product);
        p->workspace_bytes = zt_simd_gemm_bytes(s->kernel, &s->gemm, p->threads);
        p->can_accumulate = product.weight_gradient && !s->gemm.y_bfloat;
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
    const struct zt_simd_gemm_operands operands = { .a = call->in[0].data,
                                                    .b = call->in[1].data,
                                                    .bias = call->in_count > 2 ? call->in[2].data : NULL,
                                                    .y = call->out[0].data };
    zt_simd_gemm_run(s->kernel, &gemm, &operands, call->workspace, call->threads);
    return true;
}

void zt_matmul_cpu_release(void *state) {
    struct matmul_state *s = state;
    if (s && !s->kernel)
        dnnl.release(s->dnnl);
    free(s);
}
