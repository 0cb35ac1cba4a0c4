/* GridSample in float: the taps of all places are found once for all channels, then every plane reads them.
 *
 *     place   [ count | pixel of each tap | weight of each | slopes of each, an axis after the other ]
 *
 * Backwards each plane adds up its own dX, and each place its dgrid: with q[tap] = sum over c of dY X[tap], which all
 * axes share, dgrid along an axis is the sum over taps of slope q. */
#include "ops/resample/kernels.h"
#include "ops/resample/grid_sample.h"
#include "ops/kernel/tile.h"

#include "device/threads.h"

#include <string.h>

enum { MOST = 16, AXES = 3, PLACES = 64 }; /* taps of a place; axes; places in a block */

struct place {
    int32_t count, pixel[MOST];
    float weight[MOST], slope[AXES][MOST];
};

static bool supports(const struct zt_graph *g, int node, int first) {
    struct zt_sampler s;
    struct zt_err err = { 0 };
    for (int i = 0; i <= first + 1; i++)
        if (zt_in(g, node, i)->dtype != ZT_FLOAT)
            return false;
    if (!zt_sampler_read(g, node, first, &s, &err) || s.axes > AXES || s.pixels < 1 || s.pixels > INT32_MAX)
        return false;
    int64_t taps = 1, of_axis = s.mode == ZT_SAMPLE_NEAREST ? 1 : s.mode == ZT_SAMPLE_LINEAR ? 2 : ZT_SAMPLE_TAPS;
    for (int a = 0; a < s.axes; a++)
        taps *= of_axis;
    return taps <= MOST && s.n * s.places > 0 && s.channels > 0;
}

bool zt_grid_sample_cpu_supports(const struct zt_graph *g, int node) {
    return supports(g, node, 0);
}
bool zt_grid_sample_grad_cpu_supports(const struct zt_graph *g, int node) {
    return supports(g, node, 1);
}

static bool prepare(struct zt_prepare *p, int first, struct zt_err *err) {
    struct zt_sampler s;
    if (!zt_sampler_read(p->graph, p->node, first, &s, err))
        return false;
    for (int i = 0; i < p->graph->nodes[p->node]->in_count; i++)
        p->in_layout[i] = NULL;
    p->workspace_bytes = (size_t)(s.n * s.places) * sizeof(struct place);
    return true;
}

bool zt_grid_sample_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, 0, err);
}
bool zt_grid_sample_grad_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, 1, err);
}
void zt_grid_sample_cpu_release(void *state) {
    (void)state;
}
void zt_grid_sample_grad_cpu_release(void *state) {
    (void)state;
}

struct job {
    struct zt_sampler s;
    struct place *place; /* of all samples */
    const struct zt_view *grid;
    const float *x, *dy;
    float *y, *dx, *dgrid;
};

/* ---- places ---- */

/* A product of taps, one of each axis so far. */
struct product {
    int64_t pixel;
    double weight, slope[AXES];
};

/* Multiplies every product by every tap of axis `a` that is inside; returns how many there are. */
static int multiply_taps(const struct zt_sample_taps *taps, int a, const struct product *from, int count,
                         struct product *to) {
    int made = 0;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < taps->count; k++) {
            if (taps->offset[k] < 0)
                continue;
            struct product *p = &to[made++];
            p->pixel = from[i].pixel + taps->offset[k];
            p->weight = from[i].weight * taps->weight[k];
            for (int b = 0; b < AXES; b++)
                p->slope[b] = from[i].slope[b] * (a == b ? taps->slope[k] : taps->weight[k]);
        }
    return made;
}

static void join_taps(const struct zt_sampler *s, const struct zt_sample_taps *taps, struct place *to) {
    struct product list[2][MOST];
    int count = 1;
    list[0][0] = (struct product){ 0, 1, { 1, 1, 1 } };
    for (int a = 0; a < s->axes; a++)
        count = multiply_taps(&taps[a], a, list[a % 2], count, list[(a + 1) % 2]);
    const struct product *p = list[s->axes % 2];
    to->count = count;
    for (int i = 0; i < count; i++) {
        to->pixel[i] = (int32_t)p[i].pixel;
        to->weight[i] = (float)p[i].weight;
        for (int b = 0; b < s->axes; b++)
            to->slope[b][i] = (float)p[i].slope[b];
    }
}

