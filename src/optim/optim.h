/* Optimizers and learning-rate rules.
 *
 * An optimizer updates a slice of the flat parameter block; it is one file and one row. It never knows ranks, buckets
 * or devices: whoever owns a slice calls it with pointers into the slice. All state is fp32 and starts at zero.
 * Elements are independent of their position in the slice and of the thread count (same bits however the block is cut).
 * Formulas: reference/deepspeed.md sections 3.5 to 3.7, checked against reference/tables/optimizers.json. */
#ifndef ZT_OPTIM_OPTIM_H
#define ZT_OPTIM_OPTIM_H

#include "config/config.h"

#include <stdbool.h>
#include <stdint.h>

union zt_coefficients; /* optim/step.h */

/* What one update runs with. */
struct zt_update {
    const struct zt_optimizer_config *config;
    double lr, weight_decay;    /* of this parameter group at this step */
    double beta1, beta2;        /* config's, unless OneCycle moves them */
    int64_t step;               /* applied updates so far + 1: the t of bias correction, from 1 */
    double grad_scale;          /* gradients are multiplied by it first: clip factor / loss scale */
    const double *tensor_ratio; /* Lamb: trust ratio of the tensor the piece belongs to; NULL for others */
};

enum { ZT_OPTIM_STATES = 3 };

struct zt_optimizer {
    const char *name;
    int states; /* fp32 state arrays an element: Adam 2, SGD 1 with momentum (0 without: see states_used) ... */
    const char *state_names[ZT_OPTIM_STATES]; /* as PyTorch calls them; a checkpoint does too */
    /* State arrays this configuration really needs (<= states). NULL: always `states`. */
    int (*states_used)(const struct zt_optimizer_config *config);
    /* What the loops of update and norms run with, and a device's kernels: all of `u` but tensor_ratio. */
    void (*prepare)(const struct zt_update *u, union zt_coefficients *to);
    /* Updates `count` elements of one tensor piece: p, g and state[i] are parallel arrays. Single-threaded; callers cut
     * big slices at multiples of 4096 elements among threads. */
    void (*update)(const struct zt_update *u, float *p, const float *g, float *const state[], int64_t count);
    /* Optimizers with per-tensor norms (Lamb): adds sum p^2 and sum u^2 of the piece to norms[0], norms[1], and leaves
     * the advanced moments in state, so that update() then only applies. Sums are fp64 over blocks of 4096. NULL for
     * others. */
    void (*norms)(const struct zt_update *u, const float *p, const float *g, float *const state[], int64_t count,
                  double norms[2]);
    /* The trust ratio from the reduced norms of the whole tensor. NULL where norms is NULL. */
    double (*ratio)(const struct zt_update *u, const double norms[2]);
};

/* The row for a type name (case-insensitive), NULL where there is none. */
const struct zt_optimizer *zt_optimizer_find(const char *type);
/* All rows, NULL-terminated. */
extern const struct zt_optimizer *const zt_optimizers[];

/* Learning rate (and betas, which only OneCycle changes) of applied update `u` from 0 on (section 3.10). */
struct zt_rate {
    double lr, beta1, beta2;
};
struct zt_lr_rule {
    const char *name;
    void (*rate)(const struct zt_scheduler_config *s, const struct zt_optimizer_config *o, int64_t update,
                 struct zt_rate *rate); /* rate holds the optimizer's own values on entry */
};
const struct zt_lr_rule *zt_lr_rule_find(const char *type);
/* The rate of update `u`; scheduler.type NULL gives the optimizer's own. A total_num_steps of 0 must have
 * been replaced by the run's number of steps before. */
struct zt_rate zt_rate_at(const struct zt_config *config, int64_t update);

/* Gradient clipping (section 3.4). Sum of squares of `count` floats in fp64: fixed blocks of 4096 elements each summed
 * in one fixed order, the block sums then added in turn. So a slice may be cut at multiples of 4096; the same bits need
 * the same order of addition: threads that share a slice take it block by block and the sums are added in block order.
 */
enum { ZT_NORM_BLOCK = 4096 };
double zt_sum_squares(const float *x, int64_t count);
/* The factor gradients are multiplied by, for a global norm; clip 0 gives 1. */
double zt_clip_factor(double norm, double clip);

#endif
