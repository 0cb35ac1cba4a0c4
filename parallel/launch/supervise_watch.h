/* Internals of the parent process: the watch over the ranks (supervise_watch.c: connections, output, frames, silence),
 * the end of all ranks (supervise_end.c), the result of the run (supervise_result.c), and the mpirun process
 * (supervise_mpirun.c). */
#ifndef ZT_PARALLEL_LAUNCH_SUPERVISE_WATCH_H
#define ZT_PARALLEL_LAUNCH_SUPERVISE_WATCH_H

#include "parallel/comm/handshake.h"
#include "parallel/launch/supervise.h"
#include "parallel/launch/control_protocol.h"

#include <poll.h>
#include <sys/types.h>

enum zt_rank_state {
    ZT_RANK_ABSENT, /* not connected yet */
    ZT_RANK_RUNNING,
    ZT_RANK_DONE,    /* sent GOODBYE; `code` has its exit code */
    ZT_RANK_LOST,    /* end of file without GOODBYE */
    ZT_RANK_STOPPED, /* sent no frame for too long */
    ZT_RANK_ENDED,   /* ended after QUIT */
};

struct zt_rank_seen {
    enum zt_rank_state state;
    int fd;        /* -1: closed */
    int stream[2]; /* standard output and standard error; -1: closed */
    int pid, silent_ms, code;
    bool here;     /* runs on the parent's host */
    bool answered; /* has sent a STATUS after the last ASK */
    char host[64];
    struct zt_control_status status;
    struct zt_err *error; /* the error that it reported; NULL: none */
    struct zt_control_in *in;
    char words[2048]; /* the end of its standard error */
};

/* A connection that is not yet authenticated or has not sent HELLO. */
struct zt_pending_connection {
    int fd, silent_ms;
    struct zt_handshake handshake;
    struct zt_control_in in;
};
enum { ZT_PENDING_CONNECTIONS = 64 };

struct zt_mpirun {
    pid_t pid;       /* 0: not running */
    pid_t started;   /* its number, also when it has ended */
    int output;      /* its own output; -1: closed */
    int status;      /* of waitpid() */
    char said[4096]; /* the end of `output` */
};

struct zt_parent {
    const struct zt_supervise *job;
    int listener, signals; /* signals: a signalfd */
    char token[ZT_CONTROL_TOKEN + 1];
    unsigned char key[ZT_MAC]; /* derived from the token */
    struct zt_listener_identity identity;
    char host[64];
    uint32_t job_number; /* Open MPI's; 0: unknown */
    struct zt_rank_seen *ranks;
    struct zt_pending_connection *connections[ZT_PENDING_CONNECTIONS];
    struct zt_mpirun mpirun;
    int lonely_ms;     /* since the last connection of a rank, while others are missing */
    int mpi_ms;        /* since all ranks are in MPI_Init */
    int first_bad;     /* the first rank that was lost, stopped or failed; -1: none */
    int stop_signal;   /* SIGINT, SIGTERM or SIGHUP; 0: none */
    bool save;         /* received SIGUSR1 */
    bool stop_at_once; /* received a stop signal twice, or once before any rank has come */
    bool line_open;    /* what ranks wrote to standard error ends within a line */
    bool ending;       /* all ranks are being ended */
    bool no_mpi;       /* the ranks have been in MPI_Init for too long */
};

/* Opens the listening socket, generates the token, and writes the value of ZT_CONTROL_VARIABLE to `variable`. */
bool zt_parent_listen(struct zt_parent *p, char *variable, size_t room, struct zt_err *err);
/* Ends a line on standard error that the ranks have begun, so that a message begins on its own. */
void zt_parent_end_line(struct zt_parent *p);
/* Waits up to `ms` milliseconds for events and handles them: connections, frames, output, signals, the end of mpirun.
 */
void zt_parent_take(struct zt_parent *p, int ms);
/* Calls zt_parent_take() until `until` is true, for at most `ms` milliseconds. */
void zt_parent_take_until(struct zt_parent *p, int ms, bool (*until)(const struct zt_parent *p));
/* Sends a frame to all running ranks. */
void zt_parent_tell(struct zt_parent *p, enum zt_control_kind kind, const void *data, size_t bytes);
/* Number of ranks in a state. */
int zt_parent_count(const struct zt_parent *p, enum zt_rank_state state);
/* Whether no rank runs and mpirun has ended; whether in addition all output is closed. */
bool zt_parent_nobody_left(const struct zt_parent *p);
bool zt_parent_is_over(const struct zt_parent *p);
void zt_parent_finish(struct zt_parent *p);

/* Ends all ranks after the first rank that was lost, or a second stop signal: requests their status, tells them to
 * quit, and kills those that remain. Takes up to about seven seconds. */
void zt_parent_end(struct zt_parent *p);

/* Starts mpirun with `variable` in the ranks' environment. */
bool zt_mpirun_start(struct zt_mpirun *m, const struct zt_supervise *job, const char *variable, struct zt_err *err);
/* Reads its output, and its exit status once it has ended. */
void zt_mpirun_take(struct zt_mpirun *m);
void zt_mpirun_kill(struct zt_mpirun *m, int number);
/* The signal or exit status with which a process ended according to mpirun's messages; 0 and -1: not mentioned. Returns
 * the rank that a signal ended; -1: none is named. */
int zt_mpirun_cause(const struct zt_mpirun *m, int *signal_number, int *status);

/* The result of the run, from the ranks' states. */
bool zt_parent_result(const struct zt_parent *p, struct zt_err *err);

#endif