static void find_places(void *arg, int64_t block) {
    const struct job *job = arg;
    int64_t end = zt_min_int((block + 1) * PLACES, job->s.n * job->s.places);
    for (int64_t at = block * PLACES; at < end; at++) {
        struct zt_sample_taps taps[ZT_MAX_RANK];
        zt_sampler_taps(&job->s, job->grid, at, taps);
        join_taps(&job->s, taps, &job->place[at]);
    }
}

static struct job start(const struct zt_call *call, const struct zt_sampler *s, int first) {
    struct job job = { .s = *s, .place = call->workspace, .grid = &call->in[first + 1], .x = call->in[first].data };
    zt_parallel_for(call->threads, (s->n * s->places + PLACES - 1) / PLACES, find_places, &job);
    return job;
}

/* ---- planes ---- */

static void sample_plane(void *arg, int64_t plane) {
    const struct job *job = arg;
    const struct place *place = job->place + plane / job->s.channels * job->s.places;
    const float *x = job->x + plane * job->s.pixels;
    float *y = job->y + plane * job->s.places;
    for (int64_t i = 0; i < job->s.places; i++) {
        float sum = 0;
        for (int32_t t = 0; t < place[i].count; t++)
            sum += place[i].weight[t] * x[place[i].pixel[t]];
        y[i] = sum;
    }
}

bool zt_grid_sample_cpu_run(const struct zt_call *call, struct zt_err *err) {
    struct zt_sampler s;
    if (!zt_sampler_read(call->graph, call->node->index, 0, &s, err))
        return false;
    struct job job = start(call, &s, 0);
    job.y = call->out[0].data;
    zt_parallel_for(call->threads, s.n * s.channels, sample_plane, &job);
    return true;
}

static void grad_plane(void *arg, int64_t plane) {
    const struct job *job = arg;
    const struct place *place = job->place + plane / job->s.channels * job->s.places;
    const float *dy = job->dy + plane * job->s.places;
    float *dx = job->dx + plane * job->s.pixels;
    memset(dx, 0, (size_t)job->s.pixels * sizeof *dx);
    for (int64_t i = 0; i < job->s.places; i++)
        for (int32_t t = 0; t < place[i].count; t++)
            dx[place[i].pixel[t]] += place[i].weight[t] * dy[i];
}

/* dgrid of some places; grid names the last axis first. */
static void grad_places(void *arg, int64_t block) {
    const struct job *job = arg;
    const struct zt_sampler *s = &job->s;
    const int64_t end = zt_min_int((block + 1) * PLACES, s->n * s->places);
    float q[PLACES][MOST] = { { 0 } };
    for (int64_t c = 0; c < s->channels; c++)
        for (int64_t at = block * PLACES; at < end; at++) {
            const struct place *place = &job->place[at];
            int64_t plane = at / s->places * s->channels + c;
            float dy = job->dy[plane * s->places + at % s->places];
            for (int32_t t = 0; t < place->count; t++)
                q[at % PLACES][t] += dy * job->x[plane * s->pixels + place->pixel[t]];
        }
    for (int64_t at = block * PLACES; at < end; at++)
        for (int a = 0; a < s->axes; a++) {
            float sum = 0;
            for (int32_t t = 0; t < job->place[at].count; t++)
                sum += job->place[at].slope[a][t] * q[at % PLACES][t];
            job->dgrid[(at + 1) * s->axes - 1 - a] = sum;
        }
}

bool zt_grid_sample_grad_cpu_run(const struct zt_call *call, struct zt_err *err) {
    struct zt_sampler s;
    if (!zt_sampler_read(call->graph, call->node->index, 1, &s, err))
        return false;
    struct job job = start(call, &s, 1);
    job.dy = call->in[0].data;
    job.dx = call->out[0].data;
    job.dgrid = call->out_count > 1 ? call->out[1].data : NULL;
    zt_parallel_for(call->threads, s.n * s.channels, grad_plane, &job);
    if (job.dgrid)
        zt_parallel_for(call->threads, (s.n * s.places + PLACES - 1) / PLACES, grad_places, &job);
    return true;
}
