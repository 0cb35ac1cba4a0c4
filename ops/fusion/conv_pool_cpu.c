/* Convolution, ReLU and max pool, a few samples at a time: the tensors between them stay in a buffer of the thread,
 * which fits the second cache.
 *
 *     forward    y = conv(x)  ->  p, position = max pool of y  ->  ReLU of p
 *     backward   dy = dp at `position` where p > 0  ->  partial dw, db  and  dx
 *
 * Forwards by Winograd's filtering a 2 x 2 pool takes place in registers; before other pools all of y is made first,
 *
 * workspace: [ y | of bfloat16: of each thread a plane of y and of p in float | what the filtering needs ]
 *
 * else workspace: [ partial sums (backward) | buffer of each thread | scratch of each thread ] */
#include "ops/elementwise/activation_cpu.h"
#include "ops/elementwise/simd_elementwise.h"
#include "ops/conv/conv_cpu.h"
#include "ops/cpu/winograd/winograd.h"
#include "ops/fusion/conv_pool.h"
#include "ops/fusion/few_channels_cpu.h"
#include "ops/fusion/few_channels_grad_cpu.h"
#include "ops/pool/pool_cpu.h"
#include "ops/fusion/kernels.h"
#include "ops/fusion/sparse_conv_cpu.h"
#include "ops/pool/simd_pool.h"

#include "base/align.h"
#include "device/threads.h"

#include <stdlib.h>

struct state {
    /* our own kernels, in place of the members below but `small`; NULL: not used */
    const struct zt_winograd *winograd; /* forward, as few */
    bool is_whole;                      /* the filtering gives all of y */
    const struct zt_few_channels *few;
    const struct zt_few_channels_grad *few_grad; /* backward, as sparse */
    const struct zt_sparse_conv *sparse;
    struct zt_planes places; /* of x and dx, for our own kernels */

    struct zt_batch_blocks main;  /* forward: the convolution; backward: by weights */
    struct zt_batch_blocks input; /* backward by data; whole NULL: not wanted */
    struct zt_conv_partial partial;
    struct zt_conv_direct direct; /* forward */
    struct zt_activation relu;    /* forward */
    struct zt_simd_pool pool;
    const struct zt_pool_kernels *kernels;
    struct zt_planes big, small; /* of the convolution's result, of the pool's */
    int64_t samples;             /* of a whole block */
    size_t buffer_bytes, scratch_bytes;
    size_t pooled_bytes; /* forward, of bfloat16: a plane of results in float */
};

static bool supports(const struct zt_graph *g, int node, struct zt_conv_pool *c) {
    struct zt_err err = { 0 };
    return zt_conv_types(g, node) && zt_conv_pool_read(g, node, c, &err) && zt_conv_fits(&c->conv) &&
           c->pool.out_elems > 0;
}
bool zt_conv_pool_cpu_supports(const struct zt_graph *g, int node) {
    struct zt_conv_pool c;
    return supports(g, node, &c) &&
           (zt_in(g, node, 0)->dtype == ZT_FLOAT || (c.conv.groups == 1 && zt_conv_safe_in_half(&c.conv.window)));
}
bool zt_conv_pool_grad_cpu_supports(const struct zt_graph *g, int node) {
    struct zt_conv_pool c;
    return supports(g, node, &c) && (!zt_out(g, node, 0) || zt_out(g, node, 0)->dtype == ZT_FLOAT) &&
           (zt_in(g, node, 0)->dtype == ZT_FLOAT || zt_sparse_conv_share(&c) < 1);
}

/* False where Winograd's filtering does not fit. Results that a pool of pairs drops are not computed. */
static bool winograd_wish(const struct zt_conv_pool *c, enum zt_dtype dtype, struct zt_winograd_wish *to) {
    const bool pairs = zt_conv_pool_pairs(&c->pool);
    *to = (struct zt_winograd_wish){ .rows = pairs ? 2 * c->pool.out[0] : c->pool.in[0],
                                     .columns = pairs ? 2 * c->pool.out[1] : c->pool.in[1] };
    return zt_conv_winograd(&c->conv, dtype, &to->conv);
}

