#include "checkpoint/checkpoint.h"

#include "checkpoint/folder.h"
#include "checkpoint/load.h"
#include "checkpoint/state.h"
#include "checkpoint/rank_states.h"
#include "checkpoint/record.h"
#include "checkpoint/save.h"
#include "optim/one_bit/trust.h"
#include "optim/types/types.h"
#include "run/rank/blocks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void list_weights(struct zt_checkpoints *c) {
    const struct zt_rank_plan *p = c->o.plan;
    struct zt_stored_file *file = &c->files[ZT_WEIGHTS_FILE];
    file->count = p->tensors.model_count;
    file->tensors = ZT_NEW_N(c->arena, struct zt_stored_tensor, p->tensors.model_count + 1);
    for (int i = 0; i < p->tensors.model_count; i++)
        file->tensors[i] =
            (struct zt_stored_tensor){ .name = p->tensors.model[i].name, .shape = p->tensors.model[i].shape };
}

static void list_states(struct zt_checkpoints *c) {
    const struct zt_rank_plan *p = c->o.plan;
    const struct zt_optimizer_config *config = &p->job->config->optimizer;
    const struct zt_optimizer *row = zt_optimizer_find(config->type);
    struct zt_stored_file *file = &c->files[ZT_OPTIMIZER_FILE];
    const int own = p->memory.optimizer_states - p->memory.averages;
    file->tensors =
        ZT_NEW_N(c->arena, struct zt_stored_tensor, (p->memory.optimizer_states + 1) * p->tensors.model_params + 1);
    for (int s = 0; s < p->memory.optimizer_states; s++)
        for (int i = 0; i < p->tensors.model_params; i++)
            file->tensors[file->count++] =
                (struct zt_stored_tensor){ .name =
                                               zt_arena_printf(c->arena, "%s.%s", p->tensors.model[i].name,
                                                               s < own ? zt_optimizer_state(row, config, s) : "ema"),
                                           .shape = p->tensors.model[i].shape };
    for (int i = 0; c->o.rank->trust && i < p->tensors.model_params; i++)
        file->tensors[file->count++] =
            (struct zt_stored_tensor){ .name = zt_arena_printf(c->arena, "%s.trust", p->tensors.model[i].name),
                                       .shape = { .rank = 1, .dim = { ZT_TRUST_FLOATS } } };
}

/* At its largest; a checkpoint has what there is. */
static void list_rank_states(struct zt_checkpoints *c) {
    for (int apart = 0; apart < 2; apart++) {
        zt_rank_states_list(c->o.plan, c->arena, apart, &c->rank_states[apart]);
        zt_stored_layout(&c->rank_states[apart], &c->rank_heads[apart]);
    }
    c->files[ZT_RANKS_FILE] = c->rank_states[1];
    c->head[ZT_RANKS_FILE] = c->rank_heads[1];
    c->manifest.files = ZT_STORED_FILES;
}

static bool lay_out(struct zt_checkpoints *c, struct zt_err *err) {
    const char *state = c->o.plan->job->config->checkpoint.client_state;
    int64_t most = 0;
    if (state && strlen(state) > ZT_CLIENT_STATE_MAX)
        return zt_fail(err, ZT_EXIT_CONFIG, "ztrain.checkpoint.client_state: %zu bytes as JSON, at most %d are allowed",
                       strlen(state), ZT_CLIENT_STATE_MAX);
    list_weights(c);
    list_states(c);
    c->manifest.files = ZT_RANKS_FILE;
    if (zt_rank_states_exist(c->o.plan))
        list_rank_states(c);
    for (int f = 0; f < c->manifest.files; f++) {
        for (int i = 0; i < c->files[f].count; i++)
            if (strcmp(c->files[f].tensors[i].name, ZT_STORED_METADATA) == 0)
                return zt_fail(err, ZT_EXIT_MODEL,
                               "tensor \"" ZT_STORED_METADATA "\": safetensors files reserve this name");
        if (f != ZT_RANKS_FILE)
            zt_stored_layout(&c->files[f], &c->head[f]);
        if (c->head[f].length > ZT_STORED_TEXT_MAX)
            return zt_fail(err, ZT_EXIT_MODEL, "a checkpoint cannot hold %d tensors", c->files[f].count);
        int64_t checksums = zt_checksum_count(&c->files[f]);
        c->manifest.file[f].bytes = c->files[f].bytes;
        c->manifest.file[f].crc = c->crc[f] = ZT_NEW_N(c->arena, uint32_t, checksums + 1);
        c->manifest.file[f].tensor_crc = c->crc[f] + zt_block_count(c->files[f].bytes);
        c->manifest.file[f].tensors = c->files[f].count;
        most = checksums > most ? checksums : most;
    }
    if (c->storage.parts) {
        c->manifest.part_count = c->o.world->size;
        c->manifest.parts = ZT_NEW_N(c->arena, struct zt_part_sums, c->manifest.part_count);
    }
    c->peer_crc = ZT_NEW_N(c->arena, uint32_t, most + 1);
    if (c->o.rank->device_memory) {
        int64_t bytes = ZT_PIECE * (int64_t)sizeof(float);
        for (int i = 0; i < c->o.plan->tensors.statistic_total; i++)
            if (c->o.plan->tensors.statistic_count[i] * (int64_t)sizeof(float) > bytes)
                bytes = c->o.plan->tensors.statistic_count[i] * (int64_t)sizeof(float);
        c->bounce = zt_arena_alloc(c->arena, (size_t)bytes);
    }
    return true;
}

