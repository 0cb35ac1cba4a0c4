/* Convolutions through oneDNN in blocks of the batch. Tensors stay in the layout that oneDNN chooses. Weights are
 * requested in oneDNN's layout, so that a reorder node converts them, once a step for parameters. Activations are
 * computed on each block while the block is in cache. */
#include "ops/elementwise/activation_cpu.h"
#include "ops/conv/conv_cpu.h"
#include "ops/conv/conv_node_cpu.h"
#include "ops/conv/group_cpu.h"
#include "ops/conv/im2col_cpu.h"
#include "ops/conv/lines_cpu.h"
#include "ops/conv/taps_cpu.h"
#include "ops/conv/weight_gradient_3d_cpu.h"
#include "ops/cpu/gradient/planes.h"
#include "ops/cpu/winograd/winograd.h"
#include "ops/conv/kernels.h"
#include "ops/kernel/tile.h"

#include "device/threads.h"

#include <stdlib.h>
#include <string.h>

/* The tensors and directions of struct zt_conv_directions in dnnl.h's terms. */
enum { OF_X, OF_W, OF_Y };
static const int slot_of[] = { [OF_X] = ZT_CONV_X, [OF_W] = ZT_CONV_W, [OF_Y] = ZT_CONV_Y };

struct conv_state {
    const struct zt_conv_directions *directions;
    const struct zt_conv_group *group; /* our own kernels, in place of the members below; NULL: not used */
    const struct zt_im2col *im2col;
    const struct zt_lines *lines;
    const struct zt_winograd *winograd;
    const struct zt_taps *taps;
    const struct zt_planes_gradient *planes_gradient;
    const struct zt_conv_weight_gradient *weight_gradient;
    struct zt_batch_blocks blocks;
    bool relu;                       /* done by our own kernels */
    struct zt_activation activation; /* of y, otherwise; run NULL: none */
    struct zt_conv_partial partial;  /* weight gradient only */
    struct zt_conv_direct direct;    /* to y only */
    struct zt_planes planes;         /* x, where a bias is added to it; y, where it has an activation */
    struct zt_planes from;           /* Winograd's: the other tensor beside `planes`; to w: x, beside dy */
    int64_t samples;                 /* of a whole block */
};

static void release(void *state) {
    struct conv_state *s = state;
    if (!s)
        return;
    zt_batch_blocks_finish(&s->blocks);
    zt_conv_partial_finish(&s->partial);
    free(s);
}

/* NULL on failure. */
static struct conv_state *make(struct zt_prepare *p, const struct zt_conv_node *n, struct zt_err *err) {
    struct conv_state *s = zt_calloc(1, sizeof *s);
    s->directions = n->directions;
    s->samples = zt_conv_node_block(n);
    if (!zt_conv_node_blocks(&s->blocks, n, p->threads, err)) {
        zt_err_within(err, 0, "%s", p->graph->nodes[p->node]->name);
        free(s);
        return NULL;
    }
    p->state = s;
    p->workspace_bytes = zt_batch_blocks_scratch(&s->blocks, p->threads);
    for (int i = 0; i < 3; i++) {
        int at = n->directions->of[i];
        if (at != ZT_CONV_OUT)
            p->in_layout[at] =
                zt_conv_layout(p->graph->arena, &s->blocks, slot_of[i], &zt_in(p->graph, p->node, at)->shape);
        else if (i != OF_W) /* whose gradient is reordered to plain */
            p->out_layout[0] =
                zt_conv_layout(p->graph->arena, &s->blocks, slot_of[i], &zt_out(p->graph, p->node, 0)->shape);
    }
    return s;
}

static void place_data(const struct zt_call *call, const struct zt_conv_directions *d, void **data) {
    for (int i = 0; i < 3; i++)
        data[slot_of[i]] = d->of[i] == ZT_CONV_OUT ? call->out[0].data : call->in[d->of[i]].data;
}

/* ---- our own kernels ---- */

static struct conv_state *make_own(struct zt_prepare *p, const struct zt_conv_node *n) {
    struct conv_state *s = zt_calloc(1, sizeof *s);
    s->directions = n->directions;
    for (int i = 0; i < p->graph->nodes[p->node]->in_count; i++)
        p->in_layout[i] = NULL;
    p->state = s;
    return s;
}

