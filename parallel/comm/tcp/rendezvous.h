/* How the processes of a world find each other: rank 0 listens where all know, the others come, and each learns from it
 * where the others listen.
 *
 *     rank r > 0                              rank 0 at MASTER_ADDR, MASTER_PORT
 *     connects
 *     listens at its own end's address
 *     handshake (handshake.h), with port <->  keeps the line; one line for each rank
 *                               <-----------  address and port of every rank, with a MAC of this line
 *     handshake  <--------------------------> ranks 1 .. r - 1, each of which knows the job by then
 *
 * Nobody listens at more than the addresses that are needed. Whoever else comes to a port has a second to go through
 * the handshake, which takes the bytes of two records of fixed size. At most 128 visitors are heard at once: of those
 * the one that has said least, the oldest among equals, leaves when another comes. A rank that was sent away so comes
 * again. Visitors that do not prove the secret change nothing but what is reported where ranks are missing in the end.
 */
#ifndef ZT_PARALLEL_COMM_TCP_RENDEZVOUS_H
#define ZT_PARALLEL_COMM_TCP_RENDEZVOUS_H

#include "parallel/comm/comm.h"

/* A connected socket to every other rank, fds[0..size) by rank, -1 for this one. False with an error where they do not
 * all come in time; then none is left open. */
bool zt_tcp_meet(const struct zt_meeting *m, int *fds, struct zt_err *err);

#endif
