/* Convolutions through oneDNN, cut over the batch. Activations stay in the layout oneDNN chooses; weights are asked for in the
 * layout it wants, so that a reorder node makes them, once a step for parameters.
 *
 * The weight gradient of every chunk goes to a buffer of its own; the buffers are added in order and the sum is brought into
 * plain order:
 *
 *     workspace  [ dw of chunk 0 | 1 | ... | db of chunk 0 | 1 | ... | scratch of each thread ] */
#include "ops/chunks_cpu.h"
#include "ops/conv.h"
#include "ops/cpu.h"
#include "ops/sum_cpu.h"

#include <stdlib.h>
#include <string.h>

enum { X, W, B, Y }; /* slots of a convolution in dnnl_compat.h */
static const int cut_batch[ZT_DNNL_SLOTS] = { [X] = 0, [W] = -1, [B] = -1, [Y] = 0, [4] = -1 };

/* Partial weight gradients are kept below this where chunks can be made larger for it, but never fewer than four. */
static const int64_t partial_elems = INT64_C(4) << 20;

typedef bool read_conv(const struct zt_graph *g, int node, struct zt_conv *to, struct zt_err *err);

static bool all_float(const struct zt_graph *g, int node) {
    for (int i = 0; i < g->nodes[node].in_count; i++)
        if (zt_in(g, node, i) && zt_in(g, node, i)->dtype != ZT_FLOAT)
            return false;
    return true;
}

/* oneDNN wants 1 to 3 spatial axes, no empty tensor, and 32-bit dims. */
static bool supports(const struct zt_graph *g, int node, read_conv *read) {
    struct zt_conv c;
    struct zt_err err = { 0 };
    if (!all_float(g, node) || !read(g, node, &c, &err) || c.window.axes > 3)
        return false;
    int64_t sizes[] = { c.n, c.c, c.m, c.window.in_elems, c.window.out_elems, c.window.kernel_elems };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i] < 1 || sizes[i] > INT32_MAX)
            return false;
    return true;
}

bool zt_conv_cpu_supports(const struct zt_graph *g, int node) {
    return supports(g, node, zt_conv_read);
}
bool zt_conv_grad_input_cpu_supports(const struct zt_graph *g, int node) {
    return supports(g, node, zt_conv_grad_input_read);
}
bool zt_conv_grad_weight_cpu_supports(const struct zt_graph *g, int node) {
    return supports(g, node, zt_conv_grad_weight_read);
}

static struct zt_shape plane_shape(int64_t n, int64_t channels, const int64_t *plane, int axes) {
    struct zt_shape s = { axes + 2, { n, channels } };
    memcpy(s.dim + 2, plane, sizeof *plane * (size_t)axes);
    return s;
}

