/* Pools on blocked activations, a channel group of a sample at a time (simd_pool.h): oneDNN's max pool keeps four
 * bytes a position and takes three times as long, its average pool knows no dilation and no padding that only ceil_mode
 * reaches. The loops compute in float: planes of bfloat16 are converted in a buffer of the thread.
 *
 * workspace, for bfloat16: of each thread [ a plane of the input | of the results | of ReLU's results ] */
#include "ops/pool/pool_cpu.h"

#include "ops/pool/kernels.h"
#include "ops/cpu/blocked_layout.h"
#include "ops/elementwise/simd_elementwise.h"
#include "ops/pool/pool.h"
#include "ops/pool/simd_pool.h"

#include "base/align.h"
#include "device/threads.h"

#include <stdlib.h>
#include <string.h>

/* A global pool and the window over the whole plane that it is. */
static bool read_any(const struct zt_graph *g, int node, struct zt_pool *to, struct zt_err *err) {
    bool global = strncmp(g->nodes[node]->op_type, "Global", 6) == 0;
    return (global ? zt_pool_read_global : zt_pool_read)(g, node, to, err);
}

typedef bool read_pool(const struct zt_graph *g, int node, struct zt_pool *to, struct zt_err *err);

static bool fits(const struct zt_graph *g, int node, read_pool *read, struct zt_pool *p) {
    struct zt_err err = { 0 };
    return zt_dtype_in(zt_in(g, node, 0)->dtype, ZT_BIT(ZT_FLOAT) | ZT_BIT(ZT_BFLOAT16)) && read(g, node, p, &err) &&
           p->planes > 0 && p->window.in_elems > 0 && p->window.out_elems > 0 && p->window.in_elems <= INT32_MAX &&
           p->window.out_elems <= INT32_MAX && p->window.axes <= ZT_POOL_AXES;
}

struct zt_simd_pool zt_simd_pool_of(const struct zt_window *w) {
    struct zt_simd_pool p = { .pixel = 0 };
    for (int a = 0; a < ZT_POOL_AXES; a++) {
        int from = a + w->axes - ZT_POOL_AXES;
        p.in[a] = from < 0 ? 1 : w->in[from];
        p.out[a] = from < 0 ? 1 : w->out[from];
        p.kernel[a] = from < 0 ? 1 : w->kernel[from];
        p.stride[a] = from < 0 ? 1 : w->stride[from];
        p.dilation[a] = from < 0 ? 1 : w->dilation[from];
        p.pad[a] = from < 0 ? 0 : w->pad[from];
    }
    return p;
}

struct pool_state {
    struct zt_simd_pool pool;
    const struct zt_pool_kernels *kernels;
    struct zt_planes big, small; /* the input's planes, the results' */
    enum zt_dtype dtype;
    enum zt_simd_sum_kind kind;
    float *numbers; /* of `share`, NULL: nothing is divided */
    const float *share[ZT_POOL_AXES];
};

static void release(void *state) {
    struct pool_state *s = state;
    if (s)
        free(s->numbers);
    free(s);
}

/* Elements of a plane of `vector` channels. */
static int64_t plane_elems(const struct zt_planes *planes) {
    return planes->pixels * planes->vector;
}

static int64_t buffer_elems(const struct pool_state *s) {
    return zt_align_floats(plane_elems(&s->big)) + 2 * zt_align_floats(plane_elems(&s->small));
}

/* The layout of vectors of channels: of bfloat16 one in which a plane is one run of elements. */
static const struct zt_layout *layout_for(struct zt_arena *arena, const struct zt_layout *given, enum zt_dtype dtype,
                                          const struct zt_shape *shape) {
    const struct zt_layout *layout = zt_layout_vector(arena, given, dtype, shape);
    struct zt_planes planes;
    zt_planes_of(layout, shape, &planes);
    return dtype == ZT_FLOAT || planes.pixel == planes.vector ? layout : zt_layout_vector(arena, NULL, dtype, shape);
}

static struct pool_state *keep(struct zt_prepare *p, const struct zt_pool *pool, const struct zt_layout *big,
                               const struct zt_shape *big_shape, const struct zt_layout *small,
                               const struct zt_shape *small_shape) {
    struct pool_state *s = zt_calloc(1, sizeof *s);
    s->pool = zt_simd_pool_of(&pool->window);
    zt_planes_of(big, big_shape, &s->big);
    zt_planes_of(small, small_shape, &s->small);
    s->pool.pixel = s->big.pixel;
    s->kernels = zt_pool_kernels(s->big.vector);
    s->dtype = zt_in(p->graph, p->node, 0)->dtype;
    if (s->dtype != ZT_FLOAT)
        p->workspace_bytes = (size_t)(buffer_elems(s) * p->threads) * sizeof(float);
    p->state = s;
    return s;
}

