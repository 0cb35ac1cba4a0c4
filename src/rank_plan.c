#include "rank.h"

#include "base/map.h"
#include "base/text.h"
#include "optim/optim.h"

#include <stdlib.h>
#include <string.h>

struct zt_step_shape zt_step_shape(int64_t samples, int64_t micro_batch, int data_ranks) {
    struct zt_step_shape s = { .samples = samples };
    if (samples <= 0)
        return s;
    int64_t together = micro_batch * data_ranks;
    s.micro_batches = (int)((samples + together - 1) / together);
    int64_t rest = samples - (s.micro_batches - 1) * together;
    s.rows = micro_batch;
    s.last_rows = (rest + data_ranks - 1) / data_ranks;
    s.padded = rest % data_ranks != 0;
    return s;
}

struct planner {
    struct zt_rank_plan *plan;
    const struct zt_job *job;
    const struct zt_rank_options *o;
    int64_t room; /* > 0: bytes that the activations of a micro-batch should take at most */
    struct zt_err *err;
};

/* ---- what all ranks agree on ---- */

static void stir(uint64_t *hash, const void *data, size_t bytes) {
    *hash = zt_hash(*hash, data, bytes);
}

static void stir_int(uint64_t *hash, int64_t number) {
    stir(hash, &number, sizeof number);
}

static void stir_text(uint64_t *hash, const char *text) {
    stir(hash, text, strlen(text) + 1);
}

static void stir_graph(uint64_t *hash, const struct zt_graph *g) {
    for (int n = 0; n < g->node_count; n++) {
        const struct zt_node *node = &g->nodes[n];
        stir_text(hash, node->op_type);
        stir_int(hash, node->phase);
        stir_int(hash, node->stage);
        stir(hash, node->in, (size_t)node->in_count * sizeof *node->in);
        for (int i = 0; i < node->out_count; i++) {
            const struct zt_value *v = zt_out(g, n, i);
            stir_int(hash, node->out[i]);
            stir_int(hash, v ? (int)v->dtype : -1);
            stir(hash, v ? v->shape.dim : NULL,
                 v && v->shape.rank > 0 ? (size_t)v->shape.rank * sizeof v->shape.dim[0] : 0);
        }
    }
}

static void stir_config(uint64_t *hash, const struct zt_rank_plan *p, const struct zt_config *c) {
    const struct zt_step_shape *shapes[2] = { &p->full, &p->tail };
    stir_int(hash, p->grid.world);
    stir_int(hash, p->grid.stages);
    stir_text(hash, p->sharding->name);
    stir_text(hash, c->parallel.schedule);
    stir_int(hash, c->zero.reduce_bucket_size);
    stir_int(hash, c->memory_limit);
    for (int i = 0; i < 2; i++) {
        stir_int(hash, shapes[i]->samples);
        stir_int(hash, shapes[i]->micro_batches);
        stir_int(hash, shapes[i]->rows);
        stir_int(hash, shapes[i]->last_rows);
    }
    for (int i = 0; i < c->recompute.names.count; i++)
        stir_text(hash, c->recompute.names.at[i]);
    stir_int(hash, c->recompute.enabled ? c->recompute.segments : -1);
    stir_int(hash, c->recompute.layers);
}

/* Rows of the loss in mode dp: those of all replicas together. */
int64_t zt_rank_loss_rows(const struct zt_rank_plan *p, const struct zt_step_shape *shape, bool last) {
    int64_t together = shape->rows * p->grid.data;
    return last ? shape->samples - (shape->micro_batches - 1) * together : together;
}

/* Where padding can occur the loss and batch statistics read row weights; stages with neither need no program of
 * their own for it. */
bool zt_rank_fits(const struct zt_rank_plan *p, const struct zt_joint *j, int64_t rows, bool padded) {
    return j->rows == rows && (!padded || j->weighted || (j->loss < 0 && !p->job->statistic_count));
}

static const struct zt_program *find(const struct zt_rank_plan *p, const struct zt_program_set *set, int64_t rows,
                                     bool padded) {
    for (int i = 0; i < set->count; i++)
        if (zt_rank_fits(p, &set->at[i]->joint, rows, padded))
            return set->at[i];
    return NULL;
}

