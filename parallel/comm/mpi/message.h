/* Ranks that exchange MPI messages: the transport of rounds.h between hosts, send and recv everywhere, and the
 * news of an abort to ranks that share no window with the one that failed.
 *
 * Functions return at once; waiting is the caller's. Collectives send from and receive into buffers of their own: a
 * rank that fails may give its buffers back. */
#ifndef ZT_PARALLEL_COMM_MPI_MESSAGE_H
#define ZT_PARALLEL_COMM_MPI_MESSAGE_H

#include "base/err.h"
#include "parallel/comm/rounds.h"

struct zt_messages;
struct zt_message_group;

/* Collective over MPI_COMM_WORLD. */
struct zt_messages *zt_messages_create(void);
/* Collective over the same ranks; not with `leave` (after an abort), when MPI keeps what peers may still use. NULL is
 * harmless. */
void zt_messages_destroy(struct zt_messages *m, bool leave);

/* Tells every rank of the world but the caller; the first call counts. */
void zt_messages_abort(struct zt_messages *m, const char *why);
/* Looks for such news. False, or true with an error that names rank and reason. */
bool zt_messages_aborted(struct zt_messages *m, struct zt_err *err);

/* Ranks world[0..size) as communicator number `context`, the caller being world[rank]. */
struct zt_message_group *zt_message_group_create(struct zt_messages *m, const int *world, int rank, int size,
                                                 int context);
/* When no rank will receive from it any more. */
void zt_message_group_destroy(struct zt_message_group *g);

/* As the functions of window.h. Buffers are made at the first round: false with an error where there is no
 * memory. */
bool zt_message_prepare(struct zt_message_group *g, struct zt_err *err);
size_t zt_message_room(const struct zt_message_group *g);
void zt_message_begin(struct zt_message_group *g, const struct zt_rounds *op, int64_t round);
/* True: done, given[] is filled, or the exchange failed (*ok false, with an error). */
bool zt_message_arrived(struct zt_message_group *g, const void **given, bool *ok, struct zt_err *err);

/* A message of its own copy to rank `to` of the group. *sent false: eight are underway, try again. Returns false with
 * an error where there is no memory. */
bool zt_message_send(struct zt_message_group *g, const void *data, size_t bytes, int to, bool *sent,
                     struct zt_err *err);
/* Whether something that was sent is still underway, after moving it on: a message may need its sender before it can
 * arrive, so whoever waits for anything else calls this meanwhile. */
bool zt_message_sending(struct zt_message_group *g);
/* The next message of rank `from`, in two steps. zt_message_waiting(): whether it has come, and its bytes; it may then
 * be received with zt_message_receive() into data[0..bytes) until zt_message_received(). */
bool zt_message_waiting(struct zt_message_group *g, int from, size_t *bytes);
void zt_message_receive(struct zt_message_group *g, void *data, size_t bytes, int from);
bool zt_message_received(struct zt_message_group *g);

#endif
