/* Growable arrays as plain structs:
 *
 *     struct { int *at; int count, room; } ids = { 0 };      or      ZT_VEC(int) ids = { 0 };
 *     zt_vec_push(&ids, 7);
 *     for (int i = 0; i < ids.count; i++) use(ids.at[i]);
 *     int *kept = zt_vec_copy(arena, &ids);
 *     zt_vec_finish(&ids);
 *
 * Growth moves the elements: store indices, not pointers, across a push. */
#ifndef ZT_BASE_VEC_H
#define ZT_BASE_VEC_H

#include "base/arena.h"

#include <stdlib.h>

#define ZT_VEC(type)                                                                                                   \
    struct {                                                                                                           \
        type *at;                                                                                                      \
        int count, room;                                                                                               \
    }

#define zt_vec_push(vec, ...)                                                                                          \
    do {                                                                                                               \
        if ((vec)->count == (vec)->room) {                                                                             \
            (vec)->room = (vec)->room ? 2 * (vec)->room : 8;                                                           \
            (vec)->at = zt_realloc((vec)->at, (size_t)(vec)->room * sizeof *(vec)->at);                                \
        }                                                                                                              \
        (vec)->at[(vec)->count++] = (__VA_ARGS__);                                                                     \
    } while (0)

#define zt_vec_copy(arena, vec) zt_arena_copy((arena), (vec)->at, (size_t)(vec)->count * sizeof *(vec)->at)

#define zt_vec_finish(vec)                                                                                             \
    do {                                                                                                               \
        free((vec)->at);                                                                                               \
        (vec)->at = NULL;                                                                                              \
        (vec)->count = (vec)->room = 0;                                                                                \
    } while (0)

#endif
