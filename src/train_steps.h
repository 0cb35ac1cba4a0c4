/* The training loop of one rank: optimizer steps, and the evaluation, checkpoint and measurements after a step. */
#ifndef ZT_TRAIN_STEPS_H
#define ZT_TRAIN_STEPS_H

#include "checkpoint/checkpoint.h"
#include "data/loader.h"
#include "report/observers.h"
#include "run/finite.h"
#include "run/kernel_times.h"
#include "run/worker.h"
#include "train.h"

/* State of one rank of this process during training. */
struct zt_training {
    struct zt_worker worker; /* first member: the worker thread casts its zt_worker to this struct */
    struct zt_session *session;
    const struct zt_train_request *request;
    int64_t first, steps;
    struct zt_epochs epochs;
    int stopped; /* the signal that stopped the run; 0: none */
    struct zt_skips skips;
    struct zt_rank_plan *plan;
    struct zt_rank *rank;
    struct zt_loader *loader;
    struct zt_checkpoints *checkpoints;
    struct zt_console *console;  /* rank 0 only */
    struct zt_forecast forecast; /* rank 0 only */
    struct zt_kernel_times times;
    struct zt_observers observers;
    bool names_overflow;    /* the gradient that overflowed is sought where a step is skipped; the same on all ranks */
    bool traced_evaluation; /* the cause of an evaluation's non-finite loss was sought */
    double looked;          /* time of the last check of mapped files */
    double step_seconds;    /* of all steps so far */
};

/* Sets the name of the current phase, for messages about ranks that hang. */
void zt_training_phase(struct zt_training *t, const char *name);
/* Runs all remaining steps, or until a signal stops the run (t->stopped). */
bool zt_training_steps(struct zt_training *t, struct zt_err *err);

#endif
