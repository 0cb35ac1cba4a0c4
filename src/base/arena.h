/* Host memory.
 *
 * Objects of one lifetime live in one arena and are freed together. Allocation of host metadata never returns NULL:
 * when the system refuses, the process says so and leaves with status 1 (the sizes have been checked against the input
 * before, so this is a machine without memory, not a hostile file). Big blocks whose size the user can mend go through
 * zt_block_create(), which reports. */
#ifndef ZT_BASE_ARENA_H
#define ZT_BASE_ARENA_H

#include "base/err.h"

#include <stdarg.h>
#include <stddef.h>

struct zt_arena;

struct zt_arena *zt_arena_create(void);
void zt_arena_destroy(struct zt_arena *arena); /* NULL is harmless */

/* `bytes` zeroed bytes aligned to 64, valid until the arena is destroyed. 0 bytes give a valid pointer. */
void *zt_arena_alloc(struct zt_arena *arena, size_t bytes);
char *zt_arena_strdup(struct zt_arena *arena, const char *text);
char *zt_arena_strndup(struct zt_arena *arena, const char *text, size_t length);
char *zt_arena_printf(struct zt_arena *arena, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *zt_arena_vprintf(struct zt_arena *arena, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
void *zt_arena_copy(struct zt_arena *arena, const void *from, size_t bytes);

#define ZT_NEW(arena, type)          ((type *)zt_arena_alloc((arena), sizeof(type)))
#define ZT_NEW_N(arena, type, count) ((type *)zt_arena_alloc((arena), sizeof(type) * (size_t)(count)))

/* malloc, calloc and realloc that do not return NULL (see above); free with free(). */
void *zt_malloc(size_t bytes);
void *zt_calloc(size_t count, size_t bytes);
void *zt_realloc(void *old, size_t bytes);
char *zt_strdup(const char *text);
/* Before any thread is made. Under a limit of the address space (ulimit -v) all threads allocate from one place: glibc
 * otherwise reserves 64 MiB for each thread, and where it cannot, takes a page for each of its smallest blocks. */
void zt_malloc_begin(void);

/* A zeroed block of `bytes`, aligned to 64 (huge pages are advised for a large one). NULL and an error
 * naming `what` where the machine has no room. Free with zt_block_destroy(block, bytes). */
void *zt_block_create(size_t bytes, const char *what, struct zt_err *err);
void zt_block_destroy(void *block, size_t bytes);
/* Whether the process' address space has room for `bytes` more (ulimit -v): for before a library that does not survive
 * where it has none. */
bool zt_block_room(size_t bytes);
/* Makes a block of *room bytes (NULL and 0 at first) one of at least `bytes`; what was in it is lost where it grows. */
bool zt_block_reserve(void **block, size_t *room, size_t bytes, const char *what, struct zt_err *err);

#endif
