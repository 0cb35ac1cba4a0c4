#include "ops/sequence/sequence.h"

#include "graph/passes/lower_count.h"

const struct zt_list *zt_sequence_in(const struct zt_expansion *x, int i, struct zt_err *err) {
    const struct zt_value *v = zt_in(x->g, x->node, i);
    if (v && v->list && v->list->kind == ZT_SEQUENCE)
        return v->list;
    zt_node_fail(x->g, x->node, err, "input \"%s\" is not a sequence", v ? v->name : "");
    return NULL;
}

const struct zt_value *zt_sequence_tensor(const struct zt_expansion *x, int i, struct zt_err *err) {
    const struct zt_value *v = zt_in(x->g, x->node, i);
    if (v && !v->list && zt_dtype_in(v->dtype, ZT_ANY_TYPE))
        return v;
    zt_node_fail(x->g, x->node, err, "input \"%s\" is not a tensor of a type that ztrain computes with",
                 v ? v->name : "");
    return NULL;
}

bool zt_sequence_position(const struct zt_expansion *x, int i, const struct zt_sequence_range *range, int *to,
                          struct zt_err *err) {
    const struct zt_value *v = zt_in(x->g, x->node, i);
    const int most = range->count + range->end - 1;
    if (!v && most < 0)
        return zt_node_fail(x->g, x->node, err, "its sequence is empty");
    *to = most;
    if (!v)
        return true;
    if (v->list || zt_shape_count(&v->shape) != 1 || !zt_dtype_in(v->dtype, ZT_ANY_INT))
        return zt_node_fail(x->g, x->node, err, "its position \"%s\" is not one integer", v->name);
    if (!v->data)
        return zt_node_fail(x->g, x->node, err,
                            "its position \"%s\" depends on data: only one that follows from shapes and constants is "
                            "supported in training",
                            v->name);
    const int64_t at = zt_load_int(v->dtype, v->data, 0);
    if (at < -(int64_t)range->count || at > most)
        return zt_node_fail(x->g, x->node, err, "its position is %lld of a sequence of %d", (long long)at,
                            range->count);
    *to = (int)(at < 0 ? at + range->count : at);
    return true;
}

bool zt_sequence_same_type(const struct zt_expansion *x, enum zt_dtype sequence, const struct zt_value *tensor,
                           struct zt_err *err) {
    return sequence == tensor->dtype ||
           zt_node_fail(x->g, x->node, err, "\"%s\" has type %s, the sequence holds tensors of type %s", tensor->name,
                        zt_dtype_name(tensor->dtype), zt_dtype_name(sequence));
}

/* Counts ids that a list takes as lowered nodes are counted. */
static bool charge(struct zt_expansion *x, int ids, struct zt_err *err) {
    const struct zt_lower_count taken = { .bytes = (double)ids * sizeof(int) };
    return zt_lower_charge(x->g, x->g->nodes[x->node], &taken, 1, true, err);
}

bool zt_sequence_append(struct zt_expansion *x, const struct zt_list *list, int element, struct zt_err *err) {
    const int out = x->g->nodes[x->node]->out[0];
    x->done = true;
    return charge(x, zt_list_append(x->g, out, list, element), err);
}

bool zt_sequence_done(struct zt_expansion *x, const struct zt_list *list, struct zt_err *err) {
    if (!charge(x, list->count, err))
        return false;
    zt_list_set(x->g, x->g->nodes[x->node]->out[0], list);
    return x->done = true;
}

bool zt_sequence_hand_out(struct zt_expansion *x, int out, int value, struct zt_err *err) {
    int to = x->g->nodes[x->node]->out[out];
    if (to < 0)
        return true;
    if (!x->g->values[value]->list)
        return zt_expand_emit(x, &(struct zt_expand_node){ "Identity", &value, 1 }, &to, 1, err);
    zt_list_share(x->g, to, x->g->values[value]->list);
    return true;
}

bool zt_sequence_identity(struct zt_expansion *x, struct zt_err *err) {
    x->done = true;
    return zt_sequence_hand_out(x, 0, x->g->nodes[x->node]->in[0], err);
}
