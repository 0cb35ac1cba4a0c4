#include "run/forecast.h"

#include "base/file.h"
#include "base/process_memory.h"
#include "base/sort.h"
#include "base/text.h"
#include "plan/print.h"
#include "plan/profile.h"
#include "run/measure.h"
#include "run/rank/times.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COLD_STEPS = 2, MOST_STEPS = 4096 };

static bool write_plan(const struct zt_plan *plan, const char *folder, struct zt_err *err) {
    struct zt_file_out out;
    if (!zt_file_out_open_in(&out, folder, "plan.txt", err))
        return false;
    zt_plan_print(plan, out.stream);
    return zt_file_out_commit(&out, err);
}

bool zt_forecast_open(struct zt_forecast *f, const struct zt_session *s, const struct zt_rank_plan *known,
                      struct zt_device *device, const char *folder, struct zt_err *err) {
    struct zt_machine machine;
    struct zt_plan_options options = { .source = s->source,
                                       .eval_source = s->eval_source,
                                       .device = device,
                                       .threads = device->threads,
                                       .machine = &machine,
                                       .known = known };
    if (!zt_session_machine(s, device, &machine, err))
        return false;
    f->session = s;
    f->folder = folder;
    f->seconds = zt_malloc(MOST_STEPS * sizeof *f->seconds);
    f->plan = zt_plan_create(s->job, &options, err);
    return f->plan && write_plan(f->plan, folder, err);
}

bool zt_forecast_measure(struct zt_forecast *f, const struct zt_session *s, struct zt_device *device,
                         struct zt_comm *world, const char *folder, struct zt_err *err) {
    struct zt_machine machine;
    if (s->config->cluster[0] || device->module)
        return true;
    return zt_measure(world, device->threads, &machine, err) &&
           (!f->plan || (zt_plan_predict(f->plan, &machine, NULL, err) && write_plan(f->plan, folder, err)));
}

/* Kernel times of the timed steps, known to all ranks. */
struct timed {
    int steps;      /* number of timed steps */
    int step;       /* the step whose slowest rank took the median time */
    int64_t *first; /* by stage: first index in `times` */
    double *took;   /* by step and rank: time of all kernels */
    double *times;  /* the slowest rank of each stage in that step, one stage after the other */
};

static double slowest(const double *took, int ranks) {
    double most = 0;
    for (int r = 0; r < ranks; r++)
        most = took[r] > most ? took[r] : most;
    return most;
}

static bool find_step(struct timed *t, const struct zt_rank *run, struct zt_comm *world, struct zt_err *err) {
    double *by_step = zt_calloc(2 * (size_t)t->steps, sizeof *by_step), *sorted = by_step + t->steps;
    for (int k = 0; k < t->steps; k++)
        t->took[k * world->size + world->rank] = zt_rank_timed_step(run, k);
    bool ok = world->api->sum(world, t->took, t->steps * world->size, err);
    for (int k = 0; k < t->steps; k++)
        sorted[k] = by_step[k] = slowest(t->took + k * world->size, world->size);
    zt_sort_doubles(sorted, t->steps);
    while (by_step[t->step] != sorted[t->steps / 2])
        t->step++;
    free(by_step);
    return ok;
}

/* Whether this rank took the longest of the data-parallel ranks of its stage (the first of equal ones). */
static bool is_slowest(const struct timed *t, const struct zt_grid *grid) {
    const double *took = t->took + t->step * grid->world;
    int found = zt_grid_rank(grid, grid->stage, 0);
    for (int r = 1; r < grid->data; r++)
        if (took[zt_grid_rank(grid, grid->stage, r)] > took[found])
            found = zt_grid_rank(grid, grid->stage, r);
    return found == grid->rank;
}