/* Where a parameter of the joint graph is held. */
struct seat {
    int stage, tensor;
};

static struct zt_flat *lay_out_stage(struct planner *q, const struct zt_joint *joint, int stage, int *indices,
                                     struct seat *seats) {
    struct zt_arena *arena = q->plan->arena;
    const struct zt_graph *g = joint->graph;
    int count = zt_program_params(joint, stage, indices);
    struct zt_flat_tensor *tensors = ZT_NEW_N(arena, struct zt_flat_tensor, count + 1);
    for (int i = 0; i < count; i++) {
        const struct zt_value *v = &g->values[joint->params[indices[i]]];
        seats[indices[i]] = (struct seat){ stage, i };
        tensors[i] = (struct zt_flat_tensor){ .name = zt_arena_strdup(arena, v->copy_of ? v->copy_of : v->name),
                                              .count = zt_shape_count(&v->shape),
                                              .copy = v->copy_of != NULL };
    }
    struct zt_flat *flat =
        zt_flat_make(arena, tensors, count, q->plan->grid.data, q->job->config->zero.reduce_bucket_size);
    if (q->plan->sharding->first_owns)
        zt_flat_give_to_first(flat);
    return flat;
}

/* What this rank exchanges with other stages that hold weights of its own, or whose weights it holds. */
static void tie_stages(struct planner *q, const struct zt_joint *joint, const struct seat *seats,
                       struct zt_flat *const *flats) {
    struct zt_rank_plan *p = q->plan;
    struct zt_tie_pair *pairs = ZT_NEW_N(p->arena, struct zt_tie_pair, joint->param_count + 1);
    int count = 0;
    for (int i = 0; i < joint->param_count; i++) {
        if (joint->home[i] < 0)
            continue;
        const struct seat *home = &seats[joint->home[i]];
        pairs[count++] = (struct zt_tie_pair){ home->stage, home->tensor, seats[i].stage, seats[i].tensor };
    }
    p->tie_count = zt_tie_runs(p->arena, &p->grid, p->sharding, flats, pairs, count, &p->ties);
}

/* Appends the parameters, or the statistics, of all stages to the plan's `model`; own[i] becomes the place there of the
 * i-th one of this stage; of a copy, that of what it is a copy of. */
static void list_model(struct zt_rank_plan *p, const struct zt_joint *joint, bool params, int *own) {
    int total = params ? joint->param_count : joint->statistic_count;
    int *indices = zt_malloc(((size_t)total + 1) * sizeof *indices),
        *stage = zt_malloc(((size_t)total + 1) * sizeof *stage), *at = zt_malloc(((size_t)total + 1) * sizeof *at);
    for (int i = 0; i < total; i++)
        stage[i] = -1;
    for (int s = p->grid.stages - 1; s >= 0; s--) {
        int count = params ? zt_program_params(joint, s, indices) : zt_program_statistics(joint, s, indices);
        for (int i = 0; i < count; i++)
            stage[indices[i]] = s;
    }
    struct zt_model_tensor *all = ZT_NEW_N(p->arena, struct zt_model_tensor, p->model_count + total + 1);
    if (p->model_count)
        memcpy(all, p->model, (size_t)p->model_count * sizeof *all);
    for (int i = 0; i < total; i++) {
        const struct zt_value *v = &joint->graph->values[params ? joint->params[i] : joint->statistics[i]];
        at[i] = p->model_count;
        if (params && joint->home[i] >= 0)
            at[i] = at[joint->home[i]];
        else if (stage[i] >= 0)
            all[p->model_count++] = (struct zt_model_tensor){ zt_arena_strdup(p->arena, v->name), v->shape, stage[i] };
    }
    int count = params ? zt_program_params(joint, p->grid.stage, indices)
                       : zt_program_statistics(joint, p->grid.stage, indices);
    for (int i = 0; i < count; i++)
        own[i] = at[indices[i]];
    p->model = all;
    p->model_params = params ? p->model_count : p->model_params;
    free(at);
    free(stage);
    free(indices);
}

