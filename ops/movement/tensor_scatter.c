/* TensorScatter (opset 24 on), the update of a cache of keys or values: y = cache, but along an axis the rows
 * write_indices[b] + s of sample b are row s of the update. Without write_indices they begin at 0; in mode circular
 * they wrap around. No row is written twice, as an update has at most as many rows as the cache.
 *
 *     dcache = dy with zeros written in        dupdate = dy read at the same rows */
#include "ops/movement/launch_pad.h"
#include "ops/movement/kernels.h"
#include "ops/kernel/shape.h"

#include <string.h>

enum { CACHE, UPDATE, PLACES };

static bool read_mode(const struct zt_graph *g, int node, struct zt_launch_tensor_scatter *s, struct zt_err *err) {
    const char *mode = zt_attr_text(g->nodes[node], "mode", "linear");
    s->circular = strcmp(mode, "circular") == 0;
    return s->circular || strcmp(mode, "linear") == 0 ||
           zt_node_fail(g, node, err, "mode is \"%s\", wants linear or circular", mode);
}

static bool read_axis(const struct zt_graph *g, int node, int *axis, struct zt_err *err) {
    const int64_t given = zt_attr_int(g->nodes[node], "axis", -2);
    if (!zt_axis(g, node, given, zt_in(g, node, CACHE)->shape.rank, axis, err))
        return false;
    return *axis > 0 || zt_node_fail(g, node, err, "axis %lld is that of the batch", (long long)given);
}

/* Shapes and attributes, and the axis as 1..rank-1. */
static bool read_node(const struct zt_graph *g, int node, struct zt_launch_tensor_scatter *s, int *axis,
                      struct zt_err *err) {
    const struct zt_value *places = zt_in(g, node, PLACES);
    const struct zt_shape *cache = &zt_in(g, node, CACHE)->shape, *update = &zt_in(g, node, UPDATE)->shape;
    char have[ZT_SHAPE_TEXT], want[ZT_SHAPE_TEXT];
    if (!read_mode(g, node, s, err) || !read_axis(g, node, axis, err))
        return false;
    struct zt_shape fits = *cache;
    fits.dim[*axis] = update->rank == cache->rank ? update->dim[*axis] : 0;
    if (!zt_shape_equal(&fits, update) || fits.dim[*axis] > cache->dim[*axis])
        return zt_node_fail(g, node, err,
                            "the update has shape %s, wants that of the cache, %s, with as many or fewer "
                            "rows along axis %d",
                            zt_shape_text(update, have), zt_shape_text(cache, want), *axis);
    if (places && (places->shape.rank != 1 || places->shape.dim[0] != cache->dim[0]))
        return zt_node_fail(g, node, err, "write_indices has shape %s, wants [%lld]",
                            zt_shape_text(&places->shape, have), (long long)cache->dim[0]);
    s->samples = cache->dim[0];
    s->middle = zt_dims(cache, 1, *axis);
    s->rows = cache->dim[*axis];
    s->updates = update->dim[*axis];
    s->inner = zt_dims(cache, *axis + 1, cache->rank);
    return true;
}

static bool infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_launch_tensor_scatter s;
    int axis;
    return read_node(g, node, &s, &axis, err) && zt_infer_first(g, node, err);
}

static bool describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    int axis;
    return read_node(g, node, to, &axis, err);
}

/* ---- reference kernel ---- */

/* The first row that sample b writes. */
static bool place_of(const struct zt_call *call, const struct zt_launch_tensor_scatter *s, int64_t b, int64_t *to,
                     struct zt_err *err) {
    const struct zt_view *places = call->in_count > PLACES ? &call->in[PLACES] : NULL;
    const int64_t place = places && places->data ? zt_load_int(places->dtype, places->data, b) : 0;
    *to = place;
    if (s->circular && s->rows > 0) {
        *to = place % s->rows;
        *to += *to < 0 ? s->rows : 0;
    }
    return s->circular || (place >= 0 && place <= s->rows - s->updates) ||
           zt_call_fail(call, err, "write index %lld of sample %lld is outside 0..%lld", (long long)place, (long long)b,
                        (long long)(s->rows - s->updates));
}

/* Copies the rows of one matrix: up to the end of the cache, then from its start on. */
static void write_rows(const struct zt_launch_tensor_scatter *s, int64_t place, size_t bytes, const char *from,
                       char *to) {
    const int64_t left = s->rows - place, first = s->updates < left ? s->updates : left;
    memcpy(to + (size_t)place * bytes, from, (size_t)first * bytes);
    memcpy(to, from + (size_t)first * bytes, (size_t)(s->updates - first) * bytes);
}

