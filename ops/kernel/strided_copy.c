/* Axes of one element are dropped, and adjacent axes along which both sides are contiguous are merged. The remaining
 * copy consists of rows along the last axis. Where the source of a row is strided, but contiguous along another axis,
 * both axes are walked in tiles, so that both sides are read and written in whole cache lines (transposes). */
#include "ops/kernel/strided_copy.h"

#include "ops/kernel/element_blocks.h"
#include "ops/kernel/merge_axes.h"
#include "ops/kernel/shape.h"

#include "device/threads.h"

#include <string.h>

enum { TILE = 16, BLOCK = 1 << 14 }; /* elements a thread takes at a time at least */

struct copy {
    size_t bytes;
    char *to;
    const char *from;
    int outer; /* axes before those of a unit of work */
    int64_t dim[ZT_MAX_RANK], to_step[ZT_MAX_RANK], from_step[ZT_MAX_RANK];
    int64_t n, to_row, from_row;      /* a row */
    int64_t across, tiles, to_across; /* tiles: the other axis, along which the source is contiguous; else 1 */
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

#define TILES(type)                                                                                                    \
    do {                                                                                                               \
        type *t = to;                                                                                                  \
        const type *f = from;                                                                                          \
        for (int64_t i = 0; i < c->n; i += TILE) {                                                                     \
            const int64_t end = i + TILE < c->n ? i + TILE : c->n;                                                     \
            for (int64_t row = 0; row < rows; row++)                                                                   \
                for (int64_t k = i; k < end; k++)                                                                      \
                    t[row * c->to_across + k * c->to_row] = f[k * c->from_row + row];                                  \
        }                                                                                                              \
    } while (0)

static void copy_tile(const struct copy *c, void *to, const void *from, int64_t rows) {
    BY_SIZE(TILES);
}

static void copy_unit(const struct copy *c, int64_t unit) {
    const int64_t first = unit % c->tiles * TILE, left = c->across - first;
    int64_t rest = unit / c->tiles, t = 0, f = 0;
    for (int k = c->outer - 1; k >= 0; rest /= c->dim[k--]) {
        t += rest % c->dim[k] * c->to_step[k];
        f += rest % c->dim[k] * c->from_step[k];
    }
    if (c->across > 1)
        copy_tile(c, zt_element(c->to, c->bytes, t + first * c->to_across), zt_element(c->from, c->bytes, f + first),
                  left < TILE ? left : TILE);
    else
        copy_row(c, zt_element(c->to, c->bytes, t), zt_element(c->from, c->bytes, f));
}

static void copy_block(void *arg, int64_t block) {
    const struct copy *c = arg;
    for (int64_t unit = block * c->each; unit < (block + 1) * c->each && unit < c->units; unit++)
        copy_unit(c, unit);
}

/* Takes axis `k` out of the outer ones. */
static void remove_axis(struct copy *c, int k) {
    const size_t behind = (size_t)(c->outer - k - 1) * sizeof *c->dim;
    memmove(c->dim + k, c->dim + k + 1, behind);
    memmove(c->to_step + k, c->to_step + k + 1, behind);
    memmove(c->from_step + k, c->from_step + k + 1, behind);
    c->outer--;
}

/* The axis to walk in tiles with the rows, -1: none. */
static int other_axis(const struct copy *c) {
    for (int k = c->outer - 1; k >= 0 && c->from_row != 1 && c->from_row != 0; k--)
        if (c->from_step[k] == 1 && c->dim[k] >= 4)
            return k;
    return -1;
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
    if (other >= 0) {
        c.across = c.dim[other];
        c.to_across = c.to_step[other];
        remove_axis(&c, other);
    }
    c.tiles = (c.across + TILE - 1) / TILE;
    c.units = c.tiles;
    for (int k = 0; k < c.outer; k++)
        c.units *= c.dim[k];
    const int64_t work = c.n * (c.across > TILE ? TILE : c.across);
    c.each = work < BLOCK ? BLOCK / work : 1;
    zt_parallel_for(zt_threads_worth(threads, (double)c.units * (double)work), (c.units + c.each - 1) / c.each,
                    copy_block, &c);
}