/* The layout of the stage's parameters, from the first joint graph built. */
static void lay_out_parameters(struct planner *q, const struct zt_joint *joint) {
    struct zt_rank_plan *p = q->plan;
    const struct zt_graph *g = joint->graph;
    int *indices = zt_malloc(((size_t)joint->param_count + (size_t)joint->statistic_count + 1) * sizeof *indices);
    struct seat *seats = zt_calloc((size_t)joint->param_count + 1, sizeof *seats);
    struct zt_flat **flats = ZT_NEW_N(p->arena, struct zt_flat *, p->grid.stages);
    for (int s = 0; s < p->grid.stages; s++)
        flats[s] = lay_out_stage(q, joint, s, indices, seats);
    p->flat = flats[p->grid.stage];
    p->param_initial = ZT_NEW_N(p->arena, const void *, p->flat->tensor_count + 1);
    for (int i = 0; i < joint->param_count; i++)
        if (seats[i].stage == p->grid.stage)
            p->param_initial[seats[i].tensor] = g->values[joint->params[i]].data;
    tie_stages(q, joint, seats, flats);
    free(seats);
    list_model(p, joint, true, p->param_model = ZT_NEW_N(p->arena, int, p->flat->tensor_count + 1));
    p->cuts = zt_arena_copy(p->arena, joint->cuts, ((size_t)p->grid.stages + 1) * sizeof *p->cuts);
    p->statistic_total = zt_program_statistics(joint, p->grid.stage, indices);
    list_model(p, joint, false, p->statistic_model = ZT_NEW_N(p->arena, int, p->statistic_total + 1));
    p->statistic_offset = ZT_NEW_N(p->arena, int64_t, p->statistic_total + 1);
    p->statistic_count = ZT_NEW_N(p->arena, int64_t, p->statistic_total + 1);
    p->statistic_name = ZT_NEW_N(p->arena, const char *, p->statistic_total + 1);
    p->statistic_initial = ZT_NEW_N(p->arena, const void *, p->statistic_total + 1);
    for (int i = 0; i < p->statistic_total; i++) {
        const struct zt_value *v = &g->values[joint->statistics[indices[i]]];
        p->statistic_offset[i] = p->statistic_bytes;
        p->statistic_count[i] = zt_shape_count(&v->shape);
        p->statistic_name[i] = zt_arena_strdup(p->arena, v->name);
        p->statistic_initial[i] = v->data;
        p->statistic_bytes += (p->statistic_count[i] * (int64_t)sizeof(float) + 63) / 64 * 64;
    }
    free(indices);
}

/* The h of "auto" (reference/deepspeed.md, section 1.3): the most frequent trailing dimension of the weight matrices,
 * the larger one of two; 0 without matrices. */
static int64_t hidden_size(const struct zt_joint *joint) {
    int64_t best = 0;
    int best_count = 0;
    for (int i = 0; i < joint->param_count; i++) {
        const struct zt_shape *shape = &joint->graph->values[joint->params[i]].shape;
        int count = 0;
        for (int k = 0; shape->rank == 2 && k < joint->param_count; k++) {
            const struct zt_shape *other = &joint->graph->values[joint->params[k]].shape;
            count += other->rank == 2 && other->dim[1] == shape->dim[1];
        }
        if (count > best_count || (count && count == best_count && shape->dim[1] > best)) {
            best_count = count;
            best = shape->dim[1];
        }
    }
    return best;
}

