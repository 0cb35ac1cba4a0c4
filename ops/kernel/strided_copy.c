/* Axes of one element are dropped, and adjacent axes along which both sides are contiguous are merged. The remaining
 * copy consists of rows along the last axis. Where the source of a row is strided, but contiguous along another axis,
 * both axes are walked in tiles of a cache line's elements (transposes). Those of 4 and 2 bytes are turned in a buffer:
 * every line of either side is touched once, also where lines a power of two apart share a set of the cache. Short rows
 * are copied many at a time, and long ones in parts. */
#include "ops/kernel/strided_copy.h"

#include "ops/kernel/element_blocks.h"
#include "ops/kernel/merge_axes.h"
#include "ops/kernel/shape.h"

#include "device/threads.h"
#include "ops/kernel/unrolled.h"

#include <string.h>

enum {
    LINE = 64,       /* bytes of a cache line */
    SHORT = 8,       /* elements of a row */
    TOGETHER = 256,  /* short rows */
    BLOCK = 1 << 14, /* elements a thread takes at a time at least */
    LEAST = 1 << 10, /* elements of a part of a long row */
};

struct copy {
    size_t bytes;
    char *to;
    const char *from;
    int outer; /* axes before those of a unit of work */
    int64_t dim[ZT_MAX_RANK], to_step[ZT_MAX_RANK], from_step[ZT_MAX_RANK];
    int64_t n, to_row, from_row;            /* a row */
    int64_t across, to_across, from_across; /* rows that are copied together: of tiles, or short ones; else 1 */
    int64_t side, tiles;                    /* at most so many at a time, and how many times */
    int64_t units, each;
};

/* LOOP(type) for an unsigned type of the elements' size. These are macros, as the loops are written once for all types.
 */
#define BY_SIZE(LOOP)                                                                                                  \
    do {                                                                                                               \
        if (c->bytes == 4)                                                                                             \
            LOOP(uint32_t);                                                                                            \
        else if (c->bytes == 8)                                                                                        \
            LOOP(uint64_t);                                                                                            \
        else if (c->bytes == 2)                                                                                        \
            LOOP(uint16_t);                                                                                            \
        else                                                                                                           \
            LOOP(uint8_t);                                                                                             \
    } while (0)

#define FILL(type)                                                                                                     \
    do {                                                                                                               \
        type *t = to;                                                                                                  \
        const type value = *(const type *)from;                                                                        \
        for (int64_t i = 0; i < c->n; i++)                                                                             \
            t[i] = value;                                                                                              \
    } while (0)

#define ROW(type)                                                                                                      \
    do {                                                                                                               \
        type *t = to;                                                                                                  \
        const type *f = from;                                                                                          \
        for (int64_t i = 0; i < c->n; i++)                                                                             \
            t[i * c->to_row] = f[i * c->from_row];                                                                     \
    } while (0)

static void copy_row(const struct copy *c, void *to, const void *from) {
    if (c->to_row == 1 && c->from_row == 1)
        memcpy(to, from, c->bytes * (size_t)c->n);
    else if (c->to_row == 1 && c->from_row == 0)
        BY_SIZE(FILL);
    else
        BY_SIZE(ROW);
}

typedef uint32_t four __attribute__((vector_size(16)));
typedef uint16_t eight __attribute__((vector_size(16)));

static inline four load_4(const uint32_t *from) {
    four v;
    memcpy(&v, from, sizeof v);
    return v;
}

/* to[i][k] = from[k][i] of 4 x 4 elements. */
static inline void turn_4(const uint32_t *from, int64_t from_row, uint32_t *to, int64_t to_row) {
    const four a = load_4(from), b = load_4(from + from_row);
    const four c = load_4(from + 2 * from_row), d = load_4(from + 3 * from_row);
    const four ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const four cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    const four rows[4] = { __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5),
                           __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7),
                           __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5),
                           __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7) };
    UNROLLED for (int i = 0; i < 4; i++) memcpy(to + i * to_row, &rows[i], sizeof rows[i]);
}

/* The same of 8 x 8: rows k and k + 4 are interleaved, three times. */
static inline void turn_8(const uint16_t *from, int64_t from_row, uint16_t *to, int64_t to_row) {
    eight v[8], next[8];
    UNROLLED for (int k = 0; k < 8; k++) memcpy(&v[k], from + k * from_row, sizeof v[k]);
    UNROLLED for (int turn = 0; turn < 3; turn++) {
        UNROLLED for (int k = 0; k < 4; k++) {
            next[2 * k] = __builtin_shufflevector(v[k], v[k + 4], 0, 8, 1, 9, 2, 10, 3, 11);
            next[2 * k + 1] = __builtin_shufflevector(v[k], v[k + 4], 4, 12, 5, 13, 6, 14, 7, 15);
        }
        UNROLLED for (int k = 0; k < 8; k++) v[k] = next[k];
    }
    UNROLLED for (int i = 0; i < 8; i++) memcpy(to + i * to_row, &v[i], sizeof v[i]);
}

