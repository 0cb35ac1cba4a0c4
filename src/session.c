#include "train.h"

#include "device/module.h"
#include "device/threads.h"

#include <stdlib.h>
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

/* Ranks that a launcher started would each train alone and write the same files. Until ranks over MPI are there they
 * are refused, and so are torchrun's variables on the CPU, always. */
static bool check_launcher(struct zt_err *err) {
    static const struct {
        const char *size, *rank, *launcher;
    } rows[] = { { "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "mpirun" },
                 { "PMI_SIZE", "PMI_RANK", "mpirun or srun" },
                 { "SLURM_NTASKS", "SLURM_STEP_ID", "srun" },
                 { "WORLD_SIZE", "RANK", "torchrun" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *size = getenv(rows[i].size);
        if (!size || strtol(size, NULL, 10) < 2 || !getenv(rows[i].rank))
            continue;
        zt_fail(err, ZT_EXIT_CONFIG, "%s=%s: ranks started by %s are not supported yet", rows[i].size, size,
                rows[i].launcher);
        return zt_hint(err, "--ranks %s --set ztrain.parallel.communicator=thread runs them as threads of one process",
                       size);
    }
    return true;
}

bool zt_session_open(struct zt_session *s, const struct zt_options *options, enum zt_onnx_weights weights,
                     unsigned data, struct zt_err *err) {
    *s = (struct zt_session){ .options = options, .opened = zt_now() };
    if (!check_launcher(err))
        return false;
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
    const char *name = s->config->device;
    /* A GPU that is there is used when it is asked for: until convolutions and norms have CUDA kernels, most networks
     * would run on the host through copies. */
    return zt_device_open(strcmp(name, "auto") == 0 ? "cpu" : name, zt_session_threads(s), &s->options->log, err);
}
