/* Batch normalisation on the CPU: of blocked planes where there are spatial axes and oneDNN's layouts, of slices of
 * plain tensors elsewhere. A slice is a channel of a sample, or without spatial axes a column: channels side by side.
 */
#include "ops/norm/kernels.h"
#include "ops/norm/batch_norm_blocked_cpu.h"
#include "ops/norm/channel_sums_cpu.h"

#include "ops/norm/simd_norm.h"
#include "ops/kernel/tile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- which ---- */

static const struct zt_kernel blocked[2] = { ZT_IF_DNNL(zt_batch_norm_blocked),
                                             ZT_IF_DNNL(zt_batch_norm_grad_blocked) };

struct state {
    void *blocked; /* NULL: slices */
    struct zt_batch_norm norm;
    struct zt_bundles bundles;
    const struct zt_norm_kernels *kernels;
    bool fixed, sync;
    size_t bytes; /* of an element */
};

/* x: the input it is, 1 in gradients. */
static bool supports(const struct zt_graph *g, int node, int x) {
    const struct zt_node *n = g->nodes[node];
    struct zt_batch_norm norm;
    struct zt_err err = { 0 };
    bool trains =
        strcmp(n->op->name, "BatchNormalization") == 0 && (n->out_count > 1 || zt_attr_int(n, "training_mode", 0) != 0);
    if (trains || n->in_count > 5) /* forms that only gradients of gradients have */
        return false;
    if (blocked[x].supports && blocked[x].supports(g, node))
        return true;
    for (int i = 0; i <= x; i++)
        if (zt_in(g, node, i)->dtype != zt_in(g, node, x)->dtype)
            return false;
    return zt_norm_kernels() && zt_row_type(zt_in(g, node, x)->dtype) && zt_batch_norm_read(g, node, x, &norm, &err) &&
           norm.n > 0 && norm.channels > 0 && norm.spatial > 0;
}

bool zt_batch_norm_cpu_supports(const struct zt_graph *g, int node) {
    return supports(g, node, 0);
}
bool zt_batch_norm_grad_cpu_supports(const struct zt_graph *g, int node) {
    return supports(g, node, 1);
}

/* A plane of fewer elements is read faster in blocks of channels, also where it must be reordered first. */
enum { PLAIN_PLANE = 64 };

/* Plain activations stay so where a channel is long enough: reordered, those of the padding would be read too. */
static bool takes_planes(const struct zt_prepare *p, int x, const struct zt_batch_norm *norm) {
    return blocked[x].supports && blocked[x].supports(p->graph, p->node) &&
           (p->in_layout[x] || norm->spatial < PLAIN_PLANE || !zt_norm_kernels());
}

static bool prepare(struct zt_prepare *p, int x, struct zt_err *err) {
    const struct zt_graph *g = p->graph;
    const struct zt_node *n = g->nodes[p->node];
    enum zt_dtype dtype = zt_in(g, p->node, x)->dtype;
    struct zt_batch_norm norm;
    if (!zt_batch_norm_read(g, p->node, x, &norm, err))
        return false;
    const bool planes = takes_planes(p, x, &norm);
    if (planes && !blocked[x].prepare(p, err))
        return false;
    struct state *s = zt_calloc(1, sizeof *s);
    s->blocked = p->state;
    p->state = s;
    if (planes)
        return true;
    for (int i = 0; i < n->in_count; i++)
        p->in_layout[i] = NULL;
    struct zt_axis_slices slices = { norm.n * norm.channels, norm.spatial, 1 };
    if (norm.spatial == 1)
        slices = (struct zt_axis_slices){ 1, norm.n, norm.channels };
    s->norm = norm;
    s->kernels = zt_norm_kernels();
    s->bundles = zt_bundles_of(&slices, dtype, s->kernels->vector);
    s->fixed = strcmp(n->op->name, "BatchNormalization") == 0 || strcmp(n->op->name, "BatchNormFixedGrad") == 0;
    s->sync = zt_batch_norm_is_sync(n);
    s->bytes = zt_dtype_bytes(dtype);
    p->workspace_bytes = (size_t)zt_channel_sums_room(slices.outer > 1 ? norm.n : 1, norm.channels) * sizeof(float);
    return true;
}

bool zt_batch_norm_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, 0, err);
}
bool zt_batch_norm_grad_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, 1, err);
}

static void release(struct state *s, int x) {
    if (s && s->blocked)
        blocked[x].release(s->blocked);
    free(s);
}
void zt_batch_norm_cpu_release(void *state) {
    release(state, 0);
}
void zt_batch_norm_grad_cpu_release(void *state) {
    release(state, 1);
}

static bool run_blocked(const struct zt_call *call, int x, struct zt_err *err) {
    struct zt_call inner = *call;
    inner.state = ((const struct state *)call->state)->blocked;
    return blocked[x].run(&inner, err);
}

/* ---- slices ---- */

