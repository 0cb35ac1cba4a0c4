/* The state of a tensor in 1-bit LAMB, and the sums over its elements. */
#ifndef ZT_OPTIM_ONE_BIT_TRUST_H
#define ZT_OPTIM_ONE_BIT_TRUST_H

#include <stdint.h>

/* All zero at first. A checkpoint has it as a tensor of ZT_TRUST_FLOATS numbers. */
struct zt_trust {
    float average; /* moving average of the trust ratio, from the updates before freeze_step */
    float factor;  /* on it, in the update before */
    float rms;     /* root of the mean square of the momentum at freeze_step */
    float ratio;   /* trust ratio of the current update */
};
enum { ZT_TRUST_FLOATS = sizeof(struct zt_trust) / sizeof(float) };

struct zt_trust_norms {
    double weights, directions; /* sum p^2, sum u^2 */
    double moments;             /* sum m^2; in compressed updates sum (m / (sqrt(v) + eps))^2 */
    double most;                /* compressed updates: the largest (sqrt(v) + eps) / (sqrt(fresh v) + eps) */
    double count;               /* elements */
};

#endif
