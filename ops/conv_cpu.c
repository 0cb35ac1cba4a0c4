/* Convolutions through oneDNN, cut over the batch. Activations stay in the layout oneDNN chooses; weights are asked for
 * in the layout it wants, so that a reorder node makes them, once a step for parameters.
 * ReLU is done on each chunk while that is in cache. */
#include "ops/conv_cpu.h"
#include "ops/cpu.h"
#include "ops/relu_cpu.h"

#include <stdlib.h>
#include <string.h>

const int zt_conv_cut[ZT_DNNL_SLOTS] = {
    [ZT_CONV_X] = 0, [ZT_CONV_W] = -1, [ZT_CONV_B] = -1, [ZT_CONV_Y] = 0, [4] = -1
};

bool zt_conv_fits(const struct zt_conv *c) {
    const struct zt_window *w = &c->window;
    int64_t sizes[] = { c->n, c->c, c->m, w->in_elems, w->out_elems, w->kernel_elems };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i] < 1 || sizes[i] > INT32_MAX)
            return false;
    return w->axes <= 3;
}

bool zt_conv_types(const struct zt_graph *g, int node) {
    enum zt_dtype dtype = zt_in(g, node, 0)->dtype;
    for (int i = 0; i < g->nodes[node].in_count; i++)
        if (zt_in(g, node, i) && zt_in(g, node, i)->dtype != dtype && zt_in(g, node, i)->dtype != ZT_UINT8)
            return false;
    return zt_dnnl_takes(dtype);
}

/* In bfloat16 oneDNN 2.6 crashes where a whole window lies in the padding, and its 3-D weight gradients were seen
 * wrong. */
static bool safe_in_half(const struct zt_window *w) {
    if (w->axes > 2)
        return false;
    for (int a = 0; a < w->axes; a++) {
        int64_t span = (w->kernel[a] - 1) * w->dilation[a] + 1;
        if (w->pad[a] >= span || (w->out[a] - 1) * w->stride[a] - w->pad[a] >= w->in[a])
            return false;
    }
    return true;
}

#define SUPPORTS(name, read)                                                                                           \
    bool name(const struct zt_graph *g, int node) {                                                                    \
        struct zt_conv c;                                                                                              \
        struct zt_err err = { 0 };                                                                                     \
        return zt_conv_types(g, node) && read(g, node, &c, &err) && zt_conv_fits(&c) &&                                \
               (zt_in(g, node, 0)->dtype == ZT_FLOAT || safe_in_half(&c.window));                                      \
    }
SUPPORTS(zt_conv_cpu_supports, zt_conv_read)
SUPPORTS(zt_conv_grad_input_cpu_supports, zt_conv_grad_input_read)
SUPPORTS(zt_conv_grad_weight_cpu_supports, zt_conv_grad_weight_read)

static struct zt_shape plane_shape(int64_t n, int64_t channels, const int64_t *plane, int axes) {
    struct zt_shape s = { axes + 2, { n, channels } };
    memcpy(s.dim + 2, plane, sizeof *plane * (size_t)axes);
    return s;
}

/* [m, c / groups, kernel], and [groups, m / groups, c / groups, kernel] for oneDNN. */
static struct zt_desc weight_desc(const struct zt_conv *c, enum zt_dtype dtype) {
    struct zt_desc d = { .dtype = dtype, .order = ZT_DESC_ANY, .opaque = true };
    if (c->groups > 1)
        d.dim[d.rank++] = c->groups;
    d.dim[d.rank++] = c->m / c->groups;
    d.dim[d.rank++] = c->c / c->groups;
    for (int a = 0; a < c->window.axes; a++)
        d.dim[d.rank++] = c->window.kernel[a];
    int64_t step = 1;
    for (int i = d.rank - 1; i >= 0; i--) {
        d.stride[i] = step;
        step *= d.dim[i];
    }
    return d;
}

struct zt_dnnl_spec zt_conv_spec(const struct zt_conv *c, enum zt_dtype dtype, bool bias) {
    const struct zt_window *w = &c->window;
    struct zt_dnnl_spec s = { .axes = w->axes };
    struct zt_shape x = plane_shape(c->n, c->c, w->in, w->axes), y = plane_shape(c->n, c->m, w->out, w->axes);
    s.slot[ZT_CONV_X] = zt_desc_any(dtype, &x);
    s.slot[ZT_CONV_Y] = zt_desc_any(dtype, &y);
    s.slot[ZT_CONV_W] = weight_desc(c, dtype);
    if (bias)
        s.slot[ZT_CONV_B] = (struct zt_desc){ .dtype = dtype, .rank = 1, .dim = { c->m }, .order = ZT_DESC_PLAIN };
    for (int a = 0; a < w->axes; a++) {
        s.kernel[a] = w->kernel[a];
        s.stride[a] = w->stride[a];
        s.dilation[a] = w->dilation[a];
        s.pad[a] = w->pad[a];
        /* what the last window really covers: oneDNN refuses padding that none reaches */
        s.pad_end[a] = (w->out[a] - 1) * w->stride[a] + (w->kernel[a] - 1) * w->dilation[a] + 1 - w->in[a] - w->pad[a];
    }
    return s;
}

