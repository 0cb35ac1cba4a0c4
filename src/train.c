/* The main path of training: open, plan every rank, run the ranks (optimizer steps), collect the weights, write the
 * model.
 *
 * Ranks are threads of this process, or this process is one of them (run/worker.h). Each makes its own plan; planning
 * is pure, so the plans differ only in the rank's place. Ranks communicate only through the communicator. Rank 0 prints
 * and writes files. */
#include "train.h"

#include "checkpoint/export.h"
#include "plan/open.h"
#include "report/creation.h"
#include "run/swap_average.h"
#include "run/rank/captured.h"
#include "run/collect.h"
#include "run/rank_data.h"
#include "run/preflight.h"
#include "run/stop/stop.h"
#include "train_report.h"

#include <stdlib.h>
#include <string.h>

/* ---- plan, allocate, open ---- */

static bool make_plan(struct zt_training *t, struct zt_err *err) {
    const struct zt_session *s = t->session;
    struct zt_device *device = t->worker.device;
    zt_training_phase(t, "planning");
    struct zt_rank_options options = { .source = s->source,
                                       .eval_source = s->eval_source,
                                       .rank = t->worker.rank,
                                       .device = device,
                                       .threads = device->threads,
                                       .folder = t->request->folder };
    t->plan = zt_rank_plan_create(s->job, &options, err);
    if (!t->plan)
        return zt_session_locate(s, err, 0);
    const int before = err->count;
    return (!s->processes || zt_preflight_plan(t->plan, t->worker.world, err)) &&
           (zt_preflight_memory(t->plan, t->worker.world, err) ||
            zt_config_locate(s->config, s->options->config, err, before));
}

static struct zt_rank *create_rank(struct zt_training *t, struct zt_err *err) {
    struct zt_worker *w = &t->worker;
    struct zt_creation_lines lines = { t->session->config, w->device, &t->session->options->log, 0 };
    const struct zt_rank_progress progress = { zt_creation_at, &lines };
    return zt_rank_create(t->plan, w->device, w->world, w->data, w->rank == 0 ? &progress : NULL, err);
}

static bool open_rank(struct zt_training *t, struct zt_err *err) {
    struct zt_worker *w = &t->worker;
    zt_training_phase(t, "allocating and opening data");
    if (!(t->rank = create_rank(t, err)))
        return false;
    if (w->first_here)
        zt_rank_watch(t->rank, t->request->stop);
    struct zt_checkpoints_options options = { .session = t->session,
                                              .plan = t->plan,
                                              .rank = t->rank,
                                              .world = w->world,
                                              .folder = t->request->folder,
                                              .from = t->request->from,
                                              .unfound = t->request->unfound,
                                              .steps = t->steps,
                                              .epochs = t->epochs };
    t->checkpoints = zt_checkpoints_open(&options, &t->first, err);
    return t->checkpoints && zt_rank_loader(t->rank, true, t->first, t->steps, &t->loader, err);
}

/* ---- collect, write ---- */

/* Writes model.onnx and prints the last line, also with --quiet. */
static bool write_model(struct zt_training *t, const struct zt_collected *weights, struct zt_err *err) {
    const struct zt_session *s = t->session;
    struct zt_console *console = t->console;
    uint64_t hash = 0;
    t->console = NULL;
    zt_finite_warn(weights, &s->options->log);
    if (!zt_console_finish(console, err) || !zt_observers_sync(&t->observers, err) ||
        !zt_export_model(s, t->request->folder, weights, &hash, err))
        return false;
    zt_forecast_report(&t->forecast, s);
    fprintf(stderr, s->options->json ? "{\"weights\": \"%016llx\"}\n" : "weights: %016llx\n", (unsigned long long)hash);
    return true;
}

static bool finish_run(struct zt_training *t, struct zt_err *err) {
    struct zt_comm *world = t->worker.world;
    struct zt_arena *arena = zt_arena_create();
    struct zt_collected weights;
    zt_training_phase(t, "exporting the model");
    bool ok =
        zt_rank_swap_average(t->rank, err) && zt_rank_collect(t->rank, arena, &weights, err) &&
        zt_finite_weights(world, &weights, t->request->folder, err) &&
        (world->rank != 0 || write_model(t, &weights, err)) &&
        world->api->barrier(
            world, err); /* rank 0 reads the tensors from the other ranks' memory, which must remain valid until then */
    zt_arena_destroy(arena);
    return ok && zt_skips_check(&t->skips, &t->session->config->fp16, err);
}

/* ---- a rank from start to end ---- */

static bool train_rank(struct zt_worker *w, struct zt_err *err) {
    struct zt_training *t = (struct zt_training *)w;
    struct zt_stop *stop = w->first_here ? t->request->stop : NULL;
    bool ok = make_plan(t, err) && open_rank(t, err) && zt_training_open_report(t, err);
    zt_stop_arm(stop, ok);
    ok = ok && zt_training_steps(t, err);
    if (ok && w->rank == 0) {
        zt_rank_graphs_say(t->rank, &t->session->options->log);
        zt_rank_say_waited(t->loader, t->step_seconds, &t->session->options->log);
    }
    zt_stop_arm(stop, false);
    if (ok && t->stopped)
        zt_console_stopped(t->console, t->stopped);
    if (ok)
        zt_worker_print_counts(w);
    return ok && (t->stopped || finish_run(t, err));
}

static void finish_rank(struct zt_training *t) {
    struct zt_err ignored = { 0 };
    zt_console_finish(t->console, &ignored);
    zt_observers_finish(&t->observers, &ignored);
    zt_loader_destroy(t->loader);
    zt_checkpoints_close(t->checkpoints);
    zt_rank_destroy(t->rank);
    zt_forecast_finish(&t->forecast);
    zt_rank_plan_destroy(t->plan);
    zt_worker_finish(&t->worker);
}

/* A plateau of the accuracy needs evaluations that compute it. */
static bool check_schedule(const struct zt_session *s, struct zt_err *err) {
    if (!zt_lr_wants_accuracy(s->config) || (s->eval_source && s->config->accuracy))
        return true;
    zt_fail(err, ZT_EXIT_CONFIG,
            "scheduler.params.mode: \"max\" follows the accuracy of evaluations: it needs evaluation data and "
            "ztrain.metrics [\"accuracy\"]");
    return zt_config_locate(s->config, s->options->config, err, err->count - 1);
}

bool zt_train(struct zt_session *s, const struct zt_train_request *request, struct zt_err *err) {
    struct zt_epochs epochs;
    int64_t steps;
    if (!check_schedule(s, err) || !zt_open_length(s, &epochs, &steps, err))
        return false;
    const int held = s->processes ? 1 : s->config->ranks;
    struct zt_training *ranks = zt_calloc((size_t)held, sizeof *ranks);
    struct zt_worker **workers = zt_calloc((size_t)held, sizeof *workers);
    for (int i = 0; i < held; i++) {
        struct zt_worker worker = {
            .session = s, .rank = s->processes ? s->launched.rank : i, .first_here = i == 0, .run = train_rank
        };
        ranks[i] = (struct zt_training){
            .worker = worker, .session = s, .request = request, .steps = steps, .epochs = epochs
        };
        workers[i] = &ranks[i].worker;
    }
    bool ok = zt_workers_run(workers, held, err);
    if (ok && ranks[0].stopped) {
        err->code = (enum zt_exit)(128 + ranks[0].stopped);
        ok = false;
    }
    for (int i = 0; i < held; i++)
        finish_rank(&ranks[i]);
    free(workers);
    free(ranks);
    return ok;
}
