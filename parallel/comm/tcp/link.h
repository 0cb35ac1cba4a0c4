/* Lines between the processes of a world, a socket for each pair: frames of a kind, the number of a communicator and
 * contents. Frames of one pair arrive in order and stay queued by sender until they are dropped.
 *
 * The end of a line without a last frame is the loss of that rank. The first failure of any kind is passed on by all
 * that hear of it, since one of them may be gone before the news of another has come; from then on nothing else is
 * sent. Contents come from processes that were let in at the meeting (rendezvous.h); lengths and kinds are checked
 * all the same, and memory for a frame grows with the bytes that come, whatever its head says. */
#ifndef ZT_PARALLEL_COMM_TCP_LINK_H
#define ZT_PARALLEL_COMM_TCP_LINK_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum zt_frame_kind {
    ZT_FRAME_ROUND = 1, /* of a collective; at most ZT_FRAME_ROUND_MOST bytes */
    ZT_FRAME_MESSAGE,   /* of send */
    ZT_FRAME_TAKEN,     /* a message was received; no contents */
    ZT_FRAME_FAILED,    /* a rank failed: int32_t, which, and why, not terminated */
    ZT_FRAME_LOST,      /* a rank was lost: int32_t, which */
    ZT_FRAME_LEAVES,    /* the sender ends well; no contents */
};
enum { ZT_FRAME_ROUND_MOST = 2 << 20 };
#define ZT_FRAME_MESSAGE_MOST ((uint64_t)1 << 40)

struct zt_frame_head {
    uint32_t context;
    uint16_t kind, unused;
    uint64_t bytes;
};
struct zt_frame {
    struct zt_frame *next;
    struct zt_frame_head head;
    _Alignas(64) char data[];
};

/* Whether a head can be one; a peer that sends another is no rank of ours. A pure function. */
bool zt_frame_check(const struct zt_frame_head *head);

struct zt_links;

/* Takes over fds[0..size), connected sockets by rank; that of `rank` is -1. */
struct zt_links *zt_links_create(const int *fds, int rank, int size);
/* Where the ranks part in good order (`well`): behind the last frames, of which it waits for those underway. After a
 * failure it gives the others a moment to hear of it. NULL is harmless. */
void zt_links_destroy(struct zt_links *l, bool well);

/* Queues a copy, and sends what can be sent without waiting. */
void zt_links_send(struct zt_links *l, int to, enum zt_frame_kind kind, uint32_t context, const void *data,
                   size_t bytes);
/* Sends and receives what can be, waiting up to `ms` for something to do. False with an error where a rank failed or
 * was lost. */
bool zt_links_move(struct zt_links *l, int ms, struct zt_err *err);
/* The oldest such frame of rank `from`, NULL: none has come. It stays where it is until it is dropped. */
struct zt_frame *zt_links_find(const struct zt_links *l, int from, enum zt_frame_kind kind, uint32_t context);
/* Whether such a frame, of *bytes, is underway from there and no older one is: what waits for another number of bytes
 * need not wait for its end. Only where zt_links_find() gave NULL. */
bool zt_links_coming(const struct zt_links *l, int from, enum zt_frame_kind kind, uint32_t context, size_t *bytes);
void zt_links_drop(struct zt_links *l, int from, struct zt_frame *frame);

/* Whether a rank failed or was lost; the error says which. */
bool zt_links_failed(const struct zt_links *l, struct zt_err *err);
/* A rank fails, this one or one that does not speak: tells the others. The first failure counts. */
void zt_links_fail(struct zt_links *l, int rank, const char *why);

#endif
