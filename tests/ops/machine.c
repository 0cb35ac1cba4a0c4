#include "tests/ops/machine.h"

#include "graph/ir/op.h"
#include "ops/kernel/layout.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/strided_copy.h"
#include "ops/table.h"

#include <math.h>
#include <string.h>

static const struct zt_random no_random = { .seed = 1 };

bool machine_infer(struct zt_case_graph *made, struct zt_err *err) {
    struct zt_graph *g = made->graph;
    for (int i = 0; i < made->in_count; i++)
        if (made->in[i] >= 0)
            g->values[made->in[i]]->data = made->feed[i].data;
    bool good = zt_op_infer(g, 0, err);
    for (int i = 0; i < made->in_count; i++)
        if (made->in[i] >= 0 && !made->constant[i])
            g->values[made->in[i]]->data = NULL;
    return good;
}

bool machine_is_view(const struct machine *m, int node) {
    return m->shared[m->g->nodes[node]->out[0]];
}

/* Finds the views; values stand in for others in the order of the nodes. */
static void mark_views(struct machine *m) {
    for (int n = 0; n < m->g->node_count; n++) {
        const struct zt_node *node = m->g->nodes[n];
        if (node->op->flags & ZT_OP_VIEW && !m->g->values[node->in[0]]->layout && !m->g->values[node->out[0]]->layout)
            m->shared[node->out[0]] = true;
    }
}

/* A gradient that is a result of the graph. */
static bool is_gradient(const struct machine *m, int value) {
    const struct zt_value *v = m->g->values[value];
    bool result = false;
    for (int i = 0; i < m->g->output_count; i++)
        result |= m->g->outputs[i] == value;
    return result && v->origin == ZT_FROM_NODE && m->g->nodes[v->producer]->phase == ZT_BACKWARD;
}

/* On a device of its own the inputs but the first, and gradients, lie as parameters do in their block: at any multiple
 * of an element. */
static size_t shift_of(const struct machine *m, int value) {
    bool first = true;
    for (int v = 0; v < value; v++)
        first &= m->g->values[v]->origin != ZT_FROM_INPUT;
    const struct zt_value *v = m->g->values[value];
    bool shifted = (!first && v->origin == ZT_FROM_INPUT) || is_gradient(m, value);
    return m->device->module && shifted ? zt_dtype_bytes(v->dtype) : 0;
}

/* Whether the back end's kernels meet the tensor in other layouts: it has channels and places; blocked, channels or a
 * single element. On the host no node turns other types than floats from one layout to another. */
static bool can_lie(const struct zt_value *v, const struct options *o) {
    if (v->producer >= 0 || v->shape.rank < 3 || v->shape.rank > 5)
        return false;
    const int64_t channels = v->shape.dim[1], places = zt_dims(&v->shape, 2, v->shape.rank);
    const bool is_some = o->blocked ? channels > 1 || zt_shape_count(&v->shape) == 1 : channels > 1 && places > 1;
    return is_some && (o->device->module || (v->dtype == ZT_FLOAT && v->shape.dim[0] > 0));
}

/* Channels last or in blocks for every value, or every second one, that no node makes. */
static void lay_channels(struct zt_graph *g, const struct options *o) {
    const enum zt_order order = o->blocked ? ZT_ORDER_BLOCKED : ZT_ORDER_CHANNELS_LAST;
    int found = 0;
    for (int v = 0; v < g->value_count; v++) {
        struct zt_value *value = g->values[v];
        if (can_lie(value, o) && !(o->mixed && found++ % 2))
            value->layout = zt_layout_of(g->arena, order, o->blocked, value->dtype, &value->shape);
    }
}

/* Filled rows for every matrix that is an input. */
static void lay_rows(struct zt_graph *g) {
    for (int v = 0; v < g->value_count; v++) {
        struct zt_value *value = g->values[v];
        if (value->origin == ZT_FROM_INPUT && value->shape.rank == 2)
            value->layout = zt_layout_of(g->arena, ZT_ORDER_FILLED_ROWS, (int)(value->shape.dim[1] / 8 * 8 + 16),
                                         value->dtype, &value->shape);
    }
}