static int64_t lesser(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t largest_bucket(const struct zt_flat *flat) {
    int64_t largest = 0;
    for (int b = 0; b < flat->bucket_count; b++)
        if (flat->bucket[b + 1] - flat->bucket[b] > largest)
            largest = flat->bucket[b + 1] - flat->bucket[b];
    return largest;
}

/* What is "auto" must not undo what stage 3 is for: ahead is at most the largest bucket, and what is kept whole takes
 * at most a hundredth of what the rank owns, or nothing where that is less than a block. */
static void plan_traffic(struct planner *q, const struct zt_joint *joint) {
    struct zt_rank_plan *p = q->plan;
    const struct zt_zero_config *c = &q->job->config->zero;
    double h = (double)hidden_size(joint);
    p->traffic = (struct zt_traffic){ .overlap = c->overlap_comm,
                                      .prefetch = c->prefetch_bucket_size,
                                      .max_live = c->max_live_parameters,
                                      .reuse_distance = c->max_reuse_distance };
    if (c->prefetch_bucket_size < 0)
        p->traffic.prefetch = lesser((int64_t)(0.9 * h * h), largest_bucket(p->flat));
    int64_t each = c->param_persistence_threshold, together = c->model_persistence_threshold;
    if (each < 0) {
        int64_t hundredth = p->flat->count / p->flat->ranks / 100;
        each = (int64_t)(10 * h);
        together = lesser(together, hundredth < ZT_SLICE_BLOCK ? 0 : hundredth);
    }
    if (p->sharding->parameters)
        zt_flat_keep(p->arena, p->flat, each, together);
}

/* What the config says of recomputation, for one stage. */
static struct zt_recompute recompute_of(const struct planner *q) {
    const struct zt_recompute_config *c = &q->job->config->recompute;
    struct zt_recompute how = { .names = c->names.at, .name_count = c->names.count, .layers = c->layers };
    if (c->enabled)
        how.segments = c->segments ? (c->segments + q->plan->grid.stages - 1) / q->plan->grid.stages : -1;
    how.room = q->room;
    return how;
}

/* Globs of ztrain.recompute that no node of the model fits. */
static void note_idle_names(const struct planner *q, struct zt_joint *joint) {
    const struct zt_texts *names = &q->job->config->recompute.names;
    struct zt_arena *arena = joint->graph->arena;
    const char **notes = ZT_NEW_N(arena, const char *, joint->note_count + names->count + 1);
    if (joint->note_count)
        memcpy(notes, joint->notes, (size_t)joint->note_count * sizeof *notes);
    for (int i = 0; i < names->count; i++)
        if (!zt_recompute_fits(joint->graph, names->at[i]))
            notes[joint->note_count++] =
                zt_arena_printf(arena, "ztrain.recompute: no node's name fits \"%s\"", names->at[i]);
    joint->notes = notes;
}

/* The program of `rows` samples: of this rank's stage, or with `loss` of what mode dp runs on rank 0 alone. */
static bool add_program(struct planner *q, int64_t rows, bool training, bool padded, bool loss) {
    struct zt_rank_plan *p = q->plan;
    struct zt_program_set *set = loss       ? (training ? &p->loss_train : &p->loss_evaluation)
                                 : training ? &p->train
                                            : &p->evaluation;
    struct zt_joint_request request = { .rows = rows,
                                        .training = training,
                                        .weighted = padded && !p->replicas,
                                        .cut_loss = p->replicas,
                                        .stages = p->grid.stages,
                                        .cuts = p->cuts };
    struct zt_joint joint;
    if (rows <= 0 || find(p, set, rows, padded && !p->replicas))
        return true;
    if (padded && !q->job->loss)
        return zt_fail(
            q->err, ZT_EXIT_CONFIG,
            "the last batch of the data does not divide among %d ranks, and a loss that is a graph output cannot "
            "leave samples out: set drop_last",
            p->grid.data);
    if (!zt_job_joint(q->job,
                      training            ? q->o->source
                      : q->o->eval_source ? q->o->eval_source
                                          : q->o->source,
                      &request, &joint, q->err))
        return false;
    if (!p->flat) {
        lay_out_parameters(q, &joint);
        plan_traffic(q, &joint);
    }
    if (training)
        note_idle_names(q, &joint);
    if (!loss) { /* which not all ranks have */
        stir_int(&p->hash, rows);
        stir_graph(&p->hash, joint.graph);
    }
    const struct zt_recompute again = recompute_of(q);
    struct zt_program_options options = { .table = &zt_ops,
                                          .recompute = &again,
                                          .fusion = &q->job->fusion,
                                          .fast = q->o->elsewhere ? ZT_REF
                                                  : q->o->device  ? (enum zt_backend)q->o->device->api->backend
                                                                  : ZT_CPU,
                                          .threads = q->o->threads,
                                          .device = q->o->device,
                                          .flat = loss ? zt_flat_make(p->arena, NULL, 0, 1, 0) : p->flat,
                                          .sharding = loss ? zt_sharding_of(0) : p->sharding,
                                          .traffic = &p->traffic,
                                          .data_rank = p->grid.data_rank,
                                          .stage = p->replicas ? loss : p->grid.stage,
                                          .stages = p->replicas ? 2 : p->grid.stages,
                                          .accumulates = p->full.micro_batches > 1,
                                          .statistic_offset = p->statistic_offset };
    struct zt_program *program = zt_program_create(&joint, &options, q->err);
    if (!program)
        return false;
    set->at[set->count++] = program;
    return true;
}

/* Both list what crosses in the order of value ids, which must be of the same values. */
static bool rows_fit(const struct zt_crossings *loss, int64_t loss_rows, const struct zt_crossings *model,
                     int64_t model_rows) {
    bool fit = loss->count == model->count;
    for (int i = 0; fit && i < loss->count; i++)
        fit = loss->at[i].bytes / (size_t)loss_rows == model->at[i].bytes / (size_t)model_rows;
    return fit;
}

static bool add_loss_program(struct planner *q, const struct zt_step_shape *shape, bool training, bool last) {
    const struct zt_rank_plan *p = q->plan;
    int64_t rows = last ? shape->last_rows : shape->rows, loss_rows = zt_rank_loss_rows(p, shape, last);
    if (!add_program(q, loss_rows, training, false, true))
        return false;
    const struct zt_program *loss = find(p, training ? &p->loss_train : &p->loss_evaluation, loss_rows, false),
                            *model = find(p, training ? &p->train : &p->evaluation, rows, false);
    if (loss->derived_bytes || !rows_fit(&loss->recv_act, loss_rows, &model->send_act, rows) ||
        !rows_fit(&loss->send_grad, loss_rows, &model->recv_grad, rows))
        return zt_fail(q->err, ZT_EXIT_MODEL,
                       "mode \"dp\": what the loss reads for %lld rows is not what replicas make for %lld",
                       (long long)loss_rows, (long long)rows);
    return true;
}

static bool add_programs(struct planner *q, const struct zt_step_shape *shape, bool training) {
    const struct zt_rank_plan *p = q->plan;
    bool many = shape->micro_batches > 1, loss = p->replicas && p->grid.rank == 0 && shape->samples > 0;
    return add_program(q, many ? shape->rows : 0, training, false, false) &&
           add_program(q, shape->last_rows, training, shape->padded, false) &&
           (!loss ||
            ((!many || add_loss_program(q, shape, training, false)) && add_loss_program(q, shape, training, true)));
}

static bool make_schedule(struct planner *q, int micro_batches, bool training, struct zt_schedule *to) {
    struct zt_rank_plan *p = q->plan;
    struct zt_schedule_shape shape = { micro_batches, p->grid.stages, 1, p->grid.stage };
    if (!micro_batches)
        return true;
    bool ok = p->replicas ? zt_schedule_make_replicas(p->arena, micro_batches, p->grid.rank == 0, training, to, q->err)
              : training  ? zt_schedule_make(p->arena, q->job->config->parallel.schedule, &shape, to, q->err)
                          : zt_schedule_make_forward(p->arena, &shape, to, q->err);
    if (to->slots > p->slots)
        p->slots = to->slots;
    return ok;
}

static bool make_schedules(struct planner *q) {
    struct zt_rank_plan *p = q->plan;
    bool ok = make_schedule(q, p->full.micro_batches, true, &p->full_schedule) &&
              make_schedule(q, p->tail.micro_batches, true, &p->tail_schedule) &&
              make_schedule(q, q->o->eval_source != NULL, false, &p->eval_schedule);
    p->keeps_input = p->replicas ? p->grid.rank != 0 : p->slots > 1;
    return ok;
}

static void widen(int64_t *to, int64_t value) {
    if (value > *to)
        *to = value;
}

int64_t zt_rank_bytes_total(const struct zt_rank_bytes *b) {
    return b->parameters + b->gradients + b->optimizer + b->activations + b->workspace;
}

static int64_t held(const struct zt_rank_plan *p, bool sharded, int data_rank) {
    return (sharded ? p->flat->owned[data_rank] : p->flat->count) * (int64_t)sizeof(float);
}

/* Elements whose optimizer state a rank holds. */
static int64_t stepped(const struct zt_rank_plan *p, int data_rank) {
    return p->sharding->optimizer ? zt_flat_stepped_by(p->flat, data_rank) : zt_flat_stepped(p->flat);
}

struct zt_rank_bytes zt_rank_plan_bytes(const struct zt_rank_plan *p, int data_rank) {
    bool training = p->gradient_bytes > 0;
    return (struct zt_rank_bytes){
        .parameters = held(p, p->sharding->parameters, data_rank) + p->statistic_bytes + p->derived_bytes,
        .gradients = training ? held(p, p->sharding->gradients, data_rank) : 0,
        .optimizer = training ? stepped(p, data_rank) * (int64_t)sizeof(float) * p->optimizer_states : 0,
        .activations = p->activation_bytes - (data_rank == 0 ? 0 : p->loss_activation_bytes),
        .workspace = p->workspace_bytes,
    };
}

int zt_rank_plan_largest(const struct zt_rank_plan *p) {
    int largest = 0;
    for (int r = 1; r < p->flat->ranks; r++)
        if (p->flat->owned[r] > p->flat->owned[largest])
            largest = r;
    return largest;
}

static void count_bytes(struct zt_rank_plan *p, const struct zt_config *c, bool training) {
    const struct zt_optimizer *optimizer = c->optimizer.type ? zt_optimizer_find(c->optimizer.type) : NULL;
    int me = p->grid.data_rank;
    if (optimizer)
        p->optimizer_states = optimizer->states_used ? optimizer->states_used(&c->optimizer) : optimizer->states;
    p->parameter_bytes = held(p, p->sharding->parameters, me) + p->statistic_bytes;
    if (training) {
        p->gradient_bytes = held(p, p->sharding->gradients, me);
        p->optimizer_bytes = stepped(p, me) * (int64_t)sizeof(float) * p->optimizer_states;
        for (int i = 0; i < p->tie_count; i++)
            widen(&p->workspace_bytes, p->ties[i].home ? p->ties[i].count * (int64_t)sizeof(float) : 0);
    }
    const struct zt_program_set *sets[2] = { &p->train, &p->evaluation };
    int in_flight = p->replicas ? 1 : p->slots;
    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < sets[s]->count; i++) {
            widen(&p->derived_bytes, sets[s]->at[i]->derived_bytes);
            widen(&p->activation_bytes, sets[s]->at[i]->activation_bytes * (s == 0 ? in_flight : 1));
            widen(&p->workspace_bytes, sets[s]->at[i]->workspace_bytes);
        }
    }
    const struct zt_program_set *loss[2] = { &p->loss_train, &p->loss_evaluation };
    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < loss[s]->count; i++) {
            widen(&p->loss_activation_bytes, loss[s]->at[i]->activation_bytes);
            widen(&p->workspace_bytes, loss[s]->at[i]->workspace_bytes);
        }
    }
    p->activation_bytes = (p->activation_bytes + 63) / 64 * 64 + p->loss_activation_bytes;
    const struct zt_graph *g = p->train.count ? p->train.at[0]->joint.graph : NULL;
    for (int n = 0; g && n < g->node_count; n++)
        p->flops += zt_op_flops(g, n);
}