static bool share_times(struct timed *t, const struct zt_rank_plan *own, const struct zt_rank *run,
                        struct zt_comm *world, struct zt_err *err) {
    int stages = own->grid.stages, mine = own->grid.stage;
    bool kernels = is_slowest(t, &own->grid), parts = own->replicas ? own->grid.rank == 0 : kernels;
    double *counts = zt_calloc((size_t)stages, sizeof *counts);
    int64_t total = 0;
    counts[mine] = kernels ? zt_rank_plan_times(own) : 0;
    bool ok = world->api->sum(world, counts, stages, err);
    for (int s = 0; ok && s < stages; s++) {
        t->first[s] = total;
        total += (int64_t)counts[s];
    }
    free(counts);
    t->times = zt_calloc((size_t)total + 1, sizeof *t->times);
    double *mine_at = t->times + t->first[mine];
    if (ok && (kernels || parts))
        zt_rank_timed(run, t->step, mine_at);
    for (int i = 0; ok && i < zt_rank_plan_times(own); i++) /* zero, because another rank contributes the times */
        mine_at[i] = (i < ZT_PARTS ? parts : kernels) ? mine_at[i] : 0;
    return ok && world->api->sum(world, t->times, (int)total, err);
}

static double median_step(const struct zt_forecast *f) {
    if (!f->count)
        return f->latest;
    double *sorted = zt_malloc((size_t)f->count * sizeof *sorted);
    memcpy(sorted, f->seconds, (size_t)f->count * sizeof *sorted);
    zt_sort_doubles(sorted, f->count);
    const double median = sorted[f->count / 2];
    free(sorted);
    return median;
}

static bool show_profile(const struct zt_forecast *f, const double *const *times, struct zt_err *err) {
    const struct zt_profile profile = { f->plan, times, median_step(f) };
    struct zt_text path = { 0 };
    zt_profile_say(&profile, &f->session->options->log);
    zt_text_add(&path, "%s/profile.tsv", f->folder);
    bool ok = zt_profile_write(&profile, path.at, err);
    zt_text_finish(&path);
    return ok;
}

static bool use_times(struct zt_forecast *f, const struct timed *t, struct zt_err *err) {
    int stages = f->plan->grid.stages;
    const double **times = zt_calloc((size_t)stages, sizeof *times);
    for (int s = 0; s < stages; s++)
        times[s] = t->times + t->first[s];
    bool ok = !f->session->options->profile || show_profile(f, times, err);
    if (ok && !f->session->config->cluster[0])
        ok = zt_plan_predict(f->plan, &f->plan->machine, times, err) && write_plan(f->plan, f->folder, err);
    free(times);
    return ok;
}

bool zt_forecast_times(struct zt_forecast *f, const struct zt_rank_plan *own, const struct zt_rank *run, int steps,
                       struct zt_comm *world, struct zt_err *err) {
    struct timed t = { .steps = steps,
                       .first = zt_calloc((size_t)own->grid.stages, sizeof *t.first),
                       .took = zt_calloc((size_t)world->size * (size_t)steps, sizeof *t.took) };
    bool ok =
        find_step(&t, run, world, err) && share_times(&t, own, run, world, err) && (!f->plan || use_times(f, &t, err));
    free(t.first);
    free(t.took);
    free(t.times);
    return ok;
}

void zt_forecast_step(struct zt_forecast *f, int64_t step, int64_t samples, double seconds) {
    if (!f->plan || samples != f->plan->stage[0]->full.samples)
        return;
    f->latest = seconds;
    if (step < COLD_STEPS || f->count == MOST_STEPS)
        return;
    f->seconds[f->count++] = seconds;
}

void zt_forecast_report(const struct zt_forecast *f, const struct zt_session *s) {
    char planned[32], there[32];
    if (!f->plan || !f->count)
        return;
    double median = median_step(f), predicted = f->plan->timeline.seconds;
    struct zt_rank_bytes bytes = zt_plan_bytes(f->plan, 0, 0);
    zt_say(&s->options->log, ZT_LOG_INFO,
           "Plan: predicted step %.3f ms, median of %d steps %.3f ms (%+.0f %%) | planned %s a rank, process %s%s",
           1e3 * predicted, f->count, 1e3 * median, 100 * (predicted / median - 1),
           zt_format_bytes(planned, (double)zt_rank_bytes_total(&bytes)),
           zt_format_bytes(there, (double)zt_process_memory_of(getpid()).now),
           s->processes || s->config->ranks == 1 ? "" : " of all ranks");
}

void zt_forecast_finish(struct zt_forecast *f) {
    zt_plan_destroy(f->plan);
    free(f->seconds);
}
