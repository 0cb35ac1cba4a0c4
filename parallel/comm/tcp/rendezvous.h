/* Rendezvous over TCP: creates a connection between each pair of ranks. Rank 0 listens at a known address; the other
 * ranks connect to it and learn from it where all ranks listen.
 *
 *     rank r > 0                              rank 0 at MASTER_ADDR, MASTER_PORT
 *     connects
 *     listens at its own address of
 *       that connection
 *     handshake (handshake.h), with port <->  keeps one connection per rank
 *                               <-----------  address and port of every rank, with a MAC for this connection
 *     handshake  <--------------------------> ranks 1 .. r - 1, which know the job by then
 *
 * Ranks listen only at the addresses that are needed. An incoming connection has one second for the handshake, which
 * reads two records of fixed size. At most 128 connections are pending: when another one arrives, the one with the
 * fewest received bytes, the oldest among equals, is closed. A rank whose connection was closed connects again.
 * Processes that do not prove the secret have no effect except on the error message when ranks are missing in the end.
 */
#ifndef ZT_PARALLEL_COMM_TCP_RENDEZVOUS_H
#define ZT_PARALLEL_COMM_TCP_RENDEZVOUS_H

#include "parallel/comm/comm.h"

/* Fills fds[0..size) with a connected socket to every other rank; -1 for this rank. If not all ranks connect in time,
 * it closes all sockets and returns false with an error. */
bool zt_tcp_meet(const struct zt_meeting *m, int *fds, struct zt_err *err);

#endif