static bool plan_training(struct planner *q, const struct zt_config *c) {
    struct zt_rank_plan *p = q->plan;
    int64_t samples = q->o->source ? q->o->source->samples : c->train_batch;
    int64_t rest = c->data.drop_last ? 0 : samples % c->train_batch;
    p->full = zt_step_shape(samples >= c->train_batch ? c->train_batch : 0, c->micro_batch, p->grid.data);
    p->tail = zt_step_shape(rest, c->micro_batch, p->grid.data);
    p->whole_steps = samples / c->train_batch;
    if (!p->full.samples && p->tail.samples) { /* fewer samples than one batch: the tail is all there is */
        p->full = p->tail;
        p->tail = (struct zt_step_shape){ 0 };
        p->whole_steps = 1;
    }
    return add_programs(q, &p->full, true) && add_programs(q, &p->tail, true);
}

static bool plan_evaluation(struct planner *q, const struct zt_config *c) {
    struct zt_rank_plan *p = q->plan;
    int64_t rows = p->eval_rows < c->micro_batch ? p->eval_rows : c->micro_batch, together = rows * p->grid.data;
    if (!q->o->eval_source)
        return true;
    struct zt_step_shape full =
        zt_step_shape(q->o->eval_source->samples >= together ? together : 0, rows, p->grid.data);
    struct zt_step_shape tail = zt_step_shape(q->o->eval_source->samples % together, rows, p->grid.data);
    return add_programs(q, &full, false) && add_programs(q, &tail, false);
}