double zt_conv_pool_cpu_share(const struct zt_graph *g, int node) {
    struct zt_conv_pool c;
    struct zt_winograd_wish wish;
    struct zt_err err = { 0 };
    if (!zt_conv_pool_read(g, node, &c, &err) || !winograd_wish(&c, zt_in(g, node, 0)->dtype, &wish))
        return 1;
    const double share = zt_winograd_share(&wish);
    return share < 1 ? share * (double)(wish.rows * wish.columns) / (double)c.pool.in_elems : 1;
}
double zt_conv_pool_grad_cpu_share(const struct zt_graph *g, int node) {
    struct zt_conv_pool c;
    struct zt_err err = { 0 };
    return zt_conv_pool_read(g, node, &c, &err) ? zt_sparse_conv_share(&c) : 1;
}

static void release(void *state) {
    struct state *s = state;
    if (!s)
        return;
    zt_batch_blocks_finish(&s->main);
    zt_batch_blocks_finish(&s->input);
    zt_conv_partial_finish(&s->partial);
    free(s);
}
void zt_conv_pool_cpu_release(void *state) {
    release(state);
}
void zt_conv_pool_grad_cpu_release(void *state) {
    release(state);
}

/* Geometry of the pool for a convolution's result in `layout`. */
static void set_pool(struct state *s, const struct zt_conv_pool *c, const struct zt_layout *layout) {
    struct zt_shape y = { 4, { s->samples, c->conv.m, c->pool.in[0], c->pool.in[1] } };
    struct zt_shape p = { 4, { c->conv.n, c->conv.m, c->pool.out[0], c->pool.out[1] } };
    s->pool = zt_simd_pool_of(&c->pool);
    zt_planes_of(layout, &y, &s->big);
    zt_planes_of(layout, &p, &s->small);
    s->pool.pixel = s->big.pixel;
    s->kernels = zt_pool_kernels(s->big.vector);
    s->buffer_bytes = (size_t)zt_align_64(s->samples * s->big.sample * (int64_t)sizeof(float));
}

static struct zt_desc in_order_of(const struct zt_layout *layout, struct zt_desc desc) {
    desc.order = (enum zt_desc_order)zt_layout_order(layout, &desc.block);
    return desc;
}

/* Samples and planes of block `block`. */
static int64_t planes_in(const struct state *s, int64_t block) {
    int64_t rest = s->small.samples - block * s->samples;
    return (rest < s->samples ? rest : s->samples) * s->small.groups;
}

/* Elements from the start to plane `plane` of the block: in the buffer, and in tensors of the pool's shape. */
static void place(const struct state *s, int64_t block, int64_t plane, int64_t *big, int64_t *small) {
    int64_t n = plane / s->small.groups, g = plane % s->small.groups;
    *big = n * s->big.sample + g * s->big.group;
    *small = (block * s->samples + n) * s->small.sample + g * s->small.group;
}

/* ---- forward ---- */

static size_t whole_bytes(const struct state *s, enum zt_dtype dtype) {
    return (size_t)zt_align_64(s->big.samples * s->big.sample * (int64_t)zt_dtype_bytes(dtype));
}

/* The result of the filtering as a tensor of the workspace; buffers of planes in float where it is bfloat16. */
static void take_whole(struct zt_prepare *p, const struct zt_conv_pool *c, struct state *s) {
    const enum zt_dtype dtype = zt_out(p->graph, p->node, 0)->dtype;
    s->is_whole = true;
    zt_activation_of(p->graph->nodes[p->node], &zt_op_relu, &s->relu);
    s->samples = c->conv.n;
    set_pool(s, c, p->out_layout[0]);
    s->buffer_bytes = s->pooled_bytes = 0;
    if (dtype != ZT_FLOAT) {
        s->buffer_bytes = (size_t)zt_align_64(s->big.pixels * s->big.vector * (int64_t)sizeof(float));
        s->pooled_bytes = (size_t)zt_align_64(s->small.pixels * s->small.vector * (int64_t)sizeof(float));
    }
    p->workspace_bytes += whole_bytes(s, dtype) + (s->buffer_bytes + s->pooled_bytes) * (size_t)p->threads;
}