/* The layout of x or y, input or output of the node. */
static void lay_plane(struct zt_prepare *p, const struct zt_conv_node *n, int tensor, const struct zt_layout *layout) {
    const int at = n->directions->of[tensor];
    if (at == ZT_CONV_OUT)
        p->out_layout[0] = layout;
    else
        p->in_layout[at] = layout;
}

static const struct zt_shape *plane_of(const struct zt_conv_node *n, int tensor) {
    const int at = n->directions->of[tensor];
    return &(at == ZT_CONV_OUT ? zt_out(n->g, n->index, 0) : zt_in(n->g, n->index, at))->shape;
}

static void take_activation(const struct zt_prepare *p, struct conv_state *s, bool own) {
    const char *name = zt_conv_node_activation(p->graph, p->node);
    s->relu = name && own && strcmp(name, "Relu") == 0;
    if (name && !s->relu)
        zt_activation_of(p->graph->nodes[p->node], zt_op_find(p->graph->table, "", name, ZT_OPSET), &s->activation);
}

/* Prepares our own kernels of narrow groups; false where they do not take the node. */
static bool take_group(struct zt_prepare *p, const struct zt_conv_node *n) {
    const struct zt_graph *g = p->graph;
    const struct zt_conv_group *group =
        zt_conv_group_make(g->arena, &n->conv, zt_in(g, p->node, 0)->dtype, n->directions->direction);
    if (!group || zt_conv_node_added(n))
        return false;
    struct conv_state *s = make_own(p, n);
    s->group = group;
    take_activation(p, s, true);
    for (int tensor = OF_X; tensor <= OF_Y; tensor += OF_Y - OF_X)
        lay_plane(p, n, tensor, zt_conv_group_layout(group, g->arena, plane_of(n, tensor)));
    p->workspace_bytes = zt_conv_group_bytes(group, p->threads);
    return true;
}

/* The state of our own kernels, forwards and to x, that read and write vectors of channels, or plain planes; of what
 * goes to plain planes the vectors are blocks. */
static struct conv_state *make_planes(struct zt_prepare *p, const struct zt_conv_node *n, bool from_plain,
                                      bool to_plain) {
    struct zt_arena *arena = p->graph->arena;
    const enum zt_dtype dtype = zt_in(p->graph, p->node, 0)->dtype;
    const bool forward = n->directions->direction == ZT_CONV_TO_Y;
    const int from = forward ? OF_X : OF_Y, to = forward ? OF_Y : OF_X;
    const struct zt_layout *given = p->in_layout[n->directions->of[from]], *layout;
    struct conv_state *s = make_own(p, n);
    s->samples = 1;
    layout = from_plain ? NULL : zt_winograd_layout(arena, given, dtype, plane_of(n, from));
    zt_planes_of(layout, plane_of(n, from), &s->from);
    if (to_plain && s->from.pixel == s->from.vector)
        layout = zt_layout_vector(arena, NULL, dtype, plane_of(n, from));
    lay_plane(p, n, from, layout);
    zt_planes_of(layout, plane_of(n, from), &s->from);
    layout = to_plain ? NULL : zt_winograd_layout(arena, layout, dtype, plane_of(n, to));
    lay_plane(p, n, to, layout);
    zt_planes_of(layout, plane_of(n, to), &s->planes);
    return s;
}

/* Prepares Winograd's filtering, forwards and to x; false where it does not take the node. */
static bool take_winograd(struct zt_prepare *p, const struct zt_conv_node *n) {
    const int64_t *wanted = n->directions->direction == ZT_CONV_TO_Y ? n->conv.window.out : n->conv.window.in;
    struct zt_winograd_wish wish = { .backward = n->directions->direction == ZT_CONV_TO_X,
                                     .rows = wanted[0],
                                     .columns = wanted[1] };
    const bool fits = zt_conv_winograd(&n->conv, zt_in(p->graph, p->node, 0)->dtype, &wish.conv);
    const struct zt_winograd *winograd = fits ? zt_winograd_make(p->graph->arena, &wish) : NULL;
    if (!winograd)
        return false;
    struct conv_state *s = make_planes(p, n, false, false);
    s->winograd = winograd;
    take_activation(p, s, true);
    p->workspace_bytes = zt_winograd_bytes(winograd, p->threads);
    return true;
}

/* Prepares our own kernels that go tap by tap, forwards and to x, of few channels on one side or of many; false where
 * they do not take the node. */
