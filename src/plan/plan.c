#include "plan/plan.h"

#include "plan/file_work.h"
#include "plan/matrices.h"
#include "plan/rank_bytes.h"

#include <stdlib.h>

static const struct zt_program *training(const struct zt_rank_plan *p) {
    return p->programs.train.count ? p->programs.train.at[0] : NULL;
}

/* Bytes of a rank's slices of the weights, as one array of floats. */
static int64_t stepped_bytes(const struct zt_rank_plan *p) {
    return zt_rank_plan_stepped(p, zt_rank_plan_largest(p)) * (int64_t)sizeof(float);
}

static bool make_stage(struct zt_plan *plan, const struct zt_plan_options *o, int stage, struct zt_err *err) {
    if (o->known && o->known->grid.stage == stage) {
        plan->stage[stage] = o->known;
        return true;
    }
    struct zt_rank_options options = { .source = o->source,
                                       .eval_source = o->eval_source,
                                       .rank = zt_grid_rank(&plan->grid, stage, 0),
                                       .device = o->device,
                                       .threads = o->threads,
                                       .elsewhere = o->elsewhere };
    plan->made[stage] = zt_rank_plan_create(plan->job, &options, err);
    plan->stage[stage] = plan->made[stage];
    return plan->made[stage] != NULL;
}

/* Bytes that a replica reads for a full micro-batch. */
static int64_t input_bytes(const struct zt_rank_plan *p) {
    const struct zt_training_graph *j = &training(p)->training_graph;
    int64_t bytes = 0;
    for (int i = 0; i < j->column_count; i++)
        bytes += j->columns[i] >= 0 ? (int64_t)p->source->column[i].sample_bytes * j->rows : 0;
    return bytes;
}

bool zt_plan_predict(struct zt_plan *plan, const struct zt_machine *machine, const double *const *times,
                     struct zt_err *err) {
    int stages = plan->grid.stages;
    plan->machine = *machine;
    plan->cost = ZT_NEW_N(plan->arena, struct zt_stage_cost, stages);
    struct zt_schedule *schedules = ZT_NEW_N(plan->arena, struct zt_schedule, stages);
    for (int s = 0; s < stages; s++) {
        const struct zt_rank_plan *p = plan->stage[s];
        if (!training(p))
            return true;
        struct zt_command *after = ZT_NEW_N(plan->arena, struct zt_command, 2 * p->tensors.flat->bucket_count + 1);
        int after_count = zt_collectives_after_step(p->tensors.flat, p->sharding, after);
        /* the norm reads the gradients; the optimizer reads weight, gradient and states and writes weight and states */
        int64_t norm = stepped_bytes(p);
        struct zt_stage_work work = { .program = training(p),
                                      .micro_batches = p->steps.full.micro_batches,
                                      .flats = zt_rank_flats(&p->tensors),
                                      .after = after,
                                      .after_count = after_count,
                                      .reduce_width = (int64_t)zt_dtype_bytes(zt_rank_plan_wire(p)),
                                      .norm_bytes = norm,
                                      .update_bytes = norm * (3 + 2 * p->memory.optimizer_states),
                                      .update_flops = zt_plan_matrix_flops(p),
                                      .files = zt_plan_file_work(p),
                                      .times = times ? times[s] : NULL };
        zt_cost_stage(plan->arena, &plan->machine, &plan->grid, &work, &plan->cost[s]);
        if (p->programs.loss_train.count)
            zt_cost_replicas(&plan->machine, &plan->grid, training(p), p->programs.loss_train.at[0], input_bytes(p),
                             &plan->cost[s]);
        schedules[s] = p->steps.full_schedule;
    }
    return zt_simulate(
        plan->arena, &(struct zt_simulation){ stages, schedules, plan->cost, plan->stage[0]->steps.full.micro_batches },
        &plan->timeline, err);
}

struct zt_plan *zt_plan_create(const struct zt_job *job, const struct zt_plan_options *o, struct zt_err *err) {
    struct zt_arena *arena = zt_arena_create();
    struct zt_plan *plan = ZT_NEW(arena, struct zt_plan);
    *plan = (struct zt_plan){ .arena = arena, .job = job, .elsewhere = o->elsewhere };
    bool ok = zt_grid_make(job->config->ranks, job->config->parallel.stages, 0, &plan->grid, err);
    plan->stage = ZT_NEW_N(arena, const struct zt_rank_plan *, plan->grid.stages + 1);
    plan->made = ZT_NEW_N(arena, struct zt_rank_plan *, plan->grid.stages + 1);
    for (int s = 0; ok && s < plan->grid.stages; s++)
        ok = make_stage(plan, o, s, err);
    if (ok && zt_plan_predict(plan, o->machine, NULL, err)) {
        plan->hash = plan->stage[0]->hash;
        return plan;
    }
    zt_plan_destroy(plan);
    return NULL;
}

void zt_plan_destroy(struct zt_plan *plan) {
    for (int s = 0; plan && s < plan->grid.stages; s++)
        zt_rank_plan_destroy(plan->made[s]);
    if (plan)
        zt_arena_destroy(plan->arena);
}

struct zt_rank_bytes zt_plan_bytes(const struct zt_plan *plan, int stage, int data_rank) {
    return zt_rank_plan_bytes(plan->stage[stage], data_rank);
}

int64_t zt_plan_most_bytes(const struct zt_plan *plan) {
    int64_t most = 0;
    for (int s = 0; s < plan->grid.stages; s++) {
        struct zt_rank_bytes bytes = zt_plan_bytes(plan, s, zt_rank_plan_largest(plan->stage[s]));
        if (zt_rank_bytes_total(&bytes) > most)
            most = zt_rank_bytes_total(&bytes);
    }
    return most;
}

double zt_plan_flops(const struct zt_plan *plan) {
    double flops = 0;
    for (int s = 0; s < plan->grid.stages; s++)
        flops += plan->stage[s]->flops * plan->stage[s]->steps.full.micro_batches * plan->grid.data;
    return flops;
}
