/* Rows of the keys that the 1-bit optimizers share. */
#ifndef ZT_OPTIM_ONE_BIT_KEYS_H
#define ZT_OPTIM_ONE_BIT_KEYS_H

#include "optim/shared_keys.h"

/* `...`: the place of eps. DeepSpeed's 1-bit optimizers have the two keys without effect, and do not use them. */
#define ROWS_ONE_BIT_ADAM(...)                                                                                         \
    ROW_LR("1e-3"), ROW_BETAS, ROW_EPS(__VA_ARGS__), ROW_WEIGHT_DECAY,                                                 \
        ROW_BIAS_CORRECTION(ACCEPT("1-bit optimizers have no bias correction")),                                       \
        ROW_EPS_INSIDE(ACCEPT("1-bit optimizers add eps to the root")), ROW_AMSGRAD, ROWS_PYTHON

#define ROW_FREEZE_STEP(...)                                                                                           \
    { .key = OPTIMIZER "freeze_step", INT(1), DEF("100000"), __VA_ARGS__ }

#define ROWS_ONE_BIT                                                                                                   \
    { .key = OPTIMIZER "cuda_aware",                                                                                   \
      BOOL,                                                                                                            \
      DEF("false"),                                                                                                    \
      ACCEPT("the communicator finds out what its library can send") },                                                \
        { .key = OPTIMIZER "comm_backend_name", TEXT, DEF("nccl"), ACCEPT("ztrain.parallel.communicator decides") }, { \
        .key = OPTIMIZER "exp_avg_mask", ANY,                                                                          \
        ACCEPT("elements whose gradient is always zero are masked by themselves")                                      \
    }

#endif
