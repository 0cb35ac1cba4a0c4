/* MPI messages: the transport of rounds.h between hosts, send and recv between all ranks, and notification of an abort
 * to ranks on other hosts.
 *
 * All functions return without waiting. Collectives use internal buffers, so a failed rank may free the caller's
 * buffers. */
#ifndef ZT_PARALLEL_COMM_MPI_MESSAGE_H
#define ZT_PARALLEL_COMM_MPI_MESSAGE_H

#include "base/err.h"
#include "parallel/comm/rounds.h"

struct zt_messages;
struct zt_message_group;

/* Collective over MPI_COMM_WORLD. */
struct zt_messages *zt_messages_create(void);
/* Collective over the same ranks, except with `leave` (after an abort): then buffers that other ranks may still use are
 * not freed. NULL is harmless. */
void zt_messages_destroy(struct zt_messages *m, bool leave);

/* Notifies all other ranks of the world. Only the first call has an effect. */
void zt_messages_abort(struct zt_messages *m, const char *why);
/* Whether a notification has arrived; the error names rank and reason. */
bool zt_messages_aborted(struct zt_messages *m, struct zt_err *err);

/* Ranks world[0..size) as communicator number `context`, the caller being world[rank]. */
struct zt_message_group *zt_message_group_create(struct zt_messages *m, const int *world, int rank, int size,
                                                 int context);
/* Must only be called when no rank will receive from it any more. */
void zt_message_group_destroy(struct zt_message_group *g);

/* As the functions of window.h. Buffers are allocated for the first round; false with an error: out of memory. */
bool zt_message_prepare(struct zt_message_group *g, struct zt_err *err);
size_t zt_message_room(const struct zt_message_group *g);
void zt_message_begin(struct zt_message_group *g, const struct zt_rounds *op, int64_t round);
/* Whether the exchange has ended: given[] is filled, or it failed (*ok false, with an error). */
bool zt_message_arrived(struct zt_message_group *g, const void **given, bool *ok, struct zt_err *err);

/* Sends a copy of the data to rank `to` of the group. *sent false: eight messages are in transit, the caller must try
 * again. Returns false with an error if memory is exhausted. */
bool zt_message_send(struct zt_message_group *g, const void *data, size_t bytes, int to, bool *sent,
                     struct zt_err *err);
/* Advances messages in transit and returns whether any is left. Must be called during other waits: a message may need
 * its sender's progress to arrive. */
bool zt_message_sending(struct zt_message_group *g);
/* Receives the next message of rank `from` in three steps: zt_message_waiting() returns whether it has arrived, and its
 * size; zt_message_receive() starts to receive it into data[0..bytes); zt_message_received() returns whether that is
 * done. */
bool zt_message_waiting(struct zt_message_group *g, int from, size_t *bytes);
void zt_message_receive(struct zt_message_group *g, void *data, size_t bytes, int from);
bool zt_message_received(struct zt_message_group *g);

#endif
