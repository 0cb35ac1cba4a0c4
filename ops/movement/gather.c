/* Gather, GatherElements, GatherND: y = x at indices. Each gradient adds dy up at the same places of zeros. */
#include "ops/movement/gather.h"

#include "device/threads.h"
#include "ops/movement/kernels.h"
#include "ops/movement/combine.h"
#include "ops/movement/gather_cpu.h"
#include "ops/kernel/tile.h"

#include <string.h>

/* ---- index arithmetic ---- */

static bool one_index(const struct zt_call *call, const struct zt_view *indices, int64_t at, int64_t size, int64_t *to,
                      struct zt_err *err) {
    int64_t value = zt_load_int(indices->dtype, indices->data, at);
    *to = zt_wrap_index(value, size);
    return *to >= 0 || zt_call_fail(call, err, "index %lld at place %lld is outside an axis of %lld", (long long)value,
                                    (long long)at, (long long)size);
}

static bool elements_next(struct zt_elements *e, const struct zt_call *call, struct zt_err *err) {
    const struct zt_shape *shape = &e->indices->shape;
    const int last = shape->rank - 1;
    e->first += e->count;
    e->left -= e->count;
    if (e->left <= 0)
        return false;
    int64_t rest = e->first, base = 0, inside = e->first % shape->dim[last];
    for (int k = last; k >= 0; rest /= shape->dim[k--])
        if (k != e->axis)
            base += rest % shape->dim[k] * e->stride[k];
    e->count = zt_min_int(zt_min_int(ZT_ELEMENT_BLOCK, shape->dim[last] - inside), e->left);
    zt_load_block_int(e->indices->dtype, e->indices->data, e->first, 1, e->count, e->offset);
    int64_t difference = 0;
    for (int64_t i = 1; i < e->count; i++)
        difference |= e->offset[i] ^ e->offset[0];
    e->adjacent = difference == 0 && last != e->axis;
    for (int64_t i = 0; i < (e->adjacent ? 1 : e->count); i++) {
        int64_t place = zt_wrap_index(e->offset[i], e->size);
        if (place < 0)
            return zt_call_fail(call, err, "index %lld at place %lld is outside an axis of %lld",
                                (long long)e->offset[i], (long long)(e->first + i), (long long)e->size);
        e->offset[i] = base + place * e->stride[e->axis] + (last == e->axis ? 0 : i);
    }
    return true;
}

enum { PART = 1 << 14 }; /* indices that a thread takes at a time, at least */

struct walk {
    const struct zt_call *call;
    const struct zt_shape *data;
    zt_elements_function *one;
    int axis, failed; /* failed: set by any thread */
    int64_t count, part;
};

static bool walk_part(const struct walk *w, int64_t first, int64_t count, struct zt_err *err) {
    struct zt_elements e = {
        .indices = &w->call->in[1], .axis = w->axis, .size = w->data->dim[w->axis], .first = first, .left = count
    };
    zt_shape_strides(w->data, e.stride);
    while (elements_next(&e, w->call, err))
        w->one(w->call, &e);
    return !err->count;
}

static void walk_block(void *arg, int64_t block) {
    struct walk *w = arg;
    struct zt_err err = { 0 };
    if (!walk_part(w, block * w->part, zt_min_int(w->part, w->count - block * w->part), &err))
        __atomic_store_n(&w->failed, 1, __ATOMIC_RELAXED);
}

bool zt_elements_each(const struct zt_call *call, const struct zt_shape *data, bool apart, zt_elements_function *one,
                      struct zt_err *err) {
    const struct zt_shape *shape = &call->in[1].shape;
    struct walk w = { .call = call, .data = data, .one = one, .axis = zt_gather_axis(call->node, data->rank) };
    w.count = zt_shape_count(shape);
    if (w.count == 0)
        return true;
    const int64_t together = apart ? 1 : zt_dims(shape, w.axis, shape->rank); /* of one place before the axis */
    w.part = zt_ceil_div(PART, together) * together;
    zt_parallel_for(zt_threads_worth(call->threads, (double)w.count), zt_ceil_div(w.count, w.part), walk_block, &w);
    return !w.failed || walk_part(&w, 0, w.count, err); /* once more, to say which */
}

void zt_gather_combine(const struct zt_scatter_reduction *r, const struct zt_elements *e) {
    if (e->adjacent)
        zt_combine_block(r, e->offset[0], e->first, e->count);
    else
        zt_combine_at(r, e->offset, e->first, e->count);
}

