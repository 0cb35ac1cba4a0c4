#include "plan/rank_plan.h"

#include "base/map.h"
#include "base/text.h"
#include "device/device.h"
#include "plan/rank_bytes.h"
#include "plan/rank_fingerprint.h"
#include "plan/rank_layout.h"

#include <stdlib.h>
#include <string.h>

/* State of planning. */
struct planner {
    struct zt_rank_plan *plan;
    const struct zt_rank_options *o;
    int64_t room; /* target bytes for the activations of a micro-batch; 0: no target */
    struct zt_err *err;
};

static const struct zt_program *find(const struct zt_rank_plan *p, const struct zt_program_set *set, int64_t rows,
                                     bool padded) {
    for (int i = 0; i < set->count; i++)
        if (zt_program_fits(&set->at[i]->training_graph, rows, padded, p->job->statistic_count > 0))
            return set->at[i];
    return NULL;
}

/* The recomputation that the config requests, for one stage. */
static struct zt_recompute recompute_of(const struct planner *q) {
    const struct zt_recompute_config *c = &q->plan->job->config->recompute;
    struct zt_recompute how = { .names = c->names.at, .name_count = c->names.count, .layers = c->layers };
    if (c->enabled)
        how.segments = c->segments ? (c->segments + q->plan->grid.stages - 1) / q->plan->grid.stages : -1;
    how.room = q->room;
    return how;
}

static bool is_in_model(const struct zt_graph *g, const char *glob) {
    for (int n = 0; n < g->node_count; n++)
        if (zt_glob(glob, g->nodes[n]->name))
            return true;
    return false;
}

/* Adds a note for every glob of ztrain.recompute that matches nodes of the model, but none that is left. The others are
 * reported with the model (plan/job/unmatched.h). */
static void note_idle_names(const struct planner *q, struct zt_training_graph *training_graph) {
    const struct zt_texts *names = &q->plan->job->config->recompute.names;
    struct zt_arena *arena = training_graph->graph->arena;
    const char **notes = ZT_NEW_N(arena, const char *, training_graph->note_count + names->count + 1);
    if (training_graph->note_count)
        memcpy(notes, training_graph->notes, (size_t)training_graph->note_count * sizeof *notes);
    for (int i = 0; i < names->count; i++)
        if (!zt_recompute_fits(training_graph->graph, names->at[i]) &&
            is_in_model(q->plan->job->model->graph, names->at[i]))
            notes[training_graph->note_count++] =
                zt_arena_printf(arena, "ztrain.recompute: \"%s\" matches no node that runs separately", names->at[i]);
    training_graph->notes = notes;
}

static enum zt_backend fast_of(const struct planner *q) {
    if (q->o->elsewhere)
        return ZT_REF;
    return q->o->device ? q->o->device->api->backend : ZT_CPU;
}

/* Sets the contents of the frozen weights that this rank holds whole. */
static void settle_frozen(const struct zt_rank_plan *p, struct zt_graph *g, bool loss) {
    bool *shared_out = zt_calloc((size_t)g->value_count + 1, sizeof *shared_out);
    int *values =
        zt_malloc((p->tensors.frozen ? (size_t)p->tensors.frozen->flat->tensor_count + 1 : 1) * sizeof *values);
    if (p->tensors.frozen && !loss)
        zt_frozen_weights_find(p->tensors.frozen, g, values, shared_out);
    zt_frozen_settle(p->job->frozen, g, shared_out);
    free(values);
    free(shared_out);
}

/* Adds the program for `rows` samples: of this rank's stage, or with `loss` of the loss that mode dp runs on rank 0
 * only. */