static bool take_taps(struct zt_prepare *p, const struct zt_conv_node *n, bool few) {
    const struct zt_taps *taps = zt_in(p->graph, p->node, 0)->dtype == ZT_FLOAT
                                     ? zt_taps_make(p->graph->arena, &n->conv, n->directions->direction)
                                     : NULL;
    const enum zt_taps_kind kind = taps ? zt_taps_kind_of(taps) : ZT_TAPS_TO_FEW;
    if (!taps || few == (kind == ZT_TAPS_DENSE) || (few && zt_conv_node_added(n)))
        return false;
    struct conv_state *s = make_planes(p, n, kind == ZT_TAPS_OF_FEW, kind == ZT_TAPS_TO_FEW);
    s->taps = taps;
    take_activation(p, s, kind == ZT_TAPS_DENSE);
    p->workspace_bytes = zt_taps_bytes(taps);
    return true;
}

/* Prepares our own kernels of planes as lines, in all directions; false where they do not take the node. */
static bool take_lines(struct zt_prepare *p, const struct zt_conv_node *n) {
    const enum zt_conv_direction direction = n->directions->direction;
    const bool fits = zt_in(p->graph, p->node, 0)->dtype == ZT_FLOAT && !zt_conv_node_added(n);
    const struct zt_lines *lines = fits ? zt_lines_make(p->graph->arena, &n->conv, direction) : NULL;
    if (!lines)
        return false;
    struct conv_state *s = make_own(p, n);
    s->lines = lines;
    s->samples = 1;
    take_activation(p, s, true);
    zt_planes_of(NULL, plane_of(n, direction == ZT_CONV_TO_X ? OF_X : OF_Y), &s->planes);
    p->workspace_bytes = zt_lines_bytes(lines, p->threads);
    return true;
}

/* Prepares products of matrices, in all directions; false where they do not take the node. */
static bool take_im2col(struct zt_prepare *p, const struct zt_conv_node *n) {
    const enum zt_conv_direction direction = n->directions->direction;
    const bool is_float =
        zt_in(p->graph, p->node, 0)->dtype == ZT_FLOAT && zt_out(p->graph, p->node, 0)->dtype == ZT_FLOAT;
    const struct zt_im2col *im2col = is_float ? zt_im2col_make(p->graph->arena, &n->conv, direction) : NULL;
    if (!im2col || (zt_im2col_is_whole(im2col) && zt_conv_node_added(n)))
        return false;
    struct conv_state *s = make_own(p, n);
    s->im2col = im2col;
    s->samples = 1;
    take_activation(p, s, direction == ZT_CONV_TO_Y);
    const struct zt_layout *layout[3] = { NULL };
    for (int tensor = OF_X; tensor <= OF_Y && !zt_im2col_is_whole(im2col); tensor += OF_Y - OF_X) {
        layout[tensor] = zt_layout_vector(p->graph->arena, NULL, ZT_FLOAT, plane_of(n, tensor));
        lay_plane(p, n, tensor, layout[tensor]);
    }
    const bool to_x = direction == ZT_CONV_TO_X;
    zt_planes_of(layout[to_x ? OF_Y : OF_X], plane_of(n, to_x ? OF_Y : OF_X), &s->from);
    zt_planes_of(layout[to_x ? OF_X : OF_Y], plane_of(n, to_x ? OF_X : OF_Y), &s->planes);
    p->workspace_bytes = zt_im2col_bytes(im2col, p->threads);
    return true;
}

/* Prepares our own kernels, forwards and to x. */
static bool take_own(struct zt_prepare *p, const struct zt_conv_node *n) {
    return take_im2col(p, n) || take_group(p, n) || take_lines(p, n) || take_taps(p, n, true) || take_winograd(p, n) ||
           take_taps(p, n, false);
}

