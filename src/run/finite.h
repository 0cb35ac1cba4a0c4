/* Handling of non-finite losses, gradients and weights: the errors that end a run. The weights are tested here,
 * at the end of a run; gradients in run/rank/update.c. */
#ifndef ZT_RUN_FINITE_H
#define ZT_RUN_FINITE_H

#include "base/log.h"
#include "run/collect.h"
#include "run/non_finite_origin.h"

enum { ZT_SKIPS_SEEN = 100 };

/* Record of the last steps: a step is skipped if its loss or gradient is not finite. Steps before the first applied
 * one, in which a dynamic loss scale settles, do not count. */
struct zt_skips {
    bool at[ZT_SKIPS_SEEN]; /* a ring buffer */
    int64_t counted;        /* steps */
    bool applied;           /* a step has been applied */
};

/* Reports the error of the non-finite step `step` (from 0) and runs it again to find the cause; *blamed is the rank of
 * the cause. Collective. A dynamic loss scale above its minimum handles overflows by skipping the step, so this
 * function is not called for them. At the minimum it is: the repeated step uses the same scale and names the tensor
 * that overflowed. */
bool zt_finite_fail(struct zt_rank *rank, int64_t step, const struct zt_step_result *r, int *blamed,
                    struct zt_err *err);
/* Reports the error of an evaluation whose loss is not finite, with the cause `trace` (non_finite_origin.h). */
bool zt_finite_fail_evaluation(double loss, const struct zt_trace *trace, struct zt_err *err);
/* Reports an error if a trained tensor is not finite, because such a model is not written. Rank 0 has all tensors and
 * shares the result. Collective. */
bool zt_finite_weights(struct zt_comm *world, const struct zt_collected *weights, const char *folder,
                       struct zt_err *err);
/* Warns about a parameter whose largest magnitude is beyond what a trained network has. */
void zt_finite_warn(const struct zt_collected *weights, const struct zt_log *log);
/* Counts a step. */
void zt_skips_count(struct zt_skips *skips, bool skipped, const struct zt_fp16_config *fp16);
/* Reports an error if more than half of the last ZT_SKIPS_SEEN steps were skipped. Fewer steps never fail. */
bool zt_skips_check(const struct zt_skips *skips, const struct zt_fp16_config *fp16, struct zt_err *err);

#endif
