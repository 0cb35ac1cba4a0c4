/* LRN, LpNormalization (p = 2) and MeanVarianceNormalization on the CPU, with their gradients: bundles of slices
 * (simd_norm.h), formulas in norm_slices.c.
 *
 * MeanVarianceNormalization: x is [A, B, C, D] with A and C averaged over, A or D being 1. Moments and gradient sums
 * are taken along C, a slice, and a group's A slices are put together in double. */
#include "ops/norm_slices/norm_slices.h"

#include "ops/norm_slices/kernels.h"
#include "ops/norm/simd_norm.h"
#include "ops/kernel/merge_axes.h"
#include "ops/kernel/tile.h"

#include "device/threads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VECTOR = 16 }; /* at most */
enum kind { RESPONSE, LENGTH, MEAN_VARIANCE };

struct state {
    enum kind kind;
    struct zt_bundles bundles;
    const struct zt_norm_kernels *kernels;
    struct zt_response response;
    int64_t parts, groups; /* MEAN_VARIANCE: slices of a group */
    bool grad;
    size_t bytes; /* of an element */
};

/* ---- which ---- */

static bool mean_variance_slices(const struct zt_graph *g, int node, struct state *s, struct zt_axis_slices *slices) {
    const struct zt_shape *x = &zt_in(g, node, 0)->shape;
    struct zt_err err = { 0 };
    struct zt_mvn mvn;
    int64_t dim[ZT_MAX_RANK] = { 0 };
    bool over[ZT_MAX_RANK] = { false };
    int count;
    if (!zt_mvn_read(g, node, &mvn, &err))
        return false;
    count = zt_merge_marked_axes(x, mvn.marked, dim, over);
    int first = count > 0 && !over[0]; /* axes kept before the first that is averaged over */
    int64_t outer = first ? dim[0] : 1;
    s->parts = 1;
    if (count - first <= 2) {
        *slices =
            (struct zt_axis_slices){ outer, count > first ? dim[first] : 1, count - first == 2 ? dim[first + 1] : 1 };
    } else if (!first && count == 3) {
        s->parts = dim[0];
        *slices = (struct zt_axis_slices){ dim[0] * dim[1], dim[2], 1 };
    } else {
        return false;
    }
    s->groups = slices->outer / s->parts * slices->inner;
    return true;
}

static bool read_state(const struct zt_graph *g, int node, struct state *s, struct zt_axis_slices *slices) {
    const struct zt_node *n = g->nodes[node];
    struct zt_err err = { 0 };
    struct zt_lrn lrn;
    int p;
    *s = (struct state){ .grad = n->in_count > 1, .kernels = zt_norm_kernels() };
    if (strncmp(n->op->name, "LRN", 3) == 0) {
        if (!zt_lrn_read(g, node, &lrn, &err) || lrn.slices.inner == 1)
            return false;
        *slices = lrn.slices;
        s->kind = RESPONSE;
        s->response =
            (struct zt_response){ zt_min_int(lrn.before, slices->length), zt_min_int(lrn.after, slices->length),
                                  (float)lrn.alpha, (float)lrn.beta, (float)lrn.bias };
        return true;
    }
    if (strncmp(n->op->name, "Lp", 2) == 0) {
        s->kind = LENGTH;
        return zt_lp_read(g, node, slices, &p, &err) && p == 2;
    }
    s->kind = MEAN_VARIANCE;
    return mean_variance_slices(g, node, s, slices);
}

bool zt_norm_slices_cpu_supports(const struct zt_graph *g, int node) {
    struct state s;
    struct zt_axis_slices slices;
    const struct zt_value *x = zt_in(g, node, 0);
    return zt_norm_kernels() && zt_row_type(x->dtype) && zt_shape_count(&x->shape) > 0 &&
           read_state(g, node, &s, &slices);
}

/* Numbers per slice in the workspace: moments, sums, then the maps of the groups. LRN: room for each thread. */
enum { MEAN, SQUARES, SUM, PRODUCT, PARTS };
enum { OF_MEAN, OF_X, CONSTANT, OF_DY, MAPS };

bool zt_norm_slices_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    struct state *s = zt_calloc(1, sizeof *s);
    struct zt_axis_slices slices;
    if (!read_state(p->graph, p->node, s, &slices)) {
        free(s);
        return zt_node_fail(p->graph, p->node, err, "a form that the CPU kernels do not take");
    }
    for (int i = 0; i < p->graph->nodes[p->node]->in_count; i++)
        p->in_layout[i] = NULL;
    enum zt_dtype dtype = zt_in(p->graph, p->node, 0)->dtype;
    s->bundles = zt_bundles_of(&slices, dtype, s->kernels->vector);
    s->bytes = zt_dtype_bytes(dtype);
    if (s->kind == MEAN_VARIANCE)
        p->workspace_bytes = (size_t)(PARTS * slices.outer * slices.inner + MAPS * s->groups) * sizeof(float);
    if (s->kind == RESPONSE && s->grad)
        p->workspace_bytes = (size_t)(2 * slices.length * VECTOR * zt_max_int(p->threads, 1)) * sizeof(float);
    p->state = s;
    return true;
}

void zt_norm_slices_cpu_release(void *state) {
    free(state);
}

/* ---- bundles ---- */

struct job {
    const struct zt_call *call;
    const struct state *s;
    float *part[PARTS], *map[MAPS];
};

static void each_bundle(const struct job *j, zt_bundle_function *one) {
    zt_bundles_each(&j->s->bundles, j->call->threads, one, j);
}

