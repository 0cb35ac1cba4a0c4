#include "base/map.h"
#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

struct zt_map_slot {
    const char *name; /* NULL: free */
    int number;
};

uint64_t zt_hash(uint64_t seed, const void *data, size_t bytes) {
    const unsigned char *p = data;
    for (size_t i = 0; i < bytes; i++)
        seed = (seed ^ p[i]) * UINT64_C(0x100000001b3);
    return seed;
}

static struct zt_map_slot *find(const struct zt_map *map, const char *name) {
    size_t i = (size_t)zt_hash(ZT_HASH_START, name, strlen(name)) & (map->room - 1);
    while (map->slots[i].name && strcmp(map->slots[i].name, name) != 0)
        i = (i + 1) & (map->room - 1);
    return &map->slots[i];
}

static void grow(struct zt_map *map) {
    struct zt_map old = *map;
    map->room = old.room ? 2 * old.room : 16;
    map->slots = zt_calloc(map->room, sizeof *map->slots);
    for (size_t i = 0; i < old.room; i++)
        if (old.slots[i].name)
            *find(map, old.slots[i].name) = old.slots[i];
    free(old.slots);
}

void zt_map_put(struct zt_map *map, const char *name, int number) {
    if (2 * (map->count + 1) > map->room)
        grow(map);
    struct zt_map_slot *slot = find(map, name);
    if (!slot->name)
        map->count++;
    *slot = (struct zt_map_slot){ name, number };
}

int zt_map_get(const struct zt_map *map, const char *name, int otherwise) {
    if (!map->room)
        return otherwise;
    const struct zt_map_slot *slot = find(map, name);
    return slot->name ? slot->number : otherwise;
}

void zt_map_finish(struct zt_map *map) {
    free(map->slots);
    *map = (struct zt_map){ 0 };
}
