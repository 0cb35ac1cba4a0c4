#include "run/rank/before_update.h"

#include "device/threads.h"
#include "optim/one_bit/trust.h"
#include "optim/step.h"
#include "plan/matrices.h"

#include <math.h>
#include <string.h>

union zt_coefficients zt_rank_coefficients(const struct zt_rank *r, const struct zt_update *u, int tensor) {
    struct zt_update one = *u;
    union zt_coefficients c;
    const int group = r->tensor_group[tensor];
    if (group > 0) {
        const struct zt_rate rate = zt_rate_at(r->plan->job->config, &r->lr_state, group, u->step - 1);
        one.lr = rate.lr;
        one.beta1 = rate.beta1;
        one.beta2 = rate.beta2;
        one.momentum = rate.momentum;
        one.lr_sum = zt_rank_lr_sum(r, group, u->step);
    }
    one.lr *= r->tensor_lr[tensor];
    one.lr_sum *= r->tensor_lr[tensor];
    one.weight_decay = r->tensor_decay[tensor];
    one.matrix = r->plan->tensors.matrices[tensor];
    r->row->prepare(&one, &c);
    return c;
}

/* ---- whole tensors ---- */

double *zt_rank_own_norms(struct zt_rank *r) {
    int tensors = r->plan->tensors.flat->tensor_count;
    memset(r->tensor_norms, 0, 2 * (size_t)tensors * (size_t)r->data->size * sizeof *r->tensor_norms);
    return r->tensor_norms + 2 * tensors * r->data->rank;
}

bool zt_rank_share_norms(struct zt_rank *r, const struct zt_update *u, struct zt_err *err) {
    int tensors = r->plan->tensors.flat->tensor_count, ranks = r->data->size;
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
    const struct zt_flat *flat = r->plan->tensors.flat;
    const struct zt_flat_tensor *t = &flat->tensors[m->tensor];
    int owners = 0;
    m->bound = ZT_NEW_N(r->arena, int64_t, flat->ranks + 1);
    for (int k = 0; k <= flat->ranks; k++) {
        int64_t at = zt_slice_first(flat, t->bucket, k) - t->offset;
        m->bound[k] = at < 0 ? 0 : at > t->count ? t->count : at;
        owners += k > 0 && m->bound[k] > m->bound[k - 1];
    }
    return zt_sharding_splits_update(r->plan->sharding) && owners > 1;
}

static struct zt_rank_matrix matrix_of(struct zt_rank *r, int tensor) {
    struct zt_rank_matrix m = { .tensor = tensor, .shape = r->plan->tensors.matrices[tensor] };
    for (int i = 0; i < r->piece_count; i++)
        if (r->pieces[i].tensor == tensor && m.piece_count++ == 0)
            m.first_piece = i;
    m.split = is_split(r, &m);
    m.direction = (float *)(void *)r->matrix_space;
    m.room = (float *)(void *)(r->matrix_space + zt_plan_matrix_workspace(r->plan, &m.shape).room_at);
    return m;
}

void zt_rank_list_matrices(struct zt_rank *r) {
    const int tensors = r->plan->tensors.flat->own_tensors;
    if (!r->row || !r->row->matrix || !r->plan->programs.train.count)
        return;
    r->matrices = ZT_NEW_N(r->arena, struct zt_rank_matrix, tensors + 1);
    for (int split = 1; split >= 0; split--)
        for (int t = 0; t < tensors; t++) {
            if (!r->plan->tensors.matrices[t].rows)
                continue;
            struct zt_rank_matrix m = matrix_of(r, t);
            if (m.split == split && (m.split || m.piece_count))
                r->matrices[r->matrix_count++] = m;
        }
}

bool zt_rank_gather_matrix(struct zt_rank *r, const struct zt_rank_matrix *m, struct zt_err *err) {
    struct zt_comm *comm = zt_plan_matrices_on_host(r->plan) ? r->data : r->bulk_data;
    return !m->split || comm->api->all_gather(comm, m->direction, m->bound, sizeof(float), err);
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
    struct host_products with = { zt_simd_gemm_best(), r->matrix_space + product_at, r->device->threads };
    struct zt_matrix_ops ops = zt_matrix_plain;
    ops.with = &with;
    if (with.kernel)
        ops.multiply = multiply;
    return optimizer->orthogonalise(optimizer->method(&r->plan->job->config->optimizer), &m->shape, m->direction,
                                    m->room, &ops);
}

/* ---- 1-bit optimizers ---- */

bool zt_rank_one_bit_create(struct zt_rank *r, struct zt_err *err) {
    const struct zt_rank_plan *p = r->plan;
    const struct zt_one_bit *one_bit = r->row->one_bit;
    if (!one_bit || !p->programs.train.count)
        return true;
    if (one_bit->norms) {
        r->trust = (struct zt_trust *)(void *)(r->optimizer + p->memory.trust_at);
        r->trust_norms = ZT_NEW_N(r->arena, struct zt_trust_norms, r->piece_count + 1);
    }
    if (!p->memory.compressed)
        return true;
    r->compressed.rank = p->grid.data_rank;
    r->compressed.x = (float *)(void *)r->gradients;
    for (int side = 0; side < ZT_COMPRESSED_SIDES; side++)
        r->compressed.error[side] = (float *)(void *)(r->optimizer + p->memory.error_at[side]);
    return zt_compressed_place(p->memory.compressed, r->device, r->optimizer + p->memory.compressed_at, &r->compressed,
                               err);
}

