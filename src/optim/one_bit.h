/* Interface of the optimizers whose ranks exchange one bit per element (1-bit Adam, 0/1 Adam, 1-bit LAMB).
 *
 * In some updates the schedule does not reduce gradients: each rank has the gradient of its own samples. pack() then
 * turns the gradient of each element into what the ranks average, in place; the compressed all-reduce of
 * parallel/comm/compressed.h averages it; update() reads the mean as its gradient. With one rank the mean is the rank's
 * own, and nothing is compressed. The kind of an update depends on the configuration and the number of applied updates
 * alone, so that all ranks agree without asking. */
#ifndef ZT_OPTIM_ONE_BIT_H
#define ZT_OPTIM_ONE_BIT_H

#include "config/config.h"

#include <stdbool.h>
#include <stdint.h>

struct zt_trust; /* optim/one_bit/trust.h */
struct zt_trust_norms;
union zt_coefficients; /* optim/step.h */

/* The kind of an update. */
struct zt_sharing {
    bool reduced;      /* gradients are reduced over the ranks; false: each rank has its own */
    bool compressed;   /* pack() and the compressed all-reduce come before update() */
    bool clears;       /* the errors of the compression are set to zero first */
    bool apart;        /* afterwards the ranks have weights and states of their own */
    int64_t lrs_since; /* the first update whose learning rate is part of zt_update.lr_sum */
};

/* A piece of one tensor. */
struct zt_slice {
    float *p, *g, *const *state; /* parallel arrays */
    int64_t count;
    const struct zt_trust *trust; /* of the tensor; optimizers without trust ratios ignore it */
};

struct zt_one_bit {
    bool fused;      /* one scale for all tensors together, else one for each */
    bool own_states; /* there are updates after which the ranks are `apart` */
    /* `update` counts from 1, as zt_update.step. */
    struct zt_sharing (*sharing)(const struct zt_optimizer_config *config, int64_t update);
    /* Does nothing in updates that are not compressed. */
    void (*pack)(const union zt_coefficients *c, const struct zt_slice *s);
    /* Optimizers with trust ratios (1-bit LAMB): adds to `norms` what trust() needs of the piece, and advances the
     * states; update() then only applies them. NULL for others. Every rank has whole tensors: no norm is exchanged. */
    void (*norms)(const union zt_coefficients *c, const struct zt_slice *s, struct zt_trust_norms *norms);
    void (*trust)(const union zt_coefficients *c, const struct zt_trust_norms *norms, struct zt_trust *trust);
};

#endif