/* [m, c / groups, kernel], and [groups, m / groups, c / groups, kernel] for oneDNN. */
static struct zt_desc weight_desc(const struct zt_conv *c) {
    struct zt_desc d = { .dtype = ZT_FLOAT, .order = ZT_DESC_ANY, .opaque = true };
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

static struct zt_dnnl_spec spec_of(const struct zt_conv *c, bool bias) {
    const struct zt_window *w = &c->window;
    struct zt_dnnl_spec s = { .axes = w->axes };
    struct zt_shape x = plane_shape(c->n, c->c, w->in, w->axes), y = plane_shape(c->n, c->m, w->out, w->axes);
    s.slot[X] = zt_desc_any(ZT_FLOAT, &x);
    s.slot[Y] = zt_desc_any(ZT_FLOAT, &y);
    s.slot[W] = weight_desc(c);
    if (bias)
        s.slot[B] = (struct zt_desc){ .dtype = ZT_FLOAT, .rank = 1, .dim = { c->m }, .order = ZT_DESC_PLAIN };
    for (int a = 0; a < w->axes; a++) {
        s.kernel[a] = w->kernel[a];
        s.stride[a] = w->stride[a];
        s.dilation[a] = w->dilation[a];
        s.pad[a] = w->pad[a];
        /* what the last window really covers: a pad that is never reached is cut off */
        s.pad_end[a] = (w->out[a] - 1) * w->stride[a] + (w->kernel[a] - 1) * w->dilation[a] + 1 - w->in[a] - w->pad[a];
    }
    return s;
}

struct conv_state {
    struct zt_chunks chunks;
    /* weight gradient only */
    size_t dw_bytes, db_bytes;         /* of one chunk, multiples of 64 */
    int64_t m;
    struct zt_dnnl *plain, *plain_add; /* summed dw to plain order; the same, added to what is there */
};

static void release(void *state) {
    struct conv_state *s = state;
    if (!s)
        return;
    zt_chunks_finish(&s->chunks);
    zt_dnnl_destroy(s->plain);
    zt_dnnl_destroy(s->plain_add);
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

static const struct zt_layout *layout_of(struct zt_prepare *p, const struct conv_state *s, int slot, const struct zt_value *v) {
    struct zt_desc d = zt_dnnl_slot(s->chunks.body, slot);
    return zt_desc_layout(p->graph->arena, &d, &v->shape);
}

static bool make(struct zt_prepare *p, struct conv_state *s, const struct zt_dnnl_spec *spec, int64_t n, int64_t chunk,
                 struct zt_err *err) {
    p->state = s;
    return zt_chunks_make(&s->chunks, spec, cut_batch, n, chunk, p->threads, err) ||
           zt_err_within(err, 0, "%s", p->graph->nodes[p->node].name);
}

/* ---- forward, backward by data ---- */

bool zt_conv_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_graph *g = p->graph;
    struct zt_conv c;
    if (!zt_conv_read(g, p->node, &c, err))
        return false;
    struct zt_dnnl_spec spec = spec_of(&c, zt_in(g, p->node, 2) != NULL);
    spec.kind = ZT_DNNL_CONV;
    spec.relu = strcmp(g->nodes[p->node].op_type, "ConvRelu") == 0;
    struct conv_state *s = zt_calloc(1, sizeof *s);
    if (!make(p, s, &spec, c.n, zt_chunk_of(c.n, ZT_CHUNKS, 1), err)) {
        release(s);
        return false;
    }
    p->in_layout[0] = layout_of(p, s, X, zt_in(g, p->node, 0));
    p->in_layout[1] = layout_of(p, s, W, zt_in(g, p->node, 1));
    p->out_layout[0] = layout_of(p, s, Y, zt_out(g, p->node, 0));
    p->workspace_bytes = zt_chunks_scratch(&s->chunks, p->threads);
    return true;
}

bool zt_conv_cpu_run(const struct zt_call *call, struct zt_err *err) {
    const struct conv_state *s = call->state;
    void *data[ZT_DNNL_SLOTS] = { [X] = call->in[0].data, [W] = call->in[1].data,
                                  [B] = call->in_count > 2 ? call->in[2].data : NULL, [Y] = call->out[0].data };
    return zt_chunks_run(&s->chunks, call->threads, data, call->workspace, err);
}

bool zt_conv_grad_input_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_graph *g = p->graph;
    struct zt_conv c;
    if (!zt_conv_grad_input_read(g, p->node, &c, err))
        return false;
    struct zt_dnnl_spec spec = spec_of(&c, false);
    spec.kind = ZT_DNNL_CONV_INPUT;
    struct conv_state *s = zt_calloc(1, sizeof *s);
    if (!make(p, s, &spec, c.n, zt_chunk_of(c.n, ZT_CHUNKS, 1), err)) {
        release(s);
        return false;
    }
    p->in_layout[0] = layout_of(p, s, W, zt_in(g, p->node, 0));
    p->in_layout[1] = layout_of(p, s, Y, zt_in(g, p->node, 1));
    p->out_layout[0] = layout_of(p, s, X, zt_out(g, p->node, 0));
    p->workspace_bytes = zt_chunks_scratch(&s->chunks, p->threads);
    return true;
}

bool zt_conv_grad_input_cpu_run(const struct zt_call *call, struct zt_err *err) {
    const struct conv_state *s = call->state;
    void *data[ZT_DNNL_SLOTS] = { [X] = call->out[0].data, [W] = call->in[0].data, [Y] = call->in[1].data };
    return zt_chunks_run(&s->chunks, call->threads, data, call->workspace, err);
}

