#include "train_report.h"

#include "checkpoint/run_files.h"
#include "parallel/launch/supervisor_channel.h"
#include "plan/resolve.h"
#include "report/start_table.h"
#include "run/hashes/hashes.h"
#include "run/rank/device_memory.h"
#include "run/rank/node_hashes.h"
#include "run/rank/offload.h"
#include "run/rank_data.h"

static void say_start(const struct zt_training *t) {
    const struct zt_log *log = &t->session->options->log;
    zt_report_start(t->session, t->plan, t->worker.device, t->steps);
    zt_checkpoints_report(t->checkpoints, log);
    zt_rank_say_data(t->rank, log);
    zt_rank_offload_say(t->rank, log);
    zt_rank_warn(t->rank, log);
    zt_kernel_times_warn(&t->times);
}

/* Rank 0 alone opens the files of the folder. */
static bool open_files(struct zt_training *t, struct zt_err *err) {
    const struct zt_session *s = t->session;
    const char *folder = t->request->folder;
    const struct zt_console_options options = { .config = s->config,
                                                .log = &s->options->log,
                                                .folder = folder,
                                                .steps_total = t->steps,
                                                .batches_per_epoch = zt_epochs_batches(&t->epochs),
                                                .resumed = t->request->from ? t->first : -1,
                                                .skipped = t->first - zt_rank_updates(t->rank),
                                                .columns = zt_supervisor_channel_columns(s->options->supervisor),
                                                .quiet = s->options->quiet };
    const struct zt_config resolved = zt_rank_plan_resolve(t->plan);
    if (!zt_observers_prepare(s->config, folder, err))
        return false;
    if (s->options->overwrite)
        zt_run_files_remove(folder);
    return zt_forecast_open(&t->forecast, s, t->plan, t->worker.device, folder, err) &&
           zt_config_write_in(&resolved, folder, "config.resolved.json", err) &&
           zt_checkpoints_begin(t->checkpoints, err) && (t->console = zt_console_create(&options, err));
}

static bool open_observers(struct zt_training *t, struct zt_err *err) {
    const struct zt_observers_options options = { .session = t->session,
                                                  .plan = t->plan,
                                                  .rank = t->rank,
                                                  .device = t->worker.device,
                                                  .world = t->worker.world,
                                                  .console = t->console,
                                                  .stages = t->forecast.plan,
                                                  .folder = t->request->folder,
                                                  .first = t->first,
                                                  .steps = t->steps,
                                                  .resumed = t->request->from != NULL };
    return zt_observers_open(&t->observers, &options, err);
}

bool zt_training_open_report(struct zt_training *t, struct zt_err *err) {
    struct zt_worker *w = &t->worker;
    t->times = (struct zt_kernel_times){ .session = t->session,
                                         .forecast = &t->forecast,
                                         .plan = t->plan,
                                         .rank = t->rank,
                                         .device = w->device,
                                         .world = w->world,
                                         .steps = t->steps - t->first };
    if (!w->world->api->barrier(w->world, err))
        return false;
    if (w->rank == 0)
        say_start(t);
    if (w->rank == 0 ? !open_files(t, err) : !zt_checkpoints_begin(t->checkpoints, err))
        return false;
    zt_hash_remove(t->request->folder, w->rank, t->session->config->ranks);
    return open_observers(t, err) &&
           (!t->session->config->hashes || zt_rank_hashes_create(t->rank, t->request->folder, err));
}