static struct pool_state *prepare_forward(struct zt_prepare *p, const struct zt_pool *pool) {
    const struct zt_graph *g = p->graph;
    const struct zt_value *x = zt_in(g, p->node, 0);
    p->in_layout[0] = layout_for(g->arena, p->in_layout[0], x->dtype, &x->shape);
    for (int i = 0; i < g->nodes[p->node]->out_count; i++) {
        const struct zt_value *y = zt_out(g, p->node, i);
        p->out_layout[i] = y ? zt_layout_vector(g->arena, p->in_layout[0], y->dtype, &y->shape) : NULL;
    }
    return keep(p, pool, p->in_layout[0], &x->shape, p->out_layout[0], &zt_out(g, p->node, 0)->shape);
}

/* `given`: the layout that all inputs are to have. */
static struct pool_state *prepare_backward(struct zt_prepare *p, const struct zt_pool *pool,
                                           const struct zt_layout *given) {
    const struct zt_graph *g = p->graph;
    const struct zt_value *dy = zt_in(g, p->node, 0), *dx = zt_out(g, p->node, 0);
    const struct zt_layout *layout = layout_for(g->arena, given, dy->dtype, &dy->shape);
    for (int i = 0; i < g->nodes[p->node]->in_count; i++)
        p->in_layout[i] = zt_layout_vector(g->arena, layout, zt_in(g, p->node, i)->dtype, &dy->shape);
    p->out_layout[0] = zt_layout_vector(g->arena, p->in_layout[0], dx->dtype, &dx->shape);
    return keep(p, pool, p->out_layout[0], &dx->shape, p->in_layout[0], &dy->shape);
}

static void offsets(const struct pool_state *s, int64_t plane, int64_t *big, int64_t *small) {
    int64_t n = plane / s->big.groups, g = plane % s->big.groups;
    *big = n * s->big.sample + g * s->big.group;
    *small = n * s->small.sample + g * s->small.group;
}

static bool each_plane(const struct zt_call *call, void (*body)(void *, int64_t)) {
    const struct pool_state *s = call->state;
    zt_parallel_for(call->threads, s->big.samples * s->big.groups, body, (void *)call);
    return true;
}

/* ---- planes as floats ---- */

/* The buffer of the thread: a plane of the input, of the results, and of ReLU's. */
enum { OF_BIG, OF_SMALL, OF_RELU };
static float *buffer_of(const struct zt_call *call, int plane) {
    const struct pool_state *s = call->state;
    float *own = (float *)call->workspace + zt_parallel_thread() * buffer_elems(s);
    const int64_t big = zt_align_floats(plane_elems(&s->big)), small = zt_align_floats(plane_elems(&s->small));
    return own + (plane > OF_BIG ? big : 0) + (plane > OF_SMALL ? small : 0);
}

static int64_t elems_of(const struct pool_state *s, int plane) {
    return plane_elems(plane == OF_BIG ? &s->big : &s->small);
}

/* A plane that begins at element `at`, to be read. */
static const float *read_plane(const struct zt_call *call, int plane, const struct zt_view *from, int64_t at) {
    const struct pool_state *s = call->state;
    if (s->dtype == ZT_FLOAT)
        return (const float *)from->data + at;
    float *to = buffer_of(call, plane);
    zt_simd_load(s->dtype, (const uint16_t *)from->data + at, elems_of(s, plane), to);
    return to;
}

/* The place of a plane that is made of output 0, which put_plane() then writes. */
static float *place_of(const struct zt_call *call, int plane, int64_t at) {
    const struct pool_state *s = call->state;
    return s->dtype == ZT_FLOAT ? (float *)call->out[0].data + at : buffer_of(call, plane);
}
static void put_plane(const struct zt_call *call, int plane, int64_t at) {
    const struct pool_state *s = call->state;
    if (s->dtype != ZT_FLOAT)
        zt_simd_store(s->dtype, buffer_of(call, plane), elems_of(s, plane), (uint16_t *)call->out[0].data + at);
}

/* ---- max ---- */

bool zt_max_pool_cpu_supports(const struct zt_graph *g, int node) {
    const struct zt_value *second = zt_out(g, node, 1);
    struct zt_pool p;
    return fits(g, node, read_any, &p) && (!second || second->dtype == ZT_UINT8 || second->dtype == ZT_INT32);
}

bool zt_max_pool_grad_cpu_supports(const struct zt_graph *g, int node) {
    enum zt_dtype position = zt_in(g, node, 1)->dtype;
    struct zt_pool p;
    return fits(g, node, zt_pool_read_grad, &p) && (position == ZT_UINT8 || position == ZT_INT32);
}

bool zt_max_pool_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_value *position = zt_out(p->graph, p->node, 1);
    struct zt_pool pool;
    if (!read_any(p->graph, p->node, &pool, err))
        return false;
    prepare_forward(p, &pool)->pool.wide = position && position->dtype == ZT_INT32;
    return true;
}

/* dy, position[, result of the ReLU before the pool, pooled] -> dx */
bool zt_max_pool_grad_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    struct zt_pool pool;
    if (!zt_pool_read_grad(p->graph, p->node, &pool, err))
        return false;
    struct pool_state *s = prepare_backward(p, &pool, p->in_layout[1]); /* as the forward node chose */
    s->pool.wide = zt_in(p->graph, p->node, 1)->dtype == ZT_INT32;
    return true;
}

