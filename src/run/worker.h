/* Worker threads: each rank of this process runs in its own thread, with its communicators, its device and its share of
 * the cores. */
#ifndef ZT_RUN_WORKER_H
#define ZT_RUN_WORKER_H

#include "parallel/comm/comm.h"
#include "session/session.h"

#include <pthread.h>
#include <sched.h>

struct zt_worker {
    /* set by the caller */
    struct zt_session *session;
    int rank;
    bool first_here; /* first rank of this process; it handles signals */
    bool (*run)(struct zt_worker *w, struct zt_err *err);
    /* open while the worker runs */
    struct zt_comm *world, *data; /* data: data-parallel group of its stage */
    struct zt_device *device;
    struct zt_rank_status status;
    int blamed; /* the rank that caused the error; -1: this rank */
    /* internal to worker.c */
    struct zt_counts *counts; /* counts of comms_logger; NULL: off */
    struct zt_heartbeat *heartbeat;
    const cpu_set_t *cores; /* its share of the cores; NULL: not assigned, or one rank only */
    pthread_t thread;
    bool ok;
    struct zt_err err;
};

/* Runs `held` workers, each in its own thread, and waits for them. On failure returns false with the error of the rank
 * where the failure began. The caller calls zt_worker_finish() for every worker in any case. */
bool zt_workers_run(struct zt_worker *const *workers, int held, struct zt_err *err);
/* Prints the counts of comms_logger so far on rank 0, if it is on. */
void zt_worker_print_counts(const struct zt_worker *w);
/* Closes communicators and device. */
void zt_worker_finish(struct zt_worker *w);

#endif
