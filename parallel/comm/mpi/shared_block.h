/* Memory of a rank that the other ranks of its host read where it lies, so that a collective on it copies nothing into
 * a window first. The block becomes a file without a name that the peers map through /proc/PID/fd; it lives as long as
 * somebody maps it, so a rank that fails takes nothing away from under its peers, and leaves nothing behind. */
#ifndef ZT_PARALLEL_COMM_MPI_SHARED_BLOCK_H
#define ZT_PARALLEL_COMM_MPI_SHARED_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What peers need to find a block, exchanged by the caller; any bytes of it may be sent. */
struct zt_block_card {
    int64_t pid, fd; /* fd -1: could not be made */
    int64_t bytes;
    int64_t token; /* stands at the start of the block until zt_shared_block_begin() */
};

struct zt_shared_block {
    char *own;
    size_t bytes;
    int fd;
    int ranks;
    const char **at; /* by rank; [own rank]: own */
    struct zt_shared_block *next;
};

/* Puts shared pages where `memory` (whole pages, mapped) is; what it held is lost. Where the system does not do that
 * the card says so and the memory stays as it is. Ends with zt_shared_block_destroy(). */
struct zt_shared_block *zt_shared_block_create(void *memory, size_t bytes, struct zt_block_card *card);
/* Maps the blocks of the others, cards[0..ranks). False: not all of them can be read from here. */
bool zt_shared_block_open(struct zt_shared_block *b, const struct zt_block_card *cards, int rank, int ranks);
/* When all ranks have opened: the block is zero from here on. */
void zt_shared_block_begin(struct zt_shared_block *b);
/* Lets go of the peers' blocks; `memory` stays. */
void zt_shared_block_destroy(struct zt_shared_block *b);

/* The block of the list that holds memory[0..bytes), NULL: none. */
const struct zt_shared_block *zt_shared_block_find(const struct zt_shared_block *list, const void *memory,
                                                   size_t bytes);

#endif