/* "step-{step}" -> "step-" */
static const char *tag_of(struct zt_arena *arena, const struct zt_checkpoint_config *config) {
    return zt_arena_printf(arena, "%.*s", (int)strcspn(config->tag, "{"), config->tag);
}

struct zt_checkpoints *zt_checkpoints_open(const struct zt_checkpoints_options *options, int64_t *first_step,
                                           struct zt_err *err) {
    struct zt_checkpoints *c = zt_calloc(1, sizeof *c);
    c->o = *options;
    c->arena = zt_arena_create();
    c->folder = (struct zt_checkpoint_folder){ zt_path_join(options->folder, ZT_CHECKPOINTS),
                                               tag_of(c->arena, &options->plan->job->config->checkpoint) };
    c->saved = -1;
    if (zt_storage_open(&c->storage, options, c->arena, err) && lay_out(c, err) &&
        (!(options->from || options->unfound) || zt_checkpoint_load(c, err))) {
        *first_step = c->manifest.step;
        return c;
    }
    zt_checkpoints_close(c);
    return NULL;
}

bool zt_checkpoints_begin(struct zt_checkpoints *c, struct zt_err *err) {
    if (!zt_storage_leads(&c->storage))
        return true;
    if (c->o.session->options->overwrite)
        return zt_checkpoint_clear(&c->folder, err);
    /* a run that resumes from an earlier checkpoint of its own makes that one the latest, and the earlier best one the
     * best */
    return c->saved < 0 ||
           (zt_checkpoint_point(&c->folder, "latest", c->saved, err) &&
            zt_checkpoint_point_back(&c->folder, "best", c->manifest.best_metric ? c->manifest.best_step : -1, err));
}

void zt_checkpoints_close(struct zt_checkpoints *c) {
    if (!c)
        return;
    for (int f = 0; f < ZT_RANKS_FILE; f++)
        zt_text_finish(&c->head[f]);
    for (int apart = 0; apart < 2; apart++)
        zt_text_finish(&c->rank_heads[apart]);
    zt_text_finish(&c->head[ZT_PART_FILE]);
    for (int i = 0; i < c->manifest.part_count; i++)
        free(c->manifest.parts[i].sums.crc);
    zt_storage_close(&c->storage);
    free(c->folder.path);
    zt_arena_destroy(c->arena);
    free(c);
}

void zt_checkpoints_report(const struct zt_checkpoints *c, const struct zt_log *log) {
    if (!c->o.from)
        return;
    zt_say(log, ZT_LOG_INFO, "  %-15s %s, step %lld", "resumed", c->o.from, (long long)c->loaded.step);
    if (c->loaded.step == c->o.steps)
        zt_say(log, ZT_LOG_INFO, "  %-15s the run is complete; a larger --epochs or --steps continues it", "note");
    if (c->loaded.client_state)
        zt_say(log, ZT_LOG_INFO, "  %-15s %s", "client state", c->loaded.client_state);
    if (c->restarted)
        zt_say(log, ZT_LOG_WARNING, "the errors of the compression begin at zero: %s", c->restarted);
    zt_record_report(&c->loaded, &c->manifest, c->o.plan->job->config->table, log);
}

/* ---- when to save ---- */

/* Whether an evaluation is the best so far: the lowest loss, or the highest accuracy. */
static bool improves(struct zt_checkpoints *c, const struct zt_eval_result *eval, int64_t step) {
    const char *metric = c->o.plan->job->config->checkpoint.best;
    if (!eval || !metric[0])
        return false;
    bool loss = strcmp(metric, "loss") == 0, other = c->manifest.best_metric && strcmp(c->manifest.best_metric, metric);
    double value = loss ? eval->loss : eval->accuracy;
    if (!isfinite(value) || (c->manifest.best_metric && !other &&
                             !(loss ? value < c->manifest.best_value : value > c->manifest.best_value)))
        return false;
    c->manifest.best_metric = metric;
    c->manifest.best_value = value;
    c->manifest.best_step = step;
    return true;
}

bool zt_checkpoints_due(const struct zt_checkpoints *c, int64_t step) {
    const struct zt_checkpoint_config *config = &c->o.plan->job->config->checkpoint;
    int64_t steps = config->every_steps, epochs = config->every_epochs;
    bool ended = epochs > 0 && zt_epochs_ended(&c->o.epochs, step) / epochs >
                                   zt_epochs_ended(&c->o.epochs, step > 0 ? step - 1 : 0) / epochs;
    return (steps > 0 && step % steps == 0) || ended || ((steps > 0 || epochs > 0) && step == c->o.steps);
}

bool zt_checkpoints_step(struct zt_checkpoints *c, const struct zt_step_end *end, struct zt_err *err) {
    const struct zt_checkpoint_config *config = &c->o.plan->job->config->checkpoint;
    int64_t step = end->step;
    bool on = config->every_steps > 0 || config->every_epochs > 0, better = on && improves(c, end->eval, step);
    bool due = end->asked || better || zt_checkpoints_due(c, step);
    if (!due || step == c->saved || !zt_checkpoint_save(c, step, end->console, err))
        return !due || step == c->saved;
    c->saved = step;
    if (!zt_storage_leads(&c->storage))
        return true;
    return (!better || zt_checkpoint_point(&c->folder, "best", step, err)) &&
           zt_checkpoint_prune(&c->folder, step, config->keep, c->manifest.best_metric ? c->manifest.best_step : -1,
                               err);
}
