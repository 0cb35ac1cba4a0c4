#include "ops/lowered/heads.h"

void zt_lower_split(struct zt_lowering *l, int value, const int64_t size[3], int part[3]) {
    const struct zt_attr last = { .name = "axis", .type = ZT_ATTR_INT, .i = -1 };
    part[0] = part[1] = part[2] = -1;
    zt_lower_all(
        l, &(struct zt_expand_node){ "Split", ZT_LOWER_IN(value, zt_graph_add_ints(l->g, NULL, size, 3)), &last, 1 },
        part, 3);
}

int zt_lower_past(struct zt_lowering *l, int in, int64_t *rows) {
    const struct zt_value *past = in < l->n->in_count ? zt_in(l->g, l->x->node, in) : NULL;
    char text[ZT_SHAPE_TEXT];
    if (past && past->shape.rank != 4)
        ZT_LOWER_FAIL(l, "\"%s\" has shape %s; wanted is [batch, heads, rows, size]", past->name,
                      zt_shape_text(&past->shape, text));
    if (!past || past->shape.rank != 4 || past->shape.dim[2] == 0)
        return -1;
    *rows += past->shape.dim[2];
    return past->id;
}

int zt_lower_present(struct zt_lowering *l, int out, int past, int x, int64_t heads) {
    static const int64_t by_head[] = { 0, 2, 1, 3 };
    const struct zt_attr perm = { .name = "perm", .type = ZT_ATTR_INTS, .count = 4, .ints = by_head };
    const struct zt_attr rows = { .name = "axis", .type = ZT_ATTR_INT, .i = 2 };
    const int apart = ZT_LOWER(l, -1, "Reshape", x, zt_lower_shape(l, 0, 0, heads, -1));
    const int now = ZT_LOWER_WITH(l, past < 0 ? out : -1, "Transpose", &perm, 1, apart);
    return past < 0 ? now : ZT_LOWER_WITH(l, out, "Concat", &rows, 1, past, now);
}

/* ---- buffers of which a part counts ---- */

void zt_lower_index(struct zt_lowering *l, struct zt_lower_buffer *b) {
    const int row = ZT_LOWER(l, -1, "Range", zt_lower_int64(l, 0), zt_lower_int64(l, b->present), zt_lower_int64(l, 1));
    const int past = ZT_LOWER(l, -1, "Unsqueeze", b->lengths, zt_lower_shape(l, 1));
    const int behind = ZT_LOWER(l, -1, "Sub", row, ZT_LOWER(l, -1, "Sub", past, zt_lower_int64(l, b->past)));
    const int added = ZT_LOWER(l, -1, "Min", behind, zt_lower_int64(l, b->past + b->added - 1));
    const int from = ZT_LOWER(l, -1, "Where", ZT_LOWER(l, -1, "Less", row, past), row, added);
    const int end = ZT_LOWER(l, -1, "Add", past, zt_lower_int64(l, b->added));
    b->index = ZT_LOWER(l, -1, "Unsqueeze", from, zt_lower_shape(l, 2));
    b->kept = ZT_LOWER(l, -1, "Unsqueeze", ZT_LOWER(l, -1, "Less", row, end), zt_lower_shape(l, 2, 3));
}

int zt_lower_fill(struct zt_lowering *l, const struct zt_lower_buffer *b, int past, int x, int out) {
    static const int64_t swapped[] = { 0, 2, 1, 3 };
    const struct zt_attr perm = { .name = "perm", .type = ZT_ATTR_INTS, .count = 4, .ints = swapped };
    const struct zt_attr rows = { .name = "axis", .type = ZT_ATTR_INT, .i = 1 };
    const struct zt_attr batch = { .name = "batch_dims", .type = ZT_ATTR_INT, .i = 1 };
    const int before = ZT_LOWER_WITH(l, -1, "Transpose", &perm, 1, past);
    const int added = ZT_LOWER(l, -1, "Reshape", x, zt_lower_shape(l, 0, 0, b->heads, -1));
    const int all = ZT_LOWER_WITH(l, -1, "Concat", &rows, 1, before, added);
    const int taken = ZT_LOWER_WITH(l, -1, "GatherND", &batch, 1, all, b->index);
    const int present =
        ZT_LOWER(l, -1, "Where", b->kept, taken, zt_graph_add_float(l->g, NULL, zt_lower_first(l)->dtype, 0));
    if (out >= 0)
        ZT_LOWER_WITH(l, out, "Transpose", &perm, 1, present);
    return ZT_LOWER(l, -1, "Reshape", present, zt_lower_shape(l, 0, 0, -1));
}

int zt_lower_first_keys(struct zt_lowering *l, int lengths, int64_t keys) {
    if (keys > INT32_MAX)
        ZT_LOWER_FAIL(l, "%lld keys are not supported", (long long)keys);
    const int numbers =
        ZT_LOWER(l, -1, "Range", zt_lower_int32(l, 0), zt_lower_int32(l, (int32_t)keys), zt_lower_int32(l, 1));
    return ZT_LOWER(l, -1, "Less", numbers, ZT_LOWER(l, -1, "Unsqueeze", lengths, zt_lower_shape(l, 1)));
}

int zt_lower_rotate(struct zt_lowering *l, int out, const struct zt_lower_rotary *r) {
    const struct zt_attr attrs[] = {
        { .name = "interleaved", .type = ZT_ATTR_INT, .i = r->interleaved },
        { .name = "rotary_embedding_dim", .type = ZT_ATTR_INT, .i = r->rotated },
        { .name = "num_heads", .type = ZT_ATTR_INT, .i = r->heads },
    };
    return ZT_LOWER_WITH(l, out, "RotaryEmbedding", attrs, 3, r->x, r->cos, r->sin, r->positions);
}

int zt_lower_positions(struct zt_lowering *l, int first, int64_t batch, int64_t rows) {
    const int numbers = ZT_LOWER(l, -1, "Range", zt_lower_int64(l, 0), zt_lower_int64(l, rows), zt_lower_int64(l, 1));
    return ZT_LOWER(l, -1, "Expand", zt_lower_add(l, -1, numbers, first), zt_lower_shape(l, batch, rows));
}
