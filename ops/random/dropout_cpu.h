/* The CPU kernels of ztrain.DropoutTrain and ztrain.DropoutGrad (formulas in dropout.c). */
#ifndef ZT_OPS_RANDOM_DROPOUT_CPU_H
#define ZT_OPS_RANDOM_DROPOUT_CPU_H

#include "graph/ir/op.h"

/* Whether input 0 is float. */
bool zt_dropout_cpu_supports(const struct zt_graph *g, int node);
/* The functions of ZT_DROPOUT_TRAIN_CPU and ZT_DROPOUT_GRAD_CPU (struct zt_kernel). Masks are those of the reference
 * kernels. They do not fail. */
bool zt_dropout_train_cpu_run(const struct zt_call *call, struct zt_err *err);
bool zt_dropout_grad_cpu_run(const struct zt_call *call, struct zt_err *err);

#define ZT_DROPOUT_TRAIN_CPU                                                                                           \
    { .supports = zt_dropout_cpu_supports, .run = zt_dropout_train_cpu_run }
#define ZT_DROPOUT_GRAD_CPU                                                                                            \
    { .supports = zt_dropout_cpu_supports, .run = zt_dropout_grad_cpu_run }

#endif
