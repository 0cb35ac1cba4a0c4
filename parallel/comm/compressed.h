/* Compressed all-reduce with error feedback: the mean over ranks of an fp32 vector, one bit an element on the wire
 * (1-bit Adam, arXiv 2102.02888, section 4). Every rank gets the same result.
 *
 *     worker   y = x + worker error; s = |y| / sqrt(n); sgn(y) and s are sent; worker error = y - s sgn(y)
 *     server   rank j: z = sum over r of s_r / ranks sgn_r + server error of chunk j, in rank order;
 *              S = |z| / sqrt(length of the chunk); server error = z - S sgn(z)
 *     result   chunk j of x = S_j sgn(z_j) on all ranks
 *
 * sgn(0) = 1. The vector is divided into parts (tensors, or everything), each with scales of its own and filled up with
 * zeros to n elements, a multiple of ranks lcm(ranks, 8), so that each rank is the server of a chunk of whole bytes.
 * The filling has errors too, and they count in |y|. Two exchanges move all parts together:
 *
 *     all_to_all   message to rank j    | s of part 0, 1, ... | signs of chunk j of part 0 | of part 1 | ...
 *     all_gather   message of rank j    | S of part 0, 1, ... | signs of chunk j of part 0 | of part 1 | ...
 *
 * Norms are summed in fp64 in an order that depends on lengths alone (ZT_COMPRESSED_LANES), so that results do not
 * depend on threads, and host and CUDA give the same bits. */
#ifndef ZT_PARALLEL_COMM_COMPRESSED_H
#define ZT_PARALLEL_COMM_COMPRESSED_H

#include "base/arena.h"
#include "parallel/comm/comm.h"
#include "parallel/comm/compressed_call.h"

/* Lays out parts of an x of bound[parts] elements: part i begins at bound[i]. Parts without elements are left out.
 * Lives in `arena`. */
struct zt_compressed *zt_compressed_make(struct zt_arena *arena, const int64_t *bound, int parts, int ranks);

/* Bytes that a rank sends in one all-reduce; 0 with one rank. */
int64_t zt_compressed_sent(const struct zt_compressed *layout);

/* Bytes of the working memory: tables, messages, sums. It holds nothing from one call to the next but the tables. */
int64_t zt_compressed_bytes(const struct zt_compressed *layout);
/* Divides working memory in `memory` of `device` and copies the tables there. `call` keeps its x, errors and rank. */
bool zt_compressed_place(const struct zt_compressed *layout, struct zt_device *device, void *memory,
                         struct zt_compressed_call *call, struct zt_err *err);

/* The all-reduce of call->x, in place. All memory of the call is in the memory of `device`, which `c` must reach
 * (comm.h). With one rank nothing is compressed: x and the errors stay as they are. */
bool zt_comm_compressed_all_reduce(struct zt_comm *c, struct zt_device *device, const struct zt_compressed_call *call,
                                   struct zt_err *err);

#endif
