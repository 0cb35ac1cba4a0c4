/* The tensors of a rank's stage: layouts of parameters and frozen weights, statistics, and their places in the model.
 * All arrays are in the plan's arena. */
#ifndef ZT_PLAN_RANK_TENSORS_H
#define ZT_PLAN_RANK_TENSORS_H

#include "optim/matrix.h"
#include "parallel/schedule/frozen_weights.h"
#include "parallel/schedule/tied_weights.h"
#include "plan/job/frozen.h"

/* A trained tensor or statistic of the whole model. */
struct zt_model_tensor {
    const char *name;
    struct zt_shape shape;
    int stage; /* the first stage that holds it */
};

struct zt_rank_tensors {
    struct zt_flat *flat;                   /* parameters; NULL until the first training graph is laid out */
    const void **param_initial;             /* by tensor of `flat`: contents in the model file */
    struct zt_matrix *matrices;             /* by tensor of `flat`; rows 0: the optimizer updates it by elements */
    struct zt_frozen_layout *frozen;        /* frozen weights that the data-parallel ranks share out; NULL: none */
    struct zt_frozen_source *frozen_source; /* by tensor of `frozen` */
    int64_t *frozen_elems;                  /* the same: elements of the weight's type */
    struct zt_tie_run *ties;                /* tied weights of several stages */
    int tie_count;
    /* Statistics of this stage. */
    int statistic_total;
    const char **statistic_name;
    const void **statistic_initial; /* contents in the model file */
    int64_t *statistic_offset;      /* in bytes, from the start of the statistics */
    int64_t *statistic_count;       /* in elements */
    int64_t statistic_bytes;        /* of all */
    /* Trained tensors of the whole model, then its statistics, in the order of the model. The same in every layout. */
    struct zt_model_tensor *model;
    int model_count, model_params;      /* number of all, and of the trained ones at the front */
    int *param_model, *statistic_model; /* index in `model` of this stage's parameters and statistics */
};

/* The layouts of the stage, borrowed. */
static inline struct zt_flats zt_rank_flats(const struct zt_rank_tensors *tensors) {
    return (struct zt_flats){ tensors->flat, tensors->frozen ? tensors->frozen->flat : NULL };
}

#endif
