/* Batch normalisation of blocked activations, a channel group of a sample (a plane) at a time. */
#include "ops/norm/batch_norm_blocked_cpu.h"

#include "ops/norm/channel_sums_cpu.h"
#include "ops/norm/simd_norm_planes.h"
#include "ops/cpu/blocked_layout.h"

#include "device/threads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LANES = 16, STATISTICS_END = 5, LAST = 5, DZ = 3 }; /* LAST: z, y of the forms with ReLU; DZ: an output */

struct norm_state {
    struct zt_batch_norm norm;
    struct zt_planes planes;
    const struct zt_norm_plane_kernels *kernels;
    size_t element; /* bytes, of float or bfloat16 */
    bool fixed, sync;
    struct zt_plane_activation activation; /* of the forms that have one */
};

struct job {
    const struct zt_call *call;
    const struct norm_state *s;
    struct zt_channel_sums sums;
    float *slope, *shift; /* what the activation was given, (x - mean) slope + shift: of its gradient */
};

static int64_t wide(const struct norm_state *s) { /* channels, padding included */
    return s->planes.groups * s->planes.vector;
}

static struct job job_of(const struct zt_call *call) {
    const struct norm_state *s = call->state;
    struct job j = { .call = call, .s = s };
    j.sums = (struct zt_channel_sums){ .call = call,
                                       .norm = s->norm,
                                       .fixed = s->fixed,
                                       .sync = s->sync,
                                       .parts = s->norm.n,
                                       .wide = wide(s),
                                       .elements = (double)s->norm.spatial };
    zt_channel_sums_place(&j.sums, call->workspace);
    return j;
}

/* Returns the address of a plane of a tensor. */
static void *plane_of(const struct norm_state *s, const struct zt_view *v, int64_t plane) {
    int64_t n = plane / s->planes.groups, g = plane % s->planes.groups;
    return zt_element(v->data, s->element, n * s->planes.sample + g * s->planes.group);
}

/* The first channel of a plane, in the coefficients; the place of its sums, in the parts. */
static int64_t channel_of(const struct norm_state *s, int64_t plane) {
    return plane % s->planes.groups * s->planes.vector;
}
static int64_t part_of(const struct norm_state *s, int64_t plane) {
    return plane / s->planes.groups * wide(s) + channel_of(s, plane);
}

/* The coefficients of a plane's channels. */
static struct zt_row_map map_of(const struct job *j, int64_t plane, int of_x, int constant, int of_dy) {
    const int64_t channel = channel_of(j->s, plane);
    float *const *all = j->sums.coefficient;
    return (struct zt_row_map){ .mean = all[ZT_MEAN] + channel,
                                .of_x = all[of_x] + channel,
                                .constant = all[constant] + channel,
                                .of_dy = all[of_dy] + channel };
}

/* Whether input i is as large as the one that is normalised, input x. */
static bool is_activation(const struct zt_graph *g, int node, int x, int i) {
    return zt_in(g, node, i) && zt_shape_equal(&zt_in(g, node, i)->shape, &zt_in(g, node, x)->shape);
}

static bool supports(const struct zt_graph *g, int node, int x) {
    struct zt_batch_norm norm;
    struct zt_err err = { 0 };
    const enum zt_dtype dtype = zt_in(g, node, x)->dtype == ZT_BFLOAT16 ? ZT_BFLOAT16 : ZT_FLOAT;
    for (int i = 0; i < g->nodes[node]->in_count; i++)
        if (zt_in(g, node, i) && zt_in(g, node, i)->dtype != (is_activation(g, node, x, i) ? dtype : ZT_FLOAT))
            return false;
    return zt_in(g, node, x)->shape.rank > 2 && zt_batch_norm_read_to(g, node, x, STATISTICS_END, &norm, &err) &&
           norm.n > 0 && norm.channels > 0 && norm.spatial > 0;
}

bool zt_batch_norm_blocked_supports(const struct zt_graph *g, int node) {
    return supports(g, node, 0);
}
bool zt_batch_norm_grad_blocked_supports(const struct zt_graph *g, int node) {
    return g->nodes[node]->in_count == 5 && supports(g, node, 1);
}

