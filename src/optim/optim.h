/* Optimizers and learning-rate rules.
 *
 * An optimizer updates a slice of the flat parameter block. It is one stem, src/optim/NAME.*, and one line of
 * optim/table.h: NAME.c has the row with the config keys and the CPU loops, NAME.h the formula of an element, NAME.cu
 * the CUDA kernel. It knows no ranks, buckets or devices: the owner of a slice calls it with pointers into the slice.
 * All rows are listed in optim/types/types.h. All state is fp32 and starts at zero. The result of an element does not
 * depend on its position in the slice or on the number of threads. Types, parameters and defaults are those of
 * DeepSpeed's documentation. */
#ifndef ZT_OPTIM_OPTIM_H
#define ZT_OPTIM_OPTIM_H

#include "config/config.h"
#include "config/table.h"
#include "optim/matrix.h"
#include "optim/one_bit.h"

#include <stdbool.h>
#include <stdint.h>

union zt_coefficients; /* optim/step.h */

/* The inputs of one update. */
struct zt_update {
    const struct zt_optimizer_config *config;
    double lr, weight_decay; /* of this parameter group at this step */
    double beta1, beta2;     /* those of the config, unless a schedule moves them */
    int64_t step;            /* applied updates so far + 1: the t of bias correction, from 1 */
    double grad_scale;       /* factor on the gradients: clip factor / loss scale */
    struct zt_matrix matrix; /* rows 0: the tensor is updated element by element */
    /* 1-bit optimizers (optim/one_bit.h): */
    double lr_sum; /* of the learning rates that sharing() asks for */
    int ranks;     /* data-parallel ranks */
    /* Optimizers without betas, where config->momentum_moves: */
    double momentum;
};

/* The part of an optimizer that updates some tensors as whole matrices. For each of them the caller has direct() write
 * the direction of every piece, brings the pieces of all ranks together, has the whole orthogonalised, and has apply()
 * update its pieces. */
struct zt_matrix_optimizer {
    /* Whether a tensor of two axes or more that is called `name` is updated as a matrix. */
    bool (*takes)(const char *name);
    /* The method of the configuration, for the next two functions. */
    int (*method)(const struct zt_optimizer_config *config);
    /* Floats of memory that orthogonalise() needs beside the direction. */
    int64_t (*room)(int method, const struct zt_matrix *m);
    /* FLOPs of orthogonalise(). */
    double (*flops)(int method, const struct zt_matrix *m);
    /* Advances the states of `count` elements and writes their direction. */
    void (*direct)(const union zt_coefficients *c, const float *g, float *const state[], float *direction,
                   int64_t count);
    /* Returns the update of the whole matrix, in the memory of `direction` or of `room` (aligned to 64 bytes). */
    float *(*orthogonalise)(int method, const struct zt_matrix *m, float *direction, float *room,
                            const struct zt_matrix_ops *ops);
    /* Updates `count` elements of p from those of orthogonalise(). */
    void (*apply)(const union zt_coefficients *c, float *p, const float *direction, int64_t count);
};

enum { ZT_OPTIM_STATES = 3 };

struct zt_optimizer {
    struct zt_key_owner type;                 /* name and config keys */
    int states;                               /* fp32 state arrays an element */
    const char *state_names[ZT_OPTIM_STATES]; /* PyTorch's names; a checkpoint has the same */
    /* The name of state `i` of those that this configuration uses. NULL: state_names[i]. */
    const char *(*state_name)(const struct zt_optimizer_config *config, int i);
    /* State arrays that this configuration needs (<= states). NULL: always `states`. */
    int (*states_used)(const struct zt_optimizer_config *config);
    /* Whether weight decay shrinks the weights beside the step; false, or NULL: it is added to the gradients (L2). */
    bool (*decouples)(const struct zt_optimizer_config *config);
    /* The momentum that DeepSpeed's step line shows. NULL: it shows the betas. */
    double (*momentum)(const struct zt_optimizer_config *config);
    /* The learning rate of the configuration for matrices and for other tensors. NULL: its lr for all. */
    double (*rate)(const struct zt_optimizer_config *config, bool matrix);
    /* The coefficients of an update, for the CPU loops and for the kernels of a device. */
    void (*prepare)(const struct zt_update *u, union zt_coefficients *to);
    /* Updates `count` elements of one tensor piece: p, g and state[i] are parallel arrays. `ratio`: the trust ratio of
     * the tensor; optimizers without norms ignore it. Single-threaded; callers divide large slices among threads at
     * multiples of 4096 elements. */
    void (*update)(const union zt_coefficients *c, double ratio, float *p, const float *g, float *const state[],
                   int64_t count);
    /* Optimizers with norms per tensor (Lamb): adds sum p^2 and sum u^2 of the piece to norms[0] and norms[1], and
     * advances the moments in state, so that update() then only applies them. Sums are fp64 over blocks of 4096. NULL
     * for others. */
    void (*norms)(const union zt_coefficients *c, const float *p, const float *g, float *const state[], int64_t count,
                  double norms[2]);
    /* The trust ratio from the norms of the whole tensor over all ranks. NULL where norms is NULL. */
    double (*ratio)(const union zt_coefficients *c, const double norms[2]);
    const struct zt_matrix_optimizer *matrix; /* NULL: every tensor is updated element by element */
    const struct zt_one_bit *one_bit;         /* how the ranks of a 1-bit optimizer share an update. NULL for others */
};

