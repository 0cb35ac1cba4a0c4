#include "base/arena.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { ALIGNMENT = 64, CHUNK_BYTES = 64 << 10 };

struct chunk {
    struct chunk *next;
    size_t size, used; /* bytes of `data` */
    bool lent;
    _Alignas(ALIGNMENT) unsigned char data[];
};

struct zt_arena {
    struct chunk *first;
};

/* Threads may run out of memory at the same time: the first one prints and ends the process. */
static void out_of_memory(size_t bytes) {
    static atomic_flag ending = ATOMIC_FLAG_INIT;
    char text[96];
    while (atomic_flag_test_and_set(&ending))
        pause();
    int n = snprintf(text, sizeof text, ZT_ERR_MARK "out of memory: %zu bytes of host memory refused\n", bytes);
    if (write(STDERR_FILENO, text, (size_t)n) < 0) {
        /* nothing can be printed */
    }
    _exit(ZT_EXIT_RUN);
}

static bool is_limited(struct rlimit *limit) {
    return getrlimit(RLIMIT_AS, limit) == 0 && limit->rlim_cur != RLIM_INFINITY;
}

void zt_malloc_begin(void) {
    struct rlimit limit;
    if (is_limited(&limit))
        mallopt(M_ARENA_MAX, 1);
}

void *zt_malloc(size_t bytes) {
    void *p = malloc(bytes ? bytes : 1);
    if (!p)
        out_of_memory(bytes);
    return p;
}

void *zt_calloc(size_t count, size_t bytes) {
    void *p = calloc(count ? count : 1, bytes ? bytes : 1);
    if (!p)
        out_of_memory(count * bytes);
    return p;
}

void *zt_realloc(void *old, size_t bytes) {
    void *p = realloc(old, bytes ? bytes : 1);
    if (!p)
        out_of_memory(bytes);
    return p;
}

char *zt_strdup(const char *text) {
    size_t n = strlen(text) + 1;
    return memcpy(zt_malloc(n), text, n);
}

struct zt_arena *zt_arena_create(void) {
    return zt_calloc(1, sizeof(struct zt_arena));
}

void zt_arena_destroy(struct zt_arena *arena) {
    if (!arena)
        return;
    for (struct chunk *c = arena->first, *next; c; c = next) {
        next = c->next;
        if (!c->lent)
            free(c);
    }
    free(arena);
}

void zt_arena_lend(struct zt_arena *arena, void *memory, size_t bytes) {
    if (bytes < sizeof(struct chunk))
        return;
    arena->first = memory;
    *arena->first = (struct chunk){ .size = bytes - sizeof(struct chunk), .lent = true };
}

size_t zt_arena_object(size_t bytes) {
    return bytes ? (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : ALIGNMENT;
}

size_t zt_arena_bytes(const struct zt_arena *arena) {
    size_t bytes = sizeof(struct chunk);
    for (const struct chunk *c = arena->first; c; c = c->next)
        bytes += c->used;
    return bytes;
}

void *zt_arena_block(struct zt_arena *arena, size_t bytes) {
    if (bytes > SIZE_MAX / 2)
        out_of_memory(bytes);
    const size_t need = zt_arena_object(bytes);
    struct chunk *c = arena->first;
    if (!c || c->size - c->used < need) {
        size_t size = need > CHUNK_BYTES / 4 ? need : CHUNK_BYTES;
        void *p = NULL;
        if (posix_memalign(&p, ALIGNMENT, sizeof *c + size))
            out_of_memory(size);
        struct chunk *fresh = p;
        *fresh = (struct chunk){ .size = size };
        if (c && size == need) { /* a large object gets its own chunk behind the current one */
            fresh->next = c->next;
            c->next = fresh;
        } else {
            fresh->next = c;
            arena->first = fresh;
        }
        c = fresh;
    }
    void *p = c->data + c->used;
    c->used += need;
    return p;
}

void *zt_arena_alloc(struct zt_arena *arena, size_t bytes) {
    return memset(zt_arena_block(arena, bytes), 0, bytes);
}

void *zt_arena_copy(struct zt_arena *arena, const void *from, size_t bytes) {
    void *to = zt_arena_block(arena, bytes);
    return bytes ? memcpy(to, from, bytes) : to;
}

char *zt_arena_strndup(struct zt_arena *arena, const char *text, size_t length) {
    char *to = zt_arena_block(arena, length + 1);
    if (length)
        memcpy(to, text, length);
    to[length] = '\0';
    return to;
}

char *zt_arena_strdup(struct zt_arena *arena, const char *text) {
    return zt_arena_strndup(arena, text, strlen(text));
}

char *zt_arena_vprintf(struct zt_arena *arena, const char *fmt, va_list ap) {
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    char *to = zt_arena_alloc(arena, (size_t)n + 1);
    vsnprintf(to, (size_t)n + 1, fmt, again);
    va_end(again);
    return to;
}

char *zt_arena_printf(struct zt_arena *arena, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    char *to = zt_arena_vprintf(arena, fmt, ap);
    va_end(ap);
    return to;
}

void *zt_block_create(size_t bytes, const char *what, struct zt_err *err) {
    size_t size = bytes ? bytes : 1;
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        zt_fail(err, ZT_EXIT_RUN, "%s: out of memory: %zu bytes refused by the system", what, bytes);
        return NULL;
    }
    if (size >= (size_t)4 << 20)
        madvise(p, size, MADV_HUGEPAGE);
    return p;
}

/* Computed from the limits instead of tried, because a trial allocation could make another thread's allocation fail. */
bool zt_block_room(size_t bytes) {
    struct rlimit limit;
    char text[64] = "";
    if (!is_limited(&limit))
        return true;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0)
        close(fd);
    unsigned long long used = strtoull(text, NULL, 10) * (unsigned long long)sysconf(_SC_PAGESIZE);
    return length <= 0 || (used <= limit.rlim_cur && bytes <= limit.rlim_cur - used);
}

void zt_block_destroy(void *block, size_t bytes) {
    if (block)
        munmap(block, bytes ? bytes : 1);
}

bool zt_block_reserve(void **block, size_t *room, size_t bytes, const char *what, struct zt_err *err) {
    if (bytes <= *room)
        return true;
    zt_block_destroy(*block, *room);
    *block = zt_block_create(bytes, what, err);
    *room = *block ? bytes : 0;
    return *block != NULL;
}
