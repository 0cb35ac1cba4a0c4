/* Resize and its gradient on planes of channels side by side. Every axis is a linear map (resize_map.c), forward as it
 * is, backward transposed: a row of the result is a mix of rows of the input, sampled along the last axis.
 *
 *     rows that the outer axes name  --mix-->  one row of the input's length  --sample-->  a row of the result
 *
 * No element is written twice, so results do not depend on the number of threads. */
#include "ops/resample/kernels.h"
#include "ops/resample/simd_resize.h"
#include "ops/cpu/blocked_layout.h"
#include "ops/resample/resize.h"

#include "base/align.h"
#include "device/threads.h"

#include <stdlib.h>
#include <string.h>

enum { AXES = 3, ROWS = 8 }; /* spatial axes; rows of the result in a block */

struct resize_state {
    int axes;
    int64_t from[AXES], to[AXES];
    struct zt_simd_axis map[AXES];
    int most_taps; /* rows that one row mixes */
    void *numbers; /* of the maps */
    float fill;
    struct zt_planes in, out;
    const struct zt_resize_kernels *kernels;
    size_t row_bytes, scratch_bytes; /* of a thread: a mixed row, then where its rows are and their weights */
};

/* ---- which nodes ---- */

static bool supports(const struct zt_graph *g, int node) {
    struct zt_resize r;
    struct zt_err err = { 0 };
    if (zt_in(g, node, 0)->dtype != ZT_FLOAT || !zt_resize_read(g, node, &r, &err) || r.x.rank < 3 || r.x.rank > 5 ||
        r.resized[0] || r.resized[1] || zt_shape_count(&r.x) == 0 || zt_shape_count(&r.y) == 0)
        return false;
    for (int k = 2; k < r.x.rank; k++)
        if (r.x.dim[k] > INT32_MAX / 64 || r.y.dim[k] > INT32_MAX / 64)
            return false;
    return true;
}

bool zt_resize_cpu_supports(const struct zt_graph *g, int node) {
    return supports(g, node);
}
bool zt_resize_grad_cpu_supports(const struct zt_graph *g, int node) {
    return supports(g, node);
}

/* ---- preparing ---- */

void zt_resize_cpu_release(void *state) {
    struct resize_state *s = state;
    if (s)
        free(s->numbers);
    free(s);
}
void zt_resize_grad_cpu_release(void *state) {
    zt_resize_cpu_release(state);
}

/* The map of an axis that is resized, in double. */
static bool make_map(const struct zt_resize *r, int axis, bool transposed, struct zt_resize_map *to,
                     struct zt_err *err) {
    struct zt_resize_map forward;
    if (!zt_resize_map_init(r, axis, &forward, err))
        return false;
    if (!transposed) {
        *to = forward;
        return true;
    }
    bool ok = zt_resize_map_transpose(&forward, r->y.dim[axis], r->x.dim[axis], to, err);
    zt_resize_map_finish(&forward);
    return ok;
}

static int64_t entries_of(const struct zt_resize_map *m, int64_t size) {
    return m->block ? m->begin[size] : size;
}

/* Writes the map to `at` in the kernels' types; returns what follows it. */
static char *keep_map(const struct zt_resize_map *m, int64_t size, char *at, struct zt_simd_axis *to) {
    int64_t entries = entries_of(m, size);
    int32_t *begin = (int32_t *)at, *index = begin + size + 1;
    float *weight = (float *)(index + entries);
    for (int64_t o = 0; o <= size; o++)
        begin[o] = (int32_t)(m->block ? m->begin[o] : o);
    for (int64_t t = 0; t < entries; t++) {
        index[t] = (int32_t)(m->block ? m->index[t] : t);
        weight[t] = m->block ? (float)m->weight[t] : 1;
    }
    *to = (struct zt_simd_axis){ .size = size, .begin = begin, .index = index, .weight = weight };
    return (char *)(weight + entries);
}

static bool make_maps(struct resize_state *s, const struct zt_resize *r, bool transposed, struct zt_err *err) {
    struct zt_resize_map maps[AXES] = { 0 };
    size_t bytes = 0;
    bool ok = true;
    for (int a = 0; ok && a < s->axes; a++) {
        ok = !r->resized[a + 2] || make_map(r, a + 2, transposed, &maps[a], err);
        if (ok && entries_of(&maps[a], s->to[a]) > INT32_MAX)
            ok = zt_fail(err, ZT_EXIT_MODEL, "an axis of %lld elements is too long to be resized", (long long)s->to[a]);
        bytes += ok ? (size_t)(s->to[a] + 1 + 2 * entries_of(&maps[a], s->to[a])) * sizeof(float) : 0;
    }
    char *at = s->numbers = ok ? zt_calloc(1, bytes) : NULL;
    for (int a = 0; ok && a < s->axes; a++)
        at = keep_map(&maps[a], s->to[a], at, &s->map[a]);
    for (int a = 0; a < s->axes; a++)
        zt_resize_map_finish(&maps[a]);
    return ok;
}

/* The most rows that any row of the result mixes. */
static bool count_taps(struct resize_state *s, struct zt_err *err) {
    int64_t all = 1;
    for (int a = 0; a + 1 < s->axes; a++) {
        int64_t most = 1;
        for (int64_t o = 0; o < s->to[a]; o++) {
            int64_t count = s->map[a].begin[o + 1] - s->map[a].begin[o];
            most = count > most ? count : most;
        }
        all *= most;
    }
    s->most_taps = (int)all;
    return all <= INT32_MAX / 64 || zt_fail(err, ZT_EXIT_MODEL, "a row of %lld rows is too much", (long long)all);
}