/* Prepares Winograd's filtering, which pools a tile of pairs in registers; false where it does not take the node. */
static bool take_winograd(struct zt_prepare *p, const struct zt_conv_pool *c) {
    const struct zt_graph *g = p->graph;
    const struct zt_value *x = zt_in(g, p->node, 0), *y = zt_out(g, p->node, 0);
    struct zt_winograd_wish wish;
    const struct zt_winograd *winograd = winograd_wish(c, x->dtype, &wish) ? zt_winograd_make(g->arena, &wish) : NULL;
    if (!winograd)
        return false;
    struct state *s = zt_calloc(1, sizeof *s);
    s->winograd = winograd;
    p->in_layout[0] = zt_winograd_layout(g->arena, p->in_layout[0], x->dtype, &x->shape);
    p->in_layout[1] = NULL;
    p->out_layout[0] = zt_winograd_layout(g->arena, NULL, y->dtype, &y->shape);
    p->out_layout[1] = zt_layout_vector(g->arena, p->out_layout[0], ZT_UINT8, &y->shape);
    zt_planes_of(p->in_layout[0], &x->shape, &s->places);
    zt_planes_of(p->out_layout[0], &y->shape, &s->small);
    p->state = s;
    p->workspace_bytes = zt_winograd_bytes(winograd, p->threads);
    if (!zt_conv_pool_pairs(&c->pool))
        take_whole(p, c, s);
    return true;
}

/* Prepares the kernels of few input channels; false where they do not take the node. */
static bool take_few(struct zt_prepare *p, const struct zt_conv_pool *c) {
    const struct zt_graph *g = p->graph;
    const struct zt_value *y = zt_out(g, p->node, 0);
    const struct zt_layout *layout = zt_layout_vector(g->arena, NULL, ZT_FLOAT, &y->shape);
    struct zt_planes places;
    zt_planes_of(layout, &y->shape, &places);
    const struct zt_few_channels *few =
        y->dtype == ZT_FLOAT ? zt_few_channels_make(g->arena, c, places.groups * places.vector) : NULL;
    if (!few || places.vector % zt_few_channels_vector(few) != 0)
        return false;
    struct state *s = zt_calloc(1, sizeof *s);
    s->few = few;
    s->small = places;
    p->in_layout[0] = p->in_layout[1] = NULL;
    p->out_layout[0] = layout;
    p->out_layout[1] = zt_layout_vector(g->arena, layout, ZT_UINT8, &y->shape);
    p->state = s;
    p->workspace_bytes = zt_few_channels_bytes(few, p->threads);
    return true;
}

bool zt_conv_pool_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_graph *g = p->graph;
    const struct zt_value *x = zt_in(g, p->node, 0), *y = zt_out(g, p->node, 0);
    struct zt_conv_pool c;
    if (!zt_conv_pool_read(g, p->node, &c, err))
        return false;
    if (take_winograd(p, &c) || take_few(p, &c))
        return true;
    struct state *s = zt_calloc(1, sizeof *s);
    struct zt_dnnl_spec spec = zt_conv_spec(&c.conv, x->dtype, zt_in(g, p->node, 2) != NULL);
    const struct zt_layout *blocked = zt_layout_vector(g->arena, NULL, ZT_FLOAT, &y->shape);
    spec.kind = ZT_DNNL_CONV;
    spec.slot[ZT_CONV_Y] = in_order_of(blocked, spec.slot[ZT_CONV_Y]);
    spec.slot[ZT_CONV_Y].dtype = ZT_FLOAT;
    s->samples = zt_batch_block_for_cache(c.conv.n, zt_conv_result_bytes(&c.conv, ZT_CONV_TO_Y));
    const struct zt_batch_cut cut = zt_conv_cut(&c.conv, s->samples);
    if (!zt_batch_blocks_make(&s->main, &spec, &cut, p->threads, err)) {
        release(s);
        return zt_err_within(err, 0, "%s", g->nodes[p->node]->name);
    }
    zt_conv_direct_take(&s->direct, &s->main, &c.conv, s->samples);
    set_pool(s, &c, blocked);
    zt_activation_of(g->nodes[p->node], &zt_op_relu, &s->relu);
    p->state = s;
    p->in_layout[0] = zt_conv_layout(g->arena, &s->main, ZT_CONV_X, &x->shape);
    p->in_layout[1] = zt_conv_layout(g->arena, &s->main, ZT_CONV_W, &zt_in(g, p->node, 1)->shape);
    p->out_layout[0] = zt_layout_vector(g->arena, blocked, y->dtype, &y->shape);
    p->out_layout[1] = zt_layout_vector(g->arena, blocked, ZT_UINT8, &y->shape);
    if (y->dtype != ZT_FLOAT)
        s->pooled_bytes = (size_t)zt_align_64(s->small.pixels * s->small.vector * (int64_t)sizeof(float));
    p->workspace_bytes =
        (s->buffer_bytes + s->pooled_bytes) * (size_t)p->threads + zt_batch_blocks_scratch(&s->main, p->threads);
    return true;
}

