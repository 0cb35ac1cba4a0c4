#include "forecast.h"

#include "base/file.h"
#include "base/resident.h"
#include "base/text.h"
#include "measure.h"

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
                                       .chosen = s->chosen,
                                       .known = known };
    if (!zt_session_machine(s, &machine, err))
        return false;
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
           (!f->plan || (zt_plan_predict(f->plan, &machine, err) && write_plan(f->plan, folder, err)));
}

void zt_forecast_step(struct zt_forecast *f, int64_t step, int64_t samples, double seconds) {
    if (!f->plan || step < COLD_STEPS || samples != f->plan->stage[0]->full.samples || f->count == MOST_STEPS)
        return;
    f->seconds[f->count++] = seconds;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

void zt_forecast_report(const struct zt_forecast *f, const struct zt_session *s) {
    char planned[32], there[32];
    if (!f->plan || !f->count)
        return;
    double *sorted = zt_malloc((size_t)f->count * sizeof *sorted);
    memcpy(sorted, f->seconds, (size_t)f->count * sizeof *sorted);
    qsort(sorted, (size_t)f->count, sizeof *sorted, ascending);
    double median = sorted[f->count / 2], predicted = f->plan->timeline.seconds;
    struct zt_rank_bytes bytes = zt_plan_bytes(f->plan, 0, 0);
    free(sorted);
    zt_say(&s->options->log, ZT_LOG_INFO,
           "Plan: predicted step %.3f ms, median of %d steps %.3f ms (%+.0f %%) | planned %s a rank, process %s%s",
           1e3 * predicted, f->count, 1e3 * median, 100 * (predicted / median - 1),
           zt_format_bytes(planned, (double)zt_rank_bytes_total(&bytes)),
           zt_format_bytes(there, (double)zt_resident_of(getpid()).now),
           s->processes || s->config->ranks == 1 ? "" : " of all ranks");
}

void zt_forecast_finish(struct zt_forecast *f) {
    zt_plan_destroy(f->plan);
    free(f->seconds);
}
