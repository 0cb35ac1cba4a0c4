/* Cross-entropy over class probabilities on the CPU, for classes on the last axis: exponentials by vector loops
 * (simd_loss.h), sums in double; formulas in soft_loss.c. */
#include "ops/loss/kernels.h"
#include "ops/loss/simd_loss.h"
#include "ops/loss/soft_loss_ref.h"

#include "device/threads.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/tile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct soft_state {
    struct zt_bundles bundles; /* a row each */
    const struct zt_loss_kernels *kernels;
    size_t bytes; /* of an element of x */
};

struct job {
    struct zt_soft_loss loss;
    const struct soft_state *s;
    float *targets; /* workspace: a row for each block */
};

static bool supports(const struct zt_graph *g, int node, int x) {
    const struct zt_value *v = zt_in(g, node, x), *t = zt_in(g, node, x + 1);
    int axis;
    struct zt_err ignored = { 0 };
    return zt_loss_kernels() && zt_row_type(v->dtype) && zt_row_type(t->dtype) &&
           zt_axis(g, node, zt_attr_int(g->nodes[node], "axis", 1), v->shape.rank, &axis, &ignored) &&
           axis == v->shape.rank - 1;
}

bool zt_soft_loss_cpu_supports(const struct zt_graph *g, int node) {
    return supports(g, node, 0);
}
bool zt_soft_loss_grad_cpu_supports(const struct zt_graph *g, int node) {
    return supports(g, node, 1);
}

static bool prepare(struct zt_prepare *p, int x) {
    const struct zt_value *v = zt_in(p->graph, p->node, x);
    const struct zt_axis_slices rows = zt_axis_slices_along(&v->shape, v->shape.rank - 1);
    struct soft_state *s = zt_calloc(1, sizeof *s);
    for (int i = 0; i < p->graph->nodes[p->node]->in_count; i++)
        p->in_layout[i] = NULL;
    s->kernels = zt_loss_kernels();
    s->bundles = zt_bundles_of(&rows, v->dtype, s->kernels->vector);
    s->bytes = zt_dtype_bytes(v->dtype);
    p->workspace_bytes = ZT_SOFT_LOSS_BLOCKS * (size_t)rows.length * sizeof(float);
    p->state = s;
    return true;
}

bool zt_soft_loss_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    (void)err;
    return prepare(p, 0);
}
bool zt_soft_loss_grad_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    (void)err;
    return prepare(p, 1);
}
void zt_soft_loss_cpu_release(void *state) {
    free(state);
}
void zt_soft_loss_grad_cpu_release(void *state) {
    free(state);
}

static bool read_job(const struct zt_call *call, int x, struct job *j, struct zt_err *err) {
    j->s = call->state;
    j->targets = call->workspace;
    return zt_soft_loss_read(call, x, &j->loss, err);
}

/* ---- forward ---- */

/* Sum of q_c (lse - x_c). */
static double row_sum(const struct zt_soft_loss *j, int64_t start, double lse) {
    double x[ZT_ELEMENT_BLOCK], t[ZT_ELEMENT_BLOCK], sum = 0;
    for (int64_t at = 0; at < j->rows.length; at += ZT_ELEMENT_BLOCK) {
        const int64_t count = zt_min_int(ZT_ELEMENT_BLOCK, j->rows.length - at);
        zt_load_block(j->x->dtype, j->x->data, start + at, 1, count, x);
        zt_load_block(j->target->dtype, j->target->data, start + at, 1, count, t);
        for (int64_t i = 0; i < count; i++)
            sum += zt_soft_loss_target(j, at + i, t[i]) * (lse - x[i]);
    }
    return sum;
}

static double vector_row(const void *with, int64_t block, int64_t row, double *lse) {
    const struct job *j = with;
    int64_t start, slice;
    float max, sum;
    const struct zt_bundle b = zt_bundle_at(&j->s->bundles, row, &start, &slice);
    (void)block;
    j->s->kernels->exp_sum(&b, zt_element(j->loss.x->data, j->s->bytes, start), &max, &sum);
    *lse = (double)max + log((double)sum);
    return zt_soft_loss_weight(&j->loss, row) != 0 ? row_sum(&j->loss, start, *lse) : 0;
}

bool zt_soft_loss_cpu_run(const struct zt_call *call, struct zt_err *err) {
    struct job j;
    if (!read_job(call, 0, &j, err))
        return false;
    zt_soft_loss_sum(&j.loss, vector_row, &j);
    return true;
}

/* ---- backward ---- */

/* Writes the q of a row, and returns their sum. */
static double fill_targets(const struct zt_soft_loss *j, int64_t start, float *to) {
    double t[ZT_ELEMENT_BLOCK], sum = 0;
    for (int64_t at = 0; at < j->rows.length; at += ZT_ELEMENT_BLOCK) {
        const int64_t count = zt_min_int(ZT_ELEMENT_BLOCK, j->rows.length - at);
        zt_load_block(j->target->dtype, j->target->data, start + at, 1, count, t);
        for (int64_t i = 0; i < count; i++) {
            const double q = zt_soft_loss_target(j, at + i, t[i]);
            to[at + i] = (float)q;
            sum += q;
        }
    }
    return sum;
}

static void grad_row(const struct job *j, int64_t row, float *targets) {
    const struct zt_soft_loss *loss = &j->loss;
    const struct zt_view *saved = &loss->call->in[5], *dx = &loss->call->out[0];
    int64_t start, slice;
    const struct zt_bundle b = zt_bundle_at(&j->s->bundles, row, &start, &slice);
    const float factor = (float)zt_soft_loss_factor(loss, row),
                lse = (float)zt_load_double(saved->dtype, saved->data, row);
    const float p = (float)((double)factor * fill_targets(loss, start, targets));
    const struct zt_cross_grad g = { &p, &lse, &factor, targets };
    void *to = zt_element(dx->data, j->s->bytes, start);
    if (factor != 0)
        j->s->kernels->cross_grad(&b, zt_element(loss->x->data, j->s->bytes, start), &g, to);
    else
        memset(to, 0, (size_t)loss->rows.length * j->s->bytes); /* a padding row may hold anything */
}

static void grad_block(void *arg, int64_t block) {
    const struct job *j = arg;
    float *targets = j->targets + block * j->loss.rows.length;
    const int64_t count = j->loss.count;
    for (int64_t i = count * block / ZT_SOFT_LOSS_BLOCKS; i < count * (block + 1) / ZT_SOFT_LOSS_BLOCKS; i++)
        grad_row(j, i, targets);
}

bool zt_soft_loss_grad_cpu_run(const struct zt_call *call, struct zt_err *err) {
    struct job j;
    if (!read_job(call, 1, &j, err))
        return false;
    zt_parallel_for(zt_soft_loss_threads(&j.loss), ZT_SOFT_LOSS_BLOCKS, grad_block, &j);
    return true;
}