static void pool_block(void *arg, int64_t block, void *const *data) {
    const struct zt_call *call = arg;
    const struct state *s = call->state;
    const enum zt_dtype dtype = call->out[0].dtype;
    char *pooled = (char *)call->workspace + s->buffer_bytes * (size_t)call->threads +
                   s->pooled_bytes * (size_t)zt_parallel_thread();
    uint8_t *position = call->out[1].data;
    const int64_t planes = planes_in(s, block), elems = s->small.pixels * s->small.vector;
    for (int64_t i = 0, big, small; i < planes; i++) {
        place(s, block, i, &big, &small);
        char *to = (char *)call->out[0].data + (size_t)small * zt_dtype_bytes(dtype);
        float *made = (float *)(dtype == ZT_FLOAT ? to : pooled);
        s->kernels->max(&s->pool, (const float *)data[ZT_CONV_Y] + big, made, position + small);
        zt_activation_run(&s->relu, ZT_FLOAT, elems, made, made);
        if (dtype != ZT_FLOAT)
            zt_simd_store(dtype, made, elems, to);
    }
}

static void direct_block(void *arg, int64_t block, void *const *data) {
    const struct zt_call *call = arg;
    zt_conv_direct_run(&((const struct state *)call->state)->direct, block, data);
}

static void run_winograd(const struct zt_call *call) {
    const struct state *s = call->state;
    const struct zt_winograd_data data = { .x = call->in[0].data,
                                           .w = call->in[1].data,
                                           .bias = call->in_count > 2 ? call->in[2].data : NULL,
                                           .y = call->out[0].data,
                                           .position = call->out[1].data,
                                           .x_planes = s->places,
                                           .y_planes = s->small,
                                           .relu = true };
    zt_winograd_run(s->winograd, &data, call->workspace, call->threads);
}

/* A plane of the whole result. */
static void pool_whole_plane(void *arg, int64_t plane) {
    const struct zt_call *call = arg;
    const struct state *s = call->state;
    const enum zt_dtype dtype = call->out[0].dtype;
    int64_t big, small;
    place(s, 0, plane, &big, &small);
    uint8_t *position = (uint8_t *)call->out[1].data + small;
    const int64_t elems = s->small.pixels * s->small.vector;
    if (dtype == ZT_FLOAT) {
        float *to = (float *)call->out[0].data + small;
        s->kernels->max(&s->pool, (const float *)call->workspace + big, to, position);
        zt_activation_run(&s->relu, ZT_FLOAT, elems, to, to);
        return;
    }
    char *own = (char *)call->workspace + whole_bytes(s, dtype) +
                (s->buffer_bytes + s->pooled_bytes) * (size_t)zt_parallel_thread();
    float *y = (float *)own, *p = (float *)(own + s->buffer_bytes);
    zt_simd_load(dtype, (const uint16_t *)call->workspace + big, s->big.pixels * s->big.vector, y);
    s->kernels->max(&s->pool, y, p, position);
    zt_activation_run(&s->relu, ZT_FLOAT, elems, p, p);
    zt_simd_store(dtype, p, elems, (uint16_t *)call->out[0].data + small);
}

static void run_whole(const struct zt_call *call) {
    const struct state *s = call->state;
    const size_t before =
        whole_bytes(s, call->out[0].dtype) + (s->buffer_bytes + s->pooled_bytes) * (size_t)call->threads;
    const struct zt_winograd_data data = { .x = call->in[0].data,
                                           .w = call->in[1].data,
                                           .bias = call->in_count > 2 ? call->in[2].data : NULL,
                                           .y = call->workspace,
                                           .x_planes = s->places,
                                           .y_planes = s->big };
    zt_winograd_run(s->winograd, &data, (char *)call->workspace + before, call->threads);
    zt_parallel_for(call->threads, s->small.samples * s->small.groups, pool_whole_plane, (void *)call);
}

