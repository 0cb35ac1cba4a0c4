/* Output of a run before its first step, and the files that it opens in its folder. */
#ifndef ZT_TRAIN_REPORT_H
#define ZT_TRAIN_REPORT_H

#include "train_steps.h"

/* Opens the output of rank 0 and of each rank. A barrier ensures that all ranks have opened what they need before any
 * rank runs a step or writes to the folder. Collective. */
bool zt_training_open_report(struct zt_training *t, struct zt_err *err);

#endif
