/* ztrain.GemmFloat on the CPU, for weight gradients in bfloat16: dw = x^T dy. The factors lie along the other axis than
 * the sum, which our own kernel reads as they are and oneDNN copies first. */
#include "ops/matmul/kernels.h"
#include "ops/cpu/simd_gemm.h"
#include "ops/elementwise/simd_elementwise.h"
#include "ops/matmul/product_cpu.h"
#include "ops/reduce/simd_reduce.h"

#include "device/threads.h"

#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 64, SPAN = 64 }; /* of a block of sums; rows that are added in float */

/* The matrix [k, n] whose sums over k the node gives: -1 none, or the input. */
static int summed(const struct zt_graph *g, int node) {
    return zt_out(g, node, 1) ? strcmp(zt_attr_text(g->nodes[node], "sums", ""), "a") != 0 : -1;
}

bool zt_gemm_float_cpu_supports(const struct zt_graph *g, int node) {
    struct zt_product_cpu p;
    if (!zt_simd_gemm_of_bfloat() || zt_in(g, node, 0)->dtype != ZT_BFLOAT16 || zt_in(g, node, 2) ||
        !zt_product_cpu_read(g, node, &p) || p.shape.a_col == 1)
        return false;
    const int side = summed(g, node);
    return side < 0 || (side ? p.shape.b_col : p.shape.a_row) == 1;
}

struct state {
    struct zt_simd_gemm gemm;
    int side;              /* of the sums, -1: none */
    int64_t columns, rows; /* of that matrix */
};

bool zt_gemm_float_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    struct zt_product_cpu product;
    if (!zt_product_cpu_read(p->graph, p->node, &product))
        return zt_node_fail(p->graph, p->node, err, "a product that the CPU kernels do not take");
    struct state *s = zt_calloc(1, sizeof *s);
    s->gemm = zt_product_cpu_gemm(&product);
    s->gemm.y_bfloat = 0;
    s->side = summed(p->graph, p->node);
    s->columns = s->side == 0 ? product.shape.m : product.shape.n;
    s->rows = product.shape.k;
    p->in_layout[0] = p->in_layout[1] = NULL;
    p->workspace_bytes = zt_simd_gemm_bytes(zt_simd_gemm_of_bfloat(), &s->gemm, p->threads);
    p->can_accumulate = true;
    p->state = s;
    return true;
}

void zt_gemm_float_cpu_release(void *state) {
    free(state);
}

/* Sums of COLUMNS columns: in float over SPAN rows, in double beyond. */
static void sum_columns(void *arg, int64_t unit) {
    const struct zt_call *call = arg;
    const struct state *s = call->state;
    const uint16_t *from = (const uint16_t *)call->in[s->side].data + unit * COLUMNS;
    const int64_t columns = s->columns - unit * COLUMNS < COLUMNS ? s->columns - unit * COLUMNS : COLUMNS;
    float block[SPAN * COLUMNS], part[COLUMNS];
    double total[COLUMNS] = { 0 };
    for (int64_t row = 0; row < s->rows; row += SPAN) {
        const int64_t rows = s->rows - row < SPAN ? s->rows - row : SPAN;
        for (int64_t r = 0; r < rows; r++)
            zt_simd_load(ZT_BFLOAT16, from + (row + r) * s->columns, columns, block + r * COLUMNS);
        memset(part, 0, sizeof part);
        zt_rows_functions()[ZT_FOLD_sum](&(struct zt_row_block){ block, COLUMNS, rows, columns, part, NULL });
        for (int64_t c = 0; c < columns; c++)
            total[c] += (double)part[c];
    }
    for (int64_t c = 0; c < columns; c++)
        ((float *)call->out[1].data)[unit * COLUMNS + c] = (float)total[c];
}

bool zt_gemm_float_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct state *s = call->state;
    struct zt_simd_gemm gemm = s->gemm;
    gemm.add = call->accumulate;
    zt_simd_gemm_run(
        zt_simd_gemm_of_bfloat(), &gemm,
        &(struct zt_simd_gemm_operands){ .a = call->in[0].data, .b = call->in[1].data, .y = call->out[0].data },
        call->workspace, call->threads);
    if (s->side >= 0)
        zt_parallel_for(call->threads, (s->columns + COLUMNS - 1) / COLUMNS, sum_columns, (void *)call);
    return true;
}