size_t zt_conv_result_bytes(const struct zt_conv *c) {
    return (size_t)((c->m + 15) / 16 * 16 * c->window.out_elems) * sizeof(float);
}

const struct zt_layout *zt_conv_layout(struct zt_arena *arena, const struct zt_chunks *chunks, int slot,
                                       const struct zt_shape *shape) {
    struct zt_desc d = zt_dnnl_slot(chunks->body, slot);
    return zt_desc_layout(arena, &d, shape);
}

struct conv_state {
    struct zt_chunks chunks;
    int64_t relu_elems[2];          /* of y in a whole chunk, in the last one; 0: no ReLU */
    struct zt_conv_partial partial; /* weight gradient only */
    struct zt_conv_direct direct;   /* forward only */
};

static void release(void *state) {
    struct conv_state *s = state;
    if (!s)
        return;
    zt_chunks_finish(&s->chunks);
    zt_conv_partial_finish(&s->partial);
    free(s);
}
void zt_conv_cpu_release(void *state) {
    release(state);
}
void zt_conv_grad_input_cpu_release(void *state) {
    release(state);
}
void zt_conv_grad_weight_cpu_release(void *state) {
    release(state);
}

/* NULL on failure. */
static struct conv_state *make(struct zt_prepare *p, const struct zt_conv *c, bool bias, int kind, int64_t chunk,
                               struct zt_err *err) {
    struct zt_dnnl_spec spec = zt_conv_spec(c, zt_in(p->graph, p->node, 0)->dtype, bias);
    spec.kind = kind;
    if (kind == ZT_DNNL_CONV_WEIGHT)
        spec.slot[ZT_CONV_W].dtype = spec.slot[ZT_CONV_B].dtype = ZT_FLOAT;
    struct conv_state *s = zt_calloc(1, sizeof *s);
    if (zt_chunks_make(&s->chunks, &spec, zt_conv_cut, c->n, chunk, p->threads, err)) {
        p->state = s;
        p->workspace_bytes = zt_chunks_scratch(&s->chunks, p->threads);
        return s;
    }
    zt_err_within(err, 0, "%s", p->graph->nodes[p->node].name);
    free(s);
    return NULL;
}

/* ---- forward ---- */

static void relu_chunk(void *arg, int64_t chunk, void *const *data) {
    const struct conv_state *s = arg;
    zt_relu_cpu(zt_dnnl_slot(s->chunks.body, ZT_CONV_Y).dtype, s->relu_elems[chunk == s->chunks.count - 1],
                data[ZT_CONV_Y]);
}

static void direct_chunk(void *arg, int64_t chunk, void *const *data) {
    zt_conv_direct_run(&((const struct conv_state *)arg)->direct, chunk, data);
}

static int64_t elems_of(const struct zt_dnnl *d, int slot) {
    struct zt_desc desc = zt_dnnl_slot(d, slot);
    return (int64_t)(zt_desc_bytes(&desc) / zt_dtype_bytes(desc.dtype));
}

bool zt_conv_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_graph *g = p->graph;
    bool relu = strcmp(g->nodes[p->node].op_type, "ConvRelu") == 0;
    struct zt_conv c;
    if (!zt_conv_read(g, p->node, &c, err))
        return false;
    int64_t chunk = relu ? zt_chunk_for_cache(c.n, zt_conv_result_bytes(&c)) : zt_chunk_of(c.n, ZT_CHUNKS, 1);
    struct conv_state *s = make(p, &c, zt_in(g, p->node, 2) != NULL, ZT_DNNL_CONV, chunk, err);
    if (!s)
        return false;
    const struct zt_dnnl *last = s->chunks.tail ? s->chunks.tail : s->chunks.body;
    if (zt_conv_direct_take(&s->direct, &s->chunks, &c, chunk)) {
        s->direct.geometry.relu = relu;
        relu = false;
    }
    s->relu_elems[0] = relu ? elems_of(s->chunks.body, ZT_CONV_Y) : 0;
    s->relu_elems[1] = relu ? elems_of(last, ZT_CONV_Y) : 0;
    p->in_layout[0] = zt_conv_layout(g->arena, &s->chunks, ZT_CONV_X, &zt_in(g, p->node, 0)->shape);
    p->in_layout[1] = zt_conv_layout(g->arena, &s->chunks, ZT_CONV_W, &zt_in(g, p->node, 1)->shape);
    p->out_layout[0] = zt_conv_layout(g->arena, &s->chunks, ZT_CONV_Y, &zt_out(g, p->node, 0)->shape);
    return true;
}

