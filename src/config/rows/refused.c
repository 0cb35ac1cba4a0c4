/* The optimizers and learning-rate rules of DeepSpeed, and the data formats, that this program does not have. They are
 * known so that a message can refuse them by name, and so that the other problems of the file are found as well. */
#include "config/shared_optimizer_keys.h"

/* ---- optimizers ---- */

#define ROWS_ONE_BIT                                                                                                   \
    { .key = OPTIMIZER "cuda_aware", BOOL, DEF("false"), ACCEPT("the communicator decides") },                         \
        { .key = OPTIMIZER "comm_backend_name", TEXT, DEF("nccl"), ACCEPT("ztrain.parallel.communicator decides") }, { \
        .key = OPTIMIZER "exp_avg_mask", ANY, ACCEPT("masks are for Python")                                           \
    }
#define ROWS_ADAM                                                                                                      \
    ROW_LR("1e-3"), ROW_BETAS, ROW_EPS(ACCEPTED), ROW_WEIGHT_DECAY, ROW_BIAS_CORRECTION(ACCEPTED), ROW_AMSGRAD,        \
        ROWS_PYTHON
#define FREEZE_STEP                                                                                                    \
    { .key = OPTIMIZER "freeze_step", INT(0), DEF("100000"), ACCEPTED }

static const struct zt_key_row one_bit_adam[] = {
    ROWS_ADAM, ROW_EPS_INSIDE(ACCEPTED), FREEZE_STEP, ROWS_ONE_BIT, { 0 }
};
static const struct zt_key_row zero_one_adam[] = {
    ROWS_ADAM,
    ROW_EPS_INSIDE(ACCEPTED),
    ROWS_ONE_BIT,
    { .key = OPTIMIZER "var_freeze_step", INT(0), DEF("100000"), ACCEPTED },
    { .key = OPTIMIZER "var_update_scaler", INT(1), DEF("16"), ACCEPTED },
    { .key = OPTIMIZER "local_step_scaler", INT(1), DEF("32678"), ACCEPTED },
    { .key = OPTIMIZER "local_step_clipper", INT(1), DEF("16"), ACCEPTED },
    { 0 },
};
static const struct zt_key_row one_bit_lamb[] = {
    ROWS_ADAM,
    ROW_MAX_COEFF(ACCEPTED),
    ROW_MIN_COEFF(ACCEPTED),
    ROW_EPS_INSIDE(ACCEPTED),
    FREEZE_STEP,
    ROWS_ONE_BIT,
    { .key = OPTIMIZER "coeff_beta", NUMBER, BELOW_ONE, DEF("0.9"), ACCEPTED },
    { .key = OPTIMIZER "factor_max", NUMBER, POSITIVE, DEF("4"), ACCEPTED },
    { .key = OPTIMIZER "factor_min", NUMBER, FROM(0), DEF("0.5"), ACCEPTED },
    { .key = OPTIMIZER "factor_threshold", NUMBER, FROM(0), DEF("0.1"), ACCEPTED },
    { 0 },
};
#define LATER_TYPE(name_, ...)                                                                                         \
    &(const struct zt_key_owner) {                                                                                     \
        .name = (name_), .status = ZT_KEY_LATER, __VA_ARGS__                                                           \
    }
#define REJECT_TYPE(name_, why_)                                                                                       \
    &(const struct zt_key_owner) {                                                                                     \
        .name = (name_), .status = ZT_KEY_REJECT, .why = (why_)                                                        \
    }

const struct zt_key_owner *const zt_refused_optimizers[] = {
    LATER_TYPE("OneBitAdam", .keys = one_bit_adam, .replicated = true),
    LATER_TYPE("ZeroOneAdam", .keys = zero_one_adam, .replicated = true),
    LATER_TYPE("OneBitLamb", .keys = one_bit_lamb, .replicated = true, .dynamic_scale = true),
    REJECT_TYPE("OneBitSGD", "no such optimizer exists: use SGD or OneBitAdam"),
    REJECT_TYPE("MuAdam", "muP needs Python: use Adam"),
    REJECT_TYPE("MuAdamW", "muP needs Python: use AdamW"),
    REJECT_TYPE("MuSGD", "muP needs Python: use SGD"),
    NULL,
};

const struct zt_key_owner *const zt_refused_schedulers[] = { NULL };

/* ---- data formats ---- */

const struct zt_key_owner *const zt_refused_formats[] = { NULL };