struct job {
    struct zt_channel_sums sums;
    const struct state *s;
};

static struct job job_of(const struct zt_call *call) {
    const struct state *s = call->state;
    bool columns = s->norm.spatial == 1;
    struct job j = { .s = s };
    j.sums = (struct zt_channel_sums){ .call = call,
                                       .norm = s->norm,
                                       .fixed = s->fixed,
                                       .sync = s->sync,
                                       .parts = columns ? 1 : s->norm.n,
                                       .wide = s->norm.channels,
                                       .elements = (double)(columns ? s->norm.n : s->norm.spatial) };
    zt_channel_sums_place(&j.sums, call->workspace);
    return j;
}

static void each_bundle(const struct job *j, zt_bundle_function *one) {
    zt_bundles_each(&j->s->bundles, j->sums.call->threads, one, j);
}

static void *element(const struct job *j, const struct zt_view *v, int64_t at) {
    return zt_element(v->data, j->s->bytes, at);
}

static struct zt_row_map map_of(const struct job *j, int64_t slice, int of_x, int of_dy) {
    int64_t c = slice % j->s->norm.channels;
    float *const *all = j->sums.coefficient;
    return (struct zt_row_map){ all[ZT_MEAN] + c, all[of_x] + c, all[ZT_SECOND] + c, all[of_dy] + c };
}

static void moments(const void *with, const struct zt_bundle *b, int64_t start, int64_t slice) {
    const struct job *j = with;
    j->s->kernels->moments(b, element(j, &j->sums.call->in[0], start), j->sums.part[0] + slice,
                           j->sums.part[1] + slice);
}

static void normalise(const void *with, const struct zt_bundle *b, int64_t start, int64_t slice) {
    const struct job *j = with;
    struct zt_row_map map = map_of(j, slice, ZT_FIRST, ZT_THIRD);
    j->s->kernels->affine(b, element(j, &j->sums.call->in[0], start), &map, element(j, &j->sums.call->out[0], start));
}

/* Columns are whole channels: all of it at once, so that they are read while they are near. */
static void forward_columns(const void *with, const struct zt_bundle *b, int64_t start, int64_t slice) {
    struct job j = *(const struct job *)with;
    if (!j.s->fixed)
        moments(&j, b, start, slice);
    zt_channel_own_statistics(&j.sums, slice, slice + b->each);
    normalise(&j, b, start, slice);
}

bool zt_batch_norm_cpu_run(const struct zt_call *call, struct zt_err *err) {
    if (((const struct state *)call->state)->blocked)
        return run_blocked(call, 0, err);
    struct job j = job_of(call);
    if (!j.s->bundles.whole.across && !j.s->sync) {
        each_bundle(&j, forward_columns);
        return true;
    }
    if (!j.s->fixed)
        each_bundle(&j, moments);
    if (!zt_channel_statistics(&j.sums, err))
        return false;
    each_bundle(&j, normalise);
    return true;
}

static void products(const void *with, const struct zt_bundle *b, int64_t start, int64_t slice) {
    const struct job *j = with;
    const struct zt_view *in = j->sums.call->in;
    const struct zt_row_sums to = { .mean = j->sums.coefficient[ZT_MEAN] + slice % j->s->norm.channels,
                                    .dy = j->sums.part[0] + slice,
                                    .dyx = j->sums.part[1] + slice };
    j->s->kernels->products(b, element(j, &in[0], start), element(j, &in[1], start), &to);
}

static void differentiate(const void *with, const struct zt_bundle *b, int64_t start, int64_t slice) {
    const struct job *j = with;
    const struct zt_view *in = j->sums.call->in;
    struct zt_row_map map = map_of(j, slice, ZT_THIRD, ZT_FIRST);
    j->s->kernels->affine_grad(b, element(j, &in[0], start), element(j, &in[1], start), &map,
                               element(j, &j->sums.call->out[0], start));
}

static void backward_columns(const void *with, const struct zt_bundle *b, int64_t start, int64_t slice) {
    struct job j = *(const struct job *)with;
    zt_channel_means(&j.sums, slice, slice + b->each);
    products(&j, b, start, slice);
    zt_channel_own_gradients(&j.sums, slice, slice + b->each);
    if (j.sums.call->out[0].data)
        differentiate(&j, b, start, slice);
}

bool zt_batch_norm_grad_cpu_run(const struct zt_call *call, struct zt_err *err) {
    if (((const struct state *)call->state)->blocked)
        return run_blocked(call, 1, err);
    struct job j = job_of(call);
    if (!j.s->bundles.whole.across && !j.s->sync) {
        each_bundle(&j, backward_columns);
        return true;
    }
    zt_channel_means(&j.sums, 0, j.sums.wide);
    each_bundle(&j, products);
    if (!zt_channel_gradients(&j.sums, err))
        return false;
    if (call->out[0].data)
        each_bundle(&j, differentiate);
    return true;
}