static bool prepare(struct zt_prepare *p, int x, struct zt_err *err) {
    const struct zt_graph *g = p->graph;
    const struct zt_node *n = g->nodes[p->node];
    struct zt_batch_norm norm;
    if (!zt_batch_norm_read_to(g, p->node, x, STATISTICS_END, &norm, err))
        return false;
    const enum zt_dtype dtype = zt_in(g, p->node, x)->dtype;
    const struct zt_layout *layout = zt_layout_vector(g->arena, p->in_layout[x], dtype, &zt_in(g, p->node, x)->shape);
    for (int i = 0; i < n->in_count; i++)
        p->in_layout[i] = is_activation(g, p->node, x, i) ? layout : NULL;
    p->out_layout[0] = layout;
    if (x && n->out_count > DZ)
        p->out_layout[DZ] = layout;
    struct norm_state *s = zt_calloc(1, sizeof *s);
    s->norm = norm;
    zt_planes_of(p->in_layout[x], &zt_in(g, p->node, x)->shape, &s->planes);
    s->kernels = zt_norm_plane_kernels(s->planes.vector, dtype);
    s->element = zt_dtype_bytes(dtype);
    p->state = s;
    s->fixed = strcmp(n->op->name, "BatchNormalization") == 0 || strcmp(n->op->name, "BatchNormFixedGrad") == 0;
    s->sync = zt_batch_norm_is_sync(n);
    p->workspace_bytes = (size_t)zt_channel_sums_room(norm.n, wide(s)) * sizeof(float);
    return true;
}

bool zt_batch_norm_blocked_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, 0, err);
}
bool zt_batch_norm_grad_blocked_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, 1, err);
}
void zt_batch_norm_blocked_release(void *state) {
    free(state);
}
void zt_batch_norm_grad_blocked_release(void *state) {
    free(state);
}

static void each_plane(struct job *j, void (*body)(void *, int64_t)) {
    zt_parallel_for(j->call->threads, j->s->planes.samples * j->s->planes.groups, body, j);
}

/* ---- forward ---- */

static void plane_moments(void *arg, int64_t plane) {
    const struct job *j = arg;
    const int64_t part = part_of(j->s, plane);
    float off[MOST_LANES]; /* the mean's rounding, too little to count here */
    const struct zt_plane_moments to = { j->sums.part[0] + part, off, j->sums.part[1] + part };
    j->s->kernels->moments(&j->s->planes, plane_of(j->s, &j->call->in[0], plane), &to);
}

static void normalise_plane(void *arg, int64_t plane) {
    const struct job *j = arg;
    const struct zt_row_map map = map_of(j, plane, ZT_FIRST, ZT_SECOND, ZT_THIRD);
    j->s->kernels->normalise(&j->s->planes, plane_of(j->s, &j->call->in[0], plane), &map,
                             plane_of(j->s, &j->call->out[0], plane));
}

bool zt_batch_norm_blocked_run(const struct zt_call *call, struct zt_err *err) {
    struct job j = job_of(call);
    if (!j.s->fixed)
        each_plane(&j, plane_moments);
    if (!zt_channel_statistics(&j.sums, err))
        return false;
    each_plane(&j, normalise_plane);
    return true;
}

/* ---- backward: inputs dy, x, scale, mean, inv_std ---- */

static void plane_sums(void *arg, int64_t plane) {
    const struct job *j = arg;
    const int64_t part = part_of(j->s, plane);
    const struct zt_row_sums to = { .mean = j->sums.coefficient[ZT_MEAN] + channel_of(j->s, plane),
                                    .dy = j->sums.part[0] + part,
                                    .dyx = j->sums.part[1] + part };
    j->s->kernels->sums(&j->s->planes, plane_of(j->s, &j->call->in[0], plane), plane_of(j->s, &j->call->in[1], plane),
                        &to);
}

static void gradient_plane(void *arg, int64_t plane) {
    const struct job *j = arg;
    const struct zt_row_map map = map_of(j, plane, ZT_THIRD, ZT_SECOND, ZT_FIRST);
    j->s->kernels->normalise_grad(&j->s->planes, plane_of(j->s, &j->call->in[0], plane),
                                  plane_of(j->s, &j->call->in[1], plane), &map,
                                  plane_of(j->s, &j->call->out[0], plane));
}

bool zt_batch_norm_grad_blocked_run(const struct zt_call *call, struct zt_err *err) {
    struct job j = job_of(call);
    zt_channel_means(&j.sums, 0, j.sums.wide);
    each_plane(&j, plane_sums);
    if (!zt_channel_gradients(&j.sums, err))
        return false;
    if (call->out[0].data)
        each_plane(&j, gradient_plane);
    return true;
}

/* ---- with ReLU ---- */

static void *plane_if(const struct norm_state *s, const struct zt_view *v, int count, int i, int64_t plane) {
    return i < count && v[i].data ? plane_of(s, &v[i], plane) : NULL;
}

static void normalise_relu_plane(void *arg, int64_t plane) {
    const struct job *j = arg;
    const struct zt_row_map map = map_of(j, plane, ZT_FIRST, ZT_SECOND, ZT_THIRD);
    j->s->kernels->normalise_relu(&j->s->planes, plane_of(j->s, &j->call->in[0], plane),
                                  plane_if(j->s, j->call->in, j->call->in_count, LAST, plane), &map,
                                  plane_of(j->s, &j->call->out[0], plane));
}

