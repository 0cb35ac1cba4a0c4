/* The step as a list of instructions. Nothing is allocated. */
#include "run/step.h"

#include "run/rank/device_step.h"
#include "run/rank/before_update.h"
#include "run/rank/instruct.h"
#include "run/rank/node_hashes.h"
#include "run/rank/times.h"
#include "run/timers/timers.h"

/* An instruction begins or has ended. */
static void tell(const struct zt_rank *r, enum zt_instruction_op op, bool ended) {
    const struct zt_rank_progress *p = r->progress;
    if (p && op == ZT_DO_FORWARD)
        p->at(p->with, ended ? ZT_RANK_AFTER_FORWARD : ZT_RANK_BEFORE_FORWARD);
    if (p && op == ZT_DO_BACKWARD)
        p->at(p->with, ended ? ZT_RANK_AFTER_BACKWARD : ZT_RANK_BEFORE_BACKWARD);
    if (p && op == ZT_DO_CLIP && !ended)
        p->at(p->with, ZT_RANK_BEFORE_STEP);
}

bool zt_rank_begin(struct zt_rank *r, struct zt_loader *loader, int64_t step, struct zt_err *err) {
    const struct zt_rank_plan *p = r->plan;
    struct zt_epoch_place place = zt_epochs_at(&p->steps.epochs, step);
    const struct zt_step_shape shape = zt_rank_shape(&p->steps, step);
    const enum zt_step_kind kind = shape.samples == p->steps.full.samples ? ZT_STEP_FULL
                                   : shape.stream                         ? ZT_STEP_MIXED
                                                                          : ZT_STEP_TAIL;
    const struct zt_schedule *schedule = kind == ZT_STEP_TAIL ? &p->steps.tail_schedule : &p->steps.full_schedule;
    r->random.step = (uint64_t)step;
    r->first_sample = place.first;
    r->loss = 0;
    r->finite = true;
    zt_rank_one_bit_begin(r);
    struct zt_step_result *result = &r->begun[r->begun_count++];
    *result = (struct zt_step_result){
        .samples = shape.samples, .epoch = place.epoch, .batch = place.batch, .lr_state = &r->lr_state
    };
    result->lr = zt_rate_at(p->job->config, &r->lr_state, 0, r->updates).lr;
    zt_timers_begin(r->timers, step);
    if (!zt_rank_hashes_step(r, step, true, err) || (r->stepping && !zt_rank_stepping_begin(r, kind, err)))
        return false;
    struct zt_instruction_context context = { loader, p->source, &shape, true };
    for (int i = 0; i < schedule->count; i++) {
        tell(r, schedule->at[i].op, false);
        if (!zt_rank_instruct(r, &context, &schedule->at[i], err))
            return false;
        zt_timers_next(r->timers, (int)schedule->at[i].op, schedule->at[i].micro_batch);
        tell(r, schedule->at[i].op, true);
    }
    result->loss = r->loss / (double)shape.samples;
    result->grad_norm = r->norm;
    result->finite = r->finite;
    result->next = zt_rate_at(p->job->config, &r->lr_state, 0, r->updates);
    result->loss_scale = r->scaling.scale;
    if (!r->stepping)
        zt_scaling_step(&r->scaling, !r->finite);
    result->scaling = r->scaling;
    const double *requests = r->scalars + 1 + r->world->size;
    result->stop = zt_stop_signal(requests);
    result->save = result->stop || requests[ZT_REQUEST_SAVE] > 0;
    return zt_rank_times_end(r, err) && (!r->stepping || zt_rank_stepping_end(r, err)) &&
           zt_timers_end(r->timers, err) && zt_rank_hashes_step(r, step, false, err);
}

bool zt_rank_end(struct zt_rank *r, struct zt_step_result *result, struct zt_err *err) {
    *result = r->begun[0];
    r->begun[0] = r->begun[1];
    r->begun_count--;
    if (r->stepping && !zt_rank_stepping_read(r, result, err))
        return false;
    if (result->finite && zt_lr_observes(r->plan->job->config)) {
        zt_lr_add_step(&r->lr_state, result->loss, result->samples);
        zt_rank_lr_applied(r);
    }
    return true;
}

void zt_rank_end_epoch(struct zt_rank *r, const double *value) {
    const struct zt_config *config = r->plan->job->config;
    if (zt_lr_observes(config) && zt_lr_end_epoch(config, &r->lr_state, value) && r->stepping)
        zt_rank_stepping_rates(r);
}

bool zt_rank_step(struct zt_rank *r, struct zt_loader *loader, int64_t step, struct zt_step_result *result,
                  struct zt_err *err) {
    return zt_rank_begin(r, loader, step, err) && zt_rank_end(r, result, err);
}

bool zt_rank_runs_ahead(const struct zt_rank *r) {
    const bool asks =
        r->row && r->row->one_bit && r->data->size > 1; /* the number of updates decides what ranks exchange */
    return r->stepping != NULL && !asks;
}

bool zt_rank_asked(const struct zt_rank *r) {
    return r->begun_count > 0 && r->begun[r->begun_count - 1].save;
}
