/* Training, in order: open -> plan every rank -> run the ranks -> step, step, step -> collect -> write.
 *
 * Ranks are threads of this process, or this process is one of them; each makes its own plan (pure, so all are the same
 * but for its place) and meets the others only in the communicator. Rank 0 talks and writes. */
#include "run/preflight.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mapped.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "device/threads.h"
#include "run/forecast.h"
#include "run/hashes.h"
#include "parallel/comm/count.h"
#include "parallel/launch/supervisor_channel.h"
#include "parallel/launch/heartbeat.h"
#include "run/node_hashes.h"
#include "run/trace.h"
#include "run/stop.h"
#include "run/watchdog.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { ZT_SKIPS_SEEN = 100 };
enum { FEWEST_STEPS = 3 }; /* of a run whose kernels are timed */

/* One rank of this process. */
struct worker {
    struct zt_session *session;
    const char *folder, *from;
    int rank, stopped; /* stopped: by this signal; 0: not */
    bool first_here;   /* of the ranks of this process; signals reach one of them */
    int64_t first, steps, per_epoch;
    int blamed;                /* the rank that an error is about; -1: this one */
    bool skips[ZT_SKIPS_SEEN]; /* of the last steps, by step: it was not finite and left out */
    struct zt_comm *world, *data;
    struct zt_counts *counts; /* comms_logger; NULL: off */
    struct zt_device *device;
    struct zt_rank_plan *plan;
    struct zt_rank *run;
    struct zt_loader *loader;
    struct zt_checkpoints *checkpoints;
    struct zt_monitor *monitor;  /* rank 0 */
    struct zt_forecast forecast; /* rank 0 */
    double looked;               /* when mapped files were last looked after */
    int timed;                   /* steps whose kernels are timed */
    struct zt_where where;
    struct zt_pulse *pulse;
    const cpu_set_t *cores; /* its share; NULL: nobody shared them out yet, or there is one rank */
    pthread_t thread;
    bool ok;
    struct zt_err err;
};

static int64_t in_ns(double seconds) {
    return (int64_t)(seconds * 1e9);
}

static bool make_plan(struct worker *w) {
    const struct zt_session *s = w->session;
    zt_where_phase(&w->where, "planning");
    struct zt_rank_options options = { .source = s->source,
                                       .eval_source = s->eval_source,
                                       .rank = w->rank,
                                       .device = w->device,
                                       .threads = w->device->threads };
    w->plan = zt_rank_plan_create(s->job, &options, &w->err);
    if (!w->plan)
        return zt_err_within(&w->err, 0, "%s", w->err.code == ZT_EXIT_CONFIG ? s->options->config : s->options->model);
    return true;
}

static bool write_config(struct worker *w) {
    struct zt_file_out out;
    if (!zt_file_out_open_in(&out, w->folder, "config.resolved.json", &w->err))
        return false;
    zt_config_write(w->session->config, out.stream);
    return zt_file_out_commit(&out, &w->err);
}

static bool open_monitor(struct worker *w) {
    const struct zt_session *s = w->session;
    struct zt_monitor_options options = { .config = s->config,
                                          .log = &s->options->log,
                                          .folder = w->folder,
                                          .steps_total = w->steps,
                                          .batches_per_epoch = w->per_epoch,
                                          .resumed = w->from ? w->first : -1,
                                          .skipped = w->first - zt_rank_updates(w->run),
                                          .columns = zt_lifeline_columns(s->options->line),
                                          .quiet = s->options->quiet };
    /* nobody steps, or writes below the folder, before all could open what they need */
    if (!w->world->api->barrier(w->world, &w->err))
        return false;
    if (w->rank != 0)
        return true;
    zt_report_start(s, w->plan, w->device, w->steps);
    zt_checkpoints_report(w->checkpoints, &s->options->log);
    zt_rank_say_data(w->run, &s->options->log);
    zt_rank_warn(w->run, &s->options->log);
    if (s->options->profile && w->steps - w->first < FEWEST_STEPS)
        zt_say(&s->options->log, ZT_LOG_WARNING, "--profile times a step after the first: it wants %d steps",
               FEWEST_STEPS);
    return zt_forecast_open(&w->forecast, s, w->plan, w->device, w->folder, &w->err) && write_config(w) &&
           zt_checkpoints_begin(w->checkpoints, &w->err) && (w->monitor = zt_monitor_create(&options, &w->err)) != NULL;
}

