#include "ops/cpu/winograd/tiles.h"

#include "base/align.h"
#include "ops/kernel/tile.h"

struct zt_winograd_tile zt_winograd_tile_of(const struct zt_winograd_tiles *t, int64_t index) {
    const int64_t in_sample = t->tiles[0] * t->tiles[1], at = index % in_sample;
    return (struct zt_winograd_tile){ index / in_sample, at / t->tiles[1], at % t->tiles[1] };
}

void zt_winograd_next(const struct zt_winograd_tiles *t, struct zt_winograd_tile *tile) {
    if (++tile->column < t->tiles[1])
        return;
    tile->column = 0;
    if (++tile->row == t->tiles[0]) {
        tile->row = 0;
        tile->sample++;
    }
}

static void transform(const struct zt_winograd_source *s, const struct zt_winograd_tile *t, float *to, int64_t step) {
    const struct zt_planes *p = s->planes;
    const int64_t row = t->row * ZT_WINOGRAD_RESULTS - s->pad[0], column = t->column * ZT_WINOGRAD_RESULTS - s->pad[1];
    const struct zt_winograd_part inside = { { (int)zt_max_int(0, -row), (int)zt_max_int(0, -column) },
                                             { (int)zt_min_int(s->square, s->size[0] - row),
                                               (int)zt_min_int(s->square, s->size[1] - column) } };
    const bool whole = inside.first[0] + inside.first[1] == 0 && inside.end[0] + inside.end[1] == 2 * s->square;
    const int64_t corner = t->sample * p->sample + (row * s->size[1] + column) * p->pixel;
    const int64_t row_step = s->size[1] * p->pixel;
    const int64_t in_group = p->vector / s->vector;
    const float *group = s->data + corner;
    for (int64_t g = 0, part = 0; g < s->vectors; g++, to += s->vector) {
        const float *from = group + part * s->vector;
        for (int i = 0; i < ZT_WINOGRAD_RESULTS; i++) /* what the tile below adds */
            __builtin_prefetch(from + (s->square + i) * row_step + ZT_WINOGRAD_RESULTS * p->pixel);
        s->run(from, row_step, p->pixel, whole ? NULL : &inside, to, step);
        if (++part == in_group) {
            part = 0;
            group += p->group;
        }
    }
}

void zt_winograd_transform(const struct zt_winograd_source *s, struct zt_winograd_tile tile, int64_t count, float *to,
                           int64_t step) {
    for (int64_t i = 0; i < count; i++, to += s->pitch) {
        transform(s, &tile, to, step);
        zt_winograd_next(s->tiles, &tile);
    }
}

const struct zt_layout *zt_winograd_layout(struct zt_arena *arena, const struct zt_layout *given, enum zt_dtype dtype,
                                           const struct zt_shape *shape) {
    const struct zt_layout *layout = zt_layout_vector(arena, given, dtype, shape);
    struct zt_planes planes;
    zt_planes_of(layout, shape, &planes);
    return planes.vector % zt_winograd_kernels()->vector == 0 ? layout : zt_layout_vector(arena, NULL, dtype, shape);
}

enum { LINE = 16 }; /* floats of a cache line */

int64_t zt_winograd_step(int64_t unit, int64_t pitch) {
    return zt_align_floats(unit * pitch) + LINE;
}

int64_t zt_winograd_pitch(const struct zt_winograd_kernels *kernels, int64_t vectors) {
    return vectors * kernels->vector + LINE;
}

int64_t zt_winograd_unit(const struct zt_winograd_kernels *kernels, int64_t vectors) {
    enum { MOST_TILES = 48, LEAST_TILES = 12, ROWS = 6, UNIT_BYTES = 3 << 18 };
    const int64_t tile = ZT_WINOGRAD_ELEMENTS * vectors * kernels->vector * (int64_t)sizeof(float);
    const int64_t fit = UNIT_BYTES / tile / ROWS * ROWS;
    return fit < LEAST_TILES ? LEAST_TILES : zt_min_int(fit, MOST_TILES);
}
