/* What ranks and the parent that started them tell each other over a socket: frames of a kind, a length and contents.
 *
 * All processes are the same program, so contents are plain structs; ranks of another build are refused before they
 * train (preflight.h). The listening socket can be reached by others: every connection begins with the handshake of
 * handshake.h under the job's token, which does not travel over it, and lengths are checked before they are used. */
#ifndef ZT_PARALLEL_LAUNCH_CONTROL_PROTOCOL_H
#define ZT_PARALLEL_LAUNCH_CONTROL_PROTOCOL_H

#include "base/err.h"

#include <stdint.h>

/* Environment of a rank: "ADDRESS[,ADDRESS...] PORT TOKEN COLUMNS". COLUMNS: width of the parent's terminal, 0: none.
 */
#define ZT_CONTROL_VARIABLE "ZTRAIN_PARENT"

enum { ZT_CONTROL_TOKEN = 32, ZT_CONTROL_MOST = 16 << 10 };

enum zt_control_kind {
    ZT_CONTROL_HELLO = 1, /* rank to parent: struct zt_control_hello; first behind the handshake */
    ZT_CONTROL_STATUS,    /* rank to parent: struct zt_control_status; every second, and when asked */
    ZT_CONTROL_NOTE,      /* rank to parent: a line for the user */
    ZT_CONTROL_ERROR,     /* rank to parent: struct zt_err; the rank then waits for QUIT */
    ZT_CONTROL_GOODBYE,   /* rank to parent: int32_t, the exit code that will follow */
    ZT_CONTROL_ASK,       /* parent to rank: wants a status now */
    ZT_CONTROL_SIGNAL,    /* parent to rank: int32_t, raise it */
    ZT_CONTROL_QUIT,      /* parent to rank: end within a second */
};

/* What a connection is for. On the last two raw bytes follow the hello. */
enum zt_control_channel { ZT_CONTROL_CONTROL, ZT_CONTROL_STDOUT, ZT_CONTROL_STDERR };

struct zt_control_hello {
    char host[64];
    uint32_t job; /* Open MPI's number of the job, in the names of its files; 0: not known */
    int32_t rank, pid, channel;
};

struct zt_control_status {
    char place[64], phase[32], node[128], inside[32];
    int64_t step;   /* from 1; 0: none yet */
    int32_t signal; /* the launcher's, which ends the ranks that are left once one has gone; 0: none */
};

/* Writes a whole frame, waiting where it must. False: the other side is gone. */
bool zt_control_send(int fd, enum zt_control_kind kind, const void *data, size_t bytes);

/* Bytes of a connection that are no whole frame yet. Zero-initialise. */
struct zt_control_in {
    size_t have, used;
    unsigned char buffer[2 * ZT_CONTROL_MOST];
};
/* Reads what is there without waiting. False: the other side has closed the connection or it broke. */
bool zt_control_read(int fd, struct zt_control_in *in);
/* The next whole frame: true, contents valid until the next zt_control_read(). False: there is none; *bad: and never
 * will be, the other side does not speak this language. */
bool zt_control_next(struct zt_control_in *in, int *kind, const void **data, size_t *bytes, bool *bad);

/* What a user should read of text that came over the socket: ends it at `room` - 1 and replaces control characters. */
void zt_control_clean(char *text, size_t room);

#endif
