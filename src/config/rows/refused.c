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
static const struct zt_key_choice newton_schulz[] = { { .name = "gram" }, { .name = "standard" }, { 0 } };
static const struct zt_key_row muon[] = {
    ROW_LR("1e-3"),
    ROW_BETAS,
    ROW_EPS(ACCEPTED),
    ROW_WEIGHT_DECAY,
    { .key = OPTIMIZER "momentum", NUMBER, BELOW_ONE, DEF("0.95"), ACCEPTED },
    ROWS_PYTHON,
    { .key = OPTIMIZER "muon_lr", NUMBER, FROM(0), ACCEPTED },
    { .key = OPTIMIZER "adam_lr", NUMBER, FROM(0), ACCEPTED },
    { .key = OPTIMIZER "ns_method", CHOICE(newton_schulz), ACCEPTED },
    { 0 },
};
static const struct zt_key_row rms_prop[] = {
    ROW_LR("1e-3"),
    ROW_EPS(ACCEPTED),
    ROW_WEIGHT_DECAY,
    ROW_MOMENTUM(ACCEPTED),
    ROW_MAXIMIZE,
    ROWS_PYTHON,
    { .key = OPTIMIZER "alpha", NUMBER, BELOW_ONE, DEF("0.99"), ACCEPTED },
    { .key = OPTIMIZER "centered", BOOL, DEF("false"), ACCEPTED },
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
    LATER_TYPE("Muon", .keys = muon),
    LATER_TYPE("RMSprop", .keys = rms_prop),
    REJECT_TYPE("OneBitSGD", "no such optimizer exists: use SGD or OneBitAdam"),
    REJECT_TYPE("MuAdam", "muP needs Python: use Adam"),
    REJECT_TYPE("MuAdamW", "muP needs Python: use AdamW"),
    REJECT_TYPE("MuSGD", "muP needs Python: use SGD"),
    NULL,
};

/* ---- learning-rate rules of PyTorch ---- */

#define ROWS_TORCH                                                                                                     \
    { .key = SCHEDULER "last_epoch", INT(-1), DEF("-1"), ACCEPT("a run starts at its own step") }, {                   \
        .key = SCHEDULER "verbose", ANY, ACCEPT("the rate is in every metrics row")                                    \
    }

static const struct zt_key_row step[] = {
    ROWS_TORCH,
    { .key = SCHEDULER "step_size", INT(1), .needed = true, ACCEPTED },
    { .key = SCHEDULER "gamma", NUMBER, POSITIVE, ACCEPTED },
    { 0 },
};
static const struct zt_key_row exponential[] = {
    ROWS_TORCH, { .key = SCHEDULER "gamma", NUMBER, POSITIVE, .needed = true, ACCEPTED }, { 0 }
};
static const struct zt_key_row cosine[] = { ROWS_TORCH,
                                            { .key = SCHEDULER "T_max", INT(1), .needed = true, ACCEPTED },
                                            { .key = SCHEDULER "eta_min", NUMBER, FROM(0), ACCEPTED },
                                            { 0 } };
static const struct zt_key_choice plateau_modes[] = { { .name = "min" }, { .name = "max" }, { 0 } };
static const struct zt_key_choice threshold_modes[] = { { .name = "rel" }, { .name = "abs" }, { 0 } };
static const struct zt_key_row plateau[] = {
    ROWS_TORCH,
    { .key = SCHEDULER "mode", CHOICE(plateau_modes), ACCEPTED },
    { .key = SCHEDULER "factor", NUMBER, BELOW_ONE, ACCEPTED },
    { .key = SCHEDULER "patience", INT(0), ACCEPTED },
    { .key = SCHEDULER "threshold", NUMBER, FROM(0), ACCEPTED },
    { .key = SCHEDULER "threshold_mode", CHOICE(threshold_modes), ACCEPTED },
    { .key = SCHEDULER "cooldown", INT(0), ACCEPTED },
    { .key = SCHEDULER "min_lr", FIRST, FROM(0), ACCEPTED },
    { .key = SCHEDULER "eps", NUMBER, FROM(0), ACCEPTED },
    { 0 },
};

const struct zt_key_owner *const zt_refused_schedulers[] = {
    LATER_TYPE("StepLR", .keys = step),
    LATER_TYPE("ExponentialLR", .keys = exponential),
    LATER_TYPE("CosineAnnealingLR", .keys = cosine),
    LATER_TYPE("ReduceLROnPlateau", .keys = plateau),
    NULL,
};

/* ---- data formats ---- */

const struct zt_key_owner *const zt_refused_formats[] = { NULL };
