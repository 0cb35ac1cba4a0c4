#include "session/session.h"

#include "base/clock.h"
#include "base/file.h"
#include "config/table.h"
#include "data/data.h"
#include "device/libraries.h"
#include "device/module.h"
#include "device/threads.h"
#include "graph/passes/trainable/trainable.h"
#include "ops/table.h"
#include "optim/types/types.h"

#include <stdlib.h>
#include <string.h>

/* The launcher determines the number of ranks; without one, --ranks does. */
static bool find_world(struct zt_session *s, struct zt_config_overrides *over, struct zt_err *err) {
    if (!zt_launched_find(&s->launched, err))
        return false;
    s->processes = s->launched.size > 1;
    if (zt_session_meets(s) && !(s->options->command->takes & ZT_TAKES_HOSTS)) { /* this command starts no ranks */
        s->launched = (struct zt_launched){ .size = 1, .local_rank = -1 };
        s->processes = false;
    }
    if (s->processes && over->ranks > 0 && over->ranks != s->launched.size)
        return zt_fail(err, ZT_EXIT_CONFIG, "--ranks %d, but %s started %d ranks", over->ranks, s->launched.launcher,
                       s->launched.size);
    if (s->processes)
        over->ranks = s->launched.size;
    return true;
}

/* Ranks started by torchrun use GPUs, unless the config selects TCP on the CPU. */
static bool check_meeting(struct zt_session *s, struct zt_err *err) {
    const struct zt_config *c = s->config;
    const char *wanted = c->parallel.communicator;
    char gpus[1024];
    bool asked = strcmp(wanted, "tcp") == 0, automatic = strcmp(c->device, "auto") == 0;
    if (!zt_session_meets(s)) {
        if (!asked || c->ranks == 1)
            return true;
        zt_fail(err, ZT_EXIT_CONFIG,
                "ztrain.parallel.communicator: \"tcp\" needs RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, which are "
                "not set");
        zt_config_locate(c, s->options->config, err, err->count - 1);
        return zt_hint(err, "use --ranks %d without communicator \"tcp\" to start ranks over MPI", c->ranks);
    }
    if (strcmp(wanted, "mpi") == 0 ||
        (!asked && (strcmp(c->device, "cpu") == 0 || (automatic && !zt_gpus_find(gpus, sizeof gpus))))) {
        zt_fail(err, ZT_EXIT_CONFIG, "WORLD_SIZE=%d: ranks started by torchrun %s", s->launched.size,
                strcmp(wanted, "mpi") == 0 ? "are not ranks of MPI" : "cannot connect on the CPU");
        return zt_hint(
            err,
            "start them with --ranks %d or mpirun -n %d, or set ztrain.parallel.communicator to \"tcp\" for torchrun",
            s->launched.size, s->launched.size);
    }
    return zt_launched_meeting(&s->launched, &s->meeting, err);
}

/* NCCL needs GPUs, and ranks started by torchrun use GPUs unless they connect over TCP. */
static bool wants_gpus(const struct zt_session *s) {
    const char *communicator = s->config->parallel.communicator;
    return strcmp(communicator, "nccl") == 0 || (zt_session_meets(s) && strcmp(communicator, "tcp") != 0);
}

static bool check_cluster(const struct zt_session *s, struct zt_err *err) {
    if (!s->config->cluster[0] || zt_machine_find(s->config->cluster, err))
        return true;
    zt_err_within(err, 0, "ztrain.cluster");
    return zt_config_locate(s->config, s->options->config, err, 0);
}

static bool check_communicator(struct zt_session *s, struct zt_err *err) {
    const struct zt_config *c = s->config;
    if (strcmp(c->parallel.communicator, "nccl") == 0 && strcmp(c->device, "cpu") == 0) {
        zt_fail(err, ZT_EXIT_CONFIG, "ztrain.parallel.communicator: \"nccl\" needs GPUs, but the device is \"%s\"",
                c->device);
        zt_config_locate(c, s->options->config, err, err->count - 1);
        return zt_hint(err, "use communicator \"auto\", or --device cuda where there are GPUs");
    }
    if (c->recompute.on_host && strcmp(c->device, "cpu") != 0 && wants_gpus(s))
        return zt_fail(err, ZT_EXIT_CONFIG,
                       "activation_checkpointing.cpu_checkpointing is not supported on GPUs, which these ranks use");
    if (!s->processes || !zt_session_threaded(c))
        return check_meeting(s, err);
    zt_fail(err, ZT_EXIT_CONFIG, "%s started %d processes, but %s runs all ranks in one process", s->launched.launcher,
            s->launched.size,
            strcmp(c->parallel.mode, "dp") == 0 ? "mode \"dp\"" : "ztrain.parallel.communicator \"thread\"");
    return zt_hint(err, "start one process with --ranks %d", s->launched.size);
}

const struct zt_key_catalog zt_session_types = { .owners = { [ZT_KEY_OPTIMIZER] = zt_optimizer_types,
                                                             [ZT_KEY_SCHEDULER] = zt_lr_rule_types,
                                                             [ZT_KEY_FORMAT] = zt_format_types } };

struct zt_config *zt_session_config(const struct zt_texts *paths, const struct zt_config_overrides *over,
                                    struct zt_err *err) {
    return zt_config_read(paths, over, &zt_session_types, err);
}

