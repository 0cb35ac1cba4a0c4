/* Names to numbers: a hash table from text to int, for values, initializers, keys. Keys are borrowed, not copied. */
#ifndef ZT_BASE_MAP_H
#define ZT_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero-initialise before use; finish with zt_map_finish(). */
struct zt_map {
    struct zt_map_slot *slots;
    size_t room, count;
};

/* Sets name -> number, replacing an earlier one. */
void zt_map_put(struct zt_map *map, const char *name, int number);
/* The number of `name`, or `otherwise`. */
int zt_map_get(const struct zt_map *map, const char *name, int otherwise);
void zt_map_finish(struct zt_map *map);

/* 64-bit FNV-1a of `bytes` bytes, continuing from `seed` (ZT_HASH_START at first). Same on every machine. */
#define ZT_HASH_START UINT64_C(0xcbf29ce484222325)
uint64_t zt_hash(uint64_t seed, const void *data, size_t bytes);

#endif
