#include "ops/movement/simd/gather_lanes.h"

#include "device/threads.h"
#include "ops/cpu/blocked_layout.h"
#include "ops/cpu/isa.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"

/* ---- a group ---- */

/* Inlined with the type known. */
#define COPY(type)                                                                                                     \
    static void copy_##type(const struct zt_lanes *g) {                                                                \
        const type *from[ZT_SHUFFLE_VECTOR];                                                                           \
        type *to = (type *)g->to;                                                                                      \
        for (int l = 0; l < g->used; l++)                                                                              \
            from[l] = (const type *)g->plane[l] + g->lane[l];                                                          \
        for (int64_t i = 0, at = 0; i < g->pixels; i++, at += g->step) {                                               \
            for (int l = 0; l < g->used; l++)                                                                          \
                to[at + l] = from[l][at];                                                                              \
            for (int l = g->used; g->step == g->vector && l < g->vector; l++)                                          \
                to[at + l] = 0;                                                                                        \
        }                                                                                                              \
    }
COPY(uint8_t)
COPY(uint16_t)
COPY(uint32_t)
COPY(uint64_t)
#undef COPY

/* The number of a plane among the sources, which gets one; -1: they are full. */
static int source_of(struct zt_simd_shuffle *s, const char *plane) {
    for (int k = 0; k < s->sources; k++)
        if (s->from[k] == plane)
            return k;
    if (s->sources == ZT_SHUFFLE_SOURCES)
        return -1;
    s->from[s->sources] = plane;
    return s->sources++;
}

/* In vectors; false where the lanes come from many groups. */
static bool shuffle(const struct zt_lanes *g) {
    zt_simd_shuffle_run *run = g->step == g->vector ? zt_simd_shuffle(g->vector, g->bytes) : NULL;
    struct zt_simd_shuffle s = { .pixels = g->pixels, .used = g->used, .to = g->to };
    if (!run)
        return false;
    for (int l = 0; l < g->used; l++) {
        const int source = source_of(&s, g->plane[l]);
        if (source < 0)
            return false;
        s.lane[l] = source * g->vector + g->lane[l];
    }
    run(&s);
    return true;
}

void zt_gather_lanes(const struct zt_lanes *g) {
    if (shuffle(g))
        return;
    if (g->bytes == 8)
        copy_uint64_t(g);
    else if (g->bytes == 4)
        copy_uint32_t(g);
    else if (g->bytes == 2)
        copy_uint16_t(g);
    else
        copy_uint8_t(g);
}

/* ---- ranges ---- */

struct join {
    const struct zt_view *to, *part;
    int64_t first;
    struct zt_planes planes; /* of `to` */
    size_t bytes;
};

/* Lane `l` of a group: channel `c` of the parts, whose groups are as long as those of `to`. */
static void take_lane(const struct join *j, struct zt_lanes *g, int64_t sample, int l, int64_t c) {
    const struct zt_view *v = j->part;
    for (; c >= v->shape.dim[1]; v++)
        c -= v->shape.dim[1];
    const int64_t group = sample * zt_ceil_div(v->shape.dim[1], g->vector) + c / g->vector;
    g->plane[l] = zt_element(v->data, g->bytes, group * j->planes.group);
    g->lane[l] = (int)(c % g->vector);
}

static void join_group(void *arg, int64_t index) {
    const struct join *j = arg;
    const struct zt_planes *p = &j->planes;
    const int64_t sample = index / p->groups, group = index % p->groups, first = group * p->vector;
    struct zt_lanes g = { .used = (int)zt_min_int(p->vector, p->channels - first),
                          .vector = p->vector,
                          .pixels = p->pixels,
                          .step = p->pixel,
                          .bytes = j->bytes,
                          .to = zt_element(j->to->data, j->bytes, sample * p->sample + group * p->group) };
    for (int l = 0; l < g.used; l++)
        take_lane(j, &g, sample, l, j->first + first + l);
    zt_gather_lanes(&g);
}

void zt_join_channels(int threads, const struct zt_view *to, const struct zt_view *part, int64_t first) {
    struct join j = { .to = to, .part = part, .first = first, .bytes = zt_dtype_bytes(to->dtype) };
    zt_planes_of(to->layout, &to->shape, &j.planes);
    zt_parallel_for(threads, j.planes.samples * j.planes.groups, join_group, &j);
}

bool zt_joins_within_blocks(enum zt_dtype dtype) {
    return zt_simd_shuffle(zt_isa_has(ZT_ISA_AVX512) ? 16 : 8, zt_dtype_bytes(dtype)) != NULL;
}

bool zt_is_within_block(const struct zt_view *v, int64_t first) {
    int block;
    return zt_layout_order(v->layout, &block) == ZT_ORDER_BLOCKED && (first % block || v->shape.dim[1] % block);
}
