#include "run/rank/whole_tensors.h"

#include "optim/step.h"
#include "plan/matrices.h"

#include <string.h>

double *zt_rank_own_norms(struct zt_rank *r) {
    int tensors = r->plan->flat->tensor_count;
    memset(r->tensor_norms, 0, 2 * (size_t)tensors * (size_t)r->data->size * sizeof *r->tensor_norms);
    return r->tensor_norms + 2 * tensors * r->data->rank;
}

bool zt_rank_share_norms(struct zt_rank *r, const struct zt_update *u, struct zt_err *err) {
    int tensors = r->plan->flat->tensor_count, ranks = r->data->size;
    if (!r->data->api->sum(r->data, r->tensor_norms, 2 * tensors * ranks, err))
        return false;
    union zt_coefficients c;
    r->row->prepare(u, &c);
    for (int t = 0; t < tensors; t++) {
        double norms[2] = { 0 };
        for (int k = 0; k < ranks; k++)
            for (int i = 0; i < 2; i++)
                norms[i] += r->tensor_norms[2 * (k * tensors + t) + i];
        r->ratios[t] = r->row->ratio(&c, norms);
    }
    return true;
}

/* ---- matrices ---- */

/* Whether several ranks have slices of the matrix; sets m->bound, [data ranks + 1] relative to the tensor. */
static bool is_split(struct zt_rank *r, struct zt_rank_matrix *m) {
    const struct zt_flat *flat = r->plan->flat;
    const struct zt_flat_tensor *t = &flat->tensors[m->tensor];
    int owners = 0;
    m->bound = ZT_NEW_N(r->arena, int64_t, flat->ranks + 1);
    for (int k = 0; k <= flat->ranks; k++) {
        int64_t at = zt_slice_first(flat, t->bucket, k) - t->offset;
        m->bound[k] = at < 0 ? 0 : at > t->count ? t->count : at;
        owners += k > 0 && m->bound[k] > m->bound[k - 1];
    }
    return r->plan->sharding->optimizer && owners > 1;
}

static struct zt_rank_matrix matrix_of(struct zt_rank *r, int tensor) {
    struct zt_rank_matrix m = { .tensor = tensor, .shape = r->plan->matrices[tensor] };
    for (int i = 0; i < r->piece_count; i++)
        if (r->pieces[i].tensor == tensor && m.piece_count++ == 0)
            m.first_piece = i;
    m.split = is_split(r, &m);
    m.direction = (float *)r->workspace;
    m.room = (float *)(r->workspace + zt_plan_matrix_workspace(r->plan, &m.shape).room_at);
    return m;
}

void zt_rank_list_matrices(struct zt_rank *r) {
    const int tensors = r->plan->flat->own_tensors;
    if (!r->row || !r->row->matrix || !r->plan->train.count)
        return;
    r->matrices = ZT_NEW_N(r->arena, struct zt_rank_matrix, tensors + 1);
    for (int split = 1; split >= 0; split--)
        for (int t = 0; t < tensors; t++) {
            if (!r->plan->matrices[t].rows)
                continue;
            struct zt_rank_matrix m = matrix_of(r, t);
            if (m.split == split && (m.split || m.piece_count))
                r->matrices[r->matrix_count++] = m;
        }
}

bool zt_rank_gather_matrix(struct zt_rank *r, const struct zt_rank_matrix *m, struct zt_err *err) {
    return !m->split || r->bulk_data->api->all_gather(r->bulk_data, m->direction, m->bound, sizeof(float), err);
}

/* The products of zt_matrix_plain by the kernels of the CPU. */
struct host_products {
    const struct zt_simd_gemm_kernel *kernel;
    void *workspace;
    int threads;
};

static void multiply(const struct zt_matrix_ops *ops, const struct zt_matrix_product *p) {
    const struct host_products *with = ops->with;
    const struct zt_simd_gemm g = zt_plan_matrix_gemm(p);
    const struct zt_simd_gemm_operands operands = { .a = p->a, .b = p->b, .bias = p->c, .y = p->y };
    zt_simd_gemm_run(with->kernel, &g, &operands, with->workspace, with->threads);
}

float *zt_rank_orthogonalise(struct zt_rank *r, const struct zt_rank_matrix *m) {
    const struct zt_matrix_optimizer *optimizer = r->row->matrix;
    const int64_t product_at = zt_plan_matrix_workspace(r->plan, &m->shape).product_at;
    struct host_products with = { zt_simd_gemm_best(), r->workspace + product_at, r->device->threads };
    struct zt_matrix_ops ops = zt_matrix_plain;
    ops.with = &with;
    if (with.kernel)
        ops.multiply = multiply;
    return optimizer->orthogonalise(optimizer->method(&r->plan->job->config->optimizer), &m->shape, m->direction,
                                    m->room, &ops);
}
