/* Batch normalisation of blocked activations, a channel group of a sample (a plane) at a time. Statistics are taken in
 * two steps:
 *
 *     each plane     its mean and sum of squares around it, or its two gradient sums, in float       to the workspace
 *     each channel   all its planes in the order of the samples, in double:
 *                    mean = sum mean_p / N     M var = sum (squares_p + P (mean_p - mean)^2)           (P pixels a
 * plane, M = N P)
 *
 * The workspace holds two floats a plane and lane, then the coefficients of the map that follows, one number a channel.
 */
#include "ops/cpu.h"
#include "ops/lanes.h"
#include "ops/layout_cpu.h"
#include "ops/norm.h"

#include "device/threads.h"

#include <math.h>
#include <stdlib.h>

struct norm_state {
    struct zt_batch_norm norm;
    struct zt_planes planes;
    const struct zt_lane_kernels *kernels;
};

/* Coefficients a channel in the workspace. */
enum { MEAN, FIRST, SECOND, THIRD, COEFFICIENTS };

struct job {
    const struct zt_call *call;
    const struct norm_state *s;
    float *part[2], *coefficient[COEFFICIENTS];
};

static int64_t wide(const struct norm_state *s) { /* channels, padding included */
    return s->planes.groups * s->planes.lanes;
}

static struct job job_of(const struct zt_call *call) {
    const struct norm_state *s = call->state;
    struct job j = { .call = call, .s = s };
    float *at = call->workspace;
    for (int i = 0; i < 2; i++, at += s->planes.samples * wide(s))
        j.part[i] = at;
    for (int i = 0; i < COEFFICIENTS; i++, at += wide(s))
        j.coefficient[i] = at;
    return j;
}

/* Where plane `plane` lies in a tensor, its channels in the coefficients, and its numbers in the parts. */
static void place(const struct norm_state *s, int64_t plane, int64_t *at, int64_t *channel, int64_t *part) {
    int64_t n = plane / s->planes.groups, g = plane % s->planes.groups;
    *at = n * s->planes.sample + g * s->planes.group;
    *channel = g * s->planes.lanes;
    *part = n * wide(s) + *channel;
}

static bool supports(const struct zt_graph *g, int node, int x) {
    struct zt_batch_norm norm;
    struct zt_err err = { 0 };
    for (int i = 0; i < g->nodes[node].in_count; i++)
        if (zt_in(g, node, i) && zt_in(g, node, i)->dtype != ZT_FLOAT)
            return false;
    return zt_in(g, node, x)->shape.rank > 2 && zt_batch_norm_read(g, node, x, &norm, &err) && norm.n > 0 &&
           norm.channels > 0 && norm.spatial > 0;
}

bool zt_batch_norm_train_cpu_supports(const struct zt_graph *g, int node) {
    return supports(g, node, 0);
}
bool zt_batch_norm_grad_cpu_supports(const struct zt_graph *g, int node) {
    return g->nodes[node].in_count == 5 && supports(g, node, 1);
}

static bool prepare(struct zt_prepare *p, int x, struct zt_err *err) {
    const struct zt_graph *g = p->graph;
    const struct zt_node *n = &g->nodes[p->node];
    struct zt_batch_norm norm;
    if (!zt_batch_norm_read(g, p->node, x, &norm, err))
        return false;
    const struct zt_layout *given = p->in_layout[x];
    for (int i = 0; i < n->in_count; i++)
        p->in_layout[i] = i <= x ? zt_layout_lanes(g->arena, given, ZT_FLOAT, &zt_in(g, p->node, x)->shape) : NULL;
    p->out_layout[0] = p->in_layout[x];
    struct norm_state *s = zt_calloc(1, sizeof *s);
    s->norm = norm;
    zt_planes_of(p->in_layout[x], &zt_in(g, p->node, x)->shape, &s->planes);
    s->kernels = zt_lane_kernels(s->planes.lanes);
    p->state = s;
    p->workspace_bytes = (size_t)((2 * s->planes.samples + COEFFICIENTS) * wide(s)) * sizeof(float);
    return true;
}

bool zt_batch_norm_train_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, 0, err);
}
bool zt_batch_norm_grad_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, 1, err);
}
void zt_batch_norm_train_cpu_release(void *state) {
    free(state);
}
void zt_batch_norm_grad_cpu_release(void *state) {
    free(state);
}

static float number(const struct zt_view *v, int64_t c) {
    return ((const float *)v->data)[c];
}

static void put(const struct zt_call *call, int out, int64_t c, double value) {
    if (out < call->out_count && call->out[out].data)
        ((float *)call->out[out].data)[c] = (float)value;
}

/* Padding channels get coefficients of zero, which keeps them zero. */
static void set(struct job *j, int64_t c, double mean, double first, double second, double third) {
    bool real = c < j->s->norm.channels;
    j->coefficient[MEAN][c] = real ? (float)mean : 0;
    j->coefficient[FIRST][c] = real ? (float)first : 0;
    j->coefficient[SECOND][c] = real ? (float)second : 0;
    j->coefficient[THIRD][c] = real ? (float)third : 0;
}

