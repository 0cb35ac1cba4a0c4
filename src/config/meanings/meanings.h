/* Meanings of the keys of the configuration, for docs/config-keys.md and `ztrain help --keys`: a sentence for each key,
 * and the difference to DeepSpeed where there is one. Former names of keys have the meaning of the current name. */
#ifndef ZT_CONFIG_MEANINGS_MEANINGS_H
#define ZT_CONFIG_MEANINGS_MEANINGS_H

#include <stddef.h>

struct zt_meaning {
    const char *key;        /* as in the key table, once for all types that own it */
    const char *meaning;    /* a sentence */
    const char *difference; /* to DeepSpeed, a sentence; NULL: none, or not a key of DeepSpeed */
};

/* The meaning of a key; NULL: it has none. */
const struct zt_meaning *zt_meaning_of(const char *key);
/* Meaning i of all; NULL past the end. */
const struct zt_meaning *zt_meaning_at(int i);

/* The rows of the files of this folder; the lists end with a NULL key. */
extern const struct zt_meaning zt_meanings_train[], zt_meanings_optimizer[], zt_meanings_zero[], zt_meanings_tools[],
    zt_meanings_later[], zt_meanings_removed[], zt_meanings_ztrain[];

#endif
