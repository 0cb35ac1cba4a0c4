/* The ranks of this process: each runs in a thread of its own, with its communicators, its device and its share of the
 * cores. */
#ifndef ZT_RUN_WORKER_H
#define ZT_RUN_WORKER_H

#include "parallel/comm/comm.h"
#include "session/session.h"

#include <pthread.h>
#include <sched.h>

struct zt_worker {
    /* set by who runs it */
    struct zt_session *session;
    int rank;
    bool first_here; /* of the ranks of this process; signals reach one of them */
    bool (*run)(struct zt_worker *w, struct zt_err *err);
    /* open while it runs */
    struct zt_comm *world, *data; /* data: the data-parallel group of its stage */
    struct zt_device *device;
    struct zt_rank_status where;
    int blamed; /* the rank that its error is about; -1: this one */
    /* kept by worker.c */
    struct zt_counts *counts; /* comms_logger; NULL: off */
    struct zt_heartbeat *pulse;
    const cpu_set_t *cores; /* its share; NULL: nobody shared them out yet, or there is one rank */
    pthread_t thread;
    bool ok;
    struct zt_err err;
};

/* Runs `held` workers, one a thread, and waits for them. False with the error of the rank where it began. Every worker
 * is to be finished afterwards, also then. */
bool zt_workers_run(struct zt_worker *const *workers, int held, struct zt_err *err);
/* Rank 0: what comms_logger counted, where it is on. */
void zt_worker_print_counts(const struct zt_worker *w);
/* Closes communicators and device. */
void zt_worker_finish(struct zt_worker *w);

#endif