void zt_rank_one_bit_begin(struct zt_rank *r) {
    r->sharing = (struct zt_sharing){ .reduced = true };
    if (r->row->one_bit)
        r->sharing = r->row->one_bit->sharing(&r->plan->job->config->optimizer, r->updates + 1);
}

double zt_rank_squares(const struct zt_rank *r) {
    const double own = r->scalars[1 + r->plan->grid.rank], ranks = (double)r->data->size;
    double squares = 0;
    for (int i = 0; i < r->world->size; i++)
        squares += r->scalars[1 + i];
    return r->sharing.reduced || !isfinite(squares) ? squares : own * ranks * ranks;
}

double zt_rank_lr_sum(const struct zt_rank *r, int group, int64_t update) {
    const struct zt_config *c = r->plan->job->config;
    const struct zt_lr_state *past = &r->lr_state;
    double sum = 0;
    if (!r->row->one_bit)
        return 0;
    int64_t u = r->row->one_bit->sharing(&c->optimizer, update).lrs_since;
    if (zt_lr_observes(c) && u <= past->updates) {
        sum = past->lr_sum[group];
        u = past->updates + 1;
    }
    for (; u <= update; u++)
        sum += zt_rate_at(c, past, group, u - 1).lr;
    return sum;
}

void zt_rank_lr_applied(struct zt_rank *r) {
    struct zt_lr_state *past = &r->lr_state;
    past->updates++;
    if (!r->row->one_bit)
        return;
    const struct zt_sharing s = r->row->one_bit->sharing(&r->plan->job->config->optimizer, past->updates);
    for (int g = 0; g < past->groups; g++)
        past->lr_sum[g] = s.apart && !s.compressed ? past->lr_sum[g] + past->lr[g] : 0;
}

bool zt_rank_one_bit_average(struct zt_rank *r, struct zt_err *err) {
    const struct zt_compressed *layout = r->plan->memory.compressed;
    if (!layout || !r->sharing.compressed)
        return true;
    for (int side = 0; r->sharing.clears && side < ZT_COMPRESSED_SIDES; side++)
        if (!r->device->api->zero(r->device, r->compressed.error[side], (size_t)layout->errors[side] * sizeof(float),
                                  err))
            return false;
    return zt_comm_compressed_all_reduce(r->bulk_data, r->device, &r->compressed, err);
}

/* ---- on the host ---- */

struct preparing {
    struct zt_rank *r;
    const struct zt_update *base;
};

static struct zt_slice slice_of(const struct zt_rank *r, struct zt_piece *p) {
    return (struct zt_slice){ p->param, p->grad, p->state, p->count, r->trust ? &r->trust[p->tensor] : NULL };
}

static void pack_piece(void *arg, int64_t i) {
    const struct preparing *u = arg;
    struct zt_piece *piece = &u->r->pieces[i];
    const union zt_coefficients c = zt_rank_coefficients(u->r, u->base, piece->tensor);
    const struct zt_slice slice = slice_of(u->r, piece);
    u->r->row->one_bit->pack(&c, &slice);
}

static void norms_of_piece(void *arg, int64_t i) {
    const struct preparing *u = arg;
    struct zt_piece *piece = &u->r->pieces[i];
    const union zt_coefficients c = zt_rank_coefficients(u->r, u->base, piece->tensor);
    const struct zt_slice slice = slice_of(u->r, piece);
    u->r->trust_norms[i] = (struct zt_trust_norms){ 0 };
    u->r->row->one_bit->norms(&c, &slice, &u->r->trust_norms[i]);
}

/* Every rank has all pieces of a tensor, one behind the other, and adds their norms in this order. */
static void find_trust(struct zt_rank *r, const struct zt_update *base) {
    for (int i = 0, next; i < r->piece_count; i = next) {
        const int tensor = r->pieces[i].tensor;
        struct zt_trust_norms all = { 0 };
        for (next = i; next < r->piece_count && r->pieces[next].tensor == tensor; next++) {
            const struct zt_trust_norms *n = &r->trust_norms[next];
            all.weights += n->weights;
            all.directions += n->directions;
            all.moments += n->moments;
            all.most = n->most > all.most ? n->most : all.most;
            all.count += n->count;
        }
        const union zt_coefficients c = zt_rank_coefficients(r, base, tensor);
        r->row->one_bit->trust(&c, &all, &r->trust[tensor]);
        r->ratios[tensor] = (double)r->trust[tensor].ratio;
    }
}

bool zt_rank_one_bit_prepare(struct zt_rank *r, const struct zt_update *base, struct zt_err *err) {
    struct preparing u = { r, base };
    if (r->sharing.compressed)
        zt_parallel_for(r->device->threads, r->piece_count, pack_piece, &u);
    if (!zt_rank_one_bit_average(r, err))
        return false;
    if (!r->trust)
        return true;
    zt_parallel_for(r->device->threads, r->piece_count, norms_of_piece, &u);
    find_trust(r, base);
    return true;
}
