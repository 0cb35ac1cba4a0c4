#include "run/evaluate.h"

#include "run/rank/instruct.h"

#include <math.h>

/* Evaluation uses the running statistics of data-parallel rank 0, like the model file and checkpoints; the statistics
 * of other ranks come from other samples. */
static bool share_statistics(struct zt_rank *r, struct zt_err *err) {
    struct zt_place place = { ZT_STATISTICS, 0 };
    int64_t bytes = r->plan->tensors.statistic_bytes;
    return bytes == 0 || r->data->size == 1 ||
           r->bulk_data->api->broadcast(r->bulk_data, zt_rank_at(r, NULL, &place, NULL), (size_t)bytes, 0, err);
}

/* Adds the correct and counted targets of the micro-batch just run. */
static bool add_counts(struct zt_rank *r, const struct zt_instruction_context *t, double *sums, struct zt_err *err) {
    int chunk = r->plan->programs.loss_evaluation.count > 0;
    const struct zt_program *p = zt_instruction_program(r, t, chunk, 0);
    const struct zt_slot *slot = &r->slots[chunk];
    double correct, counted;
    if (!zt_rank_read_scalar(r, p, slot, p->training_graph.correct, &correct, err) ||
        !zt_rank_read_scalar(r, p, slot, p->training_graph.correct >= 0 ? p->training_graph.counted : -1, &counted,
                             err))
        return false;
    if (slot->samples > 0) {
        sums[0] += correct;
        sums[1] += counted;
    }
    return true;
}

bool zt_rank_evaluate(struct zt_rank *r, struct zt_loader *loader, struct zt_eval_result *result, struct zt_err *err) {
    const struct zt_rank_plan *p = r->plan;
    int64_t together = p->steps.eval_rows * p->grid.data, samples = p->steps.eval_samples;
    double sums[3] = { 0 }; /* correct, counted, loss times samples */
    r->loss = 0;
    if (!share_statistics(r, err))
        return false;
    for (int64_t done = 0; done < samples; done += together) {
        int64_t now = samples - done < together ? samples - done : together;
        struct zt_step_shape shape = zt_step_shape(now, p->steps.eval_rows, p->grid.data);
        struct zt_instruction_context context = { loader, p->eval_source, &shape, false };
        for (int i = 0; i < p->steps.eval_schedule.count; i++)
            if (!zt_rank_instruct(r, &context, &p->steps.eval_schedule.at[i], err))
                return false;
        if (!add_counts(r, &context, sums, err))
            return false;
    }
    sums[2] = r->loss;
    if (!r->world->api->sum(r->world, sums, 3, err))
        return false;
    result->loss = sums[2] / (double)samples;
    result->accuracy = sums[1] > 0 ? sums[0] / sums[1] : NAN;
    return true;
}
