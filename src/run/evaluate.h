/* Loss and accuracy of a rank's weights on data. */
#ifndef ZT_RUN_EVALUATE_H
#define ZT_RUN_EVALUATE_H

#include "data/loader.h"
#include "run/rank/rank.h"

struct zt_eval_result {
    double loss, accuracy; /* accuracy: NAN where the loss has no classes */
};
/* Runs all that `loader` delivers through the evaluation programs. Collective. */
bool zt_rank_evaluate(struct zt_rank *rank, struct zt_loader *loader, struct zt_eval_result *result,
                      struct zt_err *err);

#endif
