#include "checkpoint/sources.h"

#include <stdlib.h>

void zt_sources_add(struct zt_sources *s, int file, bool copy, const struct zt_extent *extent) {
    zt_vec_push(&s->list[file][copy], *extent);
}

static int by_position(const void *a, const void *b) {
    const struct zt_extent *x = a, *y = b;
    return x->at != y->at ? (x->at > y->at) - (x->at < y->at) : (x->end < y->end) - (x->end > y->end);
}

/* Copies of several hosts overlap: each extent keeps what follows those before it. */
void zt_sources_sort(struct zt_sources *s) {
    for (int i = 0; i < 2 * ZT_STORED_FILES; i++) {
        struct zt_extent *at = s->list[i / 2][i % 2].at;
        const int count = s->list[i / 2][i % 2].count;
        int64_t end = 0;
        int kept = 0;
        if (count)
            qsort(at, (size_t)count, sizeof *at, by_position);
        for (int k = 0; k < count; k++) {
            struct zt_extent e = at[k];
            if (e.end <= end)
                continue;
            if (e.at < end) {
                e.from += end - e.at;
                e.at = end;
            }
            end = e.end;
            at[kept++] = e;
        }
        s->list[i / 2][i % 2].count = kept;
    }
}

static const struct zt_extent *find(const struct zt_sources *s, int file, bool copy, int64_t at) {
    const struct zt_extent *list = s->list[file][copy].at;
    int low = 0, high = s->list[file][copy].count; /* the first extent behind `at` */
    while (low < high) {
        const int middle = (low + high) / 2;
        if (list[middle].at > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low && at < list[low - 1].end ? &list[low - 1] : NULL;
}

const unsigned char *zt_sources_at(const struct zt_sources *s, int file, int64_t at, int64_t *bytes) {
    const struct zt_extent *e = find(s, file, false, at);
    if (!e)
        e = find(s, file, true, at);
    if (!e)
        return NULL;
    if (e->end - at < *bytes)
        *bytes = e->end - at;
    return e->from + (at - e->at);
}

void zt_sources_finish(struct zt_sources *s) {
    for (int i = 0; i < 2 * ZT_STORED_FILES; i++)
        zt_vec_finish(&s->list[i / 2][i % 2]);
}