static struct zt_relu_planes relu_planes_of(const struct job *j, int64_t plane) {
    const struct zt_view *in = j->call->in;
    return (struct zt_relu_planes){ plane_of(j->s, &in[0], plane), plane_of(j->s, &in[LAST], plane),
                                    plane_of(j->s, &in[1], plane) };
}

static void sums_relu_plane(void *arg, int64_t plane) {
    const struct job *j = arg;
    const int64_t part = part_of(j->s, plane);
    const struct zt_relu_planes in = relu_planes_of(j, plane);
    const struct zt_row_sums to = { .mean = j->sums.coefficient[ZT_MEAN] + channel_of(j->s, plane),
                                    .dy = j->sums.part[0] + part,
                                    .dyx = j->sums.part[1] + part };
    j->s->kernels->sums_relu(&j->s->planes, &in, &to);
}

static void gradient_relu_plane(void *arg, int64_t plane) {
    const struct job *j = arg;
    const struct zt_row_map map = map_of(j, plane, ZT_THIRD, ZT_SECOND, ZT_FIRST);
    const struct zt_relu_planes in = relu_planes_of(j, plane);
    j->s->kernels->normalise_grad_relu(&j->s->planes, &in, &map,
                                       plane_if(j->s, j->call->out, j->call->out_count, 0, plane),
                                       plane_if(j->s, j->call->out, j->call->out_count, DZ, plane));
}

bool zt_batch_norm_relu_cpu_supports(const struct zt_graph *g, int node) {
    return supports(g, node, 0);
}
bool zt_batch_norm_relu_grad_cpu_supports(const struct zt_graph *g, int node) {
    return supports(g, node, 1);
}
bool zt_batch_norm_relu_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, 0, err);
}
bool zt_batch_norm_relu_grad_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, 1, err);
}
void zt_batch_norm_relu_cpu_release(void *state) {
    free(state);
}
void zt_batch_norm_relu_grad_cpu_release(void *state) {
    free(state);
}

bool zt_batch_norm_relu_cpu_run(const struct zt_call *call, struct zt_err *err) {
    struct job j = job_of(call);
    each_plane(&j, plane_moments);
    if (!zt_channel_statistics(&j.sums, err))
        return false;
    each_plane(&j, normalise_relu_plane);
    return true;
}

bool zt_batch_norm_relu_grad_cpu_run(const struct zt_call *call, struct zt_err *err) {
    struct job j = job_of(call);
    zt_channel_means(&j.sums, 0, j.sums.wide);
    each_plane(&j, sums_relu_plane);
    if (!zt_channel_gradients(&j.sums, err))
        return false;
    each_plane(&j, gradient_relu_plane);
    return true;
}

/* ---- with an activation (ops/fusion/fuse_batch_norm_activation.c) ---- */

static struct zt_plane_activation read_activation(const struct zt_node *n) {
    const char *name = zt_attr_text(n, "activation", "Clip");
    return (struct zt_plane_activation){ .kind = strcmp(name, "Clip") == 0    ? ZT_PLANE_CLIP
                                                 : strcmp(name, "Swish") == 0 ? ZT_PLANE_SWISH
                                                 : strcmp(name, "Relu") == 0  ? ZT_PLANE_RELU
                                                                              : ZT_PLANE_HARD_SWISH,
                                         .alpha = zt_attr_float(n, "alpha", 1),
                                         .low = zt_attr_float(n, "min", -INFINITY),
                                         .high = zt_attr_float(n, "max", INFINITY) };
}

/* The padding of blocked activations stays zero. */
static bool keeps_zero(const struct zt_node *n) {
    const struct zt_plane_activation f = read_activation(n);
    return f.low <= 0 && f.high >= 0;
}

bool zt_batch_norm_activation_cpu_supports(const struct zt_graph *g, int node) {
    return supports(g, node, 0) && keeps_zero(g->nodes[node]);
}
bool zt_batch_norm_activation_grad_cpu_supports(const struct zt_graph *g, int node) {
    return supports(g, node, 1) && keeps_zero(g->nodes[node]);
}

static bool activation_prepare(struct zt_prepare *p, int x, struct zt_err *err) {
    if (!prepare(p, x, err))
        return false;
    struct norm_state *s = p->state;
    s->activation = read_activation(p->graph->nodes[p->node]);
    return true;
}

bool zt_batch_norm_activation_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    return activation_prepare(p, 0, err);
}
bool zt_batch_norm_activation_grad_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    if (!activation_prepare(p, 1, err))
        return false;
    p->workspace_bytes += (size_t)(2 * wide(p->state)) * sizeof(float);
    return true;
}
void zt_batch_norm_activation_cpu_release(void *state) {
    free(state);
}
void zt_batch_norm_activation_grad_cpu_release(void *state) {
    free(state);
}

