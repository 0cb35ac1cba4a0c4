/* Who started this process: what launchers leave in the environment of a rank (reference/deepspeed.md, section 8.3). */
#ifndef ZT_PARALLEL_LAUNCH_ENVIRONMENT_H
#define ZT_PARALLEL_LAUNCH_ENVIRONMENT_H

#include "base/err.h"
#include "parallel/comm/comm.h"

struct zt_launched {
    const char *launcher;       /* "mpirun", "PMI", "srun", "torchrun"; NULL: nobody, the process is alone */
    int rank, size;             /* 0 and 1 where alone; a world of one rank counts as alone */
    int local_rank, local_size; /* on this host; -1 and 0 where the launcher does not say */
};

/* Reads the environment: Open MPI's variables, then PMI's (MPICH, Intel MPI), then Slurm's, then those of torchrun and
 * the deepspeed launcher. Variables that contradict each other are an error. */
bool zt_launched_find(struct zt_launched *launched, struct zt_err *err);
/* Where the ranks of torchrun meet: MASTER_ADDR and MASTER_PORT, which must be there, and the secret, where there
 * is one (secret.h: it is taken out of the environment); `address` is the environment's. */
bool zt_launched_meeting(const struct zt_launched *launched, struct zt_meeting *meeting, struct zt_err *err);

#endif