static bool add_program(struct planner *q, int64_t rows, bool training, bool padded, bool loss) {
    struct zt_rank_plan *p = q->plan;
    struct zt_program_set *set = loss       ? (training ? &p->programs.loss_train : &p->programs.loss_evaluation)
                                 : training ? &p->programs.train
                                            : &p->programs.evaluation;
    struct zt_training_graph_request request = { .rows = rows,
                                                 .training = training,
                                                 .fast = fast_of(q),
                                                 .weighted = padded && !p->replicas,
                                                 .split_loss = p->replicas,
                                                 .stages = p->grid.stages,
                                                 .stage_bounds = p->stage_bounds };
    struct zt_training_graph training_graph;
    if (rows <= 0 || find(p, set, rows, padded && !p->replicas))
        return true;
    if (padded && !p->job->loss)
        return zt_fail(q->err, ZT_EXIT_CONFIG,
                       "the last batch of the data cannot be divided among %d ranks, and a loss that is a graph output "
                       "cannot ignore padding samples: set drop_last",
                       p->grid.data);
    if (!zt_job_training_graph(p->job,
                               training            ? q->o->source
                               : q->o->eval_source ? q->o->eval_source
                                                   : q->o->source,
                               &request, &training_graph, q->err))
        return false;
    if (!p->tensors.flat)
        zt_rank_plan_lay_out(p, &training_graph);
    settle_frozen(p, training_graph.graph, loss);
    if (training)
        note_idle_names(q, &training_graph);
    if (!loss) /* not on all ranks */
        zt_rank_plan_stir_graph(p, rows, training_graph.graph);
    const struct zt_recompute again = recompute_of(q);
    struct zt_program_options options = { .table = &zt_ops,
                                          .recompute = &again,
                                          .fusion = &p->job->fusion,
                                          .fast = fast_of(q),
                                          .threads = q->o->threads,
                                          .device = q->o->device,
                                          .flat = loss ? zt_flat_make(p->arena, NULL, 0, 1, 0) : p->tensors.flat,
                                          .frozen = loss ? NULL : p->tensors.frozen,
                                          .sharding = loss ? zt_sharding_of(0) : p->sharding,
                                          .traffic = &p->traffic.limits,
                                          .data_rank = p->grid.data_rank,
                                          .stage = p->replicas ? loss : p->grid.stage,
                                          .stages = p->replicas ? 2 : p->grid.stages,
                                          .accumulates = p->steps.full.micro_batches > 1,
                                          .rounds = p->job->config->accumulation_type != ZT_GRADIENTS_FP32,
                                          .statistic_offset = p->tensors.statistic_offset };
    struct zt_program *program = zt_program_create(&training_graph, &options, q->err);
    if (!program)
        return false;
    set->at[set->count++] = program;
    return true;
}

/* Both list the boundary tensors in the order of value ids, which must belong to the same values. */
static bool rows_fit(const struct zt_boundary_tensors *loss, int64_t loss_rows, const struct zt_boundary_tensors *model,
                     int64_t model_rows) {
    bool fit = loss->count == model->count;
    for (int i = 0; fit && i < loss->count; i++)
        fit = loss->at[i].bytes / (size_t)loss_rows == model->at[i].bytes / (size_t)model_rows;
    return fit;
}

static bool add_loss_program(struct planner *q, int64_t rows, int64_t loss_rows, bool training) {
    const struct zt_rank_plan *p = q->plan;
    if (!add_program(q, loss_rows, training, false, true))
        return false;
    const struct zt_program *loss = find(p, training ? &p->programs.loss_train : &p->programs.loss_evaluation,
                                         loss_rows, false),
                            *model = find(p, training ? &p->programs.train : &p->programs.evaluation, rows, false);
    if (loss->derived_bytes || !rows_fit(&loss->recv_act, loss_rows, &model->send_act, rows) ||
        !rows_fit(&loss->send_grad, loss_rows, &model->recv_grad, rows))
        return zt_fail(
            q->err, ZT_EXIT_MODEL,
            "mode \"dp\": the input of the loss for %lld rows does not match the outputs of replicas for %lld rows",
            (long long)loss_rows, (long long)rows);
    return true;
}

static bool add_programs(struct planner *q, const struct zt_step_shape *shape, bool training) {
    const struct zt_rank_plan *p = q->plan;
    bool many = shape->micro_batches > 1, loss = p->replicas && p->grid.rank == 0 && shape->samples > 0;
    const int last = shape->micro_batches - 1;
    return add_program(q, many ? shape->rows : 0, training, false, false) &&
           add_program(q, shape->last_rows, training, shape->padded, false) &&
           (!loss || ((!many || add_loss_program(q, shape->rows, zt_rank_loss_rows(&p->steps, shape, 0), training)) &&
                      add_loss_program(q, shape->last_rows, zt_rank_loss_rows(&p->steps, shape, last), training)));
}

