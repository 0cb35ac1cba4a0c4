/* Placing intervals, worked example: a lives 0..3 (100 bytes), b 1..2 (60), c 3..5 (60):
 *
 *     position   0 1 2 3 4 5
 *     offset 0   a a a a . .      c may not share with a (position 3), but may with b
 *     offset 128 . b b c c c      block: 192 bytes instead of 320
 */
#include "graph/memory.h"

#include "base/arena.h"

#include <stdlib.h>

enum { ALIGNMENT = 64 };

static int bigger_first(const void *a, const void *b) {
    const struct zt_interval *x = *(const struct zt_interval *const *)a, *y = *(const struct zt_interval *const *)b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x < y ? -1 : x > y;
}

static int lower_first(const void *a, const void *b) {
    const struct zt_interval *x = *(const struct zt_interval *const *)a, *y = *(const struct zt_interval *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static int64_t rounded(int64_t bytes) {
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

int64_t zt_memory_plan(struct zt_interval *at, int count) {
    struct zt_interval **order = zt_malloc(((size_t)count + 1) * sizeof *order);
    struct zt_interval **near = zt_malloc(((size_t)count + 1) * sizeof *near);
    int64_t size = 0;
    for (int i = 0; i < count; i++)
        order[i] = &at[i];
    qsort(order, (size_t)count, sizeof *order, bigger_first);
    for (int i = 0; i < count; i++) {
        struct zt_interval *it = order[i];
        int neighbours = 0;
        for (int k = 0; k < i; k++)
            if (order[k]->first <= it->last && it->first <= order[k]->last && order[k]->bytes > 0)
                near[neighbours++] = order[k];
        qsort(near, (size_t)neighbours, sizeof *near, lower_first);
        int64_t free_from = 0;
        for (int k = 0; k < neighbours && near[k]->offset < free_from + rounded(it->bytes); k++)
            if (near[k]->offset + rounded(near[k]->bytes) > free_from)
                free_from = near[k]->offset + rounded(near[k]->bytes);
        it->offset = free_from;
        if (free_from + rounded(it->bytes) > size)
            size = free_from + rounded(it->bytes);
    }
    free(near);
    free(order);
    return size;
}