bool zt_session_locate(const struct zt_session *s, struct zt_err *err, int first) {
    if (err->code != ZT_EXIT_CONFIG)
        return zt_err_within(err, first, "%s", s->options->model);
    return zt_config_locate(s->config, s->options->config, err, first);
}

void zt_session_hint_model(const char *path, struct zt_err *err) {
    static const char zip[] = { 'P', 'K', 3, 4 }; /* of torch.save() */
    struct zt_err ignored = { 0 };
    struct zt_file_map map;
    if (err->code != ZT_EXIT_MODEL || !zt_file_map(&map, path, ZT_EXIT_MODEL, &ignored))
        return;
    if (map.size > sizeof zip && memcmp(map.data, zip, sizeof zip) == 0)
        zt_hint(err,
                "this is a zip archive, as torch.save() writes it: --model and --load take what torch.onnx.export() "
                "writes, and --load what safetensors.torch.save_file() writes");
    else if (map.size > 9 && map.data[8] == '{' && !map.data[7])
        zt_hint(err,
                "a file of safetensors has weights alone: it goes behind --load, and its name ends in .safetensors");
    zt_file_unmap(&map);
}

bool zt_session_threaded(const struct zt_config *c) {
    return strcmp(c->parallel.mode, "dp") == 0 || strcmp(c->parallel.communicator, "thread") == 0;
}

bool zt_session_meets(const struct zt_session *s) {
    return s->processes && strcmp(s->launched.launcher, "torchrun") == 0;
}

bool zt_session_alone(const struct zt_session *s, struct zt_err *err) {
    return !s->processes || zt_fail(err, ZT_EXIT_CONFIG, "%s runs in one process, %s started %d",
                                    s->options->command->name, s->launched.launcher, s->launched.size);
}

bool zt_session_open(struct zt_session *s, const struct zt_options *options, enum zt_onnx_weights weights,
                     bool evaluates, struct zt_err *err) {
    *s = (struct zt_session){ .own = *options, .opened = zt_now() };
    s->options = &s->own;
    struct zt_config_overrides over = options->over;
    over.evaluates = evaluates;
    if (!find_world(s, &over, err) || !(s->config = zt_session_config(&options->configs, &over, err)) ||
        !check_communicator(s, err) || !check_cluster(s, err))
        return false;
    if (options->log.level == ZT_LOG_INFO) /* --quiet and --verbose are above the config */
        s->own.log.level = (enum zt_log_level)s->config->log_level;
    s->sharers = s->processes ? s->launched.local_size : s->config->ranks;
    if (!(s->model = zt_onnx_read(options->model, weights, err))) {
        zt_session_hint_model(options->model, err);
        return false;
    }
    zt_pass_split_merged(s->model, &zt_ops);
    zt_pass_find_sources(s->model);
    return s->config->allow_future_opset || zt_onnx_check_opset(s->model, err);
}

void zt_session_finish(struct zt_session *s) {
    zt_onnx_destroy(s->model);
    zt_config_destroy(s->config);
}

int zt_session_threads(const struct zt_session *s) {
    return s->config->threads > 0 ? s->config->threads : zt_parallel_default(s->sharers);
}

/* The device name, "auto" if nothing determines it. Some config keys are not supported on a GPU. */
static const char *device_name(const struct zt_session *s, struct zt_err *why) {
    const struct zt_config *c = s->config;
    if (strcmp(c->device, "auto") != 0)
        return c->device;
    if (wants_gpus(s))
        return "cuda";
    if (c->recompute.on_host)
        zt_fail(why, ZT_EXIT_CONFIG, "activation_checkpointing.cpu_checkpointing is not supported on a GPU");
    return c->recompute.on_host ? "cpu" : "auto";
}

bool zt_session_elsewhere(const struct zt_session *s) {
    struct zt_err why = { 0 };
    return s->config->cluster[0] || strcmp(device_name(s, &why), "cuda") == 0;
}

bool zt_session_machine(const struct zt_session *s, const struct zt_device *device, struct zt_machine *machine,
                        struct zt_err *err) {
    const bool gpu = device ? device->module != NULL : zt_session_elsewhere(s);
    const struct zt_machine *here = device && device->product ? zt_machine_of_product(device->product) : NULL;
    const char *name = s->config->cluster[0] ? s->config->cluster : here ? here->name : gpu ? "h200" : NULL;
    if (!name) {
        *machine = zt_machine_nominal(zt_session_threads(s));
        return true;
    }
    const struct zt_machine *row = zt_machine_find(name, err);
    if (!row)
        return false;
    *machine = *row;
    return true;
}

struct zt_device *zt_session_device(struct zt_session *s, int rank, struct zt_err *err) {
    int local = s->processes ? s->launched.local_rank
                : rank > 0   ? rank
                             : -1; /* LOCAL_RANK may set the device of a single rank */
    struct zt_err unasked = { 0 }, *why = rank == 0 ? &s->no_gpu : &unasked;
    struct zt_device *device = zt_device_open(device_name(s, why), local, zt_session_threads(s), why, err);
    if (device)
        device->tf32 = s->config->tf32;
    else if (strcmp(s->config->parallel.communicator, "nccl") == 0) /* the CPU alone is no way out */
        zt_hint(err, "ztrain.parallel.communicator \"nccl\" needs GPUs; with \"auto\" the run can use the CPU");
    return device;
}
