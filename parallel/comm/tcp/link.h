/* Framed connections between the processes of a world, one socket per pair. A frame has a kind, the context of a
 * communicator, and contents. Frames of one pair arrive in order and stay queued by sender until they are dropped.
 *
 * A connection that closes without a LEAVES frame means a lost rank. Every rank forwards the first failure that it
 * learns of, since the rank that reported it may end before its other messages are sent; afterwards it sends no other
 * frames. Ranks are authenticated (rendezvous.h); lengths and kinds are checked all the same, and memory for a frame
 * grows with the received bytes, not with the length in its head. */
#ifndef ZT_PARALLEL_COMM_TCP_LINK_H
#define ZT_PARALLEL_COMM_TCP_LINK_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum zt_frame_kind {
    ZT_FRAME_ROUND = 1, /* of a collective; at most ZT_FRAME_ROUND_MOST bytes */
    ZT_FRAME_MESSAGE,   /* of send */
    ZT_FRAME_TAKEN,     /* acknowledges a MESSAGE; no contents */
    ZT_FRAME_FAILED,    /* a rank failed: int32_t, which, and why, not terminated */
    ZT_FRAME_LOST,      /* a rank was lost: int32_t, which */
    ZT_FRAME_LEAVES,    /* the sender closes the connection in good order; no contents */
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

/* Whether a head is valid. A pure function. */
bool zt_frame_check(const struct zt_frame_head *head);

struct zt_links;

/* Takes over fds[0..size), connected sockets by rank; that of `rank` is -1. */
struct zt_links *zt_links_create(const int *fds, int rank, int size);
/* Closes the connections. `well`: sends the remaining frames and LEAVES first; false (after a failure): waits a short
 * time so that the other ranks receive the failure. NULL is harmless. */
void zt_links_destroy(struct zt_links *l, bool well);

/* Queues a copy of the data and sends as much as possible without waiting. */
void zt_links_send(struct zt_links *l, int to, enum zt_frame_kind kind, uint32_t context, const void *data,
                   size_t bytes);
/* Sends and receives as much as possible, waiting up to `ms` milliseconds. False with an error if a rank failed or was
 * lost. */
bool zt_links_move(struct zt_links *l, int ms, struct zt_err *err);
/* The oldest complete frame of this kind and context from rank `from`; NULL: none. It stays queued until it is dropped.
 */
struct zt_frame *zt_links_find(const struct zt_links *l, int from, enum zt_frame_kind kind, uint32_t context);
/* Whether such a frame is partly received; *bytes becomes its length. Lets a receiver that expects another length fail
 * early. Only valid if zt_links_find() returned NULL. */
bool zt_links_coming(const struct zt_links *l, int from, enum zt_frame_kind kind, uint32_t context, size_t *bytes);
void zt_links_drop(struct zt_links *l, int from, struct zt_frame *frame);

/* Whether a rank failed or was lost; the error names it. */
bool zt_links_failed(const struct zt_links *l, struct zt_err *err);
/* Reports to all ranks that `rank` failed. Only the first failure is reported. */
void zt_links_fail(struct zt_links *l, int rank, const char *why);

#endif
