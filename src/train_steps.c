#include "train_steps.h"

#include "base/clock.h"
#include "base/mapped.h"
#include "run/overflow.h"
#include "run/swap_average.h"
#include "run/rank_data.h"
#include "run/step.h"

#include <math.h>

static int64_t in_ns(double seconds) {
    return (int64_t)(seconds * 1e9);
}

void zt_training_phase(struct zt_training *t, const char *name) {
    zt_rank_status_phase(&t->worker.status, name);
}

/* Checks whether mapped files have changed, because each step reads constants from the mapped model: immediately after
 * a failed page read, otherwise once per second. */
static bool files_intact(struct zt_training *t, double now, struct zt_err *err) {
    if (!zt_mapped_faults() && now - t->looked < 1)
        return true;
    t->looked = now;
    return zt_mapped_all_intact(err);
}

/* --verbose on any rank names what made a step overflow. */
static bool agree_on_overflow(struct zt_training *t, struct zt_err *err) {
    const struct zt_config *c = t->session->config;
    double wants = t->session->options->log.level == ZT_LOG_DEBUG;
    if (!c->fp16.enabled && !c->skip_non_finite)
        return true;
    const bool ok = t->worker.world->api->sum(t->worker.world, &wants, 1, err);
    t->names_overflow = wants > 0;
    return ok;
}

static bool report_step(struct zt_training *t, int64_t step, const struct zt_step_result *r, double seconds,
                        struct zt_err *err) {
    const struct zt_device *device = t->worker.device;
    struct zt_overflow overflow;
    struct zt_metrics_row row = { .step = step + 1,
                                  .epoch = r->epoch,
                                  .samples = r->samples,
                                  .loss = r->loss,
                                  .lr = r->lr,
                                  .next = r->next,
                                  .lr_state = r->lr_state,
                                  .grad_norm = r->grad_norm,
                                  .loss_scale = r->loss_scale,
                                  .scaling = r->scaling,
                                  .seconds = seconds,
                                  .micro_batches = zt_rank_shape(&t->plan->steps, step).micro_batches,
                                  .allocated = device->allocated,
                                  .peak = device->peak,
                                  .skipped = !r->finite };
    if (row.skipped && t->names_overflow) {
        if (!zt_rank_overflow(t->rank, &overflow, err))
            return false;
        row.overflow = &overflow;
    }
    return (!t->console || zt_console_step(t->console, &row, r->batch, err)) &&
           zt_observers_step(&t->observers, step, &row, err);
}

/* Warns of an evaluation whose loss is not finite. The run goes on: the data of the evaluation may be the cause. The
 * cause is sought once, because that takes another evaluation. Collective: all ranks have the same loss. */
static bool check_evaluation(struct zt_training *t, double loss, struct zt_err *err) {
    struct zt_err why = { 0 };
    struct zt_trace trace;
    if (isfinite(loss) || t->traced_evaluation)
        return true;
    t->traced_evaluation = true;
    if (!zt_rank_trace_evaluation(t->rank, &trace, err))
        return false;
    zt_finite_fail_evaluation(loss, &trace, &why);
    zt_console_clear(t->console);
    if (t->worker.rank == 0)
        zt_say(&t->session->options->log, ZT_LOG_WARNING, "%s", why.text[0]);
    return true;
}

static bool evaluate(struct zt_training *t, int64_t step, int64_t epoch, struct zt_eval_result *to,
                     struct zt_err *err) {
    zt_training_phase(t, "evaluating");
    struct zt_loader *loader = NULL;
    bool ok = zt_rank_loader(t->rank, false, 0, 0, &loader, err) && zt_rank_swap_average(t->rank, err) &&
              zt_rank_evaluate(t->rank, loader, to, err) && check_evaluation(t, to->loss, err) &&
              zt_rank_swap_average(t->rank, err) && files_intact(t, zt_now(), err);
    zt_loader_destroy(loader);
    return ok && (!t->console || zt_console_eval(t->console, step, epoch, to->loss, to->accuracy, err)) &&
           zt_observers_eval(&t->observers, to->loss, to->accuracy, err);
}

/* Whether an epoch ends with step `step` (from 0). */
static bool ends_epoch(const struct zt_training *t, int64_t step) {
    return zt_epochs_ended(&t->epochs, step + 1) > zt_epochs_ended(&t->epochs, step);
}

/* SIGUSR1 prints the counts of comms_logger so far; a signal that stops the run prints them at its end. */
static void print_counts(struct zt_training *t) {
    zt_console_clear(t->console);
    zt_worker_print_counts(&t->worker);
}