/* `rows` rows of n elements, into a buffer whose rows are a cache line; inlined where these are known. */
#define TURN(type, width)                                                                                              \
    do {                                                                                                               \
        enum { WIDE = LINE / sizeof(type) };                                                                           \
        const type *f = from;                                                                                          \
        type *t = to;                                                                                                  \
        const int64_t whole = rows / width * width, wide = n / width * width;                                          \
        for (int64_t k = 0; k < wide; k += width)                                                                      \
            for (int64_t i = 0; i < whole; i += width)                                                                 \
                turn_##width(f + k * from_row + i, from_row, t + i * WIDE + k, WIDE);                                  \
        for (int64_t k = 0; k < n; k++)                                                                                \
            for (int64_t i = k < wide ? whole : 0; i < rows; i++)                                                      \
                t[i * WIDE + k] = f[k * from_row + i];                                                                 \
    } while (0)

static inline void turn(size_t bytes, const void *from, int64_t from_row, int64_t rows, int64_t n, void *to) {
    if (bytes == 4)
        TURN(uint32_t, 4);
    else
        TURN(uint16_t, 8);
}

/* Through a buffer, where the lines of a tile lie together. */
static inline void copy_tile(const struct copy *c, char *to, const char *from, int64_t rows, int64_t n) {
    _Alignas(LINE) char turned[LINE * LINE / 2];
    const int64_t bytes = (int64_t)c->bytes;
    turn(c->bytes, from, c->from_row, rows, n, turned);
    for (int64_t row = 0; row < rows; row++)
        memcpy(to + row * c->to_across * bytes, turned + row * LINE, (size_t)(n * bytes));
}

/* `rows` adjacent rows, in tiles. */
static void copy_turned(const struct copy *c, char *to, const char *from, int64_t rows) {
    const int64_t bytes = (int64_t)c->bytes, side = c->side, step = c->from_row * bytes;
    for (int64_t i = 0; i < c->n; i += side) {
        const int64_t left = c->n - i;
        for (int64_t k = i + side; k < i + 2 * side && k < c->n;
             k++) /* processors do not fetch what lies pages apart */
            __builtin_prefetch(from + k * step);
        if (left >= side && rows == side)
            copy_tile(c, to + i * bytes, from + i * step, side, side);
        else
            copy_tile(c, to + i * bytes, from + i * step, rows, left < side ? left : side);
    }
}

/* With the longer of the two loops inside. */
#define ELEMENTS(type)                                                                                                 \
    do {                                                                                                               \
        type *t = to;                                                                                                  \
        const type *f = from;                                                                                          \
        for (int64_t k = 0; k < c->n && rows > c->n; k++)                                                              \
            for (int64_t row = 0; row < rows; row++)                                                                   \
                t[row * c->to_across + k * c->to_row] = f[k * c->from_row + row * c->from_across];                     \
        for (int64_t i = 0; i < c->n && rows <= c->n; i += c->side) {                                                  \
            const int64_t end = i + c->side < c->n ? i + c->side : c->n;                                               \
            for (int64_t row = 0; row < rows; row++)                                                                   \
                for (int64_t k = i; k < end; k++)                                                                      \
                    t[row * c->to_across + k * c->to_row] = f[k * c->from_row + row * c->from_across];                 \
        }                                                                                                              \
    } while (0)

static void copy_rows(const struct copy *c, void *to, const void *from, int64_t rows) {
    const bool turned = (c->bytes == 4 || c->bytes == 2) && c->to_row == 1 && c->from_across == 1;
    if (turned && c->n >= 8 && rows >= 4)
        copy_turned(c, to, from, rows);
    else
        BY_SIZE(ELEMENTS);
}

/* Of the rows at t and f, those of one tile. */
static void copy_unit(const struct copy *c, int64_t tile, int64_t t, int64_t f) {
    const int64_t first = tile * c->side, left = c->across - first;
    void *to = zt_element(c->to, c->bytes, t + first * c->to_across);
    const void *from = zt_element(c->from, c->bytes, f + first * c->from_across);
    if (c->across > 1)
        copy_rows(c, to, from, left < c->side ? left : c->side);
    else
        copy_row(c, to, from);
}

