/* How the processes of a world find each other: rank 0 listens where all know, the others come, and each learns from it
 * where the others listen.
 *
 *     rank r > 0                          rank 0 at MASTER_ADDR, MASTER_PORT
 *     listens on a port of its own
 *     hello {rank, size, port}  ------->  keeps the line; one line for each rank
 *                               <-------  answer: a token, and address and port of every rank
 *     hello {rank, size, token} ------->  ranks 1 .. r - 1, each of which knows the token by then
 *
 * Whoever else comes to a port has a second to say a hello of this program, this world and a rank that is wanted; he is
 * let go without a word otherwise, a rank with another world's size with an answer that says so. Rank 0's port has no
 * secret: it should be open to the hosts of the run alone. */
#ifndef ZT_PARALLEL_COMM_TCP_MEET_H
#define ZT_PARALLEL_COMM_TCP_MEET_H

#include "parallel/comm.h"

/* A connected socket to every other rank, fds[0..size) by rank, -1 for this one. False with an error where they do not
 * all come in time; then none is left open. */
bool zt_tcp_meet(const struct zt_meeting *m, int *fds, struct zt_err *err);

#endif