static bool take_planes_gradient(struct zt_prepare *p, const struct zt_conv_node *n) {
    struct zt_arena *arena = p->graph->arena;
    const enum zt_dtype dtype = zt_in(p->graph, p->node, 0)->dtype;
    const struct zt_planes_forms forms = zt_conv_forms(&n->conv, dtype);
    const struct zt_planes_gradient *gradient = zt_planes_gradient_make(arena, &forms);
    if (!gradient)
        return false;
    const int x = n->directions->of[OF_X], y = n->directions->of[OF_Y];
    const struct zt_layout *given[2] = { p->in_layout[x], p->in_layout[y] };
    struct conv_state *s = make_own(p, n);
    s->planes_gradient = gradient;
    p->in_layout[x] = zt_winograd_layout(arena, given[0], dtype, plane_of(n, OF_X));
    if (!zt_planes_gradient_reads_plain(gradient))
        p->in_layout[y] = zt_winograd_layout(arena, given[1], dtype, plane_of(n, OF_Y));
    zt_planes_of(p->in_layout[x], plane_of(n, OF_X), &s->from);
    zt_planes_of(p->in_layout[y], plane_of(n, OF_Y), &s->planes);
    p->workspace_bytes = zt_planes_gradient_bytes(gradient, p->threads);
    return true;
}

/* Prepares our own kernels of weight gradients, those of three axes too. */
static bool take_weights(struct zt_prepare *p, const struct zt_conv_node *n) {
    const struct zt_graph *g = p->graph;
    if (zt_out(g, p->node, 0)->dtype != ZT_FLOAT)
        return false;
    if (take_im2col(p, n) || take_group(p, n) || take_lines(p, n) || take_planes_gradient(p, n))
        return true;
    const struct zt_conv_weight_gradient *weight_gradient =
        zt_conv_weight_gradient_make(g->arena, &n->conv, zt_in(g, p->node, 0)->dtype);
    if (!weight_gradient)
        return false;
    make_own(p, n)->weight_gradient = weight_gradient;
    for (int tensor = OF_X; tensor <= OF_Y; tensor += OF_Y - OF_X)
        lay_plane(p, n, tensor, zt_conv_weight_gradient_layout(g->arena, plane_of(n, tensor)));
    p->workspace_bytes = zt_conv_weight_gradient_bytes(weight_gradient);
    return true;
}

/* The place of the convolution's result: output 1 where the input of an activation is read by others, else output 0. */
static void *made_at(const struct zt_call *call) {
    return call->out_count > 1 && call->out[1].data ? call->out[1].data : call->out[0].data;
}

static void run_group(const struct zt_call *call, const void *from, const void *w) {
    const struct conv_state *s = call->state;
    const struct zt_conv_group_planes planes = { .from = from,
                                                 .weight = w,
                                                 .bias = call->in_count > 2 ? call->in[2].data : NULL,
                                                 .to = made_at(call),
                                                 .relu = s->relu,
                                                 .activation = s->activation,
                                                 .activated = call->out[0].data };
    zt_conv_group_run(s->group, &planes, call->workspace, call->threads);
}

/* ---- a tensor that is added to x or y ---- */

static void lay_added(struct zt_prepare *p) {
    if (p->graph->nodes[p->node]->in_count > ZT_CONV_ADDED)
        p->in_layout[ZT_CONV_ADDED] = p->out_layout[0];
}

static const void *added_at(const struct zt_call *call) {
    return call->in_count > ZT_CONV_ADDED ? call->in[ZT_CONV_ADDED].data : NULL;
}

/* The first sample of a block, and how many it has. */
static int64_t samples_of(const struct conv_state *s, int64_t block, int64_t *first) {
    *first = block * s->samples;
    return zt_min_int(s->samples, s->planes.samples - *first);
}

static void add_block(void *arg, int64_t block, void *const *data) {
    const struct zt_call *call = arg;
    const struct conv_state *s = call->state;
    int64_t first, samples = samples_of(s, block, &first);
    zt_conv_add((const float *)added_at(call) + first * s->planes.sample, samples * s->planes.sample,
                data[s->directions->direction == ZT_CONV_TO_X ? ZT_CONV_X : ZT_CONV_Y]);
}

/* ---- to y: forwards ---- */

/* data: the block of the convolution's result, which may be the place of the activation's result. */
static void activate_block(void *arg, int64_t block, void *const *data) {
    const struct zt_call *call = arg;
    const struct conv_state *s = call->state;
    const struct zt_planes *planes = &s->planes;
    const enum zt_dtype dtype = call->out[0].dtype;
    int64_t first, samples = samples_of(s, block, &first);
    char *y = (char *)call->out[0].data + (size_t)(first * planes->sample) * zt_dtype_bytes(dtype);
    zt_activation_run(&s->activation, dtype, samples * planes->sample, data[ZT_CONV_Y], y);
    if (!s->activation.keeps_zero)
        zt_conv_clear_padding(planes, dtype, samples, y);
}