/* A stream: all steps have as many micro-batches, the last of each epoch may have fewer samples. */
static bool plan_stream(struct planner *q) {
    struct zt_rank_plan *p = q->plan;
    const struct zt_epochs *e = &p->steps.epochs;
    const int64_t rest = e->samples % e->unit;
    if (!e->samples)
        return true;
    p->steps.full = zt_step_shape(e->batch, e->unit / p->grid.data, p->grid.data);
    p->steps.short_rows = rest / p->grid.data;
    if (!add_programs(q, &p->steps.full, true) || !add_program(q, p->steps.short_rows, true, false, false) ||
        (rest && p->replicas && p->grid.rank == 0 && !add_loss_program(q, p->steps.short_rows, rest, true)))
        return false;
    p->steps.full.stream = true;
    return true;
}

static bool make_schedule(struct planner *q, int micro_batches, bool training, struct zt_schedule *to) {
    struct zt_rank_plan *p = q->plan;
    struct zt_schedule_shape shape = { micro_batches, p->grid.stages, 1, p->grid.stage };
    if (!micro_batches)
        return true;
    bool ok = p->replicas ? zt_schedule_make_replicas(p->arena, micro_batches, p->grid.rank == 0, training, to, q->err)
              : training  ? zt_schedule_make(p->arena, p->job->config->parallel.schedule, &shape, to, q->err)
                          : zt_schedule_make_forward(p->arena, &shape, to, q->err);
    if (to->slots > p->steps.slots)
        p->steps.slots = to->slots;
    return ok;
}

static bool make_schedules(struct planner *q) {
    struct zt_rank_plan *p = q->plan;
    bool ok = make_schedule(q, p->steps.full.micro_batches, true, &p->steps.full_schedule) &&
              make_schedule(q, p->steps.tail.micro_batches, true, &p->steps.tail_schedule) &&
              make_schedule(q, q->o->eval_source != NULL, false, &p->steps.eval_schedule);
    p->steps.keeps_input = p->replicas ? p->grid.rank != 0 : p->steps.slots > 1;
    return ok;
}

static bool plan_training(struct planner *q, const struct zt_config *c) {
    struct zt_rank_plan *p = q->plan;
    int64_t samples = q->o->source ? q->o->source->samples : c->train_batch;
    p->steps.epochs = zt_epochs_of(c, samples);
    if (p->steps.epochs.carries)
        return plan_stream(q);
    int64_t rest = p->steps.epochs.samples % c->train_batch;
    p->steps.full = zt_step_shape(samples >= c->train_batch ? c->train_batch : 0, c->micro_batch, p->grid.data);
    p->steps.tail = zt_step_shape(rest, c->micro_batch, p->grid.data);
    if (!p->steps.full.samples &&
        p->steps.tail.samples) { /* fewer samples than one batch: the only step is the last one */
        p->steps.full = p->steps.tail;
        p->steps.tail = (struct zt_step_shape){ 0 };
    }
    return add_programs(q, &p->steps.full, true) && add_programs(q, &p->steps.tail, true);
}

static bool plan_evaluation(struct planner *q, const struct zt_config *c) {
    struct zt_rank_plan *p = q->plan;
    int64_t rows = p->steps.eval_rows < c->micro_batch ? p->steps.eval_rows : c->micro_batch,
            together = rows * p->grid.data;
    if (!q->o->eval_source)
        return true;
    struct zt_step_shape full =
        zt_step_shape(q->o->eval_source->samples >= together ? together : 0, rows, p->grid.data);
    struct zt_step_shape tail = zt_step_shape(q->o->eval_source->samples % together, rows, p->grid.data);
    return add_programs(q, &full, false) && add_programs(q, &tail, false);
}

/* The targets for a memory limit: bytes for the activations of a micro-batch (0: no target), and samples of an
 * evaluation micro-batch. */
struct squeeze {
    int64_t room, eval_rows;
};

