/* ztrain plan: every rank's plan on stdout; runs nothing and reads no weights. */
#include "train.h"

#include "base/file.h"
#include "device/threads.h"

static bool print_rank(const struct zt_session *s, int rank, struct zt_err *err) {
    struct zt_device *device = zt_device_host_create(zt_session_threads(s));
    struct zt_rank_options options = {
        .source = s->source, .eval_source = s->eval_source, .rank = rank, .device = device, .threads = device->threads
    };
    struct zt_rank_plan *plan = zt_rank_plan_create(s->job, &options, err);
    if (plan)
        zt_rank_plan_print(plan, stdout);
    else
        zt_err_within(err, 0, "%s", err->code == ZT_EXIT_CONFIG ? s->options->config : s->options->model);
    zt_rank_plan_destroy(plan);
    device->api->destroy(device);
    return plan != NULL;
}

bool zt_cli_plan(const struct zt_options *options, struct zt_err *err) {
    struct zt_session s;
    zt_parallel_enter();
    bool ok = zt_session_open(&s, options, ZT_WEIGHTS_ABSENT_OK, ZT_DATA_TRAIN | ZT_DATA_EVAL, err) &&
              zt_session_alone(&s, err);
    for (int rank = 0; ok && rank < s.config->ranks; rank++)
        ok = print_rank(&s, rank, err);
    zt_session_finish(&s);
    return ok;
}
