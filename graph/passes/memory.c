/* Placing intervals, worked example: a lives 0..3 (100 bytes), b 1..2 (60), c 3..5 (60):
 *
 *     position   0 1 2 3 4 5
 *     offset 0   a a a a . .      c may not share with a (position 3), but may with b
 *     offset 128 . b b c c c      block: 192 bytes instead of 320
 */
#include "graph/passes/memory.h"

#include "base/align.h"
#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

static int bigger_first(const void *a, const void *b) {
    const struct zt_interval *x = *(const struct zt_interval *const *)a, *y = *(const struct zt_interval *const *)b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x < y ? -1 : x > y;
}

/* Intervals that are placed, lowest offset first. */
struct placed {
    int64_t offset, end;
    int first, last;
};

/* The lowest offset from which `bytes` bytes are free during the life of `it`. */
static int64_t lowest_free(const struct placed *placed, int count, const struct zt_interval *it, int64_t bytes) {
    int64_t from = 0;
    for (int k = 0; k < count && placed[k].offset < from + bytes; k++)
        if (placed[k].end > from && placed[k].first <= it->last && it->first <= placed[k].last)
            from = placed[k].end;
    return from;
}

static void insert(struct placed *placed, int *count, const struct zt_interval *it, int64_t bytes) {
    int at = *count;
    while (at > 0 && placed[at - 1].offset > it->offset)
        at--;
    memmove(placed + at + 1, placed + at, (size_t)(*count - at) * sizeof *placed);
    placed[at] = (struct placed){ it->offset, it->offset + bytes, it->first, it->last };
    ++*count;
}

int64_t zt_memory_plan(struct zt_interval *at, int count) {
    struct zt_interval **order = zt_malloc(((size_t)count + 1) * sizeof *order);
    struct placed *placed = zt_malloc(((size_t)count + 1) * sizeof *placed);
    int64_t size = 0;
    int placed_count = 0;
    for (int i = 0; i < count; i++)
        order[i] = &at[i];
    qsort(order, (size_t)count, sizeof *order, bigger_first);
    for (int i = 0; i < count; i++) {
        struct zt_interval *it = order[i];
        int64_t bytes = zt_align_64(it->bytes);
        it->offset = lowest_free(placed, placed_count, it, bytes);
        if (bytes > 0)
            insert(placed, &placed_count, it, bytes);
        if (it->offset + bytes > size)
            size = it->offset + bytes;
    }
    free(placed);
    free(order);
    return size;
}