static void activate_sample(void *arg, int64_t sample) {
    const struct zt_call *call = arg;
    const struct conv_state *s = call->state;
    const int64_t bytes = (int64_t)zt_dtype_bytes(call->out[0].dtype);
    void *data[ZT_DNNL_SLOTS] = { [ZT_CONV_Y] = (char *)made_at(call) + sample * s->planes.sample * bytes };
    activate_block(arg, sample, data);
}

static void run_winograd(const struct zt_call *call, const void *from, const void *w) {
    const struct conv_state *s = call->state;
    const struct zt_winograd_data data = { .x = from,
                                           .w = w,
                                           .bias = call->in_count > 2 ? call->in[2].data : NULL,
                                           .added = added_at(call),
                                           .y = made_at(call),
                                           .x_planes = s->from,
                                           .y_planes = s->planes,
                                           .relu = s->relu };
    zt_winograd_run(s->winograd, &data, call->workspace, call->threads);
}

static struct zt_conv_data data_of(const struct zt_call *call, const void *from, const void *w) {
    const struct conv_state *s = call->state;
    return (struct zt_conv_data){ .from = from,
                                  .w = w,
                                  .bias = call->in_count > 2 ? call->in[2].data : NULL,
                                  .added = added_at(call),
                                  .to = made_at(call),
                                  .relu = s->relu,
                                  .from_planes = s->from,
                                  .to_planes = s->planes };
}

static void run_taps(const struct zt_call *call, const void *from, const void *w) {
    const struct conv_state *s = call->state;
    const struct zt_conv_data data = data_of(call, from, w);
    zt_taps_run(s->taps, &data, call->workspace, call->threads);
}

static void run_lines(const struct zt_call *call, const void *from, const void *w) {
    const struct conv_state *s = call->state;
    const struct zt_lines_data data = {
        .from = from, .w = w, .bias = call->in_count > 2 ? call->in[2].data : NULL, .to = made_at(call), .relu = s->relu
    };
    zt_lines_run(s->lines, &data, call->workspace, call->threads);
}

static void run_im2col(const struct zt_call *call, const void *from, const void *w) {
    const struct conv_state *s = call->state;
    const struct zt_conv_data data = data_of(call, from, w);
    zt_im2col_run(s->im2col, &data, call->workspace, call->threads);
}

/* Runs what take_own() prepared, whose input is `from`; false: nothing. */
static bool run_own(const struct zt_call *call, int from) {
    const struct conv_state *s = call->state;
    void *data[ZT_DNNL_SLOTS] = { 0 };
    if (!s->im2col && !s->group && !s->lines && !s->winograd && !s->taps)
        return false;
    place_data(call, s->directions, data);
    (s->im2col     ? run_im2col
     : s->group    ? run_group
     : s->lines    ? run_lines
     : s->winograd ? run_winograd
                   : run_taps)(call, data[from], data[ZT_CONV_W]);
    if (s->activation.run && !s->group)
        zt_parallel_for(call->threads, s->planes.samples, activate_sample, (void *)call);
    return true;
}

static void direct_block(void *arg, int64_t block, void *const *data) {
    const struct zt_call *call = arg;
    zt_conv_direct_run(&((const struct conv_state *)call->state)->direct, block, data);
}

static bool prepare_to_y(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_graph *g = p->graph;
    struct zt_conv_node n;
    if (!zt_conv_node_read(g, p->node, &n, err))
        return false;
    if (!take_own(p, &n)) {
        struct conv_state *s = make(p, &n, err);
        if (!s)
            return false;
        take_activation(p, s, zt_conv_direct_take(&s->direct, &s->blocks, &n.conv, s->samples));
        s->direct.geometry.relu = s->relu;
        zt_planes_of(p->out_layout[0], &zt_out(g, p->node, 0)->shape, &s->planes);
    }
    if (g->nodes[p->node]->out_count > 1)
        p->out_layout[1] = p->out_layout[0];
    lay_added(p);
    return true;
}

static bool run_to_y(const struct zt_call *call, struct zt_err *err) {
    const struct conv_state *s = call->state;
    if (run_own(call, ZT_CONV_X))
        return true;
    void *data[ZT_DNNL_SLOTS] = { [ZT_CONV_B] = call->in_count > 2 ? call->in[2].data : NULL };
    place_data(call, s->directions, data);
    data[ZT_CONV_Y] = made_at(call);
    const struct zt_batch_block_work work = { .instead = s->direct.run ? direct_block : NULL,
                                              .after = s->activation.run ? activate_block
                                                       : added_at(call)  ? add_block
                                                                         : NULL,
                                              .arg = (void *)call };
    return zt_batch_blocks_run(&s->blocks, call->threads, data, call->workspace, &work, err);
}