static bool open_hashes(struct worker *w) {
    zt_hash_remove(w->folder, w->rank, w->session->config->ranks);
    return !w->session->config->hashes || zt_rank_hashes_create(w->run, w->folder, &w->err);
}

static bool open_checkpoints(struct worker *w) {
    struct zt_checkpoints_options options = { .session = w->session,
                                              .plan = w->plan,
                                              .rank = w->run,
                                              .world = w->world,
                                              .folder = w->folder,
                                              .from = w->from,
                                              .steps = w->steps,
                                              .per_epoch = w->per_epoch };
    return (w->checkpoints = zt_checkpoints_open(&options, &w->first, &w->err)) != NULL;
}

static bool start_rank(struct worker *w) {
    if (!make_plan(w) || (w->session->processes && !zt_agree_plan(w->plan, w->world, &w->err)))
        return false;
    zt_where_phase(&w->where, "allocating and opening data");
    if (!(w->run = zt_rank_create(w->plan, w->device, w->world, w->data, &w->err)))
        return false;
    if (w->first_here)
        zt_rank_watch(w->run, w->session->stop);
    return open_checkpoints(w) && zt_rank_loader(w->run, true, w->first, w->steps, &w->loader, &w->err);
}

/* Constants of the graph are read from the mapped model in every step: looked after at once where a page of it could
 * not be read, else every second. */
static bool files_intact(struct worker *w, double now) {
    if (!zt_mapped_faults() && now - w->looked < 1)
        return true;
    w->looked = now;
    return zt_mapped_all_intact(&w->err);
}

static bool evaluate(struct worker *w, int64_t step, int64_t epoch, struct zt_eval_result *result) {
    zt_where_phase(&w->where, "evaluating");
    struct zt_loader *loader = NULL;
    bool ok = zt_rank_loader(w->run, false, 0, 0, &loader, &w->err) &&
              zt_rank_evaluate(w->run, loader, result, &w->err) && files_intact(w, zt_now());
    zt_loader_destroy(loader);
    if (ok && w->monitor)
        ok = zt_monitor_eval(w->monitor, step, epoch, result->loss, result->accuracy, &w->err);
    return ok;
}

static bool report_step(struct worker *w, int64_t step, const struct zt_step_result *r, double seconds) {
    if (!w->monitor)
        return true;
    struct zt_metrics_row row = { .step = step + 1,
                                  .epoch = r->epoch,
                                  .samples = r->samples,
                                  .loss = r->loss,
                                  .lr = r->lr,
                                  .grad_norm = r->grad_norm,
                                  .loss_scale = r->loss_scale,
                                  .scaling = r->scaling,
                                  .seconds = seconds,
                                  .skipped = !r->finite };
    return zt_monitor_step(w->monitor, &row, r->batch, &w->err);
}

/* What follows a step: evaluation at the end of an epoch, a checkpoint where one is due. */
static bool end_step(struct worker *w, int64_t step, const struct zt_step_result *r) {
    struct zt_eval_result result;
    struct zt_step_end end = { .step = step, .asked = r && r->save, .monitor = w->monitor };
    if (r && w->session->eval_source && r->batch == w->per_epoch - 1) {
        if (!evaluate(w, step, r->epoch, &result))
            return false;
        end.eval = &result;
    }
    if (end.asked || zt_checkpoints_due(w->checkpoints, step))
        zt_where_phase(&w->where, "saving a checkpoint");
    return zt_checkpoints_step(w->checkpoints, &end, &w->err);
}