bool zt_gather_tuple(const struct zt_call *call, const struct zt_shape *data, int64_t at, int batch_dims,
                     int64_t *offset, struct zt_err *err) {
    const struct zt_view *indices = &call->in[1];
    int last = indices->shape.rank - 1;
    int64_t length = indices->shape.dim[last], value[ZT_MAX_RANK];
    *offset = batch_dims ? at / zt_dims(&indices->shape, batch_dims, last) : 0;
    zt_load_block_int(indices->dtype, indices->data, at * length, 1, length, value);
    for (int64_t k = 0; k < length; k++) {
        const int64_t size = data->dim[batch_dims + k], i = zt_wrap_index(value[k], size);
        if (i < 0)
            return zt_call_fail(call, err, "index %lld at place %lld is outside an axis of %lld", (long long)value[k],
                                (long long)(at * length + k), (long long)size);
        *offset = *offset * size + i;
    }
    *offset *= zt_gather_slice(data, &indices->shape, batch_dims);
    return true;
}

int64_t zt_gather_slice(const struct zt_shape *data, const struct zt_shape *indices, int batch_dims) {
    return zt_dims(data, batch_dims + (int)indices->dim[indices->rank - 1], data->rank);
}

bool zt_gather_elements_fit(struct zt_graph *g, int node, const struct zt_shape *data, const struct zt_shape *indices,
                            struct zt_err *err) {
    char s[ZT_SHAPE_TEXT], t[ZT_SHAPE_TEXT];
    int axis;
    if (!zt_axis(g, node, zt_attr_int(g->nodes[node], "axis", 0), data->rank, &axis, err))
        return false;
    bool fits = indices->rank == data->rank;
    for (int k = 0; fits && k < data->rank; k++)
        fits = k == axis || indices->dim[k] <= data->dim[k];
    return fits || zt_node_fail(g, node, err, "indices of shape %s do not fit data of shape %s",
                                zt_shape_text(indices, s), zt_shape_text(data, t));
}

bool zt_gather_nd_shape(struct zt_graph *g, int node, int batch_dims, struct zt_shape *shape, struct zt_err *err) {
    const struct zt_shape *data = &zt_in(g, node, 0)->shape, *indices = &zt_in(g, node, 1)->shape;
    char s[ZT_SHAPE_TEXT], t[ZT_SHAPE_TEXT];
    int last = indices->rank - 1;
    int64_t length = last >= 0 ? indices->dim[last] : 0;
    bool fits = last >= 0 && batch_dims >= 0 && batch_dims <= last && batch_dims <= data->rank &&
                length <= data->rank - batch_dims;
    for (int k = 0; fits && k < batch_dims; k++)
        fits = data->dim[k] == indices->dim[k];
    if (!fits)
        return zt_node_fail(g, node, err, "indices of shape %s do not fit data of shape %s", zt_shape_text(indices, s),
                            zt_shape_text(data, t));
    if (!zt_ops_rank(g, node, last + data->rank - batch_dims - (int)length, err))
        return false;
    *shape = (struct zt_shape){ .rank = last };
    memcpy(shape->dim, indices->dim, (size_t)last * sizeof *shape->dim);
    for (int k = batch_dims + (int)length; k < data->rank; k++)
        shape->dim[shape->rank++] = data->dim[k];
    return true;
}

/* ---- shared by the gradients: dx is zeros of attribute "shape" ---- */

static bool zeros_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_shape shape;
    if (!zt_ops_ints(g, node, (struct zt_int_source){ -1, "shape" },
                     &(struct zt_int_list){ shape.dim, ZT_MAX_RANK, &shape.rank }, err))
        return false;
    zt_set_out(g, node, 0, zt_in(g, node, 0)->dtype, &shape);
    return true;
}

/* The sums of elements of dy in dx. */
static struct zt_scatter_reduction sums_of(const struct zt_call *call) {
    return (struct zt_scatter_reduction){ ZT_COMBINE_ADD, call->out[0].dtype, call->out[0].data, call->in[0].data };
}

/* The same after dx is set to zeros. */
static struct zt_scatter_reduction into_zeros(const struct zt_call *call) {
    const struct zt_view *dx = &call->out[0];
    size_t bytes = zt_dtype_bytes(dx->dtype) * (size_t)zt_shape_count(&dx->shape);
    if (bytes)
        memset(dx->data, 0, bytes);
    return sums_of(call);
}

