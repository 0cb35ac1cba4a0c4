/* Losses over class indices on the CPU, a bundle of slices at a time (simd_loss.h); formulas in class_loss.c. The
 * losses of a block's slices are summed in double, and the blocks in order. */
#include "ops/loss/kernels.h"
#include "ops/loss/simd_loss.h"
#include "ops/loss/class_loss.h"

#include "base/align.h"
#include "device/threads.h"
#include "ops/kernel/tile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VECTOR = 16 }; /* at most */

struct loss_state {
    struct zt_bundles bundles;
    const struct zt_loss_kernels *kernels;
    size_t bytes;   /* of an element */
    size_t term_at; /* Train: of the terms in the workspace */
};

/* The workspace: a double per block, then the class weights as floats. */
struct job {
    const struct zt_call *call;
    const struct loss_state *s;
    struct zt_class_loss loss;
    double (*loss_of)(const struct job *j, int64_t bundle); /* of all slices of a bundle */
    double *part;
    float *weight;                    /* NULL: all 1 */
    float *term;                      /* Train: a slice of a thread */
    const struct zt_view *saved, *to; /* to: the loss */
    double total;
};

static bool supports(const struct zt_graph *g, int node, int x) {
    return zt_loss_kernels() && zt_row_type(zt_in(g, node, x)->dtype);
}

bool zt_class_loss_cpu_supports(const struct zt_graph *g, int node) {
    return supports(g, node, 0);
}
bool zt_class_loss_grad_cpu_supports(const struct zt_graph *g, int node) {
    return supports(g, node, 1);
}

static bool prepare(struct zt_prepare *p, int x, struct zt_err *err) {
    enum zt_dtype dtype = zt_in(p->graph, p->node, x)->dtype;
    struct zt_class_loss loss;
    if (!zt_class_loss_shape(p->graph, p->node, x, &loss, err))
        return false;
    for (int i = 0; i < p->graph->nodes[p->node]->in_count; i++)
        p->in_layout[i] = NULL;
    struct loss_state *s = zt_calloc(1, sizeof *s);
    s->kernels = zt_loss_kernels();
    s->bundles = zt_bundles_of(&loss.rows, dtype, s->kernels->vector);
    s->bytes = zt_dtype_bytes(dtype);
    p->workspace_bytes =
        (size_t)zt_bundle_blocks(&s->bundles) * sizeof(double) + (size_t)loss.rows.length * sizeof(float);
    p->state = s;
    return true;
}

bool zt_class_loss_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, 0, err);
}
bool zt_class_loss_grad_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, 1, err);
}
void zt_class_loss_cpu_release(void *state) {
    free(state);
}
void zt_class_loss_grad_cpu_release(void *state) {
    free(state);
}

static bool read_job(const struct zt_call *call, int x, struct job *j, struct zt_err *err) {
    const struct loss_state *s = call->state;
    *j = (struct job){ .call = call, .s = s, .part = call->workspace };
    if (!zt_class_loss_read(call, x, &j->loss, err))
        return false;
    if (j->loss.class_weight) {
        j->weight = (float *)(j->part + zt_bundle_blocks(&s->bundles));
        for (int64_t c = 0; c < j->loss.rows.length; c++)
            j->weight[c] = (float)zt_class_loss_weight(&j->loss, c);
    }
    return true;
}

static double number(const struct zt_view *v, int64_t i) {
    return zt_load_double(v->dtype, v->data, i);
}

static int slices_in(const struct zt_bundle *b) {
    return b->across ? 1 : b->each;
}

/* First and end bundle of a block. */
static int64_t first_of(const struct job *j, int64_t block) {
    int64_t at = block * j->s->bundles.grain;
    return at < j->s->bundles.count ? at : j->s->bundles.count;
}

/* ---- forward ---- */

/* The log sum exp of the slices of a bundle, and what label smoothing adds: sum of w_c (lse - x_c). */
static void bundle_sums(const struct job *j, const struct zt_bundle *b, const void *x, double *lse, double *spread) {
    float max[VECTOR], sum[VECTOR], weighed[VECTOR];
    if (!j->loss.logs)
        j->s->kernels->exp_sum(b, x, max, sum);
    if (j->loss.smoothing != 0)
        j->s->kernels->weighted_sum(b, x, j->weight, weighed);
    for (int k = 0; k < slices_in(b); k++) {
        lse[k] = j->loss.logs ? 0 : (double)max[k] + log((double)sum[k]);
        spread[k] = j->loss.smoothing != 0 ? lse[k] * j->loss.weight_sum - (double)weighed[k] : 0;
    }
}

