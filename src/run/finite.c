#include "run/finite.h"

#include <math.h>

/* Removes the sign of a NaN, which printf would print and which has no meaning. */
static double unsigned_nan(double x) {
    return isnan(x) ? NAN : x;
}

static const char data_hint[] = "samples are counted from 0; take them out, or replace their values";

static bool fail_at_minimum(int64_t step, const struct zt_step_result *r, const struct zt_trace *trace,
                            struct zt_err *err) {
    zt_fail(err, ZT_EXIT_RUN,
            "loss scale already at minimum (%g) - cannot decrease scale anymore: overflow at step %lld: %s",
            r->loss_scale, (long long)step + 1, trace->text);
    return trace->data ? zt_hint(err, data_hint)
                       : zt_hint(err, "use bf16 (bf16.enabled), or a lower learning rate; see fp16.min_loss_scale");
}

bool zt_finite_fail(struct zt_rank *rank, int64_t step, const struct zt_step_result *r, int *blamed,
                    struct zt_err *err) {
    struct zt_trace trace;
    if (!zt_rank_trace(rank, step, &trace, err))
        return false;
    *blamed = trace.rank;
    if (r->scaling.event == ZT_SCALE_AT_MINIMUM)
        return fail_at_minimum(step, r, &trace, err);
    zt_fail(err, ZT_EXIT_RUN, "%s is not finite (loss %g, gradient norm %g) at step %lld: %s",
            isfinite(r->loss) ? "the gradient" : "the loss", unsigned_nan(r->loss), unsigned_nan(r->grad_norm),
            (long long)step + 1, trace.text);
    if (trace.data)
        return zt_hint(err, data_hint);
    return zt_hint(err,
                   "lower the learning rate, or clip the gradient (gradient_clipping); "
                   "ztrain.on_non_finite: \"skip\" skips such steps");
}

bool zt_finite_fail_evaluation(double loss, const struct zt_trace *trace, struct zt_err *err) {
    zt_fail(err, ZT_EXIT_RUN, "the loss of the evaluation is not finite (%g): %s", unsigned_nan(loss), trace->text);
    return trace->data && zt_hint(err, data_hint);
}

bool zt_finite_weights(struct zt_comm *world, const struct zt_collected *weights, const char *folder,
                       struct zt_err *err) {
    const bool first = world->rank == 0;
    double bad = -1;
    for (int i = 0; first && i < weights->count && bad < 0; i++)
        for (int64_t k = 0; k < weights->elements[i] && bad < 0; k++)
            bad = isfinite(((const float *)weights->payloads[i].data)[k]) ? -1 : i;
    bad = first ? bad + 1 : 0;
    if (!world->api->sum(world, &bad, 1, err))
        return false;
    if (bad == 0)
        return true;
    zt_fail(err, ZT_EXIT_RUN, "the weights are not finite at the end of the run%s%s%s: model.onnx is not written",
            first ? " (the first: \"" : "", first ? weights->payloads[(int)bad - 1].name : "", first ? "\")" : "");
    return zt_hint(err, "lower the learning rate; %s/checkpoints may hold an earlier state", folder);
}

/* Beyond this the products of two layers leave the range of fp16 and bf16 has no digits left; networks train with
 * weights of about 1. */
static const double largest_weight = 1e6;

void zt_finite_warn(const struct zt_collected *weights, const struct zt_log *log) {
    double largest = 0;
    int at = 0;
    for (int i = 0; i < weights->count; i++)
        for (int64_t k = 0; !weights->statistic[i] && k < weights->elements[i]; k++) {
            double size = fabs(((const float *)weights->payloads[i].data)[k]);
            at = size > largest ? i : at;
            largest = fmax(largest, size);
        }
    if (largest > largest_weight)
        zt_say(log, ZT_LOG_WARNING,
               "model.onnx: \"%s\" has an element of magnitude %g: the run has probably diverged; lower the learning "
               "rate",
               weights->payloads[at].name, largest);
}

static bool is_dynamic(const struct zt_fp16_config *fp16) {
    return fp16->enabled && fp16->loss_scale == 0;
}

void zt_skips_count(struct zt_skips *skips, bool skipped, const struct zt_fp16_config *fp16) {
    skips->applied |= !skipped;
    if (skips->applied || !is_dynamic(fp16))
        skips->at[skips->counted++ % ZT_SKIPS_SEEN] = skipped;
}

bool zt_skips_check(const struct zt_skips *skips, const struct zt_fp16_config *fp16, struct zt_err *err) {
    int skipped = 0;
    for (int i = 0; i < ZT_SKIPS_SEEN; i++)
        skipped += skips->at[i];
    if (skips->counted < ZT_SKIPS_SEEN || 2 * skipped <= ZT_SKIPS_SEEN)
        return true;
    zt_fail(err, ZT_EXIT_RUN, "%d of the last %d steps were skipped because loss or gradient was not finite", skipped,
            ZT_SKIPS_SEEN);
    if (is_dynamic(fp16))
        return zt_hint(err, "use bf16 (bf16.enabled), or a lower learning rate");
    if (fp16->enabled)
        return zt_hint(err, "lower fp16.loss_scale, or set it to 0 for dynamic loss scaling");
    return zt_hint(err,
                   "model.onnx has the weights of the steps before; without ztrain.on_non_finite \"skip\" the run "
                   "stops at the first such step and reports its origin");
}
