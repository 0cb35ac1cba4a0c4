/* One message for one error that every rank of a host finds at its start, below a launcher that does not end the other
 * ranks when one has ended (srun without --kill-on-bad-exit).
 *
 * The rank that prints the error holds an abstract socket, whose name is made of the job and the text of the error.
 * Ranks above 0 look for it for a while and stay silent if it is there; otherwise the first of them prints. A rank
 * whose error no other rank of the host has prints it. */
#ifndef ZT_PARALLEL_LAUNCH_ERROR_ONCE_H
#define ZT_PARALLEL_LAUNCH_ERROR_ONCE_H

#include "base/err.h"

/* Returns whether this rank prints the error; *claim: the socket, -1 without one. Ranks above 0 wait for rank 0 up to
 * `patience_ms`. `job`: the same for all ranks of one start, and no other. */
bool zt_error_claim(const struct zt_err *err, const char *job, int rank, int patience_ms, int *claim);
/* Keeps the claim for a second after the message is printed, for ranks that find the error a little later. */
void zt_error_release(int claim);

#endif
