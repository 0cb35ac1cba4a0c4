/* Pad. Every output index has one source index per axis (or none: the constant); the gradient adds dy up there. */
#include "device/threads.h"
#include "ops/movement/combine.h"
#include "ops/movement/launch_pad.h"
#include "ops/movement/kernels.h"
#include "ops/movement/slice.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"

#include <string.h>

/* Source of index i of an axis of `size` elements, -1: outside. `i` is already shifted by the padding in front. */
struct mode {
    const char *name;
    int since;
    int64_t (*source)(int64_t i, int64_t size);
};

static int64_t constant_source(int64_t i, int64_t size) {
    return i < 0 || i >= size ? -1 : i;
}

static int64_t edge_source(int64_t i, int64_t size) {
    return i < 0 ? 0 : i >= size ? size - 1 : i;
}

/* ... 2 1 [0 1 2] 1 0 ... */
static int64_t reflect_source(int64_t i, int64_t size) {
    int64_t period = 2 * (size - 1);
    if (period == 0)
        return 0;
    i %= period;
    i += i < 0 ? period : 0;
    return i < size ? i : period - i;
}

static int64_t wrap_source(int64_t i, int64_t size) {
    i %= size;
    return i < 0 ? i + size : i;
}

static const struct mode modes[] = { { "constant", 1, constant_source },
                                     { "edge", 1, edge_source },
                                     { "reflect", 1, reflect_source },
                                     { "wrap", 19, wrap_source },
                                     { 0 } };

static const struct mode *mode_of(const struct zt_node *node) {
    const struct mode *m = modes;
    const char *name = zt_attr_text(node, "mode", "constant");
    while (m->name && (strcmp(m->name, name) != 0 || (node->domain[0] == 0 && node->opset < m->since)))
        m++;
    return m->name ? m : NULL;
}

/* Paddings in front and behind of every axis. */
static bool pads_of(const struct zt_graph *g, int node, int rank, int64_t front[ZT_MAX_RANK],
                    int64_t behind[ZT_MAX_RANK], struct zt_err *err) {
    int64_t pads[2 * ZT_MAX_RANK], axes[ZT_MAX_RANK];
    int count, named;
    struct zt_axis_set distinct;
    memset(front, 0, ZT_MAX_RANK * sizeof *front);
    memset(behind, 0, ZT_MAX_RANK * sizeof *behind);
    if (!zt_ops_ints(g, node, (struct zt_int_source){ 1, "pads" },
                     &(struct zt_int_list){ pads, 2 * ZT_MAX_RANK, &count }, err) ||
        !zt_ops_ints(g, node, (struct zt_int_source){ 3, NULL }, &(struct zt_int_list){ axes, ZT_MAX_RANK, &named },
                     err) ||
        !zt_ops_axes(g, node, (struct zt_int_source){ 3, NULL }, rank, &distinct, err))
        return false;
    int axis_count = named < 0 ? rank : named;
    if (count != 2 * axis_count)
        return zt_node_fail(g, node, err, "has %d paddings for %d axes", count, axis_count);
    for (int i = 0; i < axis_count; i++) {
        int64_t axis = named < 0 ? i : axes[i] < 0 ? axes[i] + rank : axes[i];
        front[axis] = pads[i];
        behind[axis] = pads[i + axis_count];
    }
    return true;
}

bool zt_pad_reads_zeros(const struct zt_graph *g, int node, int64_t front[ZT_MAX_RANK], int64_t behind[ZT_MAX_RANK]) {
    const struct zt_value *fill = zt_in(g, node, 2);
    const struct mode *mode = mode_of(g->nodes[node]);
    struct zt_err ignored = { 0 };
    if (fill && (!zt_value_is_constant(fill) || zt_load_double(fill->dtype, fill->data, 0) != 0))
        return false;
    return mode && mode->source == constant_source && zt_attr_float(g->nodes[node], "value", 0) == 0 &&
           pads_of(g, node, zt_in(g, node, 0)->shape.rank, front, behind, &ignored);
}

