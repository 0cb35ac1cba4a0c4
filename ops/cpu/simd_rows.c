#include "ops/cpu/simd_rows.h"

#include "device/threads.h"

enum { BLOCK = 1 << 14 }; /* elements of a block of work */

struct zt_bundles zt_bundles_of(const struct zt_axis_slices *s, enum zt_dtype dtype, int vector) {
    struct zt_bundles all = { .slices = *s, .blocks = (s->inner + vector - 1) / vector };
    bool across = s->inner == 1;
    int64_t last = across ? s->length : s->inner;
    last -= (last - 1) / vector * vector;
    all.whole = (struct zt_bundle){ dtype, across, s->length, s->inner, vector, vector };
    if (across) {
        all.whole.count = (s->length + vector - 1) / vector;
        all.whole.step = vector;
        all.whole.last = (int)last;
    }
    all.edge = all.whole;
    if (!across)
        all.edge.each = all.edge.last = (int)last;
    int64_t elements = s->length * (across ? 1 : vector);
    all.count = s->length ? s->outer * all.blocks : 0;
    all.grain = elements < BLOCK ? BLOCK / (elements ? elements : 1) : 1;
    return all;
}

struct zt_bundle zt_bundle_at(const struct zt_bundles *all, int64_t i, int64_t *start, int64_t *slice) {
    int64_t outer = i / all->blocks, block = i % all->blocks, first = block * all->whole.each;
    *start = outer * all->slices.length * all->slices.inner + first;
    *slice = outer * all->slices.inner + first;
    return block == all->blocks - 1 ? all->edge : all->whole;
}

struct walk {
    const struct zt_bundles *all;
    zt_bundle_function *one;
    const void *with;
};

static void run_block(void *arg, int64_t block) {
    const struct walk *w = arg;
    int64_t i = block * w->all->grain, end = i + w->all->grain < w->all->count ? i + w->all->grain : w->all->count;
    for (; i < end; i++) {
        int64_t start, slice;
        struct zt_bundle b = zt_bundle_at(w->all, i, &start, &slice);
        w->one(w->with, &b, start, slice);
    }
}

void zt_bundles_each(const struct zt_bundles *all, int threads, zt_bundle_function *one, const void *with) {
    struct walk w = { all, one, with };
    zt_parallel_for(threads, zt_bundle_blocks(all), run_block, &w);
}

bool zt_row_type(enum zt_dtype dtype) {
    return dtype == ZT_FLOAT || dtype == ZT_BFLOAT16 || dtype == ZT_FLOAT16;
}
