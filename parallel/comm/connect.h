/* TCP connections: connecting with a time limit, and transferring a known number of bytes. */
#ifndef ZT_PARALLEL_COMM_CONNECT_H
#define ZT_PARALLEL_COMM_CONNECT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/* Connects to the first address of `host` (a numeric address; no name server is used) that answers within `ms`
 * milliseconds. Returns a non-blocking socket with close-on-exec and TCP_NODELAY; -1: failed. */
int zt_connect(const char *host, const char *port, int ms);
/* The same for a socket address. */
int zt_connect_at(const struct sockaddr *to, socklen_t bytes, int ms);

/* Sends or receives `bytes` bytes on a non-blocking socket. False: the connection was closed, or `end` (zt_now() time)
 * has passed. */
bool zt_connection_transfer(int fd, void *data, size_t bytes, bool sends, double end);

#endif