static bool give_scattered_of(struct zt_grad *b, int node, const char *op_type, int dy) {
    struct zt_shape x = *zt_grad_in_shape(b, node, 0);
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    const struct zt_node *like = zt_node_attr(n, ZT_GATHER_PADDING) ? NULL : n; /* which has axis 0, the default */
    int in[2] = { dy, n->in[1] };
    zt_grad_give(b, node, 0,
                 zt_emit_own_ints(b, op_type, in, 2, like, (struct zt_ints[]){ { "shape", x.dim, x.rank }, { 0 } }));
    return true;
}

static bool give_scattered(struct zt_grad *b, int node, const char *op_type) {
    return give_scattered_of(b, node, op_type, zt_grad_out(b, node, 0));
}

/* ---- Gather ---- */

static bool gather_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0), *indices = zt_in(g, node, 1);
    struct zt_shape shape = { 0 };
    int axis;
    if (!zt_axis(g, node, zt_attr_int(g->nodes[node], "axis", 0), x->shape.rank, &axis, err) ||
        !zt_ops_rank(g, node, x->shape.rank - 1 + indices->shape.rank, err))
        return false;
    for (int k = 0; k < x->shape.rank; k++)
        if (k != axis)
            shape.dim[shape.rank++] = x->shape.dim[k];
        else
            for (int i = 0; i < indices->shape.rank; i++)
                shape.dim[shape.rank++] = indices->shape.dim[i];
    zt_set_out(g, node, 0, x->dtype, &shape);
    return true;
}

static bool gather_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_view *x = &call->in[0], *indices = &call->in[1];
    int axis = zt_gather_axis(call->node, x->shape.rank);
    int64_t outer = zt_dims(&x->shape, 0, axis), inner = zt_dims(&x->shape, axis + 1, x->shape.rank), i;
    int64_t size = x->shape.dim[axis], count = zt_shape_count(&indices->shape);
    size_t bytes = zt_dtype_bytes(x->dtype) * (size_t)inner;
    for (int64_t o = 0; o < outer && bytes; o++)
        for (int64_t k = 0; k < count; k++) {
            if (!one_index(call, indices, k, size, &i, err))
                return false;
            memcpy(zt_element(call->out[0].data, bytes, o * count + k), zt_element(x->data, bytes, o * size + i),
                   bytes);
        }
    return true;
}

extern const struct zt_op zt_op_gather;

int zt_gather_table(const struct zt_graph *g, int node) {
    const struct zt_node *n = g->nodes[node];
    const int64_t axis = zt_attr_int(n, "axis", 0);
    const struct zt_value *table = n->op == &zt_op_gather ? zt_in(g, node, 0) : NULL;
    return table && (axis == 0 || axis + table->shape.rank == 0) ? table->id : -1;
}

/* dy without the rows whose index is the padding row p of a table of V rows:
 *
 *     dy' = Where(index == p or index == p - V, 0, dy)      index with axes of one element for those of a row */
static int without_padding(struct zt_grad *b, int node, int dy) {
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    const struct zt_value *indices = zt_in(zt_grad_graph(b), node, 1);
    const int64_t row = zt_attr_int(n, ZT_GATHER_PADDING, -1), rows = zt_grad_in_shape(b, node, 0)->dim[0];
    struct zt_shape shape = indices->shape;
    const int rank = shape.rank + zt_grad_in_shape(b, node, 0)->rank - 1;
    while (shape.rank < rank)
        shape.dim[shape.rank++] = 1;
    const int index = ZT_EMIT(b, "Reshape", n->in[1], zt_emit_ints(b, shape.dim, rank));
    int same[2];
    for (int i = 0; i < 2; i++) {
        const int64_t place = row - i * rows;
        same[i] = ZT_EMIT(b, "Equal", index, zt_emit_cast_like(b, zt_emit_ints(b, &place, 1), n->in[1]));
    }
    return ZT_EMIT(b, "Where", ZT_EMIT(b, "Or", same[0], same[1]),
                   zt_emit_float(b, zt_grad_graph(b)->values[dy]->dtype, 0), dy);
}

