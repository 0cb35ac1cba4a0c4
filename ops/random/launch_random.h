/* Launchers of random.cu: ops that draw random numbers (ops/random/random.c), with the generator of
 * ops/random/random.h. Conventions: ops/cuda/launch.h. */
#ifndef ZT_OPS_RANDOM_LAUNCH_RANDOM_H
#define ZT_OPS_RANDOM_LAUNCH_RANDOM_H

#include "base/rng.h"
#include "ops/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

enum zt_launch_drawing { ZT_DRAW_UNIFORM, ZT_DRAW_NORMAL, ZT_DRAW_BERNOULLI };

/* y [rows, width] = shift + factor u (uniform), shift + factor z (normal), or u < p[i] (Bernoulli); in fp64, rounded
 * once to y's type: a float type of any width, and what Bernoulli may give: bool, uint8, int32, int64. */
struct zt_launch_draws {
    enum zt_launch_drawing how;
    struct zt_drawing drawing;
    int64_t rows, width;
    double shift, factor;
};
int zt_launch_draws(struct CUstream_st *stream, const struct zt_launch_draws *d, struct zt_launch_tensor p,
                    struct zt_launch_tensor y);

/* Dropout in training: y = x / (1 - ratio) where the draw of an element is not below ratio, else 0; mask is bool. The
 * draws are those of ops/random/random.h with the rows [rows, width]. */
struct zt_launch_dropout {
    struct zt_drawing drawing;
    int64_t rows, width;
    double ratio;
};
int zt_launch_dropout(struct CUstream_st *stream, const struct zt_launch_dropout *d, struct zt_launch_tensor x,
                      struct zt_launch_tensor y, uint8_t *mask);

/* y [rows, samples], int32 or int64: the first class whose cumulated softmax of the row of x [rows, classes] is above
 * the draw. cumulated: workspace, a number an element of x. */
struct zt_launch_multinomial {
    struct zt_drawing drawing;
    int64_t rows, classes, samples;
};
int zt_launch_multinomial(struct CUstream_st *stream, const struct zt_launch_multinomial *m, struct zt_launch_tensor x,
                          struct zt_launch_tensor y, double *cumulated);

#ifdef __cplusplus
}
#endif

#endif