static void keep_bundle(const struct job *j, const struct zt_bundle *b, const void *x, int64_t start, int64_t slice,
                        const double *lse) {
    float shift[VECTOR];
    for (int k = 0; k < slices_in(b); k++) {
        shift[k] = (float)lse[k];
        if (j->loss.own)
            zt_store_double(j->saved->dtype, j->saved->data, slice + k, lse[k]);
    }
    if (!j->loss.own)
        j->s->kernels->shift(b, x, shift, zt_element(j->saved->data, j->s->bytes, start));
}

/* The loss of the slice that starts at element `start`; spread: what label smoothing adds. */
static double slice_loss(const struct job *j, int64_t start, int64_t slice, double lse, double spread) {
    const struct zt_class_loss *loss = &j->loss;
    double sample = zt_class_loss_sample(loss, slice), one = 0;
    if (sample != 0) {
        int64_t t = zt_class_loss_target(loss, slice);
        one = (1 - loss->smoothing) * zt_class_loss_weight(loss, t) *
              (lse - number(loss->x, start + t * loss->rows.inner));
        one = sample * (one + loss->smoothing / (double)loss->rows.length * spread);
    }
    if (loss->reduction == ZT_LOSS_NONE)
        zt_store_double(j->to->dtype, j->to->data, slice, one);
    return one;
}

static double bundle_loss(const struct job *j, int64_t i) {
    const struct zt_class_loss *loss = &j->loss;
    int64_t start, slice;
    struct zt_bundle b = zt_bundle_at(&j->s->bundles, i, &start, &slice);
    const void *x = zt_element(loss->x->data, j->s->bytes, start);
    double lse[VECTOR], spread[VECTOR], all = 0;
    bundle_sums(j, &b, x, lse, spread);
    if (j->saved)
        keep_bundle(j, &b, x, start, slice, lse);
    for (int k = 0; k < slices_in(&b); k++)
        all += slice_loss(j, start + k, slice + k, lse[k], spread[k]);
    return all;
}

static void loss_block(void *arg, int64_t block) {
    const struct job *j = arg;
    double sum = 0;
    for (int64_t i = first_of(j, block); i < first_of(j, block + 1); i++)
        sum += j->loss_of(j, i);
    j->part[block] = sum;
}

/* The sum over all bundles. */
static double sum_of(struct job *j) {
    double sum = 0;
    zt_parallel_for(j->call->threads, zt_bundle_blocks(&j->s->bundles), loss_block, j);
    for (int64_t c = 0; c < zt_bundle_blocks(&j->s->bundles); c++)
        sum += j->part[c];
    return sum;
}

bool zt_class_loss_cpu_run(const struct zt_call *call, struct zt_err *err) {
    struct job j;
    if (!read_job(call, 0, &j, err))
        return false;
    j.saved = call->out_count > 1 && call->out[1].data ? &call->out[1] : NULL;
    j.to = &call->out[0];
    j.loss_of = bundle_loss;
    zt_class_loss_store(call, &j.loss, sum_of(&j));
    return true;
}

/* ---- backward ---- */

/* Slices of zeros. */
static void clear(const struct job *j, const struct zt_bundle *b, void *dx) {
    size_t slice = (size_t)(b->across ? j->loss.rows.length : b->each) * j->s->bytes;
    for (int64_t c = 0; c < (b->across ? 1 : b->count); c++)
        memset(zt_element(dx, j->s->bytes, c * b->step), 0, slice);
}

/* dx at the target, where x was `x`, in double: p_t - 1 cancels. */
static double hit(const struct job *j, int64_t t, double x, double p, double lse, const struct zt_class_slope *slope) {
    double soft = p != 0 ? p * exp(x - lse) : 0;
    double spread = slope->spread != 0 ? slope->spread * zt_class_loss_weight(&j->loss, t) : 0;
    return soft - spread - slope->hit;
}

/* Returns the position of the target of a slice; -1: it does not count. */
static int64_t target_at(const struct zt_class_loss *loss, int64_t start, int64_t slice,
                         const struct zt_class_slope *slope) {
    return slope->hit != 0 ? start + zt_class_loss_target(loss, slice) * loss->rows.inner : -1;
}

