/* The parent process of ranks: starts them through mpirun, prints the output of rank 0, monitors all ranks, ends all
 * ranks when one is lost, and reports the cause in one message.
 *
 * Ranks connect to a socket of the parent (control_protocol.h). The outcome of a rank:
 *
 *     GOODBYE with code 0             done
 *     ERROR frame                     the run's error, with its exit code; an error that only reports another rank's
 *                                     failure counts if there is no other
 *     end of file without GOODBYE     lost: exit code 5, with the rank's last status
 *     no frame for five seconds       stopped: exit code 5
 *     no connection for 15 seconds    stopped: exit code 5; measured from the last connection of another rank, since
 *                                     mpirun may need any time to reach its hosts
 *
 * After the first outcome other than done, the parent requests the status of the other ranks and tells them to quit.
 * Remaining processes are killed, by the parent on this host and by mpirun's daemons on other hosts. Processes that
 * remain ten seconds after all ranks are done are killed too. */
#ifndef ZT_PARALLEL_LAUNCH_SUPERVISE_H
#define ZT_PARALLEL_LAUNCH_SUPERVISE_H

#include "base/err.h"

struct zt_supervise {
    int ranks;
    const char *hosts; /* value of mpirun's --host, such as "a:2,b:1"; NULL: this host only */
    char *const *argv; /* arguments of the ranks, NULL-terminated; argv[0] is replaced by this program's path */
    /* Folders from which temporary files (*.tmp-PID) of killed ranks are removed; NULL-terminated. */
    const char *const *clean;
};

/* Returns when all ranks and mpirun have ended. False with an error, or, if the ranks stopped at a signal, with only
 * err->code set: 128 + signal. SIGINT, SIGTERM, SIGHUP and SIGUSR1 are forwarded to the ranks, unless this process was
 * started with the signal ignored; a second SIGINT, SIGTERM or SIGHUP ends the ranks at once, as does the first one
 * five seconds later if no rank has connected until then. */
bool zt_supervise(const struct zt_supervise *job, struct zt_err *err);

#endif
