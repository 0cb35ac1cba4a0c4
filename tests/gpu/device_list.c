/* Lists the launches of a step on a CUDA device by node, over the emulated module with ZT_EMULATED_DRY, whose clock
 * counts launches. device_list.py compares its output with files.
 *
 *     device_list FOLDER MODEL CONFIG CLUSTER FILE [KEY=VALUE ...]
 *
 * FOLDER holds ztrain-cuda.so. The model's weights need not be there. FILE gets the rows of zt_profile_write, estimated
 * for a rank of CLUSTER, with launches as microseconds; stdout gets the launches of the whole step, and the bytes that
 * come to the device for it. */
#include "device/module.h"
#include "device/threads.h"
#include "plan/profile.h"
#include "plan/open.h"
#include "plan/rank_plan.h"
#include "run/rank/device_memory.h"
#include "run/rank/rank.h"
#include "run/rank_data.h"
#include "run/step.h"
#include "run/rank/times.h"

#include <stdio.h>
#include <stdlib.h>

struct walk {
    struct zt_session session;
    struct zt_device *device;
    struct zt_comm *comm;
    struct zt_plan *plan;
    struct zt_rank *rank;
    struct zt_loader *loader;
};

static bool open_walk(struct walk *w, const struct zt_options *options, const char *folder, const char *cluster,
                      struct zt_err *err) {
    if (!zt_open(&w->session, options, ZT_WEIGHTS_ABSENT_OK, ZT_DATA_TRAIN, err) ||
        !(w->device = zt_module_device(folder, 0, 1, err)))
        return false;
    const struct zt_plan_options of = {
        .source = w->session.source, .device = w->device, .threads = 1, .machine = zt_machine_find(cluster, err)
    };
    w->comm = zt_comm_self_create();
    return of.machine && (w->plan = zt_plan_create(w->session.job, &of, err)) &&
           (w->rank = zt_rank_create(w->plan->stage[0], w->device, w->comm, w->comm, NULL, err)) &&
           zt_rank_loader(w->rank, true, 0, 2, &w->loader, err);
}

static void close_walk(struct walk *w) {
    zt_loader_destroy(w->loader);
    if (w->rank) {
        zt_rank_time_end(w->rank);
        zt_rank_destroy(w->rank);
    }
    zt_plan_destroy(w->plan);
    if (w->comm)
        w->comm->api->destroy(w->comm);
    if (w->device)
        w->device->api->destroy(w->device);
    zt_open_finish(&w->session);
}

/* The first step also fills tables that are there for many: the second is counted. */
static bool count_step(struct walk *w, double *launches, struct zt_err *err) {
    const struct zt_device_api *api = w->device->api;
    struct zt_event *from = api->timer_create(w->device, err), *to = api->timer_create(w->device, err);
    struct zt_step_result result;
    bool ok = from && to && zt_rank_step(w->rank, w->loader, 0, &result, err);
    zt_rank_time(w->rank, 1);
    ok = ok && api->record(w->device, from, err) && zt_rank_step(w->rank, w->loader, 1, &result, err) &&
         api->record(w->device, to, err) && api->elapsed(w->device, from, to, launches, err);
    *launches *= 1e6;
    api->event_destroy(w->device, from);
    api->event_destroy(w->device, to);
    return ok;
}

static bool write_list(const struct walk *w, const char *path, struct zt_err *err) {
    double *times = zt_calloc((size_t)zt_rank_plan_times(w->plan->stage[0]) + 1, sizeof *times);
    const double *const stages[] = { times };
    zt_rank_timed(w->rank, 0, times);
    bool ok = zt_profile_write(&(struct zt_profile){ .plan = w->plan, .times = stages }, path, err);
    free(times);
    return ok;
}

int main(int argc, char **argv) {
    struct zt_err err = { 0 };
    struct walk w = { 0 };
    double launches = 0;
    if (argc < 6)
        return 2;
    struct zt_options options = { .model = argv[2], .config = argv[3] };
    options.configs = (struct zt_texts){ &options.config, 1 };
    options.over = (struct zt_config_overrides){
        .set = (const char *const *)argv + 6, .set_count = argc - 6, .epochs = -1, .steps = 2, .seed = -1
    };
    zt_parallel_enter();
    bool ok = open_walk(&w, &options, argv[1], argv[4], &err) && count_step(&w, &launches, &err) &&
              write_list(&w, argv[5], &err);
    if (ok)
        printf("%.0f %lld\n", launches, (long long)zt_rank_fed_bytes(w.rank, true));
    else
        zt_err_print(&err, stderr);
    close_walk(&w);
    return ok ? 0 : 1;
}
