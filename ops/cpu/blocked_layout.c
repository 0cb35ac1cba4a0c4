#include "ops/cpu/blocked_layout.h"
#include "ops/cpu/isa.h"

#include "ops/kernel/shape.h"

#include <string.h>

/* Channels that a vector of this machine holds. */
static int machine_lanes(void) {
    return zt_isa_has(ZT_ISA_AVX512) ? 16 : 8;
}

const struct zt_layout *zt_layout_vector(struct zt_arena *arena, const struct zt_layout *given, enum zt_dtype dtype,
                                         const struct zt_shape *shape) {
    int block;
    enum zt_order order = zt_layout_order(given, &block);
    if (order == ZT_ORDER_CHANNELS_LAST && shape->dim[1] % 16 == 0)
        return zt_layout_of(arena, order, 0, dtype, shape);
    return zt_layout_of(arena, ZT_ORDER_BLOCKED, order == ZT_ORDER_BLOCKED ? block : machine_lanes(), dtype, shape);
}

void zt_layout_plain(struct zt_prepare *p) {
    const struct zt_node *n = p->graph->nodes[p->node];
    memset(p->in_layout, 0, (size_t)n->in_count * sizeof *p->in_layout);
    memset(p->out_layout, 0, (size_t)n->out_count * sizeof *p->out_layout);
}

/* Channels of a block in the first of these inputs that is blocked; 0: none is. */
static int given_block(const struct zt_prepare *p, int inputs) {
    int block = 0;
    for (int i = 0; i < inputs; i++)
        if (zt_layout_order(p->in_layout[i], &block) == ZT_ORDER_BLOCKED)
            return block;
    return 0;
}

static bool is_blocks(const struct zt_value *v, int block, bool within) {
    return v->shape.rank > 2 && (within || v->shape.dim[1] % block == 0) && zt_shape_count(&v->shape) > 0;
}

void zt_layout_ranges(struct zt_prepare *p, int moved, int64_t first, bool within) {
    const struct zt_graph *g = p->graph;
    const int outs = g->nodes[p->node]->out_count, block = given_block(p, moved);
    bool fits = block > 0 && (within || first % block == 0);
    for (int i = 0; fits && i < moved + outs; i++)
        fits = is_blocks(i < moved ? zt_in(g, p->node, i) : zt_out(g, p->node, i - moved), block, within);
    zt_layout_plain(p);
    for (int i = 0; fits && i < moved + outs; i++) {
        const struct zt_value *v = i < moved ? zt_in(g, p->node, i) : zt_out(g, p->node, i - moved);
        *(i < moved ? &p->in_layout[i] : &p->out_layout[i - moved]) =
            zt_layout_of(g->arena, ZT_ORDER_BLOCKED, block, v->dtype, &v->shape);
    }
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
