/* The loss scale of fp16: the loss is multiplied by it so that small gradients do not vanish below 2^-24, and the
 * gradients are divided by it before anything reads them. A dynamic scale is halved by a step whose gradients overflow,
 * which is left out, and doubled after a window of steps without overflow: the rule of DeepSpeed 0.16.5, once an
 * optimizer step. The host and the CUDA module compile the same functions. */
#ifndef ZT_OPTIM_LOSS_SCALE_H
#define ZT_OPTIM_LOSS_SCALE_H

#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__
#define ZT_SCALE_RULE static __device__ inline
#else
#define ZT_SCALE_RULE static inline
#endif

struct zt_config;

/* The effect of the last step on the scale. */
enum zt_scaling_event {
    ZT_SCALE_STAYS,
    ZT_SCALE_RAISED,
    ZT_SCALE_HELD,       /* overflow: the hysteresis decreases by one */
    ZT_SCALE_HALVED,     /* overflow */
    ZT_SCALE_AT_MINIMUM, /* overflow at the least scale: the run must end; nothing is changed */
};

struct zt_scaling {
    double scale;              /* of the current step; 1: not scaled */
    int64_t since;             /* the step's distance from the last overflow; the first step's is 1 */
    int64_t hysteresis;        /* overflows that are left until one halves the scale */
    int64_t window, tolerated; /* loss_scale_window; the initial hysteresis */
    double least;              /* above 0 */
    int dynamic;               /* 0: the scale is fixed */
    int consecutive;           /* every step without overflow resets the hysteresis */
    int event;                 /* enum zt_scaling_event */
};

/* The state of a run's first step. */
struct zt_scaling zt_scaling_of(const struct zt_config *config);

/* The first gradient of the backward phase, that of the loss. It is an fp16 number, as in DeepSpeed: a scale beyond
 * fp16 overflows at once. */
ZT_SCALE_RULE float zt_scaling_seed(double scale) {
    return scale >= 65520 ? INFINITY : (float)scale;
}

/* After a step: sets the scale of the next. */
ZT_SCALE_RULE void zt_scaling_step(struct zt_scaling *s, int overflow) {
    s->event = ZT_SCALE_STAYS;
    if (!s->dynamic)
        return;
    const int halves = s->tolerated <= 1 || s->hysteresis <= 1, reached = s->since % s->window == 0;
    if (overflow && halves && s->scale == s->least) {
        s->event = ZT_SCALE_AT_MINIMUM;
        return;
    }
    if (!overflow) {
        if (reached || s->consecutive)
            s->hysteresis = s->tolerated;
        s->scale *= reached ? 2 : 1;
        s->event = reached ? ZT_SCALE_RAISED : ZT_SCALE_STAYS;
        s->since++;
        return;
    }
    if (halves)
        s->scale = s->scale / 2 > s->least ? s->scale / 2 : s->least;
    else
        s->hysteresis--;
    s->event = halves ? ZT_SCALE_HALVED : ZT_SCALE_HELD;
    s->since = 1;
}

#endif
