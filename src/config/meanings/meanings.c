#include "config/meanings/meanings.h"

#include <string.h>

static const struct zt_meaning *const lists[] = { zt_meanings_train, zt_meanings_optimizer, zt_meanings_zero,
                                                  zt_meanings_tools, zt_meanings_later,     zt_meanings_removed,
                                                  zt_meanings_ztrain };
enum { LISTS = sizeof lists / sizeof *lists };

const struct zt_meaning *zt_meaning_at(int i) {
    for (int k = 0; k < LISTS; k++)
        for (const struct zt_meaning *at = lists[k]; at->key; at++)
            if (i-- == 0)
                return at;
    return NULL;
}

const struct zt_meaning *zt_meaning_of(const char *key) {
    for (int k = 0; k < LISTS; k++)
        for (const struct zt_meaning *at = lists[k]; at->key; at++)
            if (strcmp(at->key, key) == 0)
                return at;
    return NULL;
}