/* ---- to x: backwards by data; a transposed convolution has a bias there ---- */

static bool prepare_to_x(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_graph *g = p->graph;
    struct zt_conv_node n;
    if (!zt_conv_node_read(g, p->node, &n, err))
        return false;
    if (!take_own(p, &n)) {
        struct conv_state *s = make(p, &n, err);
        if (!s)
            return false;
        zt_planes_of(p->out_layout[0], &zt_out(g, p->node, 0)->shape, &s->planes);
        if (g->nodes[p->node]->in_count > 2)
            p->in_layout[2] = NULL;
    }
    lay_added(p);
    return true;
}

static void bias_block(void *arg, int64_t block, void *const *data) {
    const struct zt_call *call = arg;
    const struct conv_state *s = call->state;
    int64_t first, samples = samples_of(s, block, &first);
    zt_conv_add_bias(call->out[0].dtype, &s->planes, samples, call->in[2].data, data[ZT_CONV_X]);
}

static bool run_to_x(const struct zt_call *call, struct zt_err *err) {
    const struct conv_state *s = call->state;
    if (run_own(call, ZT_CONV_Y))
        return true;
    void *data[ZT_DNNL_SLOTS] = { 0 };
    place_data(call, s->directions, data);
    const bool biased = call->in_count > 2 && call->in[2].data;
    const struct zt_batch_block_work work = { .after = added_at(call) ? add_block
                                                       : biased       ? bias_block
                                                                      : NULL,
                                              .arg = (void *)call };
    return zt_batch_blocks_run(&s->blocks, call->threads, data, call->workspace, &work, err);
}

/* ---- to w: workspace [ partial sums | scratch ] ---- */

static bool prepare_to_w(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_graph *g = p->graph;
    struct zt_conv_node n;
    if (!zt_conv_node_read(g, p->node, &n, err))
        return false;
    p->can_accumulate = true; /* dw; db is always written anew */
    if (take_weights(p, &n))
        return true;
    struct conv_state *s = make(p, &n, err);
    if (!s)
        return false;
    if (!zt_conv_partial_make(&s->partial, &s->blocks, n.conv.m, zt_out(g, p->node, 0)->dtype,
                              zt_conv_node_has_bias(&n), err)) {
        release(s);
        return false;
    }
    size_t plain = zt_conv_partial_scratch(&s->partial);
    p->workspace_bytes = (plain > p->workspace_bytes ? plain : p->workspace_bytes) + zt_conv_partial_bytes(&s->partial);
    return true;
}

static bool run_to_w(const struct zt_call *call, struct zt_err *err) {
    const struct conv_state *s = call->state;
    void *data[ZT_DNNL_SLOTS] = { 0 };
    place_data(call, s->directions, data);
    float *db = call->out_count > 1 ? call->out[1].data : NULL;
    const struct zt_planes_weights weights = { data[ZT_CONV_X], data[ZT_CONV_Y], data[ZT_CONV_W], db,
                                               s->from,         s->planes,       call->accumulate };
    if (s->im2col)
        zt_im2col_weight_gradient(s->im2col, &weights, call->workspace, call->threads);
    else if (s->group)
        zt_conv_group_weight_gradient(s->group, &weights, call->workspace, call->threads);
    else if (s->lines)
        zt_lines_weight_gradient(s->lines, &weights, call->workspace, call->threads);
    else if (s->planes_gradient)
        zt_planes_gradient_run(s->planes_gradient, &weights, call->workspace, call->threads);
    else if (s->weight_gradient)
        zt_conv_weight_gradient_run(s->weight_gradient, &weights, call->workspace, call->threads);
    if (s->im2col || s->group || s->lines || s->planes_gradient || s->weight_gradient)
        return true;
    char *parts = call->workspace, *scratch = parts + zt_conv_partial_bytes(&s->partial);
    data[ZT_CONV_B] = parts + (size_t)s->partial.blocks * s->partial.dw_bytes;
    data[ZT_CONV_W] = parts;
    const struct zt_conv_gradients gradients = { call->out[0].data, db, call->accumulate };
    return zt_batch_blocks_run(&s->blocks, call->threads, data, scratch, NULL, err) &&
           zt_conv_partial_sum(&s->partial, parts, scratch, &gradients, call->threads, err);
}

