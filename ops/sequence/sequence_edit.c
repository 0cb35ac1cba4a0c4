/* SequenceEmpty, SequenceConstruct, SequenceInsert, SequenceErase, SequenceAt, SequenceLength: lists from lists
 * (ops/sequence/sequence.h). Positions count from the end where they are negative. */
#include "ops/kernel/shape.h"
#include "ops/sequence/sequence.h"

#include <limits.h>
#include <stdlib.h>

static bool empty_expand(struct zt_expansion *x, struct zt_err *err) {
    const int64_t dtype = zt_attr_int(x->g->nodes[x->node], "dtype", ZT_FLOAT);
    if (dtype <= 0 || dtype >= ZT_DTYPES || !zt_dtype_in((enum zt_dtype)dtype, ZT_ANY_TYPE))
        return zt_node_fail(x->g, x->node, err, "dtype is %lld, which ztrain does not compute with", (long long)dtype);
    return zt_sequence_done(x, &(struct zt_list){ .kind = ZT_SEQUENCE, .dtype = (enum zt_dtype)dtype }, err);
}

static bool construct_expand(struct zt_expansion *x, struct zt_err *err) {
    const struct zt_node *n = x->g->nodes[x->node];
    struct zt_list list = { .kind = ZT_SEQUENCE, .count = n->in_count, .at = n->in };
    for (int i = 0; i < n->in_count; i++) {
        const struct zt_value *v = zt_sequence_tensor(x, i, err);
        list.dtype = v && !i ? v->dtype : list.dtype;
        if (!v || !zt_sequence_same_type(x, list.dtype, v, err))
            return false;
    }
    return zt_sequence_done(x, &list, err);
}

/* Elements are inserted in front of `position`. */
static bool insert_expand(struct zt_expansion *x, struct zt_err *err) {
    const struct zt_list *from = zt_sequence_in(x, 0, err);
    const struct zt_value *tensor = from ? zt_sequence_tensor(x, 1, err) : NULL;
    int position;
    if (!tensor || !zt_sequence_same_type(x, from->dtype, tensor, err) ||
        !zt_sequence_position(x, 2, &(struct zt_sequence_range){ from->count, true }, &position, err))
        return false;
    if (position == from->count)
        return zt_sequence_append(x, from, tensor->id, err);
    int *at = zt_malloc(((size_t)from->count + 1) * sizeof *at);
    for (int i = 0; i <= from->count; i++)
        at[i] = i == position ? tensor->id : from->at[i - (i > position)];
    const struct zt_list list = { .kind = ZT_SEQUENCE, .dtype = from->dtype, .count = from->count + 1, .at = at };
    const bool ok = zt_sequence_done(x, &list, err);
    free(at);
    return ok;
}

static bool erase_expand(struct zt_expansion *x, struct zt_err *err) {
    const struct zt_list *from = zt_sequence_in(x, 0, err);
    int position;
    if (!from || !zt_sequence_position(x, 1, &(struct zt_sequence_range){ from->count, false }, &position, err))
        return false;
    int *at = zt_malloc(((size_t)from->count + 1) * sizeof *at);
    for (int i = 0; i < from->count - 1; i++)
        at[i] = from->at[i + (i >= position)];
    const struct zt_list list = { .kind = ZT_SEQUENCE, .dtype = from->dtype, .count = from->count - 1, .at = at };
    const bool ok = zt_sequence_done(x, &list, err);
    free(at);
    return ok;
}

static bool at_expand(struct zt_expansion *x, struct zt_err *err) {
    const struct zt_list *from = zt_sequence_in(x, 0, err);
    int position;
    x->done = true;
    return from && zt_sequence_position(x, 1, &(struct zt_sequence_range){ from->count, false }, &position, err) &&
           zt_sequence_hand_out(x, 0, from->at[position], err);
}

static bool length_expand(struct zt_expansion *x, struct zt_err *err) {
    const struct zt_list *from = zt_sequence_in(x, 0, err);
    const int64_t length = from ? from->count : 0;
    x->done = true;
    return from && zt_sequence_hand_out(
                       x, 0, zt_graph_add_constant(x->g, NULL, ZT_INT64, &(struct zt_shape){ 0 }, &length), err);
}

static const struct zt_attr_spec empty_attrs[] = { { "dtype", ZT_ATTR_INT, .element_type = true }, { 0 } };

const struct zt_op zt_op_sequence_empty = {
    .name = "SequenceEmpty",
    .domain = "",
    .since = 11,
    ZT_ONE_OUT(0, 0),
    .attrs = empty_attrs,
    .expand = empty_expand,
};
const struct zt_op zt_op_sequence_construct = {
    .name = "SequenceConstruct",
    .domain = "",
    .since = 11,
    ZT_ONE_OUT(1, INT_MAX),
    .flags = ZT_OP_VARIADIC,
    .expand = construct_expand,
};
const struct zt_op zt_op_sequence_insert = {
    .name = "SequenceInsert",
    .domain = "",
    .since = 11,
    ZT_ONE_OUT(2, 3),
    .flags = ZT_OP_LISTS,
    .no_grad_in = 1 << 2,
    .expand = insert_expand,
};
const struct zt_op zt_op_sequence_erase = {
    .name = "SequenceErase",
    .domain = "",
    .since = 11,
    ZT_ONE_OUT(1, 2),
    .flags = ZT_OP_LISTS,
    .no_grad_in = 1 << 1,
    .expand = erase_expand,
};
const struct zt_op zt_op_sequence_at = {
    .name = "SequenceAt",
    .domain = "",
    .since = 11,
    ZT_ONE_OUT(2, 2),
    .flags = ZT_OP_LISTS,
    .no_grad_in = 1 << 1,
    .expand = at_expand,
};
const struct zt_op zt_op_sequence_length = {
    .name = "SequenceLength",
    .domain = "",
    .since = 11,
    ZT_ONE_OUT(1, 1),
    .flags = ZT_OP_LISTS,
    .no_grad_in = 1 << 0,
    .expand = length_expand,
};