/* How many are timed, on all ranks, where the first took this one `seconds`: of short steps more, since few of them
 * are one moment of the machine, but no more than a tenth of the run. A device works in peace, and a timed step slows
 * it down: one. */
static bool choose_timed(struct worker *w, double seconds) {
    enum { FEWEST = 9, MOST = 256 };
    static const double together = 0.5;
    if (w->device->module) {
        w->timed = 1;
        return true;
    }
    const int64_t steps = w->steps - w->first - 2, tenth = steps / 10;
    if (!w->world->api->sum(w->world, &seconds, 1, &w->err))
        return false;
    double wanted = fmin(fmin(together * w->world->size / seconds, MOST), (double)tenth);
    wanted = fmin(fmax(wanted, FEWEST), (double)steps);
    w->timed = (int)wanted;
    return true;
}

/* Behind the step `done` of this run, from 0, which took `seconds`: the first one is left out, as all is cold, and so
 * is the last. */
static bool time_kernels(struct worker *w, int64_t done, double seconds) {
    const bool asked = w->session->options->profile || !w->session->config->cluster[0];
    if (!zt_rank_can_time(w->device) || !asked || w->stopped || w->steps - w->first < FEWEST_STEPS)
        return true;
    if (done == 0) {
        if (!choose_timed(w, seconds))
            return false;
        zt_rank_time(w->run, w->timed);
    }
    if (done != w->timed)
        return true;
    bool ok = zt_forecast_times(&w->forecast, w->plan, w->run, w->timed, w->world, &w->err);
    zt_rank_time_end(w->run);
    return ok;
}

/* printf shows the sign of a NaN, which means nothing. */
static double unsigned_nan(double x) {
    return isnan(x) ? NAN : x;
}

/* The step is run again to say where it comes from. An overflow that a loss scaler answers by a smaller scale is no
 * such case: that step is skipped like any other whose `skipped` is reported. */
static bool fail_non_finite(struct worker *w, int64_t step, const struct zt_step_result *r) {
    struct zt_trace trace;
    zt_where_phase(&w->where, "looking for what is not finite");
    if (!zt_rank_trace(w->run, step, &trace, &w->err))
        return false;
    w->blamed = trace.rank;
    zt_fail(&w->err, ZT_EXIT_RUN, "%s is not finite (loss %g, gradient norm %g) at step %lld: %s",
            isfinite(r->loss) ? "the gradient" : "the loss", unsigned_nan(r->loss), unsigned_nan(r->grad_norm),
            (long long)step + 1, trace.text);
    if (trace.data)
        return zt_hint(&w->err, "samples are counted from 0; take them out, or replace their values");
    return zt_hint(&w->err,
                   "lower the learning rate, or clip the gradient (gradient_clipping); "
                   "ztrain.on_non_finite: \"skip\" leaves such steps out");
}

/* The run again of the step, with the same scale, says which tensor overflowed. */
static bool fail_at_minimum(struct worker *w, int64_t step, const struct zt_step_result *r) {
    struct zt_trace trace;
    zt_where_phase(&w->where, "looking for what is not finite");
    if (!zt_rank_trace(w->run, step, &trace, &w->err))
        return false;
    w->blamed = trace.rank;
    zt_fail(&w->err, ZT_EXIT_RUN,
            "loss scale already at minimum (%g) - cannot decrease scale anymore: overflow at step %lld: %s",
            r->loss_scale, (long long)step + 1, trace.text);
    return trace.data ? zt_hint(&w->err, "samples are counted from 0; take them out, or replace their values")
                      : zt_hint(&w->err, "use bf16 (bf16.enabled), or a lower learning rate; see fp16.min_loss_scale");
}