static void each_plane(struct job *j, void (*body)(void *, int64_t)) {
    zt_parallel_for(j->call->threads, j->s->planes.samples * j->s->planes.groups, body, j);
}

/* ---- forward ---- */

static void plane_moments(void *arg, int64_t plane) {
    const struct job *j = arg;
    int64_t at, channel, part;
    place(j->s, plane, &at, &channel, &part);
    j->s->kernels->moments(j->s->planes.pixels, j->s->planes.pixel, (const float *)j->call->in[0].data + at,
                           j->part[0] + part, j->part[1] + part);
}

static void channel_statistics(struct job *j, int64_t c) {
    const struct norm_state *s = j->s;
    const struct zt_view *in = j->call->in;
    double mean = 0, squares = 0, n = (double)s->norm.n, pixels = (double)s->norm.spatial;
    for (int64_t i = 0; i < s->norm.n; i++)
        mean += (double)j->part[0][i * wide(s) + c];
    mean /= n;
    for (int64_t i = 0; i < s->norm.n; i++) {
        double off = (double)j->part[0][i * wide(s) + c] - mean;
        squares += (double)j->part[1][i * wide(s) + c] + pixels * off * off;
    }
    double var = squares / (n * pixels), inv_std = 1 / sqrt(var + s->norm.epsilon), momentum = s->norm.momentum;
    if (c >= s->norm.channels) {
        set(j, c, 0, 0, 0, 0);
        return;
    }
    set(j, c, mean, (double)number(&in[1], c) * inv_std, (double)number(&in[2], c), 0);
    put(j->call, 1, c, (double)number(&in[3], c) * momentum + mean * (1 - momentum));
    put(j->call, 2, c, (double)number(&in[4], c) * momentum + var * (1 - momentum));
    put(j->call, 3, c, mean);
    put(j->call, 4, c, inv_std);
}

static void normalise_plane(void *arg, int64_t plane) {
    const struct job *j = arg;
    int64_t at, channel, part;
    place(j->s, plane, &at, &channel, &part);
    j->s->kernels->normalise(j->s->planes.pixels, j->s->planes.pixel, (const float *)j->call->in[0].data + at,
                             j->coefficient[MEAN] + channel, j->coefficient[FIRST] + channel,
                             j->coefficient[SECOND] + channel, (float *)j->call->out[0].data + at);
}

bool zt_batch_norm_train_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    struct job j = job_of(call);
    each_plane(&j, plane_moments);
    for (int64_t c = 0; c < wide(j.s); c++)
        channel_statistics(&j, c);
    each_plane(&j, normalise_plane);
    return true;
}

/* ---- backward: inputs dy, x, scale, mean, inv_std ---- */

static void plane_sums(void *arg, int64_t plane) {
    const struct job *j = arg;
    int64_t at, channel, part;
    place(j->s, plane, &at, &channel, &part);
    j->s->kernels->sums(j->s->planes.pixels, j->s->planes.pixel, (const float *)j->call->in[0].data + at,
                        (const float *)j->call->in[1].data + at, j->coefficient[MEAN] + channel, j->part[0] + part,
                        j->part[1] + part);
}

static void channel_gradient(struct job *j, int64_t c) {
    const struct norm_state *s = j->s;
    const struct zt_view *in = j->call->in;
    double db = 0, dscale = 0, m = (double)(s->norm.n * s->norm.spatial);
    if (c >= s->norm.channels)
        return;
    double inv_std = (double)number(&in[4], c), factor = (double)number(&in[2], c) * inv_std;
    for (int64_t i = 0; i < s->norm.n; i++) {
        db += (double)j->part[0][i * wide(s) + c];
        dscale += (double)j->part[1][i * wide(s) + c];
    }
    dscale *= inv_std;
    put(j->call, 1, c, dscale);
    put(j->call, 2, c, db);
    set(j, c, (double)number(&in[3], c), factor, -factor * db / m, -factor * dscale * inv_std / m);
}

static void gradient_plane(void *arg, int64_t plane) {
    const struct job *j = arg;
    int64_t at, channel, part;
    place(j->s, plane, &at, &channel, &part);
    j->s->kernels->normalise_grad(j->s->planes.pixels, j->s->planes.pixel, (const float *)j->call->in[0].data + at,
                                  (const float *)j->call->in[1].data + at, j->coefficient[MEAN] + channel,
                                  j->coefficient[FIRST] + channel, j->coefficient[SECOND] + channel,
                                  j->coefficient[THIRD] + channel, (float *)j->call->out[0].data + at);
}

bool zt_batch_norm_grad_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    struct job j = job_of(call);
    for (int64_t c = 0; c < wide(j.s); c++)
        set(&j, c, c < j.s->norm.channels ? (double)number(&call->in[3], c) : 0, 0, 0, 0);
    each_plane(&j, plane_sums);
    for (int64_t c = 0; c < wide(j.s); c++)
        channel_gradient(&j, c);
    if (call->out[0].data)
        each_plane(&j, gradient_plane);
    return true;
}