/* ---- backward by weights ---- */

static int64_t pieces_for(const struct zt_conv *c) {
    int64_t elems = c->m * (c->c / c->groups) * c->window.kernel_elems, pieces = partial_elems / elems;
    return pieces < 4 ? 4 : pieces > ZT_CHUNKS ? ZT_CHUNKS : pieces;
}

static size_t round_up(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static bool make_plain(struct conv_state *s, const struct zt_desc *chosen, struct zt_err *err) {
    struct zt_dnnl_spec spec = { .kind = ZT_DNNL_REORDER, .slot = { *chosen, *chosen } };
    spec.slot[1].order = ZT_DESC_STRIDED;
    s->plain = zt_dnnl_create(&spec, 1, err);
    spec.add = true;
    s->plain_add = zt_dnnl_create(&spec, 1, err);
    return s->plain && s->plain_add;
}

bool zt_conv_grad_weight_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_graph *g = p->graph;
    struct zt_conv c;
    if (!zt_conv_grad_weight_read(g, p->node, &c, err))
        return false;
    bool bias = zt_out(g, p->node, 1) != NULL;
    struct zt_dnnl_spec spec = spec_of(&c, bias);
    spec.kind = ZT_DNNL_CONV_WEIGHT;
    struct conv_state *s = zt_calloc(1, sizeof *s);
    bool ok = make(p, s, &spec, c.n, zt_chunk_of(c.n, pieces_for(&c), 1), err);
    struct zt_desc dw = ok ? zt_dnnl_slot(s->chunks.body, W) : (struct zt_desc){ 0 };
    if (!ok || !make_plain(s, &dw, err)) {
        release(s);
        return false;
    }
    s->m = c.m;
    s->dw_bytes = round_up(zt_desc_bytes(&dw));
    s->db_bytes = bias ? round_up((size_t)c.m * sizeof(float)) : 0;
    s->chunks.step[W] = s->dw_bytes;
    s->chunks.step[B] = s->db_bytes;
    size_t scratch = zt_chunks_scratch(&s->chunks, p->threads), plain = zt_dnnl_scratch_bytes(s->plain);
    size_t plain_add = zt_dnnl_scratch_bytes(s->plain_add);
    scratch = plain > scratch ? plain : scratch;
    p->workspace_bytes =
        (size_t)s->chunks.count * (s->dw_bytes + s->db_bytes) + (plain_add > scratch ? plain_add : scratch);
    p->in_layout[0] = layout_of(p, s, X, zt_in(g, p->node, 0));
    p->in_layout[1] = layout_of(p, s, Y, zt_in(g, p->node, 1));
    p->can_accumulate = true; /* dw; db is always written anew */
    return true;
}

bool zt_conv_grad_weight_cpu_run(const struct zt_call *call, struct zt_err *err) {
    const struct conv_state *s = call->state;
    int64_t count = s->chunks.count;
    char *dw = call->workspace, *db = dw + (size_t)count * s->dw_bytes, *scratch = db + (size_t)count * s->db_bytes;
    void *data[ZT_DNNL_SLOTS] = { [X] = call->in[0].data, [W] = dw, [B] = db, [Y] = call->in[1].data };
    if (!zt_chunks_run(&s->chunks, call->threads, data, scratch, err))
        return false;
    zt_sum_chunks((float *)dw, (int64_t)(s->dw_bytes / sizeof(float)), count, call->threads);
    void *sides[ZT_DNNL_SLOTS] = { dw, call->out[0].data };
    if (!zt_dnnl_run(call->accumulate ? s->plain_add : s->plain, 0, sides, scratch))
        return zt_fail(err, ZT_EXIT_RUN, "oneDNN failed to reorder the weight gradient of %s", call->node->name);
    if (s->db_bytes) {
        zt_sum_chunks((float *)db, (int64_t)(s->db_bytes / sizeof(float)), count, 1);
        memcpy(call->out[1].data, db, (size_t)s->m * sizeof(float));
    }
    return true;
}
