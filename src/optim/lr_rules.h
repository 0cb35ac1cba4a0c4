/* Learning-rate rules: what their files share, and the rules that lr_cycles.c adds to the table in lr.c. */
#ifndef ZT_OPTIM_LR_RULES_H
#define ZT_OPTIM_LR_RULES_H

#include "config/rows.h"
#include "optim/optim.h"

/* The params of a rule. */
#define RULE(params, field) PLACE(ZT_IN_SCHEDULER, struct params, field)

/* The last update that is done before the run; -1: none. */
#define LAST(name)                                                                                                     \
    { .key = SCHEDULER name, COUNT(-1, 1e12), DEF("-1"), AT(scheduler.last_update) }
#define LAST_ITERATION LAST("last_batch_iteration")
/* The keys of every rule of PyTorch. */
#define VERBOSE                                                                                                        \
    { .key = SCHEDULER "verbose", ANY, ACCEPT("the rate is in every metrics row") }
#define ROWS_TORCH LAST("last_epoch"), VERBOSE

/* The value of a parameter group: a list has one for each, a number is that of all. */
static inline double of_group(const struct zt_numbers *values, int group) {
    return values->at[values->count > 1 ? group : 0];
}

extern const struct zt_lr_rule zt_lr_one_cycle, zt_lr_one_cycle_lr, zt_lr_cyclic_lr;

#endif
