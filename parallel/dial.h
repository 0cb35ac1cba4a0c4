/* Opening a line to a process that listens. */
#ifndef ZT_PARALLEL_DIAL_H
#define ZT_PARALLEL_DIAL_H

/* A connected socket, non-blocking, closed on exec and without delay for small frames, to the first address of `host`
 * that answers within `ms` milliseconds each; -1 where none does. `flags` are getaddrinfo's: AI_NUMERICHOST asks no
 * name server. */
int zt_dial(const char *host, const char *port, int flags, int ms);

#endif
