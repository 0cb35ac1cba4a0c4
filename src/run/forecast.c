#include "run/forecast.h"

#include "base/file.h"
#include "base/process_memory.h"
#include "base/sort.h"
#include "base/text.h"
#include "config/offload.h"
#include "plan/print.h"
#include "plan/profile.h"
#include "run/measure.h"
#include "run/rank/offload.h"
#include "run/stage_times.h"

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

static bool has_files(const struct zt_config *c) {
    return zt_offload_nvme(c, &c->zero.offload_optimizer) || zt_offload_nvme(c, &c->zero.offload_param);
}

/* Replaces the rates of files by the mean over the ranks that have files. */
static bool measure_files(struct zt_rank *rank, struct zt_comm *world, struct zt_machine *m, struct zt_err *err) {
    struct zt_file_rates rates;
    if (!zt_rank_measure_files(rank, &rates, err))
        return false;
    double sums[3] = { rates.read, rates.write, rates.read > 0 };
    if (!world->api->sum(world, sums, 3, err))
        return false;
    m->files_measured = sums[2] > 0;
    if (m->files_measured) {
        m->file_read_rate = sums[0] / sums[2];
        m->file_write_rate = sums[1] / sums[2];
    }
    return true;
}

bool zt_forecast_measure(struct zt_forecast *f, const struct zt_session *s, struct zt_device *device,
                         struct zt_comm *world, struct zt_rank *rank, struct zt_err *err) {
    struct zt_machine machine = f->plan ? f->plan->machine : (struct zt_machine){ 0 };
    const bool files = has_files(s->config);
    if (s->config->cluster[0] || (device->module && !files))
        return true;
    return (device->module || zt_measure(world, device->threads, s->config->parallel.stages > 1, &machine, err)) &&
           (!files || measure_files(rank, world, &machine, err)) &&
           (!f->plan || (zt_plan_predict(f->plan, &machine, NULL, err) && write_plan(f->plan, f->folder, err)));
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

static bool use_times(struct zt_forecast *f, const double *const *times, struct zt_err *err) {
    bool ok = !f->session->options->profile || show_profile(f, times, err);
    if (ok && !f->session->config->cluster[0])
        ok = zt_plan_predict(f->plan, &f->plan->machine, times, err) && write_plan(f->plan, f->folder, err);
    return ok;
}

bool zt_forecast_times(struct zt_forecast *f, const struct zt_rank *run, int steps, struct zt_comm *world,
                       struct zt_err *err) {
    struct zt_stage_times times = { 0 };
    bool ok = zt_stage_times_collect(&times, run, 0, steps, world, err) && (!f->plan || use_times(f, times.of, err));
    zt_stage_times_finish(&times);
    return ok;
}

void zt_forecast_step(struct zt_forecast *f, int64_t step, int64_t samples, double seconds) {
    if (!f->plan || samples != f->plan->stage[0]->steps.full.samples)
        return;
    f->latest = seconds;
    if (step < COLD_STEPS || f->count == MOST_STEPS)
        return;
    f->seconds[f->count++] = seconds;
}

bool zt_forecast_memory(const struct zt_forecast *f, int64_t step, const struct zt_device *device,
                        struct zt_comm *world, struct zt_err *err) {
    char peak[32], there[32], planned[32];
    double *of_rank = zt_calloc((size_t)world->size, sizeof *of_rank), most = 0;
    of_rank[world->rank] = (double)zt_process_memory_of(getpid()).peak;
    const bool ok = world->api->sum(world, of_rank, world->size, err);
    for (int i = 0; i < world->size; i++)
        most = of_rank[i] > most ? of_rank[i] : most;
    free(of_rank);
    if (!ok || !f->plan)
        return ok;
    const struct zt_rank_bytes bytes = zt_plan_bytes(f->plan, 0, 0);
    zt_say(&f->session->options->log, ZT_LOG_INFO,
           "Memory after step %lld: peak of a process %s%s%s; planned %s a rank", (long long)step,
           zt_format_bytes(peak, most), device->module ? ", on the device " : "",
           device->module ? zt_format_bytes(there, (double)device->allocated) : "",
           zt_format_bytes(planned, (double)zt_rank_bytes_total(&bytes)));
    return true;
}

void zt_forecast_report(const struct zt_forecast *f, const struct zt_session *s) {
    char planned[32], there[32];
    if (!f->plan || !f->count)
        return;
    double median = median_step(f), predicted = f->plan->timeline.seconds;
    struct zt_rank_bytes bytes = zt_plan_bytes(f->plan, 0, 0);
    zt_say(&s->options->log, ZT_LOG_INFO,
           "Plan: predicted step %.3f ms, median of %d step%s %.3f ms (%+.0f %%) | planned %s a rank, process %s%s",
           1e3 * predicted, f->count, zt_plural(f->count), 1e3 * median, 100 * (predicted / median - 1),
           zt_format_bytes(planned, (double)zt_rank_bytes_total(&bytes)),
           zt_format_bytes(there, (double)zt_process_memory_of(getpid()).now),
           s->processes || s->config->ranks == 1 ? "" : " of all ranks");
}

void zt_forecast_finish(struct zt_forecast *f) {
    zt_plan_destroy(f->plan);
    free(f->seconds);
}