static bool prepare(struct zt_prepare *p, bool transposed, struct zt_err *err) {
    struct zt_graph *g = p->graph;
    const struct zt_value *x = zt_in(g, p->node, 0), *y = zt_out(g, p->node, 0);
    struct zt_resize r;
    if (!zt_resize_read(g, p->node, &r, err))
        return false;
    struct resize_state *s = zt_calloc(1, sizeof *s);
    s->axes = r.x.rank - 2;
    memcpy(s->from, (transposed ? r.y : r.x).dim + 2, sizeof s->from);
    memcpy(s->to, (transposed ? r.x : r.y).dim + 2, sizeof s->to);
    s->fill = transposed ? 0 : (float)r.extrapolation;
    if (!make_maps(s, &r, transposed, err) || !count_taps(s, err)) {
        zt_resize_cpu_release(s);
        return zt_err_within(err, 0, "%s", g->nodes[p->node]->name);
    }
    p->in_layout[0] = zt_layout_vector(g->arena, p->in_layout[0], x->dtype, &x->shape);
    p->out_layout[0] = zt_layout_vector(g->arena, p->in_layout[0], y->dtype, &y->shape);
    for (int i = 1; i < g->nodes[p->node]->in_count; i++)
        p->in_layout[i] = NULL;
    zt_planes_of(p->in_layout[0], &x->shape, &s->in);
    zt_planes_of(p->out_layout[0], &y->shape, &s->out);
    s->kernels = zt_resize_kernels(s->in.vector);
    s->row_bytes = (size_t)(s->from[s->axes - 1] * s->in.vector) * sizeof(float);
    s->scratch_bytes = s->row_bytes + (size_t)s->most_taps * (sizeof(float *) + sizeof(float));
    s->scratch_bytes = zt_align_64(s->scratch_bytes);
    p->workspace_bytes = s->scratch_bytes * (size_t)(p->threads > 0 ? p->threads : 1);
    p->state = s;
    return true;
}

bool zt_resize_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, false, err);
}
bool zt_resize_grad_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, true, err);
}

/* ---- running ---- */

struct job {
    const struct resize_state *s;
    const float *x;
    float *y;
    char *scratch;
    int64_t rows, blocks; /* of a plane of the result */
};

/* The rows that row `i` of a plane mixes, and their weights; returns how many. */
static int find_rows(const struct resize_state *s, const float *plane, int64_t i, const float **row, float *weight) {
    int64_t place[AXES], step[AXES];
    int last = s->axes - 1, count = 1;
    step[last] = s->in.pixel;
    for (int a = last; a > 0; a--)
        step[a - 1] = step[a] * s->from[a];
    for (int a = last - 1; a >= 0; i /= s->to[a--])
        place[a] = i % s->to[a];
    row[0] = plane;
    weight[0] = 1;
    for (int a = 0; a < last; a++) {
        const struct zt_simd_axis *m = &s->map[a];
        int32_t first = m->begin[place[a]];
        int taps = m->begin[place[a] + 1] - first;
        for (int c = count - 1; c >= 0; c--) /* from the back, where nothing is overwritten that is still read */
            for (int t = taps - 1; t >= 0; t--) {
                row[c * taps + t] = row[c] + m->index[first + t] * step[a];
                weight[c * taps + t] = weight[c] * m->weight[first + t];
            }
        count *= taps;
    }
    return count;
}

static void run_row(const struct job *job, const float *plane, int64_t i, const float *outside, float *to) {
    const struct resize_state *s = job->s;
    const int last = s->axes - 1;
    char *scratch = job->scratch + (size_t)zt_parallel_thread() * s->scratch_bytes;
    float *mixed = (float *)scratch;
    const float **row = (const float **)(scratch + s->row_bytes);
    float *weight = (float *)(row + s->most_taps);
    int count = find_rows(s, plane, i, row, weight);
    if (count == 1 && weight[0] == 1) {
        s->kernels->sample(&s->map[last], s->in.pixel, row[0], s->out.pixel, outside, to);
    } else if (count > 0) {
        s->kernels->mix(s->from[last], s->in.pixel, count, row, weight, mixed);
        s->kernels->sample(&s->map[last], s->in.vector, mixed, s->out.pixel, outside, to);
    } else {
        for (int64_t o = 0; o < s->to[last]; o++)
            memcpy(to + o * s->out.pixel, outside, (size_t)s->out.vector * sizeof *to);
    }
}

static void run_block(void *arg, int64_t block) {
    const struct job *job = arg;
    const struct resize_state *s = job->s;
    int64_t plane = block / job->blocks, first = block % job->blocks * ROWS;
    int64_t n = plane / s->in.groups, g = plane % s->in.groups;
    float outside[16] = { 0 };
    for (int i = 0; i < s->in.vector && g * s->in.vector + i < s->in.channels; i++) /* what pads a block stays 0 */
        outside[i] = s->fill;
    const float *x = job->x + n * s->in.sample + g * s->in.group;
    float *y = job->y + n * s->out.sample + g * s->out.group;
    for (int64_t i = first; i < first + ROWS && i < job->rows; i++)
        run_row(job, x, i, outside, y + i * s->to[s->axes - 1] * s->out.pixel);
}

static bool run(const struct zt_call *call) {
    const struct resize_state *s = call->state;
    struct job job = { s, call->in[0].data, call->out[0].data, call->workspace, 1, 0 };
    for (int a = 0; a + 1 < s->axes; a++)
        job.rows *= s->to[a];
    job.blocks = (job.rows + ROWS - 1) / ROWS;
    zt_parallel_for(call->threads, s->in.samples * s->in.groups * job.blocks, run_block, &job);
    return true;
}

bool zt_resize_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    return run(call);
}
bool zt_resize_grad_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    return run(call);
}
