#include "ops/cpu/winograd/tiles.h"

#include "base/align.h"
#include "ops/kernel/tile.h"

static int64_t taps_of(const struct zt_winograd_conv *c) {
    return c->stride == 1 && c->kernel != 4 ? 3 : 2;
}

const struct zt_winograd_kernels *zt_winograd_kernels_of(const struct zt_winograd_conv *c) {
    return zt_winograd_kernels(taps_of(c) == 3 ? ZT_WINOGRAD_3X3 : ZT_WINOGRAD_2X2, c->dtype);
}

/* Element `at` of a transformed line of taps: the first is the first tap alone, the last one the last; those between
 * them have parts of all. */
static bool is_used(int64_t taps, int64_t at, const bool *there) {
    return at == 0 ? there[0] : at < taps || there[taps - 1];
}

static void find_used(int64_t taps, bool (*there)[3], struct zt_winograd_phase *to) {
    const int64_t tile = taps + ZT_WINOGRAD_RESULTS - 1;
    for (int64_t e = 0; e < tile * tile; e++) {
        to->used[e] = is_used(taps, e / tile, there[0]) && is_used(taps, e % tile, there[1]);
        to->used_count += to->used[e];
    }
}

/* A line of the kernels of a phase: padded place origin + step * (result + t) is multiplied by tap first + step * t. */
struct line {
    int64_t origin, result, first, step;
};

/* Result i of the convolution sums kernel[k] * padded[stride * i + k]; tap t of phase p is k = stride * t + p, and
 * reads padded[stride * (i + t) + p]. Backward, padded row stride * u + p sums the same taps with dy[u - t]. */
static struct line strided_line(const struct zt_winograd_conv *c, bool backward, int axis, int64_t phase) {
    const int64_t taps = taps_of(c), pad = c->pad[axis];
    if (!backward)
        return (struct line){ phase - pad, 0, phase, c->stride };
    return (struct line){ (phase + pad) / c->stride - (taps - 1), phase, (phase + pad) % c->stride, c->stride };
}

/* Tap t of part p is k = taps * p + t. Backward, padded row u sums kernel[k] * dy[u - k]. */
static struct line part_line(const struct zt_winograd_conv *c, bool backward, int axis, int64_t part) {
    const int64_t taps = taps_of(c), first = taps * part, pad = c->pad[axis];
    return (struct line){ backward ? pad - first - (taps - 1) : first - pad, 0, first, 1 };
}

struct zt_winograd_phase zt_winograd_phase_of(const struct zt_winograd_conv *c, bool backward, int phase) {
    const int64_t taps = taps_of(c), edge = c->stride == 1 && c->kernel <= taps ? 1 : 2;
    const int64_t of_axis[2] = { phase / edge, phase % edge };
    struct zt_winograd_phase to = { 0 };
    int64_t k[2][3];
    bool there[2][3];
    for (int a = 0; a < 2; a++) {
        const struct line line = (c->stride == 1 ? part_line : strided_line)(c, backward, a, of_axis[a]);
        to.origin[a] = line.origin;
        to.result[a] = line.result;
        for (int64_t t = 0; t < taps; t++) {
            k[a][t] = line.first + line.step * (backward ? taps - 1 - t : t);
            there[a][t] = k[a][t] < c->kernel;
        }
    }
    for (int64_t t = 0; t < taps * taps; t++)
        to.tap[t] = there[0][t / taps] && there[1][t % taps] ? k[0][t / taps] * c->kernel + k[1][t % taps] : -1;
    find_used(taps, there, &to);
    return to;
}

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

static int64_t place_of(const struct zt_winograd_source *s, int axis, int64_t tile) {
    return tile * ZT_WINOGRAD_RESULTS * s->stride + s->origin[axis];
}

static const char zeros[16 * sizeof(float)];

static int64_t pixel_bytes(const struct zt_winograd_source *s) {
    return s->planes->pixel * s->kernels->bytes;
}

/* Sets the rows of a line, from that at `row` on; outside the plane they are zeros. */
static void set_rows(const struct zt_winograd_source *s, const char *plane, int64_t row, int64_t column,
                     struct zt_winograd_line *line) {
    for (int i = 0; i < s->square; i++, row += s->stride) {
        line->inside[i] = row >= 0 && row < s->size[0] ? -1 : 0;
        line->row[i] = line->inside[i] ? plane + (row * s->size[1] + column) * pixel_bytes(s) : zeros;
    }
}