static void copy_block(void *arg, int64_t block) {
    const struct copy *c = arg;
    int64_t unit = block * c->each, tile = unit % c->tiles, rest = unit / c->tiles, t = 0, f = 0, index[ZT_MAX_RANK];
    for (int k = c->outer - 1; k >= 0; rest /= c->dim[k--]) {
        index[k] = rest % c->dim[k];
        t += index[k] * c->to_step[k];
        f += index[k] * c->from_step[k];
    }
    for (; unit < (block + 1) * c->each && unit < c->units; unit++) {
        copy_unit(c, tile, t, f);
        tile = tile + 1 < c->tiles ? tile + 1 : 0;
        for (int k = c->outer - 1; k >= 0 && tile == 0; k--) { /* the next place */
            t += c->to_step[k];
            f += c->from_step[k];
            if (++index[k] < c->dim[k])
                break;
            t -= c->dim[k] * c->to_step[k];
            f -= c->dim[k] * c->from_step[k];
            index[k] = 0;
        }
    }
}

/* Takes axis `k` out of the outer ones. */
static void remove_axis(struct copy *c, int k) {
    const size_t behind = (size_t)(c->outer - k - 1) * sizeof *c->dim;
    memmove(c->dim + k, c->dim + k + 1, behind);
    memmove(c->to_step + k, c->to_step + k + 1, behind);
    memmove(c->from_step + k, c->from_step + k + 1, behind);
    c->outer--;
}

/* The axis to walk with the rows, -1: none. */
static int other_axis(const struct copy *c) {
    for (int k = c->outer - 1; k >= 0 && c->from_row != 1 && c->from_row != 0; k--)
        if (c->from_step[k] == 1 && c->dim[k] >= 4)
            return k;
    return c->n < SHORT ? c->outer - 1 : -1;
}

/* Makes it the axis across. */
static void walk_across(struct copy *c, int k) {
    c->across = c->dim[k];
    c->to_across = c->to_step[k];
    c->from_across = c->from_step[k];
    remove_axis(c, k);
}

/* Makes a row longer than BLOCK, the whole copy maybe, an axis of equal parts, where its length has a divisor for that.
 */
static void cut_row(struct copy *c) {
    int64_t parts = c->n / BLOCK + 1;
    while (c->n % parts != 0 && c->n / parts >= LEAST)
        parts++;
    if (c->n <= BLOCK || c->n / parts < LEAST)
        return;
    c->n /= parts;
    c->dim[c->outer] = parts;
    c->to_step[c->outer] = c->n * c->to_row;
    c->from_step[c->outer++] = c->n * c->from_row;
}

void zt_strided_copy_run(int threads, size_t bytes, const struct zt_strided_copy *copy, void *to, const void *from) {
    const struct zt_shape *shape = &copy->shape;
    if (zt_shape_count(shape) == 0)
        return;
    struct copy c = { .bytes = bytes,
                      .to = zt_element(to, bytes, copy->to),
                      .from = zt_element(from, bytes, copy->from),
                      .n = 1,
                      .to_row = 1,
                      .from_row = 1,
                      .across = 1 };
    memcpy(c.dim, shape->dim, (size_t)shape->rank * sizeof *c.dim);
    memcpy(c.to_step, copy->to_step, (size_t)shape->rank * sizeof *c.to_step);
    memcpy(c.from_step, copy->from_step, (size_t)shape->rank * sizeof *c.from_step);
    c.outer = zt_merge_axes(shape->rank, c.dim, 2, (int64_t *[]){ c.to_step, c.from_step });
    if (c.outer > 0) {
        const int last = c.outer - 1;
        c.n = c.dim[last];
        c.to_row = c.to_step[last];
        c.from_row = c.from_step[last];
        remove_axis(&c, last);
    }
    const int other = other_axis(&c);
    if (other >= 0)
        walk_across(&c, other);
    else
        cut_row(&c);
    c.side = c.n < SHORT ? TOGETHER : bytes == 2 ? LINE / 2 : LINE / 4;
    c.tiles = (c.across + c.side - 1) / c.side;
    c.units = c.tiles;
    for (int k = 0; k < c.outer; k++)
        c.units *= c.dim[k];
    const int64_t work = c.n * (c.across > c.side ? c.side : c.across);
    c.each = work < BLOCK ? BLOCK / work : 1;
    zt_parallel_for(zt_threads_worth(threads, (double)c.units * (double)work), (c.units + c.each - 1) / c.each,
                    copy_block, &c);
}
