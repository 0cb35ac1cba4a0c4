#include "ops/layout_cpu.h"

static bool layouts_equal(const struct zt_layout *a, const struct zt_layout *b) {
    const struct zt_layout_cpu *x = a->descriptor, *y = b->descriptor;
    if (x->order != y->order || x->block != y->block)
        return false;
    return x->order != ZT_ORDER_VENDOR || (x->vendor_equal == y->vendor_equal && x->vendor_equal(x->vendor, y->vendor));
}

static struct zt_layout_cpu *new_layout(struct zt_arena *arena, enum zt_order order) {
    struct zt_layout_cpu *layout = ZT_NEW(arena, struct zt_layout_cpu);
    layout->order = order;
    layout->base.equal = layouts_equal;
    layout->base.descriptor = layout;
    return layout;
}

static int64_t spatial(const struct zt_shape *shape) {
    int64_t pixels = 1;
    for (int i = 2; i < shape->rank; i++)
        pixels *= shape->dim[i];
    return pixels;
}

const struct zt_layout *zt_layout_cpu(struct zt_arena *arena, enum zt_order order, int block, enum zt_dtype dtype,
                                      const struct zt_shape *shape) {
    if (order == ZT_ORDER_PLAIN)
        return NULL;
    struct zt_layout_cpu *layout = new_layout(arena, order);
    bool blocked = order == ZT_ORDER_BLOCKED;
    layout->block = blocked ? block : 0;
    int64_t channels = blocked ? (shape->dim[1] + block - 1) / block * block : shape->dim[1];
    layout->base.name = blocked ? zt_arena_printf(arena, "channels in blocks of %d", block) : "channels last";
    layout->base.bytes = (size_t)(shape->dim[0] * channels * spatial(shape)) * zt_dtype_bytes(dtype);
    return &layout->base;
}

const struct zt_layout *zt_layout_vendor(struct zt_arena *arena, const char *name, size_t bytes, const void *vendor,
                                         bool (*equal)(const void *a, const void *b)) {
    struct zt_layout_cpu *layout = new_layout(arena, ZT_ORDER_VENDOR);
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
    const struct zt_layout_cpu *l = layout->descriptor;
    *block = l->block;
    return l->order;
}

/* Channels that a vector of this machine holds. */
static int machine_lanes(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512f") ? 16 : 8;
#else
    return 8;
#endif
}

const struct zt_layout *zt_layout_lanes(struct zt_arena *arena, const struct zt_layout *given, enum zt_dtype dtype,
                                        const struct zt_shape *shape) {
    int block;
    enum zt_order order = zt_layout_order(given, &block);
    if (order == ZT_ORDER_CHANNELS_LAST && shape->dim[1] % 16 == 0)
        return zt_layout_cpu(arena, order, 0, dtype, shape);
    return zt_layout_cpu(arena, ZT_ORDER_BLOCKED, order == ZT_ORDER_BLOCKED ? block : machine_lanes(), dtype, shape);
}

void zt_planes_of(const struct zt_layout *layout, const struct zt_shape *shape, struct zt_planes *to) {
    int block;
    enum zt_order order = zt_layout_order(layout, &block);
    int64_t c = shape->dim[1];
    *to = (struct zt_planes){ .samples = shape->dim[0], .channels = c, .pixels = spatial(shape), .lanes = 1 };
    if (order == ZT_ORDER_CHANNELS_LAST) {
        to->lanes = 16;
        to->groups = (c + 15) / 16;
        to->group = 16;
        to->pixel = c;
        to->sample = c * to->pixels;
    } else {
        to->lanes = order == ZT_ORDER_BLOCKED ? block : 1;
        to->groups = (c + to->lanes - 1) / to->lanes;
        to->pixel = to->lanes;
        to->group = to->pixels * to->lanes;
        to->sample = to->groups * to->group;
    }
}
