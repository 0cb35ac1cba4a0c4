#include "ops/cpu/winograd/tiles.h"

#include "base/align.h"
#include "ops/kernel/tile.h"

const struct zt_winograd_kernels *zt_winograd_kernels_of(const struct zt_winograd_conv *c) {
    return zt_winograd_kernels(c->stride == 1 ? ZT_WINOGRAD_3X3 : ZT_WINOGRAD_2X2, c->dtype);
}

static int64_t taps_of(const struct zt_winograd_conv *c) {
    return c->stride == 1 ? 3 : 2;
}

/* Element `at` of a transformed line of taps: of three taps each element has a part of the middle one; of two the first
 * element has the first, the last one the last. */
static bool is_used(int64_t taps, int64_t at, const bool *there) {
    return taps == 3 || at == 1 || there[at / 2];
}

static void find_used(int64_t taps, bool (*there)[3], struct zt_winograd_phase *to) {
    const int64_t tile = taps + ZT_WINOGRAD_RESULTS - 1;
    for (int64_t e = 0; e < tile * tile; e++) {
        to->used[e] = is_used(taps, e / tile, there[0]) && is_used(taps, e % tile, there[1]);
        to->used_count += to->used[e];
    }
}

/* Result i of the convolution sums kernel[k] * padded[stride * i + k]; tap t of phase p is k = stride * t + p, and
 * reads padded[stride * (i + t) + p]. Backward, padded row stride * u + p sums the same taps with dy[u - t]. */
struct zt_winograd_phase zt_winograd_phase_of(const struct zt_winograd_conv *c, bool backward, int phase) {
    const int64_t stride = c->stride, taps = taps_of(c);
    const int64_t of_axis[2] = { phase / stride, phase % stride };
    struct zt_winograd_phase to = { 0 };
    int64_t k[2][3];
    bool there[2][3];
    for (int a = 0; a < 2; a++) {
        const int64_t first = backward ? (of_axis[a] + c->pad[a]) % stride : of_axis[a];
        to.origin[a] = backward ? (of_axis[a] + c->pad[a]) / stride - (taps - 1) : of_axis[a] - c->pad[a];
        to.result[a] = backward ? of_axis[a] : 0;
        for (int64_t t = 0; t < taps; t++) {
            k[a][t] = stride * (backward ? taps - 1 - t : t) + first;
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

static bool is_inside(const struct zt_winograd_source *s, int axis, int64_t at) {
    return at >= 0 && at + (s->square - 1) * s->stride < s->size[axis];
}

/* The pixels of a tile inside the plane, along one axis; its first one lies at `at`. */
static void clip(const struct zt_winograd_source *s, int axis, int64_t at, struct zt_winograd_part *to) {
    to->first[axis] = (int)(at < 0 ? zt_ceil_div(-at, s->stride) : 0);
    to->end[axis] = (int)(at < s->size[axis] ? zt_min_int(s->square, zt_ceil_div(s->size[axis] - at, s->stride)) : 0);
}

/* A tile of a source. */
struct square {
    const char *corner; /* its first pixel of the first channel */
    bool whole;         /* all pixels are inside the plane */
    struct zt_winograd_part inside;
};

static int64_t bytes_of(const struct zt_winograd_source *s) {
    return s->kernels->depths == 1 ? (int64_t)sizeof(float) : (int64_t)sizeof(uint16_t);
}

static struct square square_of(const struct zt_winograd_source *s, const struct zt_winograd_tile *t) {
    const struct zt_planes *p = s->planes;
    const int64_t apart = ZT_WINOGRAD_RESULTS * s->stride;
    const int64_t row = t->row * apart + s->origin[0], column = t->column * apart + s->origin[1];
    struct square to = { .whole = is_inside(s, 0, row) && is_inside(s, 1, column) };
    if (!to.whole) {
        clip(s, 0, row, &to.inside);
        clip(s, 1, column, &to.inside);
    }
    to.corner = (const char *)s->data + (t->sample * p->sample + (row * s->size[1] + column) * p->pixel) * bytes_of(s);
    return to;
}

/* `at`: bytes from a square's corner to a vector of channels. */
static void transform_vector(const struct zt_winograd_source *s, const struct square *square, int64_t at, float *to,
                             int64_t step) {
    const char *from = square->corner + at;
    const int64_t pixel = s->stride * s->planes->pixel, row = s->size[1] * pixel, bytes = bytes_of(s);
    for (int i = 0; i < ZT_WINOGRAD_RESULTS; i++) /* what the tile below adds */
        __builtin_prefetch(from + ((s->square + i) * row + ZT_WINOGRAD_RESULTS * pixel) * bytes);
    s->run(from, row, pixel, square->whole ? NULL : &square->inside, to, step);
}

/* A vector of channels: its number in its group, and bytes from the corner of a square to it. */
struct channels {
    int64_t part, at;
};

static void next_vector(const struct zt_winograd_source *s, struct channels *c) {
    const struct zt_planes *p = s->planes;
    const int64_t vector = s->kernels->vector;
    c->at += vector * bytes_of(s);
    if (++c->part * vector == p->vector) {
        c->at += (p->group - p->vector) * bytes_of(s);
        c->part = 0;
    }
}

void zt_winograd_transform(const struct zt_winograd_source *s, struct zt_winograd_tile tile, int64_t count, float *to,
                           int64_t step) {
    const int64_t words = s->kernels->vector / s->kernels->depths;
    for (int64_t i = 0; i < count; i++, to += s->pitch, zt_winograd_next(s->tiles, &tile)) {
        const struct square square = square_of(s, &tile);
        struct channels c = { 0 };
        for (int64_t g = 0; g < s->vectors; g++, next_vector(s, &c))
            transform_vector(s, &square, c.at, to + g * words, step);
    }
}

enum { MOST_VECTOR = 16 };

/* `second` NULL: there is none. */
static void transform_pair(const struct zt_winograd_source *s, const struct square *first, const struct square *second,
                           float *to, int64_t step) {
    const int64_t words = s->kernels->vector / s->kernels->depths;
    float of_first[ZT_WINOGRAD_ELEMENTS * MOST_VECTOR], of_second[ZT_WINOGRAD_ELEMENTS * MOST_VECTOR] = { 0 };
    struct channels c = { 0 };
    for (int64_t g = 0; g < s->vectors; g++, to += s->kernels->vector, next_vector(s, &c)) {
        transform_vector(s, first, c.at, of_first, words);
        if (second)
            transform_vector(s, second, c.at, of_second, words);
        for (int64_t e = 0; e < s->kernels->elements; e++)
            s->kernels->pair(of_first + e * words, of_second + e * words, to + e * step);
    }
}

void zt_winograd_transform_depth(const struct zt_winograd_source *s, struct zt_winograd_tile tile, int64_t count,
                                 float *to, int64_t step) {
    if (s->kernels->depths == 1) {
        zt_winograd_transform(s, tile, count, to, step);
        return;
    }
    for (int64_t i = 0; i < count; i += 2, to += s->pitch, zt_winograd_next(s->tiles, &tile)) {
        const struct square first = square_of(s, &tile);
        struct square second;
        if (i + 1 < count) {
            zt_winograd_next(s->tiles, &tile);
            second = square_of(s, &tile);
        }
        transform_pair(s, &first, i + 1 < count ? &second : NULL, to, step);
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
