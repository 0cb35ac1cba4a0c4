/* Rows of the optimizer parameters that several optimizers have: one macro a row. A row whose value only the optimizer
 * itself reads takes the place of the value: PLACE() of config/rows.h, or ACCEPTED where nothing reads it. */
#ifndef ZT_OPTIM_SHARED_KEYS_H
#define ZT_OPTIM_SHARED_KEYS_H

#include "config/rows.h"

#define ROW_LR(default_)                                                                                               \
    { .key = OPTIMIZER "lr", NUMBER, FROM(0), DEF(default_), AUTO("5e-5", HF), AT(optimizer.lr) }
#define ROW_BETAS                                                                                                      \
    { .key = OPTIMIZER "betas", .type = ZT_KEY_PAIR, BELOW_ONE, DEF("0.9 0.999"), AT(optimizer.beta1) }
#define ROW_WEIGHT_DECAY                                                                                               \
    { .key = OPTIMIZER "weight_decay", NUMBER, FROM(0), DEF("0"), AT(optimizer.weight_decay) }
#define ROW_EPS(...)                                                                                                   \
    { .key = OPTIMIZER "eps", NUMBER, FROM(0), DEF("1e-8"), __VA_ARGS__ }
#define ROW_BIAS_CORRECTION(...)                                                                                       \
    { .key = OPTIMIZER "bias_correction", BOOL, DEF("true"), __VA_ARGS__ }
#define ROW_MAX_COEFF(...)                                                                                             \
    { .key = OPTIMIZER "max_coeff", NUMBER, POSITIVE, DEF("10"), __VA_ARGS__ }
#define ROW_MIN_COEFF(...)                                                                                             \
    { .key = OPTIMIZER "min_coeff", NUMBER, FROM(0), DEF("0.01"), __VA_ARGS__ }
#define ROW_EPS_INSIDE(...)                                                                                            \
    { .key = OPTIMIZER "eps_inside_sqrt", BOOL, DEF("false"), __VA_ARGS__ }
#define ROW_MOMENTUM(...)                                                                                              \
    { .key = OPTIMIZER "momentum", NUMBER, FROM(0), DEF("0"), __VA_ARGS__ }
#define ROW_MAXIMIZE                                                                                                   \
    { .key = OPTIMIZER "maximize", BOOL, DEF("false"), REJECT("negate the loss in the graph") }
#define ROW_AMSGRAD                                                                                                    \
    { .key = OPTIMIZER "amsgrad", BOOL, DEF("false"), REJECT("no fused optimizer has the AMSGrad variant") }
#define ROW_FP32_STATES                                                                                                \
    { .key = OPTIMIZER "fp32_optimizer_states", BOOL, DEF("true"), REJECT("optimizer states are fp32") }
/* Of PyTorch's constructors; every optimizer has them. */
#define ROWS_PYTHON                                                                                                    \
    { .key = OPTIMIZER "fused", BOOL, ACCEPT("a hint for Python") },                                                   \
        { .key = OPTIMIZER "foreach", BOOL, ACCEPT("a hint for Python") },                                             \
        { .key = OPTIMIZER "capturable", BOOL, ACCEPT("a hint for Python") },                                          \
        { .key = OPTIMIZER "differentiable", BOOL, ACCEPT("a hint for Python") }, {                                    \
        .key = OPTIMIZER "set_grad_none", BOOL, ACCEPT("a hint for Python")                                            \
    }

#endif