static bool gather_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    int dy = zt_grad_out(b, node, 0);
    if (zt_node_attr(n, ZT_GATHER_PADDING))
        dy = without_padding(b, node, dy);
    return give_scattered_of(b, node, "GatherGrad", dy);
}

static bool gather_grad_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_view *indices = &call->in[1], *dx = &call->out[0];
    int axis = zt_gather_axis(call->node, dx->shape.rank);
    int64_t outer = zt_dims(&dx->shape, 0, axis), inner = zt_dims(&dx->shape, axis + 1, dx->shape.rank), i;
    int64_t size = dx->shape.dim[axis], count = zt_shape_count(&indices->shape);
    const struct zt_scatter_reduction sums = into_zeros(call);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t k = 0; k < count; k++) {
            if (!one_index(call, indices, k, size, &i, err))
                return false;
            zt_combine_block(&sums, (o * size + i) * inner, (o * count + k) * inner, inner);
        }
    return true;
}

/* ---- GatherElements ---- */

static bool gather_elements_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0), *indices = zt_in(g, node, 1);
    if (!zt_gather_elements_fit(g, node, &x->shape, &indices->shape, err))
        return false;
    zt_set_out(g, node, 0, x->dtype, &indices->shape);
    return true;
}

static void copy_from(size_t bytes, void *to, int64_t at, const void *from, const int64_t *offset, int64_t count) {
    for (int64_t i = 0; i < count && bytes == 4; i++)
        ((uint32_t *)to)[at + i] = ((const uint32_t *)from)[offset[i]];
    for (int64_t i = 0; i < count && bytes != 4; i++)
        memcpy(zt_element(to, bytes, at + i), zt_element(from, bytes, offset[i]), bytes);
}

static void read_block(const struct zt_call *call, const struct zt_elements *e) {
    const struct zt_view *x = &call->in[0];
    const size_t bytes = zt_dtype_bytes(x->dtype);
    void *to = call->out[0].data;
    if (e->adjacent)
        memcpy(zt_element(to, bytes, e->first), zt_element(x->data, bytes, e->offset[0]), bytes * (size_t)e->count);
    else
        copy_from(bytes, to, e->first, x->data, e->offset, e->count);
}

static bool gather_elements_run(const struct zt_call *call, struct zt_err *err) {
    return zt_elements_each(call, &call->in[0].shape, true, read_block, err);
}

static bool gather_elements_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    return give_scattered(b, node, "GatherElementsGrad");
}

static void add_block(const struct zt_call *call, const struct zt_elements *e) {
    const struct zt_scatter_reduction sums = sums_of(call);
    zt_gather_combine(&sums, e);
}

static bool gather_elements_grad_run(const struct zt_call *call, struct zt_err *err) {
    into_zeros(call);
    return zt_elements_each(call, &call->out[0].shape, false, add_block, err);
}

/* ---- GatherND ---- */

static int batch_dims_of(const struct zt_node *node) {
    int64_t batch_dims = zt_attr_int(node, "batch_dims", 0);
    return batch_dims < 0 || batch_dims > ZT_MAX_RANK ? -1 : (int)batch_dims;
}

static bool gather_nd_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_shape shape;
    if (!zt_gather_nd_shape(g, node, batch_dims_of(g->nodes[node]), &shape, err))
        return false;
    zt_set_out(g, node, 0, zt_in(g, node, 0)->dtype, &shape);
    return true;
}

struct tuples {
    const struct zt_call *call;
    int64_t slice, rows;
    int failed; /* set by any thread */
};

static bool read_tuples(const struct tuples *t, int64_t first, int64_t end, struct zt_err *err) {
    const struct zt_view *x = &t->call->in[0];
    const size_t bytes = zt_dtype_bytes(x->dtype);
    const int batch_dims = batch_dims_of(t->call->node);
    int64_t from;
    for (int64_t i = first; i < end; i++) {
        if (!zt_gather_tuple(t->call, &x->shape, i, batch_dims, &from, err))
            return false;
        if (bytes == 4 && t->slice == 1)
            ((uint32_t *)t->call->out[0].data)[i] = ((const uint32_t *)x->data)[from];
        else
            memcpy(zt_element(t->call->out[0].data, bytes, i * t->slice), zt_element(x->data, bytes, from),
                   bytes * (size_t)t->slice);
    }
    return true;
}

enum { TUPLES = 1 << 10 }; /* that a thread reads at a time */

