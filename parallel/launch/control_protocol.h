/* The control protocol between ranks and their parent process, over a socket: frames with a kind, a length and
 * contents.
 *
 * All processes are the same program, so contents are plain structs; the preflight check rejects ranks of another
 * build. Other processes can reach the listening socket, so every connection begins with a handshake (handshake.h)
 * under the job's token, which is never transmitted, and lengths are checked before use. */
#ifndef ZT_PARALLEL_LAUNCH_CONTROL_PROTOCOL_H
#define ZT_PARALLEL_LAUNCH_CONTROL_PROTOCOL_H

#include "base/err.h"

#include <stdint.h>

/* Environment variable of a rank: "ADDRESS[,ADDRESS...] PORT TOKEN COLUMNS". COLUMNS is the width of the parent's
 * terminal; 0: no terminal. */
#define ZT_CONTROL_VARIABLE "ZTRAIN_PARENT"

enum { ZT_CONTROL_TOKEN = 32, ZT_CONTROL_MOST = 16 << 10 };

enum zt_control_kind {
    ZT_CONTROL_HELLO = 1, /* rank to parent: struct zt_control_hello; the first frame after the handshake */
    ZT_CONTROL_STATUS,    /* rank to parent: struct zt_control_status; every second, and after ASK */
    ZT_CONTROL_NOTE,      /* rank to parent: a line for the user */
    ZT_CONTROL_ERROR,     /* rank to parent: struct zt_err; the rank then waits for QUIT */
    ZT_CONTROL_GOODBYE,   /* rank to parent: int32_t, the exit code that will follow */
    ZT_CONTROL_ASK,       /* parent to rank: requests a STATUS frame */
    ZT_CONTROL_SIGNAL,    /* parent to rank: int32_t, a signal to raise */
    ZT_CONTROL_QUIT,      /* parent to rank: exit within a second */
};

/* Purpose of a connection. STDOUT and STDERR carry raw bytes after the hello. */
enum zt_control_channel { ZT_CONTROL_CONTROL, ZT_CONTROL_STDOUT, ZT_CONTROL_STDERR };

struct zt_control_hello {
    char host[64];
    uint32_t job; /* Open MPI's job number, which is part of its files' names; 0: unknown */
    int32_t rank, pid, channel;
};

struct zt_control_status {
    char place[64], phase[32], node[128], inside[32];
    int64_t step;   /* from 1; 0: none yet */
    int32_t signal; /* signal from the launcher, which ends the remaining ranks after one has exited; 0: none */
};

/* Sends a whole frame, waiting if necessary. False: the connection is closed. */
bool zt_control_send(int fd, enum zt_control_kind kind, const void *data, size_t bytes);

/* Receive buffer of a connection. Zero-initialise. */
struct zt_control_in {
    size_t have, used;
    unsigned char buffer[2 * ZT_CONTROL_MOST];
};
/* Reads available bytes without waiting. False: the connection is closed or broken. */
bool zt_control_read(int fd, struct zt_control_in *in);
/* Returns the next complete frame; its contents are valid until the next zt_control_read(). False: no complete frame;
 * *bad true: the bytes are no valid frame. */
bool zt_control_next(struct zt_control_in *in, int *kind, const void **data, size_t *bytes, bool *bad);

/* Makes received text safe to print: terminates it at `room` - 1 and replaces control characters. */
void zt_control_clean(char *text, size_t room);

#endif
