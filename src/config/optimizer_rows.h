/* Rows of the optimizer parameters that several optimizers have: one macro a row. A row whose value only the optimizer
 * itself reads takes the place of the value: PLACE() of config/rows.h, or ACCEPTED where nothing reads it. */
#ifndef ZT_CONFIG_OPTIMIZER_ROWS_H
#define ZT_CONFIG_OPTIMIZER_ROWS_H

#include "config/rows.h"

#define ROW_LR(default_)                                                                                               \
    { .key = O "lr", NUMBER, FROM(0), DEF(default_), AUTO("5e-5", HF), AT(optimizer.lr) }
#define ROW_BETAS                                                                                                      \
    { .key = O "betas", .type = ZT_KEY_PAIR, BELOW_ONE, DEF("0.9 0.999"), AT(optimizer.beta1) }
#define ROW_WEIGHT_DECAY                                                                                               \
    { .key = O "weight_decay", NUMBER, FROM(0), DEF("0"), AT(optimizer.weight_decay) }
#define ROW_EPS(...)                                                                                                   \
    { .key = O "eps", NUMBER, FROM(0), DEF("1e-8"), __VA_ARGS__ }
#define ROW_BIAS_CORRECTION(...)                                                                                       \
    { .key = O "bias_correction", BOOL, DEF("true"), __VA_ARGS__ }
#define ROW_MAX_COEFF(...)                                                                                             \
    { .key = O "max_coeff", NUMBER, POSITIVE, DEF("10"), __VA_ARGS__ }
#define ROW_MIN_COEFF(...)                                                                                             \
    { .key = O "min_coeff", NUMBER, FROM(0), DEF("0.01"), __VA_ARGS__ }
#define ROW_EPS_INSIDE(...)                                                                                            \
    { .key = O "eps_inside_sqrt", BOOL, DEF("false"), __VA_ARGS__ }
#define ROW_MOMENTUM(...)                                                                                              \
    { .key = O "momentum", NUMBER, FROM(0), DEF("0"), __VA_ARGS__ }
#define ROW_MAXIMIZE                                                                                                   \
    { .key = O "maximize", BOOL, DEF("false"), REJECT("negate the loss in the graph") }
#define ROW_AMSGRAD                                                                                                    \
    { .key = O "amsgrad", BOOL, DEF("false"), REJECT("no fused optimizer has the AMSGrad variant") }
#define ROW_FP32_STATES                                                                                                \
    { .key = O "fp32_optimizer_states", BOOL, DEF("true"), REJECT("optimizer states are fp32") }
/* Of PyTorch's constructors; every optimizer has them. */
#define ROWS_PYTHON                                                                                                    \
    { .key = O "fused", BOOL, ACCEPT("a hint for Python") },                                                           \
        { .key = O "foreach", BOOL, ACCEPT("a hint for Python") }, {                                                   \
        .key = O "set_grad_none", BOOL, ACCEPT("a hint for Python")                                                    \
    }

#endif
