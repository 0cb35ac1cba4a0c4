#include "report/observers.h"

#include "base/text.h"
#include "plan/resolve.h"
#include "report/start_table.h"
#include "report/tags.h"
#include "run/histogram.h"

/* Returns the number of samples of the first `steps` steps. */
static int64_t samples_of(const struct zt_rank_plan *p, int64_t steps) {
    const struct zt_epoch_place place = zt_epochs_at(&p->steps.epochs, steps);
    return place.epoch * p->steps.epochs.samples + place.first;
}

static const struct zt_config *config_of(const struct zt_observers *o) {
    return o->o.session->config;
}

static const struct zt_log *log_of(const struct zt_observers *o) {
    return &o->o.session->options->log;
}

/* ---- start ---- */

/* States what the monitors cost or replace. */
static void say_notes(const struct zt_observers *o) {
    const struct zt_config *c = config_of(o);
    const char *csv = zt_monitors_csv_folder(o->monitors);
    if (c->wandb)
        zt_say(
            log_of(o), ZT_LOG_INFO,
            "  wandb: no service receives the values. They are in CSV files in %s; with tensorboard.enabled they are "
            "also in event files, which `wandb sync --sync-tensorboard` imports",
            csv);
    if (c->comet)
        zt_say(log_of(o), ZT_LOG_INFO, "  comet: no service receives the values. They are in CSV files in %s", csv);
    if (c->wall_clock_breakdown && o->o.device->module)
        zt_say(log_of(o), ZT_LOG_INFO,
               "  wall_clock_breakdown: every step waits for the device and runs without captured graphs, which slows "
               "the run");
}

/* Warns if the step that a key asks for (from 1) is not a step of this run. */
static void warn_outside(const struct zt_observers *o, const char *key, int64_t step) {
    if (step <= o->o.first || step > o->o.steps)
        zt_say(log_of(o), ZT_LOG_WARNING, "%s: step %lld is not among the steps %lld to %lld of this run", key,
               (long long)step, (long long)o->o.first + 1, (long long)o->o.steps);
}

static void warn(const struct zt_observers *o) {
    const struct zt_config *c = config_of(o);
    if (c->flops.enabled && c->flops.step >= 0)
        warn_outside(o, "flops_profiler.profile_step", c->flops.step > 0 ? c->flops.step : 1);
    if (c->trace.steps > 0)
        warn_outside(o, "ztrain.monitor.trace_step", c->trace.first);
    if (c->recompute.enabled && c->recompute.profile && !zt_profiler_times_segments(&o->profiler, o->o.steps))
        zt_say(log_of(o), ZT_LOG_WARNING, "activation_checkpointing.profile needs a run of at least 3 steps");
}

static bool open_files(struct zt_observers *o, struct zt_err *err) {
    const int64_t resumed = o->o.resumed ? o->o.first : -1;
    const struct zt_config resolved = zt_rank_plan_resolve(o->o.plan);
    o->monitors = zt_monitors_create(&resolved, o->o.folder, o->samples, o->o.resumed, err);
    return o->monitors && zt_memory_file_open(&o->memory, o->o.folder, o->o.plan, resumed, err);
}

bool zt_observers_prepare(const struct zt_config *config, const char *folder, struct zt_err *err) {
    return zt_profiler_prepare(config, err) && zt_monitors_prepare(config, folder, err);
}

/* Prints the memory lines of a point of a step. */
static void say_memory(void *with, enum zt_rank_point point) {
    static const char *const tags[] = {
        [ZT_RANK_BEFORE_FORWARD] = "Engine before forward",   [ZT_RANK_AFTER_FORWARD] = "Engine after forward",
        [ZT_RANK_BEFORE_BACKWARD] = "Engine before backward", [ZT_RANK_AFTER_BACKWARD] = "Engine after backward",
        [ZT_RANK_BEFORE_STEP] = "Engine before step",
    };
    struct zt_observers *o = with;
    zt_console_clear(o->o.console);
    zt_memory_say(tags[point], o->o.device, log_of(o));
}

bool zt_observers_open(struct zt_observers *o, const struct zt_observers_options *options, struct zt_err *err) {
    *o = (struct zt_observers){ .o = *options, .samples = samples_of(options->plan, options->first) };
    o->timers = zt_timers_create(options->device);
    zt_rank_use_timers(options->rank, o->timers);
    o->profiler = (struct zt_profiler){ .config = config_of(o),
                                        .plan = options->plan,
                                        .stages = options->console ? options->stages : NULL,
                                        .rank = options->rank,
                                        .world = options->world,
                                        .timers = o->timers,
                                        .folder = options->folder,
                                        .log = log_of(o),
                                        .first = options->first };
    if (!options->console)
        return true;
    if (!open_files(o, err))
        return false;
    say_notes(o);
    o->progress = (struct zt_rank_progress){ say_memory, o };
    if (config_of(o)->memory_breakdown)
        zt_rank_follow(options->rank, &o->progress);
    if (config_of(o)->parallel.stages > 1)
        zt_report_stages(options->stages, log_of(o));
    warn(o);
    if (config_of(o)->dump_state)
        zt_config_say(config_of(o), log_of(o));
    return true;
}

/* ---- steps ---- */

/* Returns the number of steps from the first traced one to `step` (from 0); -1: `step` is not traced. */
static int64_t traced(const struct zt_observers *o, int64_t step) {
    const struct zt_trace_config *c = &config_of(o)->trace;
    const int64_t at = step + 1 - c->first;
    return at >= 0 && at < c->steps ? at : -1;
}

