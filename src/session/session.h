/* A session: options, config, model, data and machine of one command. */
#ifndef ZT_SESSION_SESSION_H
#define ZT_SESSION_SESSION_H

#include "device/device.h"
#include "graph/onnx/onnx.h"
#include "parallel/launch/environment.h"
#include "parallel/partition/machine.h"
#include "session/options.h"

struct zt_job;
struct zt_source;

/* The members are opened in order. Ranks borrow all of them. */
struct zt_session {
    const struct zt_options *options; /* `own` */
    struct zt_options own;            /* those of the command, with the config's log_level */
    struct zt_config *config;
    struct zt_onnx *model;
    struct zt_launched launched; /* the launcher of this process */
    struct zt_meeting meeting;   /* TCP address at which ranks connect, if zt_session_meets() */
    bool processes; /* each rank is a process, and this one is rank launched.rank; false: this process runs all ranks as
                       threads */
    int sharers;    /* number of ranks that share the cores of this process */
    char cores[256]; /* cores of each rank, for the start table; "": one rank, or not assigned yet */
    struct zt_err
        no_gpu;    /* device "auto": the reason for using the CPU; count 0: the GPU is used, or not checked yet */
    double opened; /* time at which the session was opened, from zt_now() */
    /* filled by plan/open.h: */
    struct zt_job *job;
    struct zt_source *source, *eval_source; /* NULL: not opened, or not configured */
};

/* Opens config and model and detects the launcher of this process. `evaluates`: the command does not train. Free with
 * zt_session_finish(), also after an error. */
bool zt_session_open(struct zt_session *s, const struct zt_options *options, enum zt_onnx_weights weights,
                     bool evaluates, struct zt_err *err);
void zt_session_finish(struct zt_session *s);
/* The optimizers, learning-rate rules and data formats of this program. */
extern const struct zt_key_catalog zt_session_types;
/* Reads a configuration with zt_session_types (zt_config_read). */
struct zt_config *zt_session_config(const struct zt_texts *paths, const struct zt_config_overrides *over,
                                    struct zt_err *err);
/* Prepends to every problem from index `first` on the file it is about: problems of the configuration get the origin of
 * their key (zt_config_locate), all others the model. Returns false. */
bool zt_session_locate(const struct zt_session *s, struct zt_err *err, int first);
/* Hints at what to do with a file that was given as a model and is a file of PyTorch or safetensors. */
void zt_session_hint_model(const char *path, struct zt_err *err);
/* Whether the config runs all ranks as threads of one process. */
bool zt_session_threaded(const struct zt_config *config);
/* Whether the ranks are processes that connect through MASTER_ADDR and MASTER_PORT (torchrun) instead of MPI. */
bool zt_session_meets(const struct zt_session *s);
/* For commands that run in one process: reports an error if a launcher started several. */
bool zt_session_alone(const struct zt_session *s, struct zt_err *err);
/* Returns the number of compute threads of each rank. */
int zt_session_threads(const struct zt_session *s);
/* Whether the plan is for other hardware than the CPU of this host: for the cluster that the config names, or for GPUs,
 * which the config selects. */
bool zt_session_elsewhere(const struct zt_session *s);
/* Selects the machine for the cost model: the named cluster; otherwise, for GPUs, the model of `device` (NULL or
 * unknown model: an h200); otherwise this host with nominal figures. */
bool zt_session_machine(const struct zt_session *s, const struct zt_device *device, struct zt_machine *machine,
                        struct zt_err *err);
/* Opens the config's device for rank `rank` in the calling thread. Returns NULL with the reason on failure. Rank 0
 * stores in s->no_gpu why "auto" selects the CPU. */
struct zt_device *zt_session_device(struct zt_session *s, int rank, struct zt_err *err);

#endif
