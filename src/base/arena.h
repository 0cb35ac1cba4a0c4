/* Host memory.
 *
 * The objects of one lifetime live in one arena and are freed together. Allocations of host metadata never return NULL:
 * if the system refuses memory, the process prints an error and exits with status 1. Sizes are checked against the
 * input before they are allocated, so that a hostile file cannot cause this. Large blocks whose size depends on the
 * user's choice come from zt_block_create(), which returns an error. */
#ifndef ZT_BASE_ARENA_H
#define ZT_BASE_ARENA_H

#include "base/err.h"

#include <stdarg.h>
#include <stddef.h>

struct zt_arena;
/* Creates an empty arena. zt_arena_destroy() frees it with all its objects. */
struct zt_arena *zt_arena_create(void);
void zt_arena_destroy(struct zt_arena *arena); /* accepts NULL */

/* Return zeroed bytes (0 bytes: a valid pointer) or copies, aligned to 64 and valid until the arena is destroyed. */
void *zt_arena_alloc(struct zt_arena *arena, size_t bytes);
void *zt_arena_block(struct zt_arena *arena,
                     size_t bytes); /* contents undefined: for tensors, which are written whole */
char *zt_arena_strdup(struct zt_arena *arena, const char *text);
char *zt_arena_strndup(struct zt_arena *arena, const char *text, size_t length);
char *zt_arena_printf(struct zt_arena *arena, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *zt_arena_vprintf(struct zt_arena *arena, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
void *zt_arena_copy(struct zt_arena *arena, const void *from, size_t bytes);
/* Lends an empty arena its first memory, aligned to 64; what does not fit is allocated. */
void zt_arena_lend(struct zt_arena *arena, void *memory, size_t bytes);
/* Returns the bytes that an object of `bytes` bytes takes in an arena, and the bytes of lent memory that all objects of
 * an arena need. */
size_t zt_arena_object(size_t bytes);
size_t zt_arena_bytes(const struct zt_arena *arena);

#define ZT_NEW(arena, type)          ((type *)zt_arena_alloc((arena), sizeof(type)))
#define ZT_NEW_N(arena, type, count) ((type *)zt_arena_alloc((arena), sizeof(type) * (size_t)(count)))

/* malloc, calloc, realloc and strdup that never return NULL (see the top of this file). The caller frees with free().
 */
void *zt_malloc(size_t bytes);
void *zt_calloc(size_t count, size_t bytes);
void *zt_realloc(void *old, size_t bytes);
char *zt_strdup(const char *text);
/* Configures malloc. Must be called before the first thread starts. Under a limit of the address space (ulimit -v), all
 * threads then share one glibc arena; otherwise glibc reserves 64 MiB for each thread, and uses a page for each of its
 * smallest blocks where that fails. */
void zt_malloc_begin(void);

/* Returns a zeroed block of `bytes` bytes, aligned to 64; large blocks ask for huge pages. On failure returns NULL with
 * an error that names `what`. The caller frees with zt_block_destroy(block, bytes). */
void *zt_block_create(size_t bytes, const char *what, struct zt_err *err);
void zt_block_destroy(void *block, size_t bytes);
/* Whether the address space of the process has room for `bytes` more (ulimit -v). For use before calls into libraries
 * that crash without memory. */
bool zt_block_room(size_t bytes);
/* Grows a block of *room bytes (initially NULL and 0) to at least `bytes` bytes. Its contents are lost when it grows.
 */
bool zt_block_reserve(void **block, size_t *room, size_t bytes, const char *what, struct zt_err *err);

#endif
