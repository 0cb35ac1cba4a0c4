/* Pools on blocked activations. Max pooling is our own (lanes.h), a channel group of a sample at a time: oneDNN's keeps
 * four bytes a position and takes three times as long. Average pooling is oneDNN's, cut over the batch. */
#include "ops/chunks_cpu.h"
#include "ops/cpu.h"
#include "ops/pool.h"
#include "ops/lanes.h"

#include "device/threads.h"

#include <stdlib.h>
#include <string.h>

typedef bool read_pool(const struct zt_graph *g, int node, struct zt_pool *to, struct zt_err *err);

static bool fits(const struct zt_graph *g, int node, read_pool *read, struct zt_pool *p) {
    struct zt_err err = { 0 };
    return zt_in(g, node, 0)->dtype == ZT_FLOAT && read(g, node, p, &err) && p->planes > 0 && p->window.in_elems > 0 &&
           p->window.out_elems > 0 && p->window.in_elems <= INT32_MAX && p->window.out_elems <= INT32_MAX;
}

/* ---- max ---- */

struct max_state {
    struct zt_lane_pool pool;
    const struct zt_lane_kernels *kernels;
    struct zt_planes big, small; /* the input's planes, the results' */
};

/* Positions are bytes; planes have one or two axes. */
static bool max_fits(const struct zt_graph *g, int node, read_pool *read) {
    struct zt_pool p;
    return fits(g, node, read, &p) && p.window.axes <= 2 && p.window.kernel_elems <= 256;
}

bool zt_max_pool_cpu_supports(const struct zt_graph *g, int node) {
    const struct zt_value *second = zt_out(g, node, 1);
    return max_fits(g, node, zt_pool_read) && (!second || second->dtype == ZT_UINT8);
}

bool zt_max_pool_grad_cpu_supports(const struct zt_graph *g, int node) {
    return max_fits(g, node, zt_pool_read_grad) && zt_in(g, node, 1)->dtype == ZT_UINT8;
}

static struct zt_lane_pool lanes_of(const struct zt_window *w) {
    struct zt_lane_pool p = {
        .in = { 1, 1 }, .out = { 1, 1 }, .kernel = { 1, 1 }, .stride = { 1, 1 }, .dilation = { 1, 1 }
    };
    for (int a = 0; a < w->axes; a++) {
        int to = a + 2 - w->axes;
        p.in[to] = w->in[a];
        p.out[to] = w->out[a];
        p.kernel[to] = w->kernel[a];
        p.stride[to] = w->stride[a];
        p.dilation[to] = w->dilation[a];
        p.pad[to] = w->pad[a];
    }
    return p;
}

static void keep(struct zt_prepare *p, const struct zt_pool *pool, const struct zt_layout *big,
                 const struct zt_shape *big_shape, const struct zt_layout *small, const struct zt_shape *small_shape) {
    struct max_state *s = zt_calloc(1, sizeof *s);
    s->pool = lanes_of(&pool->window);
    zt_planes_of(big, big_shape, &s->big);
    zt_planes_of(small, small_shape, &s->small);
    s->pool.pixel = s->big.pixel;
    s->kernels = zt_lane_kernels(s->big.lanes);
    p->state = s;
}

bool zt_max_pool_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_graph *g = p->graph;
    const struct zt_value *x = zt_in(g, p->node, 0), *y = zt_out(g, p->node, 0), *position = zt_out(g, p->node, 1);
    struct zt_pool pool;
    if (!zt_pool_read(g, p->node, &pool, err))
        return false;
    const struct zt_layout *given = p->in_layout[0];
    p->in_layout[0] = zt_layout_lanes(g->arena, given, x->dtype, &x->shape);
    p->out_layout[0] = zt_layout_lanes(g->arena, p->in_layout[0], y->dtype, &y->shape);
    if (position)
        p->out_layout[1] = zt_layout_lanes(g->arena, p->in_layout[0], position->dtype, &position->shape);
    keep(p, &pool, p->in_layout[0], &x->shape, p->out_layout[0], &y->shape);
    return true;
}