void zt_max_pool_cpu_release(void *state) {
    release(state);
}
void zt_max_pool_grad_cpu_release(void *state) {
    release(state);
}

static const void *position_at(const struct pool_state *s, const void *positions, int64_t element) {
    return (const char *)positions + (size_t)element * (s->pool.wide ? sizeof(int32_t) : 1);
}

static void max_plane(void *arg, int64_t plane) {
    const struct zt_call *call = arg;
    const struct pool_state *s = call->state;
    int64_t big, small;
    offsets(s, plane, &big, &small);
    void *position = call->out_count > 1 ? call->out[1].data : NULL;
    s->kernels->max(&s->pool, read_plane(call, OF_BIG, &call->in[0], big), place_of(call, OF_SMALL, small),
                    position ? (void *)position_at(s, position, small) : NULL);
    put_plane(call, OF_SMALL, small);
}

static void max_grad_plane(void *arg, int64_t plane) {
    const struct zt_call *call = arg;
    const struct pool_state *s = call->state;
    int64_t big, small;
    offsets(s, plane, &big, &small);
    const bool relu = call->in_count > 2 && call->in[2].data;
    s->kernels->max_grad(&s->pool, read_plane(call, OF_SMALL, &call->in[0], small),
                         relu ? read_plane(call, OF_RELU, &call->in[2], small) : NULL,
                         position_at(s, call->in[1].data, small), place_of(call, OF_BIG, big));
    put_plane(call, OF_BIG, big);
}

bool zt_max_pool_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    return each_plane(call, max_plane);
}

bool zt_max_pool_grad_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    return each_plane(call, max_grad_plane);
}

/* ---- averages, norms, and the way back of sums ---- */

static bool is_average(const struct zt_graph *g, int node) {
    return strstr(g->nodes[node]->op_type, "Average") != NULL;
}

/* Norms 1 and 2. */
bool zt_sum_pool_cpu_supports(const struct zt_graph *g, int node) {
    struct zt_pool p;
    int64_t norm = zt_attr_int(g->nodes[node], "p", 2);
    return fits(g, node, read_any, &p) && (is_average(g, node) || norm == 1 || norm == 2);
}

bool zt_sum_pool_grad_cpu_supports(const struct zt_graph *g, int node) {
    struct zt_pool p;
    return fits(g, node, zt_pool_read_grad, &p);
}

/* Returns the number of positions of the windows that count, axis by axis. */
static void set_shares(struct pool_state *s, const struct zt_pool *pool) {
    int64_t numbers = 0;
    for (int a = 0; a < ZT_POOL_AXES; a++)
        numbers += s->pool.out[a];
    float *at = s->numbers = zt_calloc((size_t)numbers, sizeof *at);
    for (int a = 0; a < ZT_POOL_AXES; a++) {
        int axis = a + pool->window.axes - ZT_POOL_AXES;
        s->share[a] = at;
        for (int64_t o = 0; o < s->pool.out[a]; o++)
            *at++ = axis < 0 ? 1 : (float)zt_pool_count(pool, axis, o);
    }
}

bool zt_sum_pool_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    struct zt_pool pool;
    if (!read_any(p->graph, p->node, &pool, err))
        return false;
    struct pool_state *s = prepare_forward(p, &pool);
    bool average = is_average(p->graph, p->node), one = zt_attr_int(p->graph->nodes[p->node], "p", 2) == 1;
    s->kind = average ? ZT_SIMD_SUM : one ? ZT_SIMD_SUM_ABS : ZT_SIMD_ROOT_OF_SQUARES;
    if (average)
        set_shares(s, &pool);
    return true;
}

bool zt_sum_pool_grad_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    struct zt_pool pool;
    if (!zt_pool_read_grad(p->graph, p->node, &pool, err))
        return false;
    struct pool_state *s = prepare_backward(p, &pool, p->in_layout[0]);
    if (is_average(p->graph, p->node))
        set_shares(s, &pool);
    return true;
}

void zt_sum_pool_cpu_release(void *state) {
    release(state);
}
void zt_sum_pool_grad_cpu_release(void *state) {
    release(state);
}

static void sum_plane(void *arg, int64_t plane) {
    const struct zt_call *call = arg;
    const struct pool_state *s = call->state;
    int64_t big, small;
    offsets(s, plane, &big, &small);
    s->kernels->sum(&s->pool, s->kind, s->numbers ? s->share : NULL, read_plane(call, OF_BIG, &call->in[0], big),
                    place_of(call, OF_SMALL, small));
    put_plane(call, OF_SMALL, small);
}

static void sum_grad_plane(void *arg, int64_t plane) {
    const struct zt_call *call = arg;
    const struct pool_state *s = call->state;
    int64_t big, small;
    offsets(s, plane, &big, &small);
    s->kernels->sum_grad(&s->pool, s->numbers ? s->share : NULL, read_plane(call, OF_SMALL, &call->in[0], small),
                         place_of(call, OF_BIG, big));
    put_plane(call, OF_BIG, big);
}

bool zt_sum_pool_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    return each_plane(call, sum_plane);
}

bool zt_sum_pool_grad_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    return each_plane(call, sum_grad_plane);
}
