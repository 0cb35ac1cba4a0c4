/* A job: model and config together. It knows what the data must deliver, which graph output the loss reads, and builds
 * the joint graph of any micro-batch size. Pure: same inputs, same graphs, on every rank. */
#ifndef ZT_PLAN_JOB_JOB_H
#define ZT_PLAN_JOB_JOB_H

#include "config/config.h"
#include "data/data.h"
#include "graph/passes/trainable/derived.h"
#include "graph/passes/trainable/trainable.h"
#include "ops/table.h"
#include "parallel/schedule/program.h"

/* An initializer that is trained as another one: ztrain.tie, or a copy that the exporter left. */
struct zt_tie {
    const char *name, *to;
    bool transposed; /* axis k is axis perm[k] of `to` */
    int64_t perm[ZT_TIE_RANK];
    bool differs; /* from the initial values of `to`, which count */
    bool found;   /* not asked for by ztrain.tie */
};

/* What the start says of the model, each in one line: what the exporter lost or what is doubtful is a warning, what was
 * put right a notice. */
struct zt_finding {
    const char *text;
    bool warning;
};
enum { ZT_FINDINGS = 10 }; /* at most */

struct zt_job {
    const struct zt_config *config;
    const struct zt_onnx *model;
    struct zt_arena *arena;
    const struct zt_loss_row *loss;           /* NULL: the graph's own scalar output is the loss */
    const char *logits;                       /* the output the loss reads */
    const char *target, *weight;              /* data columns; NULL without */
    struct zt_want *wants;                    /* graph inputs in the graph's order, then target and weight */
    int want_count, target_want, weight_want; /* the last two: where they stand among the wants, -1 without */
    const char **names;                       /* graph input of each want; NULL of target and weight */
    int64_t fixed_batch;                      /* the batch the model was exported for, 0: any */
    struct zt_fusion fusion;                  /* ztrain.fuse over all patterns */
    const char **statistics;                  /* names of initializers that training nodes update */
    int statistic_count;
    unsigned to_float;    /* ZT_BIT of the types that are computed in float instead */
    const float **floats; /* initializers of these types as float, by value id; NULL: not one */
    int float_count;
    struct zt_derived *derived; /* initializers that follow a parameter (graph/passes/trainable/derived.h) */
    int derived_count;
    struct zt_tie *ties;
    int tie_count;
    struct zt_finding findings[ZT_FINDINGS];
    int finding_count;
    struct zt_texts unmatched; /* globs of the config that nothing of the model matches: a line each */
};

/* Finds loss, inputs and target. Unknown output names, several candidates and missing operators are errors; so is a
 * model that cannot run at the config's micro-batch. */
struct zt_job *zt_job_create(const struct zt_config *config, const struct zt_onnx *model, struct zt_err *err);
void zt_job_destroy(struct zt_job *job);

struct zt_training_graph_request {
    int64_t rows;
    bool training; /* else evaluation */
    bool weighted; /* padding rows may occur: the loss takes row weights */
    int stages;
    const struct zt_stage_bounds
        *cuts; /* [stages + 1] where the model's other graphs were split; NULL: this one decides, see joint->bounds */
    bool cut_loss; /* mode dp: stage 1 is the loss, stage 0 the model */
};
/* Shapes of the columns come from `source`; NULL: from the graph alone (plan without data): unknown dims other than the
 * batch are an error. */
bool zt_job_training_graph(const struct zt_job *job, const struct zt_source *source,
                           const struct zt_training_graph_request *request, struct zt_training_graph *joint,
                           struct zt_err *err);

#endif