static bool pad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0), *fill = zt_in(g, node, 2);
    const struct mode *mode = mode_of(g->nodes[node]);
    struct zt_shape shape = x->shape;
    int64_t front[ZT_MAX_RANK], behind[ZT_MAX_RANK];
    if (!mode)
        return zt_node_fail(g, node, err,
                            "attribute \"mode\" is \"%s\", wants constant, edge, reflect or (opset 19) wrap",
                            zt_attr_text(g->nodes[node], "mode", ""));
    if (fill && zt_shape_count(&fill->shape) != 1)
        return zt_node_fail(g, node, err, "the constant \"%s\" is not a scalar", fill->name);
    if (!pads_of(g, node, shape.rank, front, behind, err))
        return false;
    for (int k = 0; k < shape.rank; k++) {
        const int64_t most = INT64_C(1) << 40;
        if (front[k] > most || behind[k] > most || front[k] < -most || behind[k] < -most ||
            shape.dim[k] + front[k] + behind[k] < 0)
            return zt_node_fail(g, node, err, "axis %d of size %lld cannot be padded by %lld and %lld", k,
                                (long long)shape.dim[k], (long long)front[k], (long long)behind[k]);
        shape.dim[k] += front[k] + behind[k];
        if (x->shape.dim[k] == 0 && shape.dim[k] > 0 && mode->source != constant_source)
            return zt_node_fail(g, node, err, "axis %d is empty, there is nothing to pad it with", k);
    }
    zt_set_out(g, node, 0, x->dtype, &shape);
    return true;
}

/* A padded tensor as rows along its last axis. Leading axes without padding are cut into blocks. */
struct rows {
    const struct mode *mode;
    struct zt_shape small, big; /* of rank 1 at least */
    const int64_t *front;
    int outer;              /* those axes */
    int64_t blocks, rows;   /* rows of the big tensor a block */
    int64_t from, to, flat; /* where the inside of a row is in the big one, the element it begins with in the small */
    const struct zt_view *x, *y;
    uint64_t fill;
};

static void find_rows(struct rows *l, const struct zt_view *small, const struct zt_view *big, const int64_t *front) {
    static const int64_t none[1] = { 0 };
    l->small = small->shape;
    l->big = big->shape;
    l->front = front;
    if (l->small.rank == 0) {
        l->small = l->big = (struct zt_shape){ 1, { 1 } };
        l->front = none;
    }
    const int last = l->big.rank - 1;
    const int64_t n = l->small.dim[last], wide = l->big.dim[last], shift = l->front[last];
    int k = 0;
    l->blocks = 1;
    for (; k < last && l->front[k] == 0 && l->small.dim[k] == l->big.dim[k]; k++)
        l->blocks *= l->small.dim[k];
    l->outer = k;
    l->rows = zt_dims(&l->big, k, last);
    l->from = shift < 0 ? 0 : shift > wide ? wide : shift;
    l->to = n + shift < l->from ? l->from : n + shift > wide ? wide : n + shift;
    l->flat = l->from - shift;
}

/* Offset of the row of the small tensor that row `row` of a block of the big one copies, -1: none. */
static int64_t source_row(const struct rows *l, int64_t block, int64_t row) {
    const int last = l->big.rank - 1;
    int64_t offset = 0, step = l->small.dim[last];
    for (int k = last - 1; k >= l->outer; k--) {
        const int64_t at = k > l->outer ? row % l->big.dim[k] : row;
        const int64_t i = l->mode->source(at - l->front[k], l->small.dim[k]);
        if (i < 0)
            return -1;
        offset += i * step;
        step *= l->small.dim[k];
        row = k > l->outer ? row / l->big.dim[k] : 0;
    }
    return block * step + offset;
}

#define FILL(TYPE)                                                                                                     \
    do {                                                                                                               \
        TYPE fill;                                                                                                     \
        memcpy(&fill, &l->fill, sizeof fill);                                                                          \
        for (int64_t i = from; i < to; i++)                                                                            \
            ((TYPE *)l->y->data)[i] = fill;                                                                            \
    } while (0)

/* Elements [from, to) of y become the constant. */
static void fill_elements(const struct rows *l, size_t bytes, int64_t from, int64_t to) {
    if (bytes == 4)
        FILL(uint32_t);
    else if (bytes == 8)
        FILL(uint64_t);
    else if (bytes == 2)
        FILL(uint16_t);
    else
        FILL(uint8_t);
}

/* Columns [from, to) of a row of y, which lie outside. */
static void pad_outside(const struct rows *l, int64_t start, int64_t source, int64_t from, int64_t to) {
    const size_t bytes = zt_dtype_bytes(l->y->dtype);
    const int last = l->big.rank - 1;
    if (source < 0 || l->mode->source == constant_source) {
        fill_elements(l, bytes, start + from, start + to);
        return;
    }
    for (int64_t c = from; c < to; c++) {
        const int64_t i = l->mode->source(c - l->front[last], l->small.dim[last]);
        memcpy(zt_element(l->y->data, bytes, start + c), zt_element(l->x->data, bytes, source + i), bytes);
    }
}

