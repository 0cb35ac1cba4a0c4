#include "plan/matrices.h"

#include "optim/types/types.h"

#include "base/align.h"
#include "base/text.h"

/* Whether a forward node multiplies by the value as [inputs, outputs], directly or behind a cast. */
static bool inputs_first(const struct zt_graph *g, int value) {
    for (int n = 0; n < g->node_count; n++) {
        const struct zt_node *node = g->nodes[n];
        if (node->phase != ZT_FORWARD || !node->op)
            continue;
        if (node->op->flags & ZT_OP_PRODUCT && node->in[1] == value)
            return !zt_attr_int(node, "transB", 0);
        if (node->op->flags & ZT_OP_CAST && node->in[0] == value && inputs_first(g, node->out[0]))
            return true;
    }
    return false;
}

/* Returns use_muon of the last of param_groups that matches the tensor and has the key; -1: none has. */
static int asked(const struct zt_config *config, const struct zt_value *v) {
    int use = -1;
    for (int i = 0; i < config->group_count; i++)
        if (config->groups[i].use_muon >= 0 && zt_parameter_fits(v, &config->groups[i].match, 1))
            use = config->groups[i].use_muon;
    return use;
}

struct zt_matrix zt_plan_matrix(const struct zt_config *config, const struct zt_training_graph *g, int value) {
    const struct zt_optimizer *optimizer = zt_optimizer_find(config->optimizer.type);
    const struct zt_value *v = g->graph->values[value];
    const int64_t count = zt_shape_count(&v->shape);
    if (!optimizer->matrix || v->shape.rank < 2 || count == 0 || v->copy_of)
        return (struct zt_matrix){ 0 };
    int use = asked(config, v);
    if (use < 0 ? !optimizer->matrix->takes(v->sources ? v->sources[0] : v->name) : !use)
        return (struct zt_matrix){ 0 };
    return (struct zt_matrix){ .rows = v->shape.dim[0],
                               .columns = count / v->shape.dim[0],
                               .inputs_first = v->shape.rank == 2 && inputs_first(g->graph, value) };
}

struct zt_simd_gemm zt_plan_matrix_gemm(const struct zt_matrix_product *p) {
    _Static_assert((int)ZT_MATRIX_DEPTH == (int)ZT_GEMM_DEPTH, "both sum the same products before they add");
    return (struct zt_simd_gemm){ .count = 1,
                                  .m = p->m,
                                  .n = p->n,
                                  .k = p->k,
                                  .a_row = p->a_row,
                                  .a_col = p->a_col,
                                  .b_row = p->b_row,
                                  .b_col = p->b_col,
                                  .y_row = p->n,
                                  .bias_row = p->n,
                                  .bias_col = 1,
                                  .alpha = p->alpha,
                                  .beta = p->beta };
}

bool zt_plan_matrices_on_host(const struct zt_rank_plan *plan) {
    return plan->offload.beside_gpu && plan->offload.optimizer != ZT_HOME_DEVICE;
}

/* Bytes for every product of the iteration: X X', products of squares, and a square times X, either way around. */
static int64_t product_bytes(const struct zt_rank_plan *plan, const struct zt_matrix *m) {
    const struct zt_simd_gemm_kernel *kernel = zt_simd_gemm_best();
    const int64_t rows = m->rows, columns = m->columns, side = rows < columns ? rows : columns,
                  sizes[][3] = { { side, side, rows > columns ? rows : columns },
                                 { side, side, side },
                                 { rows, columns, side } };
    int64_t most = 0;
    const bool host = !plan->device_memory || zt_plan_matrices_on_host(plan);
    for (int i = 0; kernel && host && i < 6; i++) {
        const int64_t *size = sizes[i / 2];
        const struct zt_matrix_product p = { .m = size[0], .n = size[1], .k = size[2], .b_col = i % 2 ? size[2] : 1 };
        const struct zt_simd_gemm g = zt_plan_matrix_gemm(&p);
        int64_t bytes = (int64_t)zt_simd_gemm_bytes(kernel, &g, plan->threads);
        most = bytes > most ? bytes : most;
    }
    return zt_align_64(most);
}

struct zt_matrix_workspace zt_plan_matrix_workspace(const struct zt_rank_plan *plan, const struct zt_matrix *m) {
    const struct zt_optimizer_config *config = &plan->job->config->optimizer;
    const struct zt_matrix_optimizer *optimizer = zt_optimizer_find(config->type)->matrix;
    struct zt_matrix_workspace w;
    w.room_at = zt_align_64(m->rows * m->columns * (int64_t)sizeof(float));
    w.product_at = w.room_at + zt_align_64(optimizer->room(optimizer->method(config), m) * (int64_t)sizeof(float));
    w.bytes = w.product_at + product_bytes(plan, m);
    return w;
}

double zt_plan_matrix_flops(const struct zt_rank_plan *plan) {
    const struct zt_optimizer_config *config = &plan->job->config->optimizer;
    double flops = 0;
    for (int t = 0; t < plan->tensors.flat->tensor_count; t++) {
        if (!plan->tensors.matrices[t].rows)
            continue;
        const struct zt_matrix_optimizer *optimizer = zt_optimizer_find(config->type)->matrix;
        flops += optimizer->flops(optimizer->method(config), &plan->tensors.matrices[t]);
    }
    return zt_sharding_splits_update(plan->sharding) ? flops / plan->tensors.flat->ranks : flops;
}
