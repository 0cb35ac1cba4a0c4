/* Shared memory blocks: memory of a rank that the other ranks of its host read directly, so that collectives need no
 * copy into a window. The block is backed by an anonymous file that the other ranks map through /proc/PID/fd. The
 * kernel frees it with the last mapping, so a failing rank does not invalidate the others' mappings and leaves no file
 * behind.
 */
#ifndef ZT_PARALLEL_COMM_MPI_SHARED_BLOCK_H
#define ZT_PARALLEL_COMM_MPI_SHARED_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The data that other ranks need to map a block; the caller exchanges them. */
struct zt_block_card {
    int64_t pid, fd; /* fd -1: the block could not be shared */
    int64_t bytes;
    int64_t token; /* first bytes of the block until zt_shared_block_begin() */
};

struct zt_shared_block {
    char *own;
    size_t bytes;
    int fd;
    int ranks;
    const char **at; /* by rank; [own rank]: own */
    struct zt_shared_block *next;
};

/* Replaces the pages of `memory` (whole mapped pages) by shared pages; the contents are lost. If the system cannot, the
 * card's fd is -1 and the memory is unchanged. The result is freed with zt_shared_block_destroy(). */
struct zt_shared_block *zt_shared_block_create(void *memory, size_t bytes, struct zt_block_card *card);
/* Maps the blocks of the other ranks, cards[0..ranks). False: one of them cannot be read. */
bool zt_shared_block_open(struct zt_shared_block *b, const struct zt_block_card *cards, int rank, int ranks);
/* Clears the block. Must be called after all ranks have opened it. */
void zt_shared_block_begin(struct zt_shared_block *b);
/* Unmaps the other ranks' blocks; `memory` stays mapped. */
void zt_shared_block_destroy(struct zt_shared_block *b);

/* The block in the list that contains memory[0..bytes); NULL: none. */
const struct zt_shared_block *zt_shared_block_find(const struct zt_shared_block *list, const void *memory,
                                                   size_t bytes);

#endif
