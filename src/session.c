#include "train.h"

#include "device/module.h"
#include "device/threads.h"

#include <string.h>
#include <time.h>

double zt_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool open_data(struct zt_session *s, unsigned data, struct zt_err *err) {
    const struct zt_job *job = s->job;
    if (data & ZT_DATA_TRAIN && !(s->source = zt_source_open(s->config, false, job->wants, job->want_count, err)))
        return false;
    if (data & ZT_DATA_EVAL)
        s->eval_source = zt_source_open(s->config, true, job->wants, job->want_count, err);
    return !err->count;
}

bool zt_session_open(struct zt_session *s, const struct zt_options *options, enum zt_onnx_weights weights, unsigned data,
                     struct zt_err *err) {
    *s = (struct zt_session){ .options = options, .opened = zt_now() };
    s->config = zt_config_read(options->config, &options->over, err);
    if (!s->config || !(s->model = zt_onnx_read(options->model, weights, err)))
        return false;
    int before = err->count;
    s->job = zt_job_create(s->config, s->model, err);
    if (!s->job) /* what the config asks for is the config's fault, all else the model's */
        return zt_err_within(err, before, "%s", err->code == ZT_EXIT_CONFIG ? options->config : options->model);
    return open_data(s, data, err);
}

void zt_session_finish(struct zt_session *s) {
    zt_source_close(s->source);
    zt_source_close(s->eval_source);
    zt_job_destroy(s->job);
    zt_onnx_destroy(s->model);
    zt_config_destroy(s->config);
}

int zt_session_threads(const struct zt_session *s) {
    int cores = zt_parallel_cores(), each = cores / s->config->ranks;
    return s->config->threads > 0 ? s->config->threads : each > 0 ? each : 1;
}

struct zt_device *zt_session_device(const struct zt_session *s, struct zt_err *err) {
    const struct zt_config *c = s->config;
    const struct zt_log *log = &s->options->log;
    bool automatic = strcmp(c->device, "auto") == 0;
    struct zt_device *device = zt_device_open(automatic && c->ranks > 1 ? "cpu" : c->device, zt_session_threads(s), log, err);
    if (!device || !automatic || !device->module || !c->optimizer.type ||
        zt_module_optimizer(device->module, c->optimizer.type))
        return device;
    zt_say(log, ZT_LOG_WARNING, "device auto is cpu: %s has no kernel for device %s", c->optimizer.type, device->api->name);
    device->api->destroy(device);
    return zt_device_host_create(zt_session_threads(s));
}