static void activate_plane(void *arg, int64_t plane) {
    const struct job *j = arg;
    const struct zt_row_map map = map_of(j, plane, ZT_FIRST, ZT_SECOND, ZT_THIRD);
    j->s->kernels->activate(&j->s->planes, plane_of(j->s, &j->call->in[0], plane), &map, &j->s->activation,
                            plane_of(j->s, &j->call->out[0], plane));
}

bool zt_batch_norm_activation_cpu_run(const struct zt_call *call, struct zt_err *err) {
    struct job j = job_of(call);
    each_plane(&j, plane_moments);
    if (!zt_channel_statistics(&j.sums, err))
        return false;
    each_plane(&j, activate_plane);
    return true;
}

static void set_slopes(struct job *j) {
    const float *scale = j->call->in[2].data, *inv_std = j->call->in[4].data, *b = j->call->in[LAST].data;
    j->slope = j->sums.coefficient[ZT_COEFFICIENTS - 1] + wide(j->s);
    j->shift = j->slope + wide(j->s);
    for (int64_t c = 0; c < wide(j->s); c++) {
        const bool real = c < j->s->norm.channels;
        j->slope[c] = real ? scale[c] * inv_std[c] : 0;
        j->shift[c] = real ? b[c] : 0;
    }
}

static struct zt_activation_planes activation_planes_of(const struct job *j, int64_t plane) {
    const int64_t channel = channel_of(j->s, plane);
    return (struct zt_activation_planes){ .dy = plane_of(j->s, &j->call->in[0], plane),
                                          .x = plane_of(j->s, &j->call->in[1], plane),
                                          .map = { .mean = j->sums.coefficient[ZT_MEAN] + channel,
                                                   .of_x = j->slope + channel,
                                                   .constant = j->shift + channel },
                                          .f = &j->s->activation };
}

/* Whether dy f'(v), which is not cheap, is made once: in dx, until the sums of all planes are known. In bfloat16 it is
 * rounded there, as by a node of its own; the sums are of what is not rounded. */
static bool keeps_gradient(const struct job *j) {
    return j->s->activation.kind == ZT_PLANE_SWISH && j->call->out[0].data;
}

static void keep_gradient_plane(void *arg, int64_t plane) {
    const struct job *j = arg;
    const int64_t part = part_of(j->s, plane);
    const struct zt_activation_planes in = activation_planes_of(j, plane);
    const struct zt_swish_grad of = { in.map, in.f->alpha, plane_of(j->s, &j->call->out[0], plane) };
    const struct zt_row_sums to = { .dy = j->sums.part[0] + part, .dyx = j->sums.part[1] + part };
    j->s->kernels->swish_sums(&j->s->planes, in.dy, in.x, &of, &to);
}

static void kept_gradient_plane(void *arg, int64_t plane) {
    const struct job *j = arg;
    const struct zt_row_map map = map_of(j, plane, ZT_THIRD, ZT_SECOND, ZT_FIRST);
    void *dx = plane_of(j->s, &j->call->out[0], plane);
    j->s->kernels->normalise_grad(&j->s->planes, dx, plane_of(j->s, &j->call->in[1], plane), &map, dx);
}

static void sums_activation_plane(void *arg, int64_t plane) {
    const struct job *j = arg;
    const int64_t part = part_of(j->s, plane);
    const struct zt_activation_planes in = activation_planes_of(j, plane);
    const struct zt_row_sums to = { .dy = j->sums.part[0] + part, .dyx = j->sums.part[1] + part };
    j->s->kernels->sums_activation(&j->s->planes, &in, &to);
}

static void gradient_activation_plane(void *arg, int64_t plane) {
    const struct job *j = arg;
    const struct zt_activation_planes in = activation_planes_of(j, plane);
    const struct zt_row_map map = map_of(j, plane, ZT_THIRD, ZT_SECOND, ZT_FIRST);
    j->s->kernels->normalise_grad_activation(&j->s->planes, &in, &map, plane_of(j->s, &j->call->out[0], plane));
}

bool zt_batch_norm_activation_grad_cpu_run(const struct zt_call *call, struct zt_err *err) {
    struct job j = job_of(call);
    zt_channel_means(&j.sums, 0, j.sums.wide);
    set_slopes(&j);
    each_plane(&j, keeps_gradient(&j) ? keep_gradient_plane : sums_activation_plane);
    if (!zt_channel_gradients(&j.sums, err))
        return false;
    if (call->out[0].data)
        each_plane(&j, keeps_gradient(&j) ? kept_gradient_plane : gradient_activation_plane);
    return true;
}
