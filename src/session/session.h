/* What every command that runs a config has open: options, config, model, the machine, and who launched this process.
 */
#ifndef ZT_SESSION_SESSION_H
#define ZT_SESSION_SESSION_H

#include "device/device.h"
#include "graph/onnx/onnx.h"
#include "parallel/launch/environment.h"
#include "parallel/partition/machine.h"
#include "session/options.h"

struct zt_job;
struct zt_source;
struct zt_stop;

/* Opened in order; all borrowed by ranks. */
struct zt_session {
    const struct zt_options *options;
    struct zt_stop *stop; /* the requests of signals */
    struct zt_config *config;
    struct zt_onnx *model;
    struct zt_launched launched; /* who started this process */
    struct zt_meeting meeting;   /* zt_session_meets: where */
    bool processes;              /* each rank is a process, this one launched.rank; else this process holds all ranks */
    int sharers;                 /* ranks that share the cores this process may use */
    char cores[256];             /* several ranks: which has which, for the start table; "" before they agreed */
    struct zt_err no_gpu;        /* device "auto": why it is the CPU; count 0: it is not, or nobody looked yet */
    double opened;               /* when opening began, by zt_now() */
    /* plan/open.h fills these: */
    struct zt_job *job;
    struct zt_source *source, *eval_source; /* NULL: not opened, or none configured */
    const char *chosen;                     /* plan "auto": what was chosen among what, in lines; NULL: nothing was */
};

/* Opens config and model, and finds out who launched this process. `evaluates`: nothing is to be trained. Finish it
 * also after a failure. */
bool zt_session_open(struct zt_session *s, const struct zt_options *options, enum zt_onnx_weights weights,
                     bool evaluates, struct zt_err *err);
void zt_session_finish(struct zt_session *s);
/* Reads a configuration with the optimizers, learning-rate rules and data formats of this program (zt_config_read). */
struct zt_config *zt_session_config(const char *path, const struct zt_config_overrides *over, struct zt_err *err);
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
/* The config's device for rank `rank`, opened for the calling thread; NULL with the reason where it is not there. Rank
 * 0 leaves in s->no_gpu why "auto" is the CPU. */
struct zt_device *zt_session_device(struct zt_session *s, int rank, struct zt_err *err);

#endif