/* What a memory limit leaves: bytes that the activations of a micro-batch should take at most (0: any), and rows of an
 * evaluation's micro-batch. */
struct squeeze {
    int64_t room, eval_rows;
};

static struct zt_rank_plan *make(const struct zt_job *job, const struct zt_rank_options *o, const struct squeeze *to,
                                 struct zt_err *err) {
    struct zt_arena *arena = zt_arena_create();
    struct zt_rank_plan *p = ZT_NEW(arena, struct zt_rank_plan);
    const struct zt_config *c = job->config;
    struct planner q = { p, job, o, to->room, err };
    p->arena = arena;
    p->hash = ZT_HASH_START;
    p->eval_rows = to->eval_rows;
    p->job = job;
    p->source = o->source;
    p->eval_source = o->eval_source;
    p->eval_samples = o->eval_source ? o->eval_source->samples : 0;
    p->slots = 1;
    struct zt_program_set *sets[] = { &p->train, &p->evaluation, &p->loss_train, &p->loss_evaluation };
    for (int i = 0; i < 4; i++)
        sets[i]->at = ZT_NEW_N(arena, struct zt_program *, 8);
    bool training = o->source != NULL || !o->eval_source;
    if (!zt_grid_make(c->ranks, c->parallel.stages, o->rank, &p->grid, err)) {
        zt_rank_plan_destroy(p);
        return NULL;
    }
    p->replicas = p->grid.data > 1 && strcmp(c->parallel.mode, "dp") == 0;
    p->sharding = p->replicas ? zt_sharding_replicas()
                              : zt_sharding_of(p->grid.data > 1 ? c->zero.stage : 0); /* one rank owns all */
    if ((training && !plan_training(&q, c)) || !plan_evaluation(&q, c) || !make_schedules(&q)) {
        zt_rank_plan_destroy(p);
        return NULL;
    }
    if (!p->flat) { /* no program of any size was asked for */
        zt_fail(err, ZT_EXIT_DATA, "there are fewer samples than the %lld of a step, and drop_last leaves none",
                (long long)c->train_batch);
        zt_rank_plan_destroy(p);
        return NULL;
    }
    count_bytes(p, c, training);
    stir_config(&p->hash, p, c);
    return p;
}