static void run_few(const struct zt_call *call) {
    const struct state *s = call->state;
    const struct zt_few_channels_data data = { .x = call->in[0].data,
                                               .w = call->in[1].data,
                                               .bias = call->in_count > 2 ? call->in[2].data : NULL,
                                               .p = call->out[0].data,
                                               .position = call->out[1].data,
                                               .p_planes = s->small };
    zt_few_channels_run(s->few, &data, call->workspace, call->threads);
}

bool zt_conv_pool_cpu_run(const struct zt_call *call, struct zt_err *err) {
    const struct state *s = call->state;
    if (s->winograd || s->few) {
        (s->is_whole ? run_whole : s->winograd ? run_winograd : run_few)(call);
        return true;
    }
    char *buffers = call->workspace;
    void *data[ZT_DNNL_SLOTS] = { [ZT_CONV_X] = call->in[0].data,
                                  [ZT_CONV_W] = call->in[1].data,
                                  [ZT_CONV_B] = call->in_count > 2 ? call->in[2].data : NULL,
                                  [ZT_CONV_Y] = buffers };
    const struct zt_batch_block_work work = { .instead = s->direct.run ? direct_block : NULL,
                                              .after = pool_block,
                                              .arg = (void *)call,
                                              .local = { [ZT_CONV_Y] = s->buffer_bytes } };
    char *scratch = buffers + (s->buffer_bytes + s->pooled_bytes) * (size_t)call->threads;
    return zt_batch_blocks_run(&s->main, call->threads, data, scratch, &work, err);
}

/* ---- backward ---- */

static bool make_backward(struct zt_prepare *p, struct state *s, const struct zt_conv_pool *c,
                          const struct zt_layout *layout, struct zt_err *err) {
    bool bias = zt_out(p->graph, p->node, 1) != NULL;
    struct zt_dnnl_spec spec = zt_conv_spec(&c->conv, ZT_FLOAT, bias);
    spec.slot[ZT_CONV_Y] = in_order_of(layout, spec.slot[ZT_CONV_Y]);
    spec.kind = ZT_DNNL_CONV_WEIGHT;
    const struct zt_batch_cut cut = zt_conv_cut(&c->conv, s->samples);
    if (!zt_batch_blocks_make(&s->main, &spec, &cut, p->threads, err) ||
        !zt_conv_partial_make(&s->partial, &s->main, c->conv.m, ZT_FLOAT, bias, err))
        return false;
    if (!zt_out(p->graph, p->node, 2))
        return true;
    spec.kind = ZT_DNNL_CONV_INPUT;
    spec.slot[ZT_CONV_B].rank = 0;
    return zt_batch_blocks_make(&s->input, &spec, &cut, p->threads, err);
}

static size_t most(size_t a, size_t b) {
    return a > b ? a : b;
}

/* Sets the layouts of the pool's tensors, in which `vector` channels lie side by side. */
static void take_pooled(struct zt_prepare *p, int vector, struct zt_planes *to) {
    const struct zt_graph *g = p->graph;
    const struct zt_shape *shape = &zt_in(g, p->node, 4)->shape;
    const enum zt_dtype dtype = zt_in(g, p->node, 4)->dtype;
    const struct zt_layout *layout = zt_layout_vector(g->arena, p->in_layout[3], dtype, shape);
    zt_planes_of(layout, shape, to);
    if (to->vector % vector != 0) {
        layout = zt_layout_vector(g->arena, NULL, dtype, shape);
        zt_planes_of(layout, shape, to);
    }
    for (int i = 2; i < 5; i++)
        p->in_layout[i] = zt_layout_vector(g->arena, layout, zt_in(g, p->node, i)->dtype, shape);
}

