/* Who started this process: what launchers leave in the environment of a rank (reference/deepspeed.md, section 8.3). */
#ifndef ZT_PARALLEL_LAUNCHED_H
#define ZT_PARALLEL_LAUNCHED_H

#include "base/err.h"

struct zt_launched {
    const char *launcher;       /* "mpirun", "PMI", "srun"; NULL: nobody, the process is alone */
    int rank, size;             /* 0 and 1 where alone; a world of one rank counts as alone */
    int local_rank, local_size; /* on this host; -1 and 0 where the launcher does not say */
};

/* Reads the environment: Open MPI's variables, then PMI's (MPICH, Intel MPI), then Slurm's. Variables that contradict
 * each other are an error, and so are those of torchrun and the deepspeed launcher alone: on the CPU there is nothing
 * behind them that ranks could meet in. */
bool zt_launched_find(struct zt_launched *launched, struct zt_err *err);

#endif