/* The outcome of the step `step`, the oldest that was begun; `before`: when the one before it was known. */
static bool finish_step(struct worker *w, int64_t step, double *before) {
    struct zt_step_result r;
    if (!zt_rank_end(w->run, &r, &w->err))
        return false;
    if (r.scaling.event == ZT_SCALE_AT_MINIMUM)
        return fail_at_minimum(w, step, &r);
    if (!r.finite && !w->session->config->skip_non_finite && !w->session->config->fp16.enabled)
        return fail_non_finite(w, step, &r);
    w->skips[step % ZT_SKIPS_SEEN] = !r.finite;
    double now = zt_now();
    if (!files_intact(w, now))
        return false;
    zt_where_end(&w->where, in_ns(now));
    zt_forecast_step(&w->forecast, step, r.samples, now - *before);
    if (!report_step(w, step, &r, now - *before) || !end_step(w, step + 1, &r))
        return false;
    w->stopped = r.stop;
    bool first = step == w->first && w->steps > w->first + 2 && !w->stopped;
    if (first)
        zt_where_phase(&w->where, "measuring the machine");
    if (first && !zt_forecast_measure(&w->forecast, w->session, w->device, w->world, w->folder, &w->err))
        return false;
    if (step == w->first && w->rank == 0)
        zt_rank_warn_paths(w->run, &w->session->options->log);
    if (!time_kernels(w, step - w->first, now - *before))
        return false;
    *before = zt_now(); /* evaluation, checkpoints and measurements are no part of a step */
    return true;
}

/* Whether something follows the step that was begun for which it must be over. */
static bool must_end(const struct worker *w, int64_t step) {
    return !zt_rank_runs_ahead(w->run) || step == w->first || step + 1 == w->steps || zt_rank_asked(w->run) ||
           zt_checkpoints_due(w->checkpoints, step + 1) || (w->session->eval_source && (step + 1) % w->per_epoch == 0);
}

static bool run_steps(struct worker *w) {
    double before = zt_now();
    int64_t ended = w->first;
    for (int64_t step = w->first; step < w->steps && !w->stopped; step++) {
        zt_where_phase(&w->where, "stepping");
        zt_where_begin(&w->where, step + 1, in_ns(before));
        if (!zt_rank_begin(w->run, w->loader, step, &w->err))
            return false;
        for (int64_t end = step + must_end(w, step); ended < end; ended++)
            if (!finish_step(w, ended, &before))
                return false;
        if (ended == step) /* it goes on */
            zt_where_begin(&w->where, step + 1, in_ns(before));
    }
    return w->stopped || end_step(w, w->steps, NULL);
}

static void say_graphs(const struct worker *w) {
    char text[ZT_ERR_TEXT];
    if (w->rank == 0 && zt_rank_graphs_text(w->run, text))
        zt_say(&w->session->options->log, ZT_LOG_DEBUG, "captured segments: %s", text);
}

/* A model that is not finite is none: it is not written. Rank 0 has all tensors, and tells the others. */
static bool check_weights(struct worker *w, const struct zt_onnx_payload *payloads, const int64_t *elements,
                          int count) {
    double bad = -1;
    for (int i = 0; w->rank == 0 && i < count && bad < 0; i++)
        for (int64_t k = 0; k < elements[i] && bad < 0; k++)
            bad = isfinite(((const float *)payloads[i].data)[k]) ? -1 : i;
    bad = w->rank == 0 ? bad + 1 : 0;
    if (!w->world->api->sum(w->world, &bad, 1, &w->err))
        return false;
    if (bad == 0)
        return true;
    zt_fail(&w->err, ZT_EXIT_RUN, "the weights are not finite at the end of the run%s%s%s: model.onnx is not written",
            w->rank == 0 ? " (the first: \"" : "", w->rank == 0 ? payloads[(int)bad - 1].name : "",
            w->rank == 0 ? "\")" : "");
    return zt_hint(&w->err, "lower the learning rate; %s/checkpoints may have a state before it", w->folder);
}

