#include "ops/kernel/layout.h"

#include "ops/kernel/shape.h"

#include <string.h>

static bool layouts_equal(const struct zt_layout *a, const struct zt_layout *b) {
    const struct zt_layout_ordered *x = a->descriptor, *y = b->descriptor;
    if (x->order != y->order || x->block != y->block)
        return false;
    return x->order != ZT_ORDER_VENDOR || (x->vendor_equal == y->vendor_equal && x->vendor_equal(x->vendor, y->vendor));
}

static struct zt_layout_ordered *new_layout(struct zt_arena *arena, enum zt_order order) {
    struct zt_layout_ordered *layout = ZT_NEW(arena, struct zt_layout_ordered);
    layout->order = order;
    layout->base.equal = layouts_equal;
    layout->base.descriptor = layout;
    return layout;
}

static const struct zt_layout *fill_rows(struct zt_arena *arena, struct zt_layout_ordered *layout, int step,
                                         enum zt_dtype dtype, const struct zt_shape *shape) {
    layout->block = step;
    layout->base.name = zt_arena_printf(arena, "rows of %d", step);
    layout->base.bytes = (size_t)(shape->dim[0] * step) * zt_dtype_bytes(dtype);
    return &layout->base;
}

const struct zt_layout *zt_layout_of(struct zt_arena *arena, enum zt_order order, int block, enum zt_dtype dtype,
                                     const struct zt_shape *shape) {
    if (order == ZT_ORDER_PLAIN)
        return NULL;
    struct zt_layout_ordered *layout = new_layout(arena, order);
    if (order == ZT_ORDER_FILLED_ROWS)
        return fill_rows(arena, layout, block, dtype, shape);
    bool blocked = order == ZT_ORDER_BLOCKED;
    layout->block = blocked ? block : 0;
    int64_t channels = blocked ? (shape->dim[1] + block - 1) / block * block : shape->dim[1];
    layout->base.name = blocked ? zt_arena_printf(arena, "channels in blocks of %d", block) : "channels last";
    layout->base.bytes = (size_t)(shape->dim[0] * channels * zt_dims(shape, 2, shape->rank)) * zt_dtype_bytes(dtype);
    return &layout->base;
}

const struct zt_layout *zt_layout_vendor(struct zt_arena *arena, const char *name, size_t bytes, const void *vendor,
                                         bool (*equal)(const void *a, const void *b)) {
    struct zt_layout_ordered *layout = new_layout(arena, ZT_ORDER_VENDOR);
    layout->base.name = name;
    layout->base.bytes = bytes;
    layout->vendor = vendor;
    layout->vendor_equal = equal;
    return &layout->base;
}

enum zt_order zt_layout_order(const struct zt_layout *layout, int *block) {
    *block = 0;
    if (!layout)
        return ZT_ORDER_PLAIN;
    const struct zt_layout_ordered *l = layout->descriptor;
    *block = l->block;
    return l->order;
}

bool zt_layout_is_filled(const struct zt_layout *layout) {
    int block;
    return zt_layout_order(layout, &block) == ZT_ORDER_FILLED_ROWS;
}

int64_t zt_layout_row(int64_t row, enum zt_dtype dtype) {
    enum { BYTES = 16, LONG = 1024, TILE = 64 };
    const int64_t least = BYTES / (int64_t)zt_dtype_bytes(dtype), multiple = row < LONG ? least : TILE;
    return row % least ? (row + multiple - 1) / multiple * multiple : row;
}

void zt_layout_fill(const struct zt_layout *layout, int64_t *step) {
    int block;
    if (zt_layout_order(layout, &block) == ZT_ORDER_FILLED_ROWS)
        *step = block;
}

bool zt_layout_is_last(const struct zt_layout *layout) {
    int block;
    return zt_layout_order(layout, &block) == ZT_ORDER_CHANNELS_LAST;
}

size_t zt_layout_stored(const struct zt_view *view, void *stored) {
    const size_t size = zt_dtype_bytes(view->dtype);
    if (!zt_layout_is_filled(view->layout))
        return zt_view_bytes(view);
    const int64_t row = view->shape.dim[1];
    int64_t step = row;
    zt_layout_fill(view->layout, &step);
    for (int64_t r = 1; r < view->shape.dim[0]; r++)
        memmove((char *)stored + (size_t)(r * row) * size, (char *)stored + (size_t)(r * step) * size,
                (size_t)row * size);
    return (size_t)zt_shape_count(&view->shape) * size;
}