/* dy, position[, result of the ReLU before the pool, pooled] -> dx */
bool zt_max_pool_grad_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_graph *g = p->graph;
    const struct zt_value *dy = zt_in(g, p->node, 0), *dx = zt_out(g, p->node, 0);
    struct zt_pool pool;
    if (!zt_pool_read_grad(g, p->node, &pool, err))
        return false;
    const struct zt_layout *given = p->in_layout[1]; /* as the forward node chose */
    for (int i = 0; i < g->nodes[p->node].in_count; i++)
        p->in_layout[i] = zt_layout_lanes(g->arena, given, zt_in(g, p->node, i)->dtype, &dy->shape);
    p->out_layout[0] = zt_layout_lanes(g->arena, p->in_layout[1], dx->dtype, &dx->shape);
    keep(p, &pool, p->out_layout[0], &dx->shape, p->in_layout[0], &dy->shape);
    return true;
}

void zt_max_pool_cpu_release(void *state) {
    free(state);
}
void zt_max_pool_grad_cpu_release(void *state) {
    free(state);
}

static void offsets(const struct max_state *s, int64_t plane, int64_t *big, int64_t *small) {
    int64_t n = plane / s->big.groups, g = plane % s->big.groups;
    *big = n * s->big.sample + g * s->big.group;
    *small = n * s->small.sample + g * s->small.group;
}

static void max_plane(void *arg, int64_t plane) {
    const struct zt_call *call = arg;
    const struct max_state *s = call->state;
    int64_t big, small;
    offsets(s, plane, &big, &small);
    uint8_t *position = call->out_count > 1 ? call->out[1].data : NULL;
    s->kernels->max(&s->pool, (const float *)call->in[0].data + big, (float *)call->out[0].data + small,
                    position ? position + small : NULL);
}

static void max_grad_plane(void *arg, int64_t plane) {
    const struct zt_call *call = arg;
    const struct max_state *s = call->state;
    int64_t big, small;
    offsets(s, plane, &big, &small);
    const float *relu = call->in_count > 2 ? call->in[2].data : NULL;
    s->kernels->max_grad(&s->pool, (const float *)call->in[0].data + small, relu ? relu + small : NULL,
                         (const uint8_t *)call->in[1].data + small, (float *)call->out[0].data + big);
}

static bool each_plane(const struct zt_call *call, void (*body)(void *, int64_t)) {
    const struct max_state *s = call->state;
    zt_parallel_for(call->threads, s->big.samples * s->big.groups, body, (void *)call);
    return true;
}

bool zt_max_pool_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    return each_plane(call, max_plane);
}

bool zt_max_pool_grad_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    return each_plane(call, max_grad_plane);
}

/* ---- average ---- */

static bool read_average(const struct zt_graph *g, int node, struct zt_pool *to, struct zt_err *err) {
    bool global = strncmp(g->nodes[node].op_type, "Global", 6) == 0;
    return (global ? zt_pool_read_global : zt_pool_read)(g, node, to, err);
}

/* oneDNN divides by what lies inside the plane or its pads; where ceil_mode made windows reach beyond the pads,
 * counting them is ours alone. */
static bool average_fits(const struct zt_graph *g, int node, read_pool *read) {
    struct zt_pool p;
    if (!fits(g, node, read, &p) || p.window.axes > 3)
        return false;
    const struct zt_window *w = &p.window;
    for (int a = 0; a < w->axes; a++)
        if (w->dilation[a] != 1 || w->pad[a] >= w->kernel[a] || w->pad_end[a] >= w->kernel[a] ||
            (w->out[a] - 1) * w->stride[a] + w->kernel[a] > w->in[a] + w->pad[a] + w->pad_end[a])
            return false;
    return true;
}

bool zt_average_pool_cpu_supports(const struct zt_graph *g, int node) {
    return average_fits(g, node, read_average);
}
bool zt_average_pool_grad_cpu_supports(const struct zt_graph *g, int node) {
    return average_fits(g, node, zt_pool_read_grad);
}

