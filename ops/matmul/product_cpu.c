#include "ops/matmul/product_cpu.h"

#include "ops/kernel/merge_axes.h"

#include <string.h>

bool zt_product_cpu_merge(struct zt_product_cpu *p) {
    struct zt_shape batch = p->shape.batch;
    int64_t a[ZT_MAX_RANK], b[ZT_MAX_RANK];
    memcpy(a, p->shape.a_batch, sizeof a);
    memcpy(b, p->shape.b_batch, sizeof b);
    const int axes = zt_merge_axes(batch.rank, batch.dim, 2, (int64_t *[]){ a, b });
    p->count = axes > 0 ? batch.dim[0] : 1;
    p->a_step = axes > 0 ? a[0] : 0;
    p->b_step = axes > 0 ? b[0] : 0;
    return axes <= 1;
}

static bool read_addend(const struct zt_graph *g, int node, struct zt_product_cpu *p) {
    const struct zt_node *n = g->nodes[node];
    const struct zt_value *c = zt_in(g, node, 2);
    p->scale = zt_attr_float(n, "alpha", 1);
    p->bias_scale = zt_attr_float(n, "beta", 1);
    p->bias_dtype = c ? c->dtype : ZT_UNDEFINED;
    if (!c)
        return true;
    int64_t cols = c->shape.rank > 0 ? c->shape.dim[c->shape.rank - 1] : 1,
            rows = c->shape.rank > 1 ? c->shape.dim[0] : 1;
    p->bias_col = cols > 1;
    p->bias_row = rows > 1 ? cols : 0;
    return c->dtype == p->dtype || c->dtype == ZT_FLOAT;
}

bool zt_product_cpu_read(const struct zt_graph *g, int node, struct zt_product_cpu *p) {
    const struct zt_node *n = g->nodes[node];
    const struct zt_value *a = zt_in(g, node, 0), *b = zt_in(g, node, 1);
    struct zt_err err = { 0 };
    *p = (struct zt_product_cpu){ .dtype = a->dtype,
                                  .b_dtype = b->dtype,
                                  .weight_gradient = n->phase == ZT_BACKWARD && zt_attr_int(n, "transA", 0) };
    const bool rounds = a->dtype == ZT_BFLOAT16 && b->dtype == ZT_FLOAT;
    if ((b->dtype != a->dtype && !rounds) || !zt_matmul_read_node(g, node, &p->shape, &err))
        return false;
    const struct zt_matmul *s = &p->shape;
    p->relu = strcmp(n->op_type, "GemmRelu") == 0 || zt_attr_int(n, "relu", 0);
    return s->m > 0 && s->n > 0 && s->k > 0 && s->m <= INT32_MAX && s->n <= INT32_MAX && s->k <= INT32_MAX &&
           zt_product_cpu_merge(p) && p->count > 0 && p->count <= INT32_MAX && read_addend(g, node, p);
}

struct zt_simd_gemm zt_product_cpu_gemm(const struct zt_product_cpu *p) {
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
        .y_bfloat = p->dtype == ZT_BFLOAT16,
    };
}

enum { FEW_ROWS = 512, LONG_SIDE = 512 }; /* by 2,048 rows 256 x 4,000 is oneDNN's, by 1,024 rows 768 x 768 ours */

bool zt_product_cpu_own_bfloat(const struct zt_product_cpu *p) {
    const struct zt_matmul *s = &p->shape;
    return p->count == 1 && (s->m <= FEW_ROWS || (s->k >= LONG_SIDE && s->n >= LONG_SIDE));
}