/* Whether the run trained to its end: more than half of its last steps did something. */
static bool check_skips(struct worker *w) {
    int skipped = 0;
    for (int i = 0; i < ZT_SKIPS_SEEN; i++)
        skipped += w->skips[i];
    const struct zt_fp16_config *fp16 = &w->session->config->fp16;
    const bool finds = fp16->enabled && fp16->loss_scale == 0; /* a dynamic scale begins with skips */
    if (finds || w->steps - w->first < ZT_SKIPS_SEEN || 2 * skipped <= ZT_SKIPS_SEEN)
        return true;
    zt_fail(&w->err, ZT_EXIT_RUN, "%d of the last %d steps were skipped, as loss or gradient were not finite", skipped,
            ZT_SKIPS_SEEN);
    if (fp16->enabled)
        return zt_hint(&w->err, "lower fp16.loss_scale, or set it to 0, which is dynamic");
    return zt_hint(&w->err,
                   "model.onnx has the weights of the steps before; without ztrain.on_non_finite \"skip\" the "
                   "run stops at the first such step and says where it comes from");
}

static bool finish_run(struct worker *w) {
    struct zt_arena *arena = zt_arena_create();
    struct zt_onnx_payload *payloads = NULL;
    int64_t *elements = NULL;
    int count = 0;
    uint64_t hash = 0;
    zt_where_phase(&w->where, "exporting the model");
    bool ok = zt_rank_collect(w->run, arena, &payloads, &elements, &count, &w->err) &&
              check_weights(w, payloads, elements, count);
    if (ok && w->rank == 0) {
        ok = zt_monitor_finish(w->monitor, &w->err) &&
             zt_export_model(w->session, w->folder, payloads, elements, count, &hash, &w->err);
        w->monitor = NULL;
        if (ok)
            zt_forecast_report(&w->forecast, w->session);
        if (ok) /* the last line, --quiet or not */
            fprintf(stderr, w->session->options->json ? "{\"weights\": \"%016llx\"}\n" : "weights: %016llx\n",
                    (unsigned long long)hash);
    }
    /* a rank's tensors travel from its own memory: nobody leaves before rank 0 has them */
    ok = ok && w->world->api->barrier(w->world, &w->err);
    zt_arena_destroy(arena);
    return ok && check_skips(w);
}

/* Only where no parent listens, and there is somebody to hear it. */
static bool start_pulse(struct worker *w) {
    return w->session->options->line || w->world->size < 2 || zt_pulse_start(&w->pulse, w->world, &w->where, &w->err);
}

static void *run_worker(void *arg) {
    struct worker *w = arg;
    zt_parallel_enter();
    struct zt_grid grid = { 0 };
    w->where.rank = w->rank;
    w->ok = zt_grid_make(w->session->config->ranks, w->session->config->parallel.stages, w->rank, &grid, &w->err);
    zt_grid_place(&grid, w->where.place, sizeof w->where.place);
    w->world->where = &w->where;
    const struct zt_comms_config *comms = &w->session->config->comms;
    if (comms->enabled) {
        struct zt_count_options options = { comms->prof_all, comms->prof_ops.at, comms->prof_ops.count,
                                            comms->verbose && w->rank == 0 ? stderr : NULL };
        w->counts = zt_counts_create(&options);
        w->world = zt_comm_count_create(w->world, w->counts);
    }
    if (w->session->processes) {
        zt_lifeline_where(w->session->options->line, &w->where);
        /* cores are shared out before the device starts threads on them */
        w->ok = w->ok && zt_agree_start(w->session, w->world, &w->err) && start_pulse(w);
    } else if (w->cores) {
        sched_setaffinity(0, sizeof *w->cores, w->cores);
    }
    w->ok = w->ok && (w->device = zt_session_device(w->session, w->rank, &w->err)) != NULL &&
            zt_parallel_start(w->device->threads, &w->err) && zt_agree_device(w->device, w->world, &w->err) &&
            (w->data = w->world->api->split(w->world, grid.stage, &w->err)) != NULL;
    if (w->data)
        w->data->where = &w->where;
    if (w->data && w->session->config->parallel.ring)
        w->data = zt_comm_ring_create(w->data);
    w->ok = w->ok && start_rank(w) && open_monitor(w) && open_hashes(w);
    if (w->ok && w->first_here)
        zt_stop_arm(w->session->stop, true);
    w->ok = w->ok && run_steps(w);
    if (w->ok)
        say_graphs(w);
    if (w->first_here)
        zt_stop_arm(w->session->stop, false);
    if (w->ok && w->counts && w->rank == 0)
        zt_counts_print(w->counts, stderr);
    w->ok = w->ok && (w->stopped || finish_run(w));
    if (!w->ok) {
        if (w->err.count) /* the cause may be a file that changed */
            zt_mapped_all_intact(&w->err);
        w->world->api->abort(w->world, w->err.count ? w->err.text[0] : "failed");
        struct zt_err ignored = { 0 };
        if (w->blamed >= 0)
            zt_grid_make(w->session->config->ranks, w->session->config->parallel.stages, w->blamed, &grid, &ignored);
        if (w->session->config->ranks > 1)
            zt_grid_place(&grid, w->err.place, sizeof w->err.place);
    }
    zt_lifeline_where(w->session->options->line, NULL);
    return NULL;
}

