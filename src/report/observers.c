#include "report/observers.h"

#include "report/tags.h"
#include "report/wall_clock.h"

/* Returns the number of samples of the first `steps` steps. */
static int64_t samples_of(const struct zt_rank_plan *p, int64_t steps) {
    const int64_t per_epoch = p->whole_steps + (p->tail.samples > 0);
    const int64_t epoch = p->whole_steps * p->full.samples + p->tail.samples;
    return steps / per_epoch * epoch + steps % per_epoch * p->full.samples;
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
    const char *csv = zt_scalars_csv_folder(o->scalars);
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

static bool open_files(struct zt_observers *o, struct zt_err *err) {
    const int64_t resumed = o->o.resumed ? o->o.first : -1;
    o->scalars = zt_scalars_create(config_of(o), o->o.folder, o->samples, o->o.resumed, err);
    return o->scalars && zt_memory_file_open(&o->memory, o->o.folder, o->o.plan, resumed, err);
}

bool zt_observers_open(struct zt_observers *o, const struct zt_observers_options *options, struct zt_err *err) {
    *o = (struct zt_observers){ .o = *options, .samples = samples_of(options->plan, options->first) };
    o->timers = zt_timers_create(options->device);
    zt_rank_use_timers(options->rank, o->timers);
    if (!options->monitor)
        return true;
    if (!open_files(o, err))
        return false;
    say_notes(o);
    if (config_of(o)->dump_state)
        zt_config_say(config_of(o), log_of(o));
    if (config_of(o)->memory_breakdown)
        zt_memory_say("After initializing optimizer states", options->plan, log_of(o));
    return true;
}

/* ---- steps ---- */

void zt_observers_before(struct zt_observers *o, int64_t step) {
    (void)step;
    zt_timers_turn(o->timers, config_of(o)->wall_clock_breakdown);
}

bool zt_observers_wait(const struct zt_observers *o, int64_t step) {
    (void)step;
    return zt_timers_on(o->timers);
}

static void say_step(struct zt_observers *o, const struct zt_step_timers *timers, int64_t step, int micro_batches) {
    const struct zt_config *c = config_of(o);
    if ((c->wall_clock_breakdown && timers->count) || c->memory_breakdown)
        zt_monitor_clear(o->o.monitor);
    if (c->wall_clock_breakdown && timers->count)
        zt_wall_clock_say(c, timers, step + 1, micro_batches, log_of(o));
    if (c->memory_breakdown)
        zt_memory_say("Engine after step", o->o.plan, log_of(o));
}

bool zt_observers_step(struct zt_observers *o, int64_t step, const struct zt_metrics_row *row, struct zt_err *err) {
    const struct zt_rank_plan *p = o->o.plan;
    const struct zt_step_timers timers = zt_timers_of_step(o->timers);
    const bool timed = config_of(o)->wall_clock_breakdown && timers.step == step;
    const int micro_batches = row->samples == p->full.samples ? p->full.micro_batches : p->tail.micro_batches;
    o->samples += row->samples;
    if (!o->o.monitor)
        return true;
    const struct zt_wall_clock clock = zt_wall_clock_of(&timers, -1, micro_batches);
    say_step(o, &timers, step, micro_batches);
    return zt_tags_step(o->scalars, row, timed ? &clock : NULL, o->samples, err) &&
           zt_scalars_flush(o->scalars, false, err) && zt_memory_file_step(&o->memory, step + 1, err);
}

bool zt_observers_eval(struct zt_observers *o, double loss, double accuracy, struct zt_err *err) {
    return !o->scalars || zt_tags_eval(o->scalars, loss, accuracy, o->samples, err);
}

bool zt_observers_sync(struct zt_observers *o, struct zt_err *err) {
    return !o->scalars || (zt_scalars_flush(o->scalars, true, err) && zt_append_file_flush(&o->memory.file, true, err));
}

bool zt_observers_finish(struct zt_observers *o, struct zt_err *err) {
    bool ok = zt_scalars_finish(o->scalars, err);
    if (o->scalars)
        ok = zt_memory_file_close(&o->memory, err) && ok;
    zt_timers_destroy(o->timers);
    *o = (struct zt_observers){ 0 };
    return ok;
}