bool machine_start(struct machine *m, struct zt_graph *g, int *plain, int plain_count, const struct options *o,
                   struct zt_err *err) {
    const struct zt_device_api *api = o->device->api;
    *m = (struct machine){ .g = g, .threads = o->threads, .device = o->device, .workspace_bytes = 1 };
    if ((o->last || o->blocked) && o->backend != ZT_REF)
        lay_channels(g, o);
    if (o->rows && o->device->module)
        lay_rows(g);
    if (!zt_pass_assign(g, &(struct zt_assign_options){ &zt_ops, o->backend, o->threads, o->device }, plain,
                        plain_count, &m->prepared, err))
        return false;
    bool good = true;
    m->buffer = ZT_NEW_N(g->arena, void *, g->value_count);
    m->shared = ZT_NEW_N(g->arena, bool, g->value_count);
    if (o->views)
        mark_views(m);
    for (int v = 0; good && v < g->value_count; v++) {
        const struct zt_value *value = g->values[v];
        if (m->shared[v])
            continue;
        struct zt_tensor constant = { value->dtype, value->shape, value->data };
        char *block = api->allocate(o->device, (size_t)zt_value_bytes(value) + shift_of(m, v), "a tensor", err);
        m->buffer[v] = block ? block + shift_of(m, v) : NULL;
        good = block && (!value->data || machine_feed(m, v, &constant, err));
    }
    for (int n = 0; n < g->node_count; n++)
        if (machine_is_view(m, n))
            m->buffer[g->nodes[n]->out[0]] = m->buffer[g->nodes[n]->in[0]];
    for (int n = 0; n < g->node_count; n++)
        if (m->prepared[n].workspace_bytes > m->workspace_bytes)
            m->workspace_bytes = m->prepared[n].workspace_bytes;
    return good && (m->workspace = api->allocate(o->device, m->workspace_bytes, "workspace", err)) != NULL;
}

void machine_finish(struct machine *m) {
    for (int v = 0; m->buffer && v < m->g->value_count; v++)
        if (m->buffer[v] && !m->shared[v])
            m->device->api->free(m->device, (char *)m->buffer[v] - shift_of(m, v),
                                 (size_t)zt_value_bytes(m->g->values[v]) + shift_of(m, v));
    if (m->workspace)
        m->device->api->free(m->device, m->workspace, m->workspace_bytes);
    if (m->prepared)
        zt_assign_release(m->g, m->prepared);
}

/* [n, c, places] as [n, places, c] */
static void *make_last(struct zt_arena *arena, const struct zt_tensor *t) {
    const int64_t channels = t->shape.dim[1], places = zt_dims(&t->shape, 2, t->shape.rank);
    const struct zt_strided_copy copy = { .shape = { 3, { t->shape.dim[0], places, channels } },
                                          .to_step = { channels * places, channels, 1 },
                                          .from_step = { channels * places, 1, places } };
    const size_t bytes = zt_dtype_bytes(t->dtype);
    void *to = zt_arena_alloc(arena, (size_t)zt_shape_count(&t->shape) * bytes);
    zt_strided_copy_run(1, bytes, &copy, to, t->data);
    return to;
}

/* [n, c, places] as [n, blocks, places, channels of a block], zeros behind the last channel */
static void *make_blocked(struct zt_arena *arena, const struct zt_tensor *t, const struct zt_layout *layout) {
    const int64_t channels = t->shape.dim[1], places = zt_dims(&t->shape, 2, t->shape.rank);
    const size_t size = zt_dtype_bytes(t->dtype);
    int block;
    zt_layout_order(layout, &block);
    const int64_t blocks = (channels + block - 1) / block;
    char *to = zt_arena_alloc(arena, layout->bytes);
    memset(to, 0, layout->bytes);
    for (int64_t i = 0; i < zt_shape_count(&t->shape); i++) {
        const int64_t n = i / places / channels, c = i / places % channels, place = i % places;
        const int64_t at = ((n * blocks + c / block) * places + place) * block + c % block;
        memcpy(to + (size_t)at * size, (const char *)t->data + (size_t)i * size, size);
    }
    return to;
}

/* NaN stands between the rows. */
static void *make_rows(struct zt_arena *arena, const struct zt_tensor *t, const struct zt_layout *layout) {
    const size_t row = (size_t)t->shape.dim[1] * zt_dtype_bytes(t->dtype);
    int64_t step = 0;
    zt_layout_fill(layout, &step);
    char *to = zt_arena_alloc(arena, layout->bytes);
    memset(to, 0xff, layout->bytes);
    for (int64_t r = 0; r < t->shape.dim[0]; r++)
        memcpy(to + (size_t)(r * step) * zt_dtype_bytes(t->dtype), (const char *)t->data + (size_t)r * row, row);
    return to;
}

