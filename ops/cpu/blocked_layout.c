#include "ops/cpu/blocked_layout.h"
#include "ops/cpu/isa.h"

#include "ops/kernel/shape.h"

/* Channels that a vector of this machine holds. */
static int machine_lanes(void) {
    return zt_isa() >= ZT_ISA_AVX512 ? 16 : 8;
}

const struct zt_layout *zt_layout_vector(struct zt_arena *arena, const struct zt_layout *given, enum zt_dtype dtype,
                                         const struct zt_shape *shape) {
    int block;
    enum zt_order order = zt_layout_order(given, &block);
    if (order == ZT_ORDER_CHANNELS_LAST && shape->dim[1] % 16 == 0)
        return zt_layout_of(arena, order, 0, dtype, shape);
    return zt_layout_of(arena, ZT_ORDER_BLOCKED, order == ZT_ORDER_BLOCKED ? block : machine_lanes(), dtype, shape);
}

void zt_planes_of(const struct zt_layout *layout, const struct zt_shape *shape, struct zt_planes *to) {
    int block;
    enum zt_order order = zt_layout_order(layout, &block);
    int64_t c = shape->dim[1];
    *to = (struct zt_planes){
        .samples = shape->dim[0], .channels = c, .pixels = zt_dims(shape, 2, shape->rank), .vector = 1
    };
    if (order == ZT_ORDER_CHANNELS_LAST) {
        to->vector = 16;
        to->groups = (c + 15) / 16;
        to->group = 16;
        to->pixel = c;
        to->sample = c * to->pixels;
    } else {
        to->vector = order == ZT_ORDER_BLOCKED ? block : 1;
        to->groups = (c + to->vector - 1) / to->vector;
        to->pixel = to->vector;
        to->group = to->pixels * to->vector;
        to->sample = to->groups * to->group;
    }
}
