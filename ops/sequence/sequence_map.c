/* SequenceMap: the nodes of the body for each element of the first sequence.
 *
 *     s.. = SequenceMap(t, u.., c..)        for (i = 0; i < length of t; i++) s[i].. = body(t[i], u[i].., c..);
 *
 * u are sequences of the same length, c are tensors. */
#include "ops/kernel/shape.h"
#include "ops/sequence/sequence.h"

#include <limits.h>
#include <string.h>

static int inputs_of(const struct zt_expansion *x) {
    return x->g->nodes[x->node]->in_count - x->g->nodes[x->node]->captured;
}

static bool check(struct zt_expansion *x, int count, struct zt_err *err) {
    const struct zt_graph *body = zt_expand_subgraph(x, "body");
    const struct zt_node *n = x->g->nodes[x->node];
    if (body->input_count != inputs_of(x) || body->output_count != n->out_count)
        return zt_node_fail(x->g, x->node, err, "has %d inputs and %d outputs, its body has %d and %d", inputs_of(x),
                            n->out_count, body->input_count, body->output_count);
    for (int i = 1; i < inputs_of(x); i++) {
        const struct zt_value *v = zt_in(x->g, x->node, i);
        if (!v || (v->list && v->list->kind != ZT_SEQUENCE))
            return zt_node_fail(x->g, x->node, err, "input %d is neither a tensor nor a sequence", i);
        if (v->list && v->list->count != count)
            return zt_node_fail(x->g, x->node, err, "sequence \"%s\" has %d elements, the first one has %d", v->name,
                                v->list->count, count);
    }
    return true;
}

/* x->values: the outputs of every element, one element after the other. */
static bool map_element(struct zt_expansion *x, struct zt_err *err) {
    const int outputs = x->g->nodes[x->node]->out_count;
    int *in = ZT_NEW_N(x->g->arena, int, inputs_of(x)), *out = ZT_NEW_N(x->g->arena, int, outputs);
    for (int i = 0; i < inputs_of(x); i++) {
        const struct zt_value *v = zt_in(x->g, x->node, i);
        in[i] = v->list ? v->list->at[x->step] : v->id;
    }
    memset(out, -1, (size_t)outputs * sizeof *out);
    if (!zt_expand_copy(x, "body", in, out, err))
        return false;
    for (int k = 0; k < outputs; k++)
        zt_vec_push(&x->values, out[k]);
    return true;
}

/* Output k of all elements. Without elements its dtype is the one that the body declares. */
static bool gather(struct zt_expansion *x, int k, int count, struct zt_err *err) {
    const struct zt_graph *body = zt_expand_subgraph(x, "body");
    const struct zt_node *n = x->g->nodes[x->node];
    struct zt_list list = { .kind = ZT_SEQUENCE, .dtype = body->values[body->outputs[k]]->dtype, .count = count };
    int *at = ZT_NEW_N(x->g->arena, int, count + 1);
    for (int i = 0; i < count; i++) {
        at[i] = x->values.at[i * n->out_count + k];
        const struct zt_value *v = x->g->values[at[i]];
        if (v->list)
            return zt_node_fail(x->g, x->node, err, "output %d of its body is not a tensor", k);
        list.dtype = i ? list.dtype : v->dtype;
        if (!zt_sequence_same_type(x, list.dtype, v, err))
            return false;
    }
    list.at = at;
    if (!zt_dtype_in(list.dtype, ZT_ANY_TYPE))
        return zt_node_fail(x->g, x->node, err, "its sequence is empty, and the type of output %d is not declared", k);
    if (n->out[k] >= 0)
        zt_list_set(x->g, n->out[k], &list);
    return true;
}

static bool map_expand(struct zt_expansion *x, struct zt_err *err) {
    const struct zt_list *first = zt_sequence_in(x, 0, err);
    if (!first || (!x->step && (!check(x, first->count, err) || !zt_expand_fits(x, "body", first->count, 0, err))))
        return false;
    if (x->step < first->count)
        return map_element(x, err);
    x->done = true;
    for (int k = 0; k < x->g->nodes[x->node]->out_count; k++)
        if (!gather(x, k, first->count, err))
            return false;
    return true;
}

static const struct zt_attr_spec map_attrs[] = { { "body", ZT_ATTR_GRAPH, true }, { 0 } };

const struct zt_op zt_op_sequence_map = {
    .name = "SequenceMap",
    .domain = "",
    .since = 17,
    .min_in = 1,
    .max_in = INT_MAX,
    .min_out = 1,
    .max_out = INT_MAX,
    .flags = ZT_OP_LISTS | ZT_OP_VARIADIC,
    .attrs = map_attrs,
    .expand = map_expand,
};