/* Stages exchange tied weights between their memory blocks. */
static bool check_ties(const struct zt_rank_plan *p, const struct zt_config *c, struct zt_err *err) {
    return p->offload.parameters == ZT_HOME_DEVICE || !p->tensors.tie_count ||
           zt_fail(err, ZT_EXIT_CONFIG,
                   "zero_optimization.offload_param.device: \"%s\" excludes weights that pipeline stages share",
                   c->zero.offload_param.device);
}

static struct zt_rank_plan *make(const struct zt_job *job, const struct zt_rank_options *o, const struct squeeze *to,
                                 struct zt_err *err) {
    struct zt_arena *arena = zt_arena_create();
    struct zt_rank_plan *p = ZT_NEW(arena, struct zt_rank_plan);
    const struct zt_config *c = job->config;
    struct planner q = { p, o, to->room, err };
    p->arena = arena;
    p->hash = ZT_HASH_START;
    p->steps.eval_rows = to->eval_rows;
    p->job = job;
    p->folder = o->folder;
    p->source = o->source;
    p->eval_source = o->eval_source;
    p->steps.eval_samples = o->eval_source ? o->eval_source->samples : 0;
    p->device_memory = o->device && o->device->module;
    p->steps.slots = 1;
    p->threads = o->threads;
    struct zt_program_set *sets[] = { &p->programs.train, &p->programs.evaluation, &p->programs.loss_train,
                                      &p->programs.loss_evaluation };
    for (int i = 0; i < 4; i++)
        sets[i]->at = ZT_NEW_N(arena, struct zt_program *, 8);
    p->trains = o->source != NULL || !o->eval_source;
    if ((p->trains && !zt_offload_decide(c, p->device_memory || o->elsewhere, arena, &p->offload, err)) ||
        !zt_grid_make(c->ranks, c->parallel.stages, o->rank, &p->grid, err)) {
        zt_rank_plan_destroy(p);
        return NULL;
    }
    p->steps.data_ranks = p->grid.data;
    p->replicas = p->grid.data > 1 && strcmp(c->parallel.mode, "dp") == 0;
    p->sharding =
        zt_sharding_of_run(&(struct zt_sharding_wish){ .zero_stage = c->zero.stage,
                                                       .data_ranks = p->grid.data,
                                                       .replicas = p->replicas,
                                                       .offloads_parameters = p->offload.parameters != ZT_HOME_DEVICE,
                                                       .reduce_scatter = c->zero.reduce_scatter });
    if ((p->trains && !plan_training(&q, c)) || !plan_evaluation(&q, c) || !make_schedules(&q)) {
        zt_rank_plan_destroy(p);
        return NULL;
    }
    if (!p->tensors.flat) { /* no program was requested */
        zt_fail(err, ZT_EXIT_DATA, "the data have fewer samples than the %lld of a step, and drop_last drops them all",
                (long long)c->train_batch);
        zt_rank_plan_destroy(p);
        return NULL;
    }
    if (!check_ties(p, c, err)) {
        zt_rank_plan_destroy(p);
        return NULL;
    }
    zt_rank_plan_count(p, c);
    zt_rank_plan_stir_config(p, c);
    return p;
}

/* ---- the memory limit ---- */

enum { LIMIT_TRIES = 6 };

/* Memory of the rank with the most in this stage. All data-parallel ranks must choose alike, because recomputation may
 * change the order of their collectives. */
static int64_t most_bytes(const struct zt_rank_plan *p) {
    struct zt_rank_bytes bytes = zt_rank_plan_bytes(p, zt_rank_plan_largest(p));
    return zt_rank_bytes_total(&bytes);
}