static const void *input(const struct job *j, int in, int64_t start) {
    return zt_element(j->call->in[in].data, j->s->bytes, start);
}

static void *output(const struct job *j, int64_t start) {
    return zt_element(j->call->out[0].data, j->s->bytes, start);
}

static void respond(const void *with, const struct zt_bundle *b, int64_t start, int64_t slice) {
    const struct job *j = with;
    (void)slice;
    struct zt_response r = j->s->response;
    if (j->s->grad) {
        r.room = (float *)j->call->workspace + zt_parallel_thread() * 2 * j->s->bundles.slices.length * VECTOR;
        j->s->kernels->respond_grad(b, input(j, 0, start), input(j, 1, start), &r, output(j, start));
    } else {
        j->s->kernels->respond(b, input(j, 0, start), &r, output(j, start));
    }
}

/* ---- LpNormalization ---- */

static void to_length(const void *with, const struct zt_bundle *b, int64_t start, int64_t slice) {
    const struct job *j = with;
    (void)slice;
    static const float zero[VECTOR];
    float sum[VECTOR], squares[VECTOR], along[VECTOR], of_x[VECTOR], of_dy[VECTOR];
    const struct zt_norm_kernels *k = j->s->kernels;
    const void *x = input(j, j->s->grad, start);
    k->products(b, x, x, &(struct zt_row_sums){ zero, sum, squares });
    if (j->s->grad)
        k->products(b, input(j, 0, start), x, &(struct zt_row_sums){ zero, sum, along });
    for (int i = 0; i < (b->across ? 1 : b->each); i++) {
        double length = sqrt((double)squares[i]);
        of_dy[i] = length == 0 ? 0 : (float)(1 / length);
        of_x[i] = !j->s->grad ? of_dy[i] : length == 0 ? 0 : (float)(-(double)along[i] / (length * length * length));
    }
    struct zt_row_map map = { zero, of_x, zero, of_dy };
    if (j->s->grad)
        k->affine_grad(b, input(j, 0, start), x, &map, output(j, start));
    else
        k->affine(b, x, &map, output(j, start));
}

/* ---- MeanVarianceNormalization ---- */

static void moments(const void *with, const struct zt_bundle *b, int64_t start, int64_t slice) {
    const struct job *j = with;
    j->s->kernels->moments(b, input(j, j->s->grad, start), j->part[MEAN] + slice, j->part[SQUARES] + slice);
}

static void products(const void *with, const struct zt_bundle *b, int64_t start, int64_t slice) {
    const struct job *j = with;
    const struct zt_row_sums to = { j->map[OF_MEAN] + slice % j->s->groups, j->part[SUM] + slice,
                                    j->part[PRODUCT] + slice };
    j->s->kernels->products(b, input(j, 0, start), input(j, 1, start), &to);
}

static void normalise(const void *with, const struct zt_bundle *b, int64_t start, int64_t slice) {
    const struct job *j = with;
    int64_t at = slice % j->s->groups;
    struct zt_row_map map = { j->map[OF_MEAN] + at, j->map[OF_X] + at, j->map[CONSTANT] + at, j->map[OF_DY] + at };
    if (j->s->grad)
        j->s->kernels->affine_grad(b, input(j, 0, start), input(j, 1, start), &map, output(j, start));
    else
        j->s->kernels->affine(b, input(j, 0, start), &map, output(j, start));
}

static double total(const struct job *j, int part, int64_t group) {
    double sum = 0;
    for (int64_t i = 0; i < j->s->parts; i++)
        sum += (double)j->part[part][i * j->s->groups + group];
    return sum;
}

static double variance(const struct job *j, int64_t group, double mean, double length) {
    double squares = total(j, SQUARES, group);
    for (int64_t i = 0; i < j->s->parts; i++) {
        double off = (double)j->part[MEAN][i * j->s->groups + group] - mean;
        squares += length * off * off;
    }
    return squares / ((double)j->s->parts * length);
}

static void run_mean_variance(struct job *j) {
    const struct state *s = j->s;
    int64_t slices = s->groups * s->parts;
    double length = (double)s->bundles.slices.length, all = length * (double)s->parts;
    for (int i = 0; i < PARTS; i++)
        j->part[i] = (float *)j->call->workspace + i * slices;
    for (int i = 0; i < MAPS; i++)
        j->map[i] = (float *)j->call->workspace + PARTS * slices + i * s->groups;
    each_bundle(j, moments);
    for (int64_t g = 0; g < s->groups; g++)
        j->map[OF_MEAN][g] = (float)(total(j, MEAN, g) / (double)s->parts);
    if (s->grad)
        each_bundle(j, products);
    for (int64_t g = 0; g < s->groups; g++) {
        double mean = total(j, MEAN, g) / (double)s->parts, std = sqrt(variance(j, g, mean, length)), d = std + 1e-9;
        double off = mean - (double)j->map[OF_MEAN][g], of_x = 1 / d;
        if (s->grad)
            of_x = -total(j, PRODUCT, g) / (all * std * d * d);
        j->map[OF_X][g] = (float)of_x;
        j->map[OF_DY][g] = (float)(1 / d);
        j->map[CONSTANT][g] = (float)(s->grad ? -total(j, SUM, g) / (all * d) : -off * of_x);
    }
    each_bundle(j, normalise);
}

bool zt_norm_slices_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    struct job j = { .call = call, .s = call->state };
    if (j.s->kind == MEAN_VARIANCE)
        run_mean_variance(&j);
    else
        each_bundle(&j, j.s->kind == RESPONSE ? respond : to_length);
    return true;
}
