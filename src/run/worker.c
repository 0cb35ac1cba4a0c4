#include "run/worker.h"

#include "base/mapped.h"
#include "base/show.h"
#include "device/threads.h"
#include "parallel/comm/comms_logger.h"
#include "parallel/launch/heartbeat.h"
#include "parallel/launch/supervisor_channel.h"
#include "parallel/partition/grid.h"
#include "run/preflight.h"
#include "run/watchdog.h"
#include "run/world.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- one rank ---- */

/* Starts the heartbeat if there is no supervisor and there are other ranks. */
static bool start_heartbeat(struct zt_worker *w) {
    return w->session->options->supervisor || w->world->size < 2 ||
           zt_heartbeat_start(&w->heartbeat, w->world, &w->status, &w->err);
}

/* Sets the rank's place in the grid, and counts its traffic if comms_logger is on. */
static bool place(struct zt_worker *w, struct zt_grid *grid) {
    const struct zt_config *c = w->session->config;
    w->status.rank = w->rank;
    bool ok = zt_grid_make(c->ranks, c->parallel.stages, w->rank, grid, &w->err);
    zt_grid_place(grid, w->status.place, sizeof w->status.place);
    w->world->status = &w->status;
    if (c->comms.enabled) {
        struct zt_count_options options = { c->comms.prof_all, c->comms.prof_ops.at, c->comms.prof_ops.count,
                                            c->comms.verbose && w->rank == 0 ? &w->session->options->log : NULL };
        w->counts = zt_counts_create(&options);
        w->world = zt_comm_count_create(w->world, w->counts);
    }
    return ok;
}

/* Assigns the cores before the device starts threads. */
static bool take_cores(struct zt_worker *w) {
    if (w->session->processes) {
        zt_supervisor_channel_status(w->session->options->supervisor, &w->status);
        return zt_preflight_start(w->session, w->world, &w->err) && start_heartbeat(w);
    }
    if (w->cores)
        sched_setaffinity(0, sizeof *w->cores, w->cores);
    return true;
}

static bool open_worker(struct zt_worker *w) {
    struct zt_grid grid = { 0 };
    if (!place(w, &grid) || !take_cores(w) || !(w->device = zt_session_device(w->session, w->rank, &w->err)) ||
        !zt_parallel_start(w->device->threads, &w->err) || !zt_preflight_device(w->device, w->world, &w->err) ||
        !(w->data = w->world->api->split(w->world, grid.stage, &w->err)))
        return false;
    w->data->status = &w->status;
    if (w->session->config->parallel.ring)
        w->data = zt_comm_ring_create(w->data);
    return true;
}

/* Aborts the communicator and adds the rank to the error. */
static void give_up(struct zt_worker *w) {
    const struct zt_config *c = w->session->config;
    struct zt_err ignored = { 0 };
    struct zt_grid grid = { 0 };
    if (w->err.count) /* the cause may be a changed file */
        zt_mapped_all_intact(&w->err);
    w->world->api->abort(w->world, w->err.count ? w->err.text[0] : "failed");
    zt_grid_make(c->ranks, c->parallel.stages, w->blamed >= 0 ? w->blamed : w->rank, &grid, &ignored);
    if (c->ranks > 1)
        zt_grid_place(&grid, w->err.place, sizeof w->err.place);
}

static void *run_worker(void *arg) {
    struct zt_worker *w = arg;
    zt_parallel_enter();
    w->blamed = -1;
    w->ok = open_worker(w) && w->run(w, &w->err);
    if (!w->ok)
        give_up(w);
    zt_supervisor_channel_status(w->session->options->supervisor, NULL);
    return NULL;
}

void zt_worker_print_counts(const struct zt_worker *w) {
    struct zt_text table = { 0 };
    if (!w->counts || w->rank != 0)
        return;
    zt_counts_table(w->counts, &table);
    zt_say_lines(&w->session->options->log, ZT_LOG_INFO, table.at);
    zt_text_finish(&table);
}

void zt_worker_finish(struct zt_worker *w) {
    if (w->data)
        w->data->api->destroy(w->data);
    if (w->world)
        w->world->api->destroy(w->world);
    zt_heartbeat_stop(w->heartbeat);
    zt_counts_destroy(w->counts);
    if (w->device)
        w->device->api->destroy(w->device);
}

/* ---- all ranks of this process ---- */

/* Selects the error to report: that of the rank where the failure began, not of ranks that were notified. */
static void take_error(struct zt_worker *const *workers, int held, struct zt_err *err) {
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < held; i++)
            if (!workers[i]->ok && workers[i]->err.count && (pass == 1 || workers[i]->err.code != ZT_EXIT_RANK)) {
                *err = workers[i]->err;
                return;
            }
}

/* Every rank reports overdue steps, not only rank 0: to the supervisor, if there is one. */
static void say_overdue(void *arg, const char *line) {
    const struct zt_options *options = arg;
    char text[600];
    snprintf(text, sizeof text, "ztrain: warning: %s", line);
    if (options->supervisor)
        zt_supervisor_channel_note(options->supervisor, text);
    else
        zt_say(&options->log, ZT_LOG_WARNING, "%s", line);
}

static struct zt_watchdog *start_watchdog(struct zt_worker *const *workers, int held, struct zt_rank_status **status) {
    for (int i = 0; i < held; i++)
        status[i] = &workers[i]->status;
    return zt_watchdog_create(status, held, say_overdue, (void *)workers[0]->session->options);
}

/* Runs the first rank in this thread. */
static void run_threads(struct zt_worker *const *workers, int held, struct zt_err *err) {
    for (int i = 1; i < held; i++) {
        if (pthread_create(&workers[i]->thread, NULL, run_worker, workers[i]) != 0) {
            zt_fail(err, ZT_EXIT_RUN, "rank %d: cannot create a thread", i);
            zt_show_line_begin(stderr);
            zt_err_print(err, stderr); /* otherwise the running ranks would wait for it */
            _Exit(ZT_EXIT_RUN);
        }
    }
    run_worker(workers[0]);
    for (int i = 1; i < held; i++)
        pthread_join(workers[i]->thread, NULL);
}

bool zt_workers_run(struct zt_worker *const *workers, int held, struct zt_err *err) {
    struct zt_session *s = workers[0]->session;
    struct zt_comm **comms = zt_calloc((size_t)held, sizeof *comms);
    struct zt_rank_status **status = zt_calloc((size_t)held, sizeof *status);
    cpu_set_t *shares = zt_calloc((size_t)held, sizeof *shares);
    bool ok = zt_world_open(s, held, &workers[0]->status, comms, err);
    if (held > 1)
        zt_preflight_threads(s, held, shares);
    for (int i = 0; ok && i < held; i++) {
        workers[i]->world = comms[i];
        workers[i]->cores = held > 1 ? &shares[i] : NULL;
    }
    struct zt_watchdog *watchdog = start_watchdog(workers, held, status);
    if (ok)
        run_threads(workers, held, err);
    zt_watchdog_destroy(watchdog);
    for (int i = 0; i < held; i++)
        ok &= workers[i]->ok;
    if (!ok && !err->count)
        take_error(workers, held, err);
    free(status);
    free(shares);
    free(comms);
    return ok;
}
