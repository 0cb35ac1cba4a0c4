/* The main path: from files to a trained model. */
#ifndef ZT_TRAIN_H
#define ZT_TRAIN_H

#include "plan/job.h"
#include "session/options.h"
#include "parallel/launch/environment.h"
#include "parallel/partition/machine.h"
#include "run/rank.h"

/* What every subcommand that runs a config opens, in order; all borrowed by ranks. */
struct zt_stop;

struct zt_session {
    const struct zt_options *options;
    struct zt_stop *stop; /* the requests of signals */
    struct zt_config *config;
    struct zt_onnx *model;
    struct zt_job *job;
    struct zt_source *source, *eval_source; /* NULL: not opened, or none configured */
    struct zt_launched launched;            /* who started this process */
    struct zt_meeting meeting;              /* zt_session_meets: where */
    bool processes;       /* each rank is a process, this one launched.rank; else this process holds all ranks */
    int sharers;          /* ranks that share the cores this process may use */
    char cores[256];      /* several ranks: which has which, for the start table; "" before they agreed */
    const char *chosen;   /* plan "auto": what was chosen among what, in lines; NULL: nothing was */
    struct zt_err no_gpu; /* device "auto": why it is the CPU; count 0: it is not, or nobody looked yet */
    double opened;        /* when opening began, by zt_now() */
};

enum zt_session_data { ZT_DATA_NONE = 0, ZT_DATA_TRAIN = 1, ZT_DATA_EVAL = 2, ZT_DATA_IF_THERE = 4 };

/* Opens config, model, job and the data asked for; with ZT_DATA_IF_THERE what of them cannot be opened is told of and
 * done without. Finish it also after a failure. */
bool zt_session_open(struct zt_session *s, const struct zt_options *options, enum zt_onnx_weights weights,
                     unsigned data, struct zt_err *err);
void zt_session_finish(struct zt_session *s);
/* Whether the config keeps all ranks as threads of one process. */
bool zt_session_threaded(const struct zt_config *config);
/* Whether the ranks are processes that MASTER_ADDR and MASTER_PORT bring together (torchrun), not MPI. */
bool zt_session_meets(const struct zt_session *s);
/* For commands that run in one process: an error where a launcher started several. */
bool zt_session_alone(const struct zt_session *s, struct zt_err *err);
/* Compute threads of each rank. */
int zt_session_threads(const struct zt_session *s);
/* Whether plans are for another kind of machine than this host's CPU: for the cluster that the config names, or for
 * GPUs, which it asks for. */
bool zt_session_elsewhere(const struct zt_session *s);
/* What a plan reckons with: that cluster; without a name, for GPUs, the kind that `device` is of (NULL: none is here),
 * an h200 where it is of none that is known; else this host without measuring it. */
bool zt_session_machine(const struct zt_session *s, const struct zt_device *device, struct zt_machine *machine,
                        struct zt_err *err);
/* ztrain.plan "auto": makes the best plan the config's. */
bool zt_auto_choose(struct zt_session *s, struct zt_err *err);
/* The config's device for rank `rank`, opened for the calling thread; NULL with the reason where it is not there. Rank
 * 0 leaves in s->no_gpu why "auto" is the CPU. */
struct zt_device *zt_session_device(struct zt_session *s, int rank, struct zt_err *err);

/* Where the ranks are to be processes that this one starts (the config says so, and no launcher has started them):
 * starts them with the same words and waits for their end; `folder` is the run's. *launched: it did. */
bool zt_launch(const struct zt_options *options, const char *folder, bool *launched, struct zt_err *err);

/* Trains, from the checkpoint `from` on (NULL: from the beginning), and leaves the run's files in `folder`. A run that
 * a signal stopped returns false with that exit code and no message. */
bool zt_train(struct zt_session *s, const char *folder, const char *from, struct zt_err *err);
/* Loss and metrics on the evaluation data with the weights of the file, one row on stdout. */
bool zt_evaluate(struct zt_session *s, struct zt_err *err);

/* Start of a run, on stderr (contract.md, "Console"). */
void zt_report_start(const struct zt_session *s, const struct zt_rank_plan *plan, const struct zt_device *device,
                     int64_t steps);
/* What the config and the graphs of `programs` have to say, a row each. */
/* What the exporter lost of the parameters, and what is doubtful: at most ten lines. */
void zt_report_findings(const struct zt_session *s);
void zt_report_notes(const struct zt_session *s, const struct zt_program_set *programs);
/* model.onnx from collected tensors; the hash goes to *hash. */
bool zt_export_model(const struct zt_session *s, const char *folder, const struct zt_onnx_payload *payloads,
                     const int64_t *elements, int count, uint64_t *hash, struct zt_err *err);

#endif
