/* The ranks of one host through an MPI shared-memory window: the transport of rounds.h that copies bytes instead
 * of sending them, the bell that wakes a sleeping rank, and the notice of an abort.
 *
 *     segment of a rank    bell
 *                          desks, one a communicator: what was posted, how much was consumed
 *                          staging, two halves
 *
 * In round k a rank writes what it gives into half k % 2 of its own staging and posts; the peers read it there and say
 * that they consumed it. A half is written again in round k + 2, after every peer consumed round k: while the slowest
 * rank still reads a round the others already prepare the next one. Data in a shared block (shared_block.h) is read
 * where it lies, all in one round, and stays until every peer consumed it. Ranks never read each other's private
 * memory, so a rank that fails may give its buffers back at once. Functions return at once; waiting is the caller's. */
#ifndef ZT_PARALLEL_COMM_MPI_WINDOW_H
#define ZT_PARALLEL_COMM_MPI_WINDOW_H

#include "base/err.h"
#include "parallel/comm/rounds.h"

struct zt_window;
struct zt_window_group;

/* Collective over MPI_COMM_WORLD, in which the caller is `world_rank` of `world_size`. All ranks get a window or none
 * does (then every one of them an error). */
struct zt_window *zt_window_create(int world_rank, int world_size, struct zt_err *err);
/* Collective over the same ranks; not with `leave` (after an abort), when what peers may still use is left to the end
 * of the process. NULL is harmless. */
void zt_window_destroy(struct zt_window *w, bool leave);

/* Whether world rank `r` is on this host. */
bool zt_window_holds(const struct zt_window *w, int r);

/* The first abort of a host counts. zt_window_aborted(): false, or true with an error that names rank and reason. */
void zt_window_abort(struct zt_window *w, int world_rank, const char *why);
bool zt_window_aborted(const struct zt_window *w, struct zt_err *err);

/* Between two looks at what is waited for. The first call only says that this rank will sleep; the next ones sleep
 * until the bell rings or `most_us` have passed (less than a second), and say whether it rang. zt_window_woke() ends
 * the wait. */
bool zt_window_rest(struct zt_window *w, int most_us);
void zt_window_woke(struct zt_window *w);
/* Rings the bell of world rank `r` for what did not come through the window; nothing where it is on another host. */
void zt_window_ring(struct zt_window *w, int r);

/* Ranks world[0..size) as communicator number `context`, the caller being world[rank]; all are on this host. `world`
 * is borrowed. NULL: no communicator of that number is left. */
struct zt_window_group *zt_window_group_create(struct zt_window *w, const int *world, int rank, int size, int context,
                                               struct zt_err *err);
void zt_window_group_destroy(struct zt_window_group *g);
/* Whether all peers have consumed everything this rank gave; only then may the group be destroyed (or after an abort).
 */
bool zt_window_group_idle(const struct zt_window_group *g);

/* Bytes for one peer in one round. */
size_t zt_window_room(const struct zt_window_group *g, const struct zt_rounds *op);
/* Gives `round`; false: not yet possible. */
bool zt_window_begin(struct zt_window_group *g, const struct zt_rounds *op, int64_t round);
/* Whether every peer gave its part of the round; given[r] then says where it lies, until zt_window_finish(). Sets
 * *agree to false, with an error, where a peer is in another function or has another size. */
bool zt_window_arrived(struct zt_window_group *g, const struct zt_rounds *op, const void **given, bool *agree,
                       struct zt_err *err);
void zt_window_finish(struct zt_window_group *g);

#endif