static void grad_bundle(const void *with, const struct zt_bundle *b, int64_t start, int64_t slice) {
    const struct job *j = with;
    const struct zt_class_loss *loss = &j->loss;
    struct zt_class_slope slope[VECTOR];
    float p[VECTOR] = { 0 }, lse[VECTOR] = { 0 }, spread[VECTOR] = { 0 };
    double x_target[VECTOR];
    int64_t at[VECTOR];
    bool nothing = true;
    for (int k = 0; k < slices_in(b); k++) {
        slope[k] = zt_class_loss_slope(j->call, loss, slice + k, j->total);
        spread[k] = (float)slope[k].spread;
        at[k] = target_at(loss, start + k, slice + k, &slope[k]);
        x_target[k] = at[k] >= 0 ? number(loss->x, at[k]) : 0; /* dx may lie on x */
        if (j->saved) {
            p[k] = (float)(slope[k].hit + slope[k].spread * loss->weight_sum);
            lse[k] = (float)number(j->saved, slice + k);
        }
        nothing = nothing && p[k] == 0 && spread[k] == 0;
    }
    const struct zt_view *dx = &j->call->out[0];
    void *to = zt_element(dx->data, j->s->bytes, start);
    struct zt_cross_grad g = { p, lse, spread, j->weight };
    if (nothing)
        clear(j, b, to);
    else
        j->s->kernels->cross_grad(b, zt_element(loss->x->data, j->s->bytes, start), &g, to);
    for (int k = 0; k < slices_in(b); k++)
        if (at[k] >= 0)
            zt_store_double(
                dx->dtype, dx->data, at[k],
                hit(j, zt_class_loss_target(loss, slice + k), x_target[k], (double)p[k], (double)lse[k], &slope[k]));
}

/* With the log sum exp the gradient of cross-entropy, without that of NLL. */
bool zt_class_loss_grad_cpu_run(const struct zt_call *call, struct zt_err *err) {
    struct job j;
    if (!read_job(call, 1, &j, err))
        return false;
    j.saved = zt_class_loss_in(call, 5);
    j.total = zt_class_loss_total(&j.loss);
    zt_bundles_each(&j.s->bundles, call->threads, grad_bundle, &j);
    return true;
}

/* ---- both at once: the row is read again, as exp(x - max), while it is near ---- */

/* Floats of a slice's terms. */
static int64_t terms_of(const struct zt_class_loss *loss) {
    return zt_align_floats(loss->rows.length);
}

bool zt_class_loss_train_cpu_supports(const struct zt_graph *g, int node) {
    struct zt_class_loss loss;
    return supports(g, node, 1) && zt_class_loss_shape(g, node, 1, &loss, &(struct zt_err){ 0 }) &&
           loss.rows.inner == 1 && loss.room == loss.rows.length;
}

/* The workspace of the loss, then a slice of terms a thread. */
bool zt_class_loss_train_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    struct zt_class_loss loss;
    if (!prepare(p, 1, err) || !zt_class_loss_shape(p->graph, p->node, 1, &loss, err))
        return false;
    struct loss_state *s = p->state;
    s->term_at = zt_align_64(p->workspace_bytes);
    p->workspace_bytes = s->term_at + (size_t)(terms_of(&loss) * zt_max_int(p->threads, 1)) * sizeof(float);
    return true;
}
void zt_class_loss_train_cpu_release(void *state) {
    free(state);
}

static double train_slice(const struct job *j, int64_t i) {
    const struct zt_class_loss *loss = &j->loss;
    const struct loss_state *s = j->s;
    int64_t start, slice;
    const struct zt_bundle b = zt_bundle_at(&s->bundles, i, &start, &slice);
    const void *x = zt_element(loss->x->data, s->bytes, start);
    const struct zt_view *dx = &j->call->out[0];
    float *term = j->term + zt_parallel_thread() * terms_of(loss), max, sum, weighed = 0;
    s->kernels->exp_keep(&b, x, &max, &sum, term);
    if (loss->smoothing != 0)
        s->kernels->weighted_sum(&b, x, j->weight, &weighed);
    const double lse = (double)max + log((double)sum);
    const double one = slice_loss(j, start, slice, lse, lse * loss->weight_sum - (double)weighed);
    const struct zt_class_slope slope = zt_class_loss_slope(j->call, loss, slice, j->total);
    const int64_t at = target_at(loss, start, slice, &slope);
    const double x_target = at >= 0 ? number(loss->x, at) : 0, p = slope.hit + slope.spread * loss->weight_sum;
    const float spread = (float)slope.spread, each = (float)(p / (double)sum);
    void *to = zt_element(dx->data, s->bytes, start);
    if (p == 0 && spread == 0)
        clear(j, &b, to);
    else
        s->kernels->kept_grad(&b, term, &(struct zt_cross_grad){ &each, NULL, &spread, j->weight }, to);
    if (at >= 0)
        zt_store_double(dx->dtype, dx->data, at, hit(j, zt_class_loss_target(loss, slice), x_target, p, lse, &slope));
    return one;
}

/* (dloss, logits, target, row weight, class weight) -> dlogits, loss */
bool zt_class_loss_train_cpu_run(const struct zt_call *call, struct zt_err *err) {
    struct job j;
    if (!read_job(call, 1, &j, err))
        return false;
    j.to = &call->out[1];
    j.total = zt_class_loss_total(&j.loss);
    j.term = (float *)((char *)call->workspace + j.s->term_at);
    j.loss_of = train_slice;
    struct zt_call loss = *call;
    loss.out = j.to;
    zt_class_loss_store(&loss, &j.loss, sum_of(&j));
    return true;
}
