/* The names of modes, and the config keys that a combination sets. */
#include "cli/bench.h"
#include "config/table.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *set[3];
    bool same_bits;
} modes[] = {
    { "dp", { "ztrain.parallel.mode=dp", "zero_optimization.stage=0", "pipeline.stages=1" }, false },
    { "ddp", { "ztrain.parallel.mode=ddp", "zero_optimization.stage=0", "pipeline.stages=1" }, true },
    { "zero1", { "ztrain.parallel.mode=ddp", "zero_optimization.stage=1", "pipeline.stages=1" }, true },
    { "zero2", { "ztrain.parallel.mode=ddp", "zero_optimization.stage=2", "pipeline.stages=1" }, true },
    { "zero3", { "ztrain.parallel.mode=ddp", "zero_optimization.stage=3", "pipeline.stages=1" }, true },
};

static bool take_digits(const char **at, char *to, size_t room) {
    size_t n = strspn(*at, "0123456789");
    if (n == 0 || n >= room)
        return false;
    memcpy(to, *at, n);
    to[n] = 0;
    *at += n;
    return true;
}

/* Whether the config knows the schedule, "" for its default, and the ZeRO stage. */
static bool is_known(const char *schedule, const char *zero) {
    return (!schedule[0] || zt_key_choose(zt_key_row_called("ztrain.parallel.schedule"), schedule)) &&
           atoi(zero) <= zt_key_row_called("zero_optimization.stage")->max;
}

/* Parses a pipeline mode: a final "-zeroN" is the ZeRO stage, the text before it the schedule. */
static bool take_pipeline(struct zt_bench_mode *mode, const char *name) {
    char stages[8], zero[8] = "0", schedule[24] = "";
    if (strncmp(name, "pp", 2) != 0 || strlen(name) >= sizeof mode->name)
        return false;
    const char *at = name + 2, *end = name + strlen(name), *last = strstr(at, "-zero");
    if (!take_digits(&at, stages, sizeof stages) || stages[0] == '0')
        return false;
    if (last) {
        const char *digits = last + strlen("-zero");
        if (!take_digits(&digits, zero, sizeof zero) || *digits)
            return false;
        end = last;
    }
    if (at < end && (*at != '-' || end - at - 1 >= (int)sizeof schedule || end - at < 2))
        return false;
    if (at < end)
        snprintf(schedule, sizeof schedule, "%.*s", (int)(end - at - 1), at + 1);
    if (!is_known(schedule, zero))
        return false;
    snprintf(mode->set[0], ZT_BENCH_WORD, "ztrain.parallel.mode=ddp");
    snprintf(mode->set[1], ZT_BENCH_WORD, "pipeline.stages=%s", stages);
    snprintf(mode->set[2], ZT_BENCH_WORD, "zero_optimization.stage=%s", zero);
    if (schedule[0])
        snprintf(mode->set[3], ZT_BENCH_WORD, "ztrain.parallel.schedule=%s", schedule);
    return mode->pipeline = true;
}

bool zt_bench_mode(struct zt_bench_mode *mode, const char *name, struct zt_err *err) {
    *mode = (struct zt_bench_mode){ 0 };
    snprintf(mode->name, sizeof mode->name, "%s", name);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (strcmp(name, modes[i].name) != 0)
            continue;
        mode->same_bits = modes[i].same_bits;
        for (int k = 0; k < 3; k++)
            snprintf(mode->set[k], ZT_BENCH_WORD, "%s", modes[i].set[k]);
        return true;
    }
    if (take_pipeline(mode, name))
        return true;
    zt_fail(err, ZT_EXIT_CONFIG, "--modes: \"%s\" is not a mode", name);
    return zt_hint(err,
                   "dp, ddp, zero1, zero2, zero3, or ppS[-SCHEDULE][-zeroN] for a pipeline of S stages, for example "
                   "pp2-1f1b-zero1");
}

void zt_bench_overlay(const struct zt_bench *bench, const struct zt_bench_row *row, struct zt_options *options,
                      const char **set, char *batch) {
    const struct zt_config_overrides *over = &bench->options->over;
    int count = 0;
    *options = *bench->options;
    options->log.level = ZT_LOG_ERROR;
    for (int i = 0; i < over->set_count; i++)
        set[count++] = over->set[i];
    for (int i = 0; i < ZT_BENCH_SETS && row->mode->set[i][0]; i++)
        set[count++] = row->mode->set[i];
    snprintf(batch, ZT_BENCH_WORD, "train_batch_size=%lld", (long long)row->batch);
    if (row->batch > 0)
        set[count++] = batch;
    set[count++] = "autotuning.enabled=false";        /* a combination is measured as it is */
    set[count++] = "ztrain.checkpoint.every_steps=0"; /* runs are only timed and need no checkpoints */
    set[count++] = "ztrain.checkpoint.every_epochs=0";
    options->over.set = set;
    options->over.set_count = count;
    options->over.ranks = row->ranks;
    options->over.steps = bench->steps;
}

static bool sets_key(const char *assignment, const char *error) {
    size_t n = strcspn(assignment, "=");
    return n && strncmp(assignment, error, n) == 0 && (error[n] == ':' || error[n] == '[');
}

void zt_bench_refuse(struct zt_bench_row *row, enum zt_exit code, const char *error) {
    static const char option[] = "--set ";
    const char *key = strncmp(error, option, strlen(option)) == 0 ? error + strlen(option) : error;
    bool own = sets_key("train_batch_size=", key) && row->batch > 0;
    for (int i = 0; i < ZT_BENCH_SETS && row->mode->set[i][0]; i++)
        own = own || sets_key(row->mode->set[i], key);
    snprintf(row->reason, sizeof row->reason, "%.*s", ZT_ERR_TEXT - 1, own ? key : error);
    row->code = code;
}