static void finish_worker(struct worker *w) {
    struct zt_err ignored = { 0 };
    zt_monitor_finish(w->monitor, &ignored);
    zt_loader_destroy(w->loader);
    zt_checkpoints_close(w->checkpoints);
    zt_rank_destroy(w->run);
    zt_forecast_finish(&w->forecast);
    zt_rank_plan_destroy(w->plan);
    if (w->data)
        w->data->api->destroy(w->data);
    if (w->world)
        w->world->api->destroy(w->world);
    zt_pulse_stop(w->pulse);
    zt_counts_destroy(w->counts);
    if (w->device)
        w->device->api->destroy(w->device);
}

/* The error to show: that of the rank where it began, not of those that were told. */
static void take_error(const struct worker *workers, int count, struct zt_err *err) {
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < count; i++)
            if (!workers[i].ok && workers[i].err.count && (pass == 1 || workers[i].err.code != ZT_EXIT_RANK)) {
                *err = workers[i].err;
                return;
            }
}

/* The parent sees that the rank is in MPI_Init, and for how long. */
static struct zt_comm *open_mpi(const struct zt_session *s, struct zt_where *where, struct zt_err *err) {
    zt_where_phase(where, ZT_PHASE_MPI);
    zt_lifeline_where(s->options->line, where);
    struct zt_comm *comm = zt_comm_mpi_create(ZT_MPI_WINDOW_AND_MESSAGES, err);
    zt_lifeline_where(s->options->line, NULL);
    zt_where_phase(where, NULL);
    return comm;
}

/* One communicator for each rank of this process, the first of which is at `where`. */
static bool open_world(const struct zt_session *s, int held, struct zt_where *where, struct zt_comm **comms,
                       struct zt_err *err) {
    if (held > 1)
        return zt_comm_thread_create(held, comms, err);
    if (!s->processes)
        return (comms[0] = zt_comm_self_create()) != NULL;
    if (zt_session_meets(s))
        return (comms[0] = zt_comm_tcp_create(&s->meeting, err)) != NULL;
    const struct zt_mpi_kind *mpi = zt_comm_mpi_kind();
    if (strcmp(s->launched.launcher, "mpirun") != 0 && !getenv(mpi->variable)) {
        err->code = ZT_EXIT_CONFIG; /* rank 0 says it for all */
        return s->launched.rank == 0 &&
               (zt_fail(err, ZT_EXIT_CONFIG, "%s started %d ranks without what MPI needs to find them",
                        getenv("SLURM_STEP_ID") ? "srun" : s->launched.launcher, s->launched.size) ||
                zt_hint(err, "srun --mpi=%s; `srun --mpi=list` says whether Slurm has it, mpirun works without",
                        mpi->srun));
    }
    comms[0] = open_mpi(s, where, err);
    if (!comms[0] || (comms[0]->rank == s->launched.rank && comms[0]->size == s->launched.size))
        return comms[0] != NULL;
    zt_fail(err, ZT_EXIT_RUN, "%s started rank %d of %d, which MPI knows as rank %d of %d", s->launched.launcher,
            s->launched.rank, s->launched.size, comms[0]->rank, comms[0]->size);
    zt_hint(err, "start with the launcher of the MPI that ztrain was built with; under Slurm, srun --mpi=%s",
            mpi->srun);
    comms[0]->api->abort(comms[0], "not the launcher's world");
    comms[0]->api->destroy(comms[0]);
    return false;
}