static void refuse(const struct zt_rank_plan *p, const struct zt_config *c, struct zt_err *err) {
    struct zt_rank_bytes b = zt_rank_plan_bytes(p, zt_rank_plan_largest(p));
    char t[7][32];
    zt_fail(
        err, ZT_EXIT_CONFIG,
        "ztrain.memory_limit: %s per rank, but stage %d needs at least %s: parameters %s, gradients %s, optimizer %s, "
        "activations %s, workspace %s",
        zt_format_bytes(t[0], (double)c->memory_limit), p->grid.stage, zt_format_bytes(t[1], (double)most_bytes(p)),
        zt_format_bytes(t[2], (double)b.parameters), zt_format_bytes(t[3], (double)b.gradients),
        zt_format_bytes(t[4], (double)b.optimizer), zt_format_bytes(t[5], (double)b.activations),
        zt_format_bytes(t[6], (double)b.workspace));
    struct zt_text help = { 0 };
    if (c->micro_batch > 1)
        zt_text_add(&help, "a smaller train_micro_batch_size_per_gpu (now %lld); ", (long long)c->micro_batch);
    if (p->grid.data > 1 && !zt_sharding_gathers_for_use(p->sharding))
        zt_text_add(&help, "zero_optimization.stage %d to 3; ", c->zero.stage + 1);
    if (c->recompute.names.count || c->recompute.enabled || c->recompute.layers)
        zt_text_add(&help, "no explicit recomputation, so that the limit selects nodes; ");
    zt_hint(err, "try %smore ranks or pipeline.stages; ztrain.plan \"auto\" chooses among these",
            help.at ? help.at : "");
    zt_text_finish(&help);
}

static int64_t activations(const struct zt_program_set *set) {
    int64_t bytes = 0;
    for (int i = 0; i < set->count; i++)
        bytes = set->at[i]->activation_bytes > bytes ? set->at[i]->activation_bytes : bytes;
    return bytes;
}

/* Lowers the targets if the plan exceeds `target` bytes of activations. Layouts and fragmentation, which the
 * recomputation pass does not model, are subtracted in the next try. Returns false if the targets cannot be lowered. */
static bool squeeze(const struct zt_rank_plan *p, const struct zt_config *c, int64_t target, struct squeeze *to) {
    bool chosen = c->recompute.names.count || c->recompute.enabled || c->recompute.layers;
    int64_t train = activations(&p->programs.train) * p->steps.slots, evaluation = activations(&p->programs.evaluation);
    if (target <= 0)
        return false;
    if (train > target) {
        if (chosen)
            return false;
        double room =
            to->room ? (double)to->room * (double)target / (double)train * 0.98 : (double)target / p->steps.slots;
        to->room = room > 1 ? (int64_t)room : 1;
    }
    if (evaluation > target) {
        if (to->eval_rows == 1)
            return false;
        int64_t rows = (int64_t)((double)to->eval_rows * (double)target / (double)evaluation);
        to->eval_rows = rows > 0 ? rows : 1;
    }
    return true;
}

struct zt_rank_plan *zt_rank_plan_create(const struct zt_job *job, const struct zt_rank_options *o,
                                         struct zt_err *err) {
    const struct zt_config *c = job->config;
    struct squeeze to = { .eval_rows = c->micro_batch };
    struct zt_rank_plan *p = make(job, o, &to, err);
    for (int tries = 0; p && c->memory_limit > 0 && most_bytes(p) > c->memory_limit; tries++) {
        int64_t target = c->memory_limit - (most_bytes(p) - p->memory.activation_bytes);
        if (tries == LIMIT_TRIES || !squeeze(p, c, target, &to)) {
            refuse(p, c, err);
            zt_rank_plan_destroy(p);
            return NULL;
        }
        zt_rank_plan_destroy(p);
        p = make(job, o, &to, err);
    }
    return p;
}

void zt_rank_plan_destroy(struct zt_rank_plan *p) {
    if (!p)
        return;
    const struct zt_program_set *sets[] = { &p->programs.train, &p->programs.evaluation, &p->programs.loss_train,
                                            &p->programs.loss_evaluation };
    for (int s = 0; s < 4; s++)
        for (int i = 0; i < sets[s]->count; i++)
            zt_program_destroy(sets[s]->at[i]);
    zt_arena_destroy(p->arena);
}

char *zt_rank_plan_mode(const struct zt_rank_plan *plan, char *to, size_t size) {
    const int stage = plan->job->config->zero.stage;
    const struct zt_sharding *ddp = zt_sharding_of(0);
    if (plan->sharding == ddp && zt_sharding_of(stage) != ddp)
        snprintf(to, size, "%s (ZeRO %d divides nothing over one data-parallel rank)", zt_sharding_name(ddp), stage);
    else
        snprintf(to, size, "%s", zt_sharding_name(plan->sharding));
    return to;
}
