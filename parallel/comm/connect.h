/* Opening a line to a process that listens, and moving bytes of known number over it. */
#ifndef ZT_PARALLEL_COMM_CONNECT_H
#define ZT_PARALLEL_COMM_CONNECT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/* A connected socket, non-blocking, closed on exec and without delay for small frames, to the first address of `host`,
 * in digits, that answers within `ms` milliseconds; -1 where it does not. No name server is asked. */
int zt_connect(const char *host, const char *port, int ms);
/* The same to an address. */
int zt_connect_at(const struct sockaddr *to, socklen_t bytes, int ms);

/* Sends or receives all of them on a non-blocking socket. False: the line ended, or `end`, by zt_now(), came. */
bool zt_strided_copy_all(int fd, void *data, size_t bytes, bool sends, double end);

#endif