/* ---- the memory limit ---- */

enum { LIMIT_TRIES = 6 };

/* What the rank of the stage that owns most needs: data-parallel ranks must choose alike, since they meet in
 * collectives whose order recomputation may move. */
static int64_t most_bytes(const struct zt_rank_plan *p) {
    struct zt_rank_bytes bytes = zt_rank_plan_bytes(p, zt_rank_plan_largest(p));
    return zt_rank_bytes_total(&bytes);
}

static void refuse(const struct zt_rank_plan *p, const struct zt_config *c, struct zt_err *err) {
    struct zt_rank_bytes b = zt_rank_plan_bytes(p, zt_rank_plan_largest(p));
    char t[7][32];
    zt_fail(
        err, ZT_EXIT_CONFIG,
        "ztrain.memory_limit: %s a rank, but stage %d needs %s at least: parameters %s, gradients %s, optimizer %s, "
        "activations %s, workspace %s",
        zt_format_bytes(t[0], (double)c->memory_limit), p->grid.stage, zt_format_bytes(t[1], (double)most_bytes(p)),
        zt_format_bytes(t[2], (double)b.parameters), zt_format_bytes(t[3], (double)b.gradients),
        zt_format_bytes(t[4], (double)b.optimizer), zt_format_bytes(t[5], (double)b.activations),
        zt_format_bytes(t[6], (double)b.workspace));
    struct zt_text help = { 0 };
    if (c->micro_batch > 1)
        zt_text_add(&help, "a smaller train_micro_batch_size_per_gpu (found %lld); ", (long long)c->micro_batch);
    if (p->grid.data > 1 && !p->sharding->parameters)
        zt_text_add(&help, "zero_optimization.stage %d to 3; ", c->zero.stage + 1);
    if (c->recompute.names.count || c->recompute.enabled || c->recompute.layers)
        zt_text_add(&help, "leaving the choice of what to recompute to the limit; ");
    zt_hint(err, "what would help: %smore ranks or pipeline.stages; ztrain.plan \"auto\" chooses",
            help.at ? help.at : "");
    zt_text_finish(&help);
}

