/* Inside the parent: what it knows of each rank (supervise_ranks.c), what it makes of it (supervise_result.c), and the
 * mpirun below it (supervise_mpirun.c). */
#ifndef ZT_PARALLEL_LAUNCH_SUPERVISE_RANKS_H
#define ZT_PARALLEL_LAUNCH_SUPERVISE_RANKS_H

#include "parallel/comm/handshake.h"
#include "parallel/launch/supervise.h"
#include "parallel/launch/control_protocol.h"

#include <poll.h>
#include <sys/types.h>

enum zt_rank_state {
    ZT_RANK_ABSENT, /* not connected yet */
    ZT_RANK_RUNNING,
    ZT_RANK_DONE,    /* goodbye; its code in `code` */
    ZT_RANK_LOST,    /* end of file without goodbye */
    ZT_RANK_STOPPED, /* silent for too long */
    ZT_RANK_ENDED,   /* gone when it was told to */
};

struct zt_rank_seen {
    enum zt_rank_state state;
    int fd;        /* -1: closed */
    int stream[2]; /* its standard output and error, -1: closed */
    int pid, silent_ms, code;
    bool here;     /* on the parent's host */
    bool answered; /* its status since it was asked has come */
    char host[64];
    struct zt_control_status status;
    struct zt_err *error; /* its own words; NULL: none */
    struct zt_control_in *in;
    char words[2048]; /* the end of what it wrote to standard error */
};

/* A connection that has not said who it is, or not proven that it may. */
struct zt_guest {
    int fd, silent_ms;
    struct zt_visit visit;
    struct zt_control_in in;
};
enum { ZT_GUESTS = 64 };

struct zt_mpirun {
    pid_t pid;       /* 0: not running */
    int output;      /* what it says itself, -1: closed */
    int status;      /* of waitpid() */
    char said[4096]; /* the end of it */
};

struct zt_parent {
    const struct zt_supervise *job;
    int listener, signals; /* signals: a signalfd */
    char token[ZT_CONTROL_TOKEN + 1];
    unsigned char key[ZT_MAC]; /* of the token */
    struct zt_door door;
    char host[64];
    uint32_t job_number; /* Open MPI's, 0: not known */
    struct zt_rank_seen *ranks;
    struct zt_guest *guests[ZT_GUESTS];
    struct zt_mpirun mpirun;
    int lonely_ms;     /* since a rank connected last, while others have not */
    int mpi_ms;        /* since all ranks were in MPI_Init */
    int first_bad;     /* rank that was lost, stopped or failed first; -1: none */
    int stop_signal;   /* SIGINT, SIGTERM or SIGHUP that came, 0: none */
    bool save;         /* SIGUSR1 came */
    bool stop_at_once; /* it came twice */
    bool ending;       /* all are being ended */
    bool no_mpi;       /* they have been in MPI_Init for too long */
};

/* Opens the listening socket and makes the token; the value of ZT_CONTROL_VARIABLE goes to `variable`. */
bool zt_parent_listen(struct zt_parent *p, char *variable, size_t room, struct zt_err *err);
/* Waits up to `ms` for whatever comes, and takes it: connections, frames, output, signals, the end of mpirun. */
void zt_parent_take(struct zt_parent *p, int ms);
void zt_parent_tell(struct zt_parent *p, enum zt_control_kind kind, const void *data, size_t bytes);
int zt_parent_count(const struct zt_parent *p, enum zt_rank_state state);
bool zt_parent_streams_open(const struct zt_parent *p);
void zt_parent_finish(struct zt_parent *p);

/* Starts it with `variable` in the ranks' environment. */
bool zt_mpirun_start(struct zt_mpirun *m, const struct zt_supervise *job, const char *variable, struct zt_err *err);
/* Collects its output, and its status once it has ended. */
void zt_mpirun_take(struct zt_mpirun *m);
void zt_mpirun_kill(struct zt_mpirun *m, int number);
/* The signal, or else the status, with which it says that a process ended: 0 and -1 where it does not. Returns the rank
 * that a signal ended, -1: it names none. */
int zt_mpirun_cause(const struct zt_mpirun *m, int *signal_number, int *status);

/* What happened, from all that was seen. */
bool zt_parent_result(const struct zt_parent *p, struct zt_err *err);

#endif
