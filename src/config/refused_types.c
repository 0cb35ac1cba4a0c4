/* The optimizers and learning-rate rules of DeepSpeed, and the data formats, that this program does not have. They are
 * known so that a message can refuse them by name, and so that the other problems of the file are found as well. */
#include "config/rows.h"

/* ---- optimizers ---- */

#define REJECT_TYPE(name_, why_)                                                                                       \
    &(const struct zt_key_owner) {                                                                                     \
        .name = (name_), .status = ZT_KEY_REJECT, .why = (why_)                                                        \
    }

const struct zt_key_owner *const zt_refused_optimizers[] = {
    REJECT_TYPE("OneBitSGD", "no such optimizer exists: use SGD or OneBitAdam"),
    REJECT_TYPE("MuAdam", "muP needs Python: use Adam"),
    REJECT_TYPE("MuAdamW", "muP needs Python: use AdamW"),
    REJECT_TYPE("MuSGD", "muP needs Python: use SGD"),
    NULL,
};

const struct zt_key_owner *const zt_refused_schedulers[] = { NULL };

/* ---- data formats ---- */

const struct zt_key_owner *const zt_refused_formats[] = { NULL };