/* The rows that the line below adds, or the first ones of the next sample. */
static void set_fetch(const struct zt_winograd_source *s, const char *plane, const struct zt_winograd_tile *t,
                      struct zt_winograd_line *line) {
    const bool is_last = t->row == s->tiles->tiles[0] - 1;
    const int64_t row = is_last ? zt_max_int(0, s->origin[0]) : place_of(s, 0, t->row) + s->square * s->stride;
    const char *from = plane + (is_last ? s->planes->sample * s->kernels->bytes : 0);
    for (int i = 0; i < ZT_WINOGRAD_RESULTS; i++)
        line->fetch[i] = from + ((row + i * s->stride) * s->size[1] + place_of(s, 1, t->column)) * pixel_bytes(s);
}

/* `count` tiles of a row, and a vector of channels, whose plane of the first sample is at `group`. */
static void transform(const struct zt_winograd_source *s, const struct zt_winograd_tile *t, int64_t count,
                      const char *group, struct zt_winograd_line *line) {
    const int64_t column = place_of(s, 1, t->column);
    const char *plane = group + t->sample * s->planes->sample * s->kernels->bytes;
    line->tiles = count;
    line->first = column < 0 ? zt_ceil_div(-column, s->stride) : 0;
    line->end = column < s->size[1] ? zt_ceil_div(s->size[1] - column, s->stride) : 0;
    set_rows(s, plane, place_of(s, 0, t->row), column, line);
    set_fetch(s, plane, t, line);
    s->run(line);
}

/* A vector after the other, as planes may lie in the same sets of the first cache. */
void zt_winograd_transform(const struct zt_winograd_source *s, struct zt_winograd_tile first, int64_t count, float *to,
                           int64_t step) {
    struct zt_winograd_line line = {
        .pixel = s->stride * pixel_bytes(s), .pitch = s->pitch, .step = step, .depths = s->depths
    };
    const int64_t words = s->kernels->vector * s->depths / s->kernels->depths;
    for (int64_t g = 0; g < s->vectors; g++) {
        const int64_t channel = zt_planes_channel(s->planes, g * s->kernels->vector);
        const char *group = (const char *)s->data + channel * s->kernels->bytes;
        struct zt_winograd_tile t = first;
        for (int64_t i = 0, beside; i < count; i += beside) {
            beside = zt_min_int(count - i, s->tiles->tiles[1] - t.column);
            line.to = to + i / s->depths * s->pitch + g * words;
            line.depth = (int)(i % s->depths);
            transform(s, &t, beside, group, &line);
            t.column += beside - 1;
            zt_winograd_next(s->tiles, &t);
        }
    }
}

const struct zt_layout *zt_winograd_layout(struct zt_arena *arena, const struct zt_layout *given, enum zt_dtype dtype,
                                           const struct zt_shape *shape) {
    const struct zt_layout *layout = zt_layout_vector(arena, given, dtype, shape);
    struct zt_planes planes;
    zt_planes_of(layout, shape, &planes);
    return planes.vector % zt_winograd_kernels(ZT_WINOGRAD_3X3, dtype)->vector == 0
               ? layout
               : zt_layout_vector(arena, NULL, dtype, shape);
}

enum { LINE = 16 }; /* words of a cache line */

int64_t zt_winograd_step(int64_t unit, int64_t pitch) {
    return zt_align_floats(unit * pitch) + LINE;
}

int64_t zt_winograd_pitch(int64_t words) {
    return words + LINE;
}

int64_t zt_winograd_unit(const struct zt_winograd_kernels *kernels, int64_t words) {
    enum { MOST_TILES = 48, LEAST_TILES = 12, ROWS = 6, UNIT_BYTES = 3 << 18 };
    const int64_t tile = kernels->elements * words * (int64_t)sizeof(float);
    const int64_t fit = UNIT_BYTES / tile / ROWS * ROWS;
    return fit < LEAST_TILES ? LEAST_TILES : zt_min_int(fit, MOST_TILES * kernels->depths);
}