/* The rates of one update for a parameter group. Only cycles (lr_cycles.c) change the betas and give a momentum. */
struct zt_rate {
    double lr, beta1, beta2, momentum;
    int group;      /* 0: the optimizer's own; i: ztrain.param_groups[i - 1] */
    int64_t update; /* from 0 on */
};
/* State of a rule that follows a value (ReduceLROnPlateau), kept in checkpoints. */
struct zt_lr_state {
    int groups;         /* parameter groups: the optimizer's own and those of param_groups */
    double *lr;         /* by group: since the last value */
    double best;        /* value so far */
    bool has_best;      /* false: there was none */
    int64_t bad_epochs; /* without a better value */
    int64_t cooldown;   /* epochs left that count nothing */
    double epoch_loss;  /* of the epoch so far: sum of loss times samples of the steps that were applied */
    int64_t epoch_samples;
    int64_t updates; /* so far */
    double *lr_sum;  /* by group: sum of the local updates' rates since ranks of a 1-bit optimizer synchronized */
};
struct zt_lr_rule {
    struct zt_key_owner type; /* name and config keys */
    /* The rates of applied update `update`, from 0 on. On entry `rate` has the optimizer's own values and the group.
     * NULL where the rate is that of the state. */
    void (*rate)(const struct zt_scheduler_config *s, int64_t update, struct zt_rate *rate);
    bool continues_late; /* update 0 of a schedule that continues has the rates of the optimizer */
    /* Rules that follow a value: takes the next one. Returns whether a rate is another one now. NULL for others. */
    bool (*observe)(const struct zt_scheduler_config *s, struct zt_lr_state *state, double value);
};
const struct zt_lr_rule *zt_lr_rule_find(const char *type);
/* The types of all rules for the catalog of the configuration; ends with NULL. */
extern const struct zt_key_owner *const zt_lr_rule_types[];
/* The rates of update `update` for a group; scheduler.type NULL gives the optimizer's own. `state`: that of the run,
 * read only by rules that follow a value. The caller has replaced a total_num_steps of 0 by the run's number of steps.
 * Without zt_lr_by_group() all groups have the rates of group 0, which param_groups[].lr scales. A schedule that
 * continues (last_batch_iteration, last_epoch) is ahead of `update` by the updates that are done. */
struct zt_rate zt_rate_at(const struct zt_config *config, const struct zt_lr_state *state, int group, int64_t update);
/* Whether the rule gives each group its own rates. A rule that has lists of values by group does, as in DeepSpeed, and
 * param_groups[].lr has no effect then. So does, as in PyTorch, a rule that follows a value: it lowers the group's. */
bool zt_lr_by_group(const struct zt_config *config);
/* The rate of a group without a rule: that of param_groups[].lr or the optimizer's. */
double zt_lr_of_group(const struct zt_config *config, int group);

/* The state at the start of a run, in `arena`. */
struct zt_lr_state zt_lr_state_of(const struct zt_config *config, struct zt_arena *arena);
/* Copies the state of a checkpoint into that of zt_lr_state_of(). A state of one group is that of an older program,
 * whose groups kept their ratio to the optimizer's rate. False where the checkpoint has other groups. */
bool zt_lr_state_take(const struct zt_config *config, struct zt_lr_state *to, const struct zt_lr_state *from,
                      struct zt_err *err);
/* Whether the rule follows a value at the end of each epoch: the loss of its evaluation, or, where the rule asks for
 * the best accuracy (mode max), that. Without evaluation data it is the mean loss of the epoch's steps. */
bool zt_lr_observes(const struct zt_config *config);
bool zt_lr_wants_accuracy(const struct zt_config *config);
/* Adds a step that was applied to the epoch. */
void zt_lr_add_step(struct zt_lr_state *state, double loss, int64_t samples);
/* Ends the epoch with `value`, NULL: the mean of its steps. Returns whether a rate is another one now. */
bool zt_lr_end_epoch(const struct zt_config *config, struct zt_lr_state *state, const double *value);

/* Advances the average of the weights with the factor `decay` (ztrain.ema):  average = decay average + (1 - decay) p */
void zt_average(double decay, const float *p, float *average, int64_t count);

/* Sum of squares of `count` floats in fp64, for gradient clipping: each block of 4096 elements is summed in one fixed
 * order, and the block sums are added in turn. A slice may be divided at multiples of 4096; the bits stay the same
 * where the block sums are still added in block order. */
enum { ZT_NORM_BLOCK = 4096 };
double zt_sum_squares(const float *x, int64_t count);
/* The factor on the gradients for a global norm; clip 0 gives 1. */
double zt_clip_factor(double norm, double clip);

#endif
