#include "report/profiler.h"

#include "base/file.h"
#include "base/text.h"
#include "report/flops.h"
#include "report/segment_times.h"
#include "report/wall_clock.h"
#include "run/rank/times.h"
#include "run/stage_times.h"

#include <stdlib.h>
#include <string.h>

enum { SEGMENT_STEP = 2 }; /* the segments are timed in the third step of a run, which is warm */

/* Returns the step (from 0) from which on `what` is due; -1: it is not asked for, or was due before this run. */
static int64_t due_from(const struct zt_profiler *p, enum zt_profile what) {
    const struct zt_flops_config *c = &p->config->flops;
    const int64_t flops = c->step > 0 ? c->step - 1 : 0;
    if (what == ZT_PROFILE_FLOPS)
        return c->enabled && c->step >= 0 && flops >= p->first ? flops : -1;
    return p->config->recompute.enabled && p->config->recompute.profile ? p->first + SEGMENT_STEP : -1;
}

static bool is_due(const struct zt_profiler *p, enum zt_profile what, int64_t step) {
    return !p->done[what] && due_from(p, what) >= 0 && step >= due_from(p, what);
}

bool zt_profiler_prepare(const struct zt_config *config, struct zt_err *err) {
    if (!config->flops.enabled || !config->flops.output_file[0])
        return true;
    char *folder = zt_path_folder(config->flops.output_file);
    bool ok = zt_file_make_folder(folder, err);
    free(folder);
    return ok;
}

bool zt_profiler_times(const struct zt_profiler *p, int64_t step) {
    return is_due(p, ZT_PROFILE_FLOPS, step) || is_due(p, ZT_PROFILE_SEGMENTS, step);
}

bool zt_profiler_times_segments(const struct zt_profiler *p, int64_t steps) {
    return steps > p->first + SEGMENT_STEP;
}

void zt_profiler_before(struct zt_profiler *p) {
    p->own = !zt_rank_times_on(p->rank);
    if (p->own)
        zt_rank_time(p->rank, 1);
}

/* ---- latencies ---- */

/* Sets the latencies of the slowest rank of each stage. Collective. */
static bool share_latency(const struct zt_profiler *p, struct zt_flops_latency *to, struct zt_err *err) {
    enum { FORWARD, BACKWARD, STEP, ITER, FIELDS };
    const struct zt_grid *grid = &p->plan->grid;
    const int count = p->plan->steps.full.micro_batches;
    const struct zt_step_timers timers = zt_timers_of_step(p->timers);
    const struct zt_wall_clock w = zt_wall_clock_of(&timers, -1, count);
    double *all = zt_calloc((size_t)grid->world * FIELDS, sizeof *all), *own = all + FIELDS * grid->rank;
    own[FORWARD] = w.forward / count;
    own[BACKWARD] = w.backward / count;
    own[STEP] = w.step;
    own[ITER] = w.seconds;
    bool ok = p->world->api->sum(p->world, all, grid->world * FIELDS, err);
    for (int rank = 0; ok && rank < grid->world; rank++) {
        struct zt_flops_latency *stage = &to[rank / grid->data];
        double *const fields[FIELDS] = { &stage->forward, &stage->backward, &stage->step, &stage->iter };
        for (int i = 0; i < FIELDS; i++)
            *fields[i] = all[rank * FIELDS + i] > *fields[i] ? all[rank * FIELDS + i] : *fields[i];
    }
    free(all);
    return ok;
}

/* ---- reports ---- */

/* Writes the text to output_file, or to flops.txt and the console. */
static bool put(const struct zt_profiler *p, char *text, struct zt_err *err) {
    const char *named = p->config->flops.output_file;
    char *path = named[0] ? zt_strdup(named) : zt_path_join(p->folder, "flops.txt");
    bool ok = zt_file_write(path, text, strlen(text), err);
    for (char *line = text, *end; !named[0] && *line; line = end + (*end != 0)) {
        end = line + strcspn(line, "\n");
        zt_say(p->log, ZT_LOG_INFO, "%.*s", (int)(end - line), line);
    }
    if (ok && named[0])
        zt_say(p->log, ZT_LOG_INFO, "Flops profile: %s", path);
    free(path);
    return ok;
}

static bool report(const struct zt_profiler *p, int64_t step, int64_t samples, const struct zt_stage_times *times,
                   const struct zt_flops_latency *latency, struct zt_err *err) {
    const struct zt_flops_report flops = { p->stages, step + 1, samples, times->of, latency };
    if (is_due(p, ZT_PROFILE_SEGMENTS, step))
        zt_segments_say(p->stages, times->of, step + 1, p->log);
    if (!is_due(p, ZT_PROFILE_FLOPS, step))
        return true;
    char *text = zt_flops_text(&flops, err);
    bool ok = text && put(p, text, err);
    free(text);
    return ok;
}

static bool collect_and_report(const struct zt_profiler *p, int64_t step, int64_t samples, struct zt_err *err) {
    struct zt_stage_times times = { 0 };
    struct zt_flops_latency *latency = zt_calloc((size_t)p->plan->grid.stages, sizeof *latency);
    const int timed = zt_rank_timed_count(p->rank);
    bool ok = zt_stage_times_collect(&times, p->rank, timed - 1, 1, p->world, err) && share_latency(p, latency, err) &&
              (!p->stages || report(p, step, samples, &times, latency, err));
    zt_stage_times_finish(&times);
    free(latency);
    return ok;
}

bool zt_profiler_step(struct zt_profiler *p, int64_t step, int64_t samples, struct zt_err *err) {
    const bool whole = samples == p->plan->steps.full.samples || p->plan->steps.full.samples == 0;
    bool ok = !whole || collect_and_report(p, step, samples, err);
    for (enum zt_profile what = 0; whole && what < ZT_PROFILES; what++)
        p->done[what] |= is_due(p, what, step);
    if (p->own)
        zt_rank_time_end(p->rank);
    p->own = false;
    return ok;
}