static void read_block_of_tuples(void *arg, int64_t block) {
    struct tuples *t = arg;
    struct zt_err err = { 0 };
    if (!read_tuples(t, block * TUPLES, zt_min_int((block + 1) * TUPLES, t->rows), &err))
        __atomic_store_n(&t->failed, 1, __ATOMIC_RELAXED);
}

static bool gather_nd_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_shape *x = &call->in[0].shape, *indices = &call->in[1].shape;
    struct tuples t = { .call = call,
                        .slice = zt_gather_slice(x, indices, batch_dims_of(call->node)),
                        .rows = zt_dims(indices, 0, indices->rank - 1) };
    if (t.slice == 0)
        return true;
    zt_parallel_for(zt_threads_worth(call->threads, (double)(t.rows * (t.slice + 4))), zt_ceil_div(t.rows, TUPLES),
                    read_block_of_tuples, &t);
    return !t.failed || read_tuples(&t, 0, t.rows, err); /* once more, to say which */
}

static bool gather_nd_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    return give_scattered(b, node, "GatherNDGrad");
}

static bool gather_nd_grad_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_shape *indices = &call->in[1].shape, *dx = &call->out[0].shape;
    const struct zt_scatter_reduction sums = into_zeros(call);
    int batch_dims = batch_dims_of(call->node);
    int64_t slice = zt_gather_slice(dx, indices, batch_dims), to[ZT_ELEMENT_BLOCK];
    int64_t rows = zt_dims(indices, 0, indices->rank - 1);
    for (int64_t i = 0; i < rows && slice; i += ZT_ELEMENT_BLOCK) {
        const int64_t count = zt_min_int(ZT_ELEMENT_BLOCK, rows - i);
        for (int64_t k = 0; k < count; k++)
            if (!zt_gather_tuple(call, dx, i + k, batch_dims, &to[k], err))
                return false;
        if (slice == 1)
            zt_combine_at(&sums, to, i, count);
        for (int64_t k = 0; slice > 1 && k < count; k++)
            zt_combine_block(&sums, to[k], (i + k) * slice, slice);
    }
    return true;
}

/* ---- what other back ends are told ---- */

static bool describe_gather(const struct zt_graph *g, int node, const struct zt_shape *x, void *to) {
    const int axis = zt_gather_axis(g->nodes[node], x->rank);
    *(struct zt_launch_gather *)to = (struct zt_launch_gather){ .index_dtype = zt_in(g, node, 1)->dtype,
                                                                .outer = zt_dims(x, 0, axis),
                                                                .size = x->dim[axis],
                                                                .count = zt_shape_count(&zt_in(g, node, 1)->shape),
                                                                .inner = zt_dims(x, axis + 1, x->rank) };
    return true;
}

bool zt_gather_describe_elements(const struct zt_graph *g, int node, const struct zt_shape *data, enum zt_combine how,
                                 void *to) {
    struct zt_launch_elements *e = to;
    *e = (struct zt_launch_elements){ .index_dtype = zt_in(g, node, 1)->dtype,
                                      .how = how,
                                      .axes = data->rank,
                                      .axis = zt_gather_axis(g->nodes[node], data->rank) };
    memcpy(e->dim, zt_in(g, node, 1)->shape.dim, sizeof e->dim);
    memcpy(e->data, data->dim, sizeof e->data);
    return true;
}

bool zt_gather_describe_tuples(const struct zt_graph *g, int node, const struct zt_shape *data, int batch_dims,
                               enum zt_combine how, void *to) {
    const struct zt_shape *indices = &zt_in(g, node, 1)->shape;
    const int last = indices->rank - 1, length = (int)indices->dim[last];
    struct zt_launch_tuples *t = to;
    *t = (struct zt_launch_tuples){ .index_dtype = zt_in(g, node, 1)->dtype,
                                    .how = how,
                                    .tuples = zt_dims(indices, 0, last),
                                    .length = length,
                                    .slice = zt_gather_slice(data, indices, batch_dims),
                                    .per_batch = zt_max_int(zt_dims(indices, batch_dims, last), 1),
                                    .batch_step = zt_dims(data, batch_dims, batch_dims + length) };
    for (int k = 0; k < length; k++)
        t->size[k] = data->dim[batch_dims + k];
    return true;
}