/* Prepares the weight gradient of few input channels; false where it does not take the node. */
static bool take_few_grad(struct zt_prepare *p, const struct zt_conv_pool *c) {
    const struct zt_few_channels_grad *few =
        zt_out(p->graph, p->node, 2) || zt_in(p->graph, p->node, 0)->dtype != ZT_FLOAT
            ? NULL
            : zt_few_channels_grad_make(p->graph->arena, c);
    if (!few)
        return false;
    struct state *s = zt_calloc(1, sizeof *s);
    s->few_grad = few;
    take_pooled(p, zt_few_channels_grad_vector(few), &s->small);
    p->in_layout[0] = p->in_layout[1] = NULL;
    p->state = s;
    p->can_accumulate = true; /* dw; db is always written anew */
    p->workspace_bytes = zt_few_channels_grad_bytes(few, p->threads);
    return true;
}

/* Prepares the kernels of single places; false where they do not take the node. x stays in its layout where that is
 * one that they read in whole vectors. */
static bool take_sparse(struct zt_prepare *p, const struct zt_conv_pool *c) {
    const struct zt_graph *g = p->graph;
    const struct zt_value *x = zt_in(g, p->node, 0);
    const struct zt_sparse_conv *sparse = zt_sparse_conv_make(g->arena, c, x->dtype);
    if (!sparse)
        return false;
    struct state *s = zt_calloc(1, sizeof *s);
    s->sparse = sparse;
    take_pooled(p, zt_sparse_conv_vector(sparse), &s->small);
    if (c->conv.c >= zt_sparse_conv_vector(sparse))
        p->in_layout[0] = zt_layout_vector(g->arena, p->in_layout[0], x->dtype, &x->shape);
    zt_planes_of(p->in_layout[0], &x->shape, &s->places);
    p->in_layout[1] = NULL;
    if (zt_out(g, p->node, 2))
        p->out_layout[2] = p->in_layout[0];
    p->state = s;
    p->can_accumulate = true; /* dw; db and dx are always written anew */
    p->workspace_bytes = zt_sparse_conv_bytes(sparse, &s->small, p->threads);
    return true;
}

bool zt_conv_pool_grad_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_graph *g = p->graph;
    const struct zt_value *x = zt_in(g, p->node, 0), *w = zt_in(g, p->node, 1), *y = zt_in(g, p->node, 4);
    struct zt_conv_pool c;
    if (!zt_conv_pool_read(g, p->node, &c, err))
        return false;
    if (take_few_grad(p, &c) || take_sparse(p, &c))
        return true;
    struct state *s = zt_calloc(1, sizeof *s);
    const struct zt_layout *layout = zt_layout_vector(g->arena, p->in_layout[3], ZT_FLOAT, &y->shape);
    int64_t least = zt_batch_block_of(c.conv.n, zt_conv_pieces(&c.conv), 1);
    s->samples = zt_batch_block_for_cache(c.conv.n, zt_conv_result_bytes(&c.conv, ZT_CONV_TO_Y));
    s->samples = s->samples > least ? s->samples : least;
    if (!make_backward(p, s, &c, layout, err)) {
        release(s);
        return zt_err_within(err, 0, "%s", g->nodes[p->node]->name);
    }
    set_pool(s, &c, layout);
    s->scratch_bytes = most(zt_batch_blocks_scratch(&s->main, p->threads), zt_conv_partial_scratch(&s->partial));
    p->in_layout[0] = zt_conv_layout(g->arena, &s->main, ZT_CONV_X, &x->shape);
    if (s->input.whole) {
        s->scratch_bytes = most(s->scratch_bytes, zt_batch_blocks_scratch(&s->input, p->threads));
        p->in_layout[1] = zt_conv_layout(g->arena, &s->input, ZT_CONV_W, &w->shape);
        p->out_layout[2] = zt_conv_layout(g->arena, &s->input, ZT_CONV_X, &x->shape);
    }
    for (int i = 2; i < 5; i++)
        p->in_layout[i] = zt_layout_vector(g->arena, layout, zt_in(g, p->node, i)->dtype, &y->shape);
    p->state = s;
    p->can_accumulate = true; /* dw; db and dx are always written anew */
    p->workspace_bytes = zt_conv_partial_bytes(&s->partial) + s->buffer_bytes * (size_t)p->threads + s->scratch_bytes;
    return true;
}

struct job {
    const struct zt_call *call;
    char *parts, *buffers, *scratch;
    int failed;
};

