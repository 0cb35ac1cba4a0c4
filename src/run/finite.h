/* Detection of non-finite losses, gradients and weights, and the errors that end a run because of them. */
#ifndef ZT_RUN_FINITE_H
#define ZT_RUN_FINITE_H

#include "run/collect.h"
#include "run/rank/rank.h"

enum { ZT_SKIPS_SEEN = 100 };

/* Ring buffer by step: which of the last steps were skipped because loss or gradient was not finite. */
struct zt_skips {
    bool at[ZT_SKIPS_SEEN];
};

/* Reports the error of the non-finite step `step` (from 0) and runs it again to find the cause; *blamed is the rank of
 * the cause. Collective. A dynamic loss scale above its minimum handles overflows by skipping the step, so this
 * function is not called for them. At the minimum it is: the repeated step uses the same scale and names the tensor
 * that overflowed. */
bool zt_finite_fail(struct zt_rank *rank, int64_t step, const struct zt_step_result *r, int *blamed,
                    struct zt_err *err);
/* Reports an error if a trained tensor is not finite, because such a model is not written. Rank 0 has all tensors and
 * shares the result. Collective. */
bool zt_finite_weights(struct zt_comm *world, const struct zt_collected *weights, const char *folder,
                       struct zt_err *err);
/* Reports an error if more than half of the last steps were skipped in a run of `steps` steps. A dynamic loss scale,
 * which begins with skipped steps, never fails this check. */
bool zt_skips_check(const struct zt_skips *skips, int64_t steps, const struct zt_fp16_config *fp16, struct zt_err *err);

#endif