/* Slot 0 is the big side: x or dx. */
static bool prepare_average(struct zt_prepare *p, int kind, const struct zt_pool *pool, const struct zt_desc *big,
                            const struct zt_desc *small, struct zt_err *err) {
    static const int axis[ZT_DNNL_SLOTS] = { 0, 0, -1, -1, -1 };
    const struct zt_window *w = &pool->window;
    struct zt_dnnl_spec s = {
        .kind = kind, .slot = { *big, *small }, .axes = w->axes, .count_pad = pool->count_include_pad
    };
    for (int a = 0; a < w->axes; a++) {
        s.kernel[a] = w->kernel[a];
        s.stride[a] = w->stride[a];
        s.dilation[a] = 1;
        s.pad[a] = w->pad[a];
        s.pad_end[a] = (w->out[a] - 1) * w->stride[a] + w->kernel[a] - w->in[a] - w->pad[a];
    }
    struct zt_chunks *chunks = zt_calloc(1, sizeof *chunks);
    int64_t n = big->dim[0];
    if (!zt_chunks_make(chunks, &s, axis, n, zt_chunk_of(n, ZT_CHUNKS, 1), p->threads, err)) {
        free(chunks);
        return zt_err_within(err, 0, "%s", p->graph->nodes[p->node].name);
    }
    p->state = chunks;
    p->workspace_bytes = zt_chunks_scratch(chunks, p->threads);
    return true;
}

bool zt_average_pool_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_value *x = zt_in(p->graph, p->node, 0), *y = zt_out(p->graph, p->node, 0);
    struct zt_pool pool;
    if (!read_average(p->graph, p->node, &pool, err))
        return false;
    p->in_layout[0] = zt_layout_lanes(p->graph->arena, p->in_layout[0], x->dtype, &x->shape);
    p->out_layout[0] = zt_layout_lanes(p->graph->arena, p->in_layout[0], y->dtype, &y->shape);
    struct zt_desc big = zt_desc_of(p->in_layout[0], x->dtype, &x->shape);
    struct zt_desc small = zt_desc_of(p->out_layout[0], y->dtype, &y->shape);
    return prepare_average(p, ZT_DNNL_AVERAGE, &pool, &big, &small, err);
}

bool zt_average_pool_grad_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_value *dy = zt_in(p->graph, p->node, 0), *dx = zt_out(p->graph, p->node, 0);
    struct zt_pool pool;
    if (!zt_pool_read_grad(p->graph, p->node, &pool, err))
        return false;
    p->in_layout[0] = zt_layout_lanes(p->graph->arena, p->in_layout[0], dy->dtype, &dy->shape);
    p->out_layout[0] = zt_layout_lanes(p->graph->arena, p->in_layout[0], dx->dtype, &dx->shape);
    struct zt_desc big = zt_desc_of(p->out_layout[0], dx->dtype, &dx->shape);
    struct zt_desc small = zt_desc_of(p->in_layout[0], dy->dtype, &dy->shape);
    return prepare_average(p, ZT_DNNL_AVERAGE_GRAD, &pool, &big, &small, err);
}

static void release_average(void *state) {
    if (state)
        zt_chunks_finish(state);
    free(state);
}
void zt_average_pool_cpu_release(void *state) {
    release_average(state);
}
void zt_average_pool_grad_cpu_release(void *state) {
    release_average(state);
}

bool zt_average_pool_cpu_run(const struct zt_call *call, struct zt_err *err) {
    void *data[ZT_DNNL_SLOTS] = { call->in[0].data, call->out[0].data };
    return zt_chunks_run(call->state, call->threads, data, call->workspace, NULL, err);
}

bool zt_average_pool_grad_cpu_run(const struct zt_call *call, struct zt_err *err) {
    void *data[ZT_DNNL_SLOTS] = { call->out[0].data, call->in[0].data };
    return zt_chunks_run(call->state, call->threads, data, call->workspace, NULL, err);
}
