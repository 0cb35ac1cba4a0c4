#include "parallel/comm/mpi/shared_block.h"

#include "base/arena.h"
#include "base/process_memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Identifies the block of this rank. */
static int64_t make_token(const void *memory) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)((uint64_t)getpid() << 40 ^ (uint64_t)t.tv_nsec << 20 ^ (uint64_t)t.tv_sec ^ (uintptr_t)memory);
}

static bool put_pages(struct zt_shared_block *b) {
    b->fd = memfd_create(ZT_SHARED_NAME, MFD_CLOEXEC);
    return b->fd >= 0 && ftruncate(b->fd, (off_t)b->bytes) == 0 &&
           mmap(b->own, b->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, b->fd, 0) == b->own;
}

struct zt_shared_block *zt_shared_block_create(void *memory, size_t bytes, struct zt_block_card *card) {
    struct zt_shared_block *b = zt_calloc(1, sizeof *b);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
    *b = (struct zt_shared_block){ .own = memory, .bytes = whole, .fd = -1 };
    *card = (struct zt_block_card){ .pid = getpid(), .fd = -1, .bytes = (int64_t)whole, .token = make_token(memory) };
    if (bytes && put_pages(b)) {
        card->fd = b->fd;
        memcpy(b->own, &card->token, sizeof card->token);
    }
    return b;
}

/* With separate PID namespaces another process may have this number: the token detects that. */
static const char *map_peer(const struct zt_block_card *card, size_t bytes) {
    char path[64];
    struct stat info;
    if (card->fd < 0 || card->bytes != (int64_t)bytes)
        return NULL;
    snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)card->pid, (long long)card->fd);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    char *at = fstat(fd, &info) == 0 && info.st_size == (off_t)bytes ? mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0)
                                                                     : MAP_FAILED;
    close(fd);
    if (at == MAP_FAILED)
        return NULL;
    if (memcmp(at, &card->token, sizeof card->token) == 0)
        return at;
    munmap(at, bytes);
    return NULL;
}

bool zt_shared_block_open(struct zt_shared_block *b, const struct zt_block_card *cards, int rank, int ranks) {
    bool all = b->fd >= 0;
    b->ranks = ranks;
    b->at = zt_calloc((size_t)ranks, sizeof *b->at);
    for (int r = 0; r < ranks && all; r++) {
        b->at[r] = r == rank ? b->own : map_peer(&cards[r], b->bytes);
        all = b->at[r] != NULL;
    }
    return all;
}

void zt_shared_block_begin(struct zt_shared_block *b) {
    if (b->fd < 0)
        return;
    memset(b->own, 0, sizeof(int64_t));
    close(b->fd);
    b->fd = -1;
}

void zt_shared_block_destroy(struct zt_shared_block *b) {
    for (int r = 0; r < b->ranks; r++)
        if (b->at[r] && b->at[r] != b->own)
            munmap((void *)(uintptr_t)b->at[r], b->bytes);
    if (b->fd >= 0)
        close(b->fd);
    free(b->at);
    free(b);
}

const struct zt_shared_block *zt_shared_block_find(const struct zt_shared_block *list, const void *memory,
                                                   size_t bytes) {
    const char *at = memory;
    for (const struct zt_shared_block *b = list; b; b = b->next)
        if (at >= b->own && at + bytes <= b->own + b->bytes)
            return b;
    return NULL;
}