static bool run(const struct zt_call *call, struct zt_err *err) {
    struct zt_launch_tensor_scatter s;
    int axis;
    if (!read_node(call->graph, zt_call_node(call), &s, &axis, err) || !zt_run_copy(call, err))
        return false;
    const size_t bytes = zt_dtype_bytes(call->out[0].dtype) * (size_t)s.inner;
    for (int64_t b = 0; b < s.samples; b++) {
        int64_t place;
        if (!place_of(call, &s, b, &place, err))
            return false;
        for (int64_t m = b * s.middle; m < (b + 1) * s.middle && s.updates > 0 && s.inner > 0; m++)
            write_rows(&s, place, bytes, zt_element(call->in[UPDATE].data, bytes, m * s.updates),
                       zt_element(call->out[0].data, bytes, m * s.rows));
    }
    return true;
}

/* ---- gradients ---- */

/* The shape [1, .., count, .., 1] of `rank` axes, with `samples` first. */
static struct zt_shape along(int rank, int axis, int64_t samples, int64_t count) {
    struct zt_shape shape = { .rank = rank };
    for (int k = 0; k < rank; k++)
        shape.dim[k] = 1;
    shape.dim[0] = samples;
    shape.dim[axis] = count;
    return shape;
}

/* The row of every element of the update in the cache. */
static int places_of(struct zt_grad *b, int node, int axis) {
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    const struct zt_shape cache = *zt_grad_in_shape(b, node, CACHE), update = *zt_grad_in_shape(b, node, UPDATE);
    const struct zt_shape samples = along(cache.rank, axis, cache.dim[0], 1),
                          rows = along(cache.rank, axis, 1, update.dim[axis]);
    const bool circular = strcmp(zt_attr_text(n, "mode", "linear"), "circular") == 0;
    const int size = zt_emit_ints(b, &cache.dim[axis], 1);
    int first = n->in[PLACES];
    int64_t *number = ZT_NEW_N(zt_grad_graph(b)->arena, int64_t, update.dim[axis]);
    for (int64_t s = 0; s < update.dim[axis]; s++)
        number[s] = s;
    if (circular)
        first = ZT_EMIT(b, "Mod", first, size);
    int at = ZT_EMIT(b, "Add", ZT_EMIT(b, "Reshape", first, zt_emit_ints(b, samples.dim, samples.rank)),
                     zt_graph_add_constant(zt_grad_graph(b), NULL, ZT_INT64, &rows, number));
    if (circular)
        at = ZT_EMIT(b, "Mod", at, size);
    return ZT_EMIT(b, "Expand", at, zt_emit_ints(b, update.dim, update.rank));
}

/* dy at the rows of the update. */
static int read_rows(struct zt_grad *b, int node, int axis, int dy) {
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    const struct zt_shape update = *zt_grad_in_shape(b, node, UPDATE);
    const struct zt_attr along_axis = { .name = "axis", .type = ZT_ATTR_INT, .i = axis };
    const int64_t zero = 0, which = axis;
    int out = -1;
    if (n->in_count <= PLACES || n->in[PLACES] < 0)
        return ZT_EMIT(b, "Slice", dy, zt_emit_ints(b, &zero, 1), zt_emit_ints(b, &update.dim[axis], 1),
                       zt_emit_ints(b, &which, 1));
    const int in[2] = { dy, places_of(b, node, axis) };
    zt_emit_node(b, &(struct zt_emission){ "GatherElements", "", in, 2, NULL, &along_axis, 1 }, &out, 1);
    return out;
}

static bool grad(struct zt_grad *b, int node, struct zt_err *err) {
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    const int dy = zt_grad_out(b, node, 0);
    struct zt_launch_tensor_scatter s;
    int axis, out = -1;
    if (!read_node(zt_grad_graph(b), node, &s, &axis, err))
        return false;
    if (zt_grad_wanted(b, node, CACHE)) {
        const int in[3] = { dy, zt_emit_zeros_like(b, n->in[UPDATE]), n->in_count > PLACES ? n->in[PLACES] : -1 };
        zt_emit_node(b, &(struct zt_emission){ "TensorScatter", "", in, 3, n }, &out, 1);
        zt_grad_give(b, node, CACHE, out);
    }
    if (zt_grad_wanted(b, node, UPDATE))
        zt_grad_give(b, node, UPDATE, read_rows(b, node, axis, dy));
    return true;
}

static const struct zt_attr_spec attrs[] = { { "axis", ZT_ATTR_INT }, { "mode", ZT_ATTR_STRING }, { 0 } };

const struct zt_op zt_op_tensor_scatter = {
    .name = "TensorScatter",
    .domain = "",
    .since = 24,
    ZT_ONE_OUT(2, 3),
    .in_types = { 0, 0, ZT_BIT(ZT_INT64) },
    .same_type = 1 << UPDATE,
    .attrs = attrs,
    .infer = infer,
    .grad = grad,
    .no_grad_in = 1 << PLACES,
    .kernel = { [ZT_REF] = { .run = run }, [ZT_CUDA] = ZT_CUDA_AS(tensor_scatter, zt_cuda_any, describe) },
};
