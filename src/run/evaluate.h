/* Evaluation: loss and accuracy on data. */
#ifndef ZT_RUN_EVALUATE_H
#define ZT_RUN_EVALUATE_H

#include "data/loader.h"
#include "run/rank/rank.h"

struct zt_eval_result {
    double loss, accuracy; /* accuracy is NAN if the loss has no classes */
};
/* Evaluates all samples of `loader`. Collective. */
bool zt_rank_evaluate(struct zt_rank *rank, struct zt_loader *loader, struct zt_eval_result *result,
                      struct zt_err *err);

#endif