/* The shape that is indexed: that of the input, or of the gradient's result. */
#define DESCRIBE(id, DATA, CALL)                                                                                       \
    static bool id##_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {                      \
        (void)err;                                                                                                     \
        const struct zt_shape *data = &DATA(g, node, 0)->shape;                                                        \
        return CALL;                                                                                                   \
    }
DESCRIBE(gather, zt_in, describe_gather(g, node, data, to))
DESCRIBE(gather_grad, zt_out, describe_gather(g, node, data, to))
DESCRIBE(gather_elements, zt_in, zt_gather_describe_elements(g, node, data, ZT_COMBINE_ADD, to))
DESCRIBE(gather_elements_grad, zt_out, zt_gather_describe_elements(g, node, data, ZT_COMBINE_ADD, to))
DESCRIBE(gather_nd, zt_in, zt_gather_describe_tuples(g, node, data, batch_dims_of(g->nodes[node]), ZT_COMBINE_ADD, to))
DESCRIBE(gather_nd_grad, zt_out,
         zt_gather_describe_tuples(g, node, data, batch_dims_of(g->nodes[node]), ZT_COMBINE_ADD, to))

/* ---- rows ---- */

static const struct zt_attr_spec with_axis[] = { { "axis", ZT_ATTR_INT }, { 0 } };
static const struct zt_attr_spec with_batch[] = { { "batch_dims", ZT_ATTR_INT }, { 0 } };
static const struct zt_attr_spec with_axis_shape[] = { { "axis", ZT_ATTR_INT },
                                                       { "shape", ZT_ATTR_INTS, true },
                                                       { 0 } };
static const struct zt_attr_spec with_batch_shape[] = { { "batch_dims", ZT_ATTR_INT },
                                                        { "shape", ZT_ATTR_INTS, true },
                                                        { 0 } };

/* SLICES: inputs of indices that select whole slices. Last: the fast kernels of the op and of the gradient. */
#define GATHER_ROWS(id, NAME, SINCE, SLICES, ATTRS, GRAD_ATTRS, FAST, GRAD_FAST, CUDA, CUDA_GRAD)                      \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = NAME,                                                                                                  \
        .domain = "",                                                                                                  \
        .since = SINCE,                                                                                                \
        ZT_ONE_OUT(2, 2),                                                                                              \
        .flags = ZT_OP_LIGHT,                                                                                          \
        .in_types = { 0, ZT_ANY_INDEX },                                                                               \
        .attrs = ATTRS,                                                                                                \
        .infer = id##_infer,                                                                                           \
        .grad = id##_grad,                                                                                             \
        .no_grad_in = 1 << 1,                                                                                          \
        .slice_in = SLICES,                                                                                            \
        .kernel = { [ZT_REF] = { .run = id##_run },                                                                    \
                    [ZT_CPU] = FAST,                                                                                   \
                    [ZT_CUDA] = ZT_CUDA_AS(CUDA, zt_cuda_any, id##_describe) },                                        \
    };                                                                                                                 \
    const struct zt_op zt_op_##id##_grad = {                                                                           \
        .name = NAME "Grad",                                                                                           \
        .domain = "ztrain",                                                                                            \
        .since = 1,                                                                                                    \
        ZT_ONE_OUT(2, 2),                                                                                              \
        .in_types = { ZT_ANY_FLOAT, ZT_ANY_INDEX },                                                                    \
        .attrs = GRAD_ATTRS,                                                                                           \
        .infer = zeros_infer,                                                                                          \
        .body = zt_##id##_grad_function_body,                                                                          \
        .kernel = { [ZT_REF] = { .run = id##_grad_run },                                                               \
                    [ZT_CPU] = GRAD_FAST,                                                                              \
                    [ZT_CUDA] = ZT_CUDA_AS(CUDA_GRAD, zt_cuda_float_data, id##_grad_describe) },                       \
    };

GATHER_ROWS(gather, "Gather", 1, 1 << 1, with_axis, with_axis_shape, ZT_GATHER_CPU, ZT_GATHER_GRAD_CPU, gather,
            gather_grad)
GATHER_ROWS(gather_elements, "GatherElements", 11, 0, with_axis, with_axis_shape, { 0 }, { 0 }, gather_elements,
            gather_elements_grad)
GATHER_ROWS(gather_nd, "GatherND", 11, 0, with_batch, with_batch_shape, { 0 }, { 0 }, gather_tuples, gather_tuples_grad)
