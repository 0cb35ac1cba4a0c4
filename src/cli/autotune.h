/* autotuning: trials of the layouts that the planner finds best, before the run trains with the fastest. */
#ifndef ZT_CLI_AUTOTUNE_H
#define ZT_CLI_AUTOTUNE_H

#include "session/options.h"

/* The options of the run after the search. */
struct zt_tuned {
    struct zt_options options; /* those of the command line with the choice as further --set */
    const char **set;          /* owned */
    char **argv;               /* owned */
    char (*texts)[96];         /* owned */
};

/* Whether the config asks for autotuning and this process is the one that searches. *wanted is false for ranks that
 * the search or the launcher started. */
bool zt_autotune_wanted(const struct zt_options *options, bool *wanted, struct zt_err *err);
/* Searches and writes DeepSpeed's result files; `folder` is the output folder of the run. The untuned config is
 * measured in the same way and is kept where nothing is faster. Free with zt_tuned_finish(), also after an error. */
bool zt_autotune(const struct zt_options *options, const char *folder, struct zt_tuned *to, struct zt_err *err);
void zt_tuned_finish(struct zt_tuned *tuned);

#endif