static void pad_block(void *arg, int64_t block) {
    const struct rows *l = arg;
    const size_t bytes = zt_dtype_bytes(l->y->dtype);
    const int64_t wide = l->big.dim[l->big.rank - 1];
    for (int64_t row = 0; row < l->rows; row++) {
        const int64_t source = source_row(l, block, row), start = (block * l->rows + row) * wide;
        if (source < 0) {
            pad_outside(l, start, source, 0, wide);
            continue;
        }
        pad_outside(l, start, source, 0, l->from);
        memcpy(zt_element(l->y->data, bytes, start + l->from), zt_element(l->x->data, bytes, source + l->flat),
               bytes * (size_t)(l->to - l->from));
        pad_outside(l, start, source, l->to, wide);
    }
}

static bool pad_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_view *x = &call->in[0], *y = &call->out[0];
    int64_t front[ZT_MAX_RANK], behind[ZT_MAX_RANK];
    struct rows l = { .mode = mode_of(call->node), .x = x, .y = y };
    if (!pads_of(call->graph, zt_call_node(call), x->shape.rank, front, behind, err))
        return false;
    if (call->in_count > 2 && call->in[2].data)
        memcpy(&l.fill, call->in[2].data, zt_dtype_bytes(x->dtype));
    else
        zt_store_double(x->dtype, &l.fill, 0, (double)zt_attr_float(call->node, "value", 0));
    find_rows(&l, x, y, front);
    if (zt_shape_count(&y->shape) > 0)
        zt_parallel_for(zt_threads_worth(call->threads, (double)zt_shape_count(&y->shape)), l.blocks, pad_block, &l);
    return true;
}

/* A struct zt_launch_pad; the modes are in the order of its enumeration. */
static void describe(const struct zt_node *n, const struct zt_shape *small, const struct zt_shape *big,
                     const int64_t *front, struct zt_launch_pad *to) {
    *to = (struct zt_launch_pad){ .mode = (enum zt_launch_padding)(mode_of(n) - modes), .axes = small->rank };
    memcpy(to->small, small->dim, sizeof to->small);
    memcpy(to->big, big->dim, sizeof to->big);
    memcpy(to->front, front, (size_t)small->rank * sizeof *front);
}

static bool pad_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0);
    int64_t front[ZT_MAX_RANK], behind[ZT_MAX_RANK];
    struct zt_launch_pad *p = to;
    if (!pads_of(g, node, x->shape.rank, front, behind, err))
        return false;
    describe(g->nodes[node], &x->shape, &zt_out(g, node, 0)->shape, front, p);
    zt_store_double(x->dtype, &p->fill, 0, (double)zt_attr_float(g->nodes[node], "value", 0));
    return true;
}

static bool pad_grad_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    (void)err;
    int rank;
    const int64_t *front = zt_attr_ints(g->nodes[node], "front", &rank);
    describe(g->nodes[node], &zt_out(g, node, 0)->shape, &zt_in(g, node, 0)->shape, front, to);
    return true;
}

static bool pad_grad(struct zt_grad *b, int node, struct zt_err *err) {
    struct zt_graph *g = zt_grad_graph(b);
    struct zt_shape x = *zt_grad_in_shape(b, node, 0);
    int64_t front[ZT_MAX_RANK], behind[ZT_MAX_RANK];
    if (!pads_of(g, node, x.rank, front, behind, err))
        return false;
    int dy = zt_grad_out(b, node, 0), dx;
    struct zt_attr attrs[] = {
        { .name = "shape",
          .type = ZT_ATTR_INTS,
          .count = x.rank,
          .ints = zt_arena_copy(g->arena, x.dim, sizeof x.dim) },
        { .name = "front",
          .type = ZT_ATTR_INTS,
          .count = x.rank,
          .ints = zt_arena_copy(g->arena, front, sizeof front) },
        { .name = "mode", .type = ZT_ATTR_STRING, .s = mode_of(g->nodes[node])->name },
    };
    zt_emit_node(b, &(struct zt_emission){ "PadGrad", "ztrain", &dy, 1, NULL, attrs, 3 }, &dx, 1);
    zt_grad_give(b, node, 0, dx);
    return true;
}

static bool pad_grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *dy = zt_in(g, node, 0);
    int64_t front[ZT_MAX_RANK];
    struct zt_shape shape;
    int count;
    if (!zt_ops_ints(g, node, (struct zt_int_source){ -1, "shape" },
                     &(struct zt_int_list){ shape.dim, ZT_MAX_RANK, &shape.rank }, err) ||
        !zt_ops_ints(g, node, (struct zt_int_source){ -1, "front" },
                     &(struct zt_int_list){ front, ZT_MAX_RANK, &count }, err))
        return false;
    if (shape.rank != dy->shape.rank || count != shape.rank || !mode_of(g->nodes[node]))
        return zt_node_fail(g, node, err, "its attributes do not fit %d axes", dy->shape.rank);
    zt_set_out(g, node, 0, dy->dtype, &shape);
    return true;
}

