/* Hash table from names to numbers, for values, initializers and keys. Names are borrowed, not copied. */
#ifndef ZT_BASE_MAP_H
#define ZT_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero-initialise before use; free with zt_map_finish(). */
struct zt_map {
    struct zt_map_slot *slots;
    size_t room, count;
};

/* Maps `name` to `number`; replaces an earlier entry. */
void zt_map_put(struct zt_map *map, const char *name, int number);
/* Returns the number of `name`, or `otherwise` if there is none. */
int zt_map_get(const struct zt_map *map, const char *name, int otherwise);
/* Frees the entries; the map is empty afterwards. */
void zt_map_finish(struct zt_map *map);

#define ZT_HASH_START UINT64_C(0xcbf29ce484222325)
/* 64-bit FNV-1a of `bytes` bytes. `seed` is ZT_HASH_START or the hash of preceding bytes. The result is the same on
 * every machine. */
uint64_t zt_hash(uint64_t seed, const void *data, size_t bytes);

#endif