bool zt_observers_before(struct zt_observers *o, int64_t step, struct zt_err *err) {
    const bool traces = traced(o, step) >= 0, profiles = zt_profiler_times(&o->profiler, step);
    zt_timers_turn(o->timers, traces                                           ? ZT_TIMERS_NODES
                              : config_of(o)->wall_clock_breakdown || profiles ? ZT_TIMERS_INSTRUCTIONS
                                                                               : ZT_TIMERS_OFF);
    if (profiles)
        zt_profiler_before(&o->profiler);
    return !traces || o->trace.base > 0 || zt_step_trace_begin(&o->trace, o->o.world, err);
}

/* Whether histograms are written after step `step` (from 0). */
static bool draws_histograms(const struct zt_observers *o, int64_t step) {
    const struct zt_config *c = config_of(o);
    return c->tensorboard.enabled && c->histogram_steps > 0 && (step + 1) % c->histogram_steps == 0;
}

bool zt_observers_wait(const struct zt_observers *o, int64_t step) {
    return zt_timers_on(o->timers) || draws_histograms(o, step) || config_of(o)->memory_breakdown;
}

static void take_histogram(const struct zt_histogram_sink *sink, int stage, int tensor, bool gradient,
                           const struct zt_histogram *histogram) {
    const struct zt_observers *o = sink->with;
    struct zt_text tag = { 0 };
    zt_text_add(&tag, "%s/%s", gradient ? "Gradients" : "Weights",
                o->o.stages->stage[stage]->tensors.flat->tensors[tensor].name);
    zt_monitors_histogram(o->monitors, tag.at, o->samples, histogram);
    zt_text_finish(&tag);
}

static bool add_histograms(struct zt_observers *o, int64_t step, const struct zt_metrics_row *row, struct zt_err *err) {
    const struct zt_histogram_sink sink = { take_histogram, o };
    return !draws_histograms(o, step) ||
           zt_rank_histograms(o->o.rank, row->loss_scale, o->o.console ? &sink : NULL, err);
}

static void say_step(struct zt_observers *o, const struct zt_step_timers *timers, int64_t step, int micro_batches) {
    const struct zt_config *c = config_of(o);
    if ((c->wall_clock_breakdown && timers->count) || c->memory_breakdown)
        zt_console_clear(o->o.console);
    if (c->wall_clock_breakdown && timers->count)
        zt_wall_clock_say(&o->interval, c, timers, step + 1, micro_batches, log_of(o));
    if (c->memory_breakdown)
        zt_memory_say("Engine after step", o->o.device, log_of(o));
}

/* Writes the trace if steps were traced and the file was not written. Collective. */
static bool write_trace(struct zt_observers *o, struct zt_err *err) {
    return o->trace.base == 0 || o->trace.written ||
           zt_step_trace_write(&o->trace, o->o.world, &o->o.plan->grid, o->o.folder, err);
}

bool zt_observers_step(struct zt_observers *o, int64_t step, const struct zt_metrics_row *row, struct zt_err *err) {
    const struct zt_rank_plan *p = o->o.plan;
    const struct zt_step_timers timers = zt_timers_of_step(o->timers);
    const bool timed = config_of(o)->wall_clock_breakdown && timers.step == step;
    const int micro_batches = zt_rank_shape(&p->steps, step).micro_batches;
    o->samples += row->samples;
    if (traced(o, step) >= 0 && timers.step == step)
        zt_step_trace_add(&o->trace, &timers, o->o.world->rank);
    if (!add_histograms(o, step, row, err) ||
        (traced(o, step) == config_of(o)->trace.steps - 1 && !write_trace(o, err)))
        return false;
    if (!o->o.console)
        return true;
    const struct zt_wall_clock clock = zt_wall_clock_of(&timers, -1, micro_batches);
    say_step(o, &timers, step, micro_batches);
    return zt_tags_step(o->monitors, row, timed ? &clock : NULL, o->samples, err) &&
           zt_monitors_flush(o->monitors, false, err) && zt_memory_file_step(&o->memory, step + 1, err);
}

bool zt_observers_profile(struct zt_observers *o, int64_t step, int64_t samples, struct zt_err *err) {
    if (!zt_profiler_times(&o->profiler, step))
        return true;
    if (o->o.console)
        zt_console_clear(o->o.console);
    return zt_profiler_step(&o->profiler, step, samples, err);
}

bool zt_observers_eval(struct zt_observers *o, double loss, double accuracy, struct zt_err *err) {
    return !o->monitors || zt_tags_eval(o->monitors, loss, accuracy, o->samples, err);
}

bool zt_observers_end(struct zt_observers *o, struct zt_err *err) {
    return write_trace(o, err);
}

bool zt_observers_sync(struct zt_observers *o, struct zt_err *err) {
    return !o->monitors ||
           (zt_monitors_flush(o->monitors, true, err) && zt_append_file_flush(&o->memory.file, true, err));
}

bool zt_observers_finish(struct zt_observers *o, struct zt_err *err) {
    bool ok = zt_monitors_finish(o->monitors, err);
    if (o->monitors)
        ok = zt_memory_file_close(&o->memory, err) && ok;
    zt_step_trace_finish(&o->trace);
    zt_timers_destroy(o->timers);
    *o = (struct zt_observers){ 0 };
    return ok;
}