/* Each rank says where it is, not rank 0 alone: to the parent, where there is one. */
static void say_overdue(void *arg, const char *line) {
    const struct zt_options *options = arg;
    char text[600];
    snprintf(text, sizeof text, "ztrain: warning: %s", line);
    if (options->line)
        zt_lifeline_note(options->line, text);
    else
        zt_say(&options->log, ZT_LOG_WARNING, "%s", line);
}

static bool run_ranks(struct zt_session *s, struct worker *workers, int held, struct zt_err *err) {
    struct zt_comm **comms = zt_calloc((size_t)held, sizeof *comms);
    cpu_set_t *shares = zt_calloc((size_t)held, sizeof *shares);
    bool ok = open_world(s, held, &workers[0].where, comms, err);
    if (held > 1)
        zt_agree_threads(s, held, shares);
    for (int i = 0; ok && i < held; i++) {
        workers[i].world = comms[i];
        workers[i].cores = held > 1 ? &shares[i] : NULL;
    }
    struct zt_where **where = zt_calloc((size_t)held, sizeof *where);
    for (int i = 0; i < held; i++)
        where[i] = &workers[i].where;
    struct zt_watchdog *watchdog = zt_watchdog_create(where, held, say_overdue, (void *)s->options);
    for (int i = 1; ok && i < held; i++) {
        if (pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]) != 0) {
            zt_fail(err, ZT_EXIT_RUN, "rank %d: the system gives no thread for it", i);
            zt_err_print(err, stderr); /* the ranks that run would wait for it */
            _Exit(ZT_EXIT_RUN);
        }
    }
    if (ok)
        run_worker(&workers[0]); /* the first rank is this thread */
    for (int i = 1; ok && i < held; i++)
        pthread_join(workers[i].thread, NULL);
    zt_watchdog_destroy(watchdog);
    free(where);
    free(shares);
    for (int i = 0; i < held; i++)
        ok &= workers[i].ok;
    if (!ok && !err->count)
        take_error(workers, held, err);
    for (int i = 0; i < held; i++)
        finish_worker(&workers[i]);
    free(comms);
    return ok;
}

bool zt_train(struct zt_session *s, const char *folder, const char *from, struct zt_err *err) {
    struct zt_config *c = s->config;
    struct zt_sampler sampler;
    if (!zt_sampler_init(&sampler, s->source->samples, c->train_batch, c->data.shuffle, c->data.drop_last,
                         (uint64_t)c->seed, err))
        return false;
    int64_t per_epoch = sampler.batches_per_epoch, steps = c->steps > 0 ? c->steps : c->epochs * per_epoch;
    zt_sampler_finish(&sampler);
    if (c->scheduler.total_num_steps == 0) /* was "auto": the run's own length */
        c->scheduler.total_num_steps = steps;
    int held = s->processes ? 1 : c->ranks;
    struct worker *workers = zt_calloc((size_t)held, sizeof *workers);
    for (int i = 0; i < held; i++) {
        workers[i].session = s;
        workers[i].folder = folder;
        workers[i].from = from;
        workers[i].first_here = i == 0;
        workers[i].rank = s->processes ? s->launched.rank : i;
        workers[i].blamed = -1;
        workers[i].steps = steps;
        workers[i].per_epoch = per_epoch;
    }
    bool ok = run_ranks(s, workers, held, err);
    if (ok && workers[0].stopped) {
        err->code = (enum zt_exit)(128 + workers[0].stopped);
        ok = false;
    }
    free(workers);
    return ok;
}