static void unpool(const struct zt_call *call, int64_t block, float *dy) {
    const struct state *s = call->state;
    const struct zt_view *in = call->in;
    for (int64_t i = 0, big, small; i < planes_in(s, block); i++) {
        place(s, block, i, &big, &small);
        s->kernels->max_grad(&s->pool, (const float *)in[2].data + small, (const float *)in[4].data + small,
                             (const uint8_t *)in[3].data + small, dy + big);
    }
}

static void *block_of(const struct zt_batch_blocks *c, int slot, void *base, int64_t block) {
    return (char *)base + (size_t)block * c->step[slot];
}

static void gradient_block(void *arg, int64_t block) {
    struct job *j = arg;
    const struct zt_call *call = j->call;
    const struct state *s = call->state;
    float *dy = (float *)(j->buffers + (size_t)zt_parallel_thread() * s->buffer_bytes);
    unpool(call, block, dy);
    void *weight[ZT_DNNL_SLOTS] = {
        [ZT_CONV_X] = block_of(&s->main, ZT_CONV_X, call->in[0].data, block),
        [ZT_CONV_W] = block_of(&s->main, ZT_CONV_W, j->parts, block),
        [ZT_CONV_B] = block_of(&s->main, ZT_CONV_B, j->parts + (size_t)s->partial.blocks * s->partial.dw_bytes, block),
        [ZT_CONV_Y] = dy,
    };
    bool ok = zt_batch_blocks_run_one(&s->main, block, weight, j->scratch);
    if (s->input.whole) {
        void *input[ZT_DNNL_SLOTS] = { [ZT_CONV_X] = block_of(&s->input, ZT_CONV_X, call->out[2].data, block),
                                       [ZT_CONV_W] = call->in[1].data,
                                       [ZT_CONV_Y] = dy };
        ok = ok && zt_batch_blocks_run_one(&s->input, block, input, j->scratch);
    }
    if (!ok)
        __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
}

static void run_few_grad(const struct zt_call *call) {
    const struct state *s = call->state;
    const struct zt_few_channels_grad_data data = { .x = call->in[0].data,
                                                    .dp = call->in[2].data,
                                                    .position = call->in[3].data,
                                                    .p = call->in[4].data,
                                                    .dw = call->out[0].data,
                                                    .db = call->out_count > 1 ? call->out[1].data : NULL,
                                                    .p_planes = s->small,
                                                    .accumulate = call->accumulate };
    zt_few_channels_grad_run(s->few_grad, &data, call->workspace, call->threads);
}

static void run_sparse(const struct zt_call *call) {
    const struct state *s = call->state;
    const struct zt_sparse_conv_data data = { .x = call->in[0].data,
                                              .w = call->in[1].data,
                                              .dp = call->in[2].data,
                                              .position = call->in[3].data,
                                              .p = call->in[4].data,
                                              .dw = call->out[0].data,
                                              .db = call->out_count > 1 ? call->out[1].data : NULL,
                                              .dx = call->out_count > 2 ? call->out[2].data : NULL,
                                              .x_planes = s->places,
                                              .p_planes = s->small,
                                              .accumulate = call->accumulate };
    zt_sparse_conv_run(s->sparse, &data, call->workspace, call->threads);
}

bool zt_conv_pool_grad_cpu_run(const struct zt_call *call, struct zt_err *err) {
    const struct state *s = call->state;
    if (s->few_grad || s->sparse) {
        (s->few_grad ? run_few_grad : run_sparse)(call);
        return true;
    }
    struct job j = { .call = call, .parts = call->workspace };
    j.buffers = j.parts + zt_conv_partial_bytes(&s->partial);
    j.scratch = j.buffers + s->buffer_bytes * (size_t)call->threads;
    zt_parallel_for(call->threads, s->main.count, gradient_block, &j);
    if (j.failed)
        return zt_batch_blocks_failed(zt_batch_blocks_starved(&s->input) ? &s->input : &s->main, err) ||
               zt_err_within(err, err->count - 1, "%s", call->node->name);
    const struct zt_conv_gradients gradients = { .dw = call->out[0].data,
                                                 .db = call->out_count > 1 ? call->out[1].data : NULL,
                                                 .accumulate = call->accumulate };
    return zt_conv_partial_sum(&s->partial, j.parts, j.scratch, &gradients, call->threads, err);
}
