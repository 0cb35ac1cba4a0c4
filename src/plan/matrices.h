/* Tensors that the optimizer updates as whole matrices (struct zt_matrix_optimizer of optim/optim.h): which they are,
 * and the workspace of one. */
#ifndef ZT_PLAN_MATRICES_H
#define ZT_PLAN_MATRICES_H

#include "ops/cpu/simd_gemm.h"
#include "optim/optim.h"
#include "plan/rank_plan.h"

/* Returns how the optimizer of `config` treats parameter `value` of the training graph; rows 0: element by element. The
 * last group of param_groups that matches the name and says use_muon decides, else the optimizer by the name. */
struct zt_matrix zt_plan_matrix(const struct zt_config *config, const struct zt_training_graph *g, int value);

/* Whether the host updates the matrices beside a GPU: their states are offloaded. */
bool zt_plan_matrices_on_host(const struct zt_rank_plan *plan);

/* The workspace while a matrix is updated: the direction of the whole tensor, the memory of the iteration, and on the
 * host that of a product. Offsets and size in bytes, multiples of 64. */
struct zt_matrix_workspace {
    int64_t room_at, product_at, bytes;
};
struct zt_matrix_workspace zt_plan_matrix_workspace(const struct zt_rank_plan *plan, const struct zt_matrix *m);

/* FLOPs of a rank for its share of all matrices. */
double zt_plan_matrix_flops(const struct zt_rank_plan *plan);

/* The product in terms of the product of CPU kernels, which runs it on the host: same sums, same order. */
struct zt_simd_gemm zt_plan_matrix_gemm(const struct zt_matrix_product *p);

#endif