/* Runs what follows step `step` (from 1): evaluation at the end of an epoch, a checkpoint if one is due. */
static bool end_step(struct zt_training *t, int64_t step, const struct zt_step_result *r, struct zt_err *err) {
    struct zt_eval_result result;
    struct zt_step_end end = { .step = step, .asked = r && r->save, .console = t->console };
    const bool last = r && ends_epoch(t, step - 1);
    if (last && t->session->eval_source) {
        if (!evaluate(t, step, r->epoch, &result, err))
            return false;
        end.eval = &result;
    }
    if (last)
        zt_rank_end_epoch(t->rank, !end.eval                                  ? NULL
                                   : zt_lr_wants_accuracy(t->session->config) ? &result.accuracy
                                                                              : &result.loss);
    if (end.asked || end.eval || zt_checkpoints_due(t->checkpoints, step)) {
        zt_training_phase(t, "saving a checkpoint");
        if (!zt_observers_sync(&t->observers, err))
            return false;
    }
    if (end.asked && !r->stop)
        print_counts(t);
    return zt_checkpoints_step(t->checkpoints, &end, err);
}

/* Measures memory and the machine after the first step of this run. */
static bool measure(struct zt_training *t, struct zt_err *err) {
    struct zt_worker *w = &t->worker;
    zt_console_clear(t->console);
    if (!zt_forecast_memory(&t->forecast, t->first + 1, w->device, w->world, err))
        return false;
    if (t->steps > t->first + 2 && !t->stopped) {
        zt_training_phase(t, "measuring the machine");
        if (!zt_forecast_measure(&t->forecast, t->session, w->device, w->world, t->rank, err))
            return false;
    }
    if (w->rank == 0)
        zt_rank_warn_paths(t->rank, &t->session->options->log);
    return true;
}

/* Whether a non-finite step ends the run. A dynamic loss scale above its minimum skips the step instead. */
static bool must_fail(const struct zt_training *t, const struct zt_step_result *r) {
    const struct zt_config *c = t->session->config;
    return r->scaling.event == ZT_SCALE_AT_MINIMUM || (!r->finite && !c->skip_non_finite && !c->fp16.enabled);
}

/* Handles the result of step `step`, the oldest one begun. *before is the time at which the previous result was known.
 */
static bool finish_step(struct zt_training *t, int64_t step, double *before, struct zt_err *err) {
    struct zt_step_result r;
    if (!zt_rank_end(t->rank, &r, err))
        return false;
    if (must_fail(t, &r)) {
        zt_training_phase(t, "looking for what is not finite");
        return zt_finite_fail(t->rank, step, &r, &t->worker.blamed, err);
    }
    zt_skips_count(&t->skips, !r.finite, &t->session->config->fp16);
    const double now = zt_now(), seconds = now - *before;
    if (!files_intact(t, now, err))
        return false;
    zt_rank_status_end(&t->worker.status, in_ns(now));
    t->step_seconds += seconds;
    zt_forecast_step(&t->forecast, step, r.samples, seconds);
    if (!report_step(t, step, &r, seconds, err) || !end_step(t, step + 1, &r, err))
        return false;
    t->stopped = r.stop;
    if ((step == t->first && !measure(t, err)) || !zt_observers_profile(&t->observers, step, r.samples, err) ||
        (!t->stopped && !zt_kernel_times_step(&t->times, step - t->first, seconds, err)))
        return false;
    *before = zt_now(); /* their time does not count for the next step */
    return true;
}

/* Whether the latest step begun must end before the next one begins. */
static bool must_end(const struct zt_training *t, int64_t step) {
    return !zt_rank_runs_ahead(t->rank) || t->names_overflow || step == t->first || step + 1 == t->steps ||
           zt_rank_asked(t->rank) || zt_checkpoints_due(t->checkpoints, step + 1) ||
           zt_observers_wait(&t->observers, step) ||
           ((t->session->eval_source || zt_lr_observes(t->session->config)) && ends_epoch(t, step));
}

bool zt_training_steps(struct zt_training *t, struct zt_err *err) {
    double before = zt_now();
    int64_t ended = t->first;
    if (!agree_on_overflow(t, err))
        return false;
    if (t->first == 0)
        zt_console_begin(t->console);
    for (int64_t step = t->first; step < t->steps && !t->stopped; step++) {
        zt_training_phase(t, "stepping");
        zt_rank_status_begin(&t->worker.status, step + 1, in_ns(before));
        if (!zt_observers_before(&t->observers, step, err) || !zt_rank_begin(t->rank, t->loader, step, err))
            return false;
        for (int64_t end = step + must_end(t, step); ended < end; ended++)
            if (!finish_step(t, ended, &before, err))
                return false;
        if (ended == step) /* the next step continues */
            zt_rank_status_begin(&t->worker.status, step + 1, in_ns(before));
    }
    return zt_observers_end(&t->observers, err) && (t->stopped || end_step(t, t->steps, NULL, err));
}
