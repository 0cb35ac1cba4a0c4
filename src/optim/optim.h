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
#include "optim/one_bit.h"

#include <stdbool.h>
#include <stdint.h>

union zt_coefficients; /* optim/step.h */

/* The inputs of one update. */
struct zt_update {
    const struct zt_optimizer_config *config;
    double lr, weight_decay; /* of this parameter group at this step */
    double beta1, beta2;     /* those of the config, unless OneCycle moves them */
    int64_t step;            /* applied updates so far + 1: the t of bias correction, from 1 */
    double grad_scale;       /* factor on the gradients: clip factor / loss scale */
    /* 1-bit optimizers (optim/one_bit.h): */
    double lr_sum; /* of the learning rates that sharing() asks for */
    int ranks;     /* data-parallel ranks */
};

enum { ZT_OPTIM_STATES = 3 };

struct zt_optimizer {
    struct zt_key_owner type;                 /* name and config keys */
    int states;                               /* fp32 state arrays an element */
    const char *state_names[ZT_OPTIM_STATES]; /* PyTorch's names; a checkpoint has the same */
    /* State arrays that this configuration needs (<= states). NULL: always `states`. */
    int (*states_used)(const struct zt_optimizer_config *config);
    /* The momentum that DeepSpeed's step line shows. NULL: it shows the betas. */
    double (*momentum)(const struct zt_optimizer_config *config);
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
    const struct zt_one_bit *one_bit; /* how the ranks of a 1-bit optimizer share an update. NULL for others */
};

/* The rates of one update. Only OneCycle changes the betas. */
struct zt_rate {
    double lr, beta1, beta2;
};
struct zt_lr_rule {
    struct zt_key_owner type; /* name and config keys */
    /* The rates of applied update `update`, from 0 on. On entry `rate` has the optimizer's own values. */
    void (*rate)(const struct zt_scheduler_config *s, int64_t update, struct zt_rate *rate);
};
const struct zt_lr_rule *zt_lr_rule_find(const char *type);
/* The types of all rules for the catalog of the configuration; ends with NULL. */
extern const struct zt_key_owner *const zt_lr_rule_types[];
/* The rates of update `update`; scheduler.type NULL gives the optimizer's own. The caller has replaced a
 * total_num_steps of 0 by the run's number of steps. */
struct zt_rate zt_rate_at(const struct zt_config *config, int64_t update);

/* Sum of squares of `count` floats in fp64, for gradient clipping: each block of 4096 elements is summed in one fixed
 * order, and the block sums are added in turn. A slice may be divided at multiples of 4096; the bits stay the same
 * where the block sums are still added in block order. */
enum { ZT_NORM_BLOCK = 4096 };
double zt_sum_squares(const float *x, int64_t count);
/* The factor on the gradients for a global norm; clip 0 gives 1. */
double zt_clip_factor(double norm, double clip);

#endif
