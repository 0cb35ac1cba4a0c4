/* A job: model and config together. It determines the data columns and the output that the loss reads, and builds the
 * training graph for any micro-batch size. All functions are pure: the same inputs give the same graphs on every rank.
 */
#ifndef ZT_PLAN_JOB_JOB_H
#define ZT_PLAN_JOB_JOB_H

#include "config/config.h"
#include "data/data.h"
#include "graph/passes/low_rank/low_rank.h"
#include "graph/passes/trainable/derived.h"
#include "graph/passes/trainable/trainable.h"
#include "ops/table.h"
#include "parallel/schedule/program.h"

struct zt_frozen;   /* frozen.h */
struct zt_override; /* override.h */
struct zt_qat_pair; /* qat.h */

/* An initializer that shares the parameter `to`: from ztrain.tie, or a copy made by the exporter. */
struct zt_tie {
    const char *name, *to;
    bool transposed; /* axis k is axis perm[k] of `to` */
    int64_t perm[ZT_TIE_RANK];
    bool differs; /* the initial values differ; those of `to` are used */
    bool found;   /* found by ztrain.tie_equal, not listed in ztrain.tie */
};

/* A line about the model at the start of a run: a warning about something that the exporter lost or that is doubtful,
 * or a notice about something that was restored. */
struct zt_finding {
    const char *text;
    bool warning;
};
enum { ZT_FINDINGS = 16 }; /* at most */

/* A lookup whose row `row` gets no gradient (padding.h). */
struct zt_job_padding {
    const char *table;
    int node; /* in the file */
    int64_t row;
};

struct zt_job {
    const struct zt_config *config;
    const struct zt_onnx *model;
    struct zt_arena *arena;
    const struct zt_loss_row *loss; /* NULL: a scalar output of the graph is the loss */
    const char *logits;             /* name of the output that the loss reads */
    const char *target, *weight;    /* data columns; NULL: none */
    struct zt_want *wants;          /* required columns: graph inputs in the graph's order, then target and weight */
    int want_count, target_want, weight_want; /* the last two: index of target and weight in `wants`; -1: none */
    const char **names;                       /* graph input of each required column; NULL for target and weight */
    int64_t fixed_batch;                      /* batch size of the exported model; 0: any */
    struct zt_fusion fusion;                  /* fusion patterns allowed by ztrain.fuse */
    const char **statistics;                  /* initializers that nodes update during training, by name */
    int statistic_count;
    unsigned to_float;    /* ZT_BIT of the types that are computed in fp32 */
    const float **floats; /* converted initializers by value id; NULL: not converted */
    int float_count;
    struct zt_derived *derived; /* initializers computed from a parameter (graph/passes/trainable/derived.h) */
    int derived_count;
    struct zt_tie *ties;
    int tie_count;
    struct zt_texts apart; /* "b = a": equal weights of different modules, which are not tied */
    struct zt_job_padding *paddings;
    int padding_count;
    struct zt_adapter *adapters; /* ztrain.lora */
    int adapter_count;
    struct zt_texts left_out;  /* lines about weights that ztrain.lora selects but that are not adapted */
    struct zt_qat_pair *pairs; /* ztrain.qat (qat.h) */
    int pair_count;
    struct zt_texts unquantized;   /* lines about nodes that ztrain.qat selects but that have no weight */
    struct zt_override *overrides; /* contents that replace those of the model file (override.h) */
    int override_count;
    struct zt_frozen *frozen; /* contents of frozen weights, shared by all graphs */
    struct zt_finding findings[ZT_FINDINGS];
    int finding_count;
    const char *chosen;        /* plan "auto": lines that list the candidates and the choice; NULL: another plan */
    struct zt_texts unmatched; /* lines about globs of the config that match nothing in the model */
};

/* Creates a job: determines loss, inputs and target. Unknown or ambiguous output names, missing operators, and models
 * that cannot run with the config's micro-batch are errors. */
struct zt_job *zt_job_create(const struct zt_config *config, const struct zt_onnx *model, struct zt_err *err);
void zt_job_destroy(struct zt_job *job);

/* The parameters of the model as the job sees them: a graph whose initializers are decided, restored, tied and frozen.
 * The caller destroys it. NULL with an error. */
struct zt_graph *zt_job_parameters(const struct zt_job *job, struct zt_err *err);

struct zt_training_graph_request {
    int64_t rows;
    bool training; /* false: evaluation */
    bool weighted; /* padding samples may occur: the loss reads sample weights */
    int stages;
    const struct zt_stage_bounds *stage_bounds; /* [stages + 1] stage bounds of an earlier graph of the model; NULL:
                                           this graph determines them (training_graph->bounds) */
    bool split_loss;                            /* mode dp: stage 0 is the model, stage 1 the loss */
    enum zt_backend fast;                       /* the back end that runs it */
};
/* Builds a training graph. Column shapes come from `source`. If it is NULL (plan without data), they come from the
 * model, and unknown dimensions other than the batch are an error. */
bool zt_job_training_graph(const struct zt_job *job, const struct zt_source *source,
                           const struct zt_training_graph_request *request, struct zt_training_graph *training_graph,
                           struct zt_err *err);

#endif
