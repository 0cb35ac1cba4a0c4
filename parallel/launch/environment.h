/* The launcher of this process, from the environment variables that launchers set for each rank. */
#ifndef ZT_PARALLEL_LAUNCH_ENVIRONMENT_H
#define ZT_PARALLEL_LAUNCH_ENVIRONMENT_H

#include "base/err.h"
#include "parallel/comm/comm.h"

struct zt_launched {
    const char *launcher;       /* "mpirun", "PMI", "srun", "torchrun"; NULL: a single process */
    int rank, size;             /* 0 and 1 for a single process; a world of one rank counts as a single process */
    int local_rank, local_size; /* on this host; -1 and 0: unknown */
};

/* Reads the variables of Open MPI, PMI (MPICH, Intel MPI), Slurm, and torchrun or the deepspeed launcher; the first set
 * that is present wins. Contradictory variables are an error. */
bool zt_launched_find(struct zt_launched *launched, struct zt_err *err);
/* Adds the rank to an error that has none, where a launcher started several. Ranks above 0 wait before that: rank 0
 * finds the errors of the start too, and most launchers end all ranks as soon as one has ended, so that it is printed
 * once. Below srun, which need not, ranks of a host find out who prints it (error_once.h). Returns whether this rank
 * does; *claim is for zt_error_release(). */
bool zt_launched_place(bool trains, struct zt_err *err, int *claim);
/* The rendezvous of torchrun's ranks: MASTER_ADDR and MASTER_PORT, which are required, and the optional secret, which
 * is removed from the environment (secret.h). `address` is borrowed from the environment. */
bool zt_launched_meeting(const struct zt_launched *launched, struct zt_meeting *meeting, struct zt_err *err);

#endif