/* ---- rows ---- */

/* The functions of a column (ops/cpu/cpu.h). A macro, as it defines functions. */
#define KERNEL(id, direction)                                                                                          \
    bool id##_supports(const struct zt_graph *g, int node) {                                                           \
        return zt_conv_node_supports(g, node);                                                                         \
    }                                                                                                                  \
    bool id##_prepare(struct zt_prepare *p, struct zt_err *err) {                                                      \
        return prepare_##direction(p, err);                                                                            \
    }                                                                                                                  \
    bool id##_run(const struct zt_call *call, struct zt_err *err) {                                                    \
        return run_##direction(call, err);                                                                             \
    }                                                                                                                  \
    void id##_release(void *state) {                                                                                   \
        release(state);                                                                                                \
    }
KERNEL(zt_conv_cpu, to_y)
KERNEL(zt_conv_grad_input_cpu, to_x)
KERNEL(zt_conv_grad_weight_cpu, to_w)
KERNEL(zt_conv_transpose_cpu, to_x)
KERNEL(zt_conv_transpose_grad_input_cpu, to_y)
KERNEL(zt_conv_transpose_grad_weight_cpu, to_w)

/* ---- our own kernel of 2-D convolutions in place of the primitive of oneDNN ---- */

/* Few products a sample; those of a 1 x 1 kernel are in one short sequence anyway. */
static bool is_small(const struct zt_conv *c) {
    const int64_t most = INT64_C(1) << 22;
    return c->window.kernel_elems > 1 && c->m * c->c * c->window.kernel_elems * c->window.out_elems <= most;
}

/* 2-D, one group, whole vectors of channels on both sides, packed as the kernel wants them. */
bool zt_conv_direct_take(struct zt_conv_direct *to, const struct zt_batch_blocks *blocks, const struct zt_conv *c,
                         int64_t samples) {
    struct zt_desc x = zt_dnnl_slot(blocks->whole, ZT_CONV_X), y = zt_dnnl_slot(blocks->whole, ZT_CONV_Y);
    int vector = y.block;
    *to = (struct zt_conv_direct){ .vector = vector, .samples = samples, .total = c->n };
    if (!is_small(c) || x.dtype != ZT_FLOAT || c->window.axes != 2 || c->groups != 1 || x.order != ZT_DESC_BLOCKED ||
        y.order != ZT_DESC_BLOCKED || x.block != vector || c->c % vector || c->m % vector ||
        !zt_dnnl_weight_vector(blocks->whole, ZT_CONV_W, vector))
        return false;
    to->run = zt_simd_conv_kernel(vector);
    to->out_blocks = c->m / vector;
    to->geometry.blocks = c->c / vector;
    for (int a = 0; a < 2; a++) {
        to->geometry.in[a] = c->window.in[a];
        to->geometry.out[a] = c->window.out[a];
        to->geometry.kernel[a] = c->window.kernel[a];
        to->geometry.stride[a] = c->window.stride[a];
        to->geometry.dilation[a] = c->window.dilation[a];
        to->geometry.pad[a] = c->window.pad[a];
    }
    return to->run != NULL;
}

void zt_conv_direct_run(const struct zt_conv_direct *d, int64_t block, void *const *data) {
    static const float no_bias[16];
    const struct zt_simd_conv *g = &d->geometry;
    int64_t rest = d->total - block * d->samples, samples = rest < d->samples ? rest : d->samples;
    int64_t x_sample = g->blocks * g->in[0] * g->in[1] * d->vector, y_plane = g->out[0] * g->out[1] * d->vector;
    int64_t w_block = g->blocks * g->kernel[0] * g->kernel[1] * d->vector * d->vector;
    const float *x = data[ZT_CONV_X], *w = data[ZT_CONV_W], *b = data[ZT_CONV_B];
    float *y = data[ZT_CONV_Y];
    for (int64_t n = 0; n < samples; n++)
        for (int64_t o = 0; o < d->out_blocks; o++)
            d->run(g, x + n * x_sample, w + o * w_block, b ? b + o * d->vector : no_bias,
                   y + (n * d->out_blocks + o) * y_plane);
}
