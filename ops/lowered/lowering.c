#include "ops/lowered/lowering.h"

#include <string.h>

void zt_lower_all(struct zt_lowering *l, const struct zt_expand_node *node, int *out, int count) {
    l->failed = l->failed || !zt_expand_emit(l->x, node, out, count, l->err);
}

int zt_lower(struct zt_lowering *l, int out, const struct zt_expand_node *node) {
    zt_lower_all(l, node, &out, 1);
    return out;
}

int zt_lower_int32(struct zt_lowering *l, int32_t value) {
    return zt_graph_add_constant(l->g, NULL, ZT_INT32, &(struct zt_shape){ 0 }, &value);
}

int zt_lower_int64(struct zt_lowering *l, int64_t value) {
    return zt_graph_add_constant(l->g, NULL, ZT_INT64, &(struct zt_shape){ 0 }, &value);
}

int zt_lower_add(struct zt_lowering *l, int out, int value, int added) {
    if (added >= 0)
        return ZT_LOWER(l, out, "Add", value, added);
    return out < 0 ? value : ZT_LOWER(l, out, "Identity", value);
}

int zt_lower_softmax(struct zt_lowering *l, int out, int value, int axis) {
    const struct zt_shape *x = &zt_lower_first(l)->shape;
    const struct zt_attr last = { .name = "axis", .type = ZT_ATTR_INT, .i = -1 };
    if (axis == x->rank - 1)
        return ZT_LOWER_WITH(l, out, "Softmax", &last, 1, value);
    const int rows =
        ZT_LOWER(l, -1, "Reshape", value, zt_lower_shape(l, zt_dims(x, 0, axis), zt_dims(x, axis, x->rank)));
    return ZT_LOWER(l, out, "Reshape", ZT_LOWER_WITH(l, -1, "Softmax", &last, 1, rows),
                    zt_graph_add_ints(l->g, NULL, x->dim, x->rank));
}

bool zt_lower_axis(struct zt_lowering *l, int64_t value, int *axis) {
    l->failed = l->failed || !zt_axis(l->g, l->x->node, value, zt_lower_first(l)->shape.rank, axis, l->err);
    return !l->failed;
}

struct zt_attr *zt_lower_attrs(const struct zt_lowering *l, const char *const *names, int *count) {
    struct zt_attr *found = ZT_NEW_N(l->g->arena, struct zt_attr, l->n->attr_count + 1);
    *count = 0;
    for (int i = 0; i < l->n->attr_count; i++)
        for (int k = 0; names[k]; k++)
            if (strcmp(names[k], l->n->attr[i].name) == 0)
                found[(*count)++] = l->n->attr[i];
    return found;
}

bool zt_lower_needs(struct zt_lowering *l, const int *inputs) {
    for (; *inputs >= 0 && !l->failed; inputs++)
        if (zt_lower_in(l, *inputs) < 0)
            ZT_LOWER_FAIL(l, "input %d is missing", *inputs);
    return !l->failed;
}

void zt_lower_refuse_in(struct zt_lowering *l, int first, int last, const char *what) {
    for (int i = first; i <= last && !l->failed; i++)
        if (zt_lower_in(l, i) >= 0)
            ZT_LOWER_FAIL(l, "input %d (%s) is not supported", i, what);
}

void zt_lower_refuse_out(struct zt_lowering *l, int first, int last, const char *what) {
    for (int i = first; i <= last && !l->failed; i++)
        if (zt_lower_out(l, i) >= 0)
            ZT_LOWER_FAIL(l, "output %d (%s) is not supported", i, what);
}

bool zt_lower_run(struct zt_expansion *x, void (*body)(struct zt_lowering *l), struct zt_err *err) {
    struct zt_lowering l = { .x = x, .g = x->g, .n = x->g->nodes[x->node], .err = err };
    x->done = true;
    body(&l);
    return !l.failed;
}
