/* MPI shared-memory window: the transport of rounds.h between ranks of one host, a wake-up signal (bell) for sleeping
 * ranks, and notification of an abort.
 *
 *     segment of a rank    bell
 *                          one record per communicator: rounds posted and rounds consumed
 *                          staging buffer, two halves
 *
 * In round k a rank writes its bytes to half k % 2 of its own staging buffer and posts the round; the others read them
 * there and record that they consumed the round. A half is written again in round k + 2, after every other rank has
 * consumed round k, so the other ranks can prepare the next round while the slowest one still reads. Data in a shared
 * block (shared_block.h) are read directly, in a single round, and must stay until all ranks have consumed them. Ranks
 * never read each other's private memory, so a failed rank may free its buffers at once. All functions return without
 * waiting, except zt_window_rest(). */
#ifndef ZT_PARALLEL_COMM_MPI_WINDOW_H
#define ZT_PARALLEL_COMM_MPI_WINDOW_H

#include "base/err.h"
#include "parallel/comm/rounds.h"

struct zt_window;
struct zt_window_group;

/* Collective over MPI_COMM_WORLD, in which the caller is `world_rank` of `world_size`. Either all ranks get a window,
 * or all get an error. */
struct zt_window *zt_window_create(int world_rank, int world_size, struct zt_err *err);
/* Collective over the same ranks, except with `leave` (after an abort): then memory that other ranks may still use is
 * freed only when the process ends. NULL is harmless. */
void zt_window_destroy(struct zt_window *w, bool leave);

/* Whether world rank `r` is on this host. */
bool zt_window_holds(const struct zt_window *w, int r);

/* Only the first abort on a host has an effect. zt_window_aborted(): whether there was one; the error names rank and
 * reason. */
void zt_window_abort(struct zt_window *w, int world_rank, const char *why);
bool zt_window_aborted(const struct zt_window *w, struct zt_err *err);

/* Sleeps between two checks of the awaited condition. The first call only announces that this rank will sleep; later
 * calls sleep until the bell rings or `most_us` microseconds (less than a second) have passed, and return whether it
 * rang. zt_window_woke() ends the wait. */
bool zt_window_rest(struct zt_window *w, int most_us);
void zt_window_woke(struct zt_window *w);
/* Rings the bell of world rank `r` after data arrived by other means; does nothing if it is on another host. */
void zt_window_ring(struct zt_window *w, int r);

/* Ranks world[0..size) as communicator number `context`, the caller being world[rank]; all are on this host. `world`
 * is borrowed. NULL with an error: no free record for another communicator. */
struct zt_window_group *zt_window_group_create(struct zt_window *w, const int *world, int rank, int size, int context,
                                               struct zt_err *err);
void zt_window_group_destroy(struct zt_window_group *g);
/* Whether the other ranks have consumed all rounds of this rank. Required before the group is destroyed, except after
 * an abort. */
bool zt_window_group_idle(const struct zt_window_group *g);

/* Maximum bytes for one rank in one round. */
size_t zt_window_room(const struct zt_window_group *g, const struct zt_rounds *op);
/* Writes and posts `round`; false: not possible yet. */
bool zt_window_begin(struct zt_window_group *g, const struct zt_rounds *op, int64_t round);
/* Whether every peer has posted the round; given[r] then is the address of rank r's bytes, valid until
 * zt_window_finish(). Sets *agree to false, with an error, if a peer is in another function or has another size. */
bool zt_window_arrived(struct zt_window_group *g, const struct zt_rounds *op, const void **given, bool *agree,
                       struct zt_err *err);
/* Records that this rank has consumed the round. */
void zt_window_finish(struct zt_window_group *g);

#endif