bool zt_conv_cpu_run(const struct zt_call *call, struct zt_err *err) {
    const struct conv_state *s = call->state;
    void *data[ZT_DNNL_SLOTS] = { [ZT_CONV_X] = call->in[0].data,
                                  [ZT_CONV_W] = call->in[1].data,
                                  [ZT_CONV_B] = call->in_count > 2 ? call->in[2].data : NULL,
                                  [ZT_CONV_Y] = call->out[0].data };
    const struct zt_chunk_work work = { .instead = s->direct.run ? direct_chunk : NULL,
                                        .after = s->relu_elems[0] ? relu_chunk : NULL,
                                        .arg = call->state };
    return zt_chunks_run(&s->chunks, call->threads, data, call->workspace, &work, err);
}

/* ---- backward by data ---- */

bool zt_conv_grad_input_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_graph *g = p->graph;
    struct zt_conv c;
    if (!zt_conv_grad_input_read(g, p->node, &c, err))
        return false;
    struct conv_state *s = make(p, &c, false, ZT_DNNL_CONV_INPUT, zt_chunk_of(c.n, ZT_CHUNKS, 1), err);
    if (!s)
        return false;
    p->in_layout[0] = zt_conv_layout(g->arena, &s->chunks, ZT_CONV_W, &zt_in(g, p->node, 0)->shape);
    p->in_layout[1] = zt_conv_layout(g->arena, &s->chunks, ZT_CONV_Y, &zt_in(g, p->node, 1)->shape);
    p->out_layout[0] = zt_conv_layout(g->arena, &s->chunks, ZT_CONV_X, &zt_out(g, p->node, 0)->shape);
    return true;
}

bool zt_conv_grad_input_cpu_run(const struct zt_call *call, struct zt_err *err) {
    const struct conv_state *s = call->state;
    void *data[ZT_DNNL_SLOTS] = {
        [ZT_CONV_X] = call->out[0].data, [ZT_CONV_W] = call->in[0].data, [ZT_CONV_Y] = call->in[1].data
    };
    return zt_chunks_run(&s->chunks, call->threads, data, call->workspace, NULL, err);
}

/* ---- backward by weights: workspace [ partial sums | scratch ] ---- */

bool zt_conv_grad_weight_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_graph *g = p->graph;
    struct zt_conv c;
    if (!zt_conv_grad_weight_read(g, p->node, &c, err))
        return false;
    bool bias = zt_out(g, p->node, 1) != NULL;
    int64_t pieces = zt_conv_pieces(&c);
    struct conv_state *s =
        make(p, &c, bias, ZT_DNNL_CONV_WEIGHT, zt_chunk_of(c.n, pieces < ZT_CHUNKS ? pieces : ZT_CHUNKS, 1), err);
    if (!s)
        return false;
    if (!zt_conv_partial_make(&s->partial, &s->chunks, c.m, zt_out(g, p->node, 0)->dtype, bias, err)) {
        release(s);
        return false;
    }
    size_t plain = zt_conv_partial_scratch(&s->partial);
    p->workspace_bytes = (plain > p->workspace_bytes ? plain : p->workspace_bytes) + zt_conv_partial_bytes(&s->partial);
    p->in_layout[0] = zt_conv_layout(g->arena, &s->chunks, ZT_CONV_X, &zt_in(g, p->node, 0)->shape);
    p->in_layout[1] = zt_conv_layout(g->arena, &s->chunks, ZT_CONV_Y, &zt_in(g, p->node, 1)->shape);
    p->can_accumulate = true; /* dw; db is always written anew */
    return true;
}

bool zt_conv_grad_weight_cpu_run(const struct zt_call *call, struct zt_err *err) {
    const struct conv_state *s = call->state;
    const struct zt_conv_partial *partial = &s->partial;
    char *parts = call->workspace, *scratch = parts + zt_conv_partial_bytes(partial);
    void *data[ZT_DNNL_SLOTS] = { [ZT_CONV_X] = call->in[0].data,
                                  [ZT_CONV_W] = parts,
                                  [ZT_CONV_B] = parts + (size_t)partial->chunks * partial->dw_bytes,
                                  [ZT_CONV_Y] = call->in[1].data };
    return zt_chunks_run(&s->chunks, call->threads, data, scratch, NULL, err) &&
           zt_conv_partial_sum(partial, parts, scratch, call->out[0].data,
                               call->out_count > 1 ? call->out[1].data : NULL, call->accumulate, call->threads, err);
}
