/* Losses, gradients and weights that are not finite: what a run says of them, and when it ends for them. */
#ifndef ZT_RUN_FINITE_H
#define ZT_RUN_FINITE_H

#include "run/rank/rank.h"

enum { ZT_SKIPS_SEEN = 100 };

/* Which of the last steps were left out, since loss or gradient were not finite; by step. */
struct zt_skips {
    bool at[ZT_SKIPS_SEEN];
};

/* The error of step `step` (from 0), which is run again to say where it comes from; *blamed: the rank that it is about.
 * Collective. An overflow that the loss scale answers by a smaller one is no such case: that step is skipped. One with
 * the loss scale at its minimum is; the run again, with the same scale, says which tensor overflowed. */
bool zt_finite_fail(struct zt_rank *rank, int64_t step, const struct zt_step_result *r, int *blamed,
                    struct zt_err *err);
/* A model that is not finite is none: it is not written. Rank 0 has all tensors, and tells the others. Collective. */
bool zt_finite_weights(struct zt_comm *world, const struct zt_onnx_payload *payloads, const int64_t *elements,
                       int count, const char *folder, struct zt_err *err);
/* Whether a run of `steps` steps trained to its end: more than half of its last steps did something. Always so with a
 * dynamic loss scale, which begins with skips. */
bool zt_skips_check(const struct zt_skips *skips, int64_t steps, const struct zt_fp16_config *fp16, struct zt_err *err);

#endif