static int64_t activations(const struct zt_program_set *set) {
    int64_t bytes = 0;
    for (int i = 0; i < set->count; i++)
        widen(&bytes, set->at[i]->activation_bytes);
    return bytes;
}

/* Asks for less where the plan is above `target` bytes of activations; false: nothing more can be asked for. What the
 * pass reckoned without, layouts and fragments, is taken off the next time. */
static bool squeeze(const struct zt_rank_plan *p, const struct zt_config *c, int64_t target, struct squeeze *to) {
    bool chosen = c->recompute.names.count || c->recompute.enabled || c->recompute.layers;
    int64_t train = activations(&p->train) * p->slots, evaluation = activations(&p->evaluation);
    if (target <= 0)
        return false;
    if (train > target) {
        if (chosen)
            return false;
        double room = to->room ? (double)to->room * (double)target / (double)train * 0.98 : (double)target / p->slots;
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
        int64_t target = c->memory_limit - (most_bytes(p) - p->activation_bytes);
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
    const struct zt_program_set *sets[] = { &p->train, &p->evaluation, &p->loss_train, &p->loss_evaluation };
    for (int s = 0; s < 4; s++)
        for (int i = 0; i < sets[s]->count; i++)
            zt_program_destroy(sets[s]->at[i]);
    zt_arena_destroy(p->arena);
}

bool zt_rank_plan_loader(const struct zt_rank_plan *p, bool training, int64_t first, int64_t steps,
                         struct zt_loader **to, struct zt_err *err) {
    const struct zt_config *c = p->job->config;
    int64_t rows = training ? c->micro_batch : p->eval_rows, together = rows * p->grid.data;
    struct zt_loader_options options = { .source = training ? p->source : p->eval_source,
                                         .train_batch = training ? c->train_batch : together,
                                         .micro_batch = p->replicas ? together : rows,
                                         .accumulation = training ? (int)c->accumulation : 1,
                                         .rank = p->replicas ? 0 : p->grid.data_rank,
                                         .ranks = p->replicas ? 1 : p->grid.data,
                                         .shuffle = training && c->data.shuffle,
                                         .drop_last = training && c->data.drop_last,
                                         .seed = (uint64_t)c->seed,
                                         .first_step = training ? first : 0,
                                         .steps =
                                             training ? steps - first : (p->eval_samples + together - 1) / together,
                                         .depth = 2 };
    *to = NULL;
    return (p->replicas && p->grid.rank != 0) || (*to = zt_loader_create(&options, err)) != NULL;
}
