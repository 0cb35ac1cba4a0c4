/* The parent of ranks as processes: starts them through mpirun, passes on what rank 0 says, hears signs of life from
 * all, ends all when one is lost, and says in one message what happened (contract.md, "Failure").
 *
 * Ranks connect to a socket of the parent (control_protocol.h). What becomes of a rank:
 *
 *     goodbye with 0                  done
 *     an error of its own             the run's error, with its code; one that only says that another failed counts
 *                                     where there is no other
 *     end of file without goodbye     lost: code 5, with where it was
 *     five silent seconds             stopped: code 5
 *     no connection, fifteen seconds  stopped: code 5; counted from the last one of another rank, since how long mpirun
 *                                     takes to reach its hosts is nobody's fault
 *
 * After the first that is not done the others are asked where they are, told to quit, and what is left is killed: by
 * the parent on this host, by mpirun's daemons on others. What is left ten seconds after all ranks were done is killed
 * too. */
#ifndef ZT_PARALLEL_LAUNCH_SUPERVISE_H
#define ZT_PARALLEL_LAUNCH_SUPERVISE_H

#include "base/err.h"

struct zt_supervise {
    int ranks;
    const char *hosts; /* for mpirun's --host: "a:2,b:1"; NULL: all on this host */
    char *const *argv; /* of the ranks, NULL-terminated; argv[0] is replaced by this program's own path */
    /* Folders in which the unfinished files (*.tmp-PID) of killed ranks are removed; ends with NULL. */
    const char *const *clean;
};

/* Runs to the end of all ranks and of mpirun. False with an error, or, where the ranks agreed to stop, with err->code
 * alone: 128 + signal. SIGINT, SIGTERM, SIGHUP and SIGUSR1 go to the ranks, unless this
 * process was started to ignore them; a second one of the first three ends the ranks at once. */
bool zt_supervise(const struct zt_supervise *job, struct zt_err *err);

#endif