/* Blocks write to parts of dx of their own. */
static void pad_grad_block(void *arg, int64_t block) {
    const struct rows *l = arg;
    const int last = l->big.rank - 1;
    const int64_t wide = l->big.dim[last];
    const bool once = l->mode->source == constant_source; /* no element has two gradients */
    const struct zt_scatter_reduction r = { once ? ZT_COMBINE_REPLACE : ZT_COMBINE_ADD, l->x->dtype, l->x->data,
                                            l->y->data };
    for (int64_t row = 0; row < l->rows; row++) {
        const int64_t to = source_row(l, block, row), start = (block * l->rows + row) * wide;
        for (int64_t c = 0; !once && to >= 0 && c < l->from; c++) {
            int64_t i = l->mode->source(c - l->front[last], l->small.dim[last]);
            if (i >= 0)
                zt_combine_element(&r, to + i, start + c);
        }
        if (to >= 0)
            zt_combine_block(&r, to + l->flat, start + l->from, l->to - l->from);
        for (int64_t c = l->to; !once && to >= 0 && c < wide; c++) {
            int64_t i = l->mode->source(c - l->front[last], l->small.dim[last]);
            if (i >= 0)
                zt_combine_element(&r, to + i, start + c);
        }
    }
}

static bool pad_grad_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct zt_view *dy = &call->in[0], *dx = &call->out[0];
    struct rows l = { .mode = mode_of(call->node), .x = dx, .y = dy };
    int rank;
    const int64_t *front = zt_attr_ints(call->node, "front", &rank);
    memset(dx->data, 0, zt_dtype_bytes(dx->dtype) * (size_t)zt_shape_count(&dx->shape));
    find_rows(&l, dx, dy, front);
    if (zt_shape_count(&dy->shape) > 0)
        zt_parallel_for(zt_threads_worth(call->threads, (double)zt_shape_count(&dy->shape)), l.blocks, pad_grad_block,
                        &l);
    return true;
}

static const struct zt_attr_spec pad_attrs_2[] = {
    { "pads", ZT_ATTR_INTS, true }, { "mode", ZT_ATTR_STRING }, { "value", ZT_ATTR_FLOAT }, { 0 }
};
static const struct zt_attr_spec with_mode[] = { { "mode", ZT_ATTR_STRING }, { 0 } };
static const struct zt_attr_spec pad_grad_attrs[] = {
    { "shape", ZT_ATTR_INTS, true }, { "front", ZT_ATTR_INTS, true }, { "mode", ZT_ATTR_STRING, true }, { 0 }
};

#define PAD_ROW(id, SINCE, UNTIL, LEAST, MOST, ATTRS)                                                                  \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = "Pad",                                                                                                 \
        .domain = "",                                                                                                  \
        .since = SINCE,                                                                                                \
        .until = UNTIL,                                                                                                \
        ZT_ONE_OUT(LEAST, MOST),                                                                                       \
        .flags = ZT_OP_LIGHT,                                                                                          \
        .in_types = { ZT_ANY_STORED, ZT_BIT(ZT_INT64), ZT_ANY_STORED, ZT_BIT(ZT_INT32) | ZT_BIT(ZT_INT64) },           \
        .same_type = 1 << 2,                                                                                           \
        .attrs = ATTRS,                                                                                                \
        .infer = pad_infer,                                                                                            \
        .grad = pad_grad,                                                                                              \
        .no_grad_in = 0xe,                                                                                             \
        .body = zt_pad_old_function_body,                                                                              \
        .kernel = { [ZT_REF] = { .run = pad_run }, [ZT_CUDA] = ZT_CUDA_AS(pad, zt_cuda_any, pad_describe) },           \
    };

PAD_ROW(pad_2, 2, 10, 1, 1, pad_attrs_2)
PAD_ROW(pad_11, 11, 17, 2, 3, with_mode)
PAD_ROW(pad, 18, 0, 2, 4, with_mode)

const struct zt_op zt_op_pad_grad = {
    .name = "PadGrad",
    .domain = "ztrain",
    .since = 1,
    ZT_ONE_OUT(1, 1),
    .flags = ZT_OP_LIGHT,
    .in_types = { ZT_ANY_FLOAT },
    .attrs = pad_grad_attrs,
    .infer = pad_grad_infer,
    .body = zt_pad_grad_function_body,
    .kernel = { [ZT_REF] = { .run = pad_grad_run },
                [ZT_CUDA] = ZT_CUDA_AS(pad_grad, zt_cuda_floats, pad_grad_describe) },
};
