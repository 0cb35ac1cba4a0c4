/* The random numbers of a node: a function of (seed, step, micro-batch, node name, index of the sample in the epoch,
 * element), so that a recomputed node, another number of ranks and another number of threads see the same ones. */
#ifndef ZT_OPS_RANDOM_RANDOM_H
#define ZT_OPS_RANDOM_RANDOM_H

#include "graph/ir/op.h"

/* Returns the random numbers of the called node, under the name it had in the file. */
struct zt_drawing zt_drawing_of(const struct zt_call *call, const char *name);
/* The same under its own name, mixed with its attribute `seed` where it has one. */
struct zt_drawing zt_drawing_own(const struct zt_call *call);
/* The draws of a kernel on the host. */
struct zt_draws zt_draws_of(const struct zt_call *call, const char *name);
struct zt_draws zt_draws_own(const struct zt_call *call);
/* Elements [at, at + count) of row `row`, `at` a multiple of 4: uniform in [0, 1), 32 bits each. */
void zt_draws_uniform(const struct zt_draws *draws, int64_t row, int64_t at, int64_t count, double *to);

/* The ratio of a Dropout of any form, input `in` or the attribute: of a call, and of a node, false where it is not
 * known before it runs. And the factor of what is kept. */
double zt_dropout_ratio_of(const struct zt_call *call, int in);
bool zt_dropout_ratio(const struct zt_graph *g, int node, int in, double *ratio);
double zt_dropout_scale(double ratio);

#endif