/* The tensor as it lies in memory. */
static const void *in_layout(struct zt_arena *arena, const struct zt_tensor *tensor, const struct zt_layout *layout) {
    int block;
    switch (zt_layout_order(layout, &block)) {
    case ZT_ORDER_CHANNELS_LAST:
        return make_last(arena, tensor);
    case ZT_ORDER_BLOCKED:
        return make_blocked(arena, tensor, layout);
    case ZT_ORDER_FILLED_ROWS:
        return make_rows(arena, tensor, layout);
    default:
        return tensor->data;
    }
}

bool machine_feed(const struct machine *m, int value, const struct zt_tensor *tensor, struct zt_err *err) {
    const struct zt_layout *layout = m->g->values[value]->layout;
    const void *data = in_layout(m->g->arena, tensor, layout);
    const size_t bytes =
        layout ? layout->bytes : (size_t)zt_shape_count(&tensor->shape) * zt_dtype_bytes(tensor->dtype);
    return m->device->api->to_device(m->device, m->buffer[value], data, bytes, err);
}

bool machine_fetch(const struct machine *m, int value, struct zt_tensor *to, struct zt_err *err) {
    const struct zt_value *v = m->g->values[value];
    void *data = zt_arena_alloc(m->g->arena, (size_t)zt_value_bytes(v));
    *to = (struct zt_tensor){ v->dtype, v->shape, data };
    return m->device->api->to_host(m->device, data, m->buffer[value], (size_t)zt_value_bytes(v), err) &&
           m->device->api->synchronize(m->device, err);
}

bool machine_runs_here(const struct machine *m) {
    for (int n = 0; m->device->module && n < m->g->node_count; n++)
        if (m->g->nodes[n]->backend != m->device->api->backend)
            return false;
    return true;
}

static struct zt_view view(const struct machine *m, int value) {
    if (value < 0)
        return (struct zt_view){ 0 };
    const struct zt_value *v = m->g->values[value];
    return (struct zt_view){ .dtype = v->dtype, .shape = v->shape, .data = m->buffer[value], .layout = v->layout };
}

/* Whether what fills the last block of channels of a blocked tensor is zero, as kernels expect; or NaN, which a weight
 * of zero leaves of one. Of other types than floats nothing is expected. */
static bool has_zero_padding(const struct zt_view *v) {
    const int64_t channels = v->shape.rank > 1 ? v->shape.dim[1] : 0, places = zt_dims(&v->shape, 2, v->shape.rank);
    int block;
    if (zt_layout_order(v->layout, &block) != ZT_ORDER_BLOCKED || channels % block == 0 ||
        !zt_dtype_in(v->dtype, ZT_ANY_FLOAT))
        return true;
    const int64_t blocks = channels / block + 1;
    for (int64_t i = 0; i < v->shape.dim[0] * places; i++)
        for (int64_t c = channels % block; c < block; c++) {
            const int64_t at = ((i / places * blocks + blocks - 1) * places + i % places) * block + c;
            const double number = zt_load_double(v->dtype, v->data, at);
            if (number != 0 && !isnan(number))
                return false;
        }
    return true;
}

static bool run_node(const struct machine *m, int n, bool accumulate, struct zt_err *err) {
    const struct zt_node *node = m->g->nodes[n];
    struct zt_view in[CASE_INPUTS], out[CASE_OUTPUTS];
    if (node->in_count > CASE_INPUTS || node->out_count > CASE_OUTPUTS)
        return zt_node_fail(m->g, n, err, "more inputs or outputs than cases have");
    for (int i = 0; i < node->in_count; i++)
        in[i] = view(m, node->in[i]);
    for (int i = 0; i < node->out_count; i++)
        out[i] = view(m, node->out[i]);
    struct zt_call call = { .graph = m->g,
                            .node = node,
                            .in = in,
                            .out = out,
                            .in_count = node->in_count,
                            .out_count = node->out_count,
                            .state = m->prepared[n].state,
                            .workspace = m->workspace,
                            .threads = m->threads,
                            .accumulate = accumulate,
                            .random = &no_random,
                            .device = m->device };
    if (!node->op->kernel[node->backend].run(&call, err))
        return false;
    for (int i = 0; !m->device->module && i < node->out_count; i++)
        if (out[i].data && !has_zero_padding(&out[i]))
            return zt_node_fail(m->g, n, err, "the channels that fill the last block of output %d are not zero", i);
    return true;
}

bool machine_run_node(const struct machine *m, int n, struct zt_err *err) {
    return run_node(m, n, false, err);
}

bool machine_add_node(const struct machine *m, int n, struct zt_err *err) {
    return run_node(m, n, true, err);
}
